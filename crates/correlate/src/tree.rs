//! What a correlation gives: how the requests of each level came from those above, and some of them as trees.

use std::collections::BTreeMap;

use nestor_model::LatencyHistogram;
use nestor_trace::Request;
use serde::{Deserialize, Serialize};

/// One trace point in the order from the application down to the medium.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Level {
    /// The layer at whose lower edge it lies, as written in the stack (`ext4`, `kvm`, `jfs`, `hdd:wd-7200`).
    pub layer: String,
    /// What was recorded there: `guest block`, `hypervisor`, `host block`, `medium`.
    pub kind: String,
    /// The machine.
    pub machine: String,
    /// Requests seen there.
    pub requests: u64,
}

/// Where a request came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// A request of the level above that was waiting for it.
    Parent,
    /// A flush or a barrier of the level above that made a cache be written out.
    FlushOfParent,
    /// Data that the level above wrote earlier and a cache kept until now.
    WriteBack,
    /// Nobody asked yet: it stands beside what is being read.
    ReadAhead,
    /// The journal of the file system between.
    Journal,
    /// Other metadata of the file system or image format between.
    Metadata,
    /// Nothing explains it.
    Unknown,
}

/// How the requests of one level were joined with those of the level above.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Join {
    /// Position of the upper level in [`Correlation::levels`].
    pub above: usize,
    /// Requests of the lower level by where they came from.
    pub origins: BTreeMap<Origin, u64>,
    /// Their bytes.
    pub origin_bytes: BTreeMap<Origin, u64>,
    /// Requests of the upper level that have no child although they need one; those answered from a cache on the way
    /// count in `absorbed`.
    pub unmatched_above: u64,
    /// Requests of the upper level answered without a request below: reads from a cache, writes into one.
    pub absorbed: u64,
    /// Requests of the upper level with more than one child.
    pub split: u64,
    /// Requests of the lower level with more than one parent.
    pub merged: u64,
    /// What this level adds to a request that waited for its children: the request's time above, less the part of it
    /// during which a child was under way.
    pub added: LatencyHistogram,
    /// Add this to a time of the lower level to have it on the upper level's clock, at the trace's middle.
    pub clock_offset_ns: i64,
    /// Drift of the lower clock against the upper, parts per billion.
    pub clock_drift_ppb: i64,
    /// How far the true offset can be from `clock_offset_ns`, by causality alone; 0 for one and the same clock.
    pub clock_bound_ns: u64,
}

/// A request and what it caused below.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Node {
    /// Position in [`Correlation::levels`].
    pub level: usize,
    /// The request, its times on the clock of the topmost level.
    pub request: Request,
    /// Why it exists.
    pub origin: Origin,
    /// How many other requests of the level above it serves as well.
    pub shared_with: u32,
    /// What it caused at the next level.
    pub children: Vec<Node>,
}

/// A request chosen to be shown.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SampledTree {
    /// Why it was chosen: `median read`, `p99 write`, …
    pub name: String,
    /// The request and its children.
    pub root: Node,
}

/// What a correlation gives.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Correlation {
    /// The trace points, topmost first.
    pub levels: Vec<Level>,
    /// One for each level but the first.
    pub joins: Vec<Join>,
    /// Some requests from top to bottom.
    pub trees: Vec<SampledTree>,
    /// What makes it less certain than it seems.
    pub remarks: Vec<String>,
}

impl Correlation {
    /// Share (0 to 1) of the requests at the top that could not be joined, or of those below that nothing explains,
    /// whichever is more; `None` without requests.
    pub fn unmatched_share(&self) -> Option<f64> {
        let share = |part: u64, whole: u64| (whole > 0).then(|| part as f64 / whole as f64);
        self.joins
            .iter()
            .enumerate()
            .flat_map(|(index, join)| {
                let above = self.levels.get(join.above).map_or(0, |level| level.requests);
                let below = self.levels.get(index + 1).map_or(0, |level| level.requests);
                let unknown = join.origins.get(&Origin::Unknown).copied().unwrap_or(0);
                [share(join.unmatched_above, above), share(unknown, below)]
            })
            .flatten()
            .max_by(f64::total_cmp)
    }
}
