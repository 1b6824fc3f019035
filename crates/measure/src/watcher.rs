//! Who follows a campaign.

use std::time::Duration;

use nestor_results::CellKey;
use nestor_results::record::CellRecord;

/// Receives the progress of a campaign.
pub trait Watcher {
    /// A block begins: its number from 0, its cells, the comparisons that are still open and all of them.
    fn block_begins(&self, _block: u32, _cells: usize, _open: usize, _comparisons: usize) {}
    /// A cell begins: the number of those done, of all, and the expected time until the end.
    fn cell_begins(&self, cell: &CellKey, done: usize, all: usize, left: Option<Duration>);
    /// The number of cells done, of all, and the expected time until the end have changed.
    fn progressed(&self, _done: usize, _all: usize, _left: Option<Duration>) {}
    /// The current activity.
    fn step(&self, what: &str);
    /// A cell ended, and was kept under this number.
    fn cell_ended(&self, record: &CellRecord, run: i64);
    /// A cell was not measured, because a run of this number has the same dependencies, and so the same numbers.
    fn cell_known(&self, record: &CellRecord, run: i64);
}
