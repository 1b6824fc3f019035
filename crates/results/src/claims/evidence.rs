//! The tables for the queries of claims and figures: the counted runs of one study as temporary tables and views.
//!
//! | name | one row for each |
//! |---|---|
//! | `cell` | counted run: the latest measured one of a cell, without violated identities, on one side of every change point |
//! | `latest` | latest measured run of a cell, whatever its marks and wherever it lies: for rows about the checks themselves |
//! | `apart` | the same as `cell` of a part of the study that is compared with nothing, and may be recorded otherwise; `cell` has none of these |
//! | `twin` | cell that ran traced and untraced |
//! | `raw_disk` | `cell` of a guest on the raw disk, in the cache mode that is asked about |
//! | `pair` | `cell` of a nested stack with the raw disk of the same guest, workload and block |
//! | `operation` | class of operations of a `cell`, with its own time and processor time |
//! | `layer` | layer of a `cell`, with its level: `guest`, `host`, `disk` |
//! | `class` | purpose of a layer's requests |
//! | `seek` | step of the distribution of a layer's seek distances |
//! | `surface` | point of the surface that a `cell` measured |
//! | `surface_fit`, `surface_error` | point of the whole grid, estimated from the measured ones; run, with the error of that estimate when points are left out |
//! | `surface_check` | whole grid and part of it, with the error of the part on the rest |
//! | `surface_pair` | `surface` point of a virtual machine with the native one of the same workload, medium and block |
//! | `surface_ratio` | the same over the whole grid; points that were not measured are estimated from the others |
//! | `stack_parts`, `load_options`, `setting` | stack, workload option, setting of the study's runs |
//!
//! `half` parts the blocks of a study in two: an extreme (the best host) is chosen on one half and judged on the other, for the best of
//! many is the best by chance as well.
//!
//! The connection cannot write to the file, and queries cannot write at all.

use std::collections::BTreeSet;

use rusqlite::{Connection, params};

use super::changes::{self, Parted};
use super::coverage::FileSystems;
use super::functions::add_functions;
use super::run_facts::RunFacts;
use super::surfaces;
use crate::store::{Store, StoreError, StudyRecord};

/// A connection on which a study's tables are laid out.
pub(crate) struct Evidence {
    connection: Connection,
    /// The cache modes in which guests ran on the raw disk, the one that counts first.
    modes: Vec<String>,
    confidence: f64,
    parted: Vec<Parted>,
    runs: RunFacts,
    file_systems: FileSystems,
}

/// The paper that these queries were made for set write-through everywhere.
const FIRST_MODE: &str = "writethrough";

impl Evidence {
    /// Lays out the tables, with the raw disk in the first of [`Self::modes`].
    pub fn new(store: &Store, study: &StudyRecord) -> Result<Self, StoreError> {
        let connection = store.reader()?;
        let failed = |e: rusqlite::Error| store.reading_error(&e);
        let confidence = study.study.confidence();
        add_functions(&connection, confidence).map_err(failed)?;
        let parted = lay_out(&connection, study).map_err(failed)?;
        let modes = cache_modes(&connection).map_err(failed)?;
        let runs = RunFacts::read(&connection).map_err(failed)?;
        let file_systems = FileSystems::read(&connection).map_err(failed)?;
        let evidence = Self { connection, modes, confidence, parted, runs, file_systems };
        let first = evidence.modes.first().cloned().unwrap_or_else(|| FIRST_MODE.to_owned());
        evidence.choose(&first).map_err(failed)?;
        Ok(evidence)
    }

    /// The cache modes in which guests ran on the raw disk, the one that counts first.
    pub fn modes(&self) -> &[String] {
        &self.modes
    }

    /// The confidence of the study's intervals, 0 to 1.
    pub fn confidence(&self) -> f64 {
        self.confidence
    }

    /// What is known of every run of the file.
    pub(super) fn runs(&self) -> &RunFacts {
        &self.runs
    }

    /// The file systems of every counted run.
    pub(super) fn file_systems(&self) -> &FileSystems {
        &self.file_systems
    }

