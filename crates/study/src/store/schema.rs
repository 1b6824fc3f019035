//! The tables, and how an older file becomes a newer one.

use rusqlite::{Connection, TransactionBehavior};

/// Marks a SQLite file as Nestor's: "NSTR" in ASCII.
pub(super) const APPLICATION_ID: i64 = 0x4e53_5452;

/// Each step turns a file of version N, its index, into one of version N + 1. Steps are never changed, only added.
const MIGRATIONS: [&str; 2] = ["
CREATE TABLE studies (
    hash TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    record TEXT NOT NULL            -- StudyRecord as JSON
) STRICT;
CREATE TABLE runs (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,        -- SHA-256 of the record
    study TEXT,
    study_hash TEXT,
    stack TEXT NOT NULL,
    workload TEXT NOT NULL,
    block INTEGER NOT NULL,
    repeat INTEGER NOT NULL,
    position INTEGER NOT NULL,
    started_at TEXT NOT NULL,       -- RFC 3339, UTC
    cell_s REAL NOT NULL,
    outcome TEXT NOT NULL CHECK (outcome IN ('measured', 'failed')),
    failure TEXT,
    ground TEXT NOT NULL,
    elapsed_ns INTEGER,
    bytes_per_second REAL,
    operations_per_second REAL,
    host_cpu_busy REAL,             -- 0 to 1
    record TEXT NOT NULL            -- CellRecord as JSON: the whole truth; all else is for queries
) STRICT;
CREATE INDEX runs_by_cell ON runs (stack, workload);
CREATE INDEX runs_by_study ON runs (study_hash, stack, workload, block, repeat);
CREATE TABLE samples (
    run INTEGER NOT NULL REFERENCES runs (number) ON DELETE CASCADE,
    class TEXT NOT NULL,            -- class of operation
    second INTEGER NOT NULL,        -- from 0
    bytes INTEGER NOT NULL,
    PRIMARY KEY (run, class, second)
) STRICT, WITHOUT ROWID;
CREATE TABLE operations (
    run INTEGER NOT NULL REFERENCES runs (number) ON DELETE CASCADE,
    class TEXT NOT NULL,
    operations INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    latency_mean_ns REAL, latency_p50_ns INTEGER, latency_p90_ns INTEGER, latency_p99_ns INTEGER, latency_max_ns INTEGER,
    PRIMARY KEY (run, class)
) STRICT, WITHOUT ROWID;
CREATE TABLE layer_metrics (
    run INTEGER NOT NULL REFERENCES runs (number) ON DELETE CASCADE,
    depth INTEGER NOT NULL,         -- 0 is the application
    layer TEXT NOT NULL,
    role TEXT NOT NULL,
    machine TEXT NOT NULL,
    trace_point TEXT,               -- NULL: nothing was recorded at this layer
    read_queued INTEGER, read_queued_bytes INTEGER, read_issued INTEGER, read_issued_bytes INTEGER,
    read_completed INTEGER, read_completed_bytes INTEGER, read_merges INTEGER,
    write_queued INTEGER, write_queued_bytes INTEGER, write_issued INTEGER, write_issued_bytes INTEGER,
    write_completed INTEGER, write_completed_bytes INTEGER, write_merges INTEGER,
    flushes INTEGER, fua_writes INTEGER, flushes_queued INTEGER, fua_writes_queued INTEGER, sequential_share REAL, dropped_events INTEGER, span_s REAL,
    q2i_p50_ns INTEGER, q2i_p99_ns INTEGER, i2d_p50_ns INTEGER, i2d_p99_ns INTEGER, q2d_p50_ns INTEGER, q2d_p99_ns INTEGER,
    d2c_p50_ns INTEGER, d2c_p99_ns INTEGER, q2c_p50_ns INTEGER, q2c_p99_ns INTEGER,
    flush_d2c_p50_ns INTEGER, flush_d2c_p99_ns INTEGER,
    seek_ns INTEGER, rotation_ns INTEGER, transfer_ns INTEGER, overhead_ns INTEGER, cache_hits INTEGER,
    PRIMARY KEY (run, depth)
) STRICT, WITHOUT ROWID;
CREATE TABLE histograms (
    run INTEGER NOT NULL REFERENCES runs (number) ON DELETE CASCADE,
    depth INTEGER NOT NULL,
    name TEXT NOT NULL,             -- latency:CLASS, q2i, i2d, q2d, d2c, q2c, flush_d2c
    histogram TEXT NOT NULL,        -- HdrHistogram V2 compressed, base64
    PRIMARY KEY (run, depth, name)
) STRICT, WITHOUT ROWID;
CREATE TABLE request_sizes (
    run INTEGER NOT NULL REFERENCES runs (number) ON DELETE CASCADE,
    depth INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    requests INTEGER NOT NULL,
    PRIMARY KEY (run, depth, bytes)
) STRICT, WITHOUT ROWID;
CREATE TABLE environment (
    run INTEGER NOT NULL REFERENCES runs (number) ON DELETE CASCADE,
    kind TEXT NOT NULL CHECK (kind IN ('package', 'setting', 'machine')),
    name TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (run, kind, name)
) STRICT, WITHOUT ROWID;
CREATE TABLE marks (
    run INTEGER NOT NULL REFERENCES runs (number) ON DELETE CASCADE,
    place INTEGER NOT NULL,
    mark TEXT NOT NULL,
    detail TEXT NOT NULL,
    PRIMARY KEY (run, place)
) STRICT, WITHOUT ROWID;
", "
ALTER TABLE runs ADD COLUMN trace TEXT NOT NULL DEFAULT 'layers';
ALTER TABLE runs ADD COLUMN untraced_twin INTEGER NOT NULL DEFAULT 0 CHECK (untraced_twin IN (0, 1));
"];

/// The version this program writes.
pub(super) const VERSION: i64 = MIGRATIONS.len() as i64;

/// What a file is before anything is done to it.
pub(super) enum Kind {
    /// No tables at all: a new store may be made of it.
    Empty,
    /// A store of this version.
    Store(i64),
    /// Some other program's database.
    Foreign,
}

/// Looks at a file without changing it.
pub(super) fn kind(connection: &Connection) -> rusqlite::Result<Kind> {
    // One view of the file for all three: another program may be making it at this moment.
    let connection = connection.unchecked_transaction()?;
    let application: i64 = connection.query_row("PRAGMA application_id", [], |row| row.get(0))?;
    let version: i64 = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    let objects: i64 = connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    Ok(match application {
        APPLICATION_ID => Kind::Store(version),
        0 if objects == 0 && version == 0 => Kind::Empty,
        _ => Kind::Foreign,
    })
}

/// Brings a file that [`kind`] accepted to the present version. Two programs may do so at once.
pub(super) fn migrate(connection: &mut Connection) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let version: i64 = transaction.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    for step in MIGRATIONS.iter().skip(version.max(0) as usize) {
        transaction.execute_batch(step)?;
    }
    if version < VERSION {
        transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
        transaction.pragma_update(None, "user_version", VERSION)?;
    }
    transaction.commit()
}
