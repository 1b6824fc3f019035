//! Where the time of the requests of one level was, from being queued there to completion.
//!
//! Every moment of a request belongs to the lowest level at which it, or something that it caused, is under way then. So
//! the times of all levels add up to the request's own, whatever is done at once below, which sums of the levels' own
//! times do not.

use std::collections::BTreeMap;

use nestor_trace::Operation;
use serde::{Deserialize, Serialize};

use crate::tree::LevelIndex;

/// Where the time of the requests of one level was.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Passage {
    /// The level whose requests are divided: the topmost one that is not the application's own.
    pub level: LevelIndex,
    /// By what was asked for: reads, writes, flushes and discards take other ways, so they are never added up here.
    pub operations: BTreeMap<Operation, Passed>,
}

/// The requests of one operation together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Passed {
    /// Requests.
    pub requests: u64,
    /// Those for which nothing was done at the lowest level while they were under way: a cache answered them, or they could not
    /// be joined.
    pub without_lowest: u64,
    /// Sum of their times from being queued to completion, ns.
    pub whole_ns: u64,
    /// The parts of it, for each level from [`Passage::level`] down.
    pub levels: Vec<TimeAtLevel>,
}

/// Sums of the parts of requests' times that belong to one level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimeAtLevel {
    /// In the level's own queue, and nothing was under way further down, ns.
    pub queued_ns: u64,
    /// Issued by the level, and nothing was seen further down yet or any more, ns. At the lowest level this is its service.
    pub issued_ns: u64,
}

impl TimeAtLevel {
    /// Both, ns.
    pub fn ns(self) -> u64 {
        self.queued_ns.saturating_add(self.issued_ns)
    }
}

impl Passage {
    /// Whether nothing was divided: of what earlier versions stored.
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }
}

impl Passed {
    /// Adds another sum of the same levels.
    pub fn add(&mut self, other: &Self) {
        self.requests += other.requests;
        self.without_lowest += other.without_lowest;
        self.whole_ns = self.whole_ns.saturating_add(other.whole_ns);
        self.levels.resize(self.levels.len().max(other.levels.len()), TimeAtLevel::default());
        for (sum, more) in self.levels.iter_mut().zip(&other.levels) {
            sum.queued_ns = sum.queued_ns.saturating_add(more.queued_ns);
            sum.issued_ns = sum.issued_ns.saturating_add(more.issued_ns);
        }
    }
}
