//! What one operation of a load asks of each layer of its stack, for predictions: instructions of the modelled processor, requests and
//! flushes at the uppermost block layer and at the disk, and the disk's service.
//!
//! Only columns are read, not whole records.

use std::collections::BTreeMap;

use rusqlite::Connection;

use crate::path_length::Executor;
use crate::{WrittenStack, WrittenWorkload};

/// What an operation asks for, mean over the runs of a cell. A cell has one if all of it was recorded in one of its runs: in virtual
/// time, on a modelled disk.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KnownDemand {
    /// Instructions of an operation, by whose they are.
    pub instructions: BTreeMap<Executor, f64>,
    /// Requests with data of an operation at the uppermost block layer.
    pub top_requests: f64,
    /// Those of them that write.
    pub top_writes: f64,
    /// Flushes of an operation at the uppermost block layer, alone or before data.
    pub top_flushes: f64,
    /// Requests with data of an operation at the disk.
    pub disk_requests: f64,
    /// Flushes of an operation at the disk.
    pub disk_flushes: f64,
    /// Seconds of an operation in which the disk served requests with data, without the time in its queue.
    pub data_s: f64,
    /// Seconds of an operation in which it served flushes: seeks, rotation and transfer of what they waited for.
    pub flush_s: f64,
}

/// Runs with their numbers of one operation at the uppermost block layer and at the disk; of one machine, both are the same device.
const LEVELS: &str = "
WITH ends AS (
    SELECT m.run, min(CASE WHEN m.trace_point IN ('blktrace', 'tracefs') THEN m.depth END) AS top,
        max(CASE WHEN m.trace_point = 'disk-log' THEN m.depth END) AS disk
    FROM main.layer_metrics AS m JOIN counted USING (run) GROUP BY m.run)
SELECT r.number, r.stack, r.workload, r.operations_per_second * r.elapsed_ns / 1e9, t.read_issued + t.write_issued,
    d.read_issued + d.write_issued, d.flushes, coalesce(d.d2c_mean_ns, 0) / 1e9 * (d.read_issued + d.write_issued),
    (d.seek_ns + d.rotation_ns + d.transfer_ns + d.overhead_ns) / 1e9, t.write_issued, t.flushes + t.fua_writes
FROM ends AS e JOIN main.layer_metrics AS t ON t.run = e.run AND t.depth = e.top
    JOIN main.layer_metrics AS d ON d.run = e.run AND d.depth = e.disk JOIN main.runs AS r ON r.number = e.run
WHERE r.elapsed_ns > 0 AND d.seek_ns IS NOT NULL";

const INSTRUCTIONS: &str = "SELECT i.run, i.executor, i.per_operation FROM main.instructions AS i JOIN counted USING (run) WHERE i.per_operation > 0";

/// By stack and load.
pub(super) fn demands(
    connection: &Connection,
) -> rusqlite::Result<BTreeMap<(WrittenStack, WrittenWorkload), KnownDemand>> {
    let mut instructions: BTreeMap<i64, BTreeMap<Executor, f64>> = BTreeMap::new();
    let mut query = connection.prepare(INSTRUCTIONS)?;
    let mut rows = query.query([])?;
    while let Some(row) = rows.next()? {
        let name: String = row.get(1)?;
        if let Some(executor) = Executor::of_stored(&name) {
            instructions.entry(row.get(0)?).or_default().insert(executor, row.get(2)?);
        }
    }
    let mut of_cells: BTreeMap<(WrittenStack, WrittenWorkload), Vec<KnownDemand>> = BTreeMap::new();
    let mut query = connection.prepare(LEVELS)?;
    let mut rows = query.query([])?;
    while let Some(row) = rows.next()? {
        let Some(instructions) = instructions.remove(&row.get::<_, i64>(0)?) else { continue };
        let operations: f64 = row.get(3)?;
        if operations <= 0.0 {
            continue;
        }
        let of_operation =
            |column: usize| Ok::<f64, rusqlite::Error>(row.get::<_, f64>(column)? / operations);
        let data_s = of_operation(7)?;
        let demand = KnownDemand {
            instructions,
            top_requests: of_operation(4)?,
            top_writes: of_operation(9)?,
            top_flushes: of_operation(10)?,
            disk_requests: of_operation(5)?,
            disk_flushes: of_operation(6)?,
            data_s,
            // The parts are of all requests, flushes included.
            flush_s: (of_operation(8)? - data_s).max(0.0),
        };
        of_cells.entry((row.get(1)?, row.get(2)?)).or_default().push(demand);
    }
    Ok(of_cells.into_iter().map(|(cell, runs)| (cell, mean(&runs))).collect())
}

fn mean(runs: &[KnownDemand]) -> KnownDemand {
    let mean_of =
        |value: &dyn Fn(&KnownDemand) -> f64| runs.iter().map(value).sum::<f64>() / runs.len().max(1) as f64;
    let instructions = |executor: Executor| {
        let counted = runs.iter().any(|run| run.instructions.contains_key(&executor));
        counted.then(|| {
            let of_run = |run: &KnownDemand| run.instructions.get(&executor).copied().unwrap_or_default();
            (executor, mean_of(&of_run))
        })
    };
    KnownDemand {
        instructions: Executor::ALL.into_iter().filter_map(instructions).collect(),
        top_requests: mean_of(&|run| run.top_requests),
        top_writes: mean_of(&|run| run.top_writes),
        top_flushes: mean_of(&|run| run.top_flushes),
        disk_requests: mean_of(&|run| run.disk_requests),
        disk_flushes: mean_of(&|run| run.disk_flushes),
        data_s: mean_of(&|run| run.data_s),
        flush_s: mean_of(&|run| run.flush_s),
    }
}
