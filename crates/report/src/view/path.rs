//! Instructions of an operation: `nestor run`, in virtual time.

use nestor_processor::ProcessorSpeed;
use nestor_results::{Executor, Measured, sum_of_parts};
use serde::Serialize;

use super::LayerRow;

/// What the modelled processor executed for an operation, by whose it was.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PathView {
    /// How many of them are a nanosecond.
    pub instructions_per_ns: u64,
    /// Seconds in which it was counted.
    pub window_s: f64,
    /// The lowest layer whose requests are known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lowest_layer: Option<String>,
    /// Whose, in the order in which a write passes them.
    pub parts: Vec<PathRow>,
    /// All together, for one operation.
    pub together_per_operation: f64,
}

/// Instructions of one part.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PathRow {
    /// Whose.
    pub executor: Executor,
    /// In the time in which it was counted.
    pub instructions: u64,
    /// For one operation of the application.
    pub per_operation: f64,
    /// For one request of the lowest layer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_request: Option<f64>,
}

impl PathView {
    /// Of one run; `None` where nothing was counted or nothing was done.
    pub fn of(measured: &Measured, speed: ProcessorSpeed, layers: &[LayerRow]) -> Option<Self> {
        let path = measured.path_length.as_ref()?;
        let each = path.per_operation(&measured.load);
        let lowest = layers.iter().skip(1).rfind(|layer| layer.requests.is_some_and(|n| n > 0));
        let of_requests = lowest
            .and_then(|layer| layer.requests)
            .map(|requests| path.per_request(requests, measured.load.elapsed_ns))
            .unwrap_or_default();
        let rows = path.instructions.iter().zip(&each).enumerate();
        let parts = rows.map(|(at, ((executor, instructions), (_, per_operation)))| PathRow {
            executor: *executor,
            instructions: *instructions,
            per_operation: *per_operation,
            per_request: of_requests.get(at).map(|(_, count)| *count),
        });
        (!each.is_empty()).then(|| Self {
            instructions_per_ns: speed.instructions_per_ns(),
            window_s: path.window_ns as f64 / 1e9,
            lowest_layer: lowest.map(|layer| layer.layer.clone()),
            parts: parts.collect(),
            together_per_operation: sum_of_parts(&each),
        })
    }
}
