//! Where a recording is while it is made, and that none stays behind.

use std::fs;
use std::fs::File;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use nestor_ownership::{place_for_temporary, temporary_directory_in};
use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::process::geteuid;
use tempfile::TempDir;

/// A recording in memory does not record its own writes.
const IN_MEMORY: &str = "/dev/shm";
const PREFIX: &str = "nestor-characterize-";
/// A younger directory may be one that is not locked yet.
const YOUNG: Duration = Duration::from_secs(60);

/// A directory for a recording, locked as long as it is used, removed in the end.
pub struct Recording {
    directory: TempDir,
    _lock: File,
}

impl Recording {
    /// Makes it in memory where there is room for that, after what killed runs have left there is removed.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn new() -> Result<Self> {
        let at = Path::new(IN_MEMORY);
        Self::within(&if at.is_dir() { at.to_path_buf() } else { place_for_temporary() })
    }

    fn within(at: &Path) -> Result<Self> {
        remove_abandoned(at, YOUNG);
        let cannot = || format!("cannot create a directory in {} for the recording", at.display());
        let directory = temporary_directory_in(at, PREFIX).with_context(cannot)?;
        let lock = locked(directory.path()).with_context(cannot)?;
        Ok(Self { directory, _lock: lock })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }
}

/// Removes directories of dead runs, whose lock is free. Only the user's own, and never through a link, for
/// everybody may write in that place.
fn remove_abandoned(at: &Path, older_than: Duration) {
    let entries = fs::read_dir(at).into_iter().flatten().flatten();
    let ours = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(PREFIX));
    for directory in ours.map(|entry| entry.path()) {
        // The lock is kept until the directory is gone.
        if let (true, Ok(_lock)) = (is_ours(&directory, older_than), locked(&directory)) {
            let _ = fs::remove_dir_all(&directory);
        }
    }
}

/// The directory with its lock, which ends with the process that holds it, however that ends.
fn locked(directory: &Path) -> std::io::Result<File> {
    let flags = (OFlags::DIRECTORY | OFlags::NOFOLLOW).bits() as i32;
    let directory = File::options().read(true).custom_flags(flags).open(directory)?;
    flock(&directory, FlockOperation::NonBlockingLockExclusive)?;
    Ok(directory)
}

fn is_ours(directory: &Path, older_than: Duration) -> bool {
    let Ok(about) = fs::symlink_metadata(directory) else { return false };
    let age = about.modified().ok().and_then(|then| then.elapsed().ok());
    about.is_dir() && about.uid() == geteuid().as_raw() && age.is_some_and(|age| age >= older_than)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_killed_run_left_is_removed_and_what_is_in_use_is_not() {
        let at = tempfile::tempdir().unwrap();
        let used = Recording::within(at.path()).unwrap();
        let left = at.path().join(format!("{PREFIX}left"));
        fs::create_dir(&left).unwrap();
        fs::write(left.join("trace.blktrace.0"), [0; 48]).unwrap();
        let others = at.path().join("another");
        fs::create_dir(&others).unwrap();
        let link = at.path().join(format!("{PREFIX}link"));
        std::os::unix::fs::symlink(&others, &link).unwrap();
        remove_abandoned(at.path(), Duration::from_secs(3600));
        assert!(left.exists(), "it is too young to be sure");
        remove_abandoned(at.path(), Duration::ZERO);
        assert!(!left.exists() && others.exists() && link.exists() && used.path().exists());
        let path = used.path().to_path_buf();
        drop(used);
        assert!(!path.exists());
    }
}
