//! The moment at which the processor falls asleep.
//!
//! QEMU skips time when its processor is idle. Its main loop takes the processor for idle as soon as that has executed `HLT`
//! (`icount_start_warp_timer`, softmmu/icount.c), but what was executed until then is added to QEMU's count a moment later
//! (`icount_process_data`, by the processor's thread, without the big lock). A main loop that looks in between computes what is to
//! be skipped from the older time, and everything that is due then comes as many nanoseconds late as the processor had executed
//! instructions. Whether it looks in between depends on real time.
//!
//! The main loop asks for the time after it has taken the processor for idle. The answer therefore waits until the processor's
//! thread has come to the big lock again, which it does after it has counted.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use std::{hint, thread};

use super::qemu::{Qemu, qemu};
use super::system::log;

/// What the processor has executed is counted: its thread waits for or holds a lock of QEMU's, or stands.
static IS_COUNTED: AtomicBool = AtomicBool::new(true);

/// The processor's thread stands, whatever locks it takes and leaves meanwhile.
static STANDS: AtomicBool = AtomicBool::new(false);

/// How often it is looked again before another thread is let go first.
const SPINS: u32 = 1000;

/// Whoever waits longer says so in QEMU's log: the machine stands until the processor's thread goes on.
const LONG: Duration = Duration::from_secs(10);

fn set(is_counted: bool) {
    if qemu().is_some_and(Qemu::is_processor) && !STANDS.load(Ordering::Relaxed) {
        IS_COUNTED.store(is_counted, Ordering::Release);
    }
}

/// The caller is about to take a lock of QEMU's.
pub fn before_lock() {
    set(true);
}

/// The caller is about to leave a lock of QEMU's. If it holds the big lock and leaves another one, it executes nothing.
pub fn before_unlock() {
    if !qemu().is_some_and(Qemu::holds_big_lock) {
        set(false);
    }
}

/// The processor's thread, which has counted, stands for as long as this lives.
///
/// It may stand for two reasons at once; the outer one ends last.
pub struct Standing {
    is_outer: bool,
}

impl Standing {
    pub fn begin() -> Self {
        set(true);
        Self { is_outer: !STANDS.swap(true, Ordering::Relaxed) }
    }
}

impl Drop for Standing {
    fn drop(&mut self) {
        if self.is_outer {
            STANDS.store(false, Ordering::Relaxed);
            set(false);
        }
    }
}

/// Waits, unless the caller is the processor's thread, until an idle processor's instructions are counted.
pub fn wait_until_counted() {
    let Some(qemu) = qemu().filter(|qemu| !qemu.is_processor()) else { return };
    let in_between = || qemu.is_idle() && !IS_COUNTED.load(Ordering::Acquire);
    wait(in_between, LONG, || log("the processor has executed HLT, and what it executed is not counted yet"));
}

/// Waits as long as it is `in_between`, and says once that it is `long`.
fn wait(in_between: impl Fn() -> bool, long: Duration, say_long: impl FnOnce()) {
    for _ in 0..SPINS {
        if !in_between() {
            return;
        }
        hint::spin_loop();
    }
    let (begun, mut say_long) = (Instant::now(), Some(say_long));
    while in_between() {
        thread::yield_now();
        if begun.elapsed() >= long
            && let Some(say_long) = say_long.take()
        {
            say_long();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn it_is_waited_exactly_until_the_processor_has_counted() {
        for (long, says) in [(Duration::ZERO, 1), (Duration::MAX, 0)] {
            let (looks, said) = (Cell::new(0), Cell::new(0));
            let in_between = || {
                looks.set(looks.get() + 1);
                looks.get() < 3000
            };
            wait(in_between, long, || said.set(said.get() + 1));
            assert_eq!((looks.get(), said.get()), (3000, says));
        }
    }

    #[test]
    fn in_a_program_that_is_not_qemu_nobody_waits() {
        before_unlock();
        wait_until_counted();
        before_lock();
        drop(Standing::begin());
        assert!(IS_COUNTED.load(Ordering::Relaxed));
    }
}
