//! How a study is spread over a cluster, and what that costs.

use nestor_results::{Decisions, Estimator, Store, StoreError, StudyEffort, StudyRecord, whole_minutes};
use serde::Serialize;

use crate::array::wall_s;

/// How a study is spread, and what that costs.
#[derive(Clone, Debug, Serialize)]
pub struct Spread {
    /// Tasks at once.
    pub tasks_at_once: usize,
    /// MiB of memory for each task.
    pub memory_mib: u64,
    /// If every comparison is settled at the first look.
    pub least: SpreadExtent,
    /// If none is settled before its last block.
    pub most: SpreadExtent,
}

/// What cells cost on a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SpreadExtent {
    /// The times of all cells together, in hours.
    pub node_hours: f64,
    /// Seconds from the beginning to the end, if no task waits for other users.
    pub wall_s: f64,
}

impl Spread {
    /// Plans how what is left of a study is spread over tasks of so much memory each.
    ///
    /// # Errors
    ///
    /// If the results cannot be read.
    pub fn plan(
        store: &Store,
        record: &StudyRecord,
        effort: &StudyEffort,
        tasks_at_once: usize,
        memory_bytes: u64,
    ) -> Result<Self, StoreError> {
        let estimator = Estimator::of(&store.past_cells(&record.ground)?);
        let finished = store.finished(&record.hash)?;
        let decisions = Decisions::of(&record.study, &store.cell_samples(&record.hash)?, None);
        let cells_s = |block| -> Vec<f64> {
            let cells = record.study.block_cells(block, record.sentinels, &decisions);
            let left = cells.into_iter().filter(|cell| !finished.contains(cell));
            left.map(|cell| estimator.cell(&cell).as_secs_f64()).collect()
        };
        let looks = record.study.stop.as_ref().map(|rule| rule.looks.as_slice());
        let extent =
            |blocks, seconds| SpreadExtent::of(blocks, looks.is_some(), seconds, tasks_at_once, &cells_s);
        let most_blocks = record.study.most_blocks();
        let first_look = looks.and_then(|looks| looks.first().copied()).unwrap_or(most_blocks);
        Ok(Self {
            tasks_at_once,
            memory_mib: memory_bytes.div_ceil(1 << 20),
            least: extent(first_look.min(most_blocks), effort.least.seconds),
            most: extent(most_blocks, effort.most.seconds),
        })
    }

    /// `0.12 node-hours, up to 2 tasks at once, each with 1 core and 1931 MiB of memory`.
    pub fn in_words(&self) -> String {
        let (least, most) = (self.least.node_hours, self.most.node_hours);
        let hours = if least == most { format!("{most:.2}") } else { format!("{least:.2} to {most:.2}") };
        let tasks = match self.tasks_at_once {
            1 => "1 task".to_owned(),
            tasks => format!("up to {tasks} tasks"),
        };
        format!("{hours} node-hours, {tasks} at once, each with 1 core and {} MiB of memory", self.memory_mib)
    }

    /// `4 min to 9 min`.
    pub fn wall_in_words(&self) -> String {
        let (least, most) = (whole_minutes(self.least.wall_s), whole_minutes(self.most.wall_s));
        if least == most { most } else { format!("{least} to {most}") }
    }
}

impl SpreadExtent {
    /// Of so many blocks, of each of which `cells_s` tells the seconds of its cells; `seconds` are those of everything.
    fn of(
        blocks: u32,
        has_looks: bool,
        seconds: f64,
        tasks_at_once: usize,
        cells_s: &dyn Fn(u32) -> Vec<f64>,
    ) -> Self {
        let of_blocks = (0..blocks).map(cells_s);
        // A look needs the whole block before it.
        let rounds: Vec<Vec<f64>> =
            if has_looks { of_blocks.collect() } else { vec![of_blocks.flatten().collect()] };
        let all: f64 = rounds.iter().flatten().sum();
        let wall: f64 = rounds.iter().map(|cells| wall_s(cells, tasks_at_once)).sum();
        // What is not a cell's, such as the first boot of a host.
        Self { node_hours: seconds / 3600.0, wall_s: wall + (seconds - all).max(0.0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_spread_study_costs_is_said() {
        let extent = |node_hours, wall_s| SpreadExtent { node_hours, wall_s };
        let mut spread = Spread {
            tasks_at_once: 2,
            memory_mib: 1931,
            least: extent(0.5, 900.0),
            most: extent(0.5, 900.0),
        };
        let words = "0.50 node-hours, up to 2 tasks at once, each with 1 core and 1931 MiB of memory";
        assert_eq!(spread.in_words(), words);
        assert_eq!(spread.wall_in_words(), "15 min");
        spread = Spread { tasks_at_once: 1, most: extent(2.0, 7200.0), ..spread };
        let words = "0.50 to 2.00 node-hours, 1 task at once, each with 1 core and 1931 MiB of memory";
        assert_eq!(spread.in_words(), words);
        assert_eq!(spread.wall_in_words(), "15 min to 2 h");
    }

    #[test]
    fn a_look_waits_for_its_block() {
        let cells_s = |_| vec![10.0, 20.0, 30.0];
        let extent = |has_looks| SpreadExtent::of(2, has_looks, 150.0, 3, &cells_s);
        // 30 s of the 150 s are not a cell's.
        assert_eq!(extent(true), SpreadExtent { node_hours: 150.0 / 3600.0, wall_s: 30.0 + 30.0 + 30.0 });
        assert_eq!(extent(false).wall_s, 60.0 + 30.0, "10 + 10, 20 + 20 and 30 + 30 are one task each");
    }
}
