//! Reading a log, record by record.

use std::io;
use std::path::{Path, PathBuf};

use nestor_log::{Decode, ReadStep};

use super::fault::LogFault;
use super::record::{HEADER_BYTES, Header, RECORD_BYTES, Record};
use crate::error::DiskError;

/// Iterates over the records of a log in constant memory. After the first error the iterator ends.
pub type Reader<R> = nestor_log::Reader<RequestLog, R, HEADER_BYTES, RECORD_BYTES>;

/// The log of a modelled disk's requests.
pub enum RequestLog {}

impl Decode<HEADER_BYTES, RECORD_BYTES> for RequestLog {
    type Header = Header;
    type Record = Record;
    type Fault = LogFault;
    type Error = DiskError;

    fn header(bytes: &[u8; HEADER_BYTES]) -> Result<Header, (u64, LogFault)> {
        Header::decode(bytes)
    }

    fn record(bytes: &[u8; RECORD_BYTES]) -> Result<Record, LogFault> {
        Record::decode(bytes)
    }

    fn cut_header() -> LogFault {
        LogFault::CutHeader
    }

    fn cut_record(bytes: usize) -> LogFault {
        LogFault::CutRecord(bytes)
    }

    fn unreadable(step: ReadStep, path: &Path, source: io::Error) -> DiskError {
        let action = match step {
            ReadStep::Open => "open the request log",
            ReadStep::Read => "read the request log",
        };
        DiskError::io(action, path)(source)
    }

    fn faulty(path: PathBuf, offset: u64, reason: LogFault) -> DiskError {
        DiskError::Log { path, offset, reason }
    }
}
