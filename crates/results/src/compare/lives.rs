//! How long instances are in each state, and one stack against another by it.

use nestor_statistics::summary::CONFIDENCE;
use nestor_statistics::{Mean, Ratio, mean};
use serde::{Deserialize, Serialize};

use super::ratio_by_block;
use crate::WrittenStack;
use crate::life::{InstanceLife, LifeState};
use crate::store::StoredRun;

/// The lives of one stack's instances over its runs. One run is one sample: of its instances, which share their machines, the mean.
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
    /// In seconds, with its 95 % interval over the runs that have it.
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

impl LivesSummary {
    /// Of the runs of one stack under one workload. `None` if none that counts has lives.
    pub fn of(runs: &[&StoredRun]) -> Option<Self> {
        let counted = counted(runs);
        let states = LifeState::ALL.into_iter().filter_map(|state| {
            let seconds: Vec<f64> = counted.iter().filter_map(|run| run.seconds_in(state)).collect();
            Some(StateSeconds { state, seconds: mean(&seconds)? })
        });
        Some(Self {
            stack: runs.first()?.record.stack.clone(),
            instances: counted.iter().map(|run| run.lives.len()).max()?,
            states: states.collect(),
            whole_s: mean(&counted.iter().map(LivesOfRun::whole_s).collect::<Vec<_>>())?,
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
        let wholes = |runs: &[&StoredRun]| -> Vec<(u32, f64)> {
            counted(runs).iter().map(|run| (run.block, run.whole_s())).collect()
        };
        let (before, after) = (wholes(baseline), wholes(candidate));
        let only_lives = |run: &&&StoredRun| run.record.measured().is_none_or(|m| m.has_only_lives());
        Some(Self {
            baseline: LivesSummary::of(baseline)?,
            candidate: LivesSummary::of(candidate)?,
            ratio: ratio_by_block(&before, &after, CONFIDENCE),
            paired: before.iter().any(|(block, _)| after.iter().any(|(other, _)| block == other)),
            are_all: baseline.iter().chain(candidate).all(|run| only_lives(&run)),
        })
    }
}

/// Of the runs with lives, the one whose whole life is the median; of an even number the shorter of the two in the middle. One that
/// contradicts itself is left out. `None` without any.
pub fn median_life<'a>(runs: &[&'a StoredRun]) -> Option<&'a StoredRun> {
    crate::of_median_rate(counted(runs).into_iter().map(|run| (run.whole_s(), run.run)))
}

/// The lives of a run.
struct LivesOfRun<'a> {
    run: &'a StoredRun,
    block: u32,
    lives: &'a [InstanceLife],
}

impl LivesOfRun<'_> {
    /// The mean of its instances in one state; `None` if none went through it.
    fn seconds_in(&self, state: LifeState) -> Option<f64> {
        let states = self.lives.iter().filter_map(|life| life.state(state));
        of_instances(states.map(|state| state.duration_ns()))
    }

    /// The mean of its instances' whole lives.
    fn whole_s(&self) -> f64 {
        of_instances(self.lives.iter().map(InstanceLife::whole_ns)).unwrap_or_default()
    }
}

/// The mean in seconds.
fn of_instances(times_ns: impl Iterator<Item = u64>) -> Option<f64> {
    mean(&times_ns.map(|ns| ns as f64 / 1e9).collect::<Vec<_>>()).map(|mean| mean.value)
}

/// The runs whose lives count, in the order of their blocks.
fn counted<'a>(runs: &[&'a StoredRun]) -> Vec<LivesOfRun<'a>> {
    let honest = runs.iter().filter(|run| !run.record.untraced_twin && !run.record.violates_an_identity());
    let mut counted: Vec<LivesOfRun<'a>> = honest
        .filter_map(|run| {
            let run: &'a StoredRun = run;
            let lives = run.record.measured()?.lives.as_slice();
            (!lives.is_empty()).then_some(LivesOfRun { run, block: run.record.block, lives })
        })
        .collect();
    counted.sort_by_key(|run| (run.block, run.run.record.repeat, run.run.number));
    counted
}
