//! The file that keeps results: SQLite, with one row per run and tables for every number worth a query.
//!
//! Several processes may write at once (write-ahead log, and a wait for the other's lock; on a file system that several
//! machines share, a rollback journal, because such a log works on one machine only). A run is written in one
//! transaction, so a killed process leaves whole runs only. A run is named by the hash of its content, so that
//! files of several machines merge without clashes; its number is only local to a file.

mod baselines;
mod cells;
mod commands;
mod conditions;
mod copy;
mod demands;
mod dependencies;
mod error;
mod known;
mod links;
mod lives;
mod made_log;
mod merge;
mod network;
mod parts;
mod places;
mod progress;
mod query;
mod reader;
mod rows;
mod schema;
mod stacks;
mod summaries;
mod summary_rows;
mod summary_schema;
pub(crate) mod surface_loads;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;
use rusqlite::{Connection, OpenFlags, OptionalExtension, TransactionBehavior, params};
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

pub(crate) use conditions::conditions;
pub use demands::KnownDemand;
pub use error::StoreError;
pub use known::{Known, KnownCell, KnownLoad};
use made_log::MadeLog;
pub use merge::{MergeReport, UnlikeRun};
pub use parts::{KnownStack, StackPart, stack_parts};
pub use places::{Elsewhere, KnownPlace};
pub use query::{RunFilter, RunListing};
#[cfg(test)]
pub(crate) use schema::of_version;

use crate::record::{CellRecord, Outcome};
use crate::{Study, WrittenPlace};

/// The longest text or blob of a results file; a record is a text, of some 100 KiB.
pub(crate) const LONGEST_VALUE_BYTES: i32 = 64 << 20;

/// How long to wait for another process to finish writing; one run takes milliseconds.
const BUSY_TIMEOUT: Duration = Duration::from_secs(30);

/// Instructions of SQLite's machine that one statement may be made of; the largest of ours has some thousand.
const MOST_INSTRUCTIONS: i32 = 100_000;
/// Files that a statement may attach: a copy is made by attaching it.
const MOST_ATTACHED: i32 = 1;

/// An open results file.
#[derive(Debug)]
pub struct Store {
    connection: Connection,
    /// The log that reading the file has made. It is removed after the connection is closed.
    made_log: Option<MadeLog>,
    path: PathBuf,
    /// The copy that is read in place of a file of an older version. It is removed after the connection is closed.
    copy: Option<Arc<TempDir>>,
}

/// A run as read back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StoredRun {
    /// Its number in this file.
    pub number: i64,
    /// Its name in every file.
    pub id: String,
    /// What was measured.
    pub record: CellRecord,
}

/// A study as it was started, kept so that a report can name what is missing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StudyRecord {
    /// [`Study::hash`] with the ground.
    pub hash: String,
    /// Where it runs: `emulated`, `this`, `ssh:HOST`.
    pub ground: WrittenPlace,
    /// The study.
    pub study: Study,
    /// Whether its plan has sentinels.
    pub sentinels: bool,
    /// Why it stopped before its end, such as `budget of 5 min ended`; `None` while it runs and after it finished.
    pub ended_early: Option<String>,
    /// When it was worked on, the first time first.
    #[serde(default)]
    pub sessions: Vec<SessionRecord>,
}

/// One time that a study was worked on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SessionRecord {
    /// When it began: RFC 3339, UTC.
    pub began_at: String,
    /// Cells of the whole study as it was then, finished ones among them; `None` of sessions of before this was kept.
    #[serde(default)]
    pub study_cells: Option<usize>,
    /// Cells that were left to be run, at least and at most.
    pub planned_cells: (usize, usize),
    /// Seconds that they were to take, at least and at most.
    pub planned_s: (f64, f64),
    /// Cells that were run.
    pub cells: usize,
    /// Seconds that they took; `None` if it was killed.
    pub elapsed_s: Option<f64>,
    /// Seconds in which the loads of its cells ran, one added to the other.
    #[serde(alias = "measured_s")]
    pub load_s: f64,
}

