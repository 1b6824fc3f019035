//! Walks a path component by component as the kernel does, through its directories and links.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use super::writers;
use super::{Distrust, unknown, user};

/// A directory in which every user may create entries and only their owners may remove them.
const STICKY: u32 = 0o1000;

/// Links that the kernel follows on one path: `MAXSYMLINKS` in include/linux/namei.h.
const MAX_LINKS: usize = 40;

/// Whom a walk trusts besides root.
#[derive(Clone, Copy)]
pub(super) struct Trust {
    user: u32,
    /// The number under which a user namespace shows users that it does not map.
    nobody: Option<u32>,
}

impl Trust {
    /// Whom this process trusts.
    pub(super) fn here() -> Self {
        Self { user: user(), nobody: unmapped_user() }
    }
}

/// The real path, without links, if only this user and root can replace or redirect it: every directory on the path,
/// including those that links lead through, belongs to this user or root and is not writable by others unless it is
/// sticky, and so does every link. Missing components are taken as written. The last component is followed if it is a
/// link; its own owner is checked only if it is a link or a directory.
///
/// # Errors
/// If a component of the path belongs to another user or may be written to by others.
pub fn resolved(path: &Path) -> Result<PathBuf, Distrust> {
    walk(path, Trust::here())
}

/// As [`resolved`] for the directories above a path; its last component is neither followed nor checked.
///
/// # Errors
/// As [`resolved`], or the path has no last component.
pub fn above(path: &Path) -> Result<PathBuf, Distrust> {
    above_as(path, Trust::here())
}

fn above_as(path: &Path, trust: Trust) -> Result<PathBuf, Distrust> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(Distrust::Unknown { path: path.to_owned(), reason: "it has no name".into() });
    };
    let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
    Ok(walk(parent, trust)?.join(name))
}

enum Step {
    Root,
    Up,
    Into(OsString),
}

fn steps(path: &Path) -> impl DoubleEndedIterator<Item = Step> {
    path.components().filter_map(|component| match component {
        Component::RootDir | Component::Prefix(_) => Some(Step::Root),
        Component::ParentDir => Some(Step::Up),
        Component::CurDir => None,
        Component::Normal(name) => Some(Step::Into(name.to_owned())),
    })
}

fn walk(path: &Path, trust: Trust) -> Result<PathBuf, Distrust> {
    let written = std::path::absolute(path).map_err(|e| unknown(path, &e))?;
    let mut ahead: VecDeque<Step> = steps(&written).collect();
    let mut reached = PathBuf::from("/");
    // Whether others may create entries in the current directory.
    let mut is_shared = check_directory(&reached, &look_at(&reached)?, trust)?;
    let mut links = 0;
    while let Some(step) = ahead.pop_front() {
        let next = match step {
            Step::Root => PathBuf::from("/"),
            Step::Up => reached.parent().unwrap_or(Path::new("/")).to_owned(),
            Step::Into(name) => reached.join(name),
        };
        let found = match fs::symlink_metadata(&next) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return not_there_yet(next, ahead),
            found => found.map_err(|e| unknown(&next, &e))?,
        };
        if found.is_symlink() {
            let (owner, path) = (found.uid(), next);
            let is_unmapped = Some(owner) == trust.nobody && !is_shared;
            if owner != trust.user && owner != 0 && !is_unmapped {
                return Err(Distrust::Link { path, owner });
            }
            links += 1;
            if links > MAX_LINKS {
                return Err(Distrust::Unknown { path, reason: "too many links".into() });
            }
            let target = fs::read_link(&path).map_err(|e| unknown(&path, &e))?;
            steps(&target).rev().for_each(|step| ahead.push_front(step));
        } else {
            if found.is_dir() {
                is_shared = check_directory(&next, &found, trust)?;
            } else if !ahead.is_empty() {
                return Err(Distrust::Kind { path: next, wanted: "a directory" });
            }
            reached = next;
        }
    }
    Ok(reached)
}

fn not_there_yet(mut path: PathBuf, ahead: VecDeque<Step>) -> Result<PathBuf, Distrust> {
    for step in ahead {
        match step {
            Step::Into(name) => path.push(name),
            Step::Root | Step::Up => {
                return Err(Distrust::Unknown {
                    path,
                    reason: "it does not exist, and the path goes up from it".into(),
                });
            }
        }
    }
    Ok(path)
}

fn look_at(path: &Path) -> Result<Metadata, Distrust> {
    fs::symlink_metadata(path).map_err(|e| unknown(path, &e))
}

/// Whether others may create entries in a directory without being able to change this user's.
pub(super) fn check_directory(path: &Path, metadata: &Metadata, trust: Trust) -> Result<bool, Distrust> {
    let (owner, mode) = (metadata.uid(), metadata.mode() & 0o7777);
    let by = writers::of_path(path, metadata);
    // The owner is unknown; if only the owner may write to it, it looks like a directory of the machine's root.
    let is_unmapped = Some(owner) == trust.nobody && by.is_none();
    if owner != trust.user && owner != 0 && !is_unmapped {
        return Err(Distrust::Owner { path: path.to_owned(), owner });
    }
    match by {
        Some(by) if mode & STICKY == 0 => Err(Distrust::Writable { path: path.to_owned(), mode, by }),
        by => Ok(by.is_some()),
    }
}

