//! Whether this machine was suspended while a cell was measured, such as a laptop whose lid was closed.
//!
//! `CLOCK_MONOTONIC` stops during a suspend and `CLOCK_BOOTTIME` does not (clock_gettime(2)), so their difference grows
//! only by the time asleep.

use rustix::time::{ClockId, clock_gettime};

/// The two clocks at about one moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Clocks {
    /// `CLOCK_MONOTONIC` just before `CLOCK_BOOTTIME` was read.
    monotonic_before_ns: i128,
    boottime_ns: i128,
    /// `CLOCK_MONOTONIC` just after.
    monotonic_after_ns: i128,
}

/// Shorter times get no mark: no machine suspends and resumes that fast.
const SHORTEST_NS: i128 = 10_000_000;

impl Clocks {
    /// Now.
    pub fn now() -> Self {
        Self {
            monotonic_before_ns: read(ClockId::Monotonic),
            boottime_ns: read(ClockId::Boottime),
            monotonic_after_ns: read(ClockId::Monotonic),
        }
    }

    /// Seconds that the machine was asleep until `later`, at least, allowing for the time to read the clocks; `None` if it
    /// was not.
    pub fn asleep_s_until(&self, later: &Self) -> Option<f64> {
        let least = later.boottime_ns - later.monotonic_after_ns;
        let most = self.boottime_ns - self.monotonic_before_ns;
        let asleep_ns = least - most;
        (asleep_ns >= SHORTEST_NS).then_some(asleep_ns as f64 / 1e9)
    }
}

fn read(clock: ClockId) -> i128 {
    let time = clock_gettime(clock);
    i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec)
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: i128 = 1_000_000_000;

    fn at(monotonic_ns: i128, boottime_ns: i128, reading_ns: i128) -> Clocks {
        let monotonic_after_ns = monotonic_ns + reading_ns;
        Clocks { monotonic_before_ns: monotonic_ns, boottime_ns, monotonic_after_ns }
    }

    #[test]
    fn a_suspend_is_told_by_how_far_the_clocks_went_apart() {
        let before = at(100 * S, 500 * S, 1000);
        assert_eq!(before.asleep_s_until(&at(160 * S, 560 * S, 1000)), None, "a minute awake");
        assert_eq!(before.asleep_s_until(&at(160 * S, 3560 * S, 0)), Some(3000.0));
        assert_eq!(before.asleep_s_until(&at(160 * S, 560 * S + SHORTEST_NS, 0)), Some(0.01));
    }

    #[test]
    fn a_pause_between_the_two_clocks_is_no_suspend() {
        // The process did not run for 5 s after it had read the first one.
        let before = at(100 * S, 500 * S, 0);
        assert_eq!(before.asleep_s_until(&at(160 * S, 565 * S, 5 * S)), None);
        assert_eq!(at(100 * S, 505 * S, 5 * S).asleep_s_until(&at(160 * S, 560 * S, 0)), None);
        assert_eq!(Clocks::now().asleep_s_until(&Clocks::now()), None);
    }
}
