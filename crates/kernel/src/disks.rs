//! The disks of a machine, and those that processes have files on.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{major, minor};

/// Devices that do not hold user data.
const NO_DISKS: &[&str] = &["loop", "ram", "zram", "nbd", "fd", "sr"];

/// The disks of this machine.
pub fn all() -> BTreeSet<PathBuf> {
    let Ok(entries) = fs::read_dir("/sys/block") else { return BTreeSet::new() };
    let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    let disks = names.filter(|name| {
        let letters = name.trim_end_matches(|c: char| c.is_ascii_digit());
        let size = fs::read_to_string(format!("/sys/block/{name}/size")).unwrap_or_default();
        !NO_DISKS.contains(&letters) && size.trim() != "0"
    });
    disks.map(|name| Path::new("/dev").join(name)).collect()
}

/// The disks that processes have open files on.
pub fn of_processes(processes: &BTreeSet<u32>) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    let mut known: BTreeMap<u64, Option<PathBuf>> = BTreeMap::new();
    for pid in processes {
        let Ok(entries) = fs::read_dir(format!("/proc/{pid}/fd")) else { continue };
        for metadata in entries.flatten().filter_map(|entry| fs::metadata(entry.path()).ok()) {
            let kind = metadata.file_type();
            let number = match () {
                () if kind.is_file() => metadata.dev(),
                () if kind.is_block_device() => metadata.rdev(),
                () => continue,
            };
            found.extend(known.entry(number).or_insert_with(|| disk_of(number)).clone());
        }
    }
    found
}

/// The whole disk of a device's number; `None` for what has no disk (tmpfs, overlay).
fn disk_of(number: u64) -> Option<PathBuf> {
    let link = format!("/sys/dev/block/{}:{}", major(number), minor(number));
    let directory = fs::canonicalize(link).ok()?;
    let whole = if directory.join("partition").exists() { directory.parent()? } else { &directory };
    Some(Path::new("/dev").join(whole.file_name()?))
}
