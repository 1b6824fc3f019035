//! The functions of the C library that this library stands before.
//!
//! Each does what the original does, and tells the rest of the library what it needs to know.

use std::ffi::{c_int, c_void};
use std::io::{Error, ErrorKind};

use super::system::{ControlHeader, MessageHeader, Replaced};
use super::{clock, controller, counting, devices, idle, system, tlb};

/// `VHOST_USER_SET_VRING_KICK` (QEMU, docs/interop/vhost-user.rst).
const SET_VRING_KICK: u32 = 12;
/// Bytes of a vhost-user message's header.
const HEADER_BYTES: usize = 12;
/// Bytes of a vhost-user message's header and a number.
const VRING_MESSAGE_BYTES: usize = HEADER_BYTES + 8;
const SOL_SOCKET: c_int = 1;
const SCM_RIGHTS: c_int = 1;
/// Bytes that are written to an event descriptor.
const EVENT_BYTES: usize = 8;

static WRITE: Replaced = Replaced::new(c"write");
static SENDMSG: Replaced = Replaced::new(c"sendmsg");
static RECVMSG: Replaced = Replaced::new(c"recvmsg");
static ACCEPT4: Replaced = Replaced::new(c"accept4");
static CLOSE: Replaced = Replaced::new(c"close");
static THREAD_CREATE: Replaced = Replaced::new(c"pthread_create");
static MUTEX_LOCK: Replaced = Replaced::new(c"pthread_mutex_lock");
static MUTEX_UNLOCK: Replaced = Replaced::new(c"pthread_mutex_unlock");
static TIME_OF_DAY: Replaced = Replaced::new(c"gettimeofday");
static LONG_JUMP: Replaced = Replaced::new(c"siglongjmp");
static CHECKED_LONG_JUMP: Replaced = Replaced::new(c"__longjmp_chk");

/// Of `siglongjmp(3)`.
type LongJump = unsafe extern "C" fn(*mut c_void, c_int) -> !;

/// # Safety
///
/// As `write(2)`.
#[cfg_attr(preload, unsafe(no_mangle))]
pub unsafe extern "C" fn write(fd: c_int, buffer: *const c_void, bytes: usize) -> isize {
    // SAFETY: the signature is that of write(2), the arguments are the caller's.
    let written = unsafe {
        WRITE.get::<unsafe extern "C" fn(c_int, *const c_void, usize) -> isize>()(fd, buffer, bytes)
    };
    if bytes == EVENT_BYTES {
        devices::notified(fd);
    }
    written
}

/// # Safety
///
/// As `sendmsg(2)`.
#[cfg_attr(preload, unsafe(no_mangle))]
pub unsafe extern "C" fn sendmsg(fd: c_int, message: *const MessageHeader, flags: c_int) -> isize {
    // SAFETY: the signature is that of sendmsg(2).
    let original =
        unsafe { SENDMSG.get::<unsafe extern "C" fn(c_int, *const MessageHeader, c_int) -> isize>() };
    // SAFETY: the caller's message is valid.
    if let Some((notifies, queue)) = unsafe { message.as_ref().and_then(|message| notifier_in(message)) } {
        devices::learn(fd, notifies, queue);
    }
    if controller::is_agent(fd) {
        // Before the controller hears that the machine has booted.
        clock::require();
    }
    loop {
        // SAFETY: the arguments are the caller's.
        let sent = unsafe { original(fd, message, flags) };
        if !controller::is_agent(fd) {
            return sent;
        }
        match usize::try_from(sent) {
            Ok(bytes) => controller::agent_wrote(bytes),
            // QEMU would try again whenever its main loop comes by, which is at no certain virtual time.
            Err(_) if Error::last_os_error().kind() == ErrorKind::WouldBlock => {
                system::wait_until_writable(fd);
                continue;
            }
            Err(_) => {}
        }
        return sent;
    }
}

/// The descriptor with which the guest will notify a device of a queue, if a message to the device carries one.
///
/// # Safety
///
/// The message and what it points to are valid.
unsafe fn notifier_in(message: &MessageHeader) -> Option<(c_int, u8)> {
    if message.piece_count == 0 || message.control_bytes < size_of::<ControlHeader>() + size_of::<c_int>() {
        return None;
    }
    // SAFETY: there is at least one piece, and at least one control header with a number behind it.
    unsafe {
        let piece = message.pieces.as_ref()?;
        let control = message.control.cast::<ControlHeader>();
        let (level, kind) = ((*control).level, (*control).kind);
        if piece.bytes < VRING_MESSAGE_BYTES || level != SOL_SOCKET || kind != SCM_RIGHTS {
            return None;
        }
        let request = piece.base.cast::<u32>().read_unaligned();
        // The low byte of the number behind the header is the queue's index.
        let queue = piece.base.cast::<u8>().add(HEADER_BYTES).read();
        (request == SET_VRING_KICK).then(|| (control.add(1).cast::<c_int>().read_unaligned(), queue))
    }
}

