//! Writing requests to a file.

use std::fs::File;
use std::io::{BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use nestor_ownership::FileKind;

use super::codec::{HEAD, encode_header, encode_record};
use super::{ClockReading, RequestHeader};
use crate::error::TraceError;
use crate::request::Request;

const KIND: FileKind = FileKind { name: HEAD.name, magic: HEAD.magic };

/// Writes a request file. Without [`finish`](Self::finish) the file is readable but says that it was never closed.
#[derive(Debug)]
pub struct RequestWriter {
    path: PathBuf,
    header: RequestHeader,
    out: BufWriter<File>,
}

impl RequestWriter {
    /// Creates the file, or empties an earlier file of requests; nothing else gives way to it, and no link is followed. `header.records` is counted here.
    ///
    /// # Errors
    /// The file cannot be created or written.
    pub fn create(path: impl AsRef<Path>, header: RequestHeader) -> Result<Self, TraceError> {
        let path = path.as_ref().to_path_buf();
        let file = KIND.create(&path, 0o644).map_err(TraceError::io("create the file of requests", &path))?;
        let header = RequestHeader { records: 0, ..header };
        let mut out = BufWriter::with_capacity(1 << 18, file);
        out.write_all(&encode_header(&header, false))
            .map_err(TraceError::io("write the file of requests", &path))?;
        Ok(Self { path, header, out })
    }

    /// Adds a request; requests come in the order of completion.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn push(&mut self, request: &Request) -> Result<(), TraceError> {
        self.out
            .write_all(&encode_record(request))
            .map_err(TraceError::io("write the file of requests", &self.path))?;
        self.header.records += 1;
        Ok(())
    }

    /// Sets how many requests are missing, which is often known only at the end.
    pub fn set_dropped(&mut self, dropped: u64) {
        self.header.dropped = dropped;
    }

    /// Sets the machine's clocks, which some traces contain only among their events.
    pub fn set_clock(&mut self, clock: ClockReading) {
        self.header.clock = clock;
    }

    /// Writes what is left and the final header; returns the number of requests.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn finish(self) -> Result<u64, TraceError> {
        let Self { path, header, out } = self;
        let close = || -> std::io::Result<()> {
            let mut file = out.into_inner().map_err(|error| error.into_error())?;
            file.seek(SeekFrom::Start(0))?;
            file.write_all(&encode_header(&header, true))
        };
        close().map_err(TraceError::io("write the file of requests", &path))?;
        Ok(header.records)
    }
}
