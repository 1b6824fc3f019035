//! Which comparisons of a study need another block.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use nestor_statistics::sequential::{Decision, StopRule};
use nestor_statistics::summary::CONFIDENCE;
use nestor_statistics::{Ratio, paired_ratio_at};
use nestor_text::units;
use serde::{Deserialize, Serialize};

use crate::Study;
use crate::compare::{Counted, Rate, Sample, pairs_by_block};
use crate::record::{CellRecord, Measured};
use crate::{WrittenStack, WrittenWorkload};

/// The throughput of one measured cell, as far as decisions need it.
#[derive(Clone, Debug, PartialEq)]
pub struct CellSample {
    /// The stack.
    pub stack: WrittenStack,
    /// The workload.
    pub workload: WrittenWorkload,
    /// The block.
    pub block: u32,
    /// 0, or 1 for the closing run of a baseline.
    pub repeat: u32,
    /// Bytes per second, or operations per second where no bytes are moved.
    pub throughput: f64,
    /// Seconds that the whole cell took.
    pub cell_s: f64,
    /// Whether it was made in virtual time, where nothing can drift.
    pub in_virtual_time: bool,
}

impl CellSample {
    /// The sample of a run with numbers.
    pub fn of(record: &CellRecord, measured: &Measured) -> Self {
        Self {
            stack: record.stack.clone(),
            workload: record.workload.clone(),
            block: record.block,
            repeat: record.repeat,
            throughput: throughput(measured.load.bytes_per_second(), measured.load.operations_per_second()),
            cell_s: record.cell_s,
            in_virtual_time: record.environment.is_in_virtual_time(),
        }
    }
}

impl CellSample {
    fn plain(&self) -> Sample {
        Sample {
            run: 0,
            block: self.block,
            repeat: self.repeat,
            position: self.block,
            bytes_per_second: self.throughput,
            operations_per_second: self.throughput,
            violated: None,
            in_virtual_time: self.in_virtual_time,
        }
    }
}

/// Bytes per second, or operations per second of a workload that moves none.
pub(crate) fn throughput(bytes_per_second: f64, operations_per_second: f64) -> f64 {
    if bytes_per_second > 0.0 { bytes_per_second } else { operations_per_second }
}

/// What is decided of each comparison so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decisions(BTreeMap<(WrittenStack, WrittenWorkload), Decision>);

impl Decisions {
    /// Decides by the study's rule from the samples of blocks before `before_block`; of all blocks if `None`. Without a
    /// rule nothing is ever decided.
    ///
    /// Samples of the block in progress do not count, so that a study that was killed in it goes on with the same cells. Nor
    /// do blocks on the other side of a change point of the baseline.
    pub fn of(study: &Study, samples: &[CellSample], before_block: Option<u32>) -> Self {
        let Some(rule) = rule_of(study) else { return Self::default() };
        let mut by_cell: BTreeMap<(&WrittenStack, &WrittenWorkload), Vec<&CellSample>> = BTreeMap::new();
        for sample in samples.iter().filter(|s| before_block.is_none_or(|block| s.block < block)) {
            by_cell.entry((&sample.stack, &sample.workload)).or_default().push(sample);
        }
        let mut decisions = BTreeMap::new();
        for stack in study.stacks.iter().filter(|s| !study.is_baseline(s)) {
            let compared = |w: &&WrittenWorkload| study.holds(stack, w) && !study.is_apart(stack, w);
            for workload in study.workloads.iter().filter(compared) {
                let samples_of = |stack| by_cell.get(&(stack, workload)).map_or(&[][..], Vec::as_slice);
                let pairs = pairs_to_average(samples_of(study.baseline_of(stack)), samples_of(stack));
                // What is decided here is shown with intervals of the study's confidence, also where a cell has fewer looks.
                let replications = study.rule(stack, workload).map_or(1, |r| r.replications);
                let rule = rule.up_to(replications).at_each_look(study.confidence());
                decisions.insert((stack.clone(), workload.clone()), rule.decide(&pairs));
            }
        }
        Self(decisions)
    }

    /// What is decided of a comparison.
    pub fn get(&self, stack: &WrittenStack, workload: &WrittenWorkload) -> Option<&Decision> {
        self.0.get(&(stack.clone(), workload.clone()))
    }

    /// Whether a comparison needs more pairs; always true without a stopping rule.
    pub fn is_open(&self, stack: &WrittenStack, workload: &WrittenWorkload) -> bool {
        self.get(stack, workload).is_none_or(|d| matches!(d, Decision::Continue { .. }))
    }

    /// All comparisons with what is decided of them: stack, workload, decision.
    pub fn iter(&self) -> impl Iterator<Item = (&WrittenStack, &WrittenWorkload, &Decision)> {
        self.0.iter().map(|((stack, workload), decision)| (stack, workload, decision))
    }
}

/// The study's rule, whose last look is at its last block, or at the last one that was ever asked for.
fn rule_of(study: &Study) -> Option<StopRule> {
    let last = study.most_blocks().max(study.looked_until.unwrap_or_default());
    Some(study.stop.as_ref()?.up_to(last))
}

