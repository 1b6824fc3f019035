//! The tables, and how an older file becomes a newer one.

use rusqlite::{Connection, TransactionBehavior};

use super::{commands, lives, rows, stacks, summary_schema};

/// Marks a SQLite file as Nestor's: "NSTR" in ASCII.
pub(super) const APPLICATION_ID: i64 = 0x4e53_5452;

/// What fills the tables of a step from what is there.
type Fill = fn(&Connection) -> rusqlite::Result<()>;

/// Each step turns a file of version N, its index, into one of version N + 1. Steps are never changed, only added.
const MIGRATIONS: [(&str, Option<Fill>); 24] = [
    (VERSION_1, None),
    (VERSION_2, None),
    (VERSION_3, Some(rows::backfill)),
    (VERSION_4, None),
    (VERSION_5, None),
    (VERSION_6, Some(rows::backfill_instructions)),
    (VERSION_7, Some(stacks::backfill_machine_options)),
    (VERSION_8, Some(rows::backfill_machines_and_marks)),
    (VERSION_9, None),
    (VERSION_10, None),
    (VERSION_11, None),
    (VERSION_12, None),
    (VERSION_13, Some(rows::backfill_processor_time)),
    // What these added is filled with what a later version made of it.
    (VERSION_14, None),
    (VERSION_15, None),
    (VERSION_16, None),
    (VERSION_17, None),
    // What it adds is filled when the file is opened for writing: `summaries`.
    (summary_schema::VERSION_18, None),
    (commands::VERSION_19, None),
    (summary_schema::VERSION_20, None),
    (VERSION_21, Some(lives::backfill)),
    (commands::VERSION_22, None),
    (summary_schema::VERSION_23, None),
    (VERSION_24, None),
];

const VERSION_1: &str = "
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
";

const VERSION_2: &str = "
ALTER TABLE runs ADD COLUMN trace TEXT NOT NULL DEFAULT 'layers';
ALTER TABLE runs ADD COLUMN untraced_twin INTEGER NOT NULL DEFAULT 0 CHECK (untraced_twin IN (0, 1));
";

const VERSION_3: &str = "
CREATE TABLE stacks (               -- every stack that was run, taken apart
    stack TEXT PRIMARY KEY,
    guest_fs TEXT,                  -- file system that the application uses; the host's in a native stack
    guest_fs_options TEXT,          -- as written, '' without any
    crossing TEXT,                  -- kvm, tcg, ...; NULL: native
    crossings INTEGER,              -- how many machines are within one another
    cache TEXT, device TEXT, aio TEXT,
    guest_memory_bytes INTEGER,
    guest_sched TEXT,               -- NULL: the kernel's choice
    guest_readahead TEXT,
    image TEXT, image_options TEXT, -- NULL: the guest's disk is no image
    host_fs TEXT, host_fs_options TEXT, -- file system below the first crossing; NULL: raw disk or native
    host_sched TEXT, host_readahead TEXT,
    medium TEXT, medium_options TEXT, medium_bytes INTEGER
) STRICT, WITHOUT ROWID;
CREATE TABLE workloads (            -- every workload that was run, taken apart
    workload TEXT PRIMARY KEY,
    engine TEXT,                    -- fio, wml, ...
    load TEXT,                      -- seq-read, fileserver, ...
    options TEXT,                   -- as written, '' without any
    files INTEGER, file_bytes INTEGER, bytes INTEGER,
    scale_factor REAL               -- 1: as published
) STRICT, WITHOUT ROWID;
CREATE TABLE workload_options (     -- written or by default; sizes in bytes, times in seconds
    workload TEXT NOT NULL REFERENCES workloads (workload) ON DELETE CASCADE,
    name TEXT NOT NULL,             -- script:NAME for what a script sets itself
    value TEXT NOT NULL,
    PRIMARY KEY (workload, name)
) STRICT, WITHOUT ROWID;
CREATE TABLE loads (
    run INTEGER PRIMARY KEY REFERENCES runs (number) ON DELETE CASCADE,
    engine TEXT NOT NULL,           -- with its version
    working_set_bytes INTEGER NOT NULL,
    scale_factor REAL NOT NULL,     -- 1: as published
    cpu_user_s REAL NOT NULL, cpu_system_s REAL NOT NULL
) STRICT;
CREATE TABLE layer_classes (        -- what the requests of a layer were for
    run INTEGER NOT NULL REFERENCES runs (number) ON DELETE CASCADE,
    depth INTEGER NOT NULL,
    class TEXT NOT NULL,            -- file-data, journal, inode, ...
    requests INTEGER NOT NULL, read_bytes INTEGER NOT NULL, write_bytes INTEGER NOT NULL,
    PRIMARY KEY (run, depth, class)
) STRICT, WITHOUT ROWID;
CREATE TABLE seeks (                -- distribution of the distances between issued requests
    run INTEGER NOT NULL REFERENCES runs (number) ON DELETE CASCADE,
    depth INTEGER NOT NULL,
    percent INTEGER NOT NULL,       -- of the seeks are not longer than
    distance_share REAL NOT NULL,   -- this share (0 to 1) of the range of sectors that was used
    PRIMARY KEY (run, depth, percent)
) STRICT, WITHOUT ROWID;
CREATE TABLE conditions (           -- so that runs can be compared without reading their records
    run INTEGER PRIMARY KEY REFERENCES runs (number) ON DELETE CASCADE,
    digest TEXT NOT NULL            -- from the SHA-256 of place, machines, packages and remarks: equal where these are
) STRICT;
-- Holds all that a report asks of a run, since a row of runs is as long as its record.
CREATE INDEX IF NOT EXISTS runs_in_numbers ON runs (study_hash, stack, workload, block, repeat, untraced_twin, outcome,
    position, started_at, cell_s, elapsed_ns, bytes_per_second, operations_per_second);
