//! What is mounted where, from the kernel's list (`/proc/self/mountinfo`, proc_pid_mountinfo(5)).

use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use nestor_machine::mounts::unescaped;

/// One line of the list.
#[derive(Debug, PartialEq, Eq)]
struct MountPoint {
    /// Number of the file system's device, which is none of a disk where it has several (Btrfs).
    device: (u32, u32),
    point: PathBuf,
    source: PathBuf,
    read_only: bool,
}

impl MountPoint {
    /// `36 35 98:0 / /mnt rw,noatime shared:1 - ext4 /dev/vda rw,errors=continue`
    fn parse(line: &str) -> Option<Self> {
        let (before, after) = line.split_once(" - ")?;
        let mut fields = before.split(' ').skip(2);
        let (major, minor) = fields.next()?.split_once(':')?;
        let point = unescaped(fields.nth(1)?);
        let mut fields = after.split(' ').skip(1);
        let source = unescaped(fields.next()?);
        let read_only = fields.next()?.split(',').any(|option| option == "ro");
        Some(Self { device: (major.parse().ok()?, minor.parse().ok()?), point, source, read_only })
    }

    fn is_of(&self, device: u64) -> bool {
        rustix::fs::makedev(self.device.0, self.device.1) == device || number_of(&self.source) == Some(device)
    }
}

fn all() -> Vec<MountPoint> {
    let list = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    list.lines().filter_map(MountPoint::parse).collect()
}

/// The number of a block device.
fn number_of(path: &Path) -> Option<u64> {
    let metadata = path.metadata().ok()?;
    metadata.file_type().is_block_device().then(|| metadata.rdev())
}

/// Whether what is mounted at a directory (and visible there, the last of several) lies on a block device.
pub(super) fn is_on(directory: &Path, device: &Path) -> bool {
    let Some(number) = number_of(device) else { return false };
    let Ok(directory) = directory.canonicalize() else { return false };
    all().iter().rev().find(|mount| mount.point == directory).is_some_and(|mount| mount.is_of(number))
}

/// A place where a block device is mounted and may be written to.
pub(super) fn written_to(device: &Path) -> Option<PathBuf> {
    let number = number_of(device)?;
    all().into_iter().find(|mount| !mount.read_only && mount.is_of(number)).map(|mount| mount.point)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_list_are_taken_apart() {
        let line = r"36 35 98:0 /mnt1 /mnt\0402 rw,noatime master:1 shared:2 - ext3 /dev/root\134x ro,errors=continue";
        let expected = MountPoint {
            device: (98, 0),
            point: "/mnt 2".into(),
            source: r"/dev/root\x".into(),
            read_only: true,
        };
        assert_eq!(MountPoint::parse(line), Some(expected));
        for line in ["", "36 35", "36 35 98 / /mnt rw - ext3 /dev/x rw", r"1 2 3:4 / /\04 rw - x"] {
            assert_eq!(MountPoint::parse(line), None, "{line}");
        }
    }
}
