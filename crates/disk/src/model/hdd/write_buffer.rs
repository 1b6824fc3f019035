//! The write side of the drive's buffer: sectors that have been reported written and are not yet on the platters.

use std::collections::BTreeMap;

/// Runs are joined up to this length, so that one destaging does not keep reads waiting for long: 1 MiB.
const LONGEST_RUN_SECTORS: u64 = 2048;

/// A run of sectors that waits to be written to the platters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dirty {
    /// First sector.
    pub start: u64,
    /// Sector after the last.
    pub end: u64,
    /// Number of the oldest write in it.
    pub sequence: u64,
    /// When all of its data was in the buffer.
    pub ready_ns: u64,
    /// When the oldest of its data came.
    pub since_ns: u64,
}

/// Runs that do not overlap.
#[derive(Clone, Debug)]
pub struct WriteBuffer {
    runs: BTreeMap<u64, Dirty>,
    sectors: u64,
    destaging: u64,
    most_sectors: u64,
    most_runs: usize,
}

impl WriteBuffer {
    /// A buffer for `sectors` in at most `runs` runs.
    pub fn new(sectors: u64, runs: usize) -> Self {
        Self {
            runs: BTreeMap::new(),
            sectors: 0,
            destaging: 0,
            most_sectors: sectors,
            most_runs: runs.max(1),
        }
    }

    /// Nothing waits to be written.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// What waits to be written, by position.
    pub fn runs(&self) -> impl Iterator<Item = &Dirty> {
        self.runs.values()
    }

    /// A write of this size could ever be taken.
    pub fn could_take(&self, sectors: u64) -> bool {
        sectors <= self.most_sectors / 2
    }

    /// A write of this size can be taken now.
    pub fn has_room(&self, sectors: u64) -> bool {
        self.sectors + self.destaging + sectors <= self.most_sectors && self.runs.len() < self.most_runs
    }

    /// It is so full that writing it out must not wait for reads.
    pub fn is_pressed(&self) -> bool {
        (self.sectors + self.destaging) * 4 > self.most_sectors * 3
            || self.runs.len() * 4 > self.most_runs * 3
    }

    /// Whether the whole range is held.
    pub fn holds(&self, start: u64, end: u64) -> bool {
        let mut reached = start;
        for run in self.runs.range(..end).map(|(_, run)| run).filter(|run| run.end > start) {
            if run.start > reached {
                return false;
            }
            reached = run.end;
        }
        reached >= end
    }

    /// Takes a write. What it replaces is forgotten, but counts as old as it was: a flush that waits for the old
    /// data waits for the new data in its place.
    pub fn insert(&mut self, start: u64, end: u64, sequence: u64, ready_ns: u64) {
        let replaced = self.remove(start, end);
        let mut new = Dirty {
            start,
            end,
            sequence: replaced.map_or(sequence, |r| r.sequence.min(sequence)),
            ready_ns,
            since_ns: replaced.map_or(ready_ns, |r| r.since_ns.min(ready_ns)),
        };
        let before = self.runs.range(..start).next_back().map(|(_, run)| *run);
        let after = self.runs.get(&end).copied();
        for neighbour in [before.filter(|run| run.end == start), after].into_iter().flatten() {
            if (new.end - new.start) + (neighbour.end - neighbour.start) <= LONGEST_RUN_SECTORS {
                self.take(neighbour.start);
                new = Dirty {
                    start: new.start.min(neighbour.start),
                    end: new.end.max(neighbour.end),
                    sequence: new.sequence.min(neighbour.sequence),
                    ready_ns: new.ready_ns.max(neighbour.ready_ns),
                    since_ns: new.since_ns.min(neighbour.since_ns),
                };
            }
        }
        self.put(new);
    }

    /// Forgets a range. Returns the oldest run that overlapped it.
    pub fn remove(&mut self, start: u64, end: u64) -> Option<Dirty> {
        let overlapping: Vec<Dirty> =
            self.runs.range(..end).map(|(_, run)| *run).filter(|run| run.end > start).collect();
        for run in &overlapping {
            self.take(run.start);
            if run.start < start {
                self.put(Dirty { end: start, ..*run });
            }
            if run.end > end {
                self.put(Dirty { start: end, ..*run });
            }
        }
        overlapping.into_iter().min_by_key(|run| run.sequence)
    }

    /// Takes a run out to be written; its room is free again after [`Self::destaged`].
    pub fn begin_destage(&mut self, start: u64) -> Option<Dirty> {
        let run = self.take(start)?;
        self.destaging += run.end - run.start;
        Some(run)
    }

    /// What was taken out is on the platters.
    pub fn destaged(&mut self, run: &Dirty) {
        self.destaging -= run.end - run.start;
    }

    fn take(&mut self, start: u64) -> Option<Dirty> {
        let run = self.runs.remove(&start)?;
        self.sectors -= run.end - run.start;
        Some(run)
    }

    fn put(&mut self, run: Dirty) {
        self.sectors += run.end - run.start;
        self.runs.insert(run.start, run);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_buffer_holds_exactly_what_was_written(
            writes in prop::collection::vec((0u64..400, 1u64..60, any::<bool>()), 1..40)
        ) {
            let mut buffer = WriteBuffer::new(1 << 20, 1000);
            let mut expected = [None; 512];
            for (sequence, (start, sectors, removes)) in writes.iter().enumerate() {
                let (start, end) = (*start, start + sectors);
                if *removes {
                    buffer.remove(start, end);
                    expected[start as usize..end as usize].fill(None);
                } else {
                    buffer.insert(start, end, sequence as u64, 0);
                    expected[start as usize..end as usize].fill(Some(sequence as u64));
                }
            }
            for (sector, sequence) in expected.iter().enumerate() {
                let sector = sector as u64;
                prop_assert_eq!(buffer.holds(sector, sector + 1), sequence.is_some());
                let run = buffer.runs().find(|run| run.start <= sector && sector < run.end);
                // A run is never younger than a write in it: flushes wait for it.
                prop_assert!(run.map(|run| run.sequence) <= *sequence);
            }
            let held = expected.iter().filter(|s| s.is_some()).count() as u64;
            prop_assert_eq!(buffer.sectors, held);
        }
    }
}
