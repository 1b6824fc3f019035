//! When a run is over, and waking those who wait.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use crate::error::FlowError;

/// Why a run ended.
#[derive(Debug)]
pub(crate) enum End {
    /// Its time was over.
    Time,
    /// As many operations as were asked for were done.
    Operations,
    /// Its threads had no more work (`quit alldone`, `quit firstdone`, `finishoncount`).
    Done,
    /// A flowop found no file, in a run that was to go on.
    Starved(FlowError),
    /// Something failed.
    Failed(FlowError),
    /// The user asked for it.
    Interrupted,
}

/// Whether a run is over, for all of its threads.
#[derive(Default)]
pub(crate) struct Ending {
    over: AtomicBool,
    /// Whether operations that are under way at the end still count: not where a clock or a number ends the run.
    counts_what_is_under_way: AtomicBool,
    /// Why, and when; the first reason counts.
    why: Mutex<Option<(End, Instant)>>,
    changed: Condvar,
    /// When it ended.
    at: OnceLock<Instant>,
}

impl Ending {
    /// Whether it is over.
    #[inline]
    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// Whether an operation that ends now counts.
    #[inline]
    pub(crate) fn counts(&self) -> bool {
        !self.is_over() || self.counts_what_is_under_way.load(Ordering::Relaxed)
    }

    /// Ends it.
    pub(crate) fn end(&self, why: End) {
        let mut first = self.lock();
        if first.is_none() {
            self.counts_what_is_under_way.store(matches!(why, End::Done), Ordering::Relaxed);
            let now = *self.at.get_or_init(Instant::now);
            *first = Some((why, now));
        }
        self.over.store(true, Ordering::Relaxed);
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Option<(End, Instant)>> {
        self.why.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sleeps; `false` if the run ended before.
    pub(crate) fn sleep_until(&self, due: Instant) -> bool {
        if Instant::now() >= due {
            return !self.is_over();
        }
        let mut why = self.lock();
        while why.is_none() {
            let now = Instant::now();
            let Some(left) = due.checked_duration_since(now).filter(|left| !left.is_zero()) else {
                return true;
            };
            why = self.changed.wait_timeout(why, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        false
    }

    /// Whether something that came to its end at this time did so before the run's.
    pub(crate) fn was_before(&self, end: Instant) -> bool {
        self.at.get().is_none_or(|at| end <= *at)
    }

    /// Why it ended, and when.
    pub(crate) fn take(&self) -> Option<(End, Instant)> {
        self.lock().take()
    }
}