    /// What of some blocks is left out, for these runs.
    ///
    /// # Errors
    ///
    /// If one of them is not in the file (see [`RunFacts::unknown_run`]), or the file cannot be read.
    pub fn left_out(&self, runs: &BTreeSet<i64>) -> rusqlite::Result<Vec<String>> {
        if self.parted.is_empty() {
            return Ok(Vec::new());
        }
        let mut workload =
            self.connection.prepare_cached("SELECT workload FROM main.runs WHERE number = ?")?;
        let workload_of = |run: &i64| workload.query_row([run], |row| row.get::<_, String>(0));
        let workloads: BTreeSet<String> = runs.iter().map(workload_of).collect::<Result<_, _>>()?;
        let parted = self.parted.iter().filter(|parted| workloads.contains(&parted.workload));
        Ok(parted.map(|parted| parted.said.clone()).collect())
    }

    /// What is left out of any workload.
    pub fn all_left_out(&self) -> Vec<String> {
        self.parted.iter().map(|parted| parted.said.clone()).collect()
    }

    /// Makes `raw_disk` and `pair` those of a cache mode.
    pub fn choose(&self, mode: &str) -> rusqlite::Result<()> {
        self.connection.pragma_update(None, "query_only", false)?;
        self.connection.execute_batch(DROP_CHOICE)?;
        self.connection.execute(RAW_DISK, [mode])?;
        self.connection.execute_batch(PAIR)?;
        self.connection.pragma_update(None, "query_only", true)
    }

    /// The connection, which only reads.
    pub fn connection(&self) -> &Connection {
        &self.connection
    }
}

/// The names that [`Evidence`] offers.
pub(crate) const TABLES: [&str; 21] = [
    "cell",
    "latest",
    "apart",
    "twin",
    "raw_disk",
    "pair",
    "operation",
    "layer",
    "class",
    "seek",
    "life",
    "state",
    "surface",
    "surface_pair",
    "surface_ratio",
    "surface_fit",
    "surface_error",
    "surface_check",
    "stack_parts",
    "load_options",
    "setting",
];

fn lay_out(connection: &Connection, study: &StudyRecord) -> rusqlite::Result<Vec<Parted>> {
    // Where temporary tables are kept: they are small, and the folder for temporary files may be full.
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    connection.execute_batch(
        "CREATE TEMP TABLE latest (run INTEGER PRIMARY KEY);
        CREATE TEMP TABLE counted (run INTEGER PRIMARY KEY, apart INTEGER NOT NULL DEFAULT 0)",
    )?;
    connection.execute(LATEST, params![study.hash])?;
    connection.execute(COUNTED, [])?;
    set_apart(connection, study)?;
    let parted = changes::leave_out(connection, study)?;
    connection.execute_batch(EVERY)?;
    for (table, apart) in [("cell", 0), ("apart", 1)] {
        connection.execute(&format!("CREATE TEMP TABLE {table} AS {CELLS}"), [apart])?;
    }
    connection.execute_batch(LAID_OUT)?;
    connection.execute_batch(INDEXES)?;
    connection.execute_batch(VIEWS)?;
    surfaces::lay_out(connection)?;
    Ok(parted)
}

/// Notes which runs are of parts that are compared with nothing.
fn set_apart(connection: &Connection, record: &StudyRecord) -> rusqlite::Result<()> {
    let mut set = connection.prepare(
        "UPDATE temp.counted SET apart = 1 WHERE run IN (SELECT number FROM main.runs WHERE study_hash = ? AND stack = ? AND workload = ?)",
    )?;
    for part in record.study.parts.iter().filter(|part| part.apart) {
        for stack in &part.stacks {
            for workload in &part.workloads {
                set.execute(params![record.hash, stack, workload])?;
            }
        }
    }
    Ok(())
}

