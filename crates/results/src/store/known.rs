//! All measurements at a place, condensed for predictions: loads on stacks, the demands of loads, the parts of stacks,
//! and surfaces.
//!
//! Only columns are read, not whole records: a store of 100 000 runs takes seconds.

use std::collections::BTreeMap;

use nestor_statistics::{geometric_mean, variance};
use nestor_workload::SurfacePoint;
use rusqlite::Connection;

use super::demands::{self, KnownDemand};
use super::parts::{KnownStack, stack_parts};
use super::places::{self, Elsewhere, KnownPlace};
use super::surface_loads;
use super::{Store, StoreError};
use crate::record::CellRecord;
use crate::{WrittenStack, WrittenWorkload};

/// A load on a stack.
#[derive(Clone, Debug, PartialEq)]
pub struct KnownCell {
    /// The stack.
    pub stack: WrittenStack,
    /// The load.
    pub workload: WrittenWorkload,
    /// Runs, by number.
    pub runs: Vec<i64>,
    /// Geometric mean of the bytes per second; 0 where nothing is moved.
    pub bytes_per_second: f64,
    /// Geometric mean of the operations per second.
    pub operations_per_second: f64,
    /// Mean time of an operation in seconds, where it is known.
    pub response_s: Option<f64>,
    /// Operations per second of each run, in the order of [`Self::runs`].
    pub run_rates: Vec<f64>,
    /// Standard deviation of the logarithm of one run's rate; `None` with one run.
    pub deviation: Option<f64>,
}

impl KnownCell {
    /// Bytes per second, or operations where nothing is moved.
    pub fn rate(&self) -> f64 {
        if self.bytes_per_second > 0.0 { self.bytes_per_second } else { self.operations_per_second }
    }
}

/// What a load asks for, as the uppermost block layer saw it; means over runs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KnownLoad {
    /// Share of requests that read.
    pub read_share: f64,
    /// Share that does not start where the one before ended.
    pub random_share: f64,
    /// Mean size.
    pub mean_bytes: f64,
    /// Flushes and forced writes, as a share of the writes.
    pub flush_share: f64,
    /// Requests in flight.
    pub outstanding: f64,
    /// Requests of the block layer per second: an operation may be several of them, or none.
    pub requests_per_s: f64,
    /// Mean time of a request there, in seconds.
    pub request_s: f64,
    /// Workers with one request at a time, as its options say; 0 where they do not.
    pub workers: u32,
    /// Milliseconds between requests, as its options say.
    pub think_ms: f64,
}

/// All of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Known {
    /// Where all of it was measured.
    pub place: KnownPlace,
    /// Measurements at other places; no other field includes them.
    pub elsewhere: Vec<Elsewhere>,
    /// Loads on stacks, each pair once.
    pub cells: Vec<KnownCell>,
    /// Over all stacks.
    pub loads: BTreeMap<WrittenWorkload, KnownLoad>,
    /// By stack and load: what was seen there.
    pub loads_on: BTreeMap<(WrittenStack, WrittenWorkload), KnownLoad>,
    /// By stack and load: what an operation asked of each layer, where all of that was recorded.
    pub demands: BTreeMap<(WrittenStack, WrittenWorkload), KnownDemand>,
    /// What each stack is made of.
    pub stacks: BTreeMap<WrittenStack, KnownStack>,
    /// Surfaces by stack: points with their runs.
    pub surfaces: BTreeMap<WrittenStack, Vec<(i64, SurfacePoint)>>,
    /// Cells without a run whose throughput had settled, except surfaces, whose points are meant to differ.
    pub unsettled_cells: u32,
}

