//! One stack against another under the same workload.
//!
//! Numbers carry their caveats: a [`CellSummary`] has the marks, failures and violations of its runs, and a
//! [`Comparison`] both summaries and every reason to doubt the ratio.
//!
//! What is computed of throughputs is computed from [`Sample`]s alone ([`compare_samples`]), wherever they come from;
//! callers with whole records use [`compare`].

mod doubts;
mod drift;
mod lives;
mod samples;
mod told;

use std::collections::{BTreeMap, BTreeSet};

use nestor_statistics::summary::CONFIDENCE;
use nestor_statistics::{LatencyHistogram, LatencySummary, Mean, Ratio, coefficient_of_variation, rate_mean};
use nestor_workload::RateUnit;
use serde::{Deserialize, Serialize};

use crate::record::Mark;
use crate::store::StoredRun;
use crate::{WrittenStack, WrittenWorkload};

pub(crate) use doubts::environment_facts;
pub use doubts::{Doubt, Facts, different_facts};
pub use drift::Drift;
pub(crate) use lives::LivesOf;
pub use lives::{LifeSample, LivesCompared, LivesSummary, StateSeconds, median_life};
pub use samples::ratio_by_block;
pub use samples::{BlockPair, Sample, SamplesCompared, Violation, compare_samples};
pub(crate) use samples::{Counted, Rate, mean_of_values, pairs_by_block, violated};
pub use told::Told;

/// A run without numbers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The run's number in its store.
    pub run: i64,
    /// The block it belongs to.
    pub block: u32,
    /// The whole error message.
    pub reason: String,
}

/// A mark and how many runs of a cell earned one of its kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CountedMark {
    /// The first of its kind.
    pub mark: Mark,
    /// How many runs have one of this kind.
    pub runs: usize,
}

/// One stack under one workload: all its runs in a few numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CellSummary {
    /// The stack.
    pub stack: WrittenStack,
    /// The workload.
    pub workload: WrittenWorkload,
    /// Bytes per second, averaged as logarithms; `None` if no run has numbers.
    pub bytes_per_second: Option<Mean>,
    /// Operations per second, averaged as logarithms; `None` if no run has numbers.
    pub operations_per_second: Option<Mean>,
    /// Standard deviation over mean of the throughput; `None` below two runs.
    pub coefficient_of_variation: Option<f64>,
    /// The runs with numbers that count, in the order of their blocks.
    pub samples: Vec<Sample>,
    /// Latencies of these runs merged, by class of operation.
    pub latency: BTreeMap<String, LatencySummary>,
    /// Reasons to trust the numbers less, by kind.
    pub marks: Vec<CountedMark>,
    /// Runs without numbers. They are excluded from the means.
    pub failures: Vec<Failure>,
    /// Runs whose numbers contradict themselves. They are excluded from means, ratios and histograms.
    #[serde(default)]
    pub violations: Vec<Violation>,
}

/// A candidate against a baseline under one workload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// What is compared with.
    pub baseline: CellSummary,
    /// What is compared.
    pub candidate: CellSummary,
    /// Throughput of the candidate over that of the baseline; `None` if either has no numbers.
    pub ratio: Option<Ratio>,
    /// The same with a bootstrap interval of 95 %, where there are pairs enough.
    pub bootstrap: Option<Ratio>,
    /// Whether the ratio was taken within blocks.
    pub paired: bool,
    /// The first and last block that are compared, where a change point parts them from the others: then the means of
    /// both sides are of these blocks too.
    #[serde(default)]
    pub only_blocks: Option<(u32, u32)>,
    /// Whether all runs were part of a plan with random order.
    pub random_order: bool,
    /// Drift of the baseline.
    pub drift: Drift,
    /// Every reason to doubt the ratio, each to be printed beside it.
    pub doubts: Vec<Doubt>,
}

impl CellSummary {
    /// Puts samples together with what was said of their runs. Samples that violate an identity are listed and left out
    /// of the means; the caller that merges `latency` leaves their histograms out.
    pub fn of(
        stack: WrittenStack,
        workload: WrittenWorkload,
        samples: Vec<Sample>,
        latency: BTreeMap<String, LatencySummary>,
        marks: Vec<CountedMark>,
        failures: Vec<Failure>,
    ) -> Self {
        let (mut samples, violations) = samples::honest(samples);
        samples.sort_by_key(|s| (s.block, s.repeat, s.run));
        let mut summary = Self {
            stack,
            workload,
            bytes_per_second: None,
            operations_per_second: None,
            coefficient_of_variation: None,
            samples,
            latency,
            marks,
            failures,
            violations,
        };
        summary.average(None);
        summary
    }