ALTER TABLE layer_metrics ADD COLUMN q2i_mean_ns REAL;
ALTER TABLE layer_metrics ADD COLUMN i2d_mean_ns REAL;
ALTER TABLE layer_metrics ADD COLUMN q2d_mean_ns REAL;
ALTER TABLE layer_metrics ADD COLUMN d2c_mean_ns REAL;
ALTER TABLE layer_metrics ADD COLUMN q2c_mean_ns REAL;
ALTER TABLE layer_metrics ADD COLUMN seek_mean_sectors REAL;
ALTER TABLE layer_metrics ADD COLUMN seek_median_sectors INTEGER;
ALTER TABLE layer_metrics ADD COLUMN seek_span_sectors INTEGER;
ALTER TABLE layer_metrics ADD COLUMN times_checked INTEGER;  -- requests for which Q2I + I2D + D2C was held against Q2C
ALTER TABLE layer_metrics ADD COLUMN times_wrong INTEGER;    -- of them, those for which it does not hold
";

/// Latencies of operations in a table of their own: a report reads those of every run, and between the histograms of all
/// layers they lay ten times as far apart.
const VERSION_4: &str = "
CREATE TABLE latencies (
    run INTEGER NOT NULL REFERENCES runs (number) ON DELETE CASCADE,
    class TEXT NOT NULL,            -- class of operation
    histogram TEXT NOT NULL,        -- HdrHistogram V2 compressed, base64; nanoseconds
    PRIMARY KEY (run, class)
) STRICT, WITHOUT ROWID;
INSERT INTO latencies SELECT run, substr(name, length('latency:') + 1), histogram FROM histograms WHERE name LIKE 'latency:%';
DELETE FROM histograms WHERE name LIKE 'latency:%';
";

/// How much a run recorded. The columns follow the record, so reading them from the table reads the whole record: claims on
/// 100 000 runs took ten seconds for it.
const VERSION_5: &str = "CREATE INDEX runs_recorded ON runs (number, untraced_twin, trace);";

/// What runs in virtual time depend on, and what the modelled processor did for them.
const VERSION_6: &str = "
CREATE TABLE dependencies (
    run INTEGER PRIMARY KEY REFERENCES runs (number) ON DELETE CASCADE,
    digest TEXT NOT NULL            -- SHA-256 of all that decides its numbers
) STRICT;
CREATE INDEX runs_by_dependencies ON dependencies (digest);
CREATE TABLE instructions (
    run INTEGER NOT NULL REFERENCES runs (number) ON DELETE CASCADE,
    executor TEXT NOT NULL,         -- application, guest kernel, hypervisor, host kernel
    instructions INTEGER NOT NULL,
    window_ns INTEGER NOT NULL,     -- virtual time in which they were executed, while I/O ran
    per_operation REAL,             -- of the application; NULL: it did none
    PRIMARY KEY (run, executor)
) STRICT, WITHOUT ROWID;
";

/// Options of the virtual machine without a column of their own: processors, an I/O thread, memory that is available.
const VERSION_7: &str = "ALTER TABLE stacks ADD COLUMN machine_options TEXT;";

