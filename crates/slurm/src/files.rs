//! The directory that the controller and all tasks share.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use nestor_ownership::{make_above, of_user_or_root, replace};
use rustix::fs::{FlockOperation, flock};

/// The program that runs, whatever has become of its file.
const OWN_BINARY: &str = "/proc/self/exe";

/// Where one study is spread from. Nobody else may write to it, and one controller at a time uses it.
#[derive(Debug)]
pub struct SharedDirectory {
    path: PathBuf,
    /// Held until it is dropped.
    _lock: File,
}

impl SharedDirectory {
    /// Makes the directory of a study in `base`, and takes it.
    ///
    /// # Errors
    /// If it cannot be made, another user could write to it, or another controller has it.
    pub fn open(base: &Path, study_hash: &str) -> io::Result<Self> {
        let base = std::path::absolute(base)?;
        let name = study_hash.get(..16).unwrap_or(study_hash);
        let above = make_above(&base.join(name)).map_err(|e| io::Error::other(e.to_string()))?;
        let path = above.path;
        make_private(&path)?;
        let lock = File::options().create(true).truncate(false).write(true).open(path.join("lock"))?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive).map_err(|e| match e {
            rustix::io::Errno::WOULDBLOCK => {
                io::Error::other("another nestor spreads this study from there now")
            }
            e => e.into(),
        })?;
        Ok(Self { path, _lock: lock })
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// This program, put there so that every node runs the same one.
    ///
    /// # Errors
    /// If it cannot be copied.
    pub fn program(&self) -> io::Result<PathBuf> {
        let path = self.path.join("nestor");
        let length = fs::metadata(OWN_BINARY)?.len();
        let is_there = fs::metadata(&path).is_ok_and(|there| there.len() == length);
        if !is_there || fs::read(&path)? != fs::read(OWN_BINARY)? {
            replace(&path, 0o700, &fs::read(OWN_BINARY)?)?;
        }
        Ok(path)
    }

    /// The directories of array jobs that are there, the oldest first.
    pub fn arrays(&self) -> Vec<PathBuf> {
        let mut numbers: Vec<u32> = self.numbers().collect();
        numbers.sort_unstable();
        numbers.into_iter().map(|number| self.array(number)).collect()
    }

    fn numbers(&self) -> impl Iterator<Item = u32> {
        let entries = fs::read_dir(&self.path).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().to_str()?.strip_prefix("array-")?.parse().ok())
    }

    fn array(&self, number: u32) -> PathBuf {
        self.path.join(format!("array-{number}"))
    }

    /// A new directory for an array job.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn new_array(&self) -> io::Result<PathBuf> {
        let path = self.array(self.numbers().max().unwrap_or(0) + 1);
        DirBuilder::new().mode(0o700).create(&path)?;
        Ok(path)
    }

    /// Removes the directory, when everything in it is kept elsewhere.
    ///
    /// # Errors
    /// If it cannot be removed.
    pub fn remove(self) -> io::Result<()> {
        fs::remove_dir_all(&self.path)
    }
}

/// Makes a directory that only this user may use, or checks that one that is there is.
fn make_private(path: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(path) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
        made => return made,
    }
    let metadata = fs::symlink_metadata(path)?;
    of_user_or_root(path, &metadata).map_err(|e| io::Error::other(e.to_string()))?;
    match metadata.is_dir() && metadata.mode() & 0o7 == 0 {
        true => Ok(()),
        false => Err(io::Error::other(format!("{} is not a directory of this user's alone", path.display()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_controller_has_a_study() {
        let folder = tempfile::tempdir().unwrap();
        let shared = SharedDirectory::open(folder.path(), "0123456789abcdef0123").unwrap();
        assert_eq!(shared.path().file_name().unwrap(), "0123456789abcdef");
        let second = SharedDirectory::open(folder.path(), "0123456789abcdef0123").unwrap_err();
        assert_eq!(second.to_string(), "another nestor spreads this study from there now");
        SharedDirectory::open(folder.path(), "another").unwrap();
        for number in 1..=11 {
            assert_eq!(shared.new_array().unwrap(), shared.path().join(format!("array-{number}")));
        }
        assert_eq!(shared.arrays().len(), 11);
        assert_eq!(shared.arrays()[10], shared.path().join("array-11"), "by number, not by name");
        drop(shared);
        SharedDirectory::open(folder.path(), "0123456789abcdef0123").unwrap().remove().unwrap();
        assert!(!folder.path().join("0123456789abcdef").exists());
    }

    #[test]
    fn the_program_is_there_for_every_node() {
        let folder = tempfile::tempdir().unwrap();
        let shared = SharedDirectory::open(folder.path(), "s").unwrap();
        let program = shared.program().unwrap();
        assert_eq!(fs::read(&program).unwrap(), fs::read(OWN_BINARY).unwrap());
        assert_eq!(fs::metadata(&program).unwrap().mode() & 0o777, 0o700);
        fs::write(&program, "an older one").unwrap();
        assert_eq!(fs::read(shared.program().unwrap()).unwrap(), fs::read(OWN_BINARY).unwrap());
    }
}
