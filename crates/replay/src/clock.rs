//! `CLOCK_MONOTONIC`, and waiting for a moment on it.

use std::num::NonZeroU64;

use rustix::thread::{ClockId, clock_nanosleep_absolute, set_current_timer_slack};
use rustix::time::{Timespec, clock_gettime};

/// Now.
pub fn now_ns() -> u64 {
    let now = clock_gettime(rustix::time::ClockId::Monotonic);
    // The clock begins at boot and is never negative.
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}

/// Sleeps until a moment, or until a signal comes.
pub fn sleep_until(moment_ns: u64) {
    let request =
        Timespec { tv_sec: (moment_ns / 1_000_000_000) as i64, tv_nsec: (moment_ns % 1_000_000_000) as i64 };
    // An interrupted sleep is repeated by the caller, who looks at the clock.
    let _ = clock_nanosleep_absolute(ClockId::Monotonic, &request);
}

/// Lets this thread's sleeps end as exactly as the machine can; 50 us of slack are usual (`prctl(2)`).
pub fn sleep_exactly() {
    // Where it is refused, sleeps end later and more of the time is spun.
    let _ = set_current_timer_slack(NonZeroU64::new(1));
}
