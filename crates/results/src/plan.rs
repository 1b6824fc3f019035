//! In which order the cells of a study run.
//!
//! Randomised interleaved blocks (randomised multiple interleaved trials: Abedi and Brecht, ICPE 2017): each block
//! holds every cell once in random order, so that whatever drifts meets all alike, and a study that ends early has
//! whole blocks to compare. With sentinels the baselines run at the start and at the end of each block instead of
//! somewhere in it: their mean is the block's baseline, and their difference shows drift.

use std::time::Duration;

use nestor_statistics::SeededOrder;
use serde::{Deserialize, Serialize};

use crate::Study;
use crate::record::CellRecord;
use crate::stopping::Decisions;
use crate::study::CellRule;
use crate::{WrittenStack, WrittenWorkload};

/// What identifies a cell within a study.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CellKey {
    /// The stack.
    pub stack: WrittenStack,
    /// The workload.
    pub workload: WrittenWorkload,
    /// The replication, from 0.
    pub block: u32,
    /// 0, or 1 for the closing run of a baseline that runs at both ends of the block.
    pub repeat: u32,
    /// Whether it is the untraced repeat of the traced cell of the same name.
    #[serde(default)]
    pub untraced_twin: bool,
}

impl CellKey {
    /// The seed of the cell under a study's: one for all cells of a block, so that stacks are compared under the same draws; a
    /// closing run has another, because it is a repeat; an untraced twin has its cell's.
    pub fn seed(&self, of_study: u64) -> u64 {
        let of_block = of_study.wrapping_mul(BLOCKS_OF_A_SEED).wrapping_add(u64::from(self.block));
        match self.repeat {
            0 => of_block,
            repeat => SeededOrder::for_part(of_block, u64::from(repeat)).next(),
        }
    }
}

impl CellRecord {
    /// The cell of a study, or of a command, that it is of.
    pub fn key(&self) -> CellKey {
        CellKey {
            stack: self.stack.clone(),
            workload: self.workload.clone(),
            block: self.block,
            repeat: self.repeat,
            untraced_twin: self.untraced_twin,
        }
    }
}

/// A prime above all numbers of blocks: no block of one study has the seed of a block of another.
const BLOCKS_OF_A_SEED: u64 = 1_000_003;

/// A cell that is to run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedCell {
    /// What to run.
    pub key: CellKey,
    /// Place in the order of the whole study, from 0.
    pub position: u32,
}

/// All cells of a study in the order in which they are to run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// The cells.
    pub cells: Vec<PlannedCell>,
    /// Whether the baselines run at both ends of each block.
    pub sentinels: bool,
}

/// A planned cell without a result, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotRun {
    /// The cell.
    pub key: CellKey,
    /// Why it was not run, such as `budget of 5 min ended`.
    pub reason: String,
}

impl Study {
    /// Lays out the cells. The same study and the same decision on sentinels give the same plan on any machine.
    ///
    /// Sentinels run if the study asks for them. If it leaves that open, they run when there are at least two
    /// replications and the budget holds them: there is none, or `expected_cell` is known and all cells fit.
    ///
    /// Under a stopping rule this is the most that can run; what is settled earlier leaves the later blocks.
    pub fn plan(&self, expected_cell: Option<Duration>) -> Plan {
        let sentinels = self.sentinels.unwrap_or_else(|| {
            let fits = match (self.budget, expected_cell) {
                (None, _) => true,
                (Some(_), None) => false,
                (Some(budget), Some(cell)) => {
                    let cells = self.all_cells(true, &Decisions::default()).len();
                    cell.saturating_mul(u32::try_from(cells).unwrap_or(u32::MAX)) <= budget
                }
            };
            self.most_blocks() >= 2 && fits
        });
        // A study of baselines alone has nothing to guard.
        let sentinels = sentinels && self.stacks.iter().any(|s| !self.is_baseline(s));
        let keys = self.all_cells(sentinels, &Decisions::default());
        let cells = keys.into_iter().zip(0..).map(|(key, position)| PlannedCell { key, position }).collect();
        Plan { cells, sentinels }
    }

