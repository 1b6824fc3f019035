//! This program's own records of requests: the request file and the modelled disk's log.

use std::io::Read;
use std::path::Path;

use super::{ReadWarnings, Recorded, RequestSource, TracedRequest};
use crate::error::TraceError;
use crate::request::Request;
use crate::request_file::{DiskLogRequests, RequestReader};

/// What files begin with that were written by [`RequestWriter`](crate::request_file::RequestWriter).
pub(super) const REQUEST_FILE_MAGIC: &[u8; 8] = b"NSTRREQS";
/// What files begin with that the modelled disk wrote.
pub(super) const DISK_LOG_MAGIC: &[u8; 8] = b"NSTRDLOG";

/// Requests that another reader provides.
pub(super) struct RecordedRequests<I> {
    requests: I,
    names: Vec<String>,
}

impl<R: Read> RecordedRequests<RequestReader<R>> {
    /// Reads a request file.
    pub fn of_request_file(source: R, path: &Path) -> Result<Self, TraceError> {
        let requests = RequestReader::from_reader(source, path)?;
        let names = vec![requests.header().layer.clone()];
        Ok(Self { requests, names })
    }
}

impl RecordedRequests<DiskLogRequests> {
    /// Reads the modelled disk's log.
    pub fn of_disk_log(path: &Path) -> Result<Self, TraceError> {
        let requests = DiskLogRequests::open(path, "disk", "")?;
        Ok(Self { requests, names: vec!["disk".to_owned()] })
    }
}

impl<I: Iterator<Item = Result<Request, TraceError>> + Send> RequestSource for RecordedRequests<I> {
    fn next_request(&mut self) -> Result<Option<TracedRequest>, TraceError> {
        Ok(self.requests.next().transpose()?.map(|request| TracedRequest { target: 0, request }))
    }

    fn targets(&self) -> &[String] {
        &self.names
    }

    fn recorded(&self) -> Recorded {
        Recorded { time: true, latency: true, offset: true }
    }

    fn warnings(&self) -> ReadWarnings {
        ReadWarnings::default()
    }
}
