//! A machine's clock beside its processor's time stamp counter.
//!
//! In virtual time the counter of an emulated host is that time itself, in nanoseconds: QEMU reads both from one clock
//! (`cpu_get_tsc`, `cpus_get_virtual_clock` of QEMU 7.2). A guest's counter is its host's plus an offset that the
//! guest's hypervisor knows.

use serde::{Deserialize, Serialize};

/// The number of readings; the fastest one counts.
const READINGS: usize = 5;

/// `CLOCK_MONOTONIC` of a machine and its counter at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TickReading {
    /// The clock, ns.
    pub monotonic_ns: u64,
    /// The counter, at most [`Self::bound_ticks`] before or after.
    pub ticks: u64,
    /// Half of what passed between reading it before the clock and after.
    pub bound_ticks: u64,
}

impl TickReading {
    /// Now, here; `None` where the processor has no such counter.
    pub fn now() -> Option<Self> {
        (0..READINGS).filter_map(|_| Self::once()).min_by_key(|reading| reading.bound_ticks)
    }

    fn once() -> Option<Self> {
        let before = counter()?;
        let monotonic_ns = monotonic_ns();
        let after = counter()?;
        let half = after.checked_sub(before)? / 2;
        // Half a tick is lost in halving.
        Some(Self { monotonic_ns, ticks: before + half, bound_ticks: half + 1 })
    }
}

/// `CLOCK_MONOTONIC`, ns.
pub(crate) fn monotonic_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    // Since the machine booted: neither part is negative.
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}

/// `CLOCK_REALTIME`, ns.
pub(crate) fn realtime_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
    // Of a clock that is set before 1970, the beginning of that year.
    u64::try_from(now.tv_sec).unwrap_or(0) * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}

#[cfg(target_arch = "x86_64")]
fn counter() -> Option<u64> {
    // SAFETY: every x86-64 processor has the instruction; Linux lets programs use it unless they give it up.
    Some(unsafe { std::arch::x86_64::_rdtsc() })
}

#[cfg(not(target_arch = "x86_64"))]
fn counter() -> Option<u64> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn clock_and_counter_go_on_together() {
        let (first, second) = (TickReading::now().unwrap(), TickReading::now().unwrap());
        assert!(second.monotonic_ns > first.monotonic_ns);
        assert!(second.ticks > first.ticks && first.bound_ticks > 0);
    }
}
