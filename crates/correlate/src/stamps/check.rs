//! What was joined against what the marks say.

use std::collections::HashMap;

use nestor_disk::log::StampRun;
use nestor_trace::{Operation, Request};
use serde::{Deserialize, Serialize};

use super::StampedOperation;
use crate::join::Joined;

/// Disagreements that are told in words.
const MOST_EXAMPLES: usize = 8;

/// How far joins and marks agree.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Agreement {
    /// Runs of marked sectors whose request was joined up to the top.
    pub checked: u64,
    /// Those of them that reach the request that the mark tells of.
    pub agreeing: u64,
    /// Runs whose request has no ancestor at the top (written back, read ahead, unknown).
    pub without_ancestor: u64,
    /// Runs whose mark or request nobody knows: from before the recording.
    pub unknown: u64,
    /// Some disagreements.
    pub examples: Vec<String>,
}

impl Agreement {
    /// Share (0 to 1) of the checked runs that agree; `None` without any.
    pub fn share(&self) -> Option<f64> {
        (self.checked > 0).then(|| self.agreeing as f64 / self.checked as f64)
    }
}

/// Collects joins while they are made. Takes memory with the length of the trace: for tests only.
#[derive(Clone, Debug, Default)]
pub struct StampCheck {
    /// Of each level, from a request's number to those of its parents.
    parents: Vec<HashMap<u64, Vec<u64>>>,
}

impl StampCheck {
    /// Nothing is joined yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes a join; give this to [`correlate_observed`](crate::correlate_observed).
    pub fn observe(&mut self, joined: &Joined<'_>) {
        if self.parents.len() <= joined.level {
            self.parents.resize_with(joined.level + 1, HashMap::new);
        }
        if !joined.parents.is_empty() {
            self.parents[joined.level].insert(joined.request.id, joined.parents.to_vec());
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
        for run in runs {
            let known = numbers.get(&run.sequence).zip(by_stamp.get(&run.stamp));
            let Some((number, operation)) = known else {
                agreement.unknown += 1;
                continue;
            };
            let ancestors: Vec<&Request> =
                self.ancestors(*number).iter().filter_map(|id| top.get(id).copied()).collect();
            if ancestors.is_empty() {
                agreement.without_ancestor += 1;
                continue;
            }
            agreement.checked += 1;
            if ancestors.iter().any(|ancestor| belongs(ancestor, operation, run.read, slack_ns)) {
                agreement.agreeing += 1;
            } else if agreement.examples.len() < MOST_EXAMPLES {
                agreement
                    .examples
                    .push(format!("{run:?} is of {operation:?}, and was joined with {ancestors:?}"));
            }
        }
        agreement
    }

    /// The requests of the topmost level that one of the lowest level comes from.
    fn ancestors(&self, number: u64) -> Vec<u64> {
        let mut numbers = vec![number];
        for level in self.parents.iter().skip(1).rev() {
            let mut above: Vec<u64> =
                numbers.iter().filter_map(|number| level.get(number)).flatten().copied().collect();
            above.sort_unstable();
            above.dedup();
            numbers = above;
        }
        numbers
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
