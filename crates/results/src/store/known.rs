//! All measurements at a place, condensed for predictions: loads on stacks, the demands of loads, the parts of stacks,
//! and surfaces.
//!
//! Only columns are read, not whole records: a store of 100 000 runs takes seconds.

use std::collections::{BTreeMap, BTreeSet};

use nestor_statistics::geometric_mean;
use nestor_workload::SurfacePoint;
use rusqlite::Connection;

use super::places::{self, Elsewhere, KnownPlace};
use super::stacks::StackColumns;
use super::{Store, StoreError};
use crate::record::CellRecord;

/// A load on a stack.
#[derive(Clone, Debug, PartialEq)]
pub struct KnownCell {
    /// The stack, in its notation.
    pub stack: String,
    /// The load, in its notation.
    pub workload: String,
    /// Runs, by number.
    pub runs: Vec<i64>,
    /// Geometric mean of the bytes per second; 0 where nothing is moved.
    pub bytes_per_second: f64,
    /// Geometric mean of the operations per second.
    pub operations_per_second: f64,
    /// Mean time of an operation in seconds, where it is known.
    pub response_s: Option<f64>,
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
    /// Its engine and case: `fio`, `seq-read`.
    pub engine: String,
    /// See [`Self::engine`].
    pub case: String,
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

/// What a stack is made of: the name of each part and what it is.
pub type KnownStack = BTreeMap<String, String>;

/// All of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Known {
    /// Where all of it was measured.
    pub place: KnownPlace,
    /// Measurements at other places; no other field includes them.
    pub elsewhere: Vec<Elsewhere>,
    /// Loads on stacks, each pair once.
    pub cells: Vec<KnownCell>,
    /// By notation, over all stacks.
    pub loads: BTreeMap<String, KnownLoad>,
    /// By stack and load: what was seen there.
    pub loads_on: BTreeMap<(String, String), KnownLoad>,
    /// By notation.
    pub stacks: BTreeMap<String, KnownStack>,
    /// Surfaces by stack: points with their runs.
    pub surfaces: BTreeMap<String, Vec<(i64, SurfacePoint)>>,
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
            connection.execute_batch(PREFER_SETTLED)?;
            let loads_on = loads(&connection)?;
            Ok(Known {
                place,
                elsewhere,
                cells: cells(&connection)?,
                loads: over_stacks(&loads_on),
                loads_on,
                stacks: stacks(&connection)?,
                surfaces: surfaces(&connection)?,
                unsettled_cells: connection.query_row(UNSETTLED_CELLS, [], |row| row.get(0))?,
            })
        };
        read().map_err(|e| self.reading_error(&e))
    }
}

/// The place is not among the columns: a row of `runs` is as long as its record, while the other columns are in an index.
const COUNTED: &str = "
CREATE TEMP TABLE counted AS SELECT r.number AS run, r.stack, r.workload, r.started_at, coalesce(c.digest, 'run ' || r.number) AS conditions
FROM main.runs AS r LEFT JOIN main.conditions AS c ON c.run = r.number
WHERE r.outcome = 'measured' AND r.untraced_twin = 0 AND r.operations_per_second > 0
    AND r.number NOT IN (SELECT run FROM main.marks WHERE mark = 'inconsistent');
CREATE UNIQUE INDEX temp.counted_runs ON counted (run);";

const PREFER_SETTLED: &str = "
CREATE TEMP TABLE unsettled AS SELECT c.run, r.stack, r.workload FROM counted AS c JOIN main.runs AS r ON r.number = c.run
    JOIN main.workloads AS w ON w.workload = r.workload
    WHERE c.run IN (SELECT run FROM main.marks WHERE mark = 'not-steady') AND NOT (w.engine = 'iometer' AND w.load = 'surface');
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
        let (stack, workload): (String, String) = (row.get(0)?, row.get(1)?);
        if !found.last().is_some_and(|(cell, _)| cell.stack == stack && cell.workload == workload) {
            let cell = KnownCell {
                stack,
                workload,
                runs: Vec::new(),
                bytes_per_second: 0.0,
                operations_per_second: 0.0,
                response_s: None,
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
            ..cell
        }
    }
}

/// Of logarithms.
fn deviation(samples: &[f64]) -> Option<f64> {
    let logs: Vec<f64> = samples.iter().filter(|sample| **sample > 0.0).map(|sample| sample.ln()).collect();
    let degrees = logs.len().checked_sub(1).filter(|degrees| *degrees > 0)?;
    let mean = logs.iter().sum::<f64>() / logs.len() as f64;
    Some((logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / degrees as f64).sqrt())
}

