//! What is mounted where: the kernel's list (`/proc/self/mountinfo`, proc_pid_mountinfo(5)), and which mount is which.

use std::ffi::OsString;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};
use std::{fs, io};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, StatxFlags, openat, statx};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

/// `STATX_MNT_ID_UNIQUE` of include/uapi/linux/stat.h, since Linux 6.8: `stx_mnt_id` is then the id of the mount that no other
/// gets until the machine is started again, in whatever mount namespace.
const MNT_ID_UNIQUE: StatxFlags = StatxFlags::from_bits_retain(0x4000);

/// A mount as the kernel's list tells it, as far as mounting it anew or changing its options does not alter it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// Its number, which another mount gets when it is gone.
    pub id: u64,
    /// Numbers of its device, which another file system gets if it is none of a disk: `0:41`.
    pub device: String,
    /// Which directory of the file system is mounted.
    pub root: String,
    /// Where, as the list writes it.
    pub point: String,
    /// Kind of file system.
    pub kind: String,
    /// What is mounted, as the list writes it.
    pub source: String,
}

impl Line {
    /// `36 35 98:0 / /mnt rw,noatime shared:1 - ext4 /dev/vda rw,errors=continue`
    fn parse(line: &str) -> Option<Self> {
        let (before, after) = line.split_once(" - ")?;
        let mut before = before.split(' ');
        let mut after = after.split(' ');
        let id = before.next()?.parse().ok()?;
        let mut fields = before.skip(1).map(str::to_owned);
        let (device, root, point) = (fields.next()?, fields.next()?, fields.next()?);
        let (kind, source) = (after.next()?.to_owned(), after.next()?.to_owned());
        Some(Self { id, device, root, point, kind, source })
    }

    /// Where it is mounted.
    pub fn place(&self) -> PathBuf {
        unescaped(&self.point)
    }
}

/// Which mount it is that is seen at a place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MountIdentity {
    /// Its id that is never used again; absent where the kernel has none (before Linux 6.8), or could not be asked.
    pub unique: Option<u64>,
    /// Its line of the kernel's list.
    pub line: Line,
}

impl MountIdentity {
    /// The mount that is seen at a directory, the last of several; `None`: nothing is mounted there.
    ///
    /// # Errors
    /// The directory or the kernel's list cannot be looked at.
    pub fn at(target: &Path) -> io::Result<Option<Self>> {
        // Nothing of the file system is read for this: its device may be gone.
        let directory = match openat(CWD, target, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()) {
            Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
            opened => opened?,
        };
        let place = fs::read_link(format!("/proc/self/fd/{}", directory.as_raw_fd()))?;
        let id = id_of(&directory)?;
        let line = all()?.into_iter().find(|line| line.id == id && line.place() == place);
        Ok(line.map(|line| Self { unique: unique_id(&directory), line }))
    }
}

fn id_of(directory: &OwnedFd) -> io::Result<u64> {
    let text = fs::read_to_string(format!("/proc/self/fdinfo/{}", directory.as_raw_fd()))?;
    let id = text.lines().find_map(|line| line.strip_prefix("mnt_id:")?.trim().parse().ok());
    id.ok_or_else(|| io::Error::other("the kernel does not tell in which mount it is"))
}

fn unique_id(directory: &OwnedFd) -> Option<u64> {
    let found = statx(directory, "", AtFlags::EMPTY_PATH, MNT_ID_UNIQUE).ok()?;
    (found.stx_mask & MNT_ID_UNIQUE.bits() != 0).then_some(found.stx_mnt_id)
}

/// All mounts that this process sees, in the kernel's order.
///
/// # Errors
/// The list cannot be read.
pub fn all() -> io::Result<Vec<Line>> {
    let list = fs::read("/proc/self/mountinfo")?;
    Ok(String::from_utf8_lossy(&list).lines().filter_map(Line::parse).collect())
}

/// A place at or below a directory where something is mounted. The directory's path has no links in it.
pub fn mounted_below(directory: &Path) -> Option<PathBuf> {
    all().ok()?.iter().map(Line::place).find(|place| place.starts_with(directory))
}

/// A path as the list writes it: blanks, tabs, line ends and backslashes stand as octal numbers.
pub fn unescaped(text: &str) -> PathBuf {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let octal =
            after.get(..3).filter(|_| byte == b'\\').and_then(|digits| std::str::from_utf8(digits).ok());
        match octal.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(number) => {
                bytes.push(number);
                rest = &after[3..];
            }
            None => {
                bytes.push(byte);
                rest = after;
            }
        }
    }
    PathBuf::from(OsString::from_vec(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_list_is_taken_apart() {
        let line = r"36 35 98:0 /mnt1 /mnt\0402 rw,noatime master:1 shared:2 - ext3 /dev/root\134x ro,errors=continue";
        let found = Line::parse(line).unwrap();
        assert_eq!(found.place(), Path::new("/mnt 2"));
        let fields = [&found.device, &found.root, &found.kind, &found.source];
        assert_eq!(
            (found.id, fields),
            (36, ["98:0", "/mnt1", "ext3", r"/dev/root\134x"].map(String::from).each_ref())
        );
        for line in ["", "36 35", "36 35 98:0 / /mnt rw", "x 35 98:0 / /mnt rw - ext3 /dev/x rw"] {
            assert_eq!(Line::parse(line), None, "{line}");
        }
    }

    #[test]
    fn a_directory_is_a_mount_point_or_is_not() {
        let root = MountIdentity::at(Path::new("/")).unwrap().unwrap();
        assert_eq!(root.line.point, "/");
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(MountIdentity::at(folder.path()).unwrap(), None);
        assert_eq!(MountIdentity::at(&folder.path().join("absent")).unwrap(), None);
    }
}
