//! Directories and files of the agent's own, in which nobody else can have prepared anything.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, fstat, mkdirat, openat};
use rustix::io::Errno;

use super::Agent;
use super::requests::Obeyed;
use crate::message::Answer;

/// Random bytes of a name: nobody guesses 128 bits.
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
            return Err(format!("{prefix:?} cannot begin a directory's name: letters, digits and - can"));
        }
        let made = make_below(&self.work_directory, prefix);
        made.map(Answer::Path)
            .map_err(|e| format!("a directory could not be made in {}: {e}", self.work_directory.display()))
    }
}

fn make_below(parent: &Path, prefix: &str) -> io::Result<String> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = openat(CWD, parent, flags, Mode::empty())?;
    let found = fstat(&directory)?;
    if found.st_uid != rustix::process::geteuid().as_raw() || found.st_mode & 0o077 != 0 {
        let what = "it belongs to another user, or others may enter it";
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, what));
    }
    for _ in 0..TRIES {
        let name = format!("{prefix}-{}", random_digits()?);
        match mkdirat(&directory, &name, Mode::RWXU) {
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

fn random_digits() -> io::Result<String> {
    let mut bytes = [0; RANDOM_BYTES];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Opens a file to be emptied (`TRUNC`) or added to (`APPEND`), made for this user alone if it is not there. A link in
/// its place is an error.
pub(super) fn open_to_write(path: &Path, how: OFlags) -> io::Result<File> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC | how;
    Ok(File::from(openat(CWD, path, flags, Mode::RUSR | Mode::WUSR)?))
}

/// Makes a file that did not exist, for this user alone; never through a link, never over what is there.
pub(super) fn create_file(path: &str, contents: &[u8]) -> Obeyed {
    let create = || {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(CWD, path, flags, Mode::RUSR | Mode::WUSR)?;
        File::from(file).write_all(contents)
    };
    create().map(|()| Answer::Done).map_err(|e: io::Error| format!("{path} could not be made: {e}"))
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
        assert!(refusal.contains("others may enter it"), "{refusal}");
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
        let at = |name: &str| folder.path().join(name).display().to_string();
        create_file(&at("new"), b"text").unwrap();
        assert_eq!(fs::read(at("new")).unwrap(), b"text");
        assert_eq!(fs::metadata(at("new")).unwrap().mode() & 0o7777, 0o600);
        assert!(create_file(&at("new"), b"more").is_err());
        symlink(at("nowhere"), at("link")).unwrap();
        assert!(create_file(&at("link"), b"more").is_err());
        assert!(!Path::new(&at("nowhere")).exists());
        assert_eq!(fs::read(at("new")).unwrap(), b"text");
    }
}
