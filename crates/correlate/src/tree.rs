//! What a correlation gives: how the requests of each level came from those above, and some of them as trees.

use std::collections::BTreeMap;
use std::fmt;

use nestor_stack::MachineName;
use nestor_statistics::LatencyHistogram;
use nestor_trace::{Operation, Request};
use serde::{Deserialize, Serialize};

use crate::choice::Choice;
use crate::kind::LevelKind;
use crate::passage::Passage;

/// The position of a level in [`Correlation::levels`], 0 at the top.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LevelIndex(usize);

impl LevelIndex {
    /// The topmost level.
    pub const TOP: Self = Self(0);

    /// The level below so many others.
    pub const fn at(position: usize) -> Self {
        Self(position)
    }

    /// The next level down.
    #[must_use]
    pub const fn below(self) -> Self {
        Self(self.0 + 1)
    }

    /// How many levels are above it.
    pub const fn position(self) -> usize {
        self.0
    }
}

impl fmt::Display for LevelIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// One trace point in the order from the application down to the medium.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Level {
    /// The layer at whose lower edge it lies, as written in the stack (`ext4`, `kvm`, `jfs`, `hdd:wd-7200`).
    pub layer: String,
    /// What was recorded there: `guest block`, `hypervisor`, `host block`, `medium`.
    pub kind: LevelKind,
    /// The machine.
    pub machine: MachineName,
    /// Requests seen there.
    pub requests: u64,
    /// Those of them that have the length of whole blocks and begin within one ([`Request::is_misaligned`]); 0 where they were not counted.
    #[serde(default)]
    pub misaligned: u64,
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
    /// Not requested yet: it is beside what is being read.
    ReadAhead,
    /// A read of whole blocks because a write of the level above covers them in part.
    ReadModifyWrite,
    /// The journal of the file system between.
    Journal,
    /// Other metadata of the file system or image format between.
    Metadata,
    /// Nothing explains it.
    Unknown,
}

impl Origin {
    /// As people read it.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Parent => "requested",
            Self::FlushOfParent => "flush",
            Self::WriteBack => "write-back",
            Self::ReadAhead => "read-ahead",
            Self::ReadModifyWrite => "read-modify-write",
            Self::Journal => "journal",
            Self::Metadata => "metadata",
            Self::Unknown => "unexplained",
        }
    }
}

/// Why a request could not be joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unmatched {
    /// A flush above during which the level below was not flushed.
    NotFlushed,
    /// A request above whose place the map to the level below does not know: a hole, or the image grew.
    NotMapped,
    /// A request above at whose place nothing was requested below while it was under way, nor, if it writes, later.
    NothingBelow,
    /// A flush below that no request above waited for.
    FlushUnasked,
    /// A request below at a place that is no part of the image.
    OutsideImage,
    /// A request below for which a request above asked that was over before.
    AskedEarlier,
    /// A request below for whose place no request above asked.
    Unasked,
}

impl Unmatched {
    /// Whether it is the request above that has no partner.
    pub fn is_above(self) -> bool {
        matches!(self, Self::NotFlushed | Self::NotMapped | Self::NothingBelow)
    }

    /// The cause in words, after the number of requests.
    pub fn words(self) -> &'static str {
        match self {
            Self::NotFlushed => "are flushes during which nothing below was flushed",
            Self::NotMapped => "are at places that the map of the image does not know",
            Self::NothingBelow => "have nothing below at their place",
            Self::FlushUnasked => "are flushes that no request above waited for",
            Self::OutsideImage => "are at places outside the image",
            Self::AskedEarlier => "were asked for above by requests that were over before them",
            Self::Unasked => "are at places that nothing above asked for",
        }
    }
}

/// How long the requests of one level took, whatever caused them. Flushes are not among them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LevelTimes {
    /// Queued to issued: this level's own queue.
    pub queue: LatencyHistogram,
    /// Issued to completed: everything below.
    pub service: LatencyHistogram,
}

/// How the requests of one level were joined with those of the level above.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Join {
    /// The upper level.
    pub above: LevelIndex,
    /// Requests of the lower level by where they came from.
    pub origins: BTreeMap<Origin, u64>,
    /// Their bytes.
    pub origin_bytes: BTreeMap<Origin, u64>,
    /// Requests of the upper level that have no child although they need one; those answered from a cache on the way
    /// count in `absorbed`.
    pub unmatched_above: u64,
    /// Requests of the upper level answered without a request below: reads from a cache, writes into one.
    pub absorbed: u64,
    /// Those of `absorbed` whose data was written below later: joined by place and order, because nothing waited.
    #[serde(default)]
    pub by_content: u64,
    /// Why requests are in `unmatched_above`, and why those below are [`Origin::Unknown`].
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub unmatched: BTreeMap<Unmatched, u64>,
    /// Requests of the upper level that could not be joined because the lower one was not being recorded then; they
    /// are not in `unmatched_above`.
    #[serde(default)]
    pub outside_above: u64,
    /// Requests of the lower level that nothing explains because the upper one was not being recorded then; they are
    /// not in `origins`.
    #[serde(default)]
    pub outside_below: u64,
    /// Requests of the upper level with more than one child.
    pub split: u64,
    /// Requests of the lower level with more than one parent.
    pub merged: u64,
    /// What this level adds to a request that waited for its children: the request's time above, less the part of it
    /// during which a child was under way.
    pub added: LatencyHistogram,
    /// [`Self::added`] by what the request above asked for.
    #[serde(default)]
    pub added_by: BTreeMap<Operation, LatencyHistogram>,
    /// Requests of the lower level that carry bytes a request above had been served with before: retries.
    #[serde(default)]
    pub repeated: u64,
    /// Add this to a time of the lower level to have it on the upper level's clock, at the trace's middle.
    pub clock_offset_ns: i64,
    /// Drift of the lower clock against the upper, parts per billion.
    pub clock_drift_ppb: i64,
    /// How far the true offset can be from `clock_offset_ns`, by causality alone; 0 for one and the same clock.
    /// `u64::MAX` where no pair of requests bounds it.
    pub clock_bound_ns: u64,
    /// Pairs of requests that the bound rests on; 0 for one and the same clock, and where [`Self::clocks_were_read`].
    #[serde(default)]
    pub clock_pairs: u64,
    /// Whether both clocks were read beside one that they share, so that the bound is what reading took.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub clocks_were_read: bool,
    /// How often one of the two clocks jumped against the other; offset and drift are those after the last jump
    /// before the trace's middle.
    #[serde(default)]
    pub clock_jumps: u32,
}

