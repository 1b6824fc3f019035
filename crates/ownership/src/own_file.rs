//! Output files that replace only earlier ones of their kind.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use crate::{new_file, open_above};

/// A kind of file with a magic number of its own.
#[derive(Clone, Copy, Debug)]
pub struct FileKind {
    /// Its name in messages, with its article: `a request log`.
    pub name: &'static str,
    /// The first bytes of each.
    pub magic: &'static [u8; 8],
}

impl FileKind {
    /// Creates the file with `mode` less the umask, or truncates this user's file there if it is empty or of this kind. A
    /// link is not followed, and other files are not changed.
    ///
    /// # Errors
    /// If something else is there, the file cannot be created or opened, or another user could redirect the path.
    pub fn create(self, path: &Path, mode: u32) -> io::Result<File> {
        open_above(path)?;
        match new_file(path, mode) {
            Err(e) if e.kind() == ErrorKind::AlreadyExists => self.emptied(path),
            made => made,
        }
    }

    fn emptied(self, path: &Path) -> io::Result<File> {
        let refused = |reason: &str| {
            let name = self.name;
            io::Error::other(format!("{reason}; Nestor replaces only {name} of your own; name another file"))
        };
        // Checked before opening, because opening a device may have side effects.
        let found = fs::symlink_metadata(path)?;
        if found.is_symlink() {
            return Err(refused("it is a link"));
        }
        if !found.is_file() {
            return Err(refused("it is not a regular file"));
        }
        let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
        let file = OpenOptions::new().read(true).write(true).custom_flags(flags).open(path)?;
        let found = file.metadata()?;
        if !found.is_file() {
            return Err(refused("it is not a regular file"));
        }
        if found.uid() != rustix::process::geteuid().as_raw() {
            return Err(refused("it belongs to another user"));
        }
        let mut start = [0; 8];
        if found.len() > 0 && (file.read_exact_at(&mut start, 0).is_err() || start != *self.magic) {
            return Err(refused("it holds something else"));
        }
        file.set_len(0)?;
        Ok(file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    const KIND: FileKind = FileKind { name: "a test's file", magic: b"NSTRTEST" };

    #[test]
    fn only_nothing_an_empty_file_and_one_of_the_kind_are_written() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("empty"), "").unwrap();
        fs::write(at("ours"), "NSTRTEST and more").unwrap();
        for name in ["new", "empty", "ours"] {
            KIND.create(&at(name), 0o600).unwrap();
            assert_eq!(fs::read(at(name)).unwrap(), b"", "{name}");
        }
        assert_eq!(fs::metadata(at("new")).unwrap().mode() & 0o777, 0o600);
    }

    /// Needs root, because only root can change an owner.
    #[test]
    fn nothing_is_made_or_emptied_through_another_users_link() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("ours"), "NSTRTEST").unwrap();
        symlink(folder.path(), at("link")).unwrap();
        KIND.create(&at("link/by-own-link"), 0o600).unwrap();
        if std::os::unix::fs::lchown(at("link"), Some(4321), None).is_err() {
            return;
        }
        for name in ["link/ours", "link/new"] {
            let refused = KIND.create(&at(name), 0o600).unwrap_err().to_string();
            assert!(refused.contains("link is a link of user 4321"), "{refused}");
        }
        assert_eq!(fs::read(at("ours")).unwrap(), b"NSTRTEST");
        assert!(!at("new").exists());
    }

    #[test]
    fn no_other_file_is_emptied_and_no_link_followed() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("thesis.odt"), "three years of work").unwrap();
        fs::write(at("short"), "NSTR").unwrap();
        fs::write(at("ours"), "NSTRTEST").unwrap();
        symlink(at("ours"), at("link")).unwrap();
        symlink(at("nowhere"), at("dangling")).unwrap();
        fs::create_dir(at("folder")).unwrap();
        let cases = [
            ("thesis.odt", "it holds something else"),
            ("short", "it holds something else"),
            ("link", "it is a link"),
            ("dangling", "it is a link"),
            ("folder", "it is not a regular file"),
        ];
        for (name, reason) in cases {
            let error = KIND.create(&at(name), 0o600).unwrap_err().to_string();
            assert!(error.contains(reason), "{name}: {error}");
        }
        assert!(KIND.create(Path::new("/dev/null"), 0o600).is_err());
        assert_eq!(fs::read(at("thesis.odt")).unwrap(), b"three years of work");
        assert_eq!(fs::read(at("ours")).unwrap(), b"NSTRTEST");
        assert!(!at("nowhere").exists());
    }
}