/// How long a load ran in real time: in virtual time that is not what its own clock says. What nothing may read out of words: the
/// machines of a run, and what a mark is about.
const VERSION_8: &str = "
ALTER TABLE loads ADD COLUMN real_s REAL;
ALTER TABLE marks ADD COLUMN about TEXT NOT NULL DEFAULT '';
CREATE TABLE machines (
    run INTEGER NOT NULL REFERENCES runs (number) ON DELETE CASCADE,
    machine TEXT NOT NULL,          -- host, guest, ...
    kernel TEXT NOT NULL,
    cpu_model TEXT NOT NULL,
    cpus INTEGER NOT NULL,
    memory_bytes INTEGER NOT NULL,
    accelerator TEXT NOT NULL,      -- what executes its instructions
    PRIMARY KEY (run, machine)
) STRICT, WITHOUT ROWID;
";

/// What went over networks: calls of network file systems, counted at both ends, and frames, counted by the link.
const VERSION_9: &str = "
CREATE TABLE rpc (
    run INTEGER NOT NULL REFERENCES runs (number) ON DELETE CASCADE,
    depth INTEGER NOT NULL,         -- of the network file system, as in layers
    end TEXT NOT NULL CHECK (end IN ('client', 'server')),
    procedure TEXT NOT NULL,        -- WRITE, GETATTR, ...; at a server of version 4, an operation
    calls INTEGER NOT NULL,
    sent_bytes INTEGER NOT NULL,    -- of calls; a server does not count them
    received_bytes INTEGER NOT NULL, -- of replies
    response_ms INTEGER NOT NULL,   -- from calls to replies, summed up
    PRIMARY KEY (run, depth, end, procedure)
) STRICT, WITHOUT ROWID;
CREATE TABLE links (
    run INTEGER NOT NULL REFERENCES runs (number) ON DELETE CASCADE,
    depth INTEGER NOT NULL,         -- of the network file system, as in layers
    toward TEXT NOT NULL CHECK (toward IN ('client', 'server')),
    frames INTEGER NOT NULL,        -- on the wire
    bytes INTEGER NOT NULL,         -- without preamble, check sequence and gap
    lost INTEGER NOT NULL,
    PRIMARY KEY (run, depth, toward)
) STRICT, WITHOUT ROWID;
";

/// What became of the frames of a link. Of earlier runs, those that were refused were not told apart by direction.
const VERSION_10: &str = "
ALTER TABLE links ADD COLUMN refused INTEGER; -- could not be taken or given; NULL: not kept
CREATE TABLE frames (               -- from the link's log
    run INTEGER NOT NULL REFERENCES runs (number) ON DELETE CASCADE,
    depth INTEGER NOT NULL,         -- of the link, as in layers
    toward TEXT NOT NULL CHECK (toward IN ('client', 'server')),
    frames INTEGER NOT NULL,        -- on the wire
    bytes INTEGER NOT NULL,         -- without preamble, check sequence and gap
    wire_bytes INTEGER NOT NULL,    -- with them
    tcp_bytes INTEGER NOT NULL,     -- data of TCP segments
    lost INTEGER NOT NULL,
    refused INTEGER NOT NULL,
    sendings INTEGER NOT NULL,      -- frames, or TCP segments that became several
    bits_per_second REAL,           -- on the wire; NULL: in no time
    busy_ns INTEGER NOT NULL,       -- in which the wire was taken
    queue_mean_ns REAL, queue_p50_ns INTEGER, queue_p99_ns INTEGER, -- of a sending, in the interface
    wire_mean_ns REAL, wire_p50_ns INTEGER, wire_p99_ns INTEGER,    -- from the first bit to the last
    delivery_mean_ns REAL, delivery_p50_ns INTEGER, delivery_p99_ns INTEGER, -- from its arrival until the machine had it
    dropped INTEGER NOT NULL,       -- not in the log, of both directions: all counts are lower bounds
    PRIMARY KEY (run, depth, toward)
) STRICT, WITHOUT ROWID;
";

/// How the time of calls of network file systems divides. Of earlier runs, calls were only counted.
const VERSION_11: &str = "
CREATE TABLE call_times (           -- from the calls as both ends recorded them
    run INTEGER NOT NULL REFERENCES runs (number) ON DELETE CASCADE,
    depth INTEGER NOT NULL,         -- of the network file system, as in layers
    procedure TEXT NOT NULL,        -- as the client calls it: WRITE, GETATTR, ...
    calls INTEGER NOT NULL,
    read_bytes INTEGER NOT NULL, written_bytes INTEGER NOT NULL, -- contents of files
    queue_mean_ns REAL, queue_p50_ns INTEGER, queue_p99_ns INTEGER,          -- at the client, until it is sent
    response_mean_ns REAL, response_p50_ns INTEGER, response_p99_ns INTEGER, -- until its reply is there
    wire_mean_ns REAL, wire_p50_ns INTEGER, wire_p99_ns INTEGER,             -- of the response, the way there and back
    server_mean_ns REAL, server_p50_ns INTEGER, server_p99_ns INTEGER,       -- of the response, at the server
    after_mean_ns REAL, after_p50_ns INTEGER, after_p99_ns INTEGER,          -- from the reply until the client was done
    dropped INTEGER NOT NULL,       -- events that are missing, of all procedures: all counts are lower bounds
    PRIMARY KEY (run, depth, procedure)
) STRICT, WITHOUT ROWID;
";

