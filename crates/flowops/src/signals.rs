//! Threads that wait for each other: `block` and `wakeup`, `semblock` and `sempost`.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::ending::Ending;

/// How long a thread waits before it asks whether the run has ended.
const PATIENCE: Duration = Duration::from_millis(50);

/// Where one thread waits, at one flowop.
#[derive(Default)]
pub(crate) struct WaitingPoint {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// How often it was woken up.
    wakes: u64,
    /// What was posted and not yet waited for.
    posted: u64,
    /// How much may be posted before the next wait.
    room: u64,
}

impl WaitingPoint {
    /// A point at which so much may be posted in advance by those who block.
    pub(crate) fn with_room(room: u64) -> Self {
        Self { state: Mutex::new(State { room, ..State::default() }), changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'p>(&'p self, state: MutexGuard<'p, State>) -> MutexGuard<'p, State> {
        self.changed.wait_timeout(state, PATIENCE).unwrap_or_else(PoisonError::into_inner).0
    }

    /// `block`: until the next wakeup. One that came before is not remembered, as in Filebench.
    pub(crate) fn block(&self, ending: &Ending) {
        let mut state = self.lock();
        let before = state.wakes;
        while state.wakes == before && !ending.is_over() {
            state = self.wait(state);
        }
    }

    /// `wakeup`
    pub(crate) fn wake(&self) {
        self.lock().wakes += 1;
        self.changed.notify_all();
    }

    /// `semblock`: makes room for `value` and waits until so much is posted.
    pub(crate) fn wait_for(&self, value: u64, ending: &Ending) {
        let mut state = self.lock();
        state.room = state.room.saturating_add(value);
        self.changed.notify_all();
        while state.posted < value && !ending.is_over() {
            state = self.wait(state);
        }
        state.posted = state.posted.saturating_sub(value);
    }

    /// `sempost`; a blocking one waits for room.
    pub(crate) fn post(&self, value: u64, blocking: bool, ending: &Ending) {
        let mut state = self.lock();
        if blocking {
            while state.room < value && !ending.is_over() {
                state = self.wait(state);
            }
            state.room = state.room.saturating_sub(value);
        }
        state.posted = state.posted.saturating_add(value);
        self.changed.notify_all();
    }
}

/// All waiting points of a run by the names of their flowops, one for each thread that has the flowop.
pub(crate) type WaitingPoints = BTreeMap<String, Vec<Arc<WaitingPoint>>>;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ending::End;

    #[test]
    fn what_is_posted_has_no_largest_number() {
        let (point, ending) = (WaitingPoint::with_room(u64::MAX), Ending::default());
        for _ in 0..3 {
            point.post(i64::MAX as u64, true, &ending);
            point.wait_for(i64::MAX as u64, &ending);
        }
        point.post(u64::MAX, false, &ending);
        point.post(u64::MAX, false, &ending);
    }

    #[test]
    fn what_is_posted_is_waited_for() {
        let (point, ending) = (WaitingPoint::with_room(2), Ending::default());
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| point.wait_for(3, &ending));
            for _ in 0..3 {
                point.post(1, true, &ending);
            }
            waiting.join().unwrap();
        });
        let state = point.lock();
        assert_eq!((state.posted, state.room), (0, 2));
    }

    #[test]
    fn nobody_waits_after_the_end() {
        let (point, ending) = (WaitingPoint::default(), Ending::default());
        std::thread::scope(|scope| {
            scope.spawn(|| point.block(&ending));
            scope.spawn(|| point.wait_for(1, &ending));
            scope.spawn(|| WaitingPoint::default().post(1, true, &ending));
            ending.end(End::Time);
        });
    }

    #[test]
    fn a_wakeup_wakes() {
        let (point, ending) = (WaitingPoint::default(), Ending::default());
        std::thread::scope(|scope| {
            let blocked = scope.spawn(|| point.block(&ending));
            while !blocked.is_finished() {
                point.wake();
                std::thread::yield_now();
            }
        });
    }
}
