//! An array job: which task takes which cells.

use std::path::PathBuf;
use std::time::Duration;

use nestor_measure::Order;
use nestor_results::{LaboratoryDigest, PlannedCell, TraceMode, WrittenPlace, WrittenStack};
use serde::{Deserialize, Serialize};

/// Cells that a task takes at most, unless there are too many: a task that does not end before its time limit, or that is lost, then
/// holds back few.
const CELLS_OF_A_TASK: usize = 8;

/// Tasks of an array at most: Slurm's default for `MaxArraySize` is 1001 (slurm.conf(5)).
const MOST_TASKS: usize = 1000;

/// What the tasks of an array job are to do; a file that each of them reads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ArrayJob {
    /// SHA-256 of the program that wrote it, which has to be the one that reads it.
    pub program: String,
    /// The place of the cells.
    pub place: WrittenPlace,
    /// What all numbers depend on besides the cells: each node has to have the same.
    pub laboratory: LaboratoryDigest,
    /// Name and hash of the study that results are kept under.
    pub study: (String, String),
    /// The study's stacks, all of them: the host is as large as the largest of them needs, as it is without Slurm.
    pub stacks: Vec<WrittenStack>,
    /// The seed of the study.
    pub seed: u64,
    /// The directory that keeps what was recorded.
    pub trace_to: Option<PathBuf>,
    /// No cell begins that would end after this time: seconds since 1970.
    pub deadline: Option<u64>,
    /// The cells of each task, in the study's order.
    pub tasks: Vec<Vec<TaskCell>>,
}

/// A cell as a task gets it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskCell {
    /// The cell, and its place in the study.
    pub cell: PlannedCell,
    /// Decides everything that differs between repeats.
    pub seed: u64,
    /// How much to record.
    pub trace: TraceMode,
    /// Seconds that it is expected to take.
    pub expected_s: f64,
    /// The digest of what its numbers depend on.
    pub depends_on: Option<String>,
}

impl TaskCell {
    /// The cell of an order.
    pub fn of(order: &Order) -> Self {
        Self {
            cell: order.cell.clone(),
            seed: order.seed,
            trace: order.trace,
            expected_s: order.expected.as_secs_f64(),
            depends_on: order.depends_on.clone(),
        }
    }
}

impl TaskCell {
    /// How long it is expected to take.
    pub fn expected(&self) -> Duration {
        Duration::try_from_secs_f64(self.expected_s).unwrap_or_default()
    }
}

impl ArrayJob {
    /// A cell as a bench takes it; `None` if this version does not know its stack or its workload.
    pub fn order(&self, cell: &TaskCell) -> Option<Order> {
        let key = &cell.cell.key;
        Some(Order {
            stack: key.stack.value()?.clone(),
            workload: key.workload.value()?.clone(),
            study: Some(self.study.clone()),
            seed: cell.seed,
            trace: cell.trace,
            trace_to: self.trace_to.clone(),
            expected: cell.expected(),
            depends_on: cell.depends_on.clone(),
            cell: cell.cell.clone(),
        })
    }
}

/// How many tasks so many cells are given to, if `at_once` tasks may run at the same time.
pub fn tasks_for(cells: usize, at_once: usize) -> usize {
    let busy = at_once.max(1).min(cells);
    cells.div_ceil(CELLS_OF_A_TASK).max(busy).min(MOST_TASKS)
}

/// Deals cells to tasks in turn: task `k` of `n` gets those at the places `k`, `k + n`, `k + 2n`, …
pub fn deal<T>(cells: Vec<T>, tasks: usize) -> Vec<Vec<T>> {
    let mut dealt: Vec<Vec<T>> = (0..tasks).map(|_| Vec::new()).collect();
    for (place, cell) in cells.into_iter().enumerate() {
        dealt[place % tasks].push(cell);
    }
    dealt
}

/// Seconds until the last of these cells has ended, if they are dealt to tasks of which `at_once` run at the same time, and each task
/// begins as soon as one before it has ended.
pub fn wall_s(cells_s: &[f64], at_once: usize) -> f64 {
    let tasks = deal(cells_s.to_vec(), tasks_for(cells_s.len(), at_once));
    let mut free_at = vec![0.0_f64; at_once.max(1)];
    for task in tasks {
        let first = free_at.iter_mut().min_by(|a, b| a.total_cmp(b));
        if let Some(first) = first {
            *first += task.iter().sum::<f64>();
        }
    }
    free_at.into_iter().fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cell_belongs_to_one_task() {
        for cells in [1, 2, 7, 23, 900, 9000] {
            for at_once in [1, 2, 16, 5000] {
                let tasks = tasks_for(cells, at_once);
                let dealt = deal((0..cells).collect(), tasks);
                assert!(dealt.iter().all(|task| !task.is_empty()), "{cells} cells, {at_once} at once");
                assert!(dealt.iter().all(|task| task.is_sorted()), "the order of the plan");
                let mut all: Vec<usize> = dealt.concat();
                all.sort_unstable();
                assert_eq!(all, (0..cells).collect::<Vec<_>>());
                assert!(tasks <= MOST_TASKS);
            }
        }
        assert_eq!(tasks_for(23, 2), 3, "no task has more than 8 cells");
        assert_eq!(tasks_for(23, 16), 16);
        assert_eq!(tasks_for(3, 16), 3);
    }

    #[test]
    fn the_wall_time_is_that_of_the_longest_row_of_tasks() {
        assert_eq!(wall_s(&[], 4), 0.0);
        assert_eq!(wall_s(&[10.0, 20.0, 30.0], 1), 60.0);
        assert_eq!(wall_s(&[10.0, 20.0, 30.0], 2), 40.0, "10 and 30 are one task");
        assert_eq!(wall_s(&[10.0, 20.0, 30.0], 100), 30.0);
        assert_eq!(wall_s(&[1.0; 24], 2), 16.0, "3 tasks of 8, the third after one of the others");
    }
}
