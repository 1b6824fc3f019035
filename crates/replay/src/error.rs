//! What can go wrong with a replay, in words.

use std::io;
use std::path::{Path, PathBuf};

use nestor_text::units::bytes;
use nestor_trace::TraceError;

/// Why a trace was not replayed, or not to its end.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The trace cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// More than one trace was named.
    #[error("these files are several traces ({names}); name the files of one trace")]
    SeveralTraces {
        /// What they are.
        names: String,
    },
    /// The trace holds nothing that can be replayed.
    #[error("{trace} cannot be replayed: {why}")]
    NothingToReplay {
        /// What the trace is called.
        trace: String,
        /// Why, and what to do.
        why: String,
    },
    /// Several devices, and none was named.
    #[error("{trace} has several devices: {list}; choose one with `--device-of-trace {example}`")]
    SeveralDevices {
        /// What the trace is called.
        trace: String,
        /// The devices.
        list: String,
        /// One of them.
        example: String,
    },
    /// The device that was named is not in the trace.
    #[error("{trace} has no requests of {asked}; it has requests of {list}")]
    NoSuchDevice {
        /// What the trace is called.
        trace: String,
        /// What was named.
        asked: String,
        /// The devices there are.
        list: String,
    },
    /// The trace has no times.
    #[error("{trace} has no arrival times; `--speed max` replays it as fast as possible")]
    NoTimes {
        /// What the trace is called.
        trace: String,
    },
    /// The trace reaches further than the target.
    #[error(
        "the trace reaches to {span_bytes} bytes ({}), the target has {target_bytes} bytes ({}); `--wrap` \
         places requests modulo the target's size, `--scale-space` scales their offsets by the ratio of the \
         sizes",
        bytes(*span_bytes),
        bytes(*target_bytes)
    )]
    TooSmall {
        /// Where the farthest request ends.
        span_bytes: u64,
        /// The target's size.
        target_bytes: u64,
    },
    /// There is no room at all.
    #[error("the target is smaller than one block; name a larger target, or a directory for a new file")]
    EmptyTarget,
    /// Requests do not fit the target's blocks.
    #[error(
        "{requests} of {all} requests begin or end within a block of the target, which takes direct I/O \
         only in units of {block_bytes} bytes; `--widen` extends them to whole blocks, `--buffered` uses \
         the page cache"
    )]
    BetweenBlocks {
        /// How many.
        requests: u64,
        /// Of how many.
        all: u64,
        /// The target's block size.
        block_bytes: u64,
    },
    /// The target is not to be written to.
    #[error("{}: {why}", path.display())]
    Refused {
        /// The target.
        path: PathBuf,
        /// Why, and what to do.
        why: String,
    },
    /// A file or device could not be used.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried, as a verb phrase.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// io_uring was asked for and is not to be had.
    #[error("io_uring cannot be used here: {why}; `--engine threads` replays without it")]
    NoIoUring {
        /// Why.
        why: String,
    },
    /// The machine gave out while replaying.
    #[error("the replay could not continue: {action}: {source}")]
    Engine {
        /// What was tried.
        action: &'static str,
        /// What the operating system said.
        source: io::Error,
    },
    /// A request failed.
    #[error(
        "request {number} of the plan ({operation} of {bytes} bytes at byte {offset}) failed: {why}; the \
         replay ended with {done} of {all} requests complete"
    )]
    Request {
        /// Its number, from 0.
        number: usize,
        /// What it asked for.
        operation: &'static str,
        /// Where.
        offset: u64,
        /// How much.
        bytes: u64,
        /// What the target said, and what to do.
        why: String,
        /// Requests that were complete.
        done: u64,
        /// Requests of the plan.
        all: u64,
    },
    /// Stopped before the replay began.
    #[error("interrupted before the replay began; nothing was left behind")]
    Interrupted,
}

impl ReplayError {
    /// Makes the closure that `map_err` wants.
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_path_buf();
        move |source| Self::Io { action, path, source }
    }

    /// As [`ReplayError::io`], where no file is to blame.
    pub(crate) fn engine(action: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Engine { action, source }
    }
}
