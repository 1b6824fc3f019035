//! Which comparisons of a study need another block.

use std::collections::{BTreeMap, BTreeSet};

use nestor_model::geometric_mean;
use nestor_model::sequential::{Decision, StopRule};

use crate::Study;
use crate::record::{CellRecord, Measured};

/// The throughput of one measured cell, as far as decisions need it.
#[derive(Clone, Debug, PartialEq)]
pub struct CellSample {
    /// The stack.
    pub stack: String,
    /// The workload.
    pub workload: String,
    /// The block.
    pub block: u32,
    /// 0, or 1 for the closing run of a baseline.
    pub repeat: u32,
    /// Bytes per second, or operations per second where no bytes are moved.
    pub throughput: f64,
}

impl CellSample {
    /// The sample of a run with numbers.
    pub(crate) fn of(record: &CellRecord, measured: &Measured) -> Self {
        Self {
            stack: record.stack.clone(),
            workload: record.workload.clone(),
            block: record.block,
            repeat: record.repeat,
            throughput: throughput(measured.load.bytes_per_second(), measured.load.operations_per_second()),
        }
    }
}

/// Bytes per second, or operations per second of a workload that moves none.
pub(crate) fn throughput(bytes_per_second: f64, operations_per_second: f64) -> f64 {
    if bytes_per_second > 0.0 { bytes_per_second } else { operations_per_second }
}

/// What is decided of each comparison so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decisions(BTreeMap<(String, String), Decision>);

impl Decisions {
    /// Decides by the study's rule from the samples of blocks before `before_block`; of all blocks if `None`. Without a
    /// rule nothing is ever decided.
    ///
    /// Samples of the block under way do not count, so that a study that was killed in it goes on with the same cells.
    pub fn of(study: &Study, samples: &[CellSample], before_block: Option<u32>) -> Self {
        let Some(rule) = &study.stop else { return Self::default() };
        let mut by_cell: BTreeMap<(&str, &str), Vec<&CellSample>> = BTreeMap::new();
        for sample in samples.iter().filter(|s| before_block.is_none_or(|block| s.block < block)) {
            by_cell.entry((&sample.stack, &sample.workload)).or_default().push(sample);
        }
        let mut decisions = BTreeMap::new();
        for stack in study.stacks.iter().filter(|s| !study.is_baseline(s)) {
            for workload in study.workloads.iter().filter(|w| study.holds(stack, w)) {
                let of = |stack| by_cell.get(&(stack, workload.as_str())).map_or(&[][..], Vec::as_slice);
                let pairs = pairs(of(study.baseline_of(stack)), of(stack));
                let rule = within(rule, study.rule(stack, workload).map_or(1, |r| r.replications));
                decisions.insert((stack.clone(), workload.clone()), rule.decide(&pairs));
            }
        }
        Self(decisions)
    }

    /// What is decided of a comparison.
    pub fn get(&self, stack: &str, workload: &str) -> Option<&Decision> {
        self.0.get(&(stack.to_owned(), workload.to_owned()))
    }

    /// Whether a comparison needs more pairs; also where there is no rule that could say otherwise.
    pub fn is_open(&self, stack: &str, workload: &str) -> bool {
        self.get(stack, workload).is_none_or(|d| matches!(d, Decision::Continue { .. }))
    }

    /// All comparisons with what is decided of them: stack, workload, decision.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str, &Decision)> {
        self.0.iter().map(|((stack, workload), decision)| (stack.as_str(), workload.as_str(), decision))
    }
}

/// The rule for a cell that gets no more than so many blocks: later looks fall away, the last is at the last block.
fn within(rule: &StopRule, replications: u32) -> StopRule {
    let mut rule = rule.clone();
    rule.looks.retain(|look| *look < replications);
    rule.looks.push(replications);
    rule
}

/// Per block that both have: the baseline's and the candidate's throughput, of several runs the geometric mean.
fn pairs(baseline: &[&CellSample], candidate: &[&CellSample]) -> Vec<(f64, f64)> {
    let blocks: BTreeSet<u32> = candidate.iter().map(|s| s.block).collect();
    let in_block = |samples: &[&CellSample], block: u32| {
        let values: Vec<f64> = samples.iter().filter(|s| s.block == block).map(|s| s.throughput).collect();
        geometric_mean(&values)
    };
    blocks.into_iter().filter_map(|b| Some((in_block(baseline, b)?, in_block(candidate, b)?))).collect()
}
