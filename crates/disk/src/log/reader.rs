//! Reading a log, record by record.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

use nestor_log::read_up_to;

use super::fault::LogFault;
use super::record::{HEADER_BYTES, Header, RECORD_BYTES, Record};
use crate::error::DiskError;

/// Iterates over the records of a log in constant memory.
///
/// After the first error the iterator ends.
pub struct Reader<R> {
    source: R,
    path: PathBuf,
    header: Header,
    offset: u64,
    ended: bool,
}

impl Reader<BufReader<File>> {
    /// Opens a log file and reads its header.
    ///
    /// # Errors
    /// The file cannot be read, or it is not a log that this program reads.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, DiskError> {
        let path = path.as_ref();
        let file = File::open(path).map_err(DiskError::io("open the request log", path))?;
        Self::new(BufReader::with_capacity(1 << 18, file), path)
    }
}

impl<R: Read> Reader<R> {
    /// Reads the header from `source`; `path` is what errors call it.
    ///
    /// # Errors
    /// As [`Reader::open`].
    pub fn new(mut source: R, path: impl Into<PathBuf>) -> Result<Self, DiskError> {
        let path = path.into();
        let mut bytes = [0; HEADER_BYTES];
        let read =
            read_up_to(&mut source, &mut bytes).map_err(DiskError::io("read the request log", &path))?;
        if read < HEADER_BYTES {
            return Err(DiskError::Log { path, offset: read as u64, reason: LogFault::CutHeader });
        }
        let header = Header::decode(&bytes).map_err(|(offset, reason)| DiskError::Log {
            path: path.clone(),
            offset,
            reason,
        })?;
        Ok(Self { source, path, header, offset: HEADER_BYTES as u64, ended: false })
    }

    /// What the log says of itself.
    pub fn header(&self) -> &Header {
        &self.header
    }

    fn next_record(&mut self) -> Result<Option<Record>, DiskError> {
        let mut bytes = [0; RECORD_BYTES];
        let read = read_up_to(&mut self.source, &mut bytes)
            .map_err(DiskError::io("read the request log", &self.path))?;
        let wrong = |offset, reason| DiskError::Log { path: self.path.clone(), offset, reason };
        match read {
            0 => Ok(None),
            RECORD_BYTES => {
                let record = Record::decode(&bytes).map_err(|reason| wrong(self.offset, reason))?;
                self.offset += RECORD_BYTES as u64;
                Ok(Some(record))
            }
            _ => Err(wrong(self.offset + read as u64, LogFault::CutRecord(read))),
        }
    }
}

impl<R: Read> Iterator for Reader<R> {
    type Item = Result<Record, DiskError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let next = self.next_record().transpose();
        self.ended = !matches!(next, Some(Ok(_)));
        next
    }
}
