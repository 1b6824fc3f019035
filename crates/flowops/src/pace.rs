//! Rates: events that come at their times, and flowops that wait for them.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::ending::Ending;

/// Events that come `per_second`, shared by all threads.
///
/// Each taker gets the next event and waits for its time; nothing runs in the background. Like Filebench's, events that
/// no thread took are kept for 5 seconds at most.
pub(crate) struct Pace {
    per_second: f64,
    /// When event 0 comes.
    start: OnceLock<Instant>,
    /// Number of the next event.
    next: AtomicU64,
    /// For how long events that came are kept; `None`: for ever, so that a late taker is told how late it is.
    kept: Option<Duration>,
}

/// More than the longest run.
const LATEST: Duration = Duration::from_secs(2 * nestor_wml::limits::MOST_SECONDS as u64);

/// `eventgen.c`: at most 5 seconds of events are waiting.
const KEPT: Duration = Duration::from_secs(5);

impl Pace {
    /// Events of `eventgen`.
    pub(crate) fn of_events(per_second: f64) -> Self {
        Self { per_second, start: OnceLock::new(), next: AtomicU64::new(0), kept: Some(KEPT) }
    }

    /// Intended starts of an open loop.
    pub(crate) fn of_starts(per_second: f64) -> Self {
        Self { per_second, start: OnceLock::new(), next: AtomicU64::new(0), kept: None }
    }

    /// Says when event 0 comes; must be called before any is taken.
    pub(crate) fn begin(&self, start: Instant) {
        self.start.set(start).expect("the pace begins only once");
    }

    fn start(&self) -> Instant {
        *self.start.get().expect("events occur only after the beginning")
    }

    /// Events per second, as asked for.
    pub(crate) fn per_second(&self) -> f64 {
        self.per_second
    }

    fn due(&self, event: u64) -> Instant {
        let after = Duration::try_from_secs_f64(event as f64 / self.per_second).ok();
        let due = after.and_then(|after| self.start().checked_add(after));
        // A rate so small that clocks do not count so far: later than any run ends.
        due.unwrap_or_else(|| self.start() + LATEST)
    }

    /// Takes `count` events and waits for the last of them: the time it came. `None` if the run ended before.
    pub(crate) fn take(&self, count: u64, ending: &Ending) -> Option<Instant> {
        let mut last = self.next.fetch_add(count, Ordering::Relaxed) + count - 1;
        if let Some(kept) = self.kept {
            let oldest = (self.start().elapsed().saturating_sub(kept).as_secs_f64() * self.per_second) as u64;
            if last < oldest {
                self.next.fetch_max(oldest, Ordering::Relaxed);
                last = oldest;
            }
        }
        let due = self.due(last);
        ending.sleep_until(due).then_some(due)
    }

    /// How many events have been due by now, and how many of them were taken.
    pub(crate) fn offered_and_taken(&self, elapsed: Duration) -> (u64, u64) {
        let offered = (elapsed.as_secs_f64() * self.per_second) as u64;
        (offered, self.next.load(Ordering::Relaxed).min(offered))
    }
}

/// A limit of operations or bytes, in events: what was done is paid for afterwards.
#[derive(Default)]
pub(crate) struct Limit {
    /// What had been done when it was last paid for.
    paid: AtomicU64,
}

impl Limit {
    /// How much is to be paid, now that `done` is done in all; several threads that share what is done also share the paying.
    pub(crate) fn owed(&self, done: u64) -> u64 {
        let before = self.paid.fetch_max(done, Ordering::Relaxed);
        done.saturating_sub(before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begun(pace: Pace, start: Instant) -> Pace {
        pace.begin(start);
        pace
    }

    #[test]
    fn events_come_at_their_times() {
        let ending = Ending::default();
        let pace = begun(Pace::of_starts(1e9), Instant::now());
        assert_eq!(pace.take(1, &ending).unwrap(), pace.start());
        assert_eq!(pace.take(3, &ending).unwrap(), pace.start() + Duration::from_nanos(3));
        assert_eq!(pace.offered_and_taken(Duration::from_nanos(100)), (100, 4));
        assert_eq!(pace.offered_and_taken(Duration::from_nanos(2)), (2, 2));
    }

    #[test]
    fn events_are_not_kept_for_ever() {
        let ending = Ending::default();
        let start = Instant::now() - Duration::from_secs(60);
        let pace = begun(Pace::of_events(10.0), start);
        assert!(pace.take(1, &ending).unwrap() >= start + Duration::from_secs(54));
        assert_eq!(begun(Pace::of_starts(10.0), start).take(1, &ending), Some(start));
    }

    #[test]
    fn a_run_that_ends_wakes_who_waits() {
        let ending = Ending::default();
        let pace = begun(Pace::of_starts(0.001), Instant::now());
        pace.take(1, &ending);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| pace.take(1, &ending));
            ending.end(crate::ending::End::Time);
            assert_eq!(waiting.join().unwrap(), None);
        });
    }

    #[test]
    fn the_smallest_rate_is_only_slow() {
        for per_second in [f64::MIN_POSITIVE, 1e-300, 1e-18] {
            let pace = begun(Pace::of_events(per_second), Instant::now());
            assert!(pace.due(0) == pace.start() && pace.due(u64::MAX) > pace.start());
        }
    }

    #[test]
    fn what_is_done_is_paid_once() {
        let limit = Limit::default();
        assert_eq!([limit.owed(5), limit.owed(5), limit.owed(7), limit.owed(6)], [5, 0, 2, 0]);
    }
}
