//! Reading a log of frames, record by record.

use std::io;
use std::path::{Path, PathBuf};

use nestor_log::{Decode, ReadStep};

use super::fault::{FrameLogError, FrameLogFault};
use super::record::{FrameHeader, FrameRecord, HEADER_BYTES, RECORD_BYTES};

/// Iterates over the records of a log in constant memory. After the first error the iterator ends.
pub type FrameReader<R> = nestor_log::Reader<FrameLog, R, HEADER_BYTES, RECORD_BYTES>;

/// The log of a link's frames.
pub enum FrameLog {}

impl Decode<HEADER_BYTES, RECORD_BYTES> for FrameLog {
    type Header = FrameHeader;
    type Record = FrameRecord;
    type Fault = FrameLogFault;
    type Error = FrameLogError;

    fn header(bytes: &[u8; HEADER_BYTES]) -> Result<FrameHeader, (u64, FrameLogFault)> {
        FrameHeader::decode(bytes)
    }

    fn record(bytes: &[u8; RECORD_BYTES]) -> Result<FrameRecord, FrameLogFault> {
        FrameRecord::decode(bytes)
    }

    fn cut_header() -> FrameLogFault {
        FrameLogFault::CutHeader
    }

    fn cut_record(bytes: usize) -> FrameLogFault {
        FrameLogFault::CutRecord(bytes)
    }

    fn unreadable(step: ReadStep, path: &Path, source: io::Error) -> FrameLogError {
        let action = match step {
            ReadStep::Open => "open",
            ReadStep::Read => "read",
        };
        FrameLogError::Io { action, path: path.to_owned(), source }
    }

    fn faulty(path: PathBuf, offset: u64, reason: FrameLogFault) -> FrameLogError {
        FrameLogError::Form { path, offset, reason }
    }
}