/// Where servers of network file systems read and wrote in files, and what TCP sent again. Of earlier runs, only how much in all.
const VERSION_12: &str = "
ALTER TABLE frames ADD COLUMN tcp_again_bytes INTEGER; -- of tcp_bytes, sent before; NULL: not known
CREATE TABLE file_accesses (        -- of calls, at the server; of a loop device there, writes to its image
    run INTEGER NOT NULL REFERENCES runs (number) ON DELETE CASCADE,
    depth INTEGER NOT NULL,         -- of the network file system, or of the loop device, as in layers
    kind TEXT NOT NULL CHECK (kind IN ('read', 'write')),
    accesses INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    files INTEGER NOT NULL,
    sequential INTEGER NOT NULL,    -- accesses that continue where the last one of the same file ended
    seek_mean_bytes REAL,           -- from the end of the last one of the same file; NULL: no file had two
    dropped INTEGER NOT NULL,       -- events that are missing: all counts are lower bounds
    PRIMARY KEY (run, depth, kind)
) STRICT, WITHOUT ROWID;
CREATE TABLE file_access_sizes (
    run INTEGER NOT NULL REFERENCES runs (number) ON DELETE CASCADE,
    depth INTEGER NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('read', 'write')),
    size_bytes INTEGER NOT NULL,    -- the greatest power of two that is not more; 0 for nothing
    accesses INTEGER NOT NULL,
    PRIMARY KEY (run, depth, kind, size_bytes)
) STRICT, WITHOUT ROWID;
";

/// The time that classes of operations had for themselves, and what of a processor they took, where the program of the load says so.
const VERSION_13: &str = "
ALTER TABLE operations ADD COLUMN elapsed_ns INTEGER;       -- NULL: they went on all the time of the run
ALTER TABLE operations ADD COLUMN cpu_percent REAL;         -- of that time, as the program says it
ALTER TABLE operations ADD COLUMN cpu_per_operation_ns REAL;
";

/// What instances of a cloud went through. States may be added, so that no list of them is part of the table.
const VERSION_14: &str = "
CREATE TABLE lives (                -- of instances
    run INTEGER NOT NULL REFERENCES runs (number) ON DELETE CASCADE,
    instance INTEGER NOT NULL,      -- from 0, in the order in which they were asked for
    image_bytes INTEGER NOT NULL,   -- of the image's file at the repository
    whole_s REAL NOT NULL,          -- from the request to the end of the last state, without the laboratory's own time
    unaccounted_s REAL NOT NULL,    -- by which the states together differ from that
    first_process_s REAL,           -- of the boot, until the first process of the virtual machine began; NULL: not known
    hello_s REAL NOT NULL,          -- of the boot, until its agent answered
    PRIMARY KEY (run, instance)
) STRICT, WITHOUT ROWID;
CREATE TABLE states (
    run INTEGER NOT NULL REFERENCES runs (number) ON DELETE CASCADE,
    instance INTEGER NOT NULL,      -- as in lives
    state TEXT NOT NULL,            -- pending, transfer, boot, running, shutdown, cleanup
    begin_s REAL NOT NULL,          -- since the instance was asked for
    seconds REAL NOT NULL,          -- without the laboratory's own time
    own_s REAL NOT NULL,            -- the laboratory's own time
    from_repository_bytes INTEGER NOT NULL, -- of the frames that the repository sent
    to_repository_bytes INTEGER NOT NULL,
    link_busy REAL NOT NULL,        -- 0 to 1: in which the repository's frames were on the wire
    node_read_bytes INTEGER, node_written_bytes INTEGER, node_busy_s REAL, -- of its disk; NULL: not counted
    repository_read_bytes INTEGER, repository_written_bytes INTEGER, repository_busy_s REAL,
    node_cpu_busy REAL, repository_cpu_busy REAL, -- 0 to 1; NULL: not counted
    instructions INTEGER,           -- of the node's processor, its guests included; NULL: not in virtual time, or running
    PRIMARY KEY (run, instance, state)
) STRICT, WITHOUT ROWID;
";

