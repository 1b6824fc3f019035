//! Whose a file or directory is, and who else may put something into it.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A directory in which anybody may make entries and only their owners may remove them.
const STICKY: u32 = 0o1000;

/// Why what lies at a path may not be what its owner put there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Distrust {
    /// It is somebody else's.
    #[error("{} belongs to user {owner}, and this is user {}", .path.display(), user())]
    Owner {
        /// The file or directory.
        path: PathBuf,
        /// Number of its owner.
        owner: u32,
    },
    /// Others may change what is in it.
    #[error("{} may be written to by others than its owner (mode {mode:04o})", .path.display())]
    Writable {
        /// The file or directory.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// It is a link, or of another kind than it should be.
    #[error("{} is not {wanted} but a link or something else", .path.display())]
    Kind {
        /// Where.
        path: PathBuf,
        /// `a directory`, `a file`.
        wanted: &'static str,
    },
    /// Nobody knows.
    #[error("{} cannot be looked at: {reason}", .path.display())]
    Unknown {
        /// Where.
        path: PathBuf,
        /// The system's answer.
        reason: String,
    },
}

/// The user that this process acts as.
pub fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Whether anybody but the owner and root may write to it. A group that has its owner's number is the owner's own.
pub fn others_may_write(mode: u32, owner: u32, group: u32) -> bool {
    mode & 0o002 != 0 || (mode & 0o020 != 0 && group != owner)
}

/// What is wrong with a file or directory that should be this user's or root's, and written to by nobody else.
///
/// # Errors
/// Whose it is, or who may write to it.
pub fn of_user_or_root(path: &Path, metadata: &Metadata) -> Result<(), Distrust> {
    let owner = metadata.uid();
    if owner != user() && owner != 0 {
        return Err(Distrust::Owner { path: path.to_owned(), owner });
    }
    if others_may_write(metadata.mode(), owner, metadata.gid()) {
        return Err(Distrust::Writable { path: path.to_owned(), mode: metadata.mode() & 0o7777 });
    }
    Ok(())
}

/// What of the directories above `path` lets others put something else in its place: those on the way as it is written, and
/// those that links on the way lead to.
///
/// # Errors
/// The directory, and whose it is or who may write to it.
pub fn above(path: &Path) -> Result<(), Distrust> {
    let written = std::path::absolute(path).map_err(|e| unknown(path, &e))?;
    let real = written.parent().and_then(|parent| parent.canonicalize().ok());
    let real = real.iter().flat_map(|parent| parent.ancestors());
    let nobody = unmapped_user();
    for directory in written.ancestors().skip(1).chain(real) {
        let metadata = match fs::metadata(directory) {
            Ok(metadata) => metadata,
            Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
            Err(e) => return Err(unknown(directory, &e)),
        };
        let owner = metadata.uid();
        if owner != user() && owner != 0 && Some(owner) != nobody {
            return Err(Distrust::Owner { path: directory.to_owned(), owner });
        }
        let is_sticky = metadata.mode() & STICKY != 0;
        if !is_sticky && others_may_write(metadata.mode(), owner, metadata.gid()) {
            let mode = metadata.mode() & 0o7777;
            return Err(Distrust::Writable { path: directory.to_owned(), mode });
        }
    }
    Ok(())
}

fn unknown(path: &Path, error: &io::Error) -> Distrust {
    Distrust::Unknown { path: path.to_owned(), reason: error.to_string() }
}

/// In a user namespace that has not all users, the number under which it shows the others: among them the machine's root.
fn unmapped_user() -> Option<u32> {
    let map = fs::read_to_string("/proc/self/uid_map").ok()?;
    let has_all = map.split_whitespace().collect::<Vec<_>>() == ["0", "0", "4294967295"];
    let number = || fs::read_to_string("/proc/sys/kernel/overflowuid").ok()?.trim().parse().ok();
    if has_all { None } else { number() }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_directory_above_that_others_may_write_to_is_named_unless_it_is_sticky() {
        let folder = tempfile::tempdir().unwrap();
        let open = folder.path().join("open");
        fs::create_dir(&open).unwrap();
        let inside = open.join("inside");
        assert_eq!(above(&inside), Ok(()));
        set_mode(&open, 0o777);
        assert_eq!(above(&inside), Err(Distrust::Writable { path: open.clone(), mode: 0o777 }));
        set_mode(&open, 0o1777);
        assert_eq!(above(&inside), Ok(()));
    }

    #[test]
    fn a_link_on_the_way_is_followed_to_the_directories_it_leads_through() {
        let folder = tempfile::tempdir().unwrap();
        let open = folder.path().join("open");
        fs::create_dir_all(open.join("real")).unwrap();
        set_mode(&open, 0o777);
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(open.join("real"), &link).unwrap();
        let found = above(&link.join("inside"));
        assert!(matches!(found, Err(Distrust::Writable { path, .. }) if path.ends_with("open")));
    }

    #[test]
    fn a_group_of_the_owners_number_is_the_owners_own() {
        assert!(!others_may_write(0o775, 1000, 1000));
        assert!(others_may_write(0o775, 1000, 100));
        assert!(others_may_write(0o757, 1000, 1000));
        assert!(!others_may_write(0o755, 1000, 100));
    }
}
