//! This program's own records of requests: the request file and the logs of modelled disks and links.

use std::io::Read;
use std::path::Path;

use nestor_link::End;

use super::{ReadWarnings, Recorded, RequestSource, TracedRequest};
use crate::error::TraceError;
use crate::link_log::LinkLogRequests;
use crate::request::Request;
use crate::request_file::{DiskLogRequests, RequestReader};

/// Requests that another reader provides.
pub(super) struct RecordedRequests<I> {
    requests: I,
    names: Vec<String>,
}

impl<R: Read> RecordedRequests<RequestReader<R>> {
    /// Reads a request file.
    pub fn of_request_file(source: R, path: &Path) -> Result<Self, TraceError> {
        let requests = RequestReader::new(source, path)?;
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

/// A link's frames: of each direction, as if it were a device.
pub(super) struct RecordedFrames {
    frames: LinkLogRequests,
    /// What goes to the server, what goes to the client.
    names: [String; 2],
}

impl RecordedFrames {
    /// Reads a link's log.
    pub fn of_link_log(path: &Path) -> Result<Self, TraceError> {
        let names = ["to the server", "to the client"].map(str::to_owned);
        Ok(Self { frames: LinkLogRequests::open(path)?, names })
    }
}

impl RequestSource for RecordedFrames {
    fn next_request(&mut self) -> Result<Option<TracedRequest>, TraceError> {
        let next = self.frames.next().transpose()?;
        Ok(next.map(|(from, request)| {
            let target = match from {
                End::Upper => 0,
                End::Lower => 1,
            };
            TracedRequest { target, request }
        }))
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
