//! Loop devices: made with a mark that only their maker knows, found by it, and the file that one is made of.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::OFlags;
use rustix::io::Errno;

use super::private::random_digits;
use crate::not_undone::NotUndone;

// Requests of linux/loop.h.
const LOOP_SET_FD: u32 = 0x4c00;
const LOOP_CLR_FD: u32 = 0x4c01;
const LOOP_SET_STATUS64: u32 = 0x4c04;
const LOOP_GET_STATUS64: u32 = 0x4c05;
const LOOP_SET_DIRECT_IO: u32 = 0x4c08;
/// Since Linux 5.8.
const LOOP_CONFIGURE: u32 = 0x4c0a;
const LOOP_CTL_GET_FREE: u32 = 0x4c82;

#[cfg(test)]
const LO_FLAGS_AUTOCLEAR: u32 = 4;
const LO_FLAGS_DIRECT_IO: u32 = 16;

/// How many devices are tried if other programs take them at the same moment.
const TRIES: usize = 64;
/// How long another process may have a detached device open before it counts as in use.
const CLOSED_LIMIT: Duration = Duration::from_secs(2);
const CLOSED_PAUSE: Duration = Duration::from_millis(1);

/// `struct loop_config`.
#[repr(C)]
struct Configuration {
    file: u32,
    block_bytes: u32,
    status: Status,
    unused: [u64; 8],
}

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
    /// The mark of its maker. Other programs write the beginning of the file's path, which the kernel reports in full elsewhere.
    name: [u8; 64],
    cipher: [u8; 64],
    key: [u8; 32],
    unused: [u64; 2],
}

impl Status {
    /// As of a device that is to be made.
    fn new() -> Self {
        Self {
            device: 0,
            inode: 0,
            own_device: 0,
            offset: 0,
            size_limit: 0,
            number: 0,
            encryption: 0,
            key_bytes: 0,
            flags: 0,
            name: [0; 64],
            cipher: [0; 64],
            key: [0; 32],
            unused: [0; 2],
        }
    }

    fn marked(mark: &str, direct_io: bool) -> Self {
        let mut status = Self::new();
        // The last byte ends the text.
        for (to, from) in status.name[..63].iter_mut().zip(mark.bytes()) {
            *to = from;
        }
        status.flags = if direct_io { LO_FLAGS_DIRECT_IO } else { 0 };
        status
    }

    fn has_mark(&self, mark: &str) -> bool {
        let end = self.name.iter().position(|&byte| byte == 0).unwrap_or(self.name.len());
        !mark.is_empty() && &self.name[..end] == mark.as_bytes()
    }
}

/// What a loop device is marked with, so that no other is ever taken for it: its number and its file's path are used again.
///
/// # Errors
/// The system has no random numbers.
pub(crate) fn new_mark() -> io::Result<String> {
    Ok(format!("nestor-{}", random_digits()?))
}

/// Makes a loop device of a file; it has its mark from the moment it is there. Returns its path.
///
/// # Errors
/// The file or a free device cannot be opened, or the kernel refuses.
pub(crate) fn attach(file: &Path, direct_io: bool, mark: &str) -> io::Result<String> {
    let flags = if direct_io { OFlags::DIRECT } else { OFlags::empty() };
    let flags = flags.bits().cast_signed();
    let backing = OpenOptions::new().read(true).write(true).custom_flags(flags).open(file)?;
    attach_opened(&backing, direct_io, mark)
}

/// The same through the page cache, of a file that is only read: the kernel makes the device read-only, too.
///
/// # Errors
/// As [`attach`].
pub(crate) fn attach_to_read(file: &Path, mark: &str) -> io::Result<String> {
    attach_opened(&File::open(file)?, false, mark)
}

