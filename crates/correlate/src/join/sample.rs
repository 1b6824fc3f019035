//! Requests that are shown: the median, the p99 and the longest of each operation, and what went on around the middle.

use std::collections::BTreeMap;

use nestor_statistics::LatencyHistogram;
use nestor_trace::Operation;

use super::Active;
use crate::choice::{Choice, Rank};
use crate::tree::{LevelIndex, Node, SampledTree};

/// Children of one request that are shown; a flush can have thousands.
const MOST_CHILDREN: usize = 256;

/// A request that is looked for: the one whose latency is nearest.
#[derive(Debug)]
struct Wanted {
    level: LevelIndex,
    rank: Rank,
    operation: Operation,
    latency_ns: u64,
    /// Of the one that was found: how far its latency is off.
    found: Option<(u64, Node)>,
}

/// Collects trees while requests end.
#[derive(Debug)]
pub(crate) struct Sampler {
    wanted: Vec<Wanted>,
    timeline: Vec<Node>,
    timeline_trees: usize,
    timeline_from: i64,
}

impl Sampler {
    /// Looks for `timeline_trees` requests that were queued after `timeline_from`, and for what [`Self::look_for`] is told.
    pub fn new(timeline_trees: usize, timeline_from: i64) -> Self {
        Self { wanted: Vec::new(), timeline: Vec::new(), timeline_trees, timeline_from }
    }

    /// Looks for the quantiles of the latencies of a level, except for operations that are looked for at another.
    pub fn look_for(&mut self, level: LevelIndex, latency: &BTreeMap<Operation, LatencyHistogram>) {
        let before: Vec<Operation> = self.wanted.iter().map(|wanted| wanted.operation).collect();
        for (operation, histogram) in latency.iter().filter(|(operation, _)| !before.contains(operation)) {
            for rank in Rank::ALL {
                let latency_ns = histogram.quantile_ns(rank.quantile()).unwrap_or(0);
                self.wanted.push(Wanted { level, rank, operation: *operation, latency_ns, found: None });
            }
        }
    }

    /// A request without a parent is over.
    pub fn offer<'s>(
        &mut self,
        level: LevelIndex,
        slot: u32,
        active: &impl Fn(LevelIndex, u32) -> &'s Active,
    ) {
        let root = active(level, slot);
        let timed = &root.timed;
        let latency_ns = (timed.completed - timed.queued).max(0) as u64;
        let operation = timed.request.operation;
        for wanted in self.wanted.iter_mut().filter(|w| w.level == level && w.operation == operation) {
            let off = wanted.latency_ns.abs_diff(latency_ns);
            if wanted.found.as_ref().is_none_or(|(best, _)| off < *best) {
                wanted.found = Some((off, node(level, slot, active)));
            }
        }
        if self.timeline.len() < self.timeline_trees && timed.queued >= self.timeline_from {
            self.timeline.push(node(level, slot, active));
        }
    }

    /// What was found.
    pub fn finish(mut self) -> (Vec<SampledTree>, Vec<Node>) {
        let trees = self.wanted.into_iter().filter_map(|wanted| {
            let (_, root) = wanted.found?;
            Some(SampledTree { choice: Choice::Latency(wanted.rank, wanted.operation), root })
        });
        self.timeline.sort_by_key(|node| (node.request.queued_ns, node.level));
        (trees.collect(), self.timeline)
    }
}

fn node<'s>(level: LevelIndex, slot: u32, active: &impl Fn(LevelIndex, u32) -> &'s Active) -> Node {
    let this = active(level, slot);
    let children = this.children.iter().take(MOST_CHILDREN).map(|child| node(level.below(), *child, active));
    let mut children: Vec<Node> = children.collect();
    children.sort_by_key(|child| child.request.queued_ns);
    Node {
        level,
        request: this.timed.on_top(),
        origin: this.origin,
        shared_with: this.parents.saturating_sub(1),
        children,
    }
}
