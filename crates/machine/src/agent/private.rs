//! Directories and files of the agent's own, in which no other user can have prepared anything.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::Path;

use nestor_stop::lock;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags, fstat, mkdirat, openat, openat2, statat};
use rustix::io::Errno;

use super::requests::Obeyed;
use super::{Agent, random};
use crate::message::Answer;
use crate::refusal::{Cause, Refusal};

/// Random bytes of a name: 128 bits cannot be guessed.
const RANDOM_BYTES: usize = 16;
/// How often another name is tried; that even one is taken is chance of 1 in 2¹²⁸.
const TRIES: usize = 8;
/// Longest part of a name that a controller chooses.
const LONGEST_PREFIX: usize = 64;

impl Agent {
    /// Makes a directory as `mkdtemp` does, below the agent's own: it did not exist before, and only this user may enter it.
    pub(super) fn make_private_directory(&self, prefix: &str) -> Obeyed {
        let fits = |c: char| c.is_ascii_alphanumeric() || c == '-';
        if prefix.is_empty() || prefix.len() > LONGEST_PREFIX || !prefix.chars().all(fits) {
            let message = format!("{prefix:?} cannot begin a directory's name: letters, digits and - can");
            return Err(Refusal::new(Cause::Other, message));
        }
        let made =
            self.own_directory().and_then(|own| make_below(&own.as_fd(), &self.work_directory, prefix));
        made.map(Answer::Path).map_err(|e| {
            Refusal::of_io(&format!("a directory could not be made in {}", self.work_directory.display()), &e)
        })
    }

    /// Makes a file that did not exist; below the agent's own directory through no link at all, elsewhere not as a link.
    pub(super) fn create_file(&self, path: &str, contents: &[u8]) -> Obeyed {
        let made = self
            .own_directory()
            .and_then(|own| create_file(&own.as_fd(), &self.work_directory, Path::new(path), contents));
        made.map(|()| Answer::Done).map_err(|e| Refusal::of_io(&format!("{path} could not be made"), &e))
    }

    /// The open directory, so that the ledger is not held while it is used.
    fn own_directory(&self) -> io::Result<OwnedFd> {
        lock(&self.ledger).directory().as_fd().try_clone_to_owned()
    }
}

/// `directory` is what was opened at `parent`; who asks will go by the path, so that has still to lead there.
fn make_below(directory: &BorrowedFd<'_>, parent: &Path, prefix: &str) -> io::Result<String> {
    let found = fstat(directory)?;
    let there = statat(CWD, parent, AtFlags::SYMLINK_NOFOLLOW)?;
    if (there.st_dev, there.st_ino) != (found.st_dev, found.st_ino) {
        return Err(io::Error::other("something else is in its place"));
    }
    if found.st_uid != rustix::process::geteuid().as_raw() || found.st_mode & 0o077 != 0 {
        let what = "it belongs to another user, or others may enter it";
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, what));
    }
    for _ in 0..TRIES {
        let name = format!("{prefix}-{}", random_digits()?);
        match mkdirat(directory, &name, Mode::RWXU) {
            Ok(()) => {
                let path = parent.join(name);
                let text = path.to_str().ok_or_else(|| io::Error::other("its path is not UTF-8"))?;
                return Ok(text.to_owned());
            }
            Err(Errno::EXIST) => {}
            Err(e) => return Err(e.into()),
        }
    }
    Err(io::Error::other("every name that was tried exists already"))
}

/// Enough that the name cannot be guessed, in hexadecimal.
pub(super) fn random_digits() -> io::Result<String> {
    random::bytes::<RANDOM_BYTES>().map(hex::encode)
}

/// Opens a file to be emptied (`TRUNC`) or added to (`APPEND`), made for this user alone if it is not there. A link in
/// its place is an error.
pub(super) fn open_to_write(path: &Path, how: OFlags) -> io::Result<File> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC | how;
    Ok(File::from(openat(CWD, path, flags, Mode::RUSR | Mode::WUSR)?))
}