/// Means over stacks of what was seen on each.
pub fn over_stacks(loads: &BTreeMap<(String, String), KnownLoad>) -> BTreeMap<String, KnownLoad> {
    let mut of_load: BTreeMap<&String, Vec<&KnownLoad>> = BTreeMap::new();
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
fn loads(connection: &Connection) -> rusqlite::Result<BTreeMap<(String, String), KnownLoad>> {
    let mut found: BTreeMap<(String, String), KnownLoad> = BTreeMap::new();
    let mut named = connection.prepare(
        "SELECT DISTINCT r.stack, w.workload, coalesce(w.engine, ''), coalesce(w.load, '')
         FROM counted JOIN main.runs AS r ON r.number = counted.run JOIN main.workloads AS w ON w.workload = r.workload",
    )?;
    let mut rows = named.query([])?;
    while let Some(row) = rows.next()? {
        let load = KnownLoad { engine: row.get(2)?, case: row.get(3)?, ..KnownLoad::default() };
        found.insert((row.get(0)?, row.get(1)?), load);
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
    say_options(connection, &mut found)?;
    Ok(found)
}

fn say_options(
    connection: &Connection,
    loads: &mut BTreeMap<(String, String), KnownLoad>,
) -> rusqlite::Result<()> {
    let mut options: BTreeMap<String, BTreeMap<String, f64>> = BTreeMap::new();
    let mut of_several_sizes = BTreeSet::new();
    let mut query = connection.prepare("SELECT workload, name, value FROM main.workload_options")?;
    let mut rows = query.query([])?;
    while let Some(row) = rows.next()? {
        let (workload, name, value): (String, String, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
        if name == "sizes" && !value.is_empty() {
            of_several_sizes.insert(workload);
        } else if let Ok(number) = value.parse::<f64>() {
            options.entry(workload).or_default().insert(name, number);
        }
    }
    for ((_, workload), load) in loads {
        let Some(options) = options.get(workload) else { continue };
        let first = |names: &[&str]| names.iter().find_map(|name| options.get(*name).copied());
        let each = first(&["depth"]).unwrap_or(1.0);
        if let Some(workers) = first(&["workers", "threads", "script:nthreads", "clients", "numjobs"]) {
            load.workers = (workers * each).clamp(1.0, 65_536.0) as u32;
        } else if options.contains_key("depth") {
            load.workers = each.clamp(1.0, 65_536.0) as u32;
        }
        load.think_ms = first(&["think"]).unwrap_or_default();
        // The options of these loads state their demand.
        if load.engine == "iometer" && load.case != "surface" {
            let share = |name: &str| options.get(name).map(|percent| percent / 100.0);
            load.read_share = share("read").unwrap_or(load.read_share);
            load.random_share = share("random").unwrap_or(load.random_share);
            // With several sizes, the option's default is not the size of a request.
            if !of_several_sizes.contains(workload) {
                load.mean_bytes = options.get("bs").copied().unwrap_or(load.mean_bytes);
            }
        }
    }
    Ok(())
}

/// A medium without the options that do not make it another one.
fn kind_of_medium(medium: &str) -> String {
    let is_kind = |part: &&str| !["size=", "sched=", "readahead="].iter().any(|name| part.starts_with(name));
    medium.split(':').filter(is_kind).collect::<Vec<_>>().join(":")
}

/// The parts of a stack by their usual names; all empty for a stack that this version does not know.
pub fn stack_parts(stack: &str) -> KnownStack {
    let parts = StackColumns::of(&stack.into());
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let bytes = |bytes: Option<i64>| bytes.map(|bytes| bytes.to_string()).unwrap_or_default();
    let with_options = |layer: &Option<String>, options: &Option<String>| {
        format!("{}:{}", text(layer), text(options)).trim_matches(':').to_owned()
    };
    let crossing = parts.crossing.as_deref().unwrap_or("none");
    let crossings = parts.crossings.map(|number| number.to_string()).unwrap_or_default();
    let named = [
        ("guest file system", with_options(&parts.guest_fs, &parts.guest_fs_options)),
        ("virtual machine", format!("{crossing}{crossings}")),
        ("cache", text(&parts.cache)),
        ("device", text(&parts.device)),
        ("asynchronous I/O", text(&parts.aio)),
        ("guest memory", bytes(parts.guest_memory_bytes)),
        ("guest scheduler", text(&parts.guest_sched)),
        ("image", with_options(&parts.image, &parts.image_options)),
        ("host file system", with_options(&parts.host_fs, &parts.host_fs_options)),
        ("host scheduler", text(&parts.host_sched)),
        // Size, scheduler and read-ahead are parts of their own.
        ("medium", kind_of_medium(&with_options(&parts.medium, &parts.medium_options))),
        ("medium size", bytes(parts.medium_bytes)),
        ("read-ahead", format!("{}/{}", text(&parts.guest_readahead), text(&parts.host_readahead))),
        // Layers without a column.
        ("other layers", parts.other_layers),
    ];
    named.map(|(name, part)| (name.to_owned(), part)).into()
}

fn stacks(connection: &Connection) -> rusqlite::Result<BTreeMap<String, KnownStack>> {
    let mut query = connection.prepare("SELECT stack FROM main.stacks")?;
    let named = query.query_map([], |row| row.get::<_, String>(0))?;
    named.map(|stack| stack.map(|stack| (stack.clone(), stack_parts(&stack)))).collect()
}

fn surfaces(connection: &Connection) -> rusqlite::Result<BTreeMap<String, Vec<(i64, SurfacePoint)>>> {
    let mut query = connection.prepare(
        "SELECT r.number, r.stack, r.record FROM counted JOIN main.runs AS r ON r.number = counted.run
         JOIN main.workloads AS w ON w.workload = r.workload WHERE w.engine = 'iometer' AND w.load = 'surface'",
    )?;
    let mut rows = query.query([])?;
    let mut found: BTreeMap<String, Vec<(i64, SurfacePoint)>> = BTreeMap::new();
    while let Some(row) = rows.next()? {
        let (run, stack, text): (i64, String, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
        let points = CellRecord::surface_points(&text).into_iter().map(|point| (run, point));
        found.entry(stack).or_default().extend(points);
    }
    Ok(found)
}