impl Study {
    /// The confidence of every interval of throughput in this study's comparisons, figures and claims: 95 %, or that of each look if
    /// the study stops comparisons early, so that the interval at which one stopped misses in at most 5 % of the cases. The looks
    /// are those up to the most blocks that were ever asked for.
    pub fn confidence(&self) -> f64 {
        rule_of(self).map_or(CONFIDENCE, |rule| rule.confidence_at_a_look())
    }
}

/// A sample's two rates are one here.
const RATE: Rate = |sample| sample.bytes_per_second;

fn plain(samples: &[&CellSample]) -> Vec<Sample> {
    samples.iter().map(|s| s.plain()).collect()
}

/// The pairs of the blocks that may be averaged: those of the longest stretch in which the baseline did not change.
fn pairs_to_average(baseline: &[&CellSample], candidate: &[&CellSample]) -> Vec<(f64, f64)> {
    let (baseline, candidate) = (plain(baseline), plain(candidate));
    let (baseline, candidate) = (Counted::of(&baseline), Counted::of(&candidate));
    let only = baseline.change(&candidate, RATE).map(|change| change.keep);
    let within = |block: u32| only.is_none_or(|(first, last)| (first..=last).contains(&block));
    pairs_by_block(&baseline, &candidate, RATE, &within)
}

/// The pairs of all blocks.
fn pairs(baseline: &[&CellSample], candidate: &[&CellSample]) -> Vec<(f64, f64)> {
    let (baseline, candidate) = (plain(baseline), plain(candidate));
    pairs_by_block(&Counted::of(&baseline), &Counted::of(&candidate), RATE, &|_| true)
}

/// What a stopping rule would have saved of a study that ran all its blocks, by the study's own results.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Saving {
    /// Cells that would have run.
    pub cells: usize,
    /// Cells that did run.
    pub all_cells: usize,
    /// Seconds of the first.
    pub seconds: f64,
    /// Seconds of the second.
    pub all_seconds: f64,
    /// Comparisons with the same verdict (faster, slower, not told apart).
    pub same: usize,
    /// All comparisons with a verdict.
    pub comparisons: usize,
}

impl Saving {
    /// Follows the rule through the results block by block, as a study under it would have run.
    pub fn of(study: &Study, rule: &StopRule, sentinels: bool, samples: &[CellSample]) -> Self {
        let ruled = Study { stop: Some(rule.clone()), ..study.clone() };
        let mut saving =
            Self { cells: 0, all_cells: 0, seconds: 0.0, all_seconds: 0.0, same: 0, comparisons: 0 };
        for block in 0..study.most_blocks() {
            let decisions = Decisions::of(&ruled, samples, Some(block));
            let would_run = ruled.block_cells(block, sentinels, &decisions);
            for sample in samples.iter().filter(|s| s.block == block) {
                saving.all_cells += 1;
                saving.all_seconds += sample.cell_s;
                let runs = would_run.iter().any(|cell| {
                    (&cell.stack, &cell.workload, cell.repeat)
                        == (&sample.stack, &sample.workload, sample.repeat)
                });
                if runs {
                    saving.cells += 1;
                    saving.seconds += sample.cell_s;
                }
            }
        }
        for (stack, workload, decision) in Decisions::of(&ruled, samples, None).iter() {
            let samples_of = |stack: &WrittenStack| -> Vec<&CellSample> {
                samples.iter().filter(|s| s.stack == *stack && s.workload == *workload).collect()
            };
            let pairs = pairs(&samples_of(study.baseline_of(stack)), &samples_of(stack));
            let all = paired_ratio_at(&pairs, study.confidence());
            let Some((early, all)) = decision.ratio().zip(all) else { continue };
            saving.comparisons += 1;
            saving.same += usize::from(verdict(&early) == verdict(&all));
        }
        saving
    }

    /// `the stopping rule would have needed 32 of 60 cells, 51 % of their time, and come to the same verdict in 4 of 4
    /// comparisons`.
    pub fn in_words(&self) -> String {
        format!(
            "the stopping rule would have needed {} of {} cells, {} of their time, and come to the same verdict in {} of \
             {} comparisons",
            self.cells,
            self.all_cells,
            units::percent(if self.all_seconds > 0.0 { self.seconds / self.all_seconds } else { 0.0 }),
            self.same,
            self.comparisons
        )
    }
}

/// Faster, slower, or not told apart.
fn verdict(ratio: &Ratio) -> Ordering {
    match ratio.differs() {
        Some(true) => ratio.value.total_cmp(&1.0),
        _ => Ordering::Equal,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_beyond_a_change_point_are_not_averaged() {
        let sample = |block: u32, throughput: f64| CellSample {
            in_virtual_time: false,
            stack: "".into(),
            workload: "".into(),
            block,
            repeat: 0,
            throughput,
            cell_s: 1.0,
        };
        let noise = |block: u32| 1.0 + f64::from(block % 3) * 0.002;
        let baseline: Vec<CellSample> =
            (0..14).map(|b| sample(b, if b < 9 { 100.0 } else { 130.0 } * noise(b))).collect();
        let candidate: Vec<CellSample> = (0..14).map(|b| sample(b, 60.0 * noise(b + 1))).collect();
        let pairs =
            pairs_to_average(&baseline.iter().collect::<Vec<_>>(), &candidate.iter().collect::<Vec<_>>());
        assert_eq!(pairs.len(), 9, "{pairs:?}");
        assert!(pairs.iter().all(|(baseline, _)| *baseline < 110.0));
    }
}
