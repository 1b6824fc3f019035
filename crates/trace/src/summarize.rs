//! From recorded files to the numbers of a layer: what `nestor trace summarize` does inside every machine, so that
//! only the numbers travel.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use crate::capture::RecordSummary;
use crate::decode::ReadWarnings;
use crate::decode::blktrace::MergedReader;
use crate::decode::tracefs::TextReader;
use crate::error::TraceError;
use crate::event::{BlockEvent, Device};
use crate::layer::LayerAccumulator;
use crate::metrics::{LayerMetrics, TracePoint};

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
    let device = device.map(Device::from);
    let mut reader = MergedReader::open(inputs)?;
    let accumulator = accumulate(TracePoint::Blktrace, device, || reader.next_event())?;
    finish(accumulator, inputs, device, &reader.warnings(), 0)
}

/// Condenses what `trace_pipe` or `trace` of tracefs gave.
///
/// Times have the resolution of the text, one microsecond.
///
/// # Errors
/// The text cannot be read, is something else, or has only events of other devices. A trace of an idle device is no
/// error.
pub fn summarize_tracefs(
    reader: impl BufRead,
    path: &Path,
    device: Option<(u32, u32)>,
) -> Result<LayerMetrics, TraceError> {
    let device = device.map(Device::from);
    let mut reader = TextReader::new(reader, path);
    let accumulator = accumulate(TracePoint::Tracefs, device, || reader.next_event())?;
    finish(accumulator, &[path.to_path_buf()], device, reader.warnings(), reader.lost_events())
}

/// Condenses what [`record`](crate::capture::record) left in a directory, with the losses that it knew of.
///
/// # Errors
/// The recording has not ended or was made by something else; its files cannot be read.
pub fn summarize_recording(directory: &Path) -> Result<LayerMetrics, TraceError> {
    let summary = RecordSummary::read(directory)?;
    let paths: Vec<_> = summary.files.iter().map(|name| directory.join(name)).collect();
    let device = Some(summary.device);
    if summary.method == TracePoint::Blktrace {
        let mut reader = MergedReader::open(&paths)?;
        let accumulator = accumulate(TracePoint::Blktrace, device, || reader.next_event())?;
        return finish(accumulator, &paths, device, &reader.warnings(), summary.dropped_events);
    }
    let [path] = paths.as_slice() else {
        let hint = "a recording through tracefs has one file; record again".to_owned();
        return Err(TraceError::Empty { paths, device, hint });
    };
    let file = File::open(path).map_err(TraceError::io("open the trace", path))?;
    let mut reader = TextReader::new(BufReader::with_capacity(1 << 18, file), path);
    let of_whole_disk = |event: BlockEvent| {
        let device = if summary.partitions.contains(&event.device) { summary.device } else { event.device };
        BlockEvent { device, ..event }
    };
    let next = || Ok(reader.next_event()?.map(of_whole_disk));
    let accumulator = accumulate(TracePoint::Tracefs, device, next)?;
    // The text mentions the losses that the reader noticed, the recorder counted all of them.
    let lost_events = reader.lost_events().max(summary.dropped_events);
    finish(accumulator, &paths, device, reader.warnings(), lost_events)
}

fn accumulate(
    trace_point: TracePoint,
    device: Option<Device>,
    mut next: impl FnMut() -> Result<Option<BlockEvent>, TraceError>,
) -> Result<LayerAccumulator, TraceError> {
    let mut accumulator = LayerAccumulator::new(trace_point, device);
    while let Some(event) = next()? {
        accumulator.push(&event);
    }
    Ok(accumulator)
}

fn finish(
    accumulator: LayerAccumulator,
    paths: &[PathBuf],
    device: Option<Device>,
    warnings: &ReadWarnings,
    lost_events: u64,
) -> Result<LayerMetrics, TraceError> {
    let idle = accumulator.events() == 0;
    let others = accumulator.events_of_other_devices();
    let hint = if others > 0 {
        Some(format!("there are {others} events of other devices; check the device's number"))
    } else if warnings.skipped_lines + warnings.truncated_bytes > 0 || paths.is_empty() {
        Some("what there is are no block events; check that these are the right files".to_owned())
    } else {
        None
    };
    if let Some(hint) = hint.filter(|_| idle) {
        return Err(TraceError::Empty { paths: paths.to_vec(), device, hint });
    }
    let mut metrics = accumulator.finish(lost_events);
    if idle {
        // Not an error: a layer above may have answered everything from its cache.
        metrics.remarks.push("no request reached this layer while it was recorded".to_owned());
    }
    metrics.remarks.extend(warnings.remarks());
    Ok(metrics)
}