    /// The cells of all blocks as far as `decisions` leaves comparisons open.
    pub fn all_cells(&self, sentinels: bool, decisions: &Decisions) -> Vec<CellKey> {
        (0..self.most_blocks()).flat_map(|block| self.block_cells(block, sentinels, decisions)).collect()
    }

    /// The cells of one block in their order: those whose comparison is open, with the baselines they need.
    pub fn block_cells(&self, block: u32, sentinels: bool, decisions: &Decisions) -> Vec<CellKey> {
        let mut random = SeededOrder::for_block(self.seed, block);
        let mut cells = |wanted: &dyn Fn(&WrittenStack) -> bool, repeat: u32| {
            let mut cells: Vec<CellKey> = Vec::new();
            for stack in self.stacks.iter().filter(|s| wanted(s)) {
                for workload in &self.workloads {
                    let Some(rule) = self.rule_in_block(stack, workload, block, decisions) else { continue };
                    let traced = CellKey {
                        stack: stack.clone(),
                        workload: workload.clone(),
                        block,
                        repeat,
                        untraced_twin: false,
                    };
                    // One pair per block: a closing run only guards against drift.
                    if rule.untraced_twin && repeat == 0 {
                        cells.push(CellKey { untraced_twin: true, ..traced.clone() });
                    }
                    cells.push(traced);
                }
            }
            random.shuffle(&mut cells);
            cells
        };
        if !sentinels {
            return cells(&|_| true, 0);
        }
        let opening = cells(&|s| self.is_sentinel(s), 0);
        let between = cells(&|s| !self.is_sentinel(s), 0);
        let closing = cells(&|s| self.is_sentinel(s), 1);
        [opening, between, closing].concat()
    }

    /// Whether a stack runs at both ends of a block, where any does.
    pub fn is_sentinel(&self, stack: &WrittenStack) -> bool {
        self.is_baseline(stack) && (self.sentinel_stacks.is_empty() || self.sentinel_stacks.contains(stack))
    }

    /// What holds for a cell in a block; `None` if it does not run there.
    fn rule_in_block(
        &self,
        stack: &WrittenStack,
        workload: &WrittenWorkload,
        block: u32,
        decisions: &Decisions,
    ) -> Option<CellRule> {
        let rule = self.rule_to_run(stack, workload).filter(|rule| block < rule.replications)?;
        if self.stop.is_none() || self.is_apart(stack, workload) {
            return Some(rule);
        }
        if !self.is_baseline(stack) {
            return decisions.is_open(stack, workload).then_some(rule);
        }
        // A baseline runs for the comparisons with it; one that nothing is compared with, as long as any is open. The blocks that
        // it has beyond all of them it has for its own sake, and nothing ends them.
        let compared = |s: &&WrittenStack| !self.is_baseline(s) && !self.is_apart(s, workload);
        let candidates = || self.stacks.iter().filter(compared);
        let has_block =
            |s: &&WrittenStack| self.rule_to_run(s, workload).is_some_and(|r| block < r.replications);
        let mut mine: Vec<&WrittenStack> = candidates().filter(|s| self.baseline_of(s) == stack).collect();
        if mine.is_empty() {
            mine = candidates().collect();
        }
        mine.retain(has_block);
        let needed = mine.is_empty() || mine.iter().any(|s| decisions.is_open(s, workload));
        needed.then_some(rule)
    }
}

/// The reason of cells that the budget left out: `budget of 5 min ended`.
pub fn budget_ended(budget: Duration) -> String {
    format!("budget of {} ended", duration_words(budget))
}

/// `5 min`, `1 h 30 min`: whole minutes, rounded up.
pub fn whole_minutes(seconds: f64) -> String {
    duration_words(Duration::from_secs(((seconds / 60.0).ceil() * 60.0) as u64))
}

/// `90 s`, `5 min`, `1 h 30 min`: whole seconds, exact.
pub fn duration_words(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let parts = [(seconds / 3_600, "h"), (seconds % 3_600 / 60, "min"), (seconds % 60, "s")];
    let words: Vec<String> =
        parts.iter().filter(|(n, _)| *n > 0).map(|(n, unit)| format!("{n} {unit}")).collect();
    if words.is_empty() { "0 s".to_owned() } else { words.join(" ") }
}