fn attach_opened(backing: &File, direct_io: bool, mark: &str) -> io::Result<String> {
    let at = |path: &str, e: io::Error| io::Error::new(e.kind(), format!("{path}: {e}"));
    let mut how = OpenOptions::new();
    how.read(true).write(true);
    let control = how.open("/dev/loop-control").map_err(|e| at("/dev/loop-control", e))?;
    for _ in 0..TRIES {
        // SAFETY: the descriptor is open, and the request takes no argument.
        let number = done(unsafe { libc::ioctl(control.as_raw_fd(), LOOP_CTL_GET_FREE as _) })?;
        let path = format!("/dev/loop{number}");
        let device = how.open(&path).map_err(|e| at(&path, e))?;
        let status = Status::marked(mark, direct_io);
        let made = match configure(&device, backing, status) {
            // Linux before 5.8.
            Err(e) if is(&e, Errno::INVAL) || is(&e, Errno::NOTTY) => {
                configure_step_by_step(&device, backing, &Status::marked(mark, direct_io))
            }
            made => made,
        };
        match made {
            Err(e) if is(&e, Errno::BUSY) => {}
            made => return made.map(|()| path).map_err(|e| at(&format!("/dev/loop{number}"), e)),
        }
    }
    Err(Errno::BUSY.into())
}

fn configure(device: &File, backing: &File, status: Status) -> io::Result<()> {
    let file = backing.as_raw_fd().cast_unsigned();
    let wanted = Configuration { file, block_bytes: 0, status, unused: [0; 8] };
    // SAFETY: both descriptors are open, and the kernel reads no more than a `loop_config`, which `Configuration` is.
    done(unsafe { libc::ioctl(device.as_raw_fd(), LOOP_CONFIGURE as _, &raw const wanted) }).map(drop)
}

/// Who is killed within this leaves a device without a mark.
fn configure_step_by_step(device: &File, backing: &File, status: &Status) -> io::Result<()> {
    let number = device.as_raw_fd();
    // SAFETY: both descriptors are open.
    done(unsafe { libc::ioctl(number, LOOP_SET_FD as _, backing.as_raw_fd()) })?;
    // SAFETY: the descriptor is open, and the kernel reads no more than a `loop_info64`, which `Status` is.
    let mut made = done(unsafe { libc::ioctl(number, LOOP_SET_STATUS64 as _, std::ptr::from_ref(status)) });
    if made.is_ok() && status.flags & LO_FLAGS_DIRECT_IO != 0 {
        // SAFETY: the descriptor is open.
        made = done(unsafe { libc::ioctl(number, LOOP_SET_DIRECT_IO as _, 1) });
    }
    if made.is_err() {
        // Without its mark, its owner would not be known.
        let _ = clear(device);
    }
    made.map(drop)
}

fn clear(device: &File) -> io::Result<()> {
    // SAFETY: the descriptor is open, and the request takes no argument.
    done(unsafe { libc::ioctl(device.as_raw_fd(), LOOP_CLR_FD as _) }).map(drop)
}

fn done(answer: libc::c_int) -> io::Result<libc::c_int> {
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(answer) }
}

fn is(error: &io::Error, number: Errno) -> bool {
    error.raw_os_error() == Some(number.raw_os_error())
}

/// Loop devices that are made of a file of this name, in whatever mount namespace.
pub(super) fn named(file: &str) -> Vec<String> {
    attached().filter(|(_, backing)| backing == file).map(|(device, _)| device).collect()
}

/// Paths of all loop devices that are made of something, with its name.
fn attached() -> impl Iterator<Item = (String, String)> {
    fs::read_dir("/sys/block").into_iter().flatten().flatten().filter_map(|block| {
        let backing = fs::read(block.path().join("loop/backing_file")).ok()?;
        let backing = String::from_utf8_lossy(&backing);
        let backing = backing.trim_end_matches('\n').trim_end_matches(" (deleted)").to_owned();
        Some((format!("/dev/{}", block.file_name().to_string_lossy()), backing))
    })
}

/// Detaches the device with a mark, if it exists. `file` is what it was made of.
///
/// # Errors
/// It cannot be detached, or one that is made of a file of this name cannot be looked at.
pub(crate) fn detach(mark: &str, file: &str) -> Result<(), NotUndone> {
    for (path, backing) in attached() {
        // While it is open here, it cannot be detached and made of another file.
        let found = File::open(&path).and_then(|device| {
            let is_it = has_mark(&device, mark);
            if is_it { clear(&device).map(|()| true) } else { Ok(false) }
        });
        match found {
            Ok(true) => wait_until_closed(&path, mark),
            Err(e) if is(&e, Errno::NXIO) => {}
            Err(e) if backing == file => {
                return Err(NotUndone::LoopDevice { device: path, error: (&e).into() });
            }
            _ => {}
        }
    }
    Ok(())
}

