//! One stack against another under the same workload.
//!
//! Numbers and what makes them less than they seem travel together: a [`CellSummary`] carries the marks and the
//! failures of its runs, and a [`Comparison`] both summaries and every reason to doubt the ratio.

use std::collections::{BTreeMap, BTreeSet};

use nestor_model::{
    LatencyHistogram, LatencySummary, Mean, Ratio, coefficient_of_variation, geometric_mean, mean,
    paired_bootstrap, paired_ratio, unpaired_ratio,
};
use serde::{Deserialize, Serialize};

use crate::record::{CellRecord, Mark};
use crate::store::StoredRun;

/// Resamples of the bootstrap: with 2000 the ends of a 95 % interval rest on 50 values each.
const RESAMPLES: usize = 2_000;
/// Drift below this share is not worth a remark (the practical threshold of the acceptance rules).
const DRIFT_WORTH_SAYING: f64 = 0.05;

/// One measurement in the numbers that comparisons use.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// The run's number in its store.
    pub run: i64,
    /// The block it belongs to.
    pub block: u32,
    /// 0, or 1 for the closing run of a baseline.
    pub repeat: u32,
    /// Throughput.
    pub bytes_per_second: f64,
    /// The same in operations.
    pub operations_per_second: f64,
}

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
    pub stack: String,
    /// The workload.
    pub workload: String,
    /// Bytes per second; `None` if no run has numbers.
    pub bytes_per_second: Option<Mean>,
    /// Operations per second; `None` if no run has numbers.
    pub operations_per_second: Option<Mean>,
    /// Standard deviation over mean of the throughput; `None` below two runs.
    pub coefficient_of_variation: Option<f64>,
    /// The runs with numbers, in the order of their blocks.
    pub samples: Vec<Sample>,
    /// Latencies of all runs merged, by class of operation.
    pub latency: BTreeMap<String, LatencySummary>,
    /// What makes the numbers less than they seem, by kind.
    pub marks: Vec<CountedMark>,
    /// Runs without numbers. They are in no mean.
    pub failures: Vec<Failure>,
}

/// Whether something changed while the study ran.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "drift")]
pub enum Drift {
    /// The baseline ran only once per block: it cannot be told.
    NotTested,
    /// The baseline at the end of the blocks was as fast as at their start.
    None {
        /// End over start.
        ratio: Ratio,
    },
    /// It was not.
    Seen {
        /// End over start.
        ratio: Ratio,
    },
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
    /// The same with a bootstrap interval, where there are pairs enough.
    pub bootstrap: Option<Ratio>,
    /// Whether the ratio was taken within blocks.
    pub paired: bool,
    /// Whether all runs were part of a plan with random order.
    pub random_order: bool,
    /// Drift of the baseline.
    pub drift: Drift,
    /// Every reason to doubt the ratio, each to be printed beside it.
    pub doubts: Vec<String>,
}

/// Puts the runs of one stack under one workload together. `None` without runs. Untraced repeats of traced cells are
/// left out: they only show what recording costs.
pub fn summarise(runs: &[&StoredRun]) -> Option<CellSummary> {
    let runs = &without_twins(runs);
    let first = &runs.first()?.record;
    let mut samples: Vec<Sample> = runs.iter().filter_map(|r| sample(r)).collect();
    samples.sort_by_key(|s| (s.block, s.repeat, s.run));
    let throughput: Vec<f64> = samples.iter().map(|s| s.bytes_per_second).collect();
    let operations: Vec<f64> = samples.iter().map(|s| s.operations_per_second).collect();
    let failures = runs.iter().filter_map(|r| {
        let reason = r.record.failure()?.to_owned();
        Some(Failure { run: r.number, block: r.record.block, reason })
    });
    Some(CellSummary {
        stack: first.stack.clone(),
        workload: first.workload.clone(),
        bytes_per_second: mean(&throughput),
        operations_per_second: mean(&operations),
        coefficient_of_variation: coefficient_of_variation(&throughput),
        latency: merged_latency(runs),
        marks: counted_marks(runs),
        failures: failures.collect(),
        samples,
    })
}

/// Compares the runs of a candidate with those of its baseline. `None` if either has no runs at all.
///
/// Where both have runs in the same blocks the ratio is taken block by block; a block's baseline is the geometric mean
/// of its runs there. Otherwise the ratio is that of the two groups, and the comparison says so.
pub fn compare(baseline_runs: &[&StoredRun], candidate_runs: &[&StoredRun]) -> Option<Comparison> {
    let (baseline_runs, candidate_runs) = (&without_twins(baseline_runs), &without_twins(candidate_runs));
    let baseline = summarise(baseline_runs)?;
    let candidate = summarise(candidate_runs)?;
    let pairs = pairs_by_block(&baseline.samples, &candidate.samples);
    let values = |c: &CellSummary| c.samples.iter().map(|s| s.bytes_per_second).collect::<Vec<_>>();
    let paired = !pairs.is_empty();
    let ratio =
        if paired { paired_ratio(&pairs) } else { unpaired_ratio(&values(&baseline), &values(&candidate)) };
    let all = || baseline_runs.iter().chain(candidate_runs);
    let drift = drift(&baseline.samples);
    let mut doubts = doubtful_marks(&baseline, &candidate);
    doubts.extend(differences(baseline_runs, candidate_runs));
    if let Drift::Seen { ratio } = &drift {
        let change = ratio.change_percent();
        doubts
            .push(format!("the baseline drifted by {change:+.1} % from the start to the end of the blocks"));
    }
    if !paired && ratio.is_some() {
        doubts.push("baseline and candidate have no block in common, so nothing was paired".to_owned());
    }
    Some(Comparison {
        bootstrap: paired_bootstrap(&pairs, RESAMPLES, 1),
        ratio,
        paired,
        random_order: all().all(|r| r.record.study_hash.is_some()),
        drift,
        doubts,
        baseline,
        candidate,
    })
}

