//! Devices in virtual time: which event descriptor notifies which disk or link, and what that says when its next event is.

use std::ffi::{c_int, c_void};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::ptr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicPtr, AtomicU8, Ordering};

use super::protocol::{DISK_TIME_SUFFIX, LINK_TIME_SUFFIX, NO_EVENT, NO_QUEUE};
use super::qemu::{Qemu, Timer, qemu};
use super::{idle, system};

/// Event descriptors with larger numbers are not watched.
const MOST_DESCRIPTORS: usize = 4096;

/// How long a link's answer, which may wait for another machine, is awaited at once.
const PATIENCE_MS: c_int = 1;

/// The link that has not answered yet. As long as there is one, time stands.
static AWAITED: AtomicPtr<Device> = AtomicPtr::new(ptr::null_mut());

/// The device that a descriptor notifies.
static NOTIFIED: [AtomicPtr<Device>; MOST_DESCRIPTORS] =
    [const { AtomicPtr::new(ptr::null_mut()) }; MOST_DESCRIPTORS];

/// Of which of its queues.
static QUEUES: [AtomicU8; MOST_DESCRIPTORS] = [const { AtomicU8::new(0) }; MOST_DESCRIPTORS];

/// Every device that ever was; they are never freed, for QEMU's timers point at them.
static DEVICES: Mutex<Vec<&'static Device>> = Mutex::new(Vec::new());

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Answers at once.
    Disk,
    /// Is also told until when the machine has nothing to do by itself, and may wait for another machine before it answers.
    Link,
}

struct Device {
    kind: Kind,
    socket: String,
    /// `None` once the device is gone.
    talk: Mutex<Option<Talk>>,
    timer: AtomicPtr<Timer>,
}

struct Talk {
    stream: UnixStream,
    /// The device was told the time and has not answered.
    is_told: bool,
}

/// Notes that a descriptor notifies the device at the other end of a vhost-user socket of a queue, if that is one of virtual time.
pub fn learn(vhost_socket: c_int, notifies: c_int, queue: u8) {
    let Some(socket) = system::peer_path(vhost_socket) else { return };
    let Some(fd) = usize::try_from(notifies).ok().filter(|fd| *fd < MOST_DESCRIPTORS) else { return };
    let device = find(&socket).or_else(|| connect(socket));
    QUEUES[fd].store(queue, Ordering::Release);
    NOTIFIED[fd]
        .store(device.map_or(ptr::null_mut(), |device| ptr::from_ref(device).cast_mut()), Ordering::Release);
}

fn find(socket: &str) -> Option<&'static Device> {
    let devices = DEVICES.lock().ok()?;
    devices.iter().find(|device| device.socket == socket && device.is_there()).copied()
}

fn connect(socket: String) -> Option<&'static Device> {
    let kinds = [(Kind::Disk, DISK_TIME_SUFFIX), (Kind::Link, LINK_TIME_SUFFIX)];
    let (kind, stream) = kinds
        .into_iter()
        .find_map(|(kind, suffix)| Some((kind, UnixStream::connect(format!("{socket}{suffix}")).ok()?)))?;
    let timer = Box::into_raw(Box::new(Timer::new()));
    let talk = Mutex::new(Some(Talk { stream, is_told: false }));
    let device: &'static Device =
        Box::leak(Box::new(Device { kind, socket, talk, timer: AtomicPtr::new(timer) }));
    // SAFETY: timer and device are never freed, and `due` expects a device.
    unsafe { qemu()?.make_timer(timer, due, ptr::from_ref(device).cast_mut().cast()) };
    DEVICES.lock().ok()?.push(device);
    Some(device)
}

/// Whether a link has not answered yet.
pub fn is_link_awaited() -> bool {
    !AWAITED.load(Ordering::Acquire).is_null()
}

/// The processor's thread, which holds nothing, waits until no link's answer is awaited any more. Meanwhile QEMU's main loop reads what comes
/// for the agent.
pub fn await_link(qemu: &Qemu) {
    if !is_link_awaited() {
        return;
    }
    let _standing = idle::Standing::begin();
    // SAFETY: devices are never freed.
    while let Some(link) = unsafe { AWAITED.load(Ordering::Acquire).as_ref() } {
        if link.has_answered() {
            // Unless the main loop was faster.
            qemu.with_big_lock(|| {
                if is_link_awaited() {
                    link.tell(None);
                }
            });
        }
    }
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
    let Some(fd) = usize::try_from(fd).ok().filter(|fd| *fd < MOST_DESCRIPTORS) else { return };
    let device = NOTIFIED[fd].load(Ordering::Acquire);
    // SAFETY: devices are never freed.
    if let Some(device) = unsafe { device.as_ref() } {
        device.tell(Some(QUEUES[fd].load(Ordering::Acquire)));
    }
}

