//! From a trace that a user brings to the numbers of each device in it.

use std::fmt;

use serde::{Serialize, Serializer};

use crate::attribute::Attribution;
use crate::counted::CountedHistogram;
use crate::decode::{EventSource, Format, QemuSource, RequestSource, Source, Trace, VscsiHistogram};
use crate::error::TraceError;
use crate::event::{BlockEvent, Device};
use crate::layer::{Devices, MOST_DEVICES, MOST_TARGETS, NoSink, RequestLayers};
use crate::metrics::{LayerMetrics, TracePoint};
use crate::sink::Requests;

/// Events that are read at a time: few enough to stay in the processor's first cache.
const BATCH: usize = 256;

/// Kinds of QEMU's events that are counted each.
const MOST_NAMES: usize = 64;

/// What to look at.
#[derive(Clone, Copy, Debug, Default)]
pub struct AnalyzeOptions<'a> {
    /// Only this device.
    pub device: Option<Device>,
    /// Tell threads apart.
    pub per_process: bool,
    /// What the bytes of the device are for.
    pub attribution: Option<&'a Attribution>,
}

/// The numbers of a trace.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Analysis {
    /// Name of the trace and what it is: `sda: blktrace records, 4 files`.
    pub trace: String,
    /// Events, requests or histograms that were read.
    pub records: u64,
    /// Each device, in the order in which they appeared.
    pub layers: Vec<AnalyzedLayer>,
    /// Distributions that the recorder has counted itself, of all disks (vscsiStats).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub histograms: Vec<CountedHistogram>,
    /// What belongs beside all of them, with counts.
    pub remarks: Vec<String>,
}

/// A device, disk or file as a trace tells it from others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TracedDevice {
    /// By its number: `8:0`.
    Number(Device),
    /// By the name that the trace gives it.
    Named(String),
    /// By its position among those of the trace, which has no names for them: `disk 0`.
    Position(usize),
}

impl fmt::Display for TracedDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(device) => device.fmt(f),
            Self::Named(name) => f.write_str(name),
            Self::Position(position) => write!(f, "disk {position}"),
        }
    }
}

