//! Where a server's calls read and write in files: how much at once, and how far from the last time.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};

use crate::decode::calls::{Access, OwnWrite};
use crate::rpc::CallKind;

/// What calls did with the contents of files, over the recorded time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FileAccesses {
    /// Reads.
    pub reads: AccessPattern,
    /// Writes.
    pub writes: AccessPattern,
}

/// Reads or writes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AccessPattern {
    /// How many.
    pub accesses: u64,
    /// Of how many bytes together.
    pub bytes: u64,
    /// Of how many files.
    pub files: u64,
    /// How many of each size in bytes: the greatest power of two that is not more, 0 for nothing.
    pub sizes: BTreeMap<u64, u64>,
    /// How many continue where the last one of the same file ended.
    pub sequential: u64,
    /// Mean distance in bytes from the end of the last one of the same file, either way; `None` if no file had two.
    pub seek_mean_bytes: Option<f64>,
}

impl FileAccesses {
    /// Of accesses in their order.
    pub fn of(accesses: &[Access]) -> Self {
        let [mut reads, mut writes] = [Pattern::default(), Pattern::default()];
        for access in accesses {
            match access.kind {
                CallKind::Read => reads.push(access.file.into(), access.offset, access.bytes.into()),
                CallKind::Write => writes.push(access.file.into(), access.offset, access.bytes.into()),
                CallKind::Commit | CallKind::Metadata | CallKind::Session => {}
            }
        }
        Self { reads: reads.finish(), writes: writes.finish() }
    }
}

impl AccessPattern {
    /// Of writes to files of one file system, in their order; `None` without any.
    pub fn of_writes(writes: &[OwnWrite]) -> Option<Self> {
        let mut pattern = Pattern::default();
        writes.iter().for_each(|write| pattern.push(write.file.inode, write.offset, write.bytes));
        (!writes.is_empty()).then(|| pattern.finish())
    }

    /// The share (0 to 1) that continues where the last one of the same file ended, as of the requests of a block layer; `None` without any.
    pub fn sequential_share(&self) -> Option<f64> {
        self.share(self.sequential)
    }

    /// The size of most of them, and their share (0 to 1); the larger of two.
    pub fn usual_size(&self) -> Option<(u64, f64)> {
        let (size, count) = self.sizes.iter().max_by_key(|(size, count)| (**count, **size))?;
        Some((*size, self.share(*count)?))
    }

    fn share(&self, count: u64) -> Option<f64> {
        (self.accesses > 0).then(|| count as f64 / self.accesses as f64)
    }
}

/// A pattern while accesses are gone through.
#[derive(Default)]
struct Pattern {
    numbers: AccessPattern,
    /// Where the last access of each file ended.
    ends: HashMap<u64, u64>,
    distances: u64,
    distance_bytes: f64,
}

impl Pattern {
    fn push(&mut self, file: u64, offset: u64, bytes: u64) {
        self.numbers.accesses += 1;
        self.numbers.bytes = self.numbers.bytes.saturating_add(bytes);
        let size = bytes.checked_ilog2().map_or(0, |log| 1 << log);
        *self.numbers.sizes.entry(size).or_default() += 1;
        if let Some(end) = self.ends.insert(file, offset.saturating_add(bytes)) {
            let distance_bytes = end.abs_diff(offset);
            self.numbers.sequential += u64::from(distance_bytes == 0);
            self.distances += 1;
            self.distance_bytes += distance_bytes as f64;
        }
    }

    fn finish(self) -> AccessPattern {
        let Self { numbers, ends, distances, distance_bytes } = self;
        AccessPattern {
            files: ends.len() as u64,
            seek_mean_bytes: (distances > 0).then(|| distance_bytes / distances as f64),
            ..numbers
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(kind: CallKind, file: u32, offset: u64, bytes: u32) -> Access {
        Access { xid: 0, kind, file, offset, bytes, began_ns: 0 }
    }

    #[test]
    fn files_and_directions_do_not_disturb_each_other() {
        let (read, write) = (CallKind::Read, CallKind::Write);
        let accesses = [
            access(write, 1, 0, 4096),
            access(read, 1, 0, 1024),
            access(write, 2, 1 << 20, 4096),
            access(write, 1, 4096, 5000),
            access(write, 2, 0, 0),
            access(CallKind::Commit, 1, 0, 0),
        ];
        let found = FileAccesses::of(&accesses);
        assert_eq!((found.reads.accesses, found.reads.files, found.reads.seek_mean_bytes), (1, 1, None));
        let writes = &found.writes;
        assert_eq!((writes.accesses, writes.bytes, writes.files, writes.sequential), (4, 13_192, 2, 1));
        assert_eq!(writes.sizes, BTreeMap::from([(0, 1), (4096, 3)]));
        assert_eq!(writes.usual_size(), Some((4096, 0.75)));
        assert_eq!(writes.sequential_share(), Some(0.25));
        assert_eq!(writes.seek_mean_bytes, Some(((1 << 20) + 4096) as f64 / 2.0));
    }

    #[test]
    fn without_accesses_there_are_no_shares() {
        let none = FileAccesses::of(&[]).reads;
        assert_eq!((none.sequential_share(), none.usual_size()), (None, None));
    }

    #[test]
    fn an_access_at_the_end_of_all_offsets_does_not_overflow() {
        let accesses = [u64::MAX, 0].map(|offset| access(CallKind::Read, 7, offset, u32::MAX));
        assert_eq!(FileAccesses::of(&accesses).reads.seek_mean_bytes, Some(u64::MAX as f64));
    }
}
