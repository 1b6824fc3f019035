//! In which order the cells of a study run.
//!
//! Randomised interleaved blocks (randomised multiple interleaved trials: Abedi and Brecht, ICPE 2017): each block
//! holds every cell once in random order, so that whatever drifts meets all alike, and a study that ends early has
//! whole blocks to compare. With sentinels the baselines run at the start and at the end of each block instead of
//! somewhere in it: their mean is the block's baseline, and their difference shows drift.

use std::collections::HashSet;
use std::time::Duration;

use nestor_model::SeededOrder;
use serde::{Deserialize, Serialize};

use crate::Study;

/// What identifies a cell within a study.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CellKey {
    /// The stack.
    pub stack: String,
    /// The workload.
    pub workload: String,
    /// The replication, from 0.
    pub block: u32,
    /// 0, or 1 for the closing run of a baseline that runs at both ends of the block.
    pub repeat: u32,
    /// Whether it is the untraced repeat of the traced cell of the same name.
    #[serde(default)]
    pub untraced_twin: bool,
}

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
    pub fn plan(&self, expected_cell: Option<Duration>) -> Plan {
        let sentinels = self.sentinels.unwrap_or_else(|| {
            let fits = match (self.budget, expected_cell) {
                (None, _) => true,
                (Some(_), None) => false,
                (Some(budget), Some(cell)) => cell.saturating_mul(self.cell_count(true)) <= budget,
            };
            self.replications >= 2 && fits
        });
        // A study of baselines alone has nothing to guard.
        let sentinels = sentinels && self.stacks.iter().any(|s| !self.is_baseline(s));
        let keys = (0..self.replications).flat_map(|block| self.block(block, sentinels));
        let cells = keys.zip(0..).map(|(key, position)| PlannedCell { key, position }).collect();
        Plan { cells, sentinels }
    }

    fn cell_count(&self, sentinels: bool) -> u32 {
        let baselines = self.stacks.iter().filter(|s| self.is_baseline(s)).count();
        let twins = if self.has_untraced_twins() { self.stacks.len() } else { 0 };
        let stacks = self.stacks.len() + if sentinels { baselines } else { 0 } + twins;
        (stacks * self.workloads.len()) as u32 * self.replications
    }

    fn has_untraced_twins(&self) -> bool {
        self.trace_cost && self.trace.records()
    }

    fn block(&self, block: u32, sentinels: bool) -> Vec<CellKey> {
        let mut random = SeededOrder::for_block(self.seed, block);
        let mut cells = |wanted: &dyn Fn(&str) -> bool, repeat: u32| {
            let mut cells: Vec<CellKey> = Vec::new();
            for stack in self.stacks.iter().filter(|s| wanted(s)) {
                for workload in &self.workloads {
                    let traced = CellKey {
                        stack: stack.clone(),
                        workload: workload.clone(),
                        block,
                        repeat,
                        untraced_twin: false,
                    };
                    // One pair per block: a closing run only guards against drift.
                    if self.has_untraced_twins() && repeat == 0 {
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
        let opening = cells(&|s| self.is_baseline(s), 0);
        let between = cells(&|s| !self.is_baseline(s), 0);
        let closing = cells(&|s| self.is_baseline(s), 1);
        [opening, between, closing].concat()
    }
}

impl Plan {
    /// The cells that have no result yet, in order: how an interrupted study goes on.
    pub fn remaining(&self, finished: &HashSet<CellKey>) -> Vec<PlannedCell> {
        self.cells.iter().filter(|c| !finished.contains(&c.key)).cloned().collect()
    }

    /// The cells without a result, each with the reason.
    pub fn not_run(&self, finished: &HashSet<CellKey>, reason: &str) -> Vec<NotRun> {
        let missing = self.remaining(finished).into_iter();
        missing.map(|cell| NotRun { key: cell.key, reason: reason.to_owned() }).collect()
    }
}

/// The reason of cells that the budget left out: `budget of 5 min ended`.
pub fn budget_ended(budget: Duration) -> String {
    format!("budget of {} ended", duration_words(budget))
}

/// `90 s`, `5 min`, `1 h 30 min`: whole seconds, exact.
pub fn duration_words(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let parts = [(seconds / 3_600, "h"), (seconds % 3_600 / 60, "min"), (seconds % 60, "s")];
    let words: Vec<String> =
        parts.iter().filter(|(n, _)| *n > 0).map(|(n, unit)| format!("{n} {unit}")).collect();
    if words.is_empty() { "0 s".to_owned() } else { words.join(" ") }
}
