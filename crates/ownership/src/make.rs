//! Creates directories safely although another user could plant something between the check of the path and the creation.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};
use rustix::io::Errno;

use super::walk::{Trust, above, check_directory};
use super::{Distrust, unknown};

/// Why the directories above a path were not made.
#[derive(Debug, thiserror::Error)]
pub enum NotMade {
    /// Another user could redirect the path.
    #[error(transparent)]
    NotOurs(#[from] Distrust),
    /// The system refuses to create one.
    #[error("the directory {} could not be {}: {source}", .path.display(), if source.kind() == io::ErrorKind::NotFound { "found" } else { "made" })]
    System {
        /// The directory.
        path: PathBuf,
        /// Its answer.
        source: io::Error,
    },
}

/// The open directory above a path.
#[derive(Debug)]
pub struct Above {
    /// The directory, open only to reach its entries (`O_PATH`).
    pub directory: OwnedFd,
    /// Where the path itself really is: its last component is as it was written.
    pub path: PathBuf,
}

/// As [`above`], but creates the missing directories above the path, with mode 0755 less the umask. Each is created in
/// the open one above it, is never reached through a link, and is checked after its creation: if another user has put
/// something there since the first check, it is refused, and nothing is created in it.
///
/// # Errors
/// If a directory on the path belongs to another user, may be written to by others, or cannot be created.
pub fn make_above(path: &Path) -> Result<Above, NotMade> {
    reach(path, Missing::Make)
}

/// As [`make_above`], but creates nothing: a missing directory is an error. Afterwards only this user and root can
/// redirect the path, so it may be used as written.
///
/// # Errors
/// If a directory on the path belongs to another user, may be written to by others, or does not exist.
pub fn open_above(path: &Path) -> Result<Above, NotMade> {
    reach(path, Missing::Refuse)
}

/// How to treat a missing directory on the path.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Missing {
    Make,
    Refuse,
}

fn reach(path: &Path, missing: Missing) -> Result<Above, NotMade> {
    let path = above(path)?;
    let directory = go_down(path.parent().unwrap_or(Path::new("/")), missing)?;
    Ok(Above { directory, path })
}

impl From<NotMade> for io::Error {
    /// Of the kind that the system's answer has.
    fn from(not_made: NotMade) -> Self {
        let kind = match &not_made {
            NotMade::NotOurs(_) => io::ErrorKind::PermissionDenied,
            NotMade::System { source, .. } => source.kind(),
        };
        Self::new(kind, not_made)
    }
}

/// Opens a directory whose path has no links in it, from the root on.
fn go_down(path: &Path, missing: Missing) -> Result<OwnedFd, NotMade> {
    let trust = Trust::here();
    let mut reached = PathBuf::from("/");
    let mut directory = open(CWD, &reached, &reached)?;
    for component in path.components() {
        let Component::Normal(name) = component else { continue };
        let name = Path::new(name);
        reached.push(name);
        let next = match open(&directory, name, &reached) {
            Err(NotMade::System { source, .. })
                if missing == Missing::Make && source.kind() == io::ErrorKind::NotFound =>
            {
                make(&directory, name, &reached)?;
                open(&directory, name, &reached)?
            }
            opened => opened?,
        };
        let file = File::from(next);
        let metadata = file.metadata().map_err(|e| unknown(&reached, &e))?;
        check_directory(&reached, &metadata, trust)?;
        directory = file.into();
    }
    Ok(directory)
}

fn make(directory: &OwnedFd, name: &Path, path: &Path) -> Result<(), NotMade> {
    let mode = Mode::RWXU | Mode::RGRP | Mode::XGRP | Mode::ROTH | Mode::XOTH;
    match mkdirat(directory, name, mode) {
        // Another program or user created it first: its owner is checked once it is open.
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(e) => Err(NotMade::System { path: path.to_owned(), source: e.into() }),
    }
}