impl Store {
    /// Condenses all counted runs of a place, which is named as `--on` does: measured ones, no untraced repeats, none that violates an
    /// identity; and of a cell that has runs whose throughput had settled only those.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub fn known(&self, on: &str) -> Result<Known, StoreError> {
        let connection = self.reader()?;
        let read = || -> rusqlite::Result<Known> {
            connection.pragma_update(None, "temp_store", "MEMORY")?;
            connection.execute_batch(COUNTED)?;
            let (place, elsewhere) = places::keep_only(&connection, on)?;
            surface_loads::note(&connection)?;
            connection.execute_batch(PREFER_SETTLED)?;
            let loads_on = loads(&connection)?;
            Ok(Known {
                place,
                elsewhere,
                cells: cells(&connection)?,
                loads: over_stacks(&loads_on),
                loads_on,
                demands: demands::demands(&connection)?,
                stacks: stacks(&connection)?,
                surfaces: surfaces(&connection)?,
                unsettled_cells: connection.query_row(UNSETTLED_CELLS, [], |row| row.get(0))?,
            })
        };
        read().map_err(|e| self.reading_error(&e))
    }
}

/// Runs that depend on the same in virtual time have the same numbers, and count once: the last. The place is not among the columns: a
/// row of `runs` is as long as its record, while the other columns are in an index.
const COUNTED: &str = "
CREATE TEMP TABLE counted AS SELECT r.number AS run, r.stack, r.workload, r.started_at, coalesce(c.digest, 'run ' || r.number) AS conditions
FROM main.runs AS r LEFT JOIN main.conditions AS c ON c.run = r.number
WHERE r.outcome = 'measured' AND r.untraced_twin = 0 AND r.operations_per_second > 0
    AND r.number NOT IN (SELECT run FROM main.marks WHERE mark = 'inconsistent');
DELETE FROM temp.counted WHERE run IN (SELECT own.run FROM main.dependencies AS own JOIN main.dependencies AS same USING (digest)
    WHERE same.run > own.run AND same.run IN (SELECT run FROM temp.counted));
CREATE UNIQUE INDEX temp.counted_runs ON counted (run);";

const PREFER_SETTLED: &str = "
CREATE TEMP TABLE unsettled AS SELECT c.run, r.stack, r.workload FROM counted AS c JOIN main.runs AS r ON r.number = c.run
    JOIN main.workloads AS w ON w.workload = r.workload
    WHERE c.run IN (SELECT run FROM main.marks WHERE mark = 'not-steady') AND w.engine IS NOT NULL
        AND w.workload NOT IN (SELECT workload FROM temp.surface_loads);
CREATE UNIQUE INDEX temp.unsettled_runs ON unsettled (run);
CREATE TEMP TABLE settled AS SELECT DISTINCT r.stack, r.workload FROM counted AS c JOIN main.runs AS r ON r.number = c.run
    WHERE c.run NOT IN (SELECT run FROM unsettled);
CREATE UNIQUE INDEX temp.settled_cells ON settled (stack, workload);
DELETE FROM temp.counted WHERE run IN (SELECT u.run FROM unsettled AS u JOIN settled USING (stack, workload));";

const UNSETTLED_CELLS: &str = "
SELECT count(*) FROM (SELECT DISTINCT stack, workload FROM unsettled EXCEPT SELECT stack, workload FROM settled)";