/// Tells all links what time it is: the machine goes on after it stood. The caller is the processor's thread and holds nothing.
pub fn tell_links() {
    let Ok(devices) = DEVICES.lock().map(|devices| devices.clone()) else { return };
    let links: Vec<_> =
        devices.iter().filter(|device| device.kind == Kind::Link && device.is_there()).collect();
    if let Some(qemu) = qemu().filter(|_| !links.is_empty()) {
        qemu.with_big_lock(|| links.iter().for_each(|link| link.tell(None)));
    }
}

/// Looks for a link's answer again, once QEMU's main loop has gone round.
extern "C" fn ask_again(link: *mut c_void) {
    if !is_link_awaited() {
        return;
    }
    // SAFETY: `tell` gave a device, which is never freed.
    if let (Some(qemu), Some(link)) = (qemu(), unsafe { link.cast::<Device>().as_ref() }) {
        // Nothing but the answer lets time pass: a timer that is due now keeps QEMU from skipping to another.
        // SAFETY: `connect` made the timer.
        unsafe { qemu.set_timer(link.timer.load(Ordering::Relaxed), Some(qemu.now_ns())) };
    }
}

extern "C" fn due(device: *mut c_void) {
    // SAFETY: `connect` gave a device, which is never freed.
    if let Some(device) = unsafe { device.cast::<Device>().as_ref() } {
        device.tell(None);
    }
}

impl Device {
    fn is_there(&self) -> bool {
        self.talk.lock().is_ok_and(|talk| talk.is_some())
    }

    /// It has answered, or is gone.
    fn is_no_longer_awaited(&self) {
        let this = ptr::from_ref(self).cast_mut();
        // Another link may be awaited.
        let _ = AWAITED.compare_exchange(this, ptr::null_mut(), Ordering::AcqRel, Ordering::Relaxed);
    }

    /// Whether it has answered, or is gone. Waits a moment for that.
    fn has_answered(&self) -> bool {
        let stream = self.talk.lock().ok().and_then(|talk| Some(talk.as_ref()?.stream.as_raw_fd()));
        stream.is_none_or(|stream| system::is_readable_within(stream, PATIENCE_MS))
    }

    /// Tells the device what time it is and which queue the guest has just notified, waits until it has done what is due, and sets the timer
    /// for its next event.
    ///
    /// A link may wait for another machine. If that takes longer than [`PATIENCE_MS`], QEMU's main loop goes round and asks again, with a timer
    /// that is due now so that it skips no time; and the processor's thread executes nothing before the answer is there ([`await_link`]).
    fn tell(&self, notified: Option<u8>) {
        let (Some(qemu), Ok(mut talk)) = (qemu(), self.talk.lock()) else { return };
        let Some(open) = talk.as_mut() else { return };
        let now_ns = qemu.now_ns();
        let next_ns = match open.ask(self.kind, qemu, now_ns, notified) {
            Ok(Some(next_ns)) => {
                self.is_no_longer_awaited();
                next_ns.max(now_ns + 1)
            }
            Ok(None) => {
                AWAITED.store(ptr::from_ref(self).cast_mut(), Ordering::Release);
                qemu.keep_from_idling();
                // SAFETY: the device is never freed, and `ask_again` expects one.
                unsafe { qemu.call_soon(ask_again, ptr::from_ref(self).cast_mut().cast()) };
                if qemu.is_processor() {
                    qemu.leave_processor_loop();
                }
                NO_EVENT
            }
            Err(_) => {
                *talk = None;
                self.is_no_longer_awaited();
                NO_EVENT
            }
        };
        drop(talk);
        // First: QEMU skips the time of an idle machine at once when a timer is set.
        qemu.take_notifications();
        // SAFETY: `connect` made the timer.
        unsafe {
            qemu.set_timer(self.timer.load(Ordering::Relaxed), (next_ns != NO_EVENT).then_some(next_ns));
        }
    }
}

impl Talk {
    /// The time of the device's next event; `None` if its answer takes longer.
    fn ask(&mut self, kind: Kind, qemu: &Qemu, now_ns: u64, notified: Option<u8>) -> io::Result<Option<u64>> {
        if !self.is_told {
            match kind {
                Kind::Disk => self.stream.write_all(&now_ns.to_le_bytes())?,
                Kind::Link => {
                    let queue = notified.map_or(NO_QUEUE, u64::from);
                    let told = [now_ns, qemu.quiet_until_ns(now_ns), queue].map(u64::to_le_bytes);
                    self.stream.write_all(told.as_flattened())?;
                }
            }
            self.is_told = true;
        }
        if kind == Kind::Link && !system::is_readable_within(self.stream.as_raw_fd(), PATIENCE_MS) {
            return Ok(None);
        }
        let mut next = [0; 8];
        self.stream.read_exact(&mut next)?;
        self.is_told = false;
        Ok(Some(u64::from_le_bytes(next)))
    }
}
