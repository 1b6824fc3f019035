//! The log of frames: what a link did with each, the trace point of a network.
//!
//! A log is a header of [`HEADER_BYTES`] and then records of [`RECORD_BYTES`], all little-endian. The records of each direction are in the
//! order in which the fate of its frames was known; in virtual time, how those of both are interleaved depends on real time. All times are
//! those that both machines have in common: in real time `CLOCK_MONOTONIC` of the link's machine, in virtual time nanoseconds since both
//! were joined.

mod fault;
mod reader;
mod record;

pub use fault::{FrameLogError, FrameLogFault};
pub use reader::FrameReader;
pub use record::{
    Ended, FrameHeader, FrameLog, FrameRecord, HEAD, HEADER_BYTES, LogClock, LogEnd, RECORD_BYTES,
};

pub use nestor_log::LogSummary;
