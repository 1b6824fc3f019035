//! Ranges that are found by what overlaps them.

use std::collections::{BTreeMap, VecDeque};

use super::active::Ancestry;

/// Ranges that are looked at for one request. Only traces that no machine makes have more.
const MOST_LOOKED_AT: usize = 4096;
/// Ranges of written data that are remembered for write-back: about 24 MiB of memory.
const MOST_REMEMBERED: usize = 1 << 18;
/// Ends of reads that are remembered: as many streams are told apart.
const MOST_STREAMS: usize = 64;
/// How far from a stream's end a read still belongs to it: the kernel reads ahead 128 KiB by default, disks and
/// arrays are set to a few MiB.
const NEAR_BYTES: u64 = 4 << 20;

/// Ranges of requests that are under way.
#[derive(Debug, Default)]
pub(crate) struct RangeIndex {
    /// Start and slot, to end.
    ranges: BTreeMap<(u64, u32), u64>,
    longest: u64,
}

impl RangeIndex {
    /// Adds a range.
    pub fn insert(&mut self, start: u64, bytes: u64, slot: u32) {
        self.longest = self.longest.max(bytes);
        self.ranges.insert((start, slot), start.saturating_add(bytes));
    }

    /// Removes a range.
    pub fn remove(&mut self, start: u64, slot: u32) {
        self.ranges.remove(&(start, slot));
        if self.ranges.is_empty() {
            self.longest = 0;
        }
    }

    /// Calls `act` with slot, start and end of every range that overlaps `from..to`.
    pub fn overlapping(&self, from: u64, to: u64, mut act: impl FnMut(u32, u64, u64)) {
        let first = from.saturating_sub(self.longest);
        let near = self.ranges.range((first, 0)..(to, 0)).take(MOST_LOOKED_AT);
        for ((start, slot), end) in near {
            if *end > from {
                act(*slot, *start, *end);
            }
        }
    }
}

/// Data that was written and that a cache may still hold.
#[derive(Debug, Default)]
pub(crate) struct Written {
    /// Start, to end, what wrote it, and when that was.
    ranges: BTreeMap<u64, (u64, Ancestry, u64)>,
    /// Starts in the order of writing, with the number that tells a range from a later one at the same place.
    order: VecDeque<(u64, u64)>,
    count: u64,
    longest: u64,
    /// Some were forgotten to make room.
    pub forgot: bool,
}

impl Written {
    /// Remembers a range.
    pub fn push(&mut self, start: u64, bytes: u64, ancestry: Ancestry) {
        self.count += 1;
        self.longest = self.longest.max(bytes);
        self.ranges.insert(start, (start.saturating_add(bytes), ancestry, self.count));
        self.order.push_back((start, self.count));
        while self.order.len() > MOST_REMEMBERED {
            let Some((oldest, count)) = self.order.pop_front() else { break };
            if self.ranges.get(&oldest).is_some_and(|(.., latest)| *latest == count) {
                self.ranges.remove(&oldest);
                self.forgot = true;
            }
        }
    }

    /// What wrote a part of `from..to` last.
    pub fn find(&self, from: u64, to: u64) -> Option<Ancestry> {
        let first = from.saturating_sub(self.longest);
        let near = self.ranges.range(first..to).take(MOST_LOOKED_AT);
        let hit = near.filter(|(_, (end, ..))| *end > from).max_by_key(|(_, (.., count))| *count);
        hit.map(|(_, (_, ancestry, _))| *ancestry)
    }
}

/// Where reads ended lately.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    ends: VecDeque<u64>,
}

impl Streams {
    /// A read ended at `end`.
    pub fn push(&mut self, start: u64, end: u64) {
        // A read that continues a stream moves its end.
        if let Some(known) = self.ends.iter_mut().rev().find(|known| **known == start) {
            *known = end;
            return;
        }
        if self.ends.len() == MOST_STREAMS {
            self.ends.pop_front();
        }
        self.ends.push_back(end);
    }

    /// Whether something at `start` stands beside what was read lately.
    pub fn is_near(&self, start: u64) -> bool {
        self.ends.iter().any(|end| end.abs_diff(start) <= NEAR_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_overlap_is_found(
            ranges in prop::collection::vec((0..200_u64, 1..40_u64), 0..40),
            removed in 0..20_usize,
            (from, bytes) in (0..200_u64, 1..40_u64),
        ) {
            let mut index = RangeIndex::default();
            for (slot, (start, bytes)) in ranges.iter().enumerate() {
                index.insert(*start, *bytes, slot as u32);
            }
            for (slot, (start, _)) in ranges.iter().enumerate().take(removed) {
                index.remove(*start, slot as u32);
            }
            let to = from + bytes;
            let mut found = Vec::new();
            index.overlapping(from, to, |slot, start, end| found.push((slot, start, end)));
            found.sort_unstable();
            let all = ranges.iter().enumerate().skip(removed);
            let expected: Vec<_> = all
                .filter(|(_, (start, bytes))| *start < to && start + bytes > from)
                .map(|(slot, (start, bytes))| (slot as u32, *start, start + bytes))
                .collect();
            prop_assert_eq!(found, expected);
        }
    }

    #[test]
    fn what_was_written_is_remembered_in_bounded_memory() {
        let mut written = Written::default();
        for index in 0..2 * MOST_REMEMBERED as u64 {
            written.push(index * 4096, 4096, Ancestry::NONE);
        }
        assert!(written.forgot && written.ranges.len() == MOST_REMEMBERED);
        assert!(written.find(0, 4096).is_none());
        let last = 2 * MOST_REMEMBERED as u64 * 4096;
        assert!(written.find(last - 1, last).is_some() && written.find(last, last + 1).is_none());
    }
}