fn cache_modes(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let found: BTreeSet<String> = connection
        .prepare("SELECT DISTINCT cache FROM cell WHERE kind = 'raw-disk' AND plain AND cache IS NOT NULL")?
        .query_map([], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    let mut modes: Vec<String> = found.into_iter().collect();
    modes.sort_by_key(|mode| mode != FIRST_MODE);
    Ok(modes)
}

/// The latest measured run of each cell, and of each untraced repeat.
const LATEST: &str = "
INSERT INTO temp.latest (run)
SELECT max(number) FROM main.runs WHERE study_hash = ?1 AND outcome = 'measured'
GROUP BY stack, workload, block, repeat, untraced_twin";

/// Of those, not the ones with a violated identity. A row that tests an identity reads `latest`, where they still are.
const COUNTED: &str = "
INSERT INTO temp.counted (run)
SELECT latest.run FROM temp.latest
WHERE NOT EXISTS (SELECT 1 FROM main.marks AS m WHERE m.run = latest.run AND m.mark = 'inconsistent')";

/// The columns on what a run recorded follow its record in `runs`, so they are read from an index instead.
///
/// `plain`: nothing but the file systems and, of the raw disk, the cache mode differs from most stacks of the study; a file system
/// has the options that it has in most of them.
const EVERY: &str = "
CREATE TEMP TABLE stack_parts AS
SELECT s.*,
    CASE WHEN is_beside(s.stack) THEN 'beside' WHEN s.crossing IS NULL THEN 'native' WHEN s.host_fs IS NULL THEN 'raw-disk'
        ELSE 'nested' END AS kind,
    partition_start(s.stack) AS partition_start, xen_domain(s.stack) AS domain,
    coalesce(s.crossing, '') || '|' || coalesce(s.device, '') || '|' || coalesce(s.aio, '') || '|'
        || coalesce(s.guest_memory_bytes, '') || '|' || coalesce(s.machine_options, '') || '|' || coalesce(s.guest_sched, '') || '|'
        || coalesce(s.guest_readahead, '') || '|' || coalesce(s.medium, '') || '|' || coalesce(s.medium_options, '')
        || '|' || coalesce(partition_start(s.stack), '') || '|' || coalesce(xen_domain(s.stack), '') AS common,
    coalesce(s.cache, '') || '|' || coalesce(s.image, '') || '|' || coalesce(s.image_options, '') AS nesting
FROM main.stacks AS s
WHERE s.stack IN (SELECT r.stack FROM counted JOIN main.runs AS r ON r.number = run);
CREATE TEMP TABLE plain_stack AS
SELECT p.stack FROM stack_parts AS p
WHERE coalesce(p.guest_fs_options, '') = (SELECT coalesce(q.guest_fs_options, '') FROM stack_parts AS q
        WHERE q.guest_fs IS p.guest_fs GROUP BY 1 ORDER BY count(*) DESC, 1 LIMIT 1)
    AND coalesce(p.host_fs_options, '') = (SELECT coalesce(q.host_fs_options, '') FROM stack_parts AS q
        WHERE q.host_fs IS p.host_fs GROUP BY 1 ORDER BY count(*) DESC, 1 LIMIT 1)
    AND p.common = (SELECT common FROM stack_parts GROUP BY common ORDER BY count(*) DESC, common LIMIT 1)
    AND (p.kind <> 'nested' OR p.nesting = (SELECT nesting FROM stack_parts WHERE kind = 'nested'
        GROUP BY nesting ORDER BY count(*) DESC, nesting LIMIT 1));";

/// The rows of `cell` and, where it is 1, of `apart`.
const CELLS: &str = "
SELECT r.number AS run, r.block, r.block % 2 AS half, r.repeat, t.untraced_twin, r.stack, r.workload, p.kind,
    p.guest_fs AS guest, p.host_fs AS host, p.guest_fs_options AS guest_options, p.host_fs_options AS host_options,
    p.crossing, p.cache, p.device, p.guest_sched, p.host_sched, p.image, p.image_options, p.medium, p.medium_options,
    p.guest_memory_bytes, p.machine_options, p.partition_start, p.domain,
    p.stack IN (SELECT stack FROM plain_stack) AS plain,
    w.engine, w.load, w.options AS load_options,
    CASE WHEN r.bytes_per_second > 0 THEN r.bytes_per_second / 1e6 ELSE r.operations_per_second END AS throughput,
    r.bytes_per_second / 1e6 AS mb_per_s, r.operations_per_second AS ops_per_s,
    o.latency_ms, o.bytes, o.operations,
    r.elapsed_ns / 1e9 AS elapsed_s, r.host_cpu_busy, l.cpu_user_s + l.cpu_system_s AS engine_cpu_s,
    l.working_set_bytes, l.scale_factor, l.engine AS engine_version, t.trace, r.ground,
    EXISTS (SELECT 1 FROM main.marks AS k WHERE k.run = counted.run) AS marked
FROM counted
JOIN main.runs AS t INDEXED BY runs_recorded ON t.number = counted.run
JOIN main.runs AS r ON r.number = counted.run
JOIN stack_parts AS p ON p.stack = r.stack
LEFT JOIN main.workloads AS w ON w.workload = r.workload
LEFT JOIN main.loads AS l ON l.run = r.number
LEFT JOIN (SELECT run, sum(bytes) AS bytes, sum(operations) AS operations,
        sum(latency_mean_ns * operations) FILTER (WHERE latency_mean_ns > 0 AND operations > 0)
            / sum(operations) FILTER (WHERE latency_mean_ns > 0 AND operations > 0) / 1e6 AS latency_ms
    FROM main.operations WHERE run IN (SELECT run FROM temp.counted WHERE apart = ?1) GROUP BY run) AS o ON o.run = r.number
WHERE t.untraced_twin = 0 AND counted.apart = ?1";

/// The runs of both, of which other tables of the file have rows. A list that each query makes of them takes longer than most queries.
const LAID_OUT: &str = "
CREATE TEMP TABLE laid_out (run INTEGER PRIMARY KEY);
INSERT INTO laid_out SELECT run FROM cell UNION SELECT run FROM apart;";

const INDEXES: &str = "
CREATE UNIQUE INDEX temp.cell_by_run ON cell (run);
CREATE INDEX temp.cell_by_parts ON cell (workload, guest, block);
CREATE INDEX temp.cell_by_load ON cell (load, guest, host);";

const VIEWS: &str = "
CREATE TEMP VIEW twin AS
SELECT c.run, t.number AS twin_run, c.block, c.guest, c.host, c.kind, c.load, c.stack, c.workload, c.plain,
    c.host_cpu_busy AS traced_cpu, t.host_cpu_busy AS untraced_cpu,
    c.mb_per_s AS traced_mb_per_s, t.bytes_per_second / 1e6 AS untraced_mb_per_s
FROM cell AS c JOIN main.runs AS t
    ON t.stack = c.stack AND t.workload = c.workload AND t.block = c.block AND t.repeat = c.repeat
WHERE t.untraced_twin = 1 AND t.number IN (SELECT run FROM counted);
CREATE TEMP VIEW operation AS
SELECT o.run, o.class, o.operations, o.bytes, coalesce(o.elapsed_ns / 1e9, c.elapsed_s) AS elapsed_s,
    o.bytes / 1e6 / nullif(coalesce(o.elapsed_ns / 1e9, c.elapsed_s), 0) AS mb_per_s,
    o.operations / nullif(coalesce(o.elapsed_ns / 1e9, c.elapsed_s), 0) AS ops_per_s,
    o.cpu_percent, o.cpu_per_operation_ns / 1e6 AS cpu_per_operation_ms,
    c.block, c.half, c.repeat, c.kind, c.domain, c.guest, c.host, c.crossing, c.cache, c.machine_options, c.guest_memory_bytes,
    c.engine, c.load, c.stack, c.workload, c.plain, c.marked
FROM cell AS c JOIN main.operations AS o ON o.run = c.run;
CREATE TEMP VIEW layer AS
SELECT m.*,
    CASE WHEN m.trace_point = 'disk-log' THEN 'disk' WHEN m.trace_point = 'hypervisor' THEN 'hypervisor'
        WHEN m.trace_point IN ('blktrace', 'tracefs') THEN m.machine END AS level,
    m.read_queued + m.write_queued AS queued, m.read_issued + m.write_issued AS issued,
    m.read_merges + m.write_merges AS merges,
    m.read_issued_bytes + m.write_issued_bytes AS issued_bytes,
    c.block, c.guest, c.host, c.kind, c.cache, c.load, c.stack, c.workload, c.plain,
    c.bytes AS load_bytes, c.operations AS load_operations, c.marked
FROM cell AS c JOIN main.layer_metrics AS m ON m.run = c.run
WHERE m.trace_point IS NOT NULL;
CREATE TEMP VIEW class AS
SELECT k.run, k.depth, k.class, k.requests, k.read_bytes, k.write_bytes, k.read_bytes + k.write_bytes AS bytes,
    k.class IN ('journal', 'inode', 'directory', 'allocation-map', 'extent-map', 'superblock', 'other-metadata',
        'mixed-metadata') AS extra,
    CASE WHEN m.trace_point = 'disk-log' THEN 'disk' WHEN m.trace_point = 'hypervisor' THEN 'hypervisor'
        WHEN m.trace_point IN ('blktrace', 'tracefs') THEN m.machine END AS level,
    c.block, c.guest, c.host, c.kind, c.cache, c.load, c.stack, c.workload, c.plain, c.bytes AS load_bytes, c.marked
FROM cell AS c JOIN main.layer_classes AS k ON k.run = c.run
JOIN main.layer_metrics AS m ON m.run = k.run AND m.depth = k.depth;
CREATE TEMP VIEW seek AS
SELECT s.run, s.depth, s.percent, s.distance_share,
    CASE WHEN m.trace_point = 'disk-log' THEN 'disk' WHEN m.trace_point = 'hypervisor' THEN 'hypervisor'
        WHEN m.trace_point IN ('blktrace', 'tracefs') THEN m.machine END AS level,
    c.block, c.guest, c.host, c.kind, c.cache, c.load, c.stack, c.workload, c.plain, c.marked
FROM cell AS c JOIN main.seeks AS s ON s.run = c.run
JOIN main.layer_metrics AS m ON m.run = s.run AND m.depth = s.depth;
CREATE TEMP VIEW life AS
SELECT i.run, i.instance, link_bits_per_s(c.stack) AS link_bits_per_s, i.image_bytes, i.whole_s, i.unaccounted_s, i.first_process_s, i.hello_s, i.node,
    (SELECT count(*) FROM main.lives AS n WHERE n.run = i.run) AS instances,
    (SELECT count(DISTINCT n.node) FROM main.lives AS n WHERE n.run = i.run) AS nodes,
    c.block, c.half, c.repeat, c.kind, c.guest, c.host, c.crossing, c.image, c.image_options, c.medium, c.medium_options,
    c.load_options, c.working_set_bytes, c.stack, c.workload, c.plain, c.marked
FROM cell AS c JOIN main.lives AS i ON i.run = c.run;
CREATE TEMP VIEW state AS
SELECT s.*, link_bits_per_s(c.stack) AS link_bits_per_s, i.image_bytes, i.whole_s, i.node,
    (SELECT count(*) FROM main.lives AS n WHERE n.run = i.run) AS instances,
    (SELECT count(DISTINCT n.node) FROM main.lives AS n WHERE n.run = i.run) AS nodes, c.block, c.half, c.repeat, c.kind, c.guest, c.host, c.crossing, c.image, c.image_options, c.medium,
    c.medium_options, c.load_options, c.working_set_bytes, c.stack, c.workload, c.plain, c.marked
FROM cell AS c JOIN main.states AS s ON s.run = c.run JOIN main.lives AS i ON i.run = s.run AND i.instance = s.instance;
CREATE TEMP VIEW load_options AS
SELECT w.engine, w.load, w.workload, w.files, w.file_bytes, w.bytes, w.scale_factor, o.name, o.value
FROM main.workloads AS w JOIN main.workload_options AS o ON o.workload = w.workload
WHERE w.workload IN (SELECT workload FROM cell UNION SELECT workload FROM apart);
CREATE TEMP VIEW setting AS
SELECT e.run, e.kind, e.name, e.value FROM laid_out CROSS JOIN main.environment AS e ON e.run = laid_out.run;";

const DROP_CHOICE: &str = "DROP TABLE IF EXISTS temp.pair; DROP TABLE IF EXISTS temp.raw_disk;";

const RAW_DISK: &str = "
CREATE TEMP TABLE raw_disk AS SELECT * FROM cell WHERE kind = 'raw-disk' AND plain AND cache = ?1";

/// The baseline runs at both ends of a block count as one, by their geometric mean.
const PAIR: &str = "
CREATE TEMP TABLE pair AS
SELECT c.run, min(b.run) AS baseline_run, c.block, c.half, c.guest, c.host, c.engine, c.load, c.workload, c.stack,
    geomean(b.throughput) AS baseline, c.throughput AS candidate, c.throughput / geomean(b.throughput) AS relative,
    geomean(b.latency_ms) AS baseline_latency_ms, c.latency_ms AS candidate_latency_ms,
    c.latency_ms / geomean(b.latency_ms) AS relative_latency, max(c.marked, max(b.marked)) AS marked
FROM cell AS c JOIN raw_disk AS b ON b.guest = c.guest AND b.workload = c.workload AND b.block = c.block
WHERE c.kind = 'nested' AND c.plain
GROUP BY c.run;";
