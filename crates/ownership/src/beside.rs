//! Files that are there whole or not at all.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use tempfile::NamedTempFile;

/// How the names of files begin that are not complete.
const PREFIX: &str = ".nestor-";

/// A new file beside `path` that is to take its place when it is complete ([`NamedTempFile::persist`]). It is removed if it is
/// dropped before. The umask applies to `mode`.
///
/// # Errors
/// It cannot be created; the system's own error, without a path.
pub fn new_beside(path: &Path, mode: u32) -> io::Result<NamedTempFile> {
    let directory = path.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // Not `tempfile_in`, which hides the system's error number behind the path.
    tempfile::Builder::new().prefix(PREFIX).make_in(directory, |beside| {
        OpenOptions::new().read(true).write(true).create_new(true).mode(mode).open(beside)
    })
}

/// Puts a file with these contents in the place of whatever is at `path`, at once and never through a link.
///
/// # Errors
/// It cannot be written; then what was at `path` is still there.
pub fn replace(path: &Path, mode: u32, contents: &[u8]) -> io::Result<()> {
    put(path, mode, contents, |_| Ok(()))
}

/// The same with exactly this mode, whatever the umask, and even if the machine stops meanwhile.
///
/// # Errors
/// As [`replace`].
pub fn replace_durably(path: &Path, mode: u32, contents: &[u8]) -> io::Result<()> {
    put(path, mode, contents, |file| {
        file.set_permissions(Permissions::from_mode(mode))?;
        file.sync_all()
    })
}

fn put(
    path: &Path,
    mode: u32,
    contents: &[u8],
    complete: impl FnOnce(&File) -> io::Result<()>,
) -> io::Result<()> {
    let mut beside = new_beside(path, mode)?;
    beside.as_file_mut().write_all(contents)?;
    complete(beside.as_file())?;
    beside.persist(path).map(drop).map_err(|e| e.error)
}

/// Creates a new file with `mode` less the umask: never opens an existing one, and never follows a link.
///
/// # Errors
/// Something is there, or it cannot be created; the system's own error, without a path.
pub fn new_file(path: &Path, mode: u32) -> io::Result<File> {
    // With O_EXCL the last part of a path is not followed if it is a link (open(2)).
    OpenOptions::new().write(true).create_new(true).mode(mode).open(path)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_link_is_replaced_and_nothing_else_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let [victim, record] = ["victim", "record"].map(|name| folder.path().join(name));
        fs::write(&victim, "of somebody else").unwrap();
        symlink(&victim, &record).unwrap();
        replace(&record, 0o600, b"new").unwrap();
        assert_eq!(fs::read_to_string(&victim).unwrap(), "of somebody else");
        assert_eq!(fs::read_to_string(&record).unwrap(), "new");
        assert!(!record.is_symlink());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[test]
    fn what_fails_leaves_nothing_and_keeps_its_error_number() {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().join("directory");
        fs::create_dir_all(directory.join("full")).unwrap();
        assert!(replace(&directory, 0o600, b"new").is_err());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        let missing = new_beside(&folder.path().join("none/file"), 0o600).unwrap_err();
        assert_eq!(missing.raw_os_error(), Some(libc::ENOENT));
    }
}
