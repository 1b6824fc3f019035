//! Arrows from requests to what they caused, each with a number of its own: arrows that share one would be drawn as a
//! chain instead of a fan.

use nestor_correlate::LevelIndex;

use crate::error::ExportError;
use crate::trace::{Bounds, Trace};

/// The arrows between a level and the one below.
#[derive(Debug, Default)]
pub(super) struct Flows {
    /// Parent and child, sorted.
    edges: Vec<(u64, u64)>,
    /// Whether the parent is in the file.
    begun: Vec<bool>,
    first_id: u64,
}

impl Flows {
    /// The arrows into the requests of `level` that lie within the bounds.
    pub(super) fn into_level(
        trace: &Trace,
        level: LevelIndex,
        bounds: Bounds,
        first_id: u64,
    ) -> Result<Self, ExportError> {
        let mut edges = Vec::new();
        if level.position() < trace.levels.len() && trace.links.has_any(level) {
            for request in trace.requests(level, bounds)? {
                let child = request?.id;
                edges.extend(trace.links.parents(level, child).iter().map(|parent| (*parent, child)));
            }
        }
        edges.sort_unstable();
        edges.dedup();
        Ok(Self { begun: vec![false; edges.len()], edges, first_id })
    }

    /// The first number that the next arrows may have.
    pub(super) fn next_id(&self) -> u64 {
        self.first_id + self.edges.len() as u64
    }

    /// Numbers of the arrows that begin at a request of the level above.
    pub(super) fn begin(&mut self, parent: u64) -> std::ops::Range<u64> {
        let from = self.edges.partition_point(|(p, _)| *p < parent);
        let to = from + self.edges[from..].partition_point(|(p, _)| *p == parent);
        self.begun[from..to].fill(true);
        self.first_id + from as u64..self.first_id + to as u64
    }

    /// The number of the arrow from `parent` to `child`, if the parent is in the file.
    pub(super) fn end(&self, parent: u64, child: u64) -> Option<u64> {
        let at = self.edges.binary_search(&(parent, child)).ok()?;
        self.begun[at].then(|| self.first_id + at as u64)
    }
}
