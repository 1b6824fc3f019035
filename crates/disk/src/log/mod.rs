//! The request log: what a modelled disk did with each request, the lowest trace point of a stack.
//!
//! A log is a header of [`HEADER_BYTES`] and then records of [`RECORD_BYTES`], all little-endian. Records are in
//! the order in which requests were completed; [`Record::sequence`] is the order in which they arrived.
//! Beside it, for tests of truth, the disk can note the stamps ([`StampRun`]) that it finds in the data.

mod fault;
mod reader;
mod record;
mod stamps;
mod writer;

pub use fault::LogFault;
pub use reader::Reader;
pub use record::{HEAD, HEADER_BYTES, Header, Operation, RECORD_BYTES, Record};
pub use stamps::{
    STAMP_BYTES, STAMP_HEADER_BYTES, STAMP_MAGIC, STAMP_RECORD_BYTES, StampReader, StampRun, StampWriter,
    stamp, stamp_of,
};
pub use writer::{DiskLog, LogSummary, Writer};
