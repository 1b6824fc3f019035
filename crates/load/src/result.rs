//! What a workload did, whatever engine ran it.

use std::collections::BTreeMap;

use nestor_model::LatencyHistogram;
use serde::{Deserialize, Serialize};

/// A kind of operation whose latencies may be put into one histogram.
///
/// Operations of different classes are never averaged together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct OperationClass(pub String);

/// What one workload run did, as its engine saw it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoadResult {
    /// The engine's name and version, such as `fio 3.33`.
    pub engine: String,
    /// The workload as it was asked for, in its own notation (`fio:seq-write:bs=8k`).
    pub workload: String,
    /// Measured time of the run, without warm-up and data set preparation.
    pub elapsed_ns: u64,
    /// The results by operation class (`read`, `write`, later `create`, `stat`, …).
    pub operations: BTreeMap<OperationClass, OperationResult>,
    /// Bytes of files that the workload can touch.
    pub working_set_bytes: u64,
    /// Data set relative to the paper's or the tool's own (1 = as published).
    pub scale_factor: f64,
    /// CPU seconds of the engine's processes, user then system.
    pub cpu_user_s: f64,
    /// See [`Self::cpu_user_s`].
    pub cpu_system_s: f64,
    /// The engine's own complete output, kept as it came.
    pub engine_output: String,
}

/// One class of operations of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OperationResult {
    /// Operations completed in the measured time.
    pub operations: u64,
    /// Bytes moved by them.
    pub bytes: u64,
    /// Time from submission to completion of each.
    pub latency: LatencyHistogram,
    /// Bytes moved in each second of the run, oldest first (for the steady-state test); empty if not recorded.
    pub bytes_by_second: Vec<u64>,
}

impl LoadResult {
    /// Bytes of all classes together.
    pub fn bytes(&self) -> u64 {
        self.operations.values().map(|o| o.bytes).sum()
    }

    /// Bytes per second of all classes together.
    pub fn bytes_per_second(&self) -> f64 {
        self.bytes() as f64 / (self.elapsed_ns.max(1) as f64 / 1e9)
    }

    /// Operations per second of all classes together.
    pub fn operations_per_second(&self) -> f64 {
        let operations: u64 = self.operations.values().map(|o| o.operations).sum();
        operations as f64 / (self.elapsed_ns.max(1) as f64 / 1e9)
    }
}
