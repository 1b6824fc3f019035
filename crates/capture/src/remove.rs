//! Removing a recording, and nothing else.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{ErrorKind, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, openat, statat, unlinkat};

use super::files::{BLKTRACE_LOG, COUNTERS, QEMU_LOG, TRACEFS_TEXT};
use super::{READY_FILE, relay};
use nestor_trace::TraceError;
use nestor_trace::TracePoint;
use nestor_trace::recording::{RecordSummary, SUMMARY_FILE};

/// The most that a summary takes: a name for each of thousands of processors.
const MOST_OF_A_SUMMARY: u64 = 1 << 20;

/// The files in a directory that belong to the recording there, through the open directory.
pub(super) struct Owned {
    directory: File,
    path: PathBuf,
    names: BTreeSet<OsString>,
}

impl Owned {
    /// Those of the recording in `directory`, which must not be a link.
    ///
    /// # Errors
    /// The directory holds no recording.
    pub fn find(directory: &Path) -> Result<Self, TraceError> {
        let flags = (OFlags::DIRECTORY | OFlags::NOFOLLOW).bits() as i32;
        let opened = File::options().read(true).custom_flags(flags).open(directory);
        let opened = opened.map_err(TraceError::io("open the directory of the recording", directory))?;
        // A directory without a summary is not a recording, whatever its files are called.
        let summary = summary_in(&opened, directory)?;
        let control: &[&str] = match summary.method {
            TracePoint::Blktrace => &[READY_FILE, SUMMARY_FILE, BLKTRACE_LOG],
            _ => &[READY_FILE, SUMMARY_FILE],
        };
        let listed = summary.files.iter().map(|file| file.as_os_str());
        let listed = listed.filter(|name| is_made_by(summary.method, name));
        let named = control.iter().map(OsStr::new).chain(listed);
        let is_there = |name: &&OsStr| {
            statat(&opened, *name, AtFlags::SYMLINK_NOFOLLOW)
                .is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::RegularFile)
        };
        let names = named.filter(is_there).map(OsStr::to_owned).collect();
        Ok(Self { directory: opened, path: directory.to_owned(), names })
    }

    /// Whether a file of that name is one of them.
    pub fn holds(&self, name: &OsStr) -> bool {
        self.names.contains(name)
    }

    /// Removes them.
    pub fn remove(mut self) -> Result<(), TraceError> {
        // The last to go: until then what is left is still known as a recording.
        let summary = self.names.take(OsStr::new(SUMMARY_FILE));
        for name in self.names.iter().chain(&summary) {
            match unlinkat(&self.directory, name, AtFlags::empty()) {
                Ok(()) | Err(rustix::io::Errno::NOENT) => {}
                Err(e) => {
                    return Err(TraceError::io("remove of the recording", self.path.join(name))(e.into()));
                }
            }
        }
        Ok(())
    }
}

/// The summary in an open directory, if it is a file there and no link.
fn summary_in(directory: &File, path: &Path) -> Result<RecordSummary, TraceError> {
    let path = path.join(SUMMARY_FILE);
    let read = || {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = File::from(openat(directory, SUMMARY_FILE, flags, Mode::empty())?);
        if !file.metadata()?.is_file() {
            return Err(ErrorKind::InvalidInput.into());
        }
        let mut text = Vec::new();
        file.take(MOST_OF_A_SUMMARY).read_to_end(&mut text)?;
        Ok(text)
    };
    let text = read().map_err(TraceError::io("read the recording's summary", &path))?;
    RecordSummary::parse(&text, path)
}

/// Whether a way of recording makes files of that name; a plain one, for it is compared whole.
fn is_made_by(method: TracePoint, name: &OsStr) -> bool {
    match method {
        TracePoint::Blktrace => is_relay_file(name),
        TracePoint::Tracefs => name == TRACEFS_TEXT,
        TracePoint::Hypervisor => name == QEMU_LOG,
        TracePoint::Calls => name == TRACEFS_TEXT || COUNTERS.iter().any(|counters| name == *counters),
        TracePoint::Application | TracePoint::DiskLog | TracePoint::LinkLog => false,
    }
}

/// Whether blktrace makes files of that name.
pub(super) fn is_relay_file(name: &OsStr) -> bool {
    name.to_str().is_some_and(|name| relay::cpu_of(name).is_some())
}

