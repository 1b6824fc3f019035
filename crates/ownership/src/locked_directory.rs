//! Temporary directories that do not outlive their program for long, however that ends.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::Duration;

use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::process::geteuid;
use tempfile::TempDir;

use crate::temporary::temporary_directory_in;

/// A younger directory may be one that is not locked yet.
const YOUNG: Duration = Duration::from_secs(60);

/// A temporary directory, locked as long as it is used, removed in the end.
pub struct LockedDirectory {
    directory: TempDir,
    _lock: File,
}

impl LockedDirectory {
    /// Makes one in `place`, as [`temporary_directory_in`], after those are removed that killed programs have left there under this
    /// prefix.
    ///
    /// # Errors
    /// If it cannot be created, or another user could redirect the path.
    pub fn new_in(place: &Path, prefix: &str) -> io::Result<Self> {
        remove_abandoned(place, prefix, YOUNG);
        let directory = temporary_directory_in(place, prefix)?;
        let lock = locked(directory.path())?;
        Ok(Self { directory, _lock: lock })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }
}

/// Removes directories of dead programs, whose lock is free. Only the user's own, and never through a link, for everybody may write in
/// that place.
fn remove_abandoned(place: &Path, prefix: &str, older_than: Duration) {
    let entries = fs::read_dir(place).into_iter().flatten().flatten();
    let ours = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(prefix));
    for directory in ours.map(|entry| entry.path()) {
        // The lock is kept until the directory is gone.
        if let (true, Ok(_lock)) = (is_ours(&directory, older_than), locked(&directory)) {
            let _ = fs::remove_dir_all(&directory);
        }
    }
}

/// The directory with its lock, which ends with the process that holds it, however that ends.
fn locked(directory: &Path) -> io::Result<File> {
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

    const PREFIX: &str = "nestor-test-";

    #[test]
    fn what_a_killed_program_left_is_removed_and_what_is_in_use_is_not() {
        let at = tempfile::tempdir().unwrap();
        let used = LockedDirectory::new_in(at.path(), PREFIX).unwrap();
        let left = at.path().join(format!("{PREFIX}left"));
        fs::create_dir(&left).unwrap();
        fs::write(left.join("trace.blktrace.0"), [0; 48]).unwrap();
        let others = at.path().join("another");
        fs::create_dir(&others).unwrap();
        let link = at.path().join(format!("{PREFIX}link"));
        std::os::unix::fs::symlink(&others, &link).unwrap();
        remove_abandoned(at.path(), PREFIX, Duration::from_secs(3600));
        assert!(left.exists(), "it is too young to be sure");
        remove_abandoned(at.path(), PREFIX, Duration::ZERO);
        assert!(!left.exists() && others.exists() && link.exists() && used.path().exists());
        let path = used.path().to_path_buf();
        drop(used);
        assert!(!path.exists());
    }
}
