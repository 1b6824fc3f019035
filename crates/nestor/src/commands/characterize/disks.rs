//! Which block device is meant.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use super::who::Who;

/// Devices that do not hold user data.
const NO_DISKS: &[&str] = &["loop", "ram", "zram", "nbd", "fd", "sr"];

/// The device to watch: the one named, the one that the processes have files on, or the only one there is.
///
/// # Errors
/// When it is not clear which.
pub fn device(named: Option<&str>, who: &Who) -> Result<PathBuf> {
    if let Some(named) = named {
        return Ok(PathBuf::from(named));
    }
    let (candidates, whose) = match who {
        Who::Everybody => (all(), "this machine has".to_owned()),
        _ => (of_processes(&who.processes()), format!("{} has files on", who.in_words())),
    };
    match candidates.len() {
        1 => Ok(candidates.into_iter().next().unwrap_or_default()),
        0 => {
            bail!(
                "{whose} no disk that can be identified: name it with --device, as `findmnt` or `lsblk` \
                   shows it"
            )
        }
        _ => {
            let list: Vec<String> = candidates.iter().map(|path| path.display().to_string()).collect();
            bail!("{whose} several disks: name one with --device: {}", list.join(", "))
        }
    }
}

/// The disks of this machine.
fn all() -> BTreeSet<PathBuf> {
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
fn of_processes(processes: &BTreeSet<u32>) -> BTreeSet<PathBuf> {
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
    let link = format!("/sys/dev/block/{}:{}", libc::major(number), libc::minor(number));
    let directory = fs::canonicalize(link).ok()?;
    let whole = if directory.join("partition").exists() { directory.parent()? } else { &directory };
    Some(Path::new("/dev").join(whole.file_name()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_named_device_is_taken_and_none_is_an_error() {
        assert_eq!(device(Some("/dev/sdx"), &Who::Everybody).unwrap(), Path::new("/dev/sdx"));
        // A process without any file: itself gone.
        let error = device(None, &Who::Process(u32::MAX)).unwrap_err().to_string();
        assert!(error.ends_with("name it with --device, as `findmnt` or `lsblk` shows it"), "{error}");
    }
}
