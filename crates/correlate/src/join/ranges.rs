//! Ranges that are found by what overlaps them.

use std::collections::{BTreeMap, HashMap, VecDeque};

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

/// A request that wrote data and was over before the data appeared below.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Writer {
    /// Its number.
    pub id: u64,
    /// What it comes from.
    pub ancestry: Ancestry,
    /// Until when its data should have begun to appear below, where something between promises that.
    pub promised: i64,
}

/// A write of which ranges are remembered.
#[derive(Clone, Copy, Debug)]
struct Write {
    writer: Writer,
    /// Ranges that nothing wrote over since.
    ranges: u32,
    /// Nothing of it has appeared below yet, and it is counted when something does.
    counts: bool,
}

/// Data that was written and that a cache may still hold.
#[derive(Debug, Default)]
pub(crate) struct Written {
    /// Start, to end and the write's number; without overlap.
    ranges: BTreeMap<u64, (u64, u64)>,
    writes: HashMap<u64, Write>,
    /// Starts in the order of writing, with the number that tells a range from a later one at the same place.
    order: VecDeque<(u64, u64)>,
    count: u64,
    /// Some were forgotten to make room.
    pub forgot: bool,
}

impl Written {
    /// Remembers what a request wrote; `counts` if it is to be told of the first of it that appears.
    pub fn push(&mut self, parts: impl IntoIterator<Item = (u64, u64)>, writer: Writer, counts: bool) {
        self.count += 1;
        self.writes.insert(self.count, Write { writer, ranges: 0, counts });
        for (from, to) in parts.into_iter().filter(|(from, to)| from < to) {
            self.write_over(from, to);
            self.put(from, to, self.count);
        }
        if self.writes.get(&self.count).is_some_and(|write| write.ranges == 0) {
            self.writes.remove(&self.count);
        }
        while self.order.len() > MOST_REMEMBERED {
            let Some((oldest, number)) = self.order.pop_front() else { break };
            if self.ranges.get(&oldest).is_some_and(|(_, latest)| *latest == number) {
                self.take(oldest);
                self.forgot = true;
            }
        }
    }

    fn put(&mut self, from: u64, to: u64, number: u64) {
        self.ranges.insert(from, (to, number));
        self.order.push_back((from, number));
        if let Some(write) = self.writes.get_mut(&number) {
            write.ranges += 1;
        }
    }

    fn take(&mut self, start: u64) {
        let Some((_, number)) = self.ranges.remove(&start) else { return };
        let Some(write) = self.writes.get_mut(&number) else { return };
        write.ranges -= 1;
        if write.ranges == 0 {
            self.writes.remove(&number);
        }
    }

    /// What was there before is gone.
    fn write_over(&mut self, from: u64, to: u64) {
        let over: Vec<(u64, u64, u64)> = self.overlapping(from, to).collect();
        for (start, end, number) in over {
            // What is left of it is put back before it is taken, so that its write is not forgotten meanwhile.
            if end > to {
                self.put(to, end, number);
            }
            if start >= from {
                self.take(start);
            } else if let Some((end, _)) = self.ranges.get_mut(&start) {
                *end = from;
            }
        }
    }

    /// Start, end and number of the ranges that overlap `from..to`.
    fn overlapping(&self, from: u64, to: u64) -> impl Iterator<Item = (u64, u64, u64)> {
        let before = self.ranges.range(..from).next_back();
        let near = before.into_iter().chain(self.ranges.range(from..to.max(from)).take(MOST_LOOKED_AT));
        near.filter(move |(_, (end, _))| *end > from).map(|(start, (end, number))| (*start, *end, *number))
    }

    /// What wrote a part of `from..to` last.
    pub fn find(&self, from: u64, to: u64) -> Option<Ancestry> {
        let latest = self.overlapping(from, to).map(|(.., number)| number).max()?;
        self.writes.get(&latest).map(|write| write.writer.ancestry)
    }

