//! The ratio of two cells, from their throughputs alone.

use std::collections::BTreeSet;

use nestor_statistics::{Ratio, geometric_mean, mean, paired_bootstrap, paired_ratio_at, unpaired_ratio_at};
use nestor_workload::RateUnit;
use serde::{Deserialize, Serialize};

use super::drift::{self, Change, Drift};
use crate::record::Mark;
use crate::store::StoredRun;

/// Resamples of the bootstrap: with 2000 the ends of a 95 % interval rest on 50 values each.
const RESAMPLES: usize = 2_000;

/// One measurement in the numbers that comparisons use.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// The run's number in its store.
    pub run: i64,
    /// The block it belongs to.
    pub block: u32,
    /// 0, or 1 for the closing run of a baseline.
    pub repeat: u32,
    /// Position in the order in which the study's runs were made, from 0.
    #[serde(default)]
    pub position: u32,
    /// Throughput.
    pub bytes_per_second: f64,
    /// The same in operations.
    pub operations_per_second: f64,
    /// The conservation identity that the run violates, in a sentence; the run is then excluded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub violated: Option<String>,
    /// It was made in virtual time, where a run does not depend on the runs before it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub in_virtual_time: bool,
}

/// A run whose numbers contradict themselves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Violation {
    /// The run's number in its store.
    pub run: i64,
    /// The block it belongs to.
    pub block: u32,
    /// The identity that it violates, with the numbers, in a sentence.
    pub identity: String,
}

/// A comparison of two cells by their samples.
#[derive(Clone, Debug, PartialEq)]
pub struct SamplesCompared {
    /// Throughput of the candidate over that of the baseline; `None` if either has no numbers.
    pub ratio: Option<Ratio>,
    /// The same with a bootstrap interval, where there are pairs enough.
    pub bootstrap: Option<Ratio>,
    /// Whether the ratio was taken within blocks.
    pub paired: bool,
    /// The first and last block compared, where a change point parts them from the others.
    pub only_blocks: Option<(u32, u32)>,
    /// Drift of the baseline.
    pub drift: Drift,
    /// Reasons to doubt the ratio that the samples themselves give.
    pub doubts: Vec<String>,
}

impl Sample {
    /// Its throughput in this unit.
    pub fn rate(&self, unit: RateUnit) -> f64 {
        match unit {
            RateUnit::BytesPerSecond => self.bytes_per_second,
            RateUnit::OperationsPerSecond => self.operations_per_second,
        }
    }

    /// The numbers of a run; `None` if it failed.
    pub fn of(run: &StoredRun) -> Option<Self> {
        let load = &run.record.measured()?.load;
        Some(Self {
            run: run.number,
            block: run.record.block,
            repeat: run.record.repeat,
            position: run.record.position,
            bytes_per_second: load.bytes_per_second(),
            operations_per_second: load.operations_per_second(),
            violated: violated(&run.record.marks),
            in_virtual_time: run.record.environment.is_in_virtual_time(),
        })
    }
}

/// The identities that a run violates, in one sentence; `None` if it violates none.
pub(crate) fn violated(marks: &[Mark]) -> Option<String> {
    let reasons: Vec<&str> = marks
        .iter()
        .filter_map(|mark| match mark {
            Mark::Inconsistent { reason } => Some(reason.as_str()),
            _ => None,
        })
        .collect();
    (!reasons.is_empty()).then(|| reasons.join("; "))
}

/// Separates the samples that count from those that violate an identity.
pub(super) fn honest(samples: Vec<Sample>) -> (Vec<Sample>, Vec<Violation>) {
    let (violating, honest): (Vec<_>, Vec<_>) = samples.into_iter().partition(|s| s.violated.is_some());
    let violation =
        |s: Sample| Violation { run: s.run, block: s.block, identity: s.violated.unwrap_or_default() };
    (honest, violating.into_iter().map(violation).collect())
}

/// Compares a candidate's samples with its baseline's; those that violate an identity are excluded.
///
/// Where both have samples in the same blocks the ratio is taken block by block; a block's baseline is the geometric mean
/// of its runs there. Otherwise the ratio is that of the two groups, and a doubt says so. Nothing is averaged across a
/// change point of the baseline: the longest stretch of blocks between such points is compared. `confidence`: of the interval, 0 to 1.
pub fn compare_samples(baseline: &[Sample], candidate: &[Sample], confidence: f64) -> SamplesCompared {
    let (baseline, candidate) = (Counted::of(baseline), Counted::of(candidate));
    let rate: Rate = match unit_of(&baseline, &candidate) {
        RateUnit::BytesPerSecond => |s| s.bytes_per_second,
        RateUnit::OperationsPerSecond => |s| s.operations_per_second,
    };
    let stability = drift::of(&baseline.0, &candidate.0, rate);
    let only = stability.only_blocks;
    let within = |block: u32| only.is_none_or(|(first, last)| (first..=last).contains(&block));
    let pairs = pairs_by_block(&baseline, &candidate, rate, &within);
    let paired = !pairs.is_empty();
    let ratio = if paired {
        paired_ratio_at(&pairs, confidence)
    } else {
        let before: Vec<f64> = baseline.0.iter().filter(|s| within(s.block)).map(|s| rate(s)).collect();
        let after: Vec<f64> = candidate.0.iter().map(|s| rate(s)).collect();
        unpaired_ratio_at(&before, &after, confidence)
    };
    let mut doubts = stability.doubts;
    if !paired && ratio.is_some() {
        doubts
            .push("baseline and candidate have no block in common, so their runs were not paired".to_owned());
    }
    let bootstrap = paired_bootstrap(&pairs, RESAMPLES, 1);
    SamplesCompared { ratio, bootstrap, paired, only_blocks: only, drift: stability.drift, doubts }
}

