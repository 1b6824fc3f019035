//! Functions of QEMU that are used, by the names and signatures that its versions 7.2 to 10 have.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::OnceLock;
use std::time::Duration;

use super::system::{Where, function, malloc_usable_size};

/// `QEMU_CLOCK_VIRTUAL` (`include/qemu/timer.h`).
const CLOCK_VIRTUAL: c_int = 1;
/// `HF_GUEST_MASK` (target/i386/cpu.h), of a processor's flags: it is in a guest of AMD's SVM.
pub const IN_GUEST: u32 = 1 << 21;
/// `CPU_INTERRUPT_POLL` (target/i386/cpu.h).
const INTERRUPT_POLL: c_int = 0x10;
/// `RUN_STATE_PAUSED` (`qapi/run-state.json`).
const STATE_PAUSED: c_int = 4;
/// `QEMU_TIMER_ATTR_ALL` (`include/qemu/timer.h`).
const ALL_TIMERS: c_int = -1;
/// `SCALE_NS`.
const SCALE_NS: c_int = 1;

/// `QEMUTimer` (`include/qemu/timer.h`), with room for what later versions may add.
#[repr(C, align(16))]
pub struct Timer {
    room: [u64; 16],
}

impl Timer {
    pub const fn new() -> Self {
        Self { room: [0; 16] }
    }
}

type TimerCallback = extern "C" fn(*mut c_void);

