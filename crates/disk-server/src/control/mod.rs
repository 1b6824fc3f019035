//! The control socket: JSON, one request and one answer a line.

mod client;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

pub use client::ControlClient;

pub use crate::priority::Priority;
use nestor_disk::log::LogSummary;
use nestor_disk::model::MediumWork;

/// What can be asked of a serving disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "do")]
pub enum ControlRequest {
    /// Switch the timing model. Answered when everything that had arrived, the disk's write cache included, was done
    /// under the old setting; requests that arrive meanwhile wait.
    Timing {
        /// On or off.
        on: bool,
    },
    /// Write a request log. One that is being written is closed.
    StartLog {
        /// The file, created or emptied. As the server sees it.
        path: PathBuf,
    },
    /// Close the request log; answered when all of it is written.
    StopLog,
    /// Note the stamps in the data; a file of stamps that is being written is closed. For tests of truth.
    StartStamps {
        /// The file, created or emptied. As the server sees it.
        path: PathBuf,
    },
    /// Close the file of stamps; answered when all of it is written.
    StopStamps,
    /// Drop all data and forget caches and the position of the head; answered when what had arrived is done.
    Reset,
    /// Report what was done so far.
    Statistics,
    /// End the server.
    Quit,
}

/// What a serving disk answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "answer")]
pub enum ControlResponse {
    /// It is done.
    Done,
    /// The log is closed.
    LogClosed(LogSummary),
    /// What was done so far.
    Statistics(Box<Statistics>),
    /// It could not be done.
    Failed {
        /// Why.
        reason: String,
    },
}

/// Requests of one kind and the bytes they covered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counter {
    /// Requests answered.
    pub requests: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// What a disk has done since its server started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Statistics {
    /// Reads.
    pub read: Counter,
    /// Writes.
    pub write: Counter,
    /// Discards.
    pub discard: Counter,
    /// Write-zeroes requests.
    pub write_zeroes: Counter,
    /// Flushes.
    pub flushes: u64,
    /// Well-formed requests that were answered with an error, by the data file.
    pub failed: u64,
    /// Requests that were refused as malformed, out of range or unknown.
    pub refused: u64,
    /// The timing model is on (never for a disk that takes no time).
    pub timing: bool,
    /// The modelled write cache is on.
    pub write_cache: bool,
    /// Requests that have arrived and are not answered.
    pub in_flight: u64,
    /// Nothing is in flight or waiting in the modelled write cache.
    pub settled: bool,
    /// Requests that the timing model served.
    pub timed_requests: u64,
    /// Of these, answered from or taken into the modelled cache.
    pub cache_hits: u64,
    /// How much later than the model says they were answered, summed.
    pub lag_total_ns: u64,
    /// The same of the latest one.
    pub lag_max_ns: u64,
    /// How the thread that serves the guest is scheduled: a hint to how exact the timing is on a busy machine.
    pub priority: Priority,
    /// Bytes that the data file takes on its file system.
    pub allocated_bytes: u64,
    /// What the medium did below the requests that the timing model served.
    #[serde(default)]
    pub work: MediumWork,
}