/// Requests of a level that could not be joined for one reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct UnmatchedRequests {
    /// The level that they are of.
    pub level: LevelIndex,
    /// The level in which nothing belongs to them.
    pub other: LevelIndex,
    /// Why.
    pub why: Unmatched,
    /// How many.
    pub requests: u64,
    /// Requests of the level.
    pub of: u64,
}

impl UnmatchedRequests {
    /// As a share of the level's requests, 0 to 1.
    pub fn share(&self) -> f64 {
        self.requests as f64 / self.of.max(1) as f64
    }
}

/// A request and what it caused below.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Node {
    /// Its level.
    pub level: LevelIndex,
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
    /// Why it was chosen.
    #[serde(rename = "name")]
    pub choice: Choice,
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
    /// Where the time of the lowest level went, by what asked for it; filled by a [`crate::BlameBuilder`].
    #[serde(default)]
    pub blame: crate::Blame,
    /// How long the requests of each level took, one for each level.
    #[serde(default)]
    pub times: Vec<LevelTimes>,
    /// At which levels the time of the topmost level's requests was.
    #[serde(default, skip_serializing_if = "Passage::is_empty")]
    pub passage: Passage,
    /// The same of the application's own operations, where they were recorded.
    #[serde(default, skip_serializing_if = "Passage::is_empty")]
    pub application_passage: Passage,
    /// Some requests from top to bottom: the median, the p99 and the longest of each operation, at the topmost level that has it.
    pub trees: Vec<SampledTree>,
    /// What went on around the trace's middle, in the order of its beginning: requests of the topmost level and
    /// those of lower levels that have no parent, each with its children.
    #[serde(default)]
    pub timeline: Vec<Node>,
    /// Requests that were in memory at once at most, of all levels: those under way and those that were put into
    /// order.
    #[serde(default)]
    pub most_held: u64,
    /// How far the joins agree with the truth, where the data carried marks ([`crate::stamps`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agreement: Option<crate::agreement::Agreement>,
    /// What makes it less certain than it seems.
    pub remarks: Vec<String>,
}

impl Correlation {
    /// A level; `None` if there is no such level, which a file may name.
    pub fn level(&self, index: LevelIndex) -> Option<&Level> {
        self.levels.get(index.position())
    }

    /// Each join with the lower of its two levels.
    pub fn joins_by_level(&self) -> impl Iterator<Item = (LevelIndex, &Join)> {
        self.joins.iter().enumerate().map(|(index, join)| (LevelIndex::at(index).below(), join))
    }

    fn requests_of(&self, level: LevelIndex) -> u64 {
        self.level(level).map_or(0, |level| level.requests)
    }

    /// The requests that could not be joined, by their reason, the largest share of a level first.
    pub fn unmatched(&self) -> Vec<UnmatchedRequests> {
        let all = self.joins_by_level().flat_map(|(below, join)| {
            join.unmatched.iter().map(move |(why, requests)| {
                let (level, other) = if why.is_above() { (join.above, below) } else { (below, join.above) };
                let of = self.requests_of(level);
                UnmatchedRequests { level, other, why: *why, requests: *requests, of }
            })
        });
        let mut all: Vec<UnmatchedRequests> = all.collect();
        all.sort_by(|a, b| b.share().total_cmp(&a.share()).then(a.level.cmp(&b.level)));
        all
    }

    /// Share (0 to 1) of the requests at the top that could not be joined, or of those below that nothing explains,
    /// whichever is more; `None` without requests.
    pub fn unmatched_share(&self) -> Option<f64> {
        let share = |part: u64, whole: u64| (whole > 0).then(|| part as f64 / whole as f64);
        self.joins_by_level()
            .flat_map(|(below, join)| {
                let above = self.requests_of(join.above);
                let below = self.requests_of(below);
                let unknown = join.origins.get(&Origin::Unknown).copied().unwrap_or(0);
                [share(join.unmatched_above, above), share(unknown, below)]
            })
            .flatten()
            .max_by(f64::total_cmp)
    }
}
