//! What can be wrong with a log of frames.

use std::io;
use std::path::PathBuf;

use nestor_log::HeadFault;

use super::record::{HEADER_BYTES, RECORD_BYTES};

/// What is wrong at a place in a log of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameLogFault {
    /// What its header begins with.
    #[error(transparent)]
    Head(#[from] HeadFault),
    /// A number that stands for no clock.
    #[error("clock {0} does not exist")]
    Clock(u32),
    /// A number that stands for no end of a link.
    #[error("a link has no end {0}")]
    End(u8),
    /// A number that stands for nothing that becomes of a frame.
    #[error("no frame ends as {0}")]
    Ended(u8),
    /// The log has no whole header.
    #[error("the file ends within its header of {HEADER_BYTES} bytes; record the log again")]
    CutHeader,
    /// The last record of a log is not whole.
    #[error(
        "the log ends within a record ({0} of {RECORD_BYTES} bytes); the records before it are complete, \
         its last frames are lost"
    )]
    CutRecord(usize),
}

/// Why a log of frames cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum FrameLogError {
    /// The file cannot be used.
    #[error("cannot {action} the frame log {}: {source}", path.display())]
    Io {
        /// What was tried, as a verb (`open`).
        action: &'static str,
        /// Which log.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// It does not have the form it should have.
    #[error("{}, byte {offset}: {reason}", path.display())]
    Form {
        /// Which log.
        path: PathBuf,
        /// Where in it.
        offset: u64,
        /// What is wrong there.
        reason: FrameLogFault,
    },
}
