//! What uses a block device, or a file as one.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{OFlags, major, minor};
use rustix::io::Errno;

use crate::mounts::{self, Line};

/// What uses a block device of this number, in itself or one of its partitions: `it is mounted on /srv`,
/// `its partition sdb1 is mounted on /srv`, `it holds the lvm vg-data`. An unused partition does not count.
///
/// Mounts of other mount namespaces are not visible; the kernel refuses such a device when it is opened exclusively.
pub fn of_device(number: u64) -> Option<String> {
    let mounts = mounts::all().unwrap_or_default();
    let swaps = fs::read_to_string("/proc/swaps").unwrap_or_default();
    let uses = |number: &str| mounted(number, &mounts).or_else(|| swap(number, &swaps));
    let number = format!("{}:{}", major(number), minor(number));
    let device = Path::new("/sys/dev/block").join(&number);
    if let Some(used) = uses(&number) {
        return Some(format!("it is {used}"));
    }
    holder(&device).or_else(|| {
        let mut parts =
            fs::read_dir(&device).ok()?.flatten().filter(|entry| entry.path().join("partition").exists());
        parts.find_map(|entry| {
            let number = fs::read_to_string(entry.path().join("dev")).ok()?;
            let used = uses(number.trim())
                .map(|used| format!("its partition {} is {used}", entry.file_name().to_string_lossy()));
            used.or_else(|| holder(&entry.path()))
        })
    })
}

/// Why a device of this number is not for others, as the rest of a sentence that begins with its name and `is`.
pub fn refusal_of_device(number: u64) -> Option<String> {
    let used = of_device(number)?;
    Some(format!(
        "in use: {used}; nothing was written. Unmount it first, or name another device (`lsblk` lists them)"
    ))
}

/// As [`refusal_of_device`], where the kernel itself refuses the device to others: its user may not be visible.
pub const BUSY: &str = "in use: the kernel says that it is busy (mounted, swap, part of an array or a volume group?); \
                        nothing was written. `lsblk` shows what uses it";

/// Why a block device cannot be taken, as [`refusal_of_device`]. The kernel lets only one user at a time have a device
/// exclusively: a mount, a swap area, an array, a volume group. It is claimed and given back at once.
///
/// # Errors
/// It cannot be opened.
pub fn refusal_to_take(device: &Path) -> io::Result<Option<String>> {
    if let Some(refusal) = refusal_of_device(fs::metadata(device)?.rdev()) {
        return Ok(Some(refusal));
    }
    let exclusively = OFlags::EXCL.bits().cast_signed();
    match File::options().read(true).custom_flags(exclusively).open(device) {
        Ok(_) => Ok(None),
        Err(e) if e.raw_os_error() == Some(Errno::BUSY.raw_os_error()) => Ok(Some(BUSY.to_owned())),
        Err(e) => Err(e),
    }
}

fn mounted(number: &str, mounts: &[Line]) -> Option<String> {
    let mount = mounts.iter().find(|mount| mount.device == number)?;
    Some(format!("mounted on {}", mount.place().display()))
}

/// Whether `/proc/swaps` (`proc(5)`) lists the device.
fn swap(number: &str, swaps: &str) -> Option<String> {
    let is_it = |line: &str| {
        let path = line.split_whitespace().next().map(mounts::unescaped)?;
        let found = fs::metadata(path).ok()?.rdev();
        (format!("{}:{}", major(found), minor(found)) == number).then_some(())
    };
    swaps.lines().skip(1).find_map(is_it).map(|()| "a swap area".to_owned())
}

/// What is built on a device: `it holds the lvm vg-data`.
fn holder(device: &Path) -> Option<String> {
    let holder = fs::read_dir(device.join("holders")).ok()?.flatten().next()?;
    let text =
        |file: &str| fs::read_to_string(holder.path().join(file)).ok().map(|text| text.trim().to_owned());
    // Device mapper's identifiers begin with who made them: LVM-, CRYPT-, mpath- (Documentation/ABI/testing/sysfs-block-dm).
    let maker = text("dm/uuid").and_then(|uuid| Some(uuid.split_once('-')?.0.to_lowercase()));
    let kind = maker.or_else(|| text("md/level")).unwrap_or_else(|| "device".to_owned());
    let name = text("dm/name").unwrap_or_else(|| holder.file_name().to_string_lossy().into_owned());
    Some(format!("it holds the {kind} {name}"))
}

/// Why a file is not for others: it has a loop device. As [`refusal_of_device`].
pub fn refusal_of_file(file: &Path) -> Option<String> {
    let device = loop_device_of(file)?;
    let device = device.display();
    Some(format!("in use as the loop device {device}; `losetup --detach {device}` detaches it"))
}

/// The loop device that a file is the data of.
pub fn loop_device_of(file: &Path) -> Option<PathBuf> {
    let file = file.canonicalize().ok()?;
    fs::read_dir("/sys/block").ok()?.flatten().find_map(|device| {
        let backing = fs::read_to_string(device.path().join("loop/backing_file")).ok()?;
        (Path::new(backing.trim_end_matches('\n')) == file)
            .then(|| Path::new("/dev").join(device.file_name()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mounted_device_is_in_use() {
        let Some(mount) = mounts::all().unwrap().into_iter().find(|mount| mount.source.starts_with("/dev/"))
        else {
            return;
        };
        let (major, minor) = mount.device.split_once(':').unwrap();
        let number = rustix::fs::makedev(major.parse().unwrap(), minor.parse().unwrap());
        assert!(of_device(number).unwrap().starts_with("it is mounted on "));
        assert_eq!(of_device(0), None);
    }

    #[test]
    fn what_is_built_on_a_device_is_named() {
        let device = tempfile::tempdir().unwrap();
        let holders = device.path().join("holders");
        fs::create_dir_all(holders.join("dm-0/dm")).unwrap();
        fs::write(holders.join("dm-0/dm/uuid"), "LVM-8zKx\n").unwrap();
        fs::write(holders.join("dm-0/dm/name"), "vg-data\n").unwrap();
        assert_eq!(holder(device.path()).as_deref(), Some("it holds the lvm vg-data"));
        fs::rename(holders.join("dm-0/dm"), device.path().join("gone")).unwrap();
        assert_eq!(holder(device.path()).as_deref(), Some("it holds the device dm-0"));
        assert_eq!(holder(&holders), None);
    }

    #[test]
    fn a_file_of_no_loop_device_is_of_none() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert_eq!(loop_device_of(file.path()), None);
    }
}
