//! Devices and files of the user's, taken so that nobody else uses them at the same time.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, OFlags, flock};

/// Device managers hold a shared lock for the moment in which they look at a device.
const LOCK_LIMIT: Duration = Duration::from_secs(2);

/// Opens and locks a medium; the lock lives as long as the file, so it never outlives the agent.
///
/// # Errors
/// Who uses it, as far as the kernel tells.
pub(super) fn claim(path: &str) -> Result<File, String> {
    let is_device = fs::metadata(path).is_ok_and(|m| m.file_type().is_block_device());
    if is_device {
        // The kernel lets only one user at a time have a device exclusively: a mount, a swap area, an array, a volume
        // group. Asked and given back at once, for we want to mount it.
        let exclusive =
            OpenOptions::new().read(true).custom_flags(OFlags::EXCL.bits().cast_signed()).open(path);
        if let Err(e) = exclusive {
            return Err(match e.raw_os_error() {
                Some(code) if code == rustix::io::Errno::BUSY.raw_os_error() => {
                    format!(
                        "{path} is in use: the kernel says that it is busy (mounted, swap, part of an array or a volume group?)"
                    )
                }
                _ => format!("{path} could not be opened: {e}"),
            });
        }
    }
    let file = File::open(path).map_err(|e| format!("{path} could not be opened: {e}"))?;
    let deadline = Instant::now() + LOCK_LIMIT;
    loop {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(file),
            Err(rustix::io::Errno::WOULDBLOCK) if Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(50));
            }
            Err(rustix::io::Errno::WOULDBLOCK) => {
                return Err(format!(
                    "{path} is in use: another program has locked it, perhaps another run of nestor; wait for its end"
                ));
            }
            Err(e) => return Err(format!("{path} could not be locked: {e}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_claimed_once_at_a_time() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path().to_str().unwrap();
        let first = claim(path).unwrap();
        assert!(claim(path).unwrap_err().contains("another run of nestor"));
        drop(first);
        claim(path).unwrap();
        assert!(claim("/nonexistent/disk.img").unwrap_err().contains("could not be opened"));
    }
}
