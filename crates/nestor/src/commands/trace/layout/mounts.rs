//! Where a block device is mounted.

use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use nestor_kernel::mounts::{Line, all, unescaped};
use rustix::fs::{StatVfsMountFlags, major, minor, statvfs};

/// Whether it is a mount of a device. The number that the kernel lists is none of a disk where a file system has several
/// (Btrfs).
fn is_of(mount: &Line, device: u64) -> bool {
    mount.device == format!("{}:{}", major(device), minor(device))
        || number_of(&unescaped(&mount.source)) == Some(device)
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
    let mounts = all().unwrap_or_default();
    mounts.iter().rev().find(|mount| mount.place() == directory).is_some_and(|mount| is_of(mount, number))
}

/// A place where a block device is mounted and may be written to.
pub(super) fn written_to(device: &Path) -> Option<PathBuf> {
    let number = number_of(device)?;
    let mounts = all().unwrap_or_default();
    let is_read_only =
        |place: &PathBuf| statvfs(place).is_ok_and(|found| found.f_flag.contains(StatVfsMountFlags::RDONLY));
    mounts.iter().filter(|mount| is_of(mount, number)).map(Line::place).find(|place| !is_read_only(place))
}
