//! Every request of a trace, one by one, whatever the trace was recorded with.

use crate::decode::{EventSource, Recorded, RequestSource, Source, Trace};
use crate::error::TraceError;
use crate::event::Device;
use crate::layer::Devices;
use crate::metrics::TracePoint;
use crate::request::Request;

/// Events that are read at a time, as many as stay in the processor's first cache.
const BATCH: usize = 256;

/// Which requests.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// Only those of this device.
    pub device: Option<Device>,
    /// Partitions whose requests count as the device's: tracefs gives their beginnings under their own numbers.
    pub partitions: Vec<Device>,
}

/// The summary of a trace whose requests were read.
#[derive(Clone, Debug)]
pub struct RequestsRead {
    /// Devices, disks or files: the number that comes with each request is the position.
    pub spaces: Vec<String>,
    /// What the records contain.
    pub recorded: Recorded,
    /// Events that the trace itself says were lost.
    pub lost_events: u64,
    /// What was odd.
    pub remarks: Vec<String>,
}

/// Gives each request to `take`, in the order in which they ended, with the number of the device, disk or file that it is of.
/// Constant memory.
///
/// # Errors
/// The trace cannot be read, or does not contain single requests (counted distributions, events of QEMU).
pub fn each_request(
    trace: Trace,
    wanted: &Wanted,
    take: &mut dyn FnMut(usize, &Request),
) -> Result<RequestsRead, TraceError> {
    let mut read = match trace.source {
        Source::BlockEvents(source) => of_events(source, wanted, take)?,
        Source::Requests(source) => of_requests(source, take)?,
        Source::Histograms(_) | Source::Qemu(_) => {
            let path = trace.paths.into_iter().next().unwrap_or_default();
            let reason = format!(
                "{} does not contain single requests; record with `nestor trace record` or blktrace",
                trace.format
            );
            return Err(TraceError::Format { path, offset: 0, reason });
        }
    };
    read.remarks.splice(0..0, trace.remarks);
    Ok(read)
}

fn of_events(
    mut source: Box<dyn EventSource>,
    wanted: &Wanted,
    take: &mut dyn FnMut(usize, &Request),
) -> Result<RequestsRead, TraceError> {
    let mut spaces: Vec<Device> = Vec::new();
    let mut devices = Devices::new(TracePoint::Blktrace, wanted.device, false);
    let mut sink = |device: Device, request: &Request| {
        let space = spaces.iter().position(|known| *known == device).unwrap_or_else(|| {
            spaces.push(device);
            spaces.len() - 1
        });
        take(space, request);
    };
    let mut events = Vec::with_capacity(BATCH);
    while source.next_events(BATCH, &mut events)? {
        if let Some(device) = wanted.device {
            for event in events.iter_mut().filter(|event| wanted.partitions.contains(&event.device)) {
                event.device = device;
            }
        }
        devices.push_all(&events, &mut sink);
    }
    let lost_events = source.lost_events();
    devices.finish(lost_events, &|_| None, &mut sink);
    Ok(RequestsRead {
        spaces: spaces.iter().map(ToString::to_string).collect(),
        recorded: Recorded { time: true, latency: true, offset: true },
        lost_events,
        remarks: source.warnings().remarks(),
    })
}

fn of_requests(
    mut source: Box<dyn RequestSource>,
    take: &mut dyn FnMut(usize, &Request),
) -> Result<RequestsRead, TraceError> {
    while let Some(traced) = source.next_request()? {
        take(traced.target as usize, &traced.request);
    }
    Ok(RequestsRead {
        spaces: source.targets().to_vec(),
        recorded: source.recorded(),
        lost_events: 0,
        remarks: source.warnings().remarks(),
    })
}
