//! What is below a file or a block device on this machine: file systems and block devices, down to the disks, as sysfs has it
//! (Documentation/ABI/stable/sysfs-block).

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{major, minor};

use crate::mounts;

/// More levels than these are not followed: no stack has them, and sysfs may change while it is read.
const MOST_LEVELS: usize = 16;

/// A block device by its number, major and minor.
pub type Number = (u32, u32);

/// A whole block device, no partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostDevice {
    /// The kernel's name of it: `dm-0`.
    pub name: String,
    /// Its number.
    pub number: Number,
    /// Those of its partitions.
    pub partitions: Vec<Number>,
    /// Whether it has a queue of requests with a driver below. Others (device mapper, MD, zram) pass on or do what they are handed at once.
    pub has_requests: bool,
}

/// One level of what is below.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostLevel {
    /// A file system.
    FileSystem {
        /// Its kind: `ext4`.
        kind: String,
        /// Where it is mounted.
        place: PathBuf,
    },
    /// Devices side by side: several only below one that joins them.
    Devices(Vec<HostDevice>),
}

/// What is below the directory or file at a path, or the block device if it is one. Empty for what has no disk (tmpfs).
pub fn below(path: &Path) -> Vec<HostLevel> {
    let mut levels = Vec::new();
    if let Ok(metadata) = fs::metadata(path) {
        match metadata.file_type().is_block_device() {
            true => devices(BTreeSet::from([number(metadata.rdev())]), &mut levels),
            false => file_system(number(metadata.dev()), &mut levels),
        }
    }
    levels
}

fn number(device: u64) -> Number {
    (major(device), minor(device))
}

fn file_system(device: Number, levels: &mut Vec<HostLevel>) {
    let name = format!("{}:{}", device.0, device.1);
    let Some(mount) = mounts::all().ok().and_then(|all| all.into_iter().find(|line| line.device == name))
    else {
        return;
    };
    levels.push(HostLevel::FileSystem { kind: mount.kind.clone(), place: mount.place() });
    // Some file systems (Btrfs) have a number of their own, which is no device's.
    let own = sysfs(device).is_some().then_some(device);
    let source = || {
        let metadata = fs::metadata(mount.source_path()).ok()?;
        metadata.file_type().is_block_device().then(|| number(metadata.rdev()))
    };
    if let Some(device) = own.or_else(source) {
        devices(BTreeSet::from([device]), levels);
    }
}

fn devices(numbers: BTreeSet<Number>, levels: &mut Vec<HostLevel>) {
    let directories: BTreeSet<PathBuf> = numbers.into_iter().filter_map(sysfs).collect();
    let found: Vec<HostDevice> = directories.iter().filter_map(|directory| device(directory)).collect();
    if found.is_empty() || levels.len() >= MOST_LEVELS {
        return;
    }
    levels.push(HostLevel::Devices(found));
    let slaves: BTreeSet<Number> = directories.iter().flat_map(|directory| slaves(directory)).collect();
    if !slaves.is_empty() {
        return devices(slaves, levels);
    }
    // Only one: a file system stands between a loop device and what is below.
    if let [directory] = directories.iter().collect::<Vec<_>>()[..]
        && let Ok(file) = fs::read_to_string(directory.join("loop/backing_file"))
        && let Ok(metadata) = fs::metadata(file.trim_end_matches('\n'))
    {
        match metadata.file_type().is_block_device() {
            true => devices(BTreeSet::from([number(metadata.rdev())]), levels),
            false => file_system(number(metadata.dev()), levels),
        }
    }
}

/// The directory of the whole device.
fn sysfs(number: Number) -> Option<PathBuf> {
    let directory = fs::canonicalize(format!("/sys/dev/block/{}:{}", number.0, number.1)).ok()?;
    match directory.join("partition").exists() {
        true => Some(directory.parent()?.to_path_buf()),
        false => Some(directory),
    }
}

fn device(directory: &Path) -> Option<HostDevice> {
    let entries = fs::read_dir(directory).ok()?.flatten().map(|entry| entry.path());
    let mut partitions: Vec<Number> =
        entries.filter(|path| path.join("partition").exists()).filter_map(|path| number_in(&path)).collect();
    partitions.sort_unstable();
    Some(HostDevice {
        name: directory.file_name()?.to_string_lossy().replace('!', "/"),
        number: number_in(directory)?,
        partitions,
        has_requests: directory.join("mq").exists(),
    })
}

fn slaves(directory: &Path) -> Vec<Number> {
    let entries = fs::read_dir(directory.join("slaves")).into_iter().flatten().flatten();
    entries.filter_map(|entry| number_in(&entry.path())).collect()
}

fn number_in(directory: &Path) -> Option<Number> {
    let text = fs::read_to_string(directory.join("dev")).ok()?;
    let (major, minor) = text.trim().split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_lies_on_a_file_system_and_what_has_no_disk_ends_there() {
        let levels = below(Path::new("/proc/self/status"));
        assert_eq!(levels, [HostLevel::FileSystem { kind: "proc".into(), place: "/proc".into() }]);
        assert_eq!(below(Path::new("/no/such/file")), []);
    }

    #[test]
    fn every_disk_of_this_machine_is_its_own_first_level() {
        for disk in crate::disks::all() {
            let levels = below(&disk);
            let Some(HostLevel::Devices(devices)) = levels.first() else { continue };
            assert_eq!(Path::new("/dev").join(&devices[0].name), disk, "{levels:?}");
            assert!(!devices[0].partitions.contains(&devices[0].number));
        }
    }
}
