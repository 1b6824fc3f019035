//! What happened when.

use serde::{Deserialize, Serialize};

/// Counts by time, in at most [`Timeline::MOST_STEPS`] steps of equal width; all columns but the last have the same length.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Timeline {
    /// Clock of the trace at the beginning of the first step, nanoseconds.
    pub start_ns: u64,
    /// Width of a step, nanoseconds.
    pub step_ns: u64,
    /// Bios queued.
    pub queued: Vec<u64>,
    /// Requests issued.
    pub issued: Vec<u64>,
    /// Requests completed.
    pub completed: Vec<u64>,
    /// Bytes of completed reads.
    pub read_bytes: Vec<u64>,
    /// Bytes of completed writes.
    pub write_bytes: Vec<u64>,
    /// Requests in this layer and below, issued or not: mean over the step.
    pub outstanding: Vec<f64>,
    /// Requests issued and not completed (the depth at the driver): mean over the step. At a modelled disk, those that
    /// arrived and are not completed, which is what the driver above counts.
    pub depth: Vec<f64>,
    /// The largest depth at the driver; empty where it is not known.
    pub depth_max: Vec<u32>,
}

impl Timeline {
    /// The most steps.
    pub const MOST_STEPS: usize = 256;

    /// Mean depth at the driver over all steps.
    pub fn mean_depth(&self) -> Option<f64> {
        (!self.depth.is_empty()).then(|| self.depth.iter().sum::<f64>() / self.depth.len() as f64)
    }
}
