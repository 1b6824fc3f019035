//! Files that are written whole or not at all, for whoever names them.

use std::fs::{self, File, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// Writes a file that the user named. One that is there stays until the new one takes its place, and a link is replaced, not
/// followed. A device or a pipe, or a link to one such as `/dev/stdout`, stays what it is and is written to.
///
/// # Errors
/// The file cannot be made there, or not be written.
pub fn write(path: &Path, contents: &[u8]) -> io::Result<()> {
    if fs::metadata(path).is_ok_and(|found| !found.is_file()) {
        return File::options().write(true).open(path)?.write_all(contents);
    }
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // The user's umask still applies.
    let readable = Permissions::from_mode(0o666);
    let mut file = tempfile::Builder::new().prefix(".nestor-").permissions(readable).tempfile_in(parent)?;
    file.write_all(contents)?;
    file.persist(path).map(drop).map_err(|e| e.error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{FileTypeExt as _, symlink};

    #[test]
    fn a_link_is_replaced_and_what_it_names_stays() {
        let folder = tempfile::tempdir().unwrap();
        let [victim, report] = ["victim", "report.html"].map(|name| folder.path().join(name));
        fs::write(&victim, "of somebody else").unwrap();
        symlink(&victim, &report).unwrap();
        write(&report, b"<html>").unwrap();
        assert_eq!(fs::read_to_string(&victim).unwrap(), "of somebody else");
        assert_eq!(fs::read_to_string(&report).unwrap(), "<html>");
        assert!(!report.is_symlink());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "nothing else is left");
    }

    #[test]
    fn a_pipe_and_a_link_to_one_are_written_to_and_stay() {
        let folder = tempfile::tempdir().unwrap();
        let [pipe, link] = ["pipe", "link"].map(|name| folder.path().join(name));
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        symlink(&pipe, &link).unwrap();
        for named in [&pipe, &link] {
            // Open both ways, so that writing to it does not wait for a reader.
            let mut reader = File::options().read(true).write(true).open(&pipe).unwrap();
            write(named, b"text").unwrap();
            let mut read = [0; 4];
            io::Read::read_exact(&mut reader, &mut read).unwrap();
            assert_eq!(&read, b"text");
        }
        assert!(fs::symlink_metadata(&pipe).unwrap().file_type().is_fifo());
        assert!(link.is_symlink());
    }

    #[test]
    fn a_directory_is_no_file() {
        let folder = tempfile::tempdir().unwrap();
        assert!(write(folder.path(), b"text").is_err());
        assert!(folder.path().is_dir());
    }
}