/// Removes the files that a recording consists of, and its directory if nothing else is in it: those that its summary names
/// and its way of recording makes, and the summary itself. What else is in it stays, links too; it is returned.
///
/// # Errors
/// The directory is a link or holds no recording, or a file of it cannot be removed.
pub fn remove_recording(directory: &Path) -> Result<Vec<PathBuf>, TraceError> {
    // Without the slash at the end that would follow a link.
    let written: PathBuf = directory.components().collect();
    let found = fs::symlink_metadata(&written).map_err(TraceError::io("look at", directory))?;
    if found.is_symlink() {
        let reason = "it is a link; name the directory that it leads to";
        return Err(TraceError::NotRemoved { path: directory.to_owned(), reason });
    }
    // `.` cannot be removed by that name.
    let real = fs::canonicalize(&written).map_err(TraceError::io("look at", directory))?;
    Owned::find(&real)?.remove()?;
    match fs::remove_dir(&real) {
        Ok(()) => return Ok(Vec::new()),
        Err(e) if e.kind() == ErrorKind::DirectoryNotEmpty => {}
        Err(e) => return Err(TraceError::io("remove the directory of the recording", directory)(e)),
    }
    let entries = fs::read_dir(&real).map_err(TraceError::io("look at", directory))?;
    let mut left: Vec<PathBuf> = entries.flatten().map(|entry| directory.join(entry.file_name())).collect();
    left.sort();
    Ok(left)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use nestor_trace::event::Device;

    fn recording(at: &Path, files: &[&str]) {
        let summary = RecordSummary {
            method: TracePoint::Blktrace,
            why: String::new(),
            device: Device::default(),
            partitions: Vec::new(),
            dropped_events: 0,
            files: files.iter().map(PathBuf::from).collect(),
            started_monotonic_ns: 0,
            started_realtime_ns: 0,
            stopped_monotonic_ns: 0,
            hypervisor: None,
        };
        fs::create_dir_all(at).unwrap();
        crate::write_summary(&summary, at).unwrap();
        for name in ["trace.blktrace.0", "trace.blktrace.11", "blktrace.log"] {
            fs::write(at.join(name), "x").unwrap();
        }
    }

    #[test]
    fn a_recording_goes_with_its_directory() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().join("recording");
        recording(&at, &["trace.blktrace.0", "trace.blktrace.11"]);
        assert_eq!(remove_recording(&at).unwrap(), Vec::<PathBuf>::new());
        assert!(!at.exists());
    }

    #[test]
    fn what_is_no_part_of_it_stays_also_what_its_summary_names() {
        let folder = tempfile::tempdir().unwrap();
        let outside = folder.path().join("thesis.odt");
        fs::write(&outside, "three years").unwrap();
        let at = folder.path().join("home");
        recording(&at, &["../thesis.odt", "notes.txt", "trace.blktrace.0"]);
        fs::create_dir_all(at.join("Documents/deeper")).unwrap();
        for name in ["notes.txt", "trace.blktrace.0.bak", "Documents/deeper/letter"] {
            fs::write(at.join(name), "mine").unwrap();
        }
        let left = remove_recording(&at).unwrap();
        let names: Vec<_> = left.iter().map(|path| path.file_name().unwrap().to_str().unwrap()).collect();
        let others = ["Documents", "notes.txt", "trace.blktrace.0.bak", "trace.blktrace.11"];
        assert_eq!(names, others);
        assert!(at.join("Documents/deeper/letter").exists() && outside.exists());
    }

    #[test]
    fn files_of_another_way_of_recording_and_those_it_does_not_list_stay() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().join("recording");
        recording(&at, &["trace.blktrace.0", "trace.txt", "qemu.log"]);
        fs::write(at.join("trace.txt"), "a letter").unwrap();
        fs::write(at.join("qemu.log"), "of a machine of mine").unwrap();
        let left = remove_recording(&at).unwrap();
        assert_eq!(left, ["qemu.log", "trace.blktrace.11", "trace.txt"].map(|name| at.join(name)));
        assert_eq!(fs::read_to_string(at.join("trace.txt")).unwrap(), "a letter");
    }

    #[test]
    fn links_in_a_recording_stay_and_a_linked_directory_is_refused_whole() {
        let folder = tempfile::tempdir().unwrap();
        let [at, link, victim] = ["recording", "link", "victim"].map(|name| folder.path().join(name));
        recording(&at, &["trace.blktrace.0", "trace.blktrace.11"]);
        fs::write(&victim, "of somebody else").unwrap();
        fs::remove_file(at.join("trace.blktrace.11")).unwrap();
        symlink(&victim, at.join("trace.blktrace.11")).unwrap();
        symlink(&at, &link).unwrap();
        for name in [link.clone(), link.join("."), PathBuf::from(format!("{}/", link.display()))] {
            let error = remove_recording(&name).unwrap_err().to_string();
            assert!(error.contains("it is a link"), "{error}");
            assert_eq!(fs::read_dir(&at).unwrap().count(), 4);
        }
        assert_eq!(remove_recording(&at).unwrap(), [at.join("trace.blktrace.11")]);
        assert_eq!(fs::read_to_string(&victim).unwrap(), "of somebody else");
    }

    #[test]
    fn a_summary_that_is_a_link_makes_no_recording() {
        let folder = tempfile::tempdir().unwrap();
        let [at, other] = ["recording", "other"].map(|name| folder.path().join(name));
        recording(&at, &["trace.blktrace.0"]);
        recording(&other, &[]);
        fs::remove_file(other.join(SUMMARY_FILE)).unwrap();
        symlink(at.join(SUMMARY_FILE), other.join(SUMMARY_FILE)).unwrap();
        assert!(remove_recording(&other).is_err());
        assert!(other.join("trace.blktrace.0").exists());
    }

    #[test]
    fn a_directory_without_a_recording_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("trace.txt"), "not ours").unwrap();
        assert!(remove_recording(folder.path()).is_err());
        assert!(folder.path().join("trace.txt").exists());
    }

    #[test]
    fn nothing_of_a_recording_is_written_through_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let victim = folder.path().join("victim");
        fs::write(&victim, "of somebody else").unwrap();
        for name in [SUMMARY_FILE, READY_FILE, "trace.txt"] {
            let link = folder.path().join(name);
            std::os::unix::fs::symlink(&victim, &link).unwrap();
            assert!(crate::new_file(&link).is_err(), "{name}");
        }
        assert_eq!(fs::read_to_string(&victim).unwrap(), "of somebody else");
    }
}
