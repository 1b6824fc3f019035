//! Disks in virtual time: which event descriptor notifies which disk, and what the disk says when its next event is.

use std::ffi::{c_int, c_void};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::ptr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicPtr, Ordering};

use super::protocol::{DISK_TIME_SUFFIX, NO_EVENT};
use super::qemu::{Timer, qemu};
use super::system;

/// Event descriptors with larger numbers are not watched.
const MOST_DESCRIPTORS: usize = 4096;

/// The disk that a descriptor notifies.
static NOTIFIED: [AtomicPtr<Disk>; MOST_DESCRIPTORS] =
    [const { AtomicPtr::new(ptr::null_mut()) }; MOST_DESCRIPTORS];

/// Every disk that ever was; they are never freed, for QEMU's timers point at them.
static DISKS: Mutex<Vec<&'static Disk>> = Mutex::new(Vec::new());

struct Disk {
    socket: String,
    /// `None` once the disk is gone.
    stream: Mutex<Option<UnixStream>>,
    timer: AtomicPtr<Timer>,
}

/// Notes that a descriptor notifies the disk at the other end of a vhost-user socket, if that is one of virtual time.
pub fn learn(vhost_socket: c_int, notifies: c_int) {
    let Some(socket) = system::peer_path(vhost_socket) else { return };
    let Some(place) = usize::try_from(notifies).ok().and_then(|fd| NOTIFIED.get(fd)) else { return };
    let disk = find(&socket).or_else(|| connect(socket));
    place.store(disk.map_or(ptr::null_mut(), |disk| ptr::from_ref(disk).cast_mut()), Ordering::Release);
}

fn find(socket: &str) -> Option<&'static Disk> {
    let disks = DISKS.lock().ok()?;
    disks.iter().find(|disk| disk.socket == socket && disk.is_there()).copied()
}

fn connect(socket: String) -> Option<&'static Disk> {
    let stream = UnixStream::connect(format!("{socket}{DISK_TIME_SUFFIX}")).ok()?;
    let timer = Box::into_raw(Box::new(Timer::new()));
    let disk: &'static Disk =
        Box::leak(Box::new(Disk { socket, stream: Mutex::new(Some(stream)), timer: AtomicPtr::new(timer) }));
    // SAFETY: timer and disk are never freed, and `due` expects a disk.
    unsafe { qemu()?.make_timer(timer, due, ptr::from_ref(disk).cast_mut().cast()) };
    DISKS.lock().ok()?.push(disk);
    Some(disk)
}

/// A descriptor was closed and may come to mean something else.
pub fn forget(fd: c_int) {
    let place = usize::try_from(fd).ok().and_then(|fd| NOTIFIED.get(fd));
    if let Some(place) = place.filter(|place| !place.load(Ordering::Relaxed).is_null()) {
        place.store(ptr::null_mut(), Ordering::Release);
    }
}

/// The guest has notified whatever this descriptor belongs to.
pub fn notified(fd: c_int) {
    let Some(place) = usize::try_from(fd).ok().and_then(|fd| NOTIFIED.get(fd)) else { return };
    let disk = place.load(Ordering::Acquire);
    // SAFETY: disks are never freed.
    if let Some(disk) = unsafe { disk.as_ref() } {
        disk.tell();
    }
}

extern "C" fn due(disk: *mut c_void) {
    // SAFETY: `connect` gave a disk, which is never freed.
    if let Some(disk) = unsafe { disk.cast::<Disk>().as_ref() } {
        disk.tell();
    }
}

impl Disk {
    fn is_there(&self) -> bool {
        self.stream.lock().is_ok_and(|stream| stream.is_some())
    }

    /// Tells the disk what time it is, waits until it has done what is due, and sets the timer for its next event.
    fn tell(&self) {
        let (Some(qemu), Ok(mut stream)) = (qemu(), self.stream.lock()) else { return };
        let Some(open) = stream.as_mut() else { return };
        let now_ns = qemu.now_ns();
        let mut next = [0; 8];
        let next_ns = match open.write_all(&now_ns.to_le_bytes()).and_then(|()| open.read_exact(&mut next)) {
            Ok(()) => u64::from_le_bytes(next),
            Err(_) => {
                *stream = None;
                NO_EVENT
            }
        };
        drop(stream);
        let at_ns = (next_ns != NO_EVENT).then(|| next_ns.max(now_ns + 1));
        // SAFETY: `connect` made the timer.
        unsafe { qemu.set_timer(self.timer.load(Ordering::Relaxed), at_ns) };
        qemu.take_notifications();
    }
}
