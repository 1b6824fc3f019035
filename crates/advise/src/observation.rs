//! What was measured, as plain numbers.

use nestor_results::WrittenStack;

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
