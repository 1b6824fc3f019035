//! Why requests cannot be joined, in words.

use std::io;
use std::path::PathBuf;

use nestor_trace::TraceError;

use crate::tree::LevelIndex;

/// Why there is no correlation.
#[derive(Debug, thiserror::Error)]
pub enum CorrelateError {
    /// The requests of a level could not be read.
    #[error("the requests of the level {level} ({layer}) could not be read: {source}")]
    Requests {
        /// The level.
        level: LevelIndex,
        /// Its layer.
        layer: String,
        /// Why.
        source: TraceError,
    },
    /// There is nothing to join.
    #[error(
        "a correlation needs the requests of at least two levels, but there is {levels}; name a lower level \
         too"
    )]
    TooFewLevels {
        /// How many there are.
        levels: usize,
    },
    /// More levels than a stack has in practice.
    #[error("{levels} levels are more than the {limit} that can be joined at once; omit some")]
    TooManyLevels {
        /// How many there are.
        levels: usize,
        /// How many there may be.
        limit: usize,
    },
    /// Nothing above a level says what its requests are for.
    #[error("no level of a guest is above, so nothing says what the requests are for")]
    NoGuest,
    /// A level without requests.
    #[error("the level {level} ({layer}) has no requests; was it recorded while the workload ran?")]
    Empty {
        /// The level.
        level: LevelIndex,
        /// Its layer.
        layer: String,
    },
    /// A map that is of another image, another disk, or another time.
    #[error("the map from {above} to {below} does not fit the trace: {reason}")]
    MapDoesNotFit {
        /// Layer of the upper level.
        above: String,
        /// Layer of the lower level.
        below: String,
        /// What does not fit and what to do.
        reason: String,
    },
    /// A map in which nothing has a place.
    #[error("{}: it has no extents", path.display())]
    NoExtents {
        /// The file it is from.
        path: PathBuf,
    },
    /// A map that cannot be.
    #[error("{}{}: {reason}", path.display(), line.map_or_else(String::new, |line| format!(", line {line}")))]
    Map {
        /// The file it is from.
        path: PathBuf,
        /// The line, from 1.
        line: Option<usize>,
        /// What is wrong and what to do.
        reason: String,
    },
    /// A file that cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file that cannot be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The description of a recording is not understood.
    #[error("{}: {reason}; record again with --trace-to", path.display())]
    Manifest {
        /// Its file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A directory holds more than one recording.
    #[error("{} holds {count} recordings; name one of them, such as {}", path.display(), first.display())]
    Several {
        /// The directory.
        path: PathBuf,
        /// How many.
        count: usize,
        /// The first of them.
        first: PathBuf,
    },
}