    /// What its throughput is told in: operations, where no run moved data.
    pub fn rate_unit(&self) -> RateUnit {
        RateUnit::of_moved(self.samples.iter().map(|sample| sample.bytes_per_second).fold(0.0, f64::max))
    }

    /// Whether its runs have numbers and did no operations: instances lived without a load.
    pub fn is_without_operations(&self) -> bool {
        let none = |sample: &Sample| sample.bytes_per_second <= 0.0 && sample.operations_per_second <= 0.0;
        !self.samples.is_empty() && self.samples.iter().all(none)
    }

    /// The mean throughput in that unit; `None` if no run has numbers, or none did an operation.
    pub fn throughput(&self) -> Option<Mean> {
        if self.is_without_operations() {
            return None;
        }
        match self.rate_unit() {
            RateUnit::BytesPerSecond => self.bytes_per_second,
            RateUnit::OperationsPerSecond => self.operations_per_second,
        }
    }

    /// The throughput of each run that counts, in that unit.
    pub fn rates(&self) -> Vec<f64> {
        self.samples.iter().map(|sample| sample.rate(self.rate_unit())).collect()
    }

    /// The class of operations that took the application most time altogether, and its latencies: classes are different things, and this
    /// one stands for the cell. That of which there are most may take next to no time: writes to memory before each `fsync`.
    pub fn latency_of_longest(&self) -> Option<(&String, &LatencySummary)> {
        self.latency.iter().max_by(|(_, a), (_, b)| a.whole_ns().total_cmp(&b.whole_ns()))
    }

    /// The marks, the first of each [name](Mark::name).
    pub fn marks_by_name(&self) -> Vec<&Mark> {
        let mut first: Vec<&Mark> = Vec::new();
        for counted in &self.marks {
            if !first.iter().any(|mark| mark.name() == counted.mark.name()) {
                first.push(&counted.mark);
            }
        }
        first
    }

    /// The names of the marks, each once, with spaces between; empty without any.
    pub fn mark_names(&self) -> String {
        self.marks_by_name().into_iter().map(Mark::name).collect::<Vec<_>>().join(" ")
    }

    /// Runs that ended with numbers, whether they count or not.
    pub fn measured_runs(&self) -> usize {
        self.samples.len() + self.violations.len()
    }

    /// Sets the means, to those of some blocks where others must not be averaged with them.
    fn average(&mut self, only_blocks: Option<(u32, u32)>) {
        let within = |s: &&Sample| only_blocks.is_none_or(|(first, last)| (first..=last).contains(&s.block));
        let rates =
            |rate: fn(&Sample) -> f64| -> Vec<f64> { self.samples.iter().filter(within).map(rate).collect() };
        let (bytes, operations) = (rates(|s| s.bytes_per_second), rates(|s| s.operations_per_second));
        self.operations_per_second = rate_mean(&operations);
        self.bytes_per_second = rate_mean(&bytes);
        self.coefficient_of_variation = coefficient_of_variation(match self.rate_unit() {
            RateUnit::BytesPerSecond => &bytes,
            RateUnit::OperationsPerSecond => &operations,
        });
    }
}