/// Makes a file that did not exist, for this user alone; never through a link, never over what is there.
fn create_file(at: &BorrowedFd<'_>, below: &Path, path: &Path, contents: &[u8]) -> io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mode = Mode::RUSR | Mode::WUSR;
    let file = match path.strip_prefix(below) {
        Ok(relative) => {
            let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
            match openat2(at, relative, flags, mode, resolve) {
                // Kernels before 5.6, and sandboxes that do not know this call.
                Err(Errno::NOSYS | Errno::PERM) => openat(CWD, path, flags, mode),
                file => file,
            }
        }
        Err(_) => openat(CWD, path, flags, mode),
    };
    File::from(file?).write_all(contents)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};

    fn agent(root: &Path) -> Agent {
        Agent::new(root).unwrap()
    }

    fn path(made: Obeyed) -> String {
        match made.unwrap() {
            Answer::Path(path) => path,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_private_directory_is_new_and_for_its_owner_alone() {
        let root = tempfile::tempdir().unwrap();
        let agent = agent(&root.path().join("work"));
        let made = [(); 3].map(|()| path(agent.make_private_directory("load")));
        assert!(made[0] != made[1] && made[1] != made[2] && made[0] != made[2]);
        for directory in made {
            let found = fs::symlink_metadata(&directory).unwrap();
            assert!(found.is_dir());
            assert_eq!(found.mode() & 0o7777, 0o700, "{directory}");
            assert!(Path::new(&directory).starts_with(&agent.work_directory));
        }
        for prefix in ["", "..", "a/b", "a\0b", "/etc"] {
            assert!(agent.make_private_directory(prefix).is_err(), "{prefix:?}");
        }
        agent.finish();
    }

    #[test]
    fn nothing_is_made_where_others_may_enter() {
        let root = tempfile::tempdir().unwrap();
        let agent = agent(&root.path().join("work"));
        fs::set_permissions(&agent.work_directory, fs::Permissions::from_mode(0o755)).unwrap();
        let refusal = agent.make_private_directory("load").unwrap_err();
        assert!(refusal.message.contains("others may enter it"), "{refusal}");
        let real = root.path().join("real");
        fs::rename(&agent.work_directory, &real).unwrap();
        fs::set_permissions(&real, fs::Permissions::from_mode(0o700)).unwrap();
        symlink(&real, &agent.work_directory).unwrap();
        assert!(agent.make_private_directory("load").is_err(), "through a link");
    }

    #[test]
    fn what_a_link_names_is_neither_emptied_nor_added_to() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("kept"), "kept").unwrap();
        symlink(folder.path().join("kept"), folder.path().join("link")).unwrap();
        for how in [OFlags::TRUNC, OFlags::APPEND] {
            assert!(open_to_write(&folder.path().join("link"), how).is_err());
            open_to_write(&folder.path().join("new"), how).unwrap().write_all(b"text").unwrap();
        }
        assert_eq!(fs::read(folder.path().join("kept")).unwrap(), b"kept");
        assert_eq!(fs::read(folder.path().join("new")).unwrap(), b"texttext");
    }

    #[test]
    fn a_file_is_made_neither_over_another_nor_through_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let agent = agent(&folder.path().join("work"));
        let own = agent.work_directory.clone();
        let elsewhere = folder.path().canonicalize().unwrap();
        for place in [&own, &elsewhere] {
            let at = |name: &str| place.join(name).display().to_string();
            let create = |path: String, contents: &[u8]| agent.create_file(&path, contents);
            create(at("new"), b"text").unwrap();
            assert_eq!(fs::read(at("new")).unwrap(), b"text");
            assert_eq!(fs::metadata(at("new")).unwrap().mode() & 0o7777, 0o600);
            assert!(create(at("new"), b"more").is_err());
            symlink(at("nowhere"), at("link")).unwrap();
            assert!(create(at("link"), b"more").is_err());
            assert!(!Path::new(&at("nowhere")).exists());
            assert_eq!(fs::read(at("new")).unwrap(), b"text");
        }
        symlink(&elsewhere, own.join("way")).unwrap();
        for way in ["way/through", "../../through"] {
            assert!(agent.create_file(&own.join(way).display().to_string(), b"").is_err(), "{way}");
        }
        assert!(!elsewhere.join("through").exists());
        agent.finish();
    }
}
