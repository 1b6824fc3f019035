//! What can go wrong with an export, in words.

use std::io;
use std::path::PathBuf;

/// Why there is no export.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The requests cannot be read.
    #[error("{0}")]
    Trace(#[from] nestor_trace::TraceError),
    /// A directory of recordings cannot be used.
    #[error("{0}")]
    Recording(#[from] nestor_correlate::CorrelateError),
    /// A trace that has no requests in it.
    #[error(
        "{name}: {format} has no requests to export; `nestor trace hypervisor` makes a request file from \
         QEMU's events"
    )]
    NoRequests {
        /// What the trace is called.
        name: String,
        /// Its form.
        format: String,
    },
    /// The output cannot be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file that was to be made.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// Writing to a stream failed.
    #[error("the export could not be written: {0}")]
    Stream(#[from] io::Error),
    /// The Parquet writer refused.
    #[error("the Parquet file could not be written: {0}")]
    Parquet(#[from] ::parquet::errors::ParquetError),
    /// The file is there already.
    #[error("{} exists already; name another file, or replace it with --force", path.display())]
    Exists {
        /// Which file.
        path: PathBuf,
    },
    /// There is nothing to write.
    #[error("there is no trace point to export; name at least one request file or trace")]
    NoLevels,
    /// Sorting by start would need too much memory.
    #[error(
        "{layer}: more than {limit} requests fall within the time of its longest request ({longest_s:.1} \
         s); export a part of the time with --since and --until"
    )]
    TooManyAtOnce {
        /// The layer whose requests they are.
        layer: String,
        /// How many can be held.
        limit: usize,
        /// Seconds from the earliest start to the end of the request that was known last.
        longest_s: f64,
    },
}
