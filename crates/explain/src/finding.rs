//! The answer: mechanisms by name, each with its numbers and the requests that prove it.

use nestor_results::{WrittenStack, WrittenWorkload};
use nestor_text::units;
use serde::{Deserialize, Serialize};

use crate::account::Account;

/// What can make a stack slower or faster than another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MechanismName {
    /// Read-ahead of a host turns many reads of the guest into few.
    HostReadAhead,
    /// Reads are answered, or writes kept, by a cache of the host.
    HostCache,
    /// Neighbouring requests are not merged, or more of them are.
    Merging,
    /// Journal and metadata of the topmost file system.
    GuestAmplification,
    /// Journal and metadata of a file system below.
    HostAmplification,
    /// Each commit of the guest's journal makes the host's file system commit its own.
    JournalOfJournal,
    /// Whole blocks that lie across the borders of the blocks below.
    Misalignment,
    /// Writes of parts of blocks, for which the rest is read first.
    ReadModifyWrite,
    /// Flushes, and what a cache mode really does with them.
    Flushes,
    /// The way between data and log.
    SeeksToLog,
    /// Tables of the image format.
    ImageMetadata,
    /// Only few requests may be under way at once.
    SingleQueue,
    /// The hypervisor's processor sets the pace.
    CpuBound,
    /// An operation takes more, or fewer, instructions.
    PathLength,
    /// The image file lies in pieces.
    Fragmentation,
    /// Writes have to be durable at the server before the client goes on.
    SynchronousWrite,
    /// Calls for names and attributes.
    MetadataRpc,
    /// The link's rate or its delay sets the pace.
    LinkBound,
    /// More is read over the network than the application asks for.
    ReadaheadOverNfs,
    /// No difference that could be told from chance.
    Noise,
}

impl MechanismName {
    /// The name in tables, results and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::HostReadAhead => "host-read-ahead",
            Self::HostCache => "host-cache",
            Self::Merging => "merging",
            Self::GuestAmplification => "guest-amplification",
            Self::HostAmplification => "host-amplification",
            Self::JournalOfJournal => "journal-of-journal",
            Self::Misalignment => "misalignment",
            Self::ReadModifyWrite => "read-modify-write",
            Self::Flushes => "flushes",
            Self::SeeksToLog => "seeks-to-log",
            Self::ImageMetadata => "image-metadata",
            Self::SingleQueue => "single-queue",
            Self::CpuBound => "cpu-bound",
            Self::PathLength => "path-length",
            Self::Fragmentation => "fragmentation",
            Self::SynchronousWrite => "synchronous-write",
            Self::MetadataRpc => "metadata-rpc",
            Self::LinkBound => "link-bound",
            Self::ReadaheadOverNfs => "readahead-over-nfs",
            Self::Noise => "noise",
        }
    }
}

/// One number of a finding, beside the baseline's where there is one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Number {
    /// What is counted.
    pub what: String,
    /// The number here.
    pub here: f64,
    /// The same of the baseline.
    pub baseline: Option<f64>,
    /// Its unit: `per operation`, `us`, `MiB`; empty for a ratio.
    pub unit: String,
}

impl Number {
    /// The number here or of the baseline with three significant digits, and its unit, in which times are put so that they have few digits.
    pub fn shown(&self, value: f64) -> (String, String) {
        if let Some(rest) = self.unit.strip_prefix("us") {
            let time = units::duration_ns(value * 1e3);
            let (number, unit) = time.rsplit_once(' ').unwrap_or((&time, ""));
            return (number.to_owned(), format!("{unit}{rest}"));
        }
        let number = if value.abs() < 0.9995 { format!("{value:.3}") } else { units::digits(value) };
        (number, self.unit.clone())
    }
}

/// A request that proves a finding.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Proof {
    /// The run it is from.
    pub run: i64,
    /// Where it was seen: the layer and kind of its trace point.
    pub level: String,
    /// Its number there.
    pub request: u64,
    /// In words: operation, place, size, class, times.
    pub words: String,
}

/// One mechanism at work.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// Which.
    pub mechanism: MechanismName,
    /// The layer it happens in, as written in the stack.
    pub layer: String,
    /// What happened, in one sentence.
    pub words: String,
    /// Time that it adds to each operation of the application, in nanoseconds; negative where it saves time.
    pub effect_ns: f64,
    /// The same as a share of the whole difference (or, without a baseline, of the whole time), 0 to 1; beyond 1 where
    /// something else made up for it.
    pub share: f64,
    /// The numbers behind it.
    pub numbers: Vec<Number>,
    /// Requests that show it, from the sampled trees.
    pub proofs: Vec<Proof>,
    /// What to change.
    pub advice: Option<String>,
}

/// Why a cell is as fast as it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Explanation {
    /// The stack that is explained.
    pub stack: WrittenStack,
    /// The workload.
    pub workload: WrittenWorkload,
    /// Its runs.
    pub runs: Vec<i64>,
    /// The stack it is compared with.
    pub baseline: Option<WrittenStack>,
    /// Runs of the baseline.
    pub baseline_runs: Vec<i64>,
    /// Time of the wall clock for each operation of the application, nanoseconds.
    pub time_per_operation_ns: f64,
    /// The same of the baseline.
    pub baseline_time_per_operation_ns: Option<f64>,
    /// Throughput against the baseline, per cent, with its 95 % interval where there are runs enough.
    pub change_percent: Option<f64>,
    /// See [`Self::change_percent`].
    pub change_interval_percent: Option<[f64; 2]>,
    /// The mechanisms, the one with the largest effect first.
    pub findings: Vec<Finding>,
    /// Share of the difference (or of the time) that no finding explains.
    pub unexplained_share: f64,
    /// Where every nanosecond of the difference belongs.
    #[serde(default)]
    pub account: Account,
    /// Every reason to doubt it.
    pub doubts: Vec<String>,
}

impl Explanation {
    /// The mechanism with the largest effect.
    pub fn first(&self) -> Option<MechanismName> {
        self.findings.first().map(|finding| finding.mechanism)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits_and_times_the_unit_for_them() {
        let shown = |value: f64, unit: &str| {
            let number = Number { what: String::new(), here: value, baseline: None, unit: unit.to_owned() };
            let (number, unit) = number.shown(value);
            format!("{number} {unit}")
        };
        assert_eq!(shown(18_400.0, "us"), "18.4 ms");
        assert_eq!(shown(18_400.0, "us per operation"), "18.4 ms per operation");
        assert_eq!(shown(0.0, "us"), "0 ns");
        assert_eq!(shown(0.2, "per operation"), "0.200 per operation");
        assert_eq!(shown(3.2, "KiB"), "3.20 KiB");
        assert_eq!(shown(12_345.0, ""), "12 300 ");
    }
}
