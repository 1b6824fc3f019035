//! The file that a loop device is made of.

use std::fs::{self, File};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::MetadataExt as _;

/// Asks for a [`Status`] (linux/loop.h).
const LOOP_GET_STATUS64: u32 = 0x4c05;

/// `struct loop_info64`.
#[repr(C)]
struct Status {
    device: u64,
    inode: u64,
    own_device: u64,
    offset: u64,
    size_limit: u64,
    number: u32,
    encryption: u32,
    key_bytes: u32,
    flags: u32,
    names: [u8; 128],
    key: [u8; 32],
    unused: [u64; 2],
}

/// The regular file whose beginning is what the device holds, open for reading, with all in it that was written to the
/// device. `None` for other devices, partitions among them, and where the file is not to be reached under its name.
pub(super) fn backing_file(device: &File) -> Option<File> {
    let number = device.metadata().ok()?.rdev();
    let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
    let name = fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/loop/backing_file")).ok()?;
    let status = status(device)?;
    if status.offset != 0 || status.encryption != 0 {
        return None;
    }
    device.sync_all().ok()?;
    // Looked at before it is opened, for opening a pipe would wait.
    let name = name.strip_suffix('\n')?;
    fs::metadata(name).ok().filter(fs::Metadata::is_file)?;
    let file = File::open(name).ok()?;
    let found = file.metadata().ok()?;
    // Another file may have that name by now, or in this namespace.
    let is_it = found.is_file() && (kernels(found.dev()), found.ino()) == (status.device, status.inode);
    is_it.then_some(file)
}

fn status(device: &File) -> Option<Status> {
    let mut status = Status {
        device: 0,
        inode: 0,
        own_device: 0,
        offset: 0,
        size_limit: 0,
        number: 0,
        encryption: 0,
        key_bytes: 0,
        flags: 0,
        names: [0; 128],
        key: [0; 32],
        unused: [0; 2],
    };
    // SAFETY: the descriptor is open, and the kernel writes no more than a `loop_info64`, which `Status` is.
    let done = unsafe { libc::ioctl(device.as_raw_fd(), LOOP_GET_STATUS64 as _, &raw mut status) };
    (done == 0).then_some(status)
}

/// The number of a device as the kernel writes it: the minor number around the major one.
fn kernels(device: u64) -> u64 {
    let (major, minor) = (u64::from(rustix::fs::major(device)), u64::from(rustix::fs::minor(device)));
    (minor & 0xff) | (major << 8) | ((minor & !0xff) << 12)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_fills_in_has_its_size() {
        assert_eq!(size_of::<Status>(), 232);
        assert_eq!(kernels(rustix::fs::makedev(254, 0x1203)), 0x0120_fe03);
    }

    #[test]
    fn a_file_is_no_loop_device() {
        assert!(backing_file(&tempfile::tempfile().unwrap()).is_none());
    }
}