/// Waits until a device that was cleared is detached. The kernel detaches it when the last process closes it, and a process that looks
/// for a mark, as [`detach`] does, has each device open for a moment. One that is in use for longer stays until that ends.
fn wait_until_closed(path: &str, mark: &str) {
    let deadline = Instant::now() + CLOSED_LIMIT;
    while Instant::now() < deadline && File::open(path).is_ok_and(|device| has_mark(&device, mark)) {
        std::thread::sleep(CLOSED_PAUSE);
    }
}

fn has_mark(device: &File, mark: &str) -> bool {
    status(device).is_some_and(|status| status.has_mark(mark))
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
    let mut status = Status::new();
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
        assert_eq!(size_of::<Configuration>(), 304);
        assert_eq!(kernels(rustix::fs::makedev(254, 0x1203)), 0x0120_fe03);
    }

    #[test]
    fn a_file_is_no_loop_device() {
        assert!(backing_file(&tempfile::tempfile().unwrap()).is_none());
    }

    /// A file of which a loop device can be made: needs root.
    fn backing() -> Option<tempfile::NamedTempFile> {
        if !rustix::process::geteuid().is_root() {
            return None;
        }
        let backing = tempfile::NamedTempFile::new_in("/var/tmp").unwrap();
        backing.as_file().set_len(1 << 20).unwrap();
        Some(backing)
    }

    #[test]
    fn a_loop_device_is_found_by_its_mark_alone() {
        let Some(backing) = backing() else { return };
        let file = backing.path().to_str().unwrap();
        let mark = new_mark().unwrap();
        // Machines without loop devices, and containers, have none to try this with.
        let Ok(device) = attach(backing.path(), true, &mark) else { return };
        let marked = status(&File::open(&device).unwrap()).unwrap().has_mark(&mark);
        detach(&new_mark().unwrap(), file).unwrap();
        let kept = named(file);
        detach(&mark, file).unwrap();
        assert!(marked);
        assert_eq!(kept, [device], "of the same file, but with another mark");
        assert_eq!(named(file), Vec::<String>::new());
        detach(&mark, file).unwrap();
    }

    #[test]
    fn a_device_of_a_file_that_is_only_read_takes_no_writes() {
        let Some(backing) = backing() else { return };
        let file = backing.path().to_str().unwrap();
        let mark = new_mark().unwrap();
        let Ok(device) = attach_to_read(backing.path(), &mark) else { return };
        let name = device.trim_start_matches("/dev/");
        let is_read_only = fs::read_to_string(format!("/sys/block/{name}/ro")).unwrap();
        detach(&mark, file).unwrap();
        assert_eq!(is_read_only.trim(), "1");
        assert_eq!(named(file), Vec::<String>::new());
    }

    #[test]
    fn a_device_that_another_process_has_open_for_a_moment_is_detached_in_the_end() {
        let Some(backing) = backing() else { return };
        let file = backing.path().to_str().unwrap();
        let mark = new_mark().unwrap();
        let Ok(device) = attach(backing.path(), false, &mark) else { return };
        let looking = File::open(&device).unwrap();
        std::thread::scope(|scope| {
            let detached = scope.spawn(|| detach(&mark, file));
            // The kernel has marked it for its last close.
            while !detached.is_finished() && status(&looking).unwrap().flags & LO_FLAGS_AUTOCLEAR == 0 {
                std::thread::yield_now();
            }
            drop(looking);
            detached.join().unwrap().unwrap();
        });
        assert_eq!(named(file), Vec::<String>::new());
    }

    #[test]
    fn a_kernel_that_needs_more_than_one_step_marks_it_too() {
        let Some(backing) = backing() else { return };
        let file = backing.path().to_str().unwrap();
        let mark = new_mark().unwrap();
        // A free one, unless another program takes it at this moment.
        let Ok(device) = attach(backing.path(), false, &mark) else { return };
        detach(&mark, file).unwrap();
        let device = OpenOptions::new().read(true).write(true).open(device).unwrap();
        match configure_step_by_step(&device, backing.as_file(), &Status::marked(&mark, false)) {
            Err(e) if is(&e, Errno::BUSY) => return,
            made => made.unwrap(),
        }
        let marked = status(&device).unwrap().has_mark(&mark);
        drop(device);
        detach(&mark, file).unwrap();
        assert!(marked && named(file).is_empty());
    }
}