fn cells(connection: &Connection) -> rusqlite::Result<Vec<KnownCell>> {
    let mut query = connection.prepare(
        "SELECT r.stack, r.workload, r.number, r.bytes_per_second, r.operations_per_second, o.latency_s
         FROM counted JOIN main.runs AS r ON r.number = counted.run
         LEFT JOIN (SELECT run, sum(latency_mean_ns * operations) / sum(operations) / 1e9 AS latency_s FROM main.operations
             WHERE latency_mean_ns > 0 AND operations > 0 GROUP BY run) AS o ON o.run = r.number
         ORDER BY r.stack, r.workload, r.number",
    )?;
    let mut rows = query.query([])?;
    let mut found: Vec<(KnownCell, Samples)> = Vec::new();
    while let Some(row) = rows.next()? {
        let (stack, workload): (WrittenStack, WrittenWorkload) = (row.get(0)?, row.get(1)?);
        if !found.last().is_some_and(|(cell, _)| cell.stack == stack && cell.workload == workload) {
            let cell = KnownCell {
                stack,
                workload,
                runs: Vec::new(),
                bytes_per_second: 0.0,
                operations_per_second: 0.0,
                response_s: None,
                run_rates: Vec::new(),
                deviation: None,
            };
            found.push((cell, Samples::default()));
        }
        let Some((cell, samples)) = found.last_mut() else { continue };
        cell.runs.push(row.get(2)?);
        samples.bytes.push(row.get::<_, Option<f64>>(3)?.unwrap_or_default());
        samples.operations.push(row.get(4)?);
        samples.response_s.extend(row.get::<_, Option<f64>>(5)?);
    }
    Ok(found.into_iter().map(|(cell, samples)| samples.into_cell(cell)).collect())
}

/// The runs of a cell.
#[derive(Default)]
struct Samples {
    bytes: Vec<f64>,
    operations: Vec<f64>,
    response_s: Vec<f64>,
}

impl Samples {
    fn into_cell(self, cell: KnownCell) -> KnownCell {
        KnownCell {
            bytes_per_second: geometric_mean(&self.bytes).unwrap_or_default(),
            operations_per_second: geometric_mean(&self.operations).unwrap_or_default(),
            response_s: geometric_mean(&self.response_s),
            deviation: deviation(&self.operations),
            run_rates: self.operations,
            ..cell
        }
    }
}

/// Of logarithms.
fn deviation(samples: &[f64]) -> Option<f64> {
    let logs: Vec<f64> = samples.iter().filter(|sample| **sample > 0.0).map(|sample| sample.ln()).collect();
    let mean = logs.iter().sum::<f64>() / logs.len() as f64;
    Some(variance(&logs, mean)?.sqrt())
}

/// Means over stacks of what was seen on each.
pub fn over_stacks(
    loads: &BTreeMap<(WrittenStack, WrittenWorkload), KnownLoad>,
) -> BTreeMap<WrittenWorkload, KnownLoad> {
    let mut of_load: BTreeMap<&WrittenWorkload, Vec<&KnownLoad>> = BTreeMap::new();
    loads.iter().for_each(|((_, workload), load)| of_load.entry(workload).or_default().push(load));
    let mean = |loads: &[&KnownLoad]| -> Option<KnownLoad> {
        // Loads without a recorded request say nothing of requests.
        let seen: Vec<&&KnownLoad> = loads.iter().filter(|load| load.mean_bytes > 0.0).collect();
        let average = |value: fn(&KnownLoad) -> f64| {
            seen.iter().map(|load| value(load)).sum::<f64>() / seen.len().max(1) as f64
        };
        Some(KnownLoad {
            read_share: average(|load| load.read_share),
            random_share: average(|load| load.random_share),
            mean_bytes: average(|load| load.mean_bytes),
            flush_share: average(|load| load.flush_share),
            outstanding: average(|load| load.outstanding),
            requests_per_s: average(|load| load.requests_per_s),
            request_s: average(|load| load.request_s),
            ..(*loads.first()?).clone()
        })
    };
    of_load.into_iter().filter_map(|(workload, loads)| Some((workload.clone(), mean(&loads)?))).collect()
}

