//! The directory of a recording, in which nothing but an earlier recording gives way to it.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::{fs, io};

use nestor_ownership::{self as ownership, Above, NotMade};
use rustix::fs::{Mode, OFlags, mkdirat, openat};
use rustix::io::Errno;

use super::READY_FILE;
use super::files::{BLKTRACE_LOG, COUNTERS, QEMU_LOG, TRACEFS_TEXT};
use super::remove::{self, Owned};
use nestor_trace::TraceError;
use nestor_trace::recording::SUMMARY_FILE;

/// Makes the directory of a recording, or makes room in one that holds an earlier one. It must be this user's alone, below
/// directories in which no other user can replace it: otherwise the recorder's output could be redirected.
pub(super) fn make(output: &Path) -> Result<(), TraceError> {
    let refused = |reason: String| TraceError::NotOurs { path: output.to_owned(), reason };
    // Without the slash at the end that would follow a link.
    let written: PathBuf = output.components().collect();
    let Above { directory: above, path } = ownership::make_above(&written).map_err(|e| match e {
        NotMade::NotOurs(distrust) => refused(distrust.to_string()),
        NotMade::System { path, source } => TraceError::io("make the output directory", &path)(source),
    })?;
    let name = Path::new(path.file_name().unwrap_or_default());
    let found = make_last(&above, name).map_err(TraceError::io("make the output directory", output))?;
    let Some(found) = found else { return Err(refused("it is a link".to_owned())) };
    if found.uid() != ownership::user() {
        return Err(refused("it belongs to another user".to_owned()));
    }
    if let Some(writers) = ownership::writers_at(&path, &found) {
        return Err(refused(writers.to_string()));
    }
    make_room(&written, refused)
}

/// The directory of a name in an open one, made if it is not there; `None` if the name is a link's.
fn make_last(above: &OwnedFd, name: &Path) -> io::Result<Option<fs::Metadata>> {
    let mode = Mode::RWXU | Mode::RGRP | Mode::XGRP | Mode::ROTH | Mode::XOTH;
    match mkdirat(above, name, mode) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(e) => return Err(e.into()),
    }
    // Opened only for its metadata: another user's may not be readable, and a link is opened itself.
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let found = fs::File::from(openat(above, name, flags, Mode::empty())?).metadata()?;
    match found.file_type() {
        kind if kind.is_dir() => Ok(Some(found)),
        kind if kind.is_symlink() => Ok(None),
        _ => Err(Errno::NOTDIR.into()),
    }
}

/// Removes an earlier recording, and only if all that is in the way of a new one belongs to it.
fn make_room(output: &Path, refused: impl Fn(String) -> TraceError) -> Result<(), TraceError> {
    let names = names_in(output)?;
    if names.is_empty() {
        return Ok(());
    }
    let Ok(earlier) = Owned::find(output) else {
        return Err(refused("it holds files but no recording".to_owned()));
    };
    let in_the_way = names.iter().find(|&name| is_of_a_recording(name) && !earlier.holds(name));
    if let Some(name) = in_the_way {
        let name = name.to_string_lossy();
        return Err(refused(format!("it contains `{name}`, which is not part of the recording")));
    }
    earlier.remove()
}

/// Removes what a recording that did not come to be has left. [`make`] has seen to it that files of these names were not there.
pub(super) fn clear(output: &Path) {
    for name in names_in(output).unwrap_or_default().iter().filter(|name| is_of_a_recording(name)) {
        let _ = fs::remove_file(output.join(name));
    }
}

fn names_in(directory: &Path) -> Result<Vec<OsString>, TraceError> {
    let look =
        || fs::read_dir(directory)?.map(|entry| Ok(entry?.file_name())).collect::<io::Result<Vec<_>>>();
    look().map_err(TraceError::io("look at the output directory", directory))
}

