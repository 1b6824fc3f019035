//! What was measured, as plain numbers.

use nestor_results::WrittenStack;
use serde::{Deserialize, Serialize};

/// What a workload is judged by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// Operations per second.
    OperationsPerSecond,
    /// Bytes per second; printed in MB/s.
    BytesPerSecond,
}

impl Unit {
    /// At the head of a column.
    pub fn name(self) -> &'static str {
        match self {
            Self::OperationsPerSecond => "IOPS",
            Self::BytesPerSecond => "MB/s",
        }
    }

    /// What a number of this unit is divided by for printing.
    pub fn scale(self) -> f64 {
        match self {
            Self::OperationsPerSecond => 1.0,
            Self::BytesPerSecond => 1e6,
        }
    }
}

/// One run of a stack under the workload in question.
#[derive(Clone, Debug, PartialEq)]
pub struct Observation {
    /// The stack.
    pub stack: WrittenStack,
    /// Its number in the store.
    pub run: i64,
    /// Runs of one block were measured next to each other in random order, so that they can be paired.
    pub block: String,
    /// The rate in the unit of the workload.
    pub rate: f64,
    /// Whether throughput had settled at a rate that the medium can have; one that had not may be anything, and one that
    /// the medium cannot have is that of a cache.
    pub trusted: bool,
}