impl Serialize for TracedDevice {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

/// One device, disk or file of a trace.
#[derive(Clone, Debug, Serialize)]
pub struct AnalyzedLayer {
    /// Which one.
    #[serde(rename = "name")]
    pub device: TracedDevice,
    /// Its numbers.
    pub metrics: LayerMetrics,
}

/// Reads a trace to its end and counts.
///
/// Memory is that of what is in flight and of the histograms, whatever the length.
///
/// # Errors
/// The trace cannot be read, or there is nothing in it that can be counted.
pub fn analyze(trace: Trace, options: &AnalyzeOptions<'_>) -> Result<Analysis, TraceError> {
    let trace_name = trace.description();
    let mut analysis = match trace.source {
        Source::BlockEvents(source) => block_events(source, point(trace.format), options)?,
        Source::Requests(source) => requests(source, point(trace.format), options)?,
        Source::Histograms(histograms) => vscsi(histograms),
        Source::Qemu(source) => qemu(source)?,
    };
    analysis.trace = trace_name;
    analysis.remarks.splice(0..0, trace.remarks);
    if analysis.layers.is_empty() && options.device.is_some() {
        let hint = match analysis.records {
            0 => "they have no block events at all; check that these are the right files".to_owned(),
            n => format!("they have {n} events of other devices; check the device's number"),
        };
        return Err(TraceError::Empty { paths: trace.paths, device: options.device, hint });
    }
    Ok(analysis)
}

fn point(format: Format) -> TracePoint {
    match format {
        Format::Blktrace | Format::Blkparse => TracePoint::Blktrace,
        Format::Tracefs => TracePoint::Tracefs,
        Format::DiskLog => TracePoint::DiskLog,
        Format::LinkLog => TracePoint::LinkLog,
        Format::Simpletrace | Format::QemuLog | Format::VscsiCommands | Format::VscsiHistograms => {
            TracePoint::Hypervisor
        }
        Format::FioIolog | Format::FioLatencyLog | Format::Msr | Format::RequestFile => {
            TracePoint::Application
        }
    }
}

/// Reads all events into `devices`.
///
/// # Errors
/// The trace cannot be read.
pub(crate) fn read_events(
    source: &mut dyn EventSource,
    devices: &mut Devices,
    requests: &mut Requests<'_>,
    adjust: impl Fn(&mut BlockEvent),
) -> Result<(), TraceError> {
    let mut events = Vec::with_capacity(BATCH);
    while source.next_events(BATCH, &mut events)? {
        events.iter_mut().for_each(&adjust);
        if requests.wanted() {
            let names = |pid| source.thread_name(pid);
            let mut sink = requests.with_names(&names);
            devices.push_all(&events, &mut sink);
        } else {
            devices.push_all(&events, &mut NoSink);
        }
    }
    Ok(())
}

fn block_events(
    mut source: Box<dyn EventSource>,
    point: TracePoint,
    options: &AnalyzeOptions<'_>,
) -> Result<Analysis, TraceError> {
    let mut devices = Devices::new(point, options.device, options.per_process);
    let mut requests = Requests::new(options.attribution, None);
    read_events(&mut *source, &mut devices, &mut requests, |_| {})?;
    let name_of = |pid| source.thread_name(pid).map(str::to_owned);
    let records = devices.events();
    let mut remarks = source.warnings().remarks();
    match devices.events_without_place() {
        0 => {}
        n => {
            remarks.push(format!(
            "{n} events are of devices beyond the first {MOST_DEVICES}, which were left out; name one to count it"
        ))
        }
    }
    let names = |pid| source.thread_name(pid);
    let found = devices.finish(source.lost_events(), &name_of, &mut requests.with_names(&names));
    let mut layers = Vec::new();
    for (device, mut metrics) in found {
        metrics.classes = requests.classes_of(device);
        layers.push(AnalyzedLayer { device: TracedDevice::Number(device), metrics });
    }
    if layers.is_empty() {
        remarks.push("the trace has no requests".to_owned());
    }
    Ok(Analysis { records, layers, remarks, ..Analysis::default() })
}

fn requests(
    mut source: Box<dyn RequestSource>,
    point: TracePoint,
    options: &AnalyzeOptions<'_>,
) -> Result<Analysis, TraceError> {
    let mut layers = RequestLayers::new(point, source.recorded());
    let mut records = 0;
    while let Some(traced) = source.next_request()? {
        records += 1;
        let attributed = options.attribution.map(|attribution| {
            let request = &traced.request;
            attribution.class_of(request.operation, request.flags, request.offset, request.bytes, None)
        });
        layers.push(&traced, attributed.as_ref());
    }
    let mut remarks = source.warnings().remarks();
    let recorded = source.recorded();
    for (known, text) in [
        (recorded.time, "the trace does not say when requests came: no rates and nothing over time"),
        (recorded.latency, "the trace does not say how long requests took: no latencies"),
        (recorded.offset, "the trace does not say where requests were: no seek distances"),
    ] {
        if !known {
            remarks.push(text.to_owned());
        }
    }
    let (found, without_place) = layers.finish();
    if without_place > 0 {
        remarks.push(format!(
            "{without_place} requests are of disks beyond the first {MOST_TARGETS}, which were left out"
        ));
    }
    let device = |target: usize| {
        let name = source.targets().get(target).cloned();
        name.map_or(TracedDevice::Position(target), TracedDevice::Named)
    };
    let layers = found
        .into_iter()
        .map(|(target, metrics)| AnalyzedLayer { device: device(target), metrics })
        .collect();
    Ok(Analysis { records, layers, remarks, ..Analysis::default() })
}

/// Histograms that vscsiStats counted: nothing is left to count, and its numbers are passed on.
fn vscsi(histograms: Vec<VscsiHistogram>) -> Analysis {
    let records = histograms.len() as u64;
    let empty = histograms.iter().filter(|histogram| histogram.count == 0).count();
    let histograms: Vec<_> =
        histograms.into_iter().filter(|histogram| histogram.count > 0).map(CountedHistogram::new).collect();
    let mut remarks = Vec::new();
    if empty > 0 {
        remarks.push(format!("histograms without an observation, which were left out: {empty}"));
    }
    Analysis { records, histograms, remarks, ..Analysis::default() }
}

/// QEMU's own events: which of them are requests of which disk is known only with its recording.
fn qemu(mut source: Box<dyn QemuSource>) -> Result<Analysis, TraceError> {
    let mut by_name = std::collections::BTreeMap::<String, u64>::new();
    let (mut records, mut without_place) = (0, 0_u64);
    while let Some(event) = source.next_event()? {
        records += 1;
        let name = &*event.name;
        let room = by_name.len() < MOST_NAMES;
        match by_name.get_mut(name) {
            Some(count) => *count += 1,
            None if room => {
                by_name.insert(name.to_owned(), 1);
            }
            None => without_place += 1,
        }
    }
    let mut remarks = source.warnings().remarks();
    if without_place > 0 {
        remarks.push(format!("{without_place} events are of kinds beyond the first {MOST_NAMES}"));
    }
    remarks.extend(by_name.iter().map(|(name, count)| format!("{count} x {name}")));
    remarks.push(
        "for the numbers of a disk, give its recording to `nestor trace hypervisor summarize`".to_owned(),
    );
    Ok(Analysis { records, remarks, ..Analysis::default() })
}
