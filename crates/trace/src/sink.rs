//! What is done with each request: attribution, and the file of requests.

use std::collections::BTreeMap;

use nestor_layout::Class;

use crate::attribute::{Attribution, ClassTally};
use crate::error::TraceError;
use crate::event::Device;
use crate::layer::RequestSink;
use crate::metrics::ClassMetrics;
use crate::request::Request;
use crate::request_file::RequestWriter;

/// Numbers requests, says what they are for, and writes them down.
pub(crate) struct Requests<'a> {
    attribution: Option<&'a Attribution>,
    writer: Option<&'a mut RequestWriter>,
    tallies: Vec<(Device, ClassTally)>,
    next_id: u64,
    error: Option<TraceError>,
}

impl<'a> Requests<'a> {
    pub fn new(attribution: Option<&'a Attribution>, writer: Option<&'a mut RequestWriter>) -> Self {
        Self { attribution, writer, tallies: Vec::new(), next_id: 0, error: None }
    }

    /// Whether there is anything to do.
    pub fn wanted(&self) -> bool {
        self.attribution.is_some() || self.writer.is_some()
    }

    /// Takes requests whose threads have these names.
    pub fn with_names<'s, 'n>(
        &'s mut self,
        name_of: &'s dyn Fn(u32) -> Option<&'n str>,
    ) -> Named<'s, 'a, 'n> {
        Named { requests: self, name_of }
    }

    /// What the requests of a device were for.
    pub fn classes_of(&self, device: Device) -> BTreeMap<Class, ClassMetrics> {
        let tally = self.tallies.iter().find(|(known, _)| *known == device);
        tally.map(|(_, tally)| tally.finish()).unwrap_or_default()
    }

    /// What went wrong with the file of requests.
    ///
    /// # Errors
    /// It could not be written.
    pub fn check(&mut self) -> Result<(), TraceError> {
        self.error.take().map_or(Ok(()), Err)
    }

    fn take(&mut self, device: Device, request: &Request, comm: Option<&str>) {
        let mut request = Request { id: self.next_id, ..*request };
        self.next_id += 1;
        if let Some(attribution) = self.attribution {
            let found =
                attribution.class_of(request.operation, request.flags, request.offset, request.bytes, comm);
            request.class = found.class;
            self.tally(device).count(request.operation, &found);
        }
        if let Some(writer) = &mut self.writer
            && self.error.is_none()
        {
            self.error = writer.push(&request).err();
        }
    }

    fn tally(&mut self, device: Device) -> &mut ClassTally {
        let at = self.tallies.iter().position(|(known, _)| *known == device).unwrap_or_else(|| {
            self.tallies.push((device, ClassTally::default()));
            self.tallies.len() - 1
        });
        &mut self.tallies[at].1
    }
}

/// [`Requests`] that knows the names of threads.
pub(crate) struct Named<'s, 'a, 'n> {
    requests: &'s mut Requests<'a>,
    name_of: &'s dyn Fn(u32) -> Option<&'n str>,
}

impl RequestSink for Named<'_, '_, '_> {
    fn request(&mut self, device: Device, request: &Request) {
        let comm = (self.name_of)(request.pid);
        self.requests.take(device, request, comm);
    }
}