    /// `from..to` appears below at a time: calls `act` with each range of it that is known, with who wrote that last, the
    /// latest first, and with whether this is the first that appears of the writer's data, by the time it promised.
    pub fn appear(
        &mut self,
        from: u64,
        to: u64,
        at: i64,
        mut act: impl FnMut((u64, u64), u64, Option<Kept>),
    ) {
        let mut near: Vec<(u64, u64, u64)> = self.overlapping(from, to).collect();
        near.sort_unstable_by_key(|(.., number)| std::cmp::Reverse(*number));
        for (start, end, number) in near {
            let Some(write) = self.writes.get_mut(&number) else { continue };
            let kept = if at <= write.writer.promised { Kept::InTime } else { Kept::Late };
            let counts = std::mem::take(&mut write.counts);
            act((start, end), write.writer.id, counts.then_some(kept));
        }
    }
}

/// Whether data appeared below when it should have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    /// Before what wrote it was answered.
    InTime,
    /// After that.
    Late,
}

/// Takes `from..to` out of ranges.
pub(crate) fn cut(ranges: &mut Vec<(u64, u64)>, from: u64, to: u64) {
    if let [(start, end)] = ranges[..]
        && from <= start
        && end <= to
    {
        ranges.clear();
        return;
    }
    let mut rest = Vec::new();
    for (start, end) in ranges.drain(..) {
        if end <= from || to <= start {
            rest.push((start, end));
            continue;
        }
        if start < from {
            rest.push((start, from));
        }
        if to < end {
            rest.push((to, end));
        }
    }
    *ranges = rest;
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
            let writer = Writer { id: index, ancestry: Ancestry::NONE, promised: i64::MAX };
            written.push([(index * 4096, (index + 1) * 4096)], writer, true);
        }
        assert!(written.forgot && written.ranges.len() == MOST_REMEMBERED);
        assert_eq!(written.writes.len(), MOST_REMEMBERED);
        assert!(written.find(0, 4096).is_none());
        let last = 2 * MOST_REMEMBERED as u64 * 4096;
        assert!(written.find(last - 1, last).is_some() && written.find(last, last + 1).is_none());
    }

    #[test]
    fn bytes_belong_to_what_wrote_them_last() {
        let mut written = Written::default();
        for (id, from, to) in [(1, 0, 40), (2, 10, 30), (3, 30, 60), (4, 0, 5)] {
            let writer = Writer { id, ancestry: Ancestry::NONE, promised: 100 };
            written.push([(from, to)], writer, true);
        }
        let mut appear = |from, to, at| {
            let mut found = Vec::new();
            written.appear(from, to, at, |range, id, kept| found.push((range, id, kept)));
            found
        };
        assert_eq!(appear(10, 30, 50), [((10, 30), 2, Some(Kept::InTime))]);
        assert_eq!(
            appear(4, 60, 200),
            [
                ((0, 5), 4, Some(Kept::Late)),
                ((30, 60), 3, Some(Kept::Late)),
                ((10, 30), 2, None),
                ((5, 10), 1, Some(Kept::Late)),
            ]
        );
        assert_eq!(appear(60, 70, 50), []);
    }

    proptest! {
        #[test]
        fn each_byte_belongs_to_what_wrote_it_last(
            writes in prop::collection::vec((0..80_u64, 1..30_u64), 1..40),
            (from, bytes) in (0..90_u64, 1..30_u64),
        ) {
            let mut written = Written::default();
            let mut last = HashMap::new();
            for (id, (start, bytes)) in writes.iter().enumerate() {
                let writer = Writer { id: id as u64, ancestry: Ancestry::NONE, promised: 0 };
                written.push([(*start, start + bytes)], writer, true);
                last.extend((*start..start + bytes).map(|byte| (byte, id as u64)));
            }
            let mut found = HashMap::new();
            written.appear(from, from + bytes, 0, |(start, end), id, _| {
                found.extend((start.max(from)..end.min(from + bytes)).map(|byte| (byte, id)));
            });
            last.retain(|byte, _| (from..from + bytes).contains(byte));
            prop_assert_eq!(found, last);
        }
    }

    #[test]
    fn ranges_are_cut() {
        let mut ranges = vec![(0, 10), (20, 30)];
        cut(&mut ranges, 5, 25);
        assert_eq!(ranges, [(0, 5), (25, 30)]);
        cut(&mut ranges, 2, 3);
        assert_eq!(ranges, [(0, 2), (3, 5), (25, 30)]);
        cut(&mut ranges, 0, 30);
        assert_eq!(ranges, []);
    }
}