fn open(at: impl std::os::fd::AsFd, name: &Path, path: &Path) -> Result<OwnedFd, NotMade> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(at, name, flags, Mode::empty()).map_err(|e| match e {
        Errno::NOTDIR | Errno::LOOP => Distrust::Kind { path: path.to_owned(), wanted: "a directory" }.into(),
        e => NotMade::System { path: path.to_owned(), source: e.into() },
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, chown, symlink};

    use super::*;

    /// A directory open to all users, and the checked path below it to a missing one.
    fn looked_at() -> (tempfile::TempDir, PathBuf, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let real = folder.path().canonicalize().unwrap();
        let shared = real.join("shared");
        fs::create_dir(&shared).unwrap();
        fs::set_permissions(&shared, fs::Permissions::from_mode(0o1777)).unwrap();
        let way = above(&shared.join("new/deeper/last")).unwrap();
        (folder, shared, way.parent().unwrap().to_owned())
    }

    #[test]
    fn directories_above_are_made_and_what_is_there_is_kept() {
        let (_folder, shared, _) = looked_at();
        for name in ["new/deeper/last", "new/deeper/last", "other"] {
            let made = make_above(&shared.join(name)).unwrap();
            assert_eq!(made.path, shared.join(name));
            assert!(made.path.parent().unwrap().is_dir() && !made.path.exists());
        }
        fs::write(shared.join("file"), "mine").unwrap();
        let refused = make_above(&shared.join("file/last")).unwrap_err();
        assert!(matches!(refused, NotMade::NotOurs(Distrust::Kind { .. })), "{refused}");
    }

    #[test]
    fn a_way_that_is_only_opened_is_not_made() {
        let (_folder, shared, way) = looked_at();
        let missing = io::Error::from(open_above(&way.join("last")).unwrap_err());
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
        assert_eq!(fs::read_dir(&shared).unwrap().count(), 0);
        assert_eq!(open_above(&shared.join("last")).unwrap().path, shared.join("last"));
    }

    #[test]
    fn a_link_that_was_planted_after_the_way_was_looked_at_leads_nowhere() {
        for planted in ["new", "new/deeper"] {
            let (folder, shared, way) = looked_at();
            let elsewhere = folder.path().canonicalize().unwrap().join("elsewhere");
            fs::create_dir(&elsewhere).unwrap();
            fs::create_dir_all(shared.join(planted).parent().unwrap()).unwrap();
            symlink(&elsewhere, shared.join(planted)).unwrap();
            let refused = go_down(&way, Missing::Make).unwrap_err().to_string();
            assert!(refused.contains(&format!("{planted} is not a directory but a link")), "{refused}");
            assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0, "nothing is made through it");
        }
    }

    /// Needs root, because only root can change an owner.
    #[test]
    fn a_directory_that_another_user_planted_after_the_way_was_looked_at_takes_nothing() {
        for planted in ["new", "new/deeper"] {
            let (_folder, shared, way) = looked_at();
            let planted = shared.join(planted);
            fs::create_dir_all(&planted).unwrap();
            if chown(&planted, Some(4321), Some(4321)).is_err() {
                return;
            }
            let refused = go_down(&way, Missing::Make).unwrap_err().to_string();
            assert!(refused.contains("belongs to user 4321"), "{refused}");
            assert_eq!(fs::read_dir(&planted).unwrap().count(), 0);
        }
    }

    #[test]
    fn a_directory_that_others_may_write_to_since_takes_nothing() {
        let (_folder, shared, way) = looked_at();
        fs::create_dir(shared.join("new")).unwrap();
        fs::set_permissions(shared.join("new"), fs::Permissions::from_mode(0o757)).unwrap();
        let refused = go_down(&way, Missing::Make).unwrap_err().to_string();
        assert!(refused.contains("may be written to by others"), "{refused}");
        assert_eq!(fs::read_dir(shared.join("new")).unwrap().count(), 0);
    }
}