impl Store {
    /// Opens a results file for reading and writing; creates it, and its folder, if it does not exist.
    ///
    /// # Errors
    ///
    /// If the file cannot be opened or written, is damaged, is not Nestor's, or is a newer Nestor's.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        if let Some(folder) = path.parent().filter(|f| !f.as_os_str().is_empty()) {
            std::fs::create_dir_all(folder)
                .map_err(|e| StoreError::CannotOpen { path: path.to_owned(), reason: e.to_string() })?;
        }
        let began = Instant::now();
        loop {
            match Self::open_now(path, network::file_system_of(path)) {
                // SQLite does not wait by itself while another process makes the file a WAL one.
                Err(StoreError::Locked { .. }) if began.elapsed() < BUSY_TIMEOUT => {
                    std::thread::sleep(Duration::from_millis(20));
                }
                result => return result,
            }
        }
    }

    fn open_now(path: &Path, shared: Option<&'static str>) -> Result<Self, StoreError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
        let mut store = Self::connect(path, flags)?;
        if shared.is_some() {
            // A file that has a log from elsewhere is then read without the memory that machines do not share.
            store
                .on(|c| c.query_row("PRAGMA locking_mode = EXCLUSIVE", [], |row| row.get::<_, String>(0)))?;
        }
        // The kind is asked before anything is written: a foreign file stays untouched.
        store.require_readable()?;
        store.on(|c| {
            c.pragma_update(None, "foreign_keys", true)?;
            if shared.is_none() {
                c.query_row("PRAGMA journal_mode = WAL", [], |row| row.get::<_, String>(0))?;
                return c.pragma_update(None, "synchronous", "NORMAL");
            }
            c.query_row("PRAGMA journal_mode = DELETE", [], |row| row.get::<_, String>(0))?;
            c.query_row("PRAGMA locking_mode = NORMAL", [], |row| row.get::<_, String>(0))?;
            c.pragma_update(None, "synchronous", "FULL")?;
            // The lock is given up at the next access.
            c.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))
        })?;
        schema::migrate(&mut store.connection).map_err(|e| StoreError::from_sqlite(path, &e))?;
        match store.sum_up_outdated() {
            // The views leave out what is not summed up, and who adds results is told that there is no room.
            Ok(()) | Err(StoreError::Full { .. }) => Ok(store),
            Err(e) => Err(e),
        }
    }

    /// Opens a results file for reading only. The file is not changed, and nothing is left beside it: one of an older version is read
    /// from a copy.
    ///
    /// # Errors
    ///
    /// As [`Self::open`], and if the file does not exist.
    pub fn open_read_only(path: &Path) -> Result<Self, StoreError> {
        if !path.exists() {
            return Err(StoreError::Missing { path: path.to_owned() });
        }
        Self::open_read_only_on(path, network::file_system_of(path))
    }

    fn open_read_only_on(path: &Path, shared: Option<&'static str>) -> Result<Self, StoreError> {
        if let Some(file_system) = shared.filter(|_| network::has_write_ahead_log(path)) {
            return Err(StoreError::LogOnNetwork { path: path.to_owned(), file_system });
        }
        let made_log = MadeLog::before_opening(path);
        let opened = Self::connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY).and_then(|mut store| {
            store.made_log = made_log;
            store.with_version()
        });
        match opened {
            Ok((store, Some(schema::VERSION))) => Ok(store),
            Ok((store, _)) => store.copied(),
            Err(e @ (StoreError::CannotOpen { .. } | StoreError::ReadOnly { .. })) => {
                Self::of_read_only_folder(path)?.ok_or(e)
            }
            Err(e) => Err(e),
        }
    }

    fn with_version(self) -> Result<(Self, Option<i64>), StoreError> {
        let version = self.require_readable()?;
        Ok((self, version))
    }

    fn connect(path: &Path, flags: OpenFlags) -> Result<Self, StoreError> {
        let connection = Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)
            .map_err(|e| StoreError::from_sqlite(path, &e))?;
        let store = Self { connection, made_log: None, path: path.to_owned(), copy: None };
        store.on(|c| {
            c.busy_timeout(BUSY_TIMEOUT)?;
            c.set_limit(Limit::SQLITE_LIMIT_LENGTH, LONGEST_VALUE_BYTES)?;
            c.set_limit(Limit::SQLITE_LIMIT_VDBE_OP, MOST_INSTRUCTIONS)?;
            c.set_limit(Limit::SQLITE_LIMIT_ATTACHED, MOST_ATTACHED)?;
            c.set_limit(Limit::SQLITE_LIMIT_WORKER_THREADS, 0)?;
            // Definitions in a file from elsewhere must not run functions that could do harm.
            c.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
            c.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true).map(|_| ())
        })?;
        Ok(store)
    }

    /// The version of the tables, `None` for an empty file; refuses what this program must not touch.
    fn require_readable(&self) -> Result<Option<i64>, StoreError> {
        match self.on(schema::kind)? {
            schema::Kind::Foreign => Err(StoreError::NotAStore { path: self.path.clone() }),
            schema::Kind::Store(found) if found > schema::VERSION => {
                Err(StoreError::Newer { path: self.path.clone(), found, known: schema::VERSION })
            }
            schema::Kind::Store(found) => Ok(Some(found)),
            schema::Kind::Empty => Ok(None),
        }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a run, whole or not at all, and returns its number; a run that is already there keeps its number. The views `cell`,
    /// `pair` and `comparison` leave its study out until [it is summed up](Self::sum_up_outdated).
    ///
    /// # Errors
    ///
    /// If the file cannot be written, or the record holds a number that does not read back.
    pub fn insert(&mut self, record: &CellRecord) -> Result<i64, StoreError> {
        let (number, ..) = self.insert_new(record)?;
        Ok(number)
    }

    /// The same, with the record as it is kept, and its study summed up.
    ///
    /// # Errors
    ///
    /// As [`insert`](Self::insert).
    pub fn keep(&mut self, record: CellRecord) -> Result<StoredRun, StoreError> {
        let (number, is_new, id) = self.insert_new(&record)?;
        if let Some(study_hash) = record.study_hash.as_deref().filter(|_| is_new) {
            self.sum_up(study_hash)?;
        }
        Ok(StoredRun { number, id, record })
    }

    /// The run's number, whether it was new, and its id.
    fn insert_new(&mut self, record: &CellRecord) -> Result<(i64, bool, String), StoreError> {
        let json = self.json_of(record)?;
        let id = crate::record::sha256_hex(json.as_bytes());
        let path = self.path.clone();
        let (number, is_new) =
            self.insert_json(record, &id, &json).map_err(|e| StoreError::from_sqlite(&path, &e))?;
        Ok((number, is_new, id))
    }

    /// A record as it is kept, which reads back as it is.
    fn json_of(&self, record: &CellRecord) -> Result<String, StoreError> {
        let json = serde_json::to_string(record).map_err(|e| not_storable(record, e.to_string()))?;
        let back: CellRecord = serde_json::from_str(&json)
            .map_err(|e| not_storable(record, format!("a number in it is not finite ({e})")))?;
        if back != *record {
            return Err(not_storable(record, "it does not read back as it was".to_owned()));
        }
        Ok(json)
    }

    fn insert_json(&mut self, record: &CellRecord, id: &str, json: &str) -> rusqlite::Result<(i64, bool)> {
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        if let Some(number) = number_of(&transaction, id)? {
            return Ok((number, false));
        }
        let load = record.measured().map(|m| &m.load);
        transaction.execute(
            "INSERT INTO runs (id, study, study_hash, stack, workload, block, repeat, position, started_at, cell_s, \
             outcome, failure, ground, elapsed_ns, bytes_per_second, operations_per_second, host_cpu_busy, record, trace, \
             untraced_twin) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            params![
                id,
                record.study,
                record.study_hash,
                record.stack.as_str(),
                record.workload.as_str(),
                record.block,
                record.repeat,
                record.position,
                record.started_at,
                record.cell_s,
                match record.outcome {
                    Outcome::Measured(_) => "measured",
                    Outcome::Failed(_) => "failed",
                },
                record.failure().map(|failure| &failure.message),
                record.environment.ground,
                load.map(|l| rows::integer(l.elapsed_ns)),
                load.map(nestor_workload::LoadResult::bytes_per_second),
                load.map(nestor_workload::LoadResult::operations_per_second),
                record.measured().map(|m| m.host_cpu_busy),
                json,
                record.trace.to_string(),
                record.untraced_twin,
            ],
        )?;
        let number = transaction.last_insert_rowid();
        rows::insert_details(&transaction, number, record)?;
        summaries::note_run(&transaction, record.study_hash.as_deref(), number)?;
        transaction.commit()?;
        Ok((number, true))
    }

    /// Keeps a study, or replaces what was kept of it.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn save_study(&mut self, study: &StudyRecord) -> Result<(), StoreError> {
        let json = serde_json::to_string(study).expect("a study holds texts and whole numbers");
        let changes = self.study(&study.hash)?.is_none_or(|kept| kept.study != study.study);
        let path = self.path.clone();
        let save = |connection: &mut Connection| {
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            transaction.execute(
                "INSERT INTO studies (hash, name, record, scale, ground) VALUES (?1, ?2, ?3, ?4, ?5) \
                 ON CONFLICT (hash) DO UPDATE SET name = ?2, record = ?3, scale = ?4, ground = ?5",
                params![study.hash, study.study.name, json, study.study.scale, study.ground],
            )?;
            if changes {
                summaries::note_study(&transaction, &study.hash)?;
            }
            transaction.commit()
        };
        save(&mut self.connection).map_err(|e| StoreError::from_sqlite(&path, &e))?;
        self.sum_up(&study.hash)
    }

    /// Runs a function on the connection and translates its errors.
    fn on<T>(&self, action: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, StoreError> {
        action(&self.connection).map_err(|e| StoreError::from_sqlite(&self.path, &e))
    }
}

fn not_storable(record: &CellRecord, reason: String) -> StoreError {
    StoreError::NotStorable { stack: record.stack.to_string(), workload: record.workload.to_string(), reason }
}

/// The number of the run of that name.
fn number_of(connection: &Connection, id: &str) -> rusqlite::Result<Option<i64>> {
    let mut statement = connection.prepare_cached("SELECT number FROM runs WHERE id = ?")?;
    statement.query_row([id], |row| row.get(0)).optional()
}
