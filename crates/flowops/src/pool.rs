//! Which files of a set exist, and which one a flowop gets next.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

/// The entries of a file set: files, or leaf directories.
///
/// An entry exists, or does not, or is just being made or removed by a thread, when no other can get it. Existing ones
/// are given out in turn by their numbers, as Filebench does, so that no file is used again before all others were.
pub(crate) struct Pool {
    state: Mutex<State>,
    settled: Condvar,
    /// Of a set in which nothing is made or removed: the numbers of those that exist. No lock is needed then.
    fixed: Option<Vec<u32>>,
    /// Whose turn it is in [`Self::fixed`].
    turn: AtomicUsize,
}

struct State {
    existing: Numbers,
    absent: Numbers,
    /// How often each entry is open.
    open: Vec<u32>,
    /// Entries in neither set because a thread is at work on them, by what they become.
    becoming_existing: u32,
    becoming_absent: u32,
    next_existing: u32,
    next_absent: u32,
}

/// Where a pick begins.
#[derive(Clone, Copy, Debug)]
pub(crate) enum From<'r> {
    /// Where the last pick of any thread ended.
    Shared,
    /// Where this thread's last pick ended.
    Own(&'r std::cell::Cell<u32>),
    /// At this number.
    Number(u32),
}

/// There is no entry of the wanted kind, and none is about to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Starved {
    pub(crate) existing: usize,
    pub(crate) entries: usize,
}

/// How long a thread waits before it asks whether the run has ended.
const PATIENCE: Duration = Duration::from_millis(50);

impl Pool {
    pub(crate) fn new(exists: &[bool]) -> Self {
        let mut existing = Numbers::new(exists.len());
        let mut absent = Numbers::new(exists.len());
        for (number, exists) in exists.iter().enumerate() {
            if *exists { &mut existing } else { &mut absent }.insert(number as u32);
        }
        Self {
            state: Mutex::new(State {
                existing,
                absent,
                open: vec![0; exists.len()],
                becoming_existing: 0,
                becoming_absent: 0,
                next_existing: 0,
                next_absent: 0,
            }),
            settled: Condvar::new(),
            fixed: None,
            turn: AtomicUsize::new(0),
        }
    }