impl Comparison {
    /// Of those whose two sides are told apart the one with the largest difference, whichever way.
    pub fn largest<'a>(all: impl Iterator<Item = &'a Self>) -> Option<&'a Self> {
        let size = |comparison: &Self| comparison.ratio.map_or(0.0, |ratio| ratio.value.ln().abs());
        let told_apart = all.filter(|c| c.ratio.is_some_and(|ratio| ratio.differs() == Some(true)));
        told_apart.max_by(|a, b| size(a).total_cmp(&size(b)))
    }

    /// The pairs of the blocks that both sides have, each with whether it is in [`ratio`](Self::ratio).
    pub fn block_pairs(&self) -> impl Iterator<Item = (BlockPair, bool)> {
        let is_compared =
            |block: u32| self.only_blocks.is_none_or(|(first, last)| (first..=last).contains(&block));
        let pairs = samples::block_pairs(&self.baseline.samples, &self.candidate.samples);
        pairs.into_iter().map(move |pair| {
            let is_in = self.ratio.is_some() && self.paired && is_compared(pair.block);
            (pair, is_in)
        })
    }

    /// A run of the candidate and one of the baseline in the same block, by number.
    pub fn runs_of_a_block(&self) -> Option<(i64, i64)> {
        self.candidate.samples.iter().find_map(|sample| {
            let baseline = self.baseline.samples.iter().find(|other| other.block == sample.block)?;
            Some((sample.run, baseline.run))
        })
    }

    /// The doubts except those that come of marks with these [names](Mark::name).
    pub fn doubts_except_of(&self, names: &[&str]) -> Vec<&str> {
        let is_of_one = |doubt: &Doubt| doubt.mark.as_ref().is_some_and(|mark| names.contains(&mark.name()));
        self.doubts.iter().filter(|doubt| !is_of_one(doubt)).map(|doubt| doubt.words.as_str()).collect()
    }

    /// Compares two summaries. `random_order`: all runs were part of a plan; `differences`: what else differs between
    /// the two sides, in sentences; `confidence`: of the ratio's interval, 0 to 1.
    pub fn between(
        mut baseline: CellSummary,
        mut candidate: CellSummary,
        random_order: bool,
        differences: Vec<String>,
        confidence: f64,
    ) -> Self {
        let compared = compare_samples(&baseline.samples, &candidate.samples, confidence);
        let mut doubts: Vec<Doubt> =
            doubts::left_out(&baseline, &candidate).into_iter().map(Into::into).collect();
        doubts.extend(doubts::doubtful_marks(&baseline, &candidate));
        doubts.extend(differences.into_iter().chain(compared.doubts).map(Doubt::from));
        if compared.only_blocks.is_some() {
            baseline.average(compared.only_blocks);
            candidate.average(compared.only_blocks.filter(|_| compared.paired));
        }
        Self {
            baseline,
            candidate,
            ratio: compared.ratio,
            bootstrap: compared.bootstrap,
            paired: compared.paired,
            only_blocks: compared.only_blocks,
            random_order,
            drift: compared.drift,
            doubts,
        }
    }
}

/// Puts the runs of one stack under one workload together. `None` without runs. Untraced repeats of traced cells are
/// left out: they only show what recording costs.
pub fn summarise(runs: &[&StoredRun]) -> Option<CellSummary> {
    let runs = &without_twins(runs);
    let first = &runs.first()?.record;
    let samples = runs.iter().filter_map(|r| Sample::of(r)).collect();
    let failures = runs.iter().filter_map(|r| {
        let reason = r.record.failure()?.message.clone();
        Some(Failure { run: r.number, block: r.record.block, reason })
    });
    Some(CellSummary::of(
        first.stack.clone(),
        first.workload.clone(),
        samples,
        merged_latency(runs),
        counted_marks(runs),
        failures.collect(),
    ))
}

/// Compares the runs of a candidate with those of its baseline. `None` if either has no runs at all.
pub fn compare(baseline_runs: &[&StoredRun], candidate_runs: &[&StoredRun]) -> Option<Comparison> {
    let (baseline_runs, candidate_runs) = (&without_twins(baseline_runs), &without_twins(candidate_runs));
    let baseline = summarise(baseline_runs)?;
    let candidate = summarise(candidate_runs)?;
    let random_order = baseline_runs.iter().chain(candidate_runs).all(|r| r.record.study_hash.is_some());
    let differences = doubts::differences(baseline_runs, candidate_runs);
    Some(Comparison::between(baseline, candidate, random_order, differences, CONFIDENCE))
}

fn without_twins<'a>(runs: &[&'a StoredRun]) -> Vec<&'a StoredRun> {
    runs.iter().copied().filter(|r| !r.record.untraced_twin).collect()
}

fn merged_latency(runs: &[&StoredRun]) -> BTreeMap<String, LatencySummary> {
    let mut merged: BTreeMap<String, LatencyHistogram> = BTreeMap::new();
    let honest = runs.iter().filter(|r| samples::violated(&r.record.marks).is_none());
    for (class, result) in honest.filter_map(|r| r.record.measured()).flat_map(|m| &m.load.operations) {
        merged.entry(class.0.clone()).or_default().merge(&result.latency);
    }
    merged.into_iter().filter_map(|(class, histogram)| Some((class, histogram.summary()?))).collect()
}

fn counted_marks(runs: &[&StoredRun]) -> Vec<CountedMark> {
    let mut counted: Vec<CountedMark> = Vec::new();
    for run in runs {
        let mut kinds = BTreeSet::new();
        for mark in &run.record.marks {
            if !kinds.insert(kind(mark)) {
                continue;
            }
            match counted.iter_mut().find(|c| kind(&c.mark) == kind(mark)) {
                Some(known) => known.runs += 1,
                None => counted.push(CountedMark { mark: mark.clone(), runs: 1 }),
            }
        }
    }
    counted
}

/// Marks of one kind are counted together: of one name, and about one machine or layer.
fn kind(mark: &Mark) -> (&'static str, String) {
    (mark.name(), mark.about())
}