/// Of several instances of one image, how long each waited for the others.
const VERSION_15: &str =
    "ALTER TABLE states ADD COLUMN waited_s REAL NOT NULL DEFAULT 0; -- at its end, for other instances";

/// Runs that were saved under a name.
const VERSION_16: &str = "
CREATE TABLE baselines (
    name TEXT NOT NULL,
    run INTEGER NOT NULL REFERENCES runs (number) ON DELETE CASCADE,
    PRIMARY KEY (name, run)
) STRICT, WITHOUT ROWID;
";

/// What a manager does not count is missing, and not 0. Both tables are to be filled again from the records.
const VERSION_17: &str = "
DROP TABLE states;
DROP TABLE lives;
CREATE TABLE lives (                -- of instances
    run INTEGER NOT NULL REFERENCES runs (number) ON DELETE CASCADE,
    instance INTEGER NOT NULL,      -- from 0, in the order in which they were asked for
    image_bytes INTEGER,            -- of the image's file at the repository; NULL: a manager's instance
    whole_s REAL NOT NULL,          -- from the request to the end of the last state, without the laboratory's own time
    unaccounted_s REAL NOT NULL,    -- by which the states together differ from that
    first_process_s REAL,           -- of the boot, until the first process of the virtual machine began; NULL: not known
    hello_s REAL,                   -- of the boot, until its agent answered; NULL: it has none
    PRIMARY KEY (run, instance)
) STRICT, WITHOUT ROWID;
CREATE TABLE states (
    run INTEGER NOT NULL REFERENCES runs (number) ON DELETE CASCADE,
    instance INTEGER NOT NULL,      -- as in lives
    state TEXT NOT NULL,            -- pending, transfer, boot, running, shutdown, cleanup
    begin_s REAL NOT NULL,          -- since the instance was asked for
    seconds REAL NOT NULL,          -- without the laboratory's own time and without waiting
    own_s REAL NOT NULL,            -- the laboratory's own time
    waited_s REAL NOT NULL,         -- at its end, for other instances
    from_repository_bytes INTEGER,  -- of the frames that the repository sent; NULL: not counted
    to_repository_bytes INTEGER,
    link_busy REAL,                 -- 0 to 1: in which the repository's frames were on the wire; NULL: not counted
    node_read_bytes INTEGER, node_written_bytes INTEGER, node_busy_s REAL, -- of its disk; NULL: not counted
    repository_read_bytes INTEGER, repository_written_bytes INTEGER, repository_busy_s REAL,
    node_cpu_busy REAL, repository_cpu_busy REAL, -- 0 to 1; NULL: not counted
    instructions INTEGER,           -- of the node's processor, its guests included; NULL: not in virtual time, or running
    PRIMARY KEY (run, instance, state)
) STRICT, WITHOUT ROWID;
";

/// On which of several nodes an instance was.
const VERSION_21: &str = "ALTER TABLE lives ADD COLUMN node INTEGER NOT NULL DEFAULT 0; -- from 0";

/// How long the arms of a medium were at work. Runs from before it was counted do not have it.
const VERSION_24: &str = "
ALTER TABLE layer_metrics ADD COLUMN arm_seek_ns INTEGER;
ALTER TABLE layer_metrics ADD COLUMN arm_rotation_ns INTEGER;
ALTER TABLE layer_metrics ADD COLUMN arm_transfer_ns INTEGER;
";

/// The version this program writes.
pub(super) const VERSION: i64 = MIGRATIONS.len() as i64;

/// What a file is before it is changed.
pub(super) enum Kind {
    /// No tables at all: a new store may be made of it.
    Empty,
    /// A store of this version.
    Store(i64),
    /// Another program's database.
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
    for (step, fill) in MIGRATIONS.iter().skip(version.max(0) as usize) {
        transaction.execute_batch(step)?;
        if let Some(fill) = fill {
            fill(&transaction)?;
        }
    }
    if version < VERSION {
        transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
        transaction.pragma_update(None, "user_version", VERSION)?;
    }
    transaction.commit()
}

/// Makes a file as a program of an earlier version did.
#[cfg(test)]
pub(crate) fn of_version(connection: &Connection, version: usize) -> rusqlite::Result<()> {
    for (step, _) in &MIGRATIONS[..version] {
        connection.execute_batch(step)?;
    }
    connection.pragma_update(None, "application_id", APPLICATION_ID)?;
    connection.pragma_update(None, "user_version", version as i64)
}
