//! Reading a log of frames, record by record.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use nestor_log::read_up_to;

use super::fault::{FrameLogError, FrameLogFault};
use super::record::{FrameHeader, FrameRecord, HEADER_BYTES, RECORD_BYTES};

/// Iterates over the records of a log in constant memory. After the first error the iterator ends.
pub struct FrameReader<R> {
    source: R,
    path: PathBuf,
    header: FrameHeader,
    offset: u64,
    ended: bool,
}

impl FrameReader<BufReader<File>> {
    /// Opens a log file and reads its header.
    ///
    /// # Errors
    /// The file cannot be read, or it is not a log that this program reads.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, FrameLogError> {
        let path = path.as_ref();
        let file = File::open(path).map_err(failed("open", path))?;
        Self::new(BufReader::with_capacity(1 << 18, file), path)
    }
}

impl<R: Read> FrameReader<R> {
    /// Reads the header from `source`; `path` is what errors call it.
    ///
    /// # Errors
    /// As [`FrameReader::open`].
    pub fn new(mut source: R, path: impl Into<PathBuf>) -> Result<Self, FrameLogError> {
        let path = path.into();
        let mut bytes = [0; HEADER_BYTES];
        let read = read_up_to(&mut source, &mut bytes).map_err(failed("read", &path))?;
        let header = match read {
            HEADER_BYTES => FrameHeader::decode(&bytes),
            _ => Err((read, FrameLogFault::CutHeader)),
        };
        match header {
            Ok(header) => Ok(Self { source, path, header, offset: HEADER_BYTES as u64, ended: false }),
            Err((offset, reason)) => Err(FrameLogError::Form { path, offset: offset as u64, reason }),
        }
    }

    /// What the log says of itself.
    pub fn header(&self) -> &FrameHeader {
        &self.header
    }

    fn next_record(&mut self) -> Result<Option<FrameRecord>, FrameLogError> {
        let mut bytes = [0; RECORD_BYTES];
        let read = read_up_to(&mut self.source, &mut bytes).map_err(failed("read", &self.path))?;
        let record = match read {
            0 => return Ok(None),
            RECORD_BYTES => FrameRecord::decode(&bytes),
            _ => Err(FrameLogFault::CutRecord(read)),
        };
        let path = || self.path.clone();
        let record =
            record.map_err(|reason| FrameLogError::Form { path: path(), offset: self.offset, reason })?;
        self.offset += RECORD_BYTES as u64;
        Ok(Some(record))
    }
}

impl<R: Read> Iterator for FrameReader<R> {
    type Item = Result<FrameRecord, FrameLogError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let next = self.next_record().transpose();
        self.ended = !matches!(next, Some(Ok(_)));
        next
    }
}

fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> FrameLogError {
    let path = path.to_owned();
    move |source| FrameLogError::Io { action, path, source }
}