/// QEMU's functions with their signatures and names: the name since a version, and before it.
macro_rules! functions {
    ($($(#[$about:meta])* $field:ident: $signature:ty = $name:literal $(or $older:literal)?;)*) => {
        /// QEMU's functions.
        pub struct Qemu {
            $($(#[$about])* $field: $signature,)*
        }

        /// Their names, in the order of the bits of [`super::protocol::Hello::missing_functions`].
        pub const NEEDED_FUNCTIONS: &[&CStr] = &[$($name),*];

        impl Qemu {
            /// The functions of the program that this library was loaded into, or a bit for each that it does not export.
            fn find() -> Result<Self, u64> {
                // SAFETY: the types are those of the functions in QEMU's headers, the same from 7.2 to 10.
                unsafe {
                    $(let $field: Option<$signature> = function($name, Where::Program)
                        $(.or_else(|| function($older, Where::Program)))?;)*
                    match ($($field,)*) {
                        ($(Some($field),)*) => Ok(Self { $($field),* }),
                        _ => {
                            let missing = [$($field.is_none()),*];
                            Err((0..).zip(missing).fold(0, |bits, (at, is_missing)| bits | u64::from(is_missing) << at))
                        }
                    }
                }
            }
        }
    };
}

functions! {
    /// Nanoseconds until the next timer of a clock is due, of those with given attributes; -1 if there is none.
    clock_deadline_ns: unsafe extern "C" fn(c_int, c_int) -> i64 = c"qemu_clock_deadline_ns_all";
    clock_get_ns: unsafe extern "C" fn(c_int) -> i64 = c"qemu_clock_get_ns";
    timer_init_full: unsafe extern "C" fn(*mut Timer, *mut c_void, c_int, c_int, c_int, TimerCallback, *mut c_void)
        = c"timer_init_full";
    timer_mod_ns: unsafe extern "C" fn(*mut Timer, i64) = c"timer_mod_ns";
    timer_del: unsafe extern "C" fn(*mut Timer) = c"timer_del";
    iohandler_get_aio_context: unsafe extern "C" fn() -> *mut c_void = c"iohandler_get_aio_context";
    aio_poll: unsafe extern "C" fn(*mut c_void, bool) -> bool = c"aio_poll";
    get_aio_context: unsafe extern "C" fn() -> *mut c_void = c"qemu_get_aio_context";
    /// With a name for messages.
    schedule_once: unsafe extern "C" fn(*mut c_void, TimerCallback, *mut c_void, *const c_char)
        = c"aio_bh_schedule_oneshot_full";
    notify_event: unsafe extern "C" fn() = c"qemu_notify_event";
    vm_stop: unsafe extern "C" fn(c_int) -> c_int = c"vm_stop";
    runstate_is_running: unsafe extern "C" fn() -> bool = c"runstate_is_running";
    in_vcpu_thread: unsafe extern "C" fn() -> bool = c"qemu_in_vcpu_thread";
    get_cpu: unsafe extern "C" fn(c_int) -> *mut c_void = c"qemu_get_cpu";
    cpu_exit: unsafe extern "C" fn(*mut c_void) = c"cpu_exit";
    cpu_interrupt: unsafe extern "C" fn(*mut c_void, c_int) = c"cpu_interrupt";
    all_cpu_threads_idle: unsafe extern "C" fn() -> bool = c"all_cpu_threads_idle";
    /// The functions of the big lock are named differently before and since 9.0.
    holds_big_lock: unsafe extern "C" fn() -> bool = c"bql_locked" or c"qemu_mutex_iothread_locked";
    /// With the place that asks for it, a file and a line.
    take_big_lock: unsafe extern "C" fn(*const c_char, c_int) = c"bql_lock_impl" or c"qemu_mutex_lock_iothread_impl";
    leave_big_lock: unsafe extern "C" fn() = c"bql_unlock" or c"qemu_mutex_unlock_iothread";
    /// `struct rcu_reader_data` of this thread, whose first word is not zero while it reads (`include/qemu/rcu.h`).
    rcu_reader: unsafe extern "C" fn() -> *const u64 = c"get_ptr_rcu_reader";
}

/// QEMU's functions, if the program that this library was loaded into has them all.
pub fn qemu() -> Option<&'static Qemu> {
    found().as_ref().ok()
}

/// A bit for each function that the program does not export.
pub fn missing_functions() -> u64 {
    found().as_ref().err().copied().unwrap_or(0)
}

fn found() -> &'static Result<Qemu, u64> {
    static QEMU: OnceLock<Result<Qemu, u64>> = OnceLock::new();
    QEMU.get_or_init(Qemu::find)
}

impl Qemu {
    /// The virtual time.
    pub fn now_ns(&self) -> u64 {
        // SAFETY: may be called by any thread.
        u64::try_from(unsafe { (self.clock_get_ns)(CLOCK_VIRTUAL) }).unwrap_or(0)
    }

    /// Until when the machine has nothing to do by itself: when its next timer is due if its processor is idle, else now. The caller holds
    /// the big lock.
    pub fn quiet_until_ns(&self, now_ns: u64) -> u64 {
        if !self.is_idle() {
            return now_ns;
        }
        // SAFETY: may be called by any thread.
        let left_ns = unsafe { (self.clock_deadline_ns)(CLOCK_VIRTUAL, ALL_TIMERS) };
        u64::try_from(left_ns).map_or(u64::MAX, |left_ns| now_ns.saturating_add(left_ns))
    }

    /// Makes a timer of the virtual clock.
    ///
    /// # Safety
    ///
    /// The timer stays where it is for ever, and `context` is what the callback expects.
    pub unsafe fn make_timer(&self, timer: *mut Timer, callback: TimerCallback, context: *mut c_void) {
        // SAFETY: no list means the main loop's, which live as long as QEMU does.
        unsafe {
            (self.timer_init_full)(
                timer,
                std::ptr::null_mut(),
                CLOCK_VIRTUAL,
                SCALE_NS,
                0,
                callback,
                context,
            );
        }
    }

    /// Sets a timer, or silences it.
    ///
    /// # Safety
    ///
    /// The timer was made by [`Self::make_timer`].
    pub unsafe fn set_timer(&self, timer: *mut Timer, at_ns: Option<u64>) {
        // SAFETY: the timer is one of QEMU's; both lock the list that it is in.
        unsafe {
            match at_ns.and_then(|at| i64::try_from(at).ok()) {
                Some(at) => (self.timer_mod_ns)(timer, at),
                None => (self.timer_del)(timer),
            }
        }
    }

    /// Lets QEMU see what disks have told it: interrupts are raised at this virtual time.
    ///
    /// The caller's thread holds QEMU's big lock, as callbacks of devices and timers do.
    pub fn take_notifications(&self) {
        // SAFETY: with the big lock any thread may poll the context of the main loop without blocking.
        unsafe { (self.aio_poll)((self.iohandler_get_aio_context)(), false) };
    }

    /// Has the main loop call a function when it next goes round.
    ///
    /// # Safety
    ///
    /// `context` is what the callback expects, for ever.
    pub unsafe fn call_soon(&self, callback: TimerCallback, context: *mut c_void) {
        // SAFETY: the name ends with a zero; the main loop's context lives as long as QEMU does.
        unsafe { (self.schedule_once)((self.get_aio_context)(), callback, context, c"nestor-link".as_ptr()) };
    }

    /// Makes the main loop look again for which of its connections the machine has room.
    ///
    /// It does not look by itself when the machine has opened its port, and would sleep on what is sent to it.
    pub fn wake_main_loop(&self) {
        // SAFETY: may be called by any thread.
        unsafe { (self.notify_event)() }
    }

    /// Whether the machine runs: it does not while its state is loaded.
    pub fn is_running(&self) -> bool {
        // SAFETY: may be called by any thread.
        unsafe { (self.runstate_is_running)() }
    }

    /// Stops the machine before the next instruction of its processor, whose thread calls this and holds nothing.
    ///
    /// The thread is back when the machine no longer counts as running. If it let itself be stopped before, the main loop could find
    /// nothing that runs in a running machine, take it for idle and skip time to the next timer, or not, as real time has it.
    pub fn stop_machine(&self) {
        const LOOK_AGAIN: Duration = Duration::from_millis(1);
        // SAFETY: in the processor's thread it asks the main loop for it and marks the processor as about to stop.
        unsafe {
            (self.vm_stop)(STATE_PAUSED);
        }
        while self.is_running() {
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    /// Whether this is the thread that runs the machine's processor.
    pub fn is_processor(&self) -> bool {
        // SAFETY: may be called by any thread.
        unsafe { (self.in_vcpu_thread)() }
    }

    /// Whether the processor has nothing to execute.
    pub fn is_idle(&self) -> bool {
        // SAFETY: may be called by any thread.
        unsafe { (self.all_cpu_threads_idle)() }
    }

    /// Keeps QEMU from taking the processor for idle, so that it skips no time, until the processor's thread has looked for interrupts. It
    /// executes nothing for that. The caller holds the big lock.
    pub fn keep_from_idling(&self) {
        // SAFETY: the processor is there once the machine runs; its thread is woken and asks its interrupt controller.
        unsafe {
            let processor = self.processor();
            if !processor.is_null() && self.is_idle() {
                (self.cpu_interrupt)(processor, INTERRUPT_POLL);
            }
        }
    }

    /// Makes the processor leave its loop after the instruction that it is at.
    pub fn leave_processor_loop(&self) {
        // SAFETY: processor 0 is there once the machine runs, and leaving is a flag.
        unsafe {
            let processor = self.processor();
            if !processor.is_null() {
                (self.cpu_exit)(processor);
            }
        }
    }

    /// The machine's processor, a `CPUState`; null until there is one.
    pub fn processor(&self) -> *mut c_void {
        // SAFETY: it looks for processor 0 in a list that does not change while the machine runs.
        unsafe { (self.get_cpu)(0) }
    }

    /// Whether an address is one of the machine's processor.
    pub fn is_in_processor(&self, address: *const c_void) -> bool {
        let processor = self.processor();
        // SAFETY: an object is a piece of memory of its own, of which the allocator knows the size.
        let bytes = if processor.is_null() { 0 } else { unsafe { malloc_usable_size(processor) } };
        (processor as usize..processor as usize + bytes).contains(&(address as usize))
    }

    /// Whether this thread holds the big lock. It no longer does when it is about to unlock the mutex.
    pub fn holds_big_lock(&self) -> bool {
        // SAFETY: it looks at a variable of the thread.
        unsafe { (self.holds_big_lock)() }
    }

    /// Whether this thread holds nothing that others in QEMU could wait for.
    pub fn holds_nothing(&self) -> bool {
        // SAFETY: it is a variable of the thread, which begins with its counter.
        !self.holds_big_lock() && unsafe { (self.rcu_reader)().read_volatile() == 0 }
    }

    /// Waits until whoever holds the big lock leaves it: the main loop does when it has handed on what it has read.
    ///
    /// The caller's thread does not hold it.
    pub fn wait_for_main_loop(&self) {
        self.with_big_lock(|| ());
    }

    /// Does something with the big lock, which the caller's thread does not hold.
    pub fn with_big_lock(&self, act: impl FnOnce()) {
        // SAFETY: the lock is free or another thread's, and the name ends with a zero.
        unsafe { (self.take_big_lock)(c"nestor-vtime".as_ptr(), 0) };
        act();
        // SAFETY: this thread has just taken it.
        unsafe { (self.leave_big_lock)() };
    }
}
