//! What the program of a load says of the processor that each of its tests took: `nestor run`.

use nestor_results::Measured;
use serde::Serialize;

/// A class of operations whose program measured its processor time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ProcessorTimeRow {
    /// The class.
    pub class: String,
    /// Operations.
    pub operations: u64,
    /// Operations in a second of their own time.
    pub operations_per_second: f64,
    /// Bytes in a second of their own time; `None` where they move none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_per_second: Option<f64>,
    /// Processor time in per cent of their time; above 100 with several threads.
    pub cpu_percent: f64,
    /// Processor time of one, in nanoseconds; `None` without operations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_per_operation_ns: Option<f64>,
}

impl ProcessorTimeRow {
    /// Of each class of a run; empty where the program says nothing of it.
    pub(super) fn all_of(measured: &Measured) -> Vec<Self> {
        let run_ns = measured.load.elapsed_ns;
        let rows = measured.load.operations.iter().filter_map(|(class, done)| {
            Some(Self {
                class: class.0.clone(),
                operations: done.operations,
                operations_per_second: done.operations_per_second(run_ns),
                bytes_per_second: (done.bytes > 0).then(|| done.bytes_per_second(run_ns)),
                cpu_percent: done.cpu_percent?,
                cpu_per_operation_ns: done.cpu_ns_per_operation(run_ns),
            })
        });
        rows.collect()
    }
}