/// In a user namespace that does not map all users, the number under which it shows the others, including the machine's root.
fn unmapped_user() -> Option<u32> {
    let map = fs::read_to_string("/proc/self/uid_map").ok()?;
    let has_all = map.split_whitespace().collect::<Vec<_>>() == ["0", "0", "4294967295"];
    let number = || fs::read_to_string("/proc/sys/kernel/overflowuid").ok()?.trim().parse().ok();
    if has_all { None } else { number() }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, chown, lchown, symlink};

    use super::super::writers::Writers;
    use super::*;

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    fn place() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let real = folder.path().canonicalize().unwrap();
        (folder, real)
    }

    #[test]
    fn a_directory_above_that_others_may_write_to_is_named_unless_it_is_sticky() {
        let (_folder, real) = place();
        let open = real.join("open");
        fs::create_dir(&open).unwrap();
        let inside = open.join("inside");
        assert_eq!(above(&inside), Ok(inside.clone()));
        set_mode(&open, 0o777);
        let by = Writers::Everybody;
        assert_eq!(above(&inside), Err(Distrust::Writable { path: open.clone(), mode: 0o777, by }));
        set_mode(&open, 0o1777);
        assert_eq!(above(&inside), Ok(inside));
    }

    #[test]
    fn a_link_on_the_way_is_followed_to_the_directories_it_leads_through() {
        let (_folder, real) = place();
        let open = real.join("open");
        fs::create_dir_all(open.join("real")).unwrap();
        symlink(open.join("real"), real.join("link")).unwrap();
        symlink("../open/./real/../real", open.join("relative")).unwrap();
        assert_eq!(above(&real.join("link/inside")), Ok(open.join("real/inside")));
        assert_eq!(resolved(&open.join("relative/a/b")), Ok(open.join("real/a/b")));
        set_mode(&open, 0o777);
        let found = above(&real.join("link/inside"));
        assert!(matches!(found, Err(Distrust::Writable { path, .. }) if path == open));
        symlink("circle", real.join("circle")).unwrap();
        assert!(matches!(resolved(&real.join("circle")), Err(Distrust::Unknown { .. })));
        assert!(resolved(&real.join("nothing/../circle")).is_err());
    }

    /// Needs root, because only root can change an owner.
    #[test]
    fn a_link_of_another_user_is_refused_at_every_hop() {
        let (_folder, real) = place();
        fs::create_dir(real.join("mine")).unwrap();
        symlink("mine", real.join("theirs")).unwrap();
        symlink("theirs", real.join("first")).unwrap();
        assert_eq!(resolved(&real.join("first/x")), Ok(real.join("mine/x")));
        if lchown(real.join("theirs"), Some(4321), Some(4321)).is_err() {
            return;
        }
        let refused = Err(Distrust::Link { path: real.join("theirs"), owner: 4321 });
        for way in ["theirs", "theirs/x", "first", "first/x", "mine/../first/x"] {
            assert_eq!(resolved(&real.join(way)), refused, "{way}");
        }
        assert_eq!(above(&real.join("theirs")), Ok(real.join("theirs")), "it is the last");
    }

    /// Needs root, because only root can change an owner.
    #[test]
    fn a_user_whom_the_namespace_does_not_show_is_trusted_only_where_others_may_not_write() {
        let (_folder, real) = place();
        let theirs = real.join("theirs");
        fs::create_dir(&theirs).unwrap();
        symlink(".", theirs.join("link")).unwrap();
        let given = |path: &Path| lchown(path, Some(4321), Some(4321)).is_ok();
        if !given(&theirs.join("link")) || !given(&theirs) {
            return;
        }
        let [blind, seeing] = [Some(4321), None].map(|nobody| Trust { user: user(), nobody });
        for way in ["inside", "link/inside"] {
            assert_eq!(above_as(&theirs.join(way), blind), Ok(theirs.join("inside")));
            assert!(above_as(&theirs.join(way), seeing).is_err());
        }
        for mode in [0o777, 0o1777, 0o775, 0o1775] {
            chown(&theirs, Some(4321), Some(100)).unwrap();
            set_mode(&theirs, mode);
            let refused = above_as(&theirs.join("inside"), blind);
            assert_eq!(refused, Err(Distrust::Owner { path: theirs.clone(), owner: 4321 }), "{mode:o}");
        }
        chown(&theirs, Some(user()), None).unwrap();
        set_mode(&theirs, 0o1777);
        let link = Distrust::Link { path: theirs.join("link"), owner: 4321 };
        assert_eq!(above_as(&theirs.join("link/inside"), blind), Err(link));
    }
}
