//! Whether what now bears the name of something that was made is that thing: numbers and names are used again.

use std::path::Path;
use std::{fs, io};

use rustix::fs::{AtFlags, CWD, StatxFlags, makedev, statx};
use serde::{Deserialize, Serialize};

use nestor_kernel::mounts::{self, MountIdentity};

use crate::not_undone::WhyLeft;

/// Who undoes what was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By<'a> {
    /// The agent that made it.
    Maker,
    /// Another process, after the agent died. Its work directory is this user's and its lock was free.
    Heir {
        /// The dead agent's work directory, without links in its path.
        work: &'a Path,
        /// The dead agent's mounts are those that this process sees: both have a mount namespace of the same id, which is never
        /// used again.
        sees_its_mounts: bool,
    },
}

/// What is done with something that has the name of what was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Nothing: what was made is gone, and its successor is another's.
    Gone,
    /// It is what was made.
    Ours,
    /// Nothing: its owner is not known, for this reason.
    Unknown(WhyLeft),
}

/// Which directory it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectoryIdentity {
    device: u64,
    inode: u64,
    /// Seconds and nanoseconds. Devices and inodes are used again, times of birth are not; not all file systems have them.
    birth: Option<(i64, u32)>,
}

impl DirectoryIdentity {
    /// That of what is at a path, which is not followed if it is a link; `None` if the system does not report it.
    pub fn at(path: &Path) -> Option<Self> {
        let wanted = StatxFlags::INO | StatxFlags::BTIME;
        let found = statx(CWD, path, AtFlags::SYMLINK_NOFOLLOW, wanted).ok()?;
        let has_birth = found.stx_mask & StatxFlags::BTIME.bits() != 0;
        Some(Self {
            device: makedev(found.stx_dev_major, found.stx_dev_minor),
            inode: found.stx_ino,
            birth: has_birth.then_some((found.stx_btime.tv_sec, found.stx_btime.tv_nsec)),
        })
    }
}

/// Whether what is mounted at a place is what was mounted there.
///
/// # Errors
/// It cannot be looked at.
pub(super) fn of_mount(target: &str, noted: Option<&MountIdentity>, by: By) -> io::Result<Verdict> {
    let Some(found) = MountIdentity::at(Path::new(target))? else { return Ok(Verdict::Gone) };
    let verdict = mount_verdict(noted, &found, by);
    let is_covered = |noted: &MountIdentity| {
        let lines = mounts::all()?;
        Ok::<_, io::Error>(lines.iter().any(|line| *line == noted.line && line.id != found.line.id))
    };
    match (verdict, noted) {
        (Verdict::Gone, Some(noted)) if is_covered(noted)? => Ok(Verdict::Unknown(WhyLeft::CoveredMount)),
        (verdict, _) => Ok(verdict),
    }
}

fn mount_verdict(noted: Option<&MountIdentity>, found: &MountIdentity, by: By) -> Verdict {
    let Some(noted) = noted else {
        return match by {
            // It died before it could note which mount it had made there. No other program mounts anything in its directory.
            By::Heir { work, sees_its_mounts: true } if found.line.place().starts_with(work) => Verdict::Ours,
            _ => Verdict::Unknown(WhyLeft::UnknownMount),
        };
    };
    if let (Some(noted), Some(found)) = (noted.unique, found.unique) {
        return if noted == found { Verdict::Ours } else { Verdict::Gone };
    }
    // All values of a line can be used again, but rarely together.
    match by {
        _ if noted.line != found.line => Verdict::Gone,
        By::Maker => Verdict::Ours,
        By::Heir { work, .. } if found.line.place().starts_with(work) => Verdict::Ours,
        By::Heir { .. } => Verdict::Unknown(WhyLeft::UnreportedMount),
    }
}

/// Whether the directory at a path is the one that was made there.
pub(super) fn of_directory(path: &str, noted: Option<&DirectoryIdentity>, by: By) -> Verdict {
    let path = Path::new(path);
    if fs::symlink_metadata(path).is_err_and(|e| e.kind() == io::ErrorKind::NotFound) {
        return Verdict::Gone;
    }
    match by {
        // It goes with the work directory.
        By::Heir { work, .. } if path.starts_with(work) => Verdict::Gone,
        by => directory_verdict(noted, DirectoryIdentity::at(path).as_ref(), by),
    }
}