/// # Safety
///
/// As `recvmsg(2)`.
#[cfg_attr(preload, unsafe(no_mangle))]
pub unsafe extern "C" fn recvmsg(fd: c_int, message: *mut MessageHeader, flags: c_int) -> isize {
    // SAFETY: the signature is that of recvmsg(2), the arguments are the caller's.
    let got = unsafe {
        RECVMSG.get::<unsafe extern "C" fn(c_int, *mut MessageHeader, c_int) -> isize>()(fd, message, flags)
    };
    if let (true, Ok(bytes)) = (controller::is_agent(fd), usize::try_from(got)) {
        controller::agent_was_given(bytes);
    }
    got
}

/// # Safety
///
/// As `accept4(2)`.
#[cfg_attr(preload, unsafe(no_mangle))]
pub unsafe extern "C" fn accept4(fd: c_int, address: *mut c_void, bytes: *mut u32, flags: c_int) -> c_int {
    // SAFETY: the signature is that of accept4(2), the arguments are the caller's.
    let accepted = unsafe {
        ACCEPT4.get::<unsafe extern "C" fn(c_int, *mut c_void, *mut u32, c_int) -> c_int>()(
            fd, address, bytes, flags,
        )
    };
    if accepted >= 0 {
        controller::accepted(accepted);
    }
    accepted
}

/// # Safety
///
/// As `close(2)`.
#[cfg_attr(preload, unsafe(no_mangle))]
pub unsafe extern "C" fn close(fd: c_int) -> c_int {
    devices::forget(fd);
    // SAFETY: the signature is that of close(2), the argument is the caller's.
    unsafe { CLOSE.get::<unsafe extern "C" fn(c_int) -> c_int>()(fd) }
}

/// # Safety
///
/// As `pthread_mutex_lock(3)`.
#[cfg_attr(preload, unsafe(no_mangle))]
pub unsafe extern "C" fn pthread_mutex_lock(mutex: *mut c_void) -> c_int {
    if clock::is_set() {
        idle::before_lock();
    }
    // SAFETY: the signature is that of pthread_mutex_lock(3), the argument is the caller's.
    unsafe { MUTEX_LOCK.get::<unsafe extern "C" fn(*mut c_void) -> c_int>()(mutex) }
}

/// # Safety
///
/// As `pthread_mutex_unlock(3)`.
#[cfg_attr(preload, unsafe(no_mangle))]
pub unsafe extern "C" fn pthread_mutex_unlock(mutex: *mut c_void) -> c_int {
    if clock::is_set() {
        idle::before_unlock();
    }
    // SAFETY: the signature is that of pthread_mutex_unlock(3), the argument is the caller's.
    let unlocked = unsafe { MUTEX_UNLOCK.get::<unsafe extern "C" fn(*mut c_void) -> c_int>()(mutex) };
    controller::stand();
    unlocked
}

/// # Safety
///
/// As `pthread_create(3)`.
#[cfg_attr(preload, unsafe(no_mangle))]
pub unsafe extern "C" fn pthread_create(
    thread: *mut usize,
    attributes: *const c_void,
    begin: extern "C" fn(*mut c_void) -> *mut c_void,
    argument: *mut c_void,
) -> c_int {
    type Create = unsafe extern "C" fn(
        *mut usize,
        *const c_void,
        extern "C" fn(*mut c_void) -> *mut c_void,
        *mut c_void,
    ) -> c_int;
    clock::before_thread();
    tlb::before_thread();
    // SAFETY: the signature is that of pthread_create(3), the arguments are the caller's.
    unsafe { THREAD_CREATE.get::<Create>()(thread, attributes, begin, argument) }
}

/// `struct timeval`.
#[repr(C)]
pub struct TimeOfDay {
    seconds: i64,
    microseconds: i64,
}

/// # Safety
///
/// As `gettimeofday(2)`.
#[cfg_attr(preload, unsafe(no_mangle))]
pub unsafe extern "C" fn gettimeofday(time: *mut TimeOfDay, zone: *mut c_void) -> c_int {
    const MICROSECONDS: i64 = 1_000_000;
    if let Some(us) = tlb::time_of_day_us().filter(|_| clock::is_set() && !time.is_null()) {
        // SAFETY: the caller's time has room.
        unsafe { time.write(TimeOfDay { seconds: us / MICROSECONDS, microseconds: us % MICROSECONDS }) };
        return 0;
    }
    // SAFETY: the signature is that of gettimeofday(2), the arguments are the caller's.
    unsafe { TIME_OF_DAY.get::<unsafe extern "C" fn(*mut TimeOfDay, *mut c_void) -> c_int>()(time, zone) }
}

/// # Safety
///
/// As `siglongjmp(3)`.
#[cfg_attr(preload, unsafe(no_mangle))]
pub unsafe extern "C" fn siglongjmp(environment: *mut c_void, value: c_int) -> ! {
    counting::before_jump(environment);
    // SAFETY: the signature is that of siglongjmp(3), the arguments are the caller's.
    unsafe { LONG_JUMP.get::<LongJump>()(environment, value) }
}

/// What `siglongjmp` is where the C library is to look after the stack (`bits/setjmp2.h`).
///
/// # Safety
///
/// As `siglongjmp(3)`.
#[cfg_attr(preload, unsafe(no_mangle))]
pub unsafe extern "C" fn __longjmp_chk(environment: *mut c_void, value: c_int) -> ! {
    counting::before_jump(environment);
    // SAFETY: the signature is that of siglongjmp(3), the arguments are the caller's.
    unsafe { CHECKED_LONG_JUMP.get::<LongJump>()(environment, value) }
}
