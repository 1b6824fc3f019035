//! Queue slots: requests that overlap in time stand in different ones.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A request that is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Ending {
    /// When it ends.
    pub at_ns: u64,
    /// The slot it leaves.
    pub slot: u32,
}

/// Which slots are taken.
#[derive(Debug, Default)]
pub(super) struct Slots {
    free: BinaryHeap<Reverse<u32>>,
    taken: BinaryHeap<Reverse<Ending>>,
    slots: u32,
}

impl Slots {
    /// The next request that ends at `now_ns` or before; its slot is free from then on.
    pub(super) fn ended_by(&mut self, now_ns: u64) -> Option<Ending> {
        let Reverse(first) = self.taken.peek().copied().filter(|Reverse(e)| e.at_ns <= now_ns)?;
        self.taken.pop();
        self.free.push(Reverse(first.slot));
        Some(first)
    }

    /// Takes the lowest free slot until `end_ns`; the second value says whether it is a new one.
    pub(super) fn take(&mut self, end_ns: u64) -> (u32, bool) {
        let (slot, new) = match self.free.pop() {
            Some(Reverse(slot)) => (slot, false),
            None => {
                self.slots += 1;
                (self.slots - 1, true)
            }
        };
        self.taken.push(Reverse(Ending { at_ns: end_ns, slot }));
        (slot, new)
    }

    /// How many are taken.
    pub(super) fn depth(&self) -> usize {
        self.taken.len()
    }
}
