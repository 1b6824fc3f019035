//! What can be wrong with a log of requests or a file of stamps.

use nestor_log::HeadFault;

use super::record::{HEADER_BYTES, RECORD_BYTES};
use super::stamps::STAMP_RECORD_BYTES;

/// What is wrong at a place in a log of requests or a file of stamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LogFault {
    /// What its header begins with.
    #[error(transparent)]
    Head(#[from] HeadFault),
    /// It is something else.
    #[error("this is not a file of stamps that this program can read")]
    NoStamps,
    /// The name of the disk.
    #[error("the disk's name is not UTF-8")]
    Name,
    /// A number that stands for no operation.
    #[error("operation {0} does not exist")]
    Operation(u8),
    /// A flag that stands for nothing.
    #[error("flags {0:#04x} have a bit that does not exist")]
    Flags(u8),
    /// A stamp's direction.
    #[error("a request is neither a read nor a write ({0})")]
    Direction(u32),
    /// The log has no whole header.
    #[error("the file ends within its header of {HEADER_BYTES} bytes; record the log again")]
    CutHeader,
    /// The last record of a log is not whole.
    #[error(
        "the log ends within a record ({0} of {RECORD_BYTES} bytes); the records before it are complete, \
         its last requests are lost"
    )]
    CutRecord(usize),
    /// A file of stamps has no whole header.
    #[error("the file ends within its header; record the stamps again")]
    CutStampHeader,
    /// The last record of a file of stamps is not whole.
    #[error("the file ends within a record ({0} of {STAMP_RECORD_BYTES} bytes)")]
    CutStamp(usize),
}