/// The uppermost layer that was traced in the block layer; the options take precedence over what was recorded.
fn loads(connection: &Connection) -> rusqlite::Result<BTreeMap<(WrittenStack, WrittenWorkload), KnownLoad>> {
    let mut found: BTreeMap<(WrittenStack, WrittenWorkload), KnownLoad> = BTreeMap::new();
    let mut named = connection.prepare(
        "SELECT DISTINCT r.stack, w.workload FROM counted JOIN main.runs AS r ON r.number = counted.run JOIN main.workloads AS w ON w.workload = r.workload",
    )?;
    let mut rows = named.query([])?;
    while let Some(row) = rows.next()? {
        found.insert((row.get(0)?, row.get(1)?), KnownLoad::default());
    }
    let mut query = connection.prepare(
        "WITH top AS (
            SELECT m.run, min(m.depth) AS depth FROM main.layer_metrics AS m JOIN counted USING (run)
            WHERE m.trace_point IN ('blktrace', 'tracefs') AND m.read_issued + m.write_issued > 0 GROUP BY m.run)
         SELECT r.stack, r.workload, avg(1.0 * m.read_issued / (m.read_issued + m.write_issued)), avg(1 - m.sequential_share),
            avg(1.0 * (m.read_issued_bytes + m.write_issued_bytes) / (m.read_issued + m.write_issued)),
            avg(1.0 * (m.flushes + m.fua_writes) / max(m.write_issued, 1)),
            avg((m.read_issued + m.write_issued) / (r.elapsed_ns / 1e9)), avg(m.q2c_mean_ns / 1e9),
            avg((m.read_issued + m.write_issued) / (r.elapsed_ns / 1e9) * m.q2c_mean_ns / 1e9)
         FROM top JOIN main.layer_metrics AS m ON m.run = top.run AND m.depth = top.depth
         JOIN main.runs AS r ON r.number = top.run GROUP BY r.stack, r.workload",
    )?;
    let mut rows = query.query([])?;
    while let Some(row) = rows.next()? {
        let number = |i: usize| Ok::<f64, rusqlite::Error>(row.get::<_, Option<f64>>(i)?.unwrap_or_default());
        let load = found.entry((row.get(0)?, row.get(1)?)).or_default();
        load.read_share = number(2)?;
        load.random_share = number(3)?;
        load.mean_bytes = number(4)?;
        load.flush_share = number(5)?.min(1.0);
        load.requests_per_s = number(6)?;
        load.request_s = number(7)?;
        load.outstanding = number(8)?;
    }
    found.iter_mut().for_each(|((_, workload), load)| state_demand(workload, load));
    Ok(found)
}

/// What the options of a load state takes precedence over what was recorded.
fn state_demand(workload: &WrittenWorkload, load: &mut KnownLoad) {
    let Some(workload) = workload.value() else { return };
    let demand = workload.demand();
    if let Some(workers) = demand.workers {
        load.workers = workers.clamp(1, 65_536) as u32;
    }
    load.think_ms = demand.think_ms.unwrap_or_default();
    load.read_share = demand.read_share.unwrap_or(load.read_share);
    load.random_share = demand.random_share.unwrap_or(load.random_share);
    load.mean_bytes = demand.request_bytes.map_or(load.mean_bytes, |bytes| bytes as f64);
}

fn stacks(connection: &Connection) -> rusqlite::Result<BTreeMap<WrittenStack, KnownStack>> {
    let mut query = connection.prepare("SELECT stack FROM main.stacks")?;
    let named = query.query_map([], |row| row.get::<_, WrittenStack>(0))?;
    named.map(|stack| stack.map(|stack| (stack.clone(), stack_parts(&stack)))).collect()
}

fn surfaces(connection: &Connection) -> rusqlite::Result<BTreeMap<WrittenStack, Vec<(i64, SurfacePoint)>>> {
    let mut query = connection.prepare(
        "SELECT r.number, r.stack, r.record FROM counted JOIN main.runs AS r ON r.number = counted.run
         WHERE r.workload IN (SELECT workload FROM temp.surface_loads)",
    )?;
    let mut rows = query.query([])?;
    let mut found: BTreeMap<WrittenStack, Vec<(i64, SurfacePoint)>> = BTreeMap::new();
    while let Some(row) = rows.next()? {
        let (run, stack, text): (i64, WrittenStack, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
        let points = CellRecord::surface_points(&text).into_iter().map(|point| (run, point));
        found.entry(stack).or_default().extend(points);
    }
    Ok(found)
}
