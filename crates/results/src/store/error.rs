//! What can go wrong with the file that holds the results.

use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;
use thiserror::Error;

/// Why results cannot be written or read.
#[derive(Debug, Error)]
pub enum StoreError {
    /// The file or its folder does not exist or may not be opened.
    #[error("cannot open the results file {}: {reason}\n  check that the folder exists and that you may write to it", path.display())]
    CannotOpen {
        /// The file.
        path: PathBuf,
        /// What SQLite said.
        reason: String,
    },
    /// The file does not exist, and reading does not create it.
    #[error("the results file {} does not exist\n  run something first, or name another file", path.display())]
    Missing {
        /// The file.
        path: PathBuf,
    },
    /// Something can be read but not written.
    #[error("cannot write to the results file {}: it is read-only\n  make the file and its folder writable, or name another file", path.display())]
    ReadOnly {
        /// The file.
        path: PathBuf,
    },
    /// Another program's file.
    #[error("{} is not a results file of Nestor\n  name another file; this one was not changed", path.display())]
    NotAStore {
        /// The file.
        path: PathBuf,
    },
    /// The file is damaged.
    #[error("the results file {} is damaged: {reason}\n  restore a copy, or save the readable part with: sqlite3 {} .recover", path.display(), path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What was found.
        reason: String,
    },
    /// A newer version of Nestor wrote it.
    #[error("the results file {} was written by a newer Nestor (version {found} of the tables; this one knows {known})\n  use that Nestor, or name another file", path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: i64,
        /// The latest version this program knows.
        known: i64,
    },
    /// Another process kept it locked for too long.
    #[error("the results file {} was locked by another process for over {seconds} s\n  wait for that process to end, then try again", path.display())]
    Locked {
        /// The file.
        path: PathBuf,
        /// How long was waited.
        seconds: u64,
    },
    /// No room is left.
    #[error("no space is left to write to the results file {}\n  free space on its file system; finished results are kept", path.display())]
    Full {
        /// The file.
        path: PathBuf,
    },
    /// No run has this number.
    #[error("no run {number} in the results file {}: {range}", path.display())]
    NoSuchRun {
        /// The file.
        path: PathBuf,
        /// The number asked for.
        number: i64,
        /// What numbers there are, in words.
        range: String,
    },
    /// The record holds what no store can keep.
    #[error(
        "the result cannot be stored: {reason} (stack {stack}, workload {workload})\n  this is a bug in Nestor: please report it with this message"
    )]
    NotStorable {
        /// The record's stack.
        stack: String,
        /// The record's workload.
        workload: String,
        /// What it holds.
        reason: String,
    },
    /// A write-ahead log where several machines could read and write it.
    #[error(
        "the results file {} has a write-ahead log, which does not work on a file system that several machines share ({file_system})\n  copy the file, with {}-wal if it exists, to a local disk and name the copy; or let a command write to it here, which gives it another journal", path.display(), path.display()
    )]
    LogOnNetwork {
        /// The file.
        path: PathBuf,
        /// The kernel's name of the file system.
        file_system: &'static str,
    },
    /// Anything else.
    #[error("the results file {} cannot be used: {reason}", path.display())]
    Other {
        /// The file.
        path: PathBuf,
        /// What SQLite said.
        reason: String,
    },
}

impl StoreError {
    /// Says what an error of SQLite means for this file.
    pub(super) fn from_sqlite(path: &Path, error: &rusqlite::Error) -> Self {
        let path = path.to_owned();
        let reason = error.to_string();
        match error.sqlite_error_code() {
            Some(ErrorCode::ReadOnly) => Self::ReadOnly { path },
            Some(ErrorCode::NotADatabase) => Self::NotAStore { path },
            Some(ErrorCode::DatabaseCorrupt) => Self::Damaged { path, reason },
            Some(ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => Self::CannotOpen { path, reason },
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                Self::Locked { path, seconds: super::BUSY_TIMEOUT.as_secs() }
            }
            Some(ErrorCode::DiskFull) => Self::Full { path },
            _ => Self::Other { path, reason },
        }
    }
}
