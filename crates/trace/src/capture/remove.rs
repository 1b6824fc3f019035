//! Removing a recording, and nothing else.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::{READY_FILE, RecordSummary, SUMMARY_FILE, hypervisor, relay, tracefs};
use crate::error::TraceError;

/// Removes the files that a recording consists of, and its directory if nothing else is in it. What else is in it stays;
/// it is returned.
///
/// # Errors
/// The directory holds no recording, or a file of it cannot be removed.
pub fn remove_recording(directory: &Path) -> Result<Vec<PathBuf>, TraceError> {
    // Whoever has no summary is no recording, whatever its files are called.
    RecordSummary::read(directory)?;
    let mut files: Vec<PathBuf> =
        [READY_FILE, relay::LOG, tracefs::FILE, hypervisor::LOG].iter().map(PathBuf::from).collect();
    files.extend(relay::recorded_files(directory));
    // The last to go: until then what is left is still known as a recording.
    files.push(SUMMARY_FILE.into());
    for path in files.iter().map(|name| directory.join(name)) {
        match fs::remove_file(&path) {
            Err(e) if e.kind() != ErrorKind::NotFound => {
                return Err(TraceError::io("remove of the recording", &path)(e));
            }
            _ => {}
        }
    }
    match fs::remove_dir(directory) {
        Ok(()) => return Ok(Vec::new()),
        Err(e) if e.kind() == ErrorKind::DirectoryNotEmpty => {}
        Err(e) => return Err(TraceError::io("remove the directory of the recording", directory)(e)),
    }
    let entries = fs::read_dir(directory).map_err(TraceError::io("look at", directory))?;
    let mut left: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    left.sort();
    Ok(left)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Device;
    use crate::metrics::TracePoint;

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
        summary.write(at).unwrap();
        for name in ["trace.blktrace.0", "trace.blktrace.11", "blktrace.log"] {
            fs::write(at.join(name), "x").unwrap();
        }
    }

    #[test]
    fn a_recording_goes_with_its_directory() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().join("recording");
        recording(&at, &["trace.blktrace.0"]);
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
        assert_eq!(names, ["Documents", "notes.txt", "trace.blktrace.0.bak"]);
        assert!(at.join("Documents/deeper/letter").exists() && outside.exists());
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
            assert!(super::super::new_file(&link).is_err(), "{name}");
        }
        assert_eq!(fs::read_to_string(&victim).unwrap(), "of somebody else");
    }

    #[test]
    fn a_directory_that_others_may_write_to_takes_no_recording() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("output");
        super::super::make_output(&output).unwrap();
        fs::set_permissions(&output, fs::Permissions::from_mode(0o777)).unwrap();
        let error = super::super::make_output(&output).unwrap_err().to_string();
        assert!(error.contains("others may write to it"), "{error}");
    }

    #[test]
    fn a_directory_that_the_group_of_root_may_write_to_takes_no_recording() {
        use std::os::unix::fs::PermissionsExt as _;
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o775)).unwrap();
        let error = super::super::make_output(folder.path()).unwrap_err().to_string();
        assert!(error.contains("its group may write to it") && error.contains("chmod g-w"), "{error}");
    }
}