fn directory_verdict(
    noted: Option<&DirectoryIdentity>,
    found: Option<&DirectoryIdentity>,
    by: By,
) -> Verdict {
    let (Some(noted), Some(found)) = (noted, found) else {
        return Verdict::Unknown(WhyLeft::UnknownDirectory);
    };
    match by {
        _ if noted != found => Verdict::Gone,
        By::Heir { .. } if noted.birth.is_none() => Verdict::Unknown(WhyLeft::UnreportedDirectory),
        _ => Verdict::Ours,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nestor_kernel::mounts::Line;

    fn heir() -> By<'static> {
        By::Heir { work: Path::new("/work/7"), sees_its_mounts: false }
    }

    fn mount(unique: Option<u64>, id: u64, point: &str) -> MountIdentity {
        let [device, root, kind, source] = ["0:41", "/", "tmpfs", "tmpfs"].map(String::from);
        MountIdentity { unique, line: Line { id, device, root, point: point.to_owned(), kind, source } }
    }

    fn is_unknown(verdict: &Verdict) -> bool {
        matches!(verdict, Verdict::Unknown(_))
    }

    #[test]
    fn a_mount_is_known_by_the_id_that_is_never_used_again() {
        for by in [By::Maker, heir()] {
            for point in ["/work/7/mount-1", "/mnt"] {
                let noted = mount(Some(900), 36, point);
                assert_eq!(mount_verdict(Some(&noted), &noted, by), Verdict::Ours);
                let alike = mount(Some(901), 36, point);
                assert_eq!(mount_verdict(Some(&noted), &alike, by), Verdict::Gone, "all else is used again");
            }
        }
    }

    #[test]
    fn a_mount_without_that_id_is_undone_only_in_the_runs_own_directory_if_its_line_is_the_same() {
        let [inside, outside] = ["/work/7/mount-1", "/work/70/mount-1"].map(|point| mount(None, 36, point));
        assert_eq!(mount_verdict(Some(&inside), &inside, heir()), Verdict::Ours);
        assert_eq!(mount_verdict(Some(&inside), &mount(None, 37, "/work/7/mount-1"), heir()), Verdict::Gone);
        assert!(is_unknown(&mount_verdict(Some(&outside), &outside, heir())));
        assert_eq!(mount_verdict(Some(&outside), &outside, By::Maker), Verdict::Ours);
        // The file system of a device that is gone does not answer.
        let silent = mount(None, 36, "/mnt");
        assert_eq!(mount_verdict(Some(&mount(Some(900), 36, "/mnt")), &silent, By::Maker), Verdict::Ours);
    }

    #[test]
    fn a_mount_of_which_nothing_was_noted_is_left_alone_but_in_the_runs_own_directory_and_namespace() {
        let found = mount(Some(900), 36, "/work/7/mount-1");
        assert!(is_unknown(&mount_verdict(None, &found, heir())));
        let seeing = By::Heir { work: Path::new("/work/7"), sees_its_mounts: true };
        assert_eq!(mount_verdict(None, &found, seeing), Verdict::Ours, "it died while it mounted that");
        assert!(is_unknown(&mount_verdict(None, &mount(Some(900), 36, "/work/70/mount-1"), seeing)));
        assert!(is_unknown(&mount_verdict(None, &found, By::Maker)));
    }

    #[test]
    fn a_directory_is_known_by_its_time_of_birth() {
        let noted = DirectoryIdentity { device: 41, inode: 2, birth: Some((1_700_000_000, 5)) };
        let alike = DirectoryIdentity { birth: Some((1_700_000_000, 6)), ..noted.clone() };
        let ageless = DirectoryIdentity { birth: None, ..noted.clone() };
        for by in [By::Maker, heir()] {
            assert_eq!(directory_verdict(Some(&noted), Some(&noted), by), Verdict::Ours);
            assert_eq!(directory_verdict(Some(&noted), Some(&alike), by), Verdict::Gone);
            assert!(is_unknown(&directory_verdict(None, Some(&noted), by)));
        }
        assert_eq!(directory_verdict(Some(&ageless), Some(&ageless), By::Maker), Verdict::Ours);
        assert!(is_unknown(&directory_verdict(Some(&ageless), Some(&ageless), heir())));
    }
}
