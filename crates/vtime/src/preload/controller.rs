//! Time stands from an agent's answer until the controller has said what comes next.

use std::env;
use std::ffi::c_int;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, OnceLock};

use super::program::Program;
use super::protocol::{
    AGENT_VARIABLE, CONTROL_VARIABLE, FromController, FromLibrary, Hello, Instructions, LOADED_VARIABLE,
    MESSAGE_BYTES,
};
use super::qemu::{missing_functions, qemu};
use super::{clock, counting, devices, idle, interrupt, shadow, system, tlb};

static CONTROL: OnceLock<UnixStream> = OnceLock::new();
/// The agent's socket as QEMU has accepted it.
static AGENT: AtomicI32 = AtomicI32::new(-1);
/// Bytes that the agent has written.
static WRITTEN: AtomicU64 = AtomicU64::new(0);
/// The agent has written something; the processor stops at the next place where it can.
static HOLD: AtomicBool = AtomicBool::new(false);
/// Bytes that QEMU has read for the agent.
static READ: Mutex<u64> = Mutex::new(0);
static READ_MORE: Condvar = Condvar::new();

/// Looks at the program and tells the controller what was found. Does nothing where there is no controller.
pub fn begin() {
    let Some(path) = env::var_os(CONTROL_VARIABLE) else { return };
    // A shell that starts QEMU loads the library as well. It is no QEMU that lacks something.
    if qemu().is_none() && !has_name_of_qemu() {
        return;
    }
    let Ok(mut control) = UnixStream::connect(path) else { return };
    let program = Program::here();
    tlb::look(&program);
    shadow::mend(&program);
    let hello = Hello {
        missing_functions: missing_functions(),
        interrupt_slots: interrupt::mend(&program),
        counting: counting::look(&program),
        has_clock: clock::look(&program),
    };
    if control.write_all(&FromLibrary::Hello(hello).encode()).is_ok() && hello.is_usable() {
        let _ = CONTROL.set(control);
        HOLD.store(env::var_os(LOADED_VARIABLE).is_some(), Ordering::Release);
    }
}

/// Whether the program is called like a QEMU: `qemu-system-x86_64`, `qemu-kvm`, `.qemu-system-x86_64-wrapped`.
fn has_name_of_qemu() -> bool {
    env::current_exe().is_ok_and(|path| {
        path.file_name().is_some_and(|name| name.as_encoded_bytes().windows(4).any(|part| part == b"qemu"))
    })
}

/// QEMU has accepted a connection.
pub fn accepted(fd: c_int) {
    let is_agent =
        || env::var(AGENT_VARIABLE).is_ok_and(|path| system::own_path(fd).is_some_and(|own| own == path));
    if CONTROL.get().is_some() && is_agent() {
        AGENT.store(fd, Ordering::Release);
        counting::begin();
    }
}

/// Whether a descriptor is the agent's socket.
pub fn is_agent(fd: c_int) -> bool {
    fd >= 0 && AGENT.load(Ordering::Acquire) == fd
}

/// The agent has written so many bytes. If the processor did, time is to stand.
pub fn agent_wrote(bytes: usize) {
    WRITTEN.fetch_add(bytes as u64, Ordering::AcqRel);
    if let Some(qemu) = qemu().filter(|qemu| qemu.is_processor()) {
        HOLD.store(true, Ordering::Release);
        qemu.leave_processor_loop();
    }
}

/// QEMU has read so many bytes for the agent.
pub fn agent_was_given(bytes: usize) {
    let Ok(mut read) = READ.lock() else { return };
    *read += bytes as u64;
    READ_MORE.notify_all();
    if let Some(mut control) = CONTROL.get() {
        // A controller that is gone ends this machine.
        let _ = control.write_all(&FromLibrary::Given { read: *read }.encode());
    }
}

/// A program in the machine has come to a mark. The caller is the processor's thread.
pub fn marked(instructions: Instructions) {
    if let Some(mut control) = CONTROL.get() {
        // A controller that is gone ends this machine.
        let _ = control.write_all(&FromLibrary::Marked(instructions).encode());
    }
}

/// Whether time is to stand at the next place where it can.
pub fn is_to_stand() -> bool {
    HOLD.load(Ordering::Acquire)
}

/// Called whenever a mutex was unlocked: lets the processor's thread stand if it is to, once it holds nothing.
pub fn stand() {
    if !HOLD.load(Ordering::Acquire) && !devices::is_link_awaited() {
        return;
    }
    let Some(qemu) = qemu().filter(|qemu| qemu.is_processor() && qemu.holds_nothing() && qemu.is_running())
    else {
        return;
    };
    devices::await_link(qemu);
    if !HOLD.load(Ordering::Acquire) {
        return;
    }
    HOLD.store(false, Ordering::Release);
    let Some(mut control) = CONTROL.get() else { return };
    let _standing = idle::Standing::begin();
    // A machine at a link's other end comes to rest one delay after the time at which this one stands.
    devices::tell_links();
    let held = FromLibrary::Held {
        now_ns: qemu.now_ns(),
        written: WRITTEN.load(Ordering::Acquire),
        instructions: counting::counted(),
    };
    let mut answer = [0; MESSAGE_BYTES];
    // A controller that is gone ends this machine; until then it runs on.
    let said = control.write_all(&held.encode()).and_then(|()| control.read_exact(&mut answer));
    let sent = match said.ok().and_then(|()| FromController::decode(&answer)) {
        Some(FromController::Go { sent }) => sent,
        Some(FromController::Stop) => return qemu.stop_machine(),
        None => return,
    };
    qemu.wake_main_loop();
    let Ok(mut read) = READ.lock() else { return };
    while *read < sent {
        let Ok(more) = READ_MORE.wait(read) else { return };
        read = more;
    }
    drop(read);
    // The bytes are counted before they are handed to the machine.
    qemu.wait_for_main_loop();
    devices::tell_links();
}