/// Whether some way of recording makes a file of that name.
fn is_of_a_recording(name: &OsString) -> bool {
    let fixed = [READY_FILE, SUMMARY_FILE, BLKTRACE_LOG, TRACEFS_TEXT, QEMU_LOG];
    fixed.iter().chain(&COUNTERS).any(|fixed| name == *fixed) || remove::is_relay_file(name)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    const USERS: [&str; 6] =
        ["ready", "record.json", "trace.txt", "qemu.log", "blktrace.log", "trace.blktrace.0"];

    /// The directory of a recording through tracefs.
    fn recording(at: &Path) {
        let summary = serde_json::json!({
            "method": "tracefs", "why": "asked for", "device": {"major": 7, "minor": 0}, "partitions": [],
            "dropped_events": 0, "files": ["trace.txt"], "started_monotonic_ns": 0, "started_realtime_ns": 0,
            "stopped_monotonic_ns": 0
        });
        fs::create_dir(at).unwrap();
        fs::write(at.join("record.json"), summary.to_string()).unwrap();
        fs::write(at.join("trace.txt"), "events").unwrap();
    }

    #[test]
    fn a_directory_with_files_of_the_users_takes_no_recording_and_keeps_them() {
        let folder = tempfile::tempdir().unwrap();
        for name in USERS.iter().chain(&["notes"]) {
            let at = folder.path().join(name);
            fs::create_dir(&at).unwrap();
            fs::write(at.join(name), "three years of work").unwrap();
            let error = make(&at).unwrap_err().to_string();
            assert!(error.contains("it holds files but no recording"), "{error}");
            assert_eq!(fs::read_to_string(at.join(name)).unwrap(), "three years of work");
        }
    }

    #[test]
    fn a_directory_that_the_group_of_root_may_write_to_takes_no_recording() {
        use std::os::unix::fs::PermissionsExt as _;
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o775)).unwrap();
        let error = make(folder.path()).unwrap_err().to_string();
        assert!(error.contains("its group may write to it") && error.contains("chmod g-w"), "{error}");
    }

    #[test]
    fn an_earlier_recording_gives_way_and_what_lies_beside_it_does_not() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().join("recording");
        recording(&at);
        fs::write(at.join("notes"), "mine").unwrap();
        make(&at).unwrap();
        assert_eq!(names_in(&at).unwrap(), ["notes"]);
    }

    #[test]
    fn a_file_that_is_in_the_way_and_no_part_of_the_recording_there_stays_and_so_does_the_recording() {
        let folder = tempfile::tempdir().unwrap();
        for (number, name) in ["qemu.log", "trace.blktrace.0"].into_iter().enumerate() {
            let at = folder.path().join(number.to_string());
            recording(&at);
            fs::write(at.join(name), "mine").unwrap();
            let error = make(&at).unwrap_err().to_string();
            assert!(
                error.contains(&format!("it contains `{name}`, which is not part of the recording")),
                "{error}"
            );
            assert_eq!(fs::read_dir(&at).unwrap().count(), 3);
        }
    }

    #[test]
    fn a_link_takes_no_recording_nor_does_a_directory_below_one_of_everybodys() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let [real, link, dangling, open] =
            ["real", "link", "dangling", "open"].map(|name| folder.path().join(name));
        recording(&real);
        symlink(&real, &link).unwrap();
        symlink(folder.path().join("nowhere"), &dangling).unwrap();
        for name in [link.clone(), link.join("."), PathBuf::from(format!("{}/", link.display())), dangling] {
            let error = make(&name).unwrap_err().to_string();
            assert!(error.contains("it is a link"), "{error}");
        }
        assert_eq!(fs::read_dir(&real).unwrap().count(), 2);
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(make(&open.join("recording")).is_err());
        assert_eq!(fs::read_dir(&open).unwrap().count(), 0);
    }

    #[test]
    fn below_a_directory_of_everybodys_no_recording_goes_where_another_user_leads_it() {
        use std::os::unix::fs::{PermissionsExt as _, chown, lchown};
        let folder = tempfile::tempdir().unwrap();
        let [shared, mine] = ["shared", "mine"].map(|name| folder.path().join(name));
        fs::create_dir(&shared).unwrap();
        fs::create_dir(&mine).unwrap();
        fs::set_permissions(&shared, fs::Permissions::from_mode(0o1777)).unwrap();
        make(&shared.join("new/deeper/recording")).unwrap();
        assert!(shared.join("new/deeper/recording").is_dir());
        // Neither a link to what is not there, which a look at the way may take for nothing.
        symlink(mine.join("absent"), shared.join("link")).unwrap();
        fs::create_dir(shared.join("theirs")).unwrap();
        let given = lchown(shared.join("link"), Some(4321), Some(4321))
            .and_then(|()| chown(shared.join("theirs"), Some(4321), Some(4321)));
        if given.is_err() {
            return;
        }
        for name in ["link", "link/recording", "theirs", "theirs/recording", "theirs/new/recording"] {
            make(&shared.join(name)).unwrap_err();
        }
        assert_eq!(fs::read_dir(&mine).unwrap().count(), 0);
        assert_eq!(fs::read_dir(shared.join("theirs")).unwrap().count(), 0);
    }

    #[test]
    fn a_directory_that_others_may_write_to_takes_no_recording() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("output");
        make(&output).unwrap();
        fs::set_permissions(&output, fs::Permissions::from_mode(0o777)).unwrap();
        let error = make(&output).unwrap_err().to_string();
        assert!(error.contains("others may write to it"), "{error}");
    }
}
