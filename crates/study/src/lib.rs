//! Studies: many cells in a fair order, their results kept in one file, compared without hiding anything.

pub mod campaign;
pub mod cell;
pub mod checks;
pub mod compare;
mod complaint;
mod file;
mod flow;
mod notation;
mod plan;
pub mod record;
pub mod store;
mod study;
mod trace_cost;
mod trace_mode;

pub use compare::{CellSummary, Comparison, CountedMark, Drift, Failure, Sample, compare, summarise};
pub use complaint::Complaint;
pub use file::{StudyFileError, parse_duration};
pub use flow::LayerFlow;
pub use notation::Notation;
pub use plan::{CellKey, NotRun, Plan, PlannedCell, budget_ended, duration_words};
pub use record::{CellRecord, Environment, ImageRecord, LayerRecord, MachineRecord, Mark, Measured, Outcome};
pub use store::{MergeReport, RunFilter, RunListing, Store, StoreError, StoredRun, StudyRecord};
pub use study::Study;
pub use trace_cost::{TraceCost, trace_costs};
pub use trace_mode::TraceMode;

#[cfg(test)]
mod tests;
