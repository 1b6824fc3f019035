//! From recorded files to the numbers of a layer: what `nestor trace summarize` does inside every machine, so that
//! only the numbers travel.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use crate::analyze::read_events;
use crate::attribute::Attribution;
use crate::decode::EventSource;
use crate::decode::blktrace::MergedReader;
use crate::decode::tracefs::TextReader;
use crate::error::TraceError;
use crate::event::{BlockEvent, Device};
use crate::layer::Devices;
use crate::metrics::{LayerMetrics, TracePoint};
use crate::recording::RecordSummary;
use crate::request_file::{ClockReading, RequestHeader, RequestWriter};
use crate::sink::Requests;

/// What a recording is to be turned into besides the numbers of its layer.
#[derive(Clone, Debug, Default)]
pub struct SummarizeOptions<'a> {
    /// What the bytes of the device are for.
    pub attribution: Option<&'a Attribution>,
    /// Where the requests are to be written, in the order of completion.
    pub requests: Option<PathBuf>,
    /// The layer at whose lower edge they were recorded, as the file of requests is to name it.
    pub layer: String,
    /// The machine, likewise.
    pub machine: String,
    /// What kind of trace point it is, likewise (`guest block`, `host block`).
    pub kind: String,
    /// Bytes of the device; 0 where unknown.
    pub device_bytes: u64,
}

/// Condenses the files that blktrace wrote, one per CPU.
///
/// Events that blktrace lost are not in its files; the caller adds them if it knows.
///
/// # Errors
/// A file cannot be read or is not blktrace's; there are only events of other devices. A trace of an idle device
/// is no error.
pub fn summarize_blktrace(
    inputs: &[PathBuf],
    device: Option<(u32, u32)>,
) -> Result<LayerMetrics, TraceError> {
    let mut reader = MergedReader::open(inputs)?;
    let job =
        Job { point: TracePoint::Blktrace, paths: inputs, device: device.map(Device::from), lost_events: 0 };
    job.run(&mut reader, &mut Requests::new(None, None), |_| {})
}

/// Condenses the output of `trace_pipe` or `trace` of tracefs.
///
/// Times have the resolution of the text, one microsecond.
///
/// # Errors
/// The text cannot be read, is something else, or has only events of other devices. A trace of an idle device is no
/// error.
pub fn summarize_tracefs(
    reader: impl BufRead + Send,
    path: &Path,
    device: Option<(u32, u32)>,
) -> Result<LayerMetrics, TraceError> {
    let mut reader = TextReader::new(reader, path);
    let paths = [path.to_path_buf()];
    let job =
        Job { point: TracePoint::Tracefs, paths: &paths, device: device.map(Device::from), lost_events: 0 };
    job.run(&mut reader, &mut Requests::new(None, None), |_| {})
}

/// Condenses what `record` of `nestor-capture` left in a directory, with the losses that it knew of.
///
/// # Errors
/// The recording has not ended or was made by something else; its files cannot be read.
pub fn summarize_recording(directory: &Path) -> Result<LayerMetrics, TraceError> {
    summarize_recording_with(directory, &SummarizeOptions::default())
}

