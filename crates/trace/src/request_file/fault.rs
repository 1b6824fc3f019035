//! What can be wrong with a file of requests.

use nestor_log::HeadFault;

use super::{HEADER_BYTES, RECORD_BYTES};

/// What is wrong at a place in a file of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestFault {
    /// What its header begins with.
    #[error(transparent)]
    Head(#[from] HeadFault),
    /// A flag of the header that stands for nothing.
    #[error("flags {0:#x} have a bit that does not exist")]
    HeaderFlags(u32),
    /// A name in the header.
    #[error("a name is not UTF-8")]
    Name,
    /// A number that stands for no operation.
    #[error("operation {0} does not exist")]
    Operation(u8),
    /// A number that stands for no class of data.
    #[error("class {0} of data does not exist")]
    Class(u8),
    /// A flag of a request that stands for nothing.
    #[error("flags {0:#04x} have a bit that does not exist")]
    Flags(u8),
    /// There is no whole header.
    #[error("the file ends within its header of {HEADER_BYTES} bytes; make it again")]
    CutHeader,
    /// The last record is not whole.
    #[error(
        "the file ends within a record ({0} of {RECORD_BYTES} bytes); the records before it are complete, \
         later requests are lost"
    )]
    CutRecord(usize),
}
