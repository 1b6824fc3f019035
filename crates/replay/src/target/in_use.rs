//! Who else uses a device or file.

use std::fs;
use std::path::Path;

use rustix::fs::{major, minor};

use crate::error::ReplayError;

/// Refuses a device that is mounted, is swap, or on which something else is built, in itself or one of its partitions.
/// The kernel refuses as well when it is opened; this says by what.
pub(super) fn refuse_device(path: &Path, number: u64) -> Result<(), ReplayError> {
    let number = format!("{}:{}", major(number), minor(number));
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let used = user_of(&number, &mounts).or_else(|| {
        let device = Path::new("/sys/dev/block").join(&number);
        let entries = fs::read_dir(&device).ok()?;
        entries.flatten().find_map(|entry| {
            let part = fs::read_to_string(entry.path().join("dev")).ok()?;
            let used = user_of(part.trim(), &mounts)?;
            Some(format!("its partition {}: {used}", entry.file_name().to_string_lossy()))
        })
    });
    match used {
        None => Ok(()),
        Some(used) => Err(ReplayError::Refused {
            path: path.to_path_buf(),
            why: format!(
                "it is in use: {used}; nothing was written. Unmount it first, or name another device"
            ),
        }),
    }
}

/// What uses the device of a number.
fn user_of(number: &str, mounts: &str) -> Option<String> {
    let mounted = mounts.lines().find_map(|line| mounted_on(line, number));
    if let Some(place) = mounted {
        return Some(format!("it is mounted on {place}"));
    }
    let holders = fs::read_dir(Path::new("/sys/dev/block").join(number).join("holders")).ok()?;
    let holder = holders.flatten().next()?;
    Some(format!("{} is built on it", holder.file_name().to_string_lossy()))
}

/// Where a line of `mountinfo` (`proc_pid_mountinfo(5)`) mounts the device, if it does.
fn mounted_on<'a>(line: &'a str, number: &str) -> Option<&'a str> {
    let mut words = line.split(' ').skip(2);
    (words.next()? == number).then(|| words.nth(1)).flatten()
}

/// Refuses a file that has a loop device.
pub(super) fn refuse_loop_file(path: &Path) -> Result<(), ReplayError> {
    let (Ok(file), Ok(devices)) = (path.canonicalize(), fs::read_dir("/sys/block")) else { return Ok(()) };
    for device in devices.flatten() {
        let backing = fs::read_to_string(device.path().join("loop/backing_file")).unwrap_or_default();
        if Path::new(backing.trim_end_matches('\n')) == file {
            let name = device.file_name();
            let name = name.to_string_lossy();
            return Err(ReplayError::Refused {
                path: path.to_path_buf(),
                why: format!(
                    "it is in use as the loop device /dev/{name}; `losetup --detach /dev/{name}` detaches it"
                ),
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_are_found_by_the_devices_number() {
        let line = "36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue";
        assert_eq!(mounted_on(line, "98:0"), Some("/mnt2"));
        assert_eq!(mounted_on(line, "98:1"), None);
        assert_eq!(mounted_on("36 35", "98:0"), None);
    }
}