/// A workload that moves no data is compared by its operations, and so is its other side.
fn unit_of(baseline: &Counted<'_>, candidate: &Counted<'_>) -> RateUnit {
    let moves_data = |side: &Counted<'_>| side.0.iter().all(|s| s.bytes_per_second > 0.0);
    match moves_data(baseline) && moves_data(candidate) {
        true => RateUnit::BytesPerSecond,
        false => RateUnit::OperationsPerSecond,
    }
}

/// What [`compare_samples`] pairs in one block.
#[derive(Clone, Debug, PartialEq)]
pub struct BlockPair {
    /// The block.
    pub block: u32,
    /// The baseline's runs in it, by their numbers in the store: two where it runs at both ends of a block.
    pub baseline_runs: Vec<i64>,
    /// The candidate's.
    pub candidate_runs: Vec<i64>,
    /// The baseline's throughput, of several runs their geometric mean.
    pub baseline: f64,
    /// The candidate's.
    pub candidate: f64,
    /// What both are in.
    pub unit: RateUnit,
}

/// The pairs of all blocks that both sides have, in their order; those that a change point parts from the others, too.
pub(crate) fn block_pairs(baseline: &[Sample], candidate: &[Sample]) -> Vec<BlockPair> {
    let (baseline, candidate) = (Counted::of(baseline), Counted::of(candidate));
    let unit = unit_of(&baseline, &candidate);
    let in_block = |side: &Counted<'_>, block: u32| -> (Vec<i64>, Vec<f64>) {
        side.0.iter().filter(|s| s.block == block).map(|s| (s.run, s.rate(unit))).unzip()
    };
    let blocks: BTreeSet<u32> = baseline.0.iter().map(|s| s.block).collect();
    let pair = |block| {
        let (baseline_runs, before) = in_block(&baseline, block);
        let (candidate_runs, after) = in_block(&candidate, block);
        let (baseline, candidate) = (geometric_mean(&before)?, geometric_mean(&after)?);
        Some(BlockPair { block, baseline_runs, candidate_runs, baseline, candidate, unit })
    };
    blocks.into_iter().filter_map(pair).collect()
}

/// What is compared of a sample.
pub(crate) type Rate = fn(&Sample) -> f64;

/// The samples of one side that count, in the order in which they were made.
pub(crate) struct Counted<'a>(pub(super) Vec<&'a Sample>);

impl<'a> Counted<'a> {
    pub(crate) fn of(samples: &'a [Sample]) -> Self {
        let mut counted: Vec<&Sample> = samples.iter().filter(|s| s.violated.is_none()).collect();
        counted.sort_by_key(|s| (s.block, s.repeat, s.run));
        Self(counted)
    }

    /// Where these, as the baseline, changed; only the blocks that it keeps may be averaged.
    pub(crate) fn change(&self, candidate: &Self, rate: Rate) -> Option<Change> {
        drift::first_change(&self.0, &candidate.0, rate)
    }
}

/// The ratio of numbers that are known with their blocks: within blocks where both sides have some in common, else of the two groups.
/// `None` if one of them is not above zero.
pub fn ratio_by_block(baseline: &[(u32, f64)], candidate: &[(u32, f64)], confidence: f64) -> Option<Ratio> {
    let all = |side: &[(u32, f64)]| side.iter().map(|(_, value)| *value).collect::<Vec<f64>>();
    let unpaired = unpaired_ratio_at(&all(baseline), &all(candidate), confidence)?;
    let pairs = pairs_of_values(baseline, candidate);
    if pairs.is_empty() { Some(unpaired) } else { paired_ratio_at(&pairs, confidence) }
}

/// Per block that both have: the baseline's and the candidate's throughput there.
pub(crate) fn pairs_by_block(
    baseline: &Counted<'_>,
    candidate: &Counted<'_>,
    rate: Rate,
    within: &dyn Fn(u32) -> bool,
) -> Vec<(f64, f64)> {
    let values = |side: &Counted<'_>| -> Vec<(u32, f64)> {
        side.0.iter().filter(|s| within(s.block)).map(|s| (s.block, rate(s))).collect()
    };
    pairs_of_values(&values(baseline), &values(candidate))
}

/// The same of numbers that are known with their blocks; several of a block are one, by their geometric mean.
fn pairs_of_values(baseline: &[(u32, f64)], candidate: &[(u32, f64)]) -> Vec<(f64, f64)> {
    let in_block = |side: &[(u32, f64)], block: u32| {
        geometric_mean(&side.iter().filter(|(b, _)| *b == block).map(|(_, value)| *value).collect::<Vec<_>>())
    };
    let blocks: BTreeSet<u32> = baseline.iter().map(|(block, _)| *block).collect();
    let pair = |block| Some((in_block(baseline, block)?, in_block(candidate, block)?));
    blocks.into_iter().filter_map(pair).collect()
}

/// The arithmetic mean of numbers that are known with their blocks.
pub(crate) fn mean_of_values(values: &[(u32, f64)]) -> Option<f64> {
    mean(&values.iter().map(|(_, value)| *value).collect::<Vec<_>>()).map(|mean| mean.value)
}