fn without_twins<'a>(runs: &[&'a StoredRun]) -> Vec<&'a StoredRun> {
    runs.iter().copied().filter(|r| !r.record.untraced_twin).collect()
}

fn sample(run: &StoredRun) -> Option<Sample> {
    let load = &run.record.measured()?.load;
    Some(Sample {
        run: run.number,
        block: run.record.block,
        repeat: run.record.repeat,
        bytes_per_second: load.bytes_per_second(),
        operations_per_second: load.operations_per_second(),
    })
}

fn merged_latency(runs: &[&StoredRun]) -> BTreeMap<String, LatencySummary> {
    let mut merged: BTreeMap<String, LatencyHistogram> = BTreeMap::new();
    for (class, result) in runs.iter().filter_map(|r| r.record.measured()).flat_map(|m| &m.load.operations) {
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
fn kind(mark: &Mark) -> (&'static str, Option<&str>) {
    let about = match mark {
        Mark::CpuBound { machine, .. } => Some(machine.as_str()),
        Mark::EventsDropped { layer, .. } => Some(layer.as_str()),
        _ => None,
    };
    (mark.name(), about)
}

/// Per block that both have: the baseline's and the candidate's throughput there.
fn pairs_by_block(baseline: &[Sample], candidate: &[Sample]) -> Vec<(f64, f64)> {
    let blocks: BTreeSet<u32> = baseline.iter().map(|s| s.block).collect();
    let in_block = |samples: &[Sample], block: u32| {
        let values: Vec<f64> =
            samples.iter().filter(|s| s.block == block).map(|s| s.bytes_per_second).collect();
        geometric_mean(&values)
    };
    blocks.into_iter().filter_map(|b| Some((in_block(baseline, b)?, in_block(candidate, b)?))).collect()
}

fn drift(baseline: &[Sample]) -> Drift {
    let last = |block: u32| baseline.iter().find(|s| s.block == block && s.repeat > 0);
    let firsts = baseline.iter().filter(|s| s.repeat == 0);
    let pairs: Vec<(f64, f64)> =
        firsts.filter_map(|f| Some((f.bytes_per_second, last(f.block)?.bytes_per_second))).collect();
    let Some(ratio) = paired_ratio(&pairs) else { return Drift::NotTested };
    // Two ends of one block always differ a little; below three blocks only a large difference is worth saying.
    let large = (ratio.value - 1.0).abs() > DRIFT_WORTH_SAYING;
    let seen = if pairs.len() >= 3 { large && ratio.differs() == Some(true) } else { large };
    if seen { Drift::Seen { ratio } } else { Drift::None { ratio } }
}

fn doubtful_marks(baseline: &CellSummary, candidate: &CellSummary) -> Vec<String> {
    let of = |cell: &CellSummary, side: &str| {
        let marks = cell.marks.iter().filter(|m| m.mark.spoils_comparison());
        let runs = cell.samples.len() + cell.failures.len();
        marks
            .map(|m| format!("{side}: {} in {} of {runs}: {}", m.mark.name(), m.runs, m.mark.detail()))
            .collect::<Vec<_>>()
    };
    [of(baseline, "baseline"), of(candidate, "candidate")].concat()
}

/// What else differs between the two sides besides the stack.
fn differences(baseline: &[&StoredRun], candidate: &[&StoredRun]) -> Vec<String> {
    let facts = |runs: &[&StoredRun]| {
        let mut facts: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (name, value) in
            runs.iter().filter(|r| r.record.measured().is_some()).flat_map(|r| environment_facts(&r.record))
        {
            facts.entry(name).or_default().insert(value);
        }
        facts
    };
    let (baseline, candidate) = (facts(baseline), facts(candidate));
    let list =
        |values: &BTreeSet<String>| values.iter().map(String::as_str).collect::<Vec<_>>().join(" and ");
    baseline
        .iter()
        .filter_map(|(name, values)| Some((name, values, candidate.get(name)?)))
        .filter(|(_, ours, theirs)| ours != theirs || ours.len() > 1)
        .map(|(name, ours, theirs)| {
            format!("{name} differs: baseline {}, candidate {}", list(ours), list(theirs))
        })
        .collect()
}

/// What has to be equal in two runs that are compared.
fn environment_facts(record: &CellRecord) -> Vec<(String, String)> {
    let environment = &record.environment;
    let mut facts = vec![("ground".to_owned(), environment.ground.clone())];
    facts.extend(
        environment.packages.iter().map(|(name, version)| (format!("version of {name}"), version.clone())),
    );
    if let Some(host) = environment.machines.first() {
        facts.push(("host kernel".to_owned(), host.kernel.clone()));
        facts.push(("host CPU".to_owned(), host.cpu_model.clone()));
    }
    if let Some(measured) = record.measured() {
        facts.push(("size of the data set".to_owned(), format!("{} bytes", measured.load.working_set_bytes)));
    }
    facts
}