    /// From now on nothing is made or removed.
    pub(crate) fn fix(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner);
        let all = 0..state.open.len() as u32;
        self.fixed = Some(all.filter(|number| state.existing.contains(*number)).collect());
    }

    fn open_fixed(&self, fixed: &[u32], from: From<'_>) -> Result<u32, Starved> {
        if fixed.is_empty() {
            return Err(self.lock().starved());
        }
        let at_or_after = |number: u32| fixed.partition_point(|other| *other < number) % fixed.len();
        Ok(match from {
            From::Shared => fixed[self.turn.fetch_add(1, Ordering::Relaxed) % fixed.len()],
            From::Own(own) => {
                let number = fixed[at_or_after(own.get())];
                own.set(number + 1);
                number
            }
            From::Number(number) => fixed[at_or_after(number)],
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A thread that panicked while it held the lock is about to end the run anyway.
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// An existing entry, which counts as open until [`Self::release`].
    pub(crate) fn open(&self, from: From<'_>, ended: &dyn Fn() -> bool) -> Result<u32, Starved> {
        if let Some(fixed) = &self.fixed {
            return self.open_fixed(fixed, from);
        }
        let mut state = self.lock();
        loop {
            let start = match from {
                From::Shared => state.next_existing,
                From::Own(own) => own.get(),
                From::Number(number) => number,
            };
            if let Some(number) = state.existing.next(start) {
                match from {
                    From::Shared => state.next_existing = number + 1,
                    From::Own(own) => own.set(number + 1),
                    From::Number(_) => {}
                }
                state.open[number as usize] += 1;
                return Ok(number);
            }
            if state.becoming_existing == 0 || ended() {
                return Err(state.starved());
            }
            state = self.wait(state);
        }
    }

    /// One less has the entry open.
    pub(crate) fn release(&self, number: u32) {
        if self.fixed.is_some() {
            return;
        }
        let mut state = self.lock();
        let open = &mut state.open[number as usize];
        *open = open.saturating_sub(1);
    }

    /// An entry that does not exist, to be made: [`Self::made`] or [`Self::not_made`] must follow.
    pub(crate) fn take_absent(&self, from: From<'_>, ended: &dyn Fn() -> bool) -> Result<u32, Starved> {
        let mut state = self.lock();
        loop {
            let start = match from {
                From::Number(number) => number,
                _ => state.next_absent,
            };
            if let Some(number) = state.absent.next(start) {
                if !matches!(from, From::Number(_)) {
                    state.next_absent = number + 1;
                }
                state.absent.remove(number);
                state.becoming_existing += 1;
                return Ok(number);
            }
            if state.becoming_absent == 0 || ended() {
                return Err(state.starved());
            }
            state = self.wait(state);
        }
    }

    /// The entry was made; it is open so many times.
    pub(crate) fn made(&self, number: u32, open: u32) {
        let mut state = self.lock();
        state.becoming_existing -= 1;
        state.existing.insert(number);
        state.open[number as usize] = open;
        self.settled.notify_all();
    }

    /// The entry could not be made.
    pub(crate) fn not_made(&self, number: u32) {
        let mut state = self.lock();
        state.becoming_existing -= 1;
        state.absent.insert(number);
        self.settled.notify_all();
    }

    /// An existing entry to be removed, in turn: [`Self::removed`] must follow. `Ok(None)`: all that exist are in use.
    ///
    /// Filebench gives up on the one whose turn it is if that is in use; so fewer files are removed than made, until none is left
    /// to be made.
    pub(crate) fn take_existing(
        &self,
        from: From<'_>,
        ended: &dyn Fn() -> bool,
    ) -> Result<Option<u32>, Starved> {
        let mut state = self.lock();
        loop {
            let start = match from {
                From::Number(number) => number,
                _ => state.next_existing,
            };
            if let Some(first) = state.existing.next(start) {
                let Some(number) = state.first_not_open(first) else { return Ok(None) };
                if !matches!(from, From::Number(_)) {
                    state.next_existing = number + 1;
                }
                state.begin_removal(number);
                return Ok(Some(number));
            }
            if state.becoming_existing == 0 || ended() {
                return Err(state.starved());
            }
            state = self.wait(state);
        }
    }

    /// This very entry, to be removed, if it exists and at most `own` have it open: [`Self::removed`] must follow.
    pub(crate) fn take_this(&self, number: u32, own: u32) -> bool {
        let mut state = self.lock();
        let free = state.existing.contains(number) && state.open[number as usize] <= own;
        if free {
            state.begin_removal(number);
        }
        free
    }

    /// The entry was removed.
    pub(crate) fn removed(&self, number: u32) {
        let mut state = self.lock();
        state.becoming_absent -= 1;
        state.absent.insert(number);
        state.open[number as usize] = 0;
        self.settled.notify_all();
    }

    fn wait<'p>(&'p self, state: MutexGuard<'p, State>) -> MutexGuard<'p, State> {
        match self.settled.wait_timeout(state, PATIENCE) {
            Ok((state, _)) => state,
            Err(poisoned) => poisoned.into_inner().0,
        }
    }
}

impl State {
    /// The first existing entry from this one on, wrapping around at the end, that is not open.
    fn first_not_open(&self, first: u32) -> Option<u32> {
        let mut number = first;
        loop {
            if self.open[number as usize] == 0 {
                return Some(number);
            }
            number = self.existing.next(number + 1)?;
            if number == first {
                return None;
            }
        }
    }

    fn begin_removal(&mut self, number: u32) {
        self.existing.remove(number);
        self.becoming_absent += 1;
    }

    fn starved(&self) -> Starved {
        Starved { existing: self.existing.count, entries: self.open.len() }
    }
}

/// A set of numbers from which the next one after a given one is found in constant time.
struct Numbers {
    /// Bit by bit.
    words: Vec<u64>,
    /// Which words are not 0.
    summary: Vec<u64>,
    count: usize,
}

impl Numbers {
    fn new(length: usize) -> Self {
        let words = length.div_ceil(64);
        Self { words: vec![0; words], summary: vec![0; words.div_ceil(64)], count: 0 }
    }

    fn contains(&self, number: u32) -> bool {
        self.words[number as usize / 64] & (1 << (number % 64)) != 0
    }

    fn insert(&mut self, number: u32) {
        let word = number as usize / 64;
        self.count += usize::from(!self.contains(number));
        self.words[word] |= 1 << (number % 64);
        self.summary[word / 64] |= 1 << (word % 64);
    }

    fn remove(&mut self, number: u32) {
        let word = number as usize / 64;
        self.count -= usize::from(self.contains(number));
        self.words[word] &= !(1 << (number % 64));
        if self.words[word] == 0 {
            self.summary[word / 64] &= !(1 << (word % 64));
        }
    }

    /// The first number not below `start`; without one, the first of all.
    fn next(&self, start: u32) -> Option<u32> {
        if self.count == 0 {
            return None;
        }
        self.at_or_after(start as usize).or_else(|| self.at_or_after(0))
    }

    fn at_or_after(&self, start: usize) -> Option<u32> {
        let word = start / 64;
        let here = self.words.get(word)? & (u64::MAX << (start % 64));
        if here != 0 {
            return Some((word * 64) as u32 + here.trailing_zeros());
        }
        let next = word + 1;
        let mut group = next / 64;
        let mut summary = self.summary.get(group)? & (u64::MAX << (next % 64));
        while summary == 0 {
            group += 1;
            summary = *self.summary.get(group)?;
        }
        let word = group * 64 + summary.trailing_zeros() as usize;
        Some((word * 64) as u32 + self.words[word].trailing_zeros())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::cell::Cell;
    use std::collections::BTreeSet;

    const NEVER: &dyn Fn() -> bool = &|| false;

    proptest! {
        #[test]
        fn numbers_are_a_set(steps in prop::collection::vec((any::<bool>(), 0u32..10_000), 0..300), start in 0u32..11_000) {
            let mut numbers = Numbers::new(10_000);
            let mut expected = BTreeSet::new();
            for (insert, number) in steps {
                if insert {
                    numbers.insert(number);
                    expected.insert(number);
                } else {
                    numbers.remove(number);
                    expected.remove(&number);
                }
            }
            let next = expected.range(start..).next().or_else(|| expected.first()).copied();
            prop_assert_eq!(numbers.next(start), next);
            prop_assert_eq!(numbers.count, expected.len());
        }
    }

    #[test]
    fn files_are_given_out_in_turn() {
        let pool = Pool::new(&[true, false, true, true]);
        let open = |from| pool.open(from, NEVER).unwrap();
        assert_eq!((0..4).map(|_| open(From::Shared)).collect::<Vec<_>>(), [0, 2, 3, 0]);
        let own = Cell::new(0);
        assert_eq!((0..3).map(|_| open(From::Own(&own))).collect::<Vec<_>>(), [0, 2, 3]);
        assert_eq!(open(From::Number(1)), 2);
    }

    #[test]
    fn a_fixed_set_gives_out_the_same() {
        let mut pool = Pool::new(&[true, false, true, true]);
        pool.fix();
        let open = |from| pool.open(from, NEVER).unwrap();
        assert_eq!((0..4).map(|_| open(From::Shared)).collect::<Vec<_>>(), [0, 2, 3, 0]);
        let own = Cell::new(0);
        assert_eq!((0..4).map(|_| open(From::Own(&own))).collect::<Vec<_>>(), [0, 2, 3, 0]);
        assert_eq!([open(From::Number(1)), open(From::Number(9))], [2, 0]);
        let mut empty = Pool::new(&[false]);
        empty.fix();
        assert_eq!(empty.open(From::Shared, NEVER), Err(Starved { existing: 0, entries: 1 }));
    }

    #[test]
    fn what_is_open_is_not_removed() {
        let pool = Pool::new(&[true, true]);
        assert_eq!(pool.open(From::Shared, NEVER), Ok(0));
        assert_eq!(pool.open(From::Shared, NEVER), Ok(1));
        assert_eq!(pool.take_existing(From::Number(0), NEVER), Ok(None));
        pool.release(1);
        assert!(!pool.take_this(0, 0));
        assert!(pool.take_this(0, 1), "the one who has it open may remove it");
        pool.removed(0);
        assert_eq!(pool.take_existing(From::Shared, NEVER), Ok(Some(1)));
        pool.removed(1);
        assert_eq!(pool.open(From::Shared, NEVER), Err(Starved { existing: 0, entries: 2 }));
    }

    #[test]
    fn absent_files_are_made_once() {
        let pool = Pool::new(&[false, false]);
        let first = pool.take_absent(From::Shared, NEVER).unwrap();
        let second = pool.take_absent(From::Shared, NEVER).unwrap();
        assert_ne!(first, second);
        assert!(pool.take_absent(From::Shared, NEVER).is_err());
        pool.made(first, 1);
        pool.not_made(second);
        assert_eq!(pool.take_absent(From::Shared, NEVER), Ok(second));
    }

    #[test]
    fn a_thread_waits_for_what_another_is_making() {
        let pool = Pool::new(&[false]);
        let number = pool.take_absent(From::Shared, NEVER).unwrap();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| pool.open(From::Shared, NEVER));
            pool.made(number, 0);
            assert_eq!(waiting.join().unwrap(), Ok(0));
        });
    }
}
