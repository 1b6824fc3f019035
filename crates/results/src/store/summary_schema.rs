//! The tables of what is computed of a study's runs, and the views by which other programs read them.
//!
//! The views are plain joins, because other programs do not only read them with SQLite: DuckDB's extension takes their text and plans it
//! itself. Nothing is computed in them: a column that is has no declared type, and some programs then take it for bytes.

/// What version 18 adds. Studies that are there are summed up when the file is opened for writing.
pub(super) const VERSION_18: &str = "
ALTER TABLE studies ADD COLUMN scale TEXT;  -- NULL: its file offers no sizes
ALTER TABLE studies ADD COLUMN ground TEXT; -- the place where it runs
UPDATE studies SET scale = json_extract(record, '$.study.scale'), ground = json_extract(record, '$.ground')
WHERE json_valid(record);
CREATE TABLE outdated (
    study_hash TEXT NOT NULL,
    run INTEGER NOT NULL,           -- that the study's rows in the next three tables do not know; 0: none of them do
    PRIMARY KEY (study_hash, run)
) STRICT, WITHOUT ROWID;
CREATE TABLE cells (
    study_hash TEXT NOT NULL,
    stack TEXT NOT NULL,
    workload TEXT NOT NULL,
    is_baseline INTEGER NOT NULL,   -- 0 or 1
    is_apart INTEGER NOT NULL,      -- 0 or 1: compared with nothing
    runs INTEGER NOT NULL,          -- that count
    failed INTEGER NOT NULL,
    inconsistent INTEGER NOT NULL,  -- that do not count
    first_started_at TEXT, last_started_at TEXT, -- NULL: no run
    throughput REAL,                -- geometric mean; NULL: no numbers
    throughput_low REAL, throughput_high REAL, -- 95 %; NULL: too few runs
    throughput_unit TEXT,
    variation REAL,                 -- standard deviation over mean
    life_s REAL, life_low_s REAL, life_high_s REAL,
    latency_class TEXT, latency_p50_ns INTEGER, latency_p90_ns INTEGER, latency_p99_ns INTEGER, latency_max_ns INTEGER,
    marks TEXT,                     -- names with spaces between
    PRIMARY KEY (study_hash, workload, stack)
) STRICT, WITHOUT ROWID;
CREATE TABLE comparisons (
    study_hash TEXT NOT NULL,
    stack TEXT NOT NULL,
    workload TEXT NOT NULL,
    baseline TEXT NOT NULL,
    ratio REAL,
    ratio_low REAL, ratio_high REAL, ratio_pairs INTEGER,
    ratio_confidence REAL,          -- 0 to 1; NULL: no interval
    change_percent REAL, change_low_percent REAL, change_high_percent REAL, -- the ratio in other words
    bootstrap_low REAL, bootstrap_high REAL, -- 95 %
    paired INTEGER NOT NULL,        -- 0 or 1
    first_block INTEGER, last_block INTEGER, -- NULL: all blocks
    told TEXT,                      -- faster, slower, equal, not-told-apart, without-interval; NULL: no ratio
    decision TEXT,                  -- of the stopping rule; NULL: the study has none
    life_ratio REAL, life_ratio_low REAL, life_ratio_high REAL,
    doubts TEXT,                    -- one a line
    PRIMARY KEY (study_hash, workload, stack)
) STRICT, WITHOUT ROWID;
CREATE TABLE pairs (
    study_hash TEXT NOT NULL,
    stack TEXT NOT NULL,
    workload TEXT NOT NULL,
    block INTEGER NOT NULL,
    baseline TEXT NOT NULL,
    run INTEGER NOT NULL,
    baseline_run INTEGER NOT NULL,
    baseline_repeat_run INTEGER,    -- the second of a block with sentinels
    throughput REAL NOT NULL,
    baseline_throughput REAL NOT NULL, -- geometric mean of both
    throughput_unit TEXT NOT NULL,
    ratio REAL NOT NULL,
    is_compared INTEGER NOT NULL,   -- 0 or 1: 0 on the other side of a change point
    PRIMARY KEY (study_hash, workload, stack, block)
) STRICT, WITHOUT ROWID;
INSERT INTO outdated (study_hash, run) SELECT hash, 0 FROM studies;
CREATE VIEW cell AS
SELECT studies.name AS study, studies.scale AS scale, studies.ground AS ground, cells.*
FROM cells JOIN studies ON studies.hash = cells.study_hash
WHERE cells.study_hash NOT IN (SELECT outdated.study_hash FROM outdated);
CREATE VIEW comparison AS
SELECT studies.name AS study, studies.scale AS scale, studies.ground AS ground, comparisons.*
FROM comparisons JOIN studies ON studies.hash = comparisons.study_hash
WHERE comparisons.study_hash NOT IN (SELECT outdated.study_hash FROM outdated);
CREATE VIEW pair AS
SELECT studies.name AS study, studies.scale AS scale, studies.ground AS ground, pairs.*
FROM pairs JOIN studies ON studies.hash = pairs.study_hash
WHERE pairs.study_hash NOT IN (SELECT outdated.study_hash FROM outdated);
";

/// What version 20 adds: the latencies of cells, so that a report does not merge those of every run again; and the place of a run beside
/// what it recorded, since a row of `runs` is as long as its record.
pub(super) const VERSION_20: &str = "
CREATE TABLE cell_latencies (
    study_hash TEXT NOT NULL,
    stack TEXT NOT NULL,
    workload TEXT NOT NULL,
    class TEXT NOT NULL,            -- class of operation
    operations INTEGER NOT NULL,    -- of all runs of the cell that count, merged
    mean_ns REAL NOT NULL,
    min_ns INTEGER NOT NULL, p50_ns INTEGER NOT NULL, p90_ns INTEGER NOT NULL, p99_ns INTEGER NOT NULL, max_ns INTEGER NOT NULL,
    PRIMARY KEY (study_hash, workload, stack, class)
) STRICT, WITHOUT ROWID;
INSERT OR IGNORE INTO outdated (study_hash, run) SELECT hash, 0 FROM studies UNION ALL SELECT hash, 0 FROM commands;
DROP INDEX runs_recorded;
CREATE INDEX runs_recorded ON runs (number, untraced_twin, trace, ground);
";

/// What version 23 changes: the latency of a cell is that of the class that took most time, no longer of the one with most operations.
pub(super) const VERSION_23: &str = "
INSERT OR IGNORE INTO outdated (study_hash, run) SELECT hash, 0 FROM studies UNION ALL SELECT hash, 0 FROM commands;
";