/// As [`summarize_recording`], with attribution and a file of requests.
///
/// # Errors
/// As [`summarize_recording`]; the file of requests cannot be written.
pub fn summarize_recording_with(
    directory: &Path,
    options: &SummarizeOptions<'_>,
) -> Result<LayerMetrics, TraceError> {
    let summary = RecordSummary::read(directory)?;
    let paths: Vec<_> = summary.files.iter().map(|name| directory.join(name)).collect();
    let header = header(&summary, options);
    let writer = options.requests.as_ref().map(|path| RequestWriter::create(path, header));
    let mut writer = writer.transpose()?;
    let mut requests = Requests::new(options.attribution, writer.as_mut());
    let (point, lost_events) = (summary.method, summary.dropped_events);
    let job = Job { point, paths: &paths, device: Some(summary.device), lost_events };
    let metrics = if point == TracePoint::Blktrace {
        job.run(&mut MergedReader::open(&paths)?, &mut requests, |_| {})?
    } else {
        let [path] = paths.as_slice() else {
            let hint = "a recording through tracefs has one file; record again".to_owned();
            return Err(TraceError::Empty { paths: paths.clone(), device: job.device, hint });
        };
        let file = File::open(path).map_err(TraceError::io("open the trace", path))?;
        let mut reader = TextReader::new(BufReader::with_capacity(1 << 18, file), path);
        // tracefs gives the queue events of partitions under their own numbers.
        job.run(&mut reader, &mut requests, |event: &mut BlockEvent| {
            if summary.partitions.contains(&event.device) {
                event.device = summary.device;
            }
        })?
    };
    if let Some(mut writer) = writer {
        writer.set_dropped(metrics.dropped_events);
        writer.finish()?;
    }
    Ok(metrics)
}

fn header(summary: &RecordSummary, options: &SummarizeOptions<'_>) -> RequestHeader {
    RequestHeader {
        layer: options.layer.clone(),
        kind: options.kind.clone(),
        machine: options.machine.clone(),
        clock: ClockReading {
            realtime_ns: Some(summary.started_realtime_ns),
            monotonic_ns: summary.started_monotonic_ns,
        },
        space_bytes: options.device_bytes,
        dropped: summary.dropped_events,
        records: 0,
    }
}

/// What is to be counted of which files.
struct Job<'a> {
    point: TracePoint,
    paths: &'a [PathBuf],
    /// All devices together where none is named.
    device: Option<Device>,
    /// The loss that the recorder reports.
    lost_events: u64,
}

impl Job<'_> {
    fn run(
        &self,
        source: &mut dyn EventSource,
        requests: &mut Requests<'_>,
        adjust: impl Fn(&mut BlockEvent),
    ) -> Result<LayerMetrics, TraceError> {
        let mut devices = match self.device {
            Some(_) => Devices::new(self.point, self.device, true),
            None => Devices::together(self.point, true),
        };
        read_events(source, &mut devices, requests, adjust)?;
        self.complain_if_wrong(&devices, source)?;
        // The text mentions the losses that the reader noticed, the recorder counted all of them.
        let lost_events = source.lost_events().max(self.lost_events);
        let warnings = source.warnings().remarks();
        let owned = |pid| source.thread_name(pid).map(str::to_owned);
        let names = |pid| source.thread_name(pid);
        let found = devices.finish(lost_events, &owned, &mut requests.with_names(&names)).into_iter().next();
        requests.check()?;
        let idle = found.is_none();
        let mut metrics = match found {
            Some((device, metrics)) => LayerMetrics { classes: requests.classes_of(device), ..metrics },
            None => LayerMetrics { dropped_events: lost_events, ..LayerMetrics::new(self.point) },
        };
        if idle {
            // Not an error: a layer above may have answered everything from its cache.
            metrics.remarks.push("no request reached this layer while it was recorded".to_owned());
        }
        metrics.remarks.extend(warnings);
        Ok(metrics)
    }

    /// Files without a single event of the device are mostly the wrong ones.
    fn complain_if_wrong(&self, devices: &Devices, source: &dyn EventSource) -> Result<(), TraceError> {
        let others = devices.events_of_other_devices();
        if devices.events() > others {
            return Ok(());
        }
        let warnings = source.warnings();
        let hint = if others > 0 {
            format!("they have {others} events of other devices; check the device's number")
        } else if warnings.skipped_lines + warnings.truncated_bytes > 0 || self.paths.is_empty() {
            "the events in them are not block events; check that these are the right files".to_owned()
        } else {
            return Ok(());
        };
        Err(TraceError::Empty { paths: self.paths.to_vec(), device: self.device, hint })
    }
}
