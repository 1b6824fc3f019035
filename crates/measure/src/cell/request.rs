//! What a cell is asked for, and the record that it leaves.

use std::path::Path;
use std::time::Instant;

use nestor_results::record::{CellRecord, Mark, Outcome};
use nestor_results::{Environment, TraceMode};
use nestor_stack::Stack;
use nestor_workload::Workload;

/// What to measure, and its place in a study.
#[derive(Clone, Debug)]
pub struct CellRequest<'a> {
    /// The stack, built anew for this cell.
    pub stack: &'a Stack,
    /// The workload.
    pub workload: &'a Workload,
    /// Name of the study, if any.
    pub study: Option<&'a str>,
    /// Hash of the study, if any.
    pub study_hash: Option<&'a str>,
    /// Replication, from 0.
    pub block: u32,
    /// Which run of the same stack and workload in the block.
    pub repeat: u32,
    /// Position in the real order.
    pub position: u32,
    /// Decides everything that differs between repeats: the workload's random choices, and what [`nestor_lab::Seed`] draws.
    pub seed: u64,
    /// How much to record.
    pub trace: TraceMode,
    /// Whether it is the untraced repeat of a traced cell.
    pub untraced_twin: bool,
    /// A directory that is to keep what was recorded.
    pub trace_to: Option<&'a Path>,
}

/// How a cell ended.
pub struct CellEnd {
    /// Its record; a failure is recorded too.
    pub record: CellRecord,
    /// Whether the stack cannot be built as written, so that another attempt would fail too.
    pub refused: bool,
}

/// When a cell began.
pub(crate) struct CellBegin {
    instant: Instant,
    /// RFC 3339, UTC.
    at: String,
}

impl CellBegin {
    /// Now.
    pub(crate) fn now() -> Self {
        let at = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        Self { instant: Instant::now(), at }
    }
}

impl CellRequest<'_> {
    /// The record of the cell, which ends now.
    pub(crate) fn record(
        &self,
        began: &CellBegin,
        outcome: Outcome,
        marks: Vec<Mark>,
        environment: Environment,
    ) -> CellRecord {
        CellRecord {
            stack: self.stack.clone().into(),
            workload: self.workload.clone().into(),
            study: self.study.map(str::to_owned),
            study_hash: self.study_hash.map(str::to_owned),
            block: self.block,
            repeat: self.repeat,
            position: self.position,
            trace: self.trace,
            untraced_twin: self.untraced_twin,
            started_at: began.at.clone(),
            cell_s: began.instant.elapsed().as_secs_f64(),
            load_s: None,
            outcome,
            marks,
            environment,
        }
    }
}
