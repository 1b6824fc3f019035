//! What was joined against what the marks say.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};

use nestor_disk::DiskError;
use nestor_disk::log::{Reader, StampReader, StampRun};
use nestor_trace::{Operation, Request};

use super::StampedOperation;
use crate::agreement::Agreement;
use crate::engine::{CorrelateOptions, correlate_observed, requests_error};
use crate::error::CorrelateError;
use crate::input::LevelInput;
use crate::join::Joined;
use crate::tree::{Correlation, LevelIndex, Origin};

/// Disagreements that are told in words.
const MOST_EXAMPLES: usize = 8;

/// What really happened, for a check of joins.
#[derive(Clone, Debug, PartialEq)]
pub struct Truth {
    /// The modelled disk's log.
    pub log: PathBuf,
    /// The marks that the disk found meanwhile.
    pub stamps: PathBuf,
    /// The operations that made the marks.
    pub operations: Vec<StampedOperation>,
}

/// By how much the times of a trace are rounded that was read from tracefs, which prints microseconds.
const ROUNDED_NS: u64 = 1000;

/// [`correlate`](crate::correlate), and holds the joins against the truth: see [`Correlation::agreement`].
///
/// # Errors
/// See [`CorrelateError`]; the disk's log or the file of marks cannot be read.
pub fn correlate_checked(
    levels: &[LevelInput<'_>],
    options: &CorrelateOptions,
    truth: &Truth,
) -> Result<Correlation, CorrelateError> {
    let mut check = StampCheck::new();
    let mut correlation = correlate_observed(levels, options, &mut |joined| check.observe(joined))?;
    let requests = levels[0].source.open().and_then(Iterator::collect::<Result<Vec<Request>, _>>);
    let requests = requests.map_err(|source| requests_error(levels, LevelIndex::TOP, source))?;
    let unreadable = |path: &Path, e: DiskError| CorrelateError::Io {
        path: path.to_path_buf(),
        source: io::Error::other(e),
    };
    let sequences: Vec<u64> = Reader::open(&truth.log)
        .and_then(|log| log.map(|record| Ok(record?.sequence)).collect())
        .map_err(|e| unreadable(&truth.log, e))?;
    let runs: Vec<StampRun> = StampReader::open(&truth.stamps)
        .and_then(Iterator::collect)
        .map_err(|e| unreadable(&truth.stamps, e))?;
    correlation.agreement = Some(check.agreement(&requests, sequences, runs, &truth.operations, ROUNDED_NS));
    Ok(correlation)
}

/// Collects joins while they are made. Takes memory with the length of the trace: for tests only.
#[derive(Clone, Debug, Default)]
pub struct StampCheck {
    /// Of each level, by a request's number.
    parents: Vec<HashMap<u64, Parents>>,
}

/// What a request was joined with.
#[derive(Clone, Debug)]
struct Parents {
    /// Numbers of requests of the level above.
    numbers: Vec<u64>,
    /// They were found by place and order.
    by_content: bool,
    /// It reads what a write of a part leaves.
    completes: bool,
}

/// What a request of the lowest level comes from.
#[derive(Clone, Debug, Default)]
struct Ancestors {
    /// Numbers of requests of the topmost level.
    numbers: Vec<u64>,
    /// A level between was joined by place and order.
    by_content: bool,
    /// A level between reads what a write of a part leaves.
    completes: bool,
}

/// What the disk has, by the marks of what was written.
#[derive(Clone, Debug, Default)]
struct OnDisk(HashMap<u64, u64>);

impl OnDisk {
    /// A run is written; whether the disk had all of it before.
    fn write(&mut self, run: &StampRun) -> bool {
        let mut had_all = true;
        for sector in run.sector..run.sector.saturating_add(run.sectors.into()) {
            had_all &= self.0.insert(sector, run.stamp) == Some(run.stamp);
        }
        had_all
    }
}

impl StampCheck {
    /// Nothing is joined yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes a join; give this to [`correlate_observed`](crate::correlate_observed).
    pub fn observe(&mut self, joined: &Joined<'_>) {
        let level = joined.level.position();
        if self.parents.len() <= level {
            self.parents.resize_with(level + 1, HashMap::new);
        }
        // What waited for a cache to be written out did not write the data.
        let waited = match joined.origin {
            Origin::Parent => joined.parents,
            _ if joined.writers.is_empty() => joined.parents,
            _ => &[],
        };
        let by_content = !joined.writers.is_empty();
        let numbers = [waited, joined.writers].concat();
        if !numbers.is_empty() {
            let completes =
                joined.origin == Origin::ReadModifyWrite && joined.request.operation == Operation::Read;
            self.parents[level].insert(joined.request.id, Parents { numbers, by_content, completes });
        }
    }

    /// Compares. `top` are the requests of the topmost level, `sequences` those of the log in its order, which is that
    /// of the numbers of the lowest level's requests; `slack_ns` is by how much the topmost trace's times are rounded.
    pub fn agreement(
        &self,
        top: &[Request],
        sequences: impl IntoIterator<Item = u64>,
        runs: impl IntoIterator<Item = StampRun>,
        operations: &[StampedOperation],
        slack_ns: u64,
    ) -> Agreement {
        let numbers: HashMap<u64, u64> =
            sequences.into_iter().enumerate().map(|(number, sequence)| (sequence, number as u64)).collect();
        let by_stamp: HashMap<u64, &StampedOperation> = operations.iter().map(|o| (o.stamp, o)).collect();
        let top: HashMap<u64, &Request> = top.iter().map(|request| (request.id, request)).collect();
        let mut agreement = Agreement::default();
        let mut on_disk = OnDisk::default();
        for run in runs {
            let is_again = !run.read && on_disk.write(&run);
            let known = numbers.get(&run.sequence).zip(by_stamp.get(&run.stamp));
            let Some((number, operation)) = known else {
                agreement.unknown += 1;
                continue;
            };
            let Ancestors { numbers, by_content, completes } = self.ancestors(*number);
            if is_again || completes {
                agreement.beside += 1;
                continue;
            }
            let ancestors: Vec<&Request> = numbers.iter().filter_map(|id| top.get(id).copied()).collect();
            if ancestors.is_empty() {
                agreement.without_ancestor += 1;
                continue;
            }
            agreement.checked += 1;
            agreement.by_content += u64::from(by_content);
            if ancestors.iter().any(|ancestor| belongs(ancestor, operation, run.read, slack_ns)) {
                agreement.agreeing += 1;
                agreement.by_content_agreeing += u64::from(by_content);
            } else if agreement.examples.len() < MOST_EXAMPLES {
                agreement
                    .examples
                    .push(format!("{run:?} belongs to {operation:?}, but was joined with {ancestors:?}"));
            }
        }
        agreement
    }

    /// What a request of the lowest level comes from.
    fn ancestors(&self, number: u64) -> Ancestors {
        let mut all = Ancestors { numbers: vec![number], ..Ancestors::default() };
        for level in self.parents.iter().skip(1).rev() {
            let found: Vec<&Parents> = all.numbers.iter().filter_map(|number| level.get(number)).collect();
            all.by_content |= found.iter().any(|parents| parents.by_content);
            all.completes |= found.iter().any(|parents| parents.completes);
            let mut above: Vec<u64> = found.iter().flat_map(|parents| &parents.numbers).copied().collect();
            above.sort_unstable();
            above.dedup();
            all.numbers = above;
        }
        all
    }
}

/// Whether a request of the topmost level is one that the operation made; of a read, one for what it wrote.
fn belongs(request: &Request, operation: &StampedOperation, read: bool, slack_ns: u64) -> bool {
    let overlaps = request.offset < operation.offset + operation.bytes
        && operation.offset < request.offset.saturating_add(request.bytes);
    if read {
        return overlaps && request.operation == Operation::Read;
    }
    overlaps
        && request.operation == Operation::Write
        && request.queued_ns + slack_ns >= operation.started_ns
        && request.completed_ns <= operation.ended_ns + slack_ns
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::played::request;

    const BYTES: u64 = 4096;

    /// By its number, one after the other.
    fn numbered(id: u64, operation: Operation, offset: u64, bytes: u64) -> Request {
        Request { id, ..request(operation, offset, bytes, [id * 100, id * 100, id * 100 + 50]) }
    }

    /// Two writes of neighbouring blocks, of which the second writes both, and reads for that. `first` is what the first one's block is joined
    /// with.
    fn agreement(first: u64) -> Agreement {
        let top = [0, 1].map(|id| numbered(id, Operation::Write, id * BYTES, BYTES));
        let operation = |r: &Request| StampedOperation {
            stamp: r.id + 1,
            operation: r.operation,
            offset: r.offset,
            bytes: r.bytes,
            started_ns: r.queued_ns,
            ended_ns: r.completed_ns,
        };
        let mut check = StampCheck::new();
        let mut join = |request: Request, origin, parents: &[u64]| {
            let (level, request) = (LevelIndex::at(1), &request);
            check.observe(&Joined { level, request, origin, parents, writers: &[] });
        };
        join(numbered(0, Operation::Write, 0, BYTES), Origin::Parent, &[first]);
        join(numbered(1, Operation::Read, 0, BYTES), Origin::ReadModifyWrite, &[1]);
        join(numbered(2, Operation::Write, 0, 2 * BYTES), Origin::Parent, &[1]);
        let run = |sequence, sector, stamp, read| StampRun { sequence, sector, sectors: 8, stamp, read };
        let runs = [run(0, 0, 1, false), run(1, 0, 1, true), run(2, 0, 1, false), run(2, 8, 2, false)];
        check.agreement(&top, 0..3, runs, &top.each_ref().map(operation), 0)
    }

    #[test]
    fn what_is_moved_to_make_whole_blocks_says_nothing_of_who_asked() {
        let right = agreement(0);
        assert_eq!((right.checked, right.agreeing, right.beside), (2, 2, 2));
        let wrong = agreement(1);
        assert_eq!((wrong.checked, wrong.agreeing, wrong.beside), (2, 1, 2));
    }
}
