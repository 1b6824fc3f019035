//! How long instances are in each state, and one stack against another by it.

use nestor_statistics::summary::CONFIDENCE;
use nestor_statistics::{Mean, Ratio, mean, mean_at};
use serde::{Deserialize, Serialize};

use super::ratio_by_block;
use crate::WrittenStack;
use crate::life::{InstanceLife, LifeState};
use crate::record::Measured;
use crate::store::StoredRun;

/// What the instances of one run took, in seconds: of several, which share their machines, the mean.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LifeSample {
    /// How many there were.
    pub instances: usize,
    /// Each state by itself, in the order of the states; only those that instances went through.
    pub states: Vec<(LifeState, f64)>,
    /// From the request to the end of the last state.
    pub whole_s: f64,
}

/// The lives of one stack's instances over its runs. One run is one sample.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LivesSummary {
    /// The stack.
    pub stack: WrittenStack,
    /// Most instances that a run had.
    pub instances: usize,
    /// How long each state took, in seconds, in the order of the states; only states that instances went through.
    pub states: Vec<StateSeconds>,
    /// From the request to the end of the last state, in seconds.
    pub whole_s: Mean,
}

/// How long one state took.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct StateSeconds {
    /// Which.
    pub state: LifeState,
    /// In seconds, with its interval over the runs that have it.
    pub seconds: Mean,
}

/// The lives on a candidate beside those on its baseline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LivesCompared {
    /// What is compared with.
    pub baseline: LivesSummary,
    /// What is compared.
    pub candidate: LivesSummary,
    /// Whole life on the candidate over that on the baseline, within blocks where they have some in common: above 1 it is longer. `None`
    /// if one took no time.
    pub ratio: Option<Ratio>,
    /// Whether the ratio was taken within blocks.
    pub paired: bool,
    /// Whether no load ran within the lives of either, so that there is no throughput to compare.
    pub are_all: bool,
}

/// The samples of a stack's runs that count, each with its block.
pub(crate) struct LivesOf<'a> {
    /// The stack.
    pub stack: &'a WrittenStack,
    /// In the order of the blocks.
    pub samples: Vec<(u32, LifeSample)>,
    /// Whether no load ran in any.
    pub are_all: bool,
}

impl LifeSample {
    /// Of a run; `None` if it has no lives.
    pub fn of(measured: &Measured) -> Option<Self> {
        let lives = &measured.lives;
        let states = LifeState::ALL.into_iter().filter_map(|state| {
            let records = lives.iter().filter_map(|life| life.state(state));
            Some((state, mean_s(records.map(|record| record.duration_ns()))?))
        });
        Some(Self {
            instances: lives.len(),
            states: states.collect(),
            whole_s: mean_s(lives.iter().map(InstanceLife::whole_ns))?,
        })
    }

    fn seconds_in(&self, state: LifeState) -> Option<f64> {
        self.states.iter().find(|(of, _)| *of == state).map(|(_, seconds)| *seconds)
    }
}

/// The mean in seconds; `None` of nothing.
fn mean_s(times_ns: impl Iterator<Item = u64>) -> Option<f64> {
    mean(&times_ns.map(|ns| ns as f64 / 1e9).collect::<Vec<_>>()).map(|mean| mean.value)
}

impl LivesSummary {
    /// Of the runs of one stack under one workload. `None` if none that counts has lives.
    pub fn of(runs: &[&StoredRun]) -> Option<Self> {
        Self::of_samples(&LivesOf::of(runs)?, CONFIDENCE)
    }

    pub(crate) fn of_samples(lives: &LivesOf<'_>, confidence: f64) -> Option<Self> {
        let samples = || lives.samples.iter().map(|(_, sample)| sample);
        let over_runs = |seconds: Vec<f64>| mean_at(&seconds, confidence);
        let states = LifeState::ALL.into_iter().filter_map(|state| {
            let seconds = over_runs(samples().filter_map(|sample| sample.seconds_in(state)).collect())?;
            Some(StateSeconds { state, seconds })
        });
        Some(Self {
            stack: lives.stack.clone(),
            instances: samples().map(|sample| sample.instances).max()?,
            states: states.collect(),
            whole_s: over_runs(samples().map(|sample| sample.whole_s).collect())?,
        })
    }

    /// How long a state took, if instances went through it.
    pub fn seconds_in(&self, state: LifeState) -> Option<Mean> {
        self.states.iter().find(|of_state| of_state.state == state).map(|of_state| of_state.seconds)
    }
}

impl LivesCompared {
    /// Compares the lives of two stacks' runs. `None` unless both have some that count.
    pub fn of(baseline: &[&StoredRun], candidate: &[&StoredRun]) -> Option<Self> {
        Self::of_samples(&LivesOf::of(baseline)?, &LivesOf::of(candidate)?, CONFIDENCE)
    }

    pub(crate) fn of_samples(
        baseline: &LivesOf<'_>,
        candidate: &LivesOf<'_>,
        confidence: f64,
    ) -> Option<Self> {
        let (before, after) = (baseline.wholes(), candidate.wholes());
        Some(Self {
            baseline: LivesSummary::of_samples(baseline, confidence)?,
            candidate: LivesSummary::of_samples(candidate, confidence)?,
            ratio: ratio_by_block(&before, &after, confidence),
            paired: before.iter().any(|(block, _)| after.iter().any(|(other, _)| block == other)),
            are_all: baseline.are_all && candidate.are_all,
        })
    }
}

impl<'a> LivesOf<'a> {
    /// `None` without runs.
    fn of(runs: &[&'a StoredRun]) -> Option<Self> {
        let only_lives = |run: &&StoredRun| run.record.measured().is_none_or(Measured::has_only_lives);
        Some(Self {
            stack: &runs.first()?.record.stack,
            samples: counted(runs).into_iter().map(|(run, sample)| (run.record.block, sample)).collect(),
            are_all: runs.iter().all(only_lives),
        })
    }

    /// The whole lives by block.
    fn wholes(&self) -> Vec<(u32, f64)> {
        self.samples.iter().map(|(block, sample)| (*block, sample.whole_s)).collect()
    }
}

/// Of the runs with lives, the one whose whole life is the median; of an even number the shorter of the two in the middle. One that
/// contradicts itself is left out. `None` without any.
pub fn median_life<'a>(runs: &[&'a StoredRun]) -> Option<&'a StoredRun> {
    crate::of_median_rate(counted(runs).into_iter().map(|(run, sample)| (sample.whole_s, run)))
}

/// The runs whose lives count, in the order of their blocks.
fn counted<'a>(runs: &[&'a StoredRun]) -> Vec<(&'a StoredRun, LifeSample)> {
    let honest = runs.iter().copied().filter(|r| !r.record.untraced_twin && !r.record.violates_an_identity());
    let sample = |run: &'a StoredRun| Some((run, LifeSample::of(run.record.measured()?)?));
    let mut counted: Vec<_> = honest.filter_map(sample).collect();
    counted.sort_by_key(|(run, _)| (run.record.block, run.record.repeat, run.number));
    counted
}
