//! Recording the block events of a device, or the calls of a network file system, on the machine where this runs.
//!
//! Two ways: `blktrace`, which reads the kernel's relay files, and tracefs, which some kernels still offer where
//! they lock those (`lockdown=confidentiality`). Both times are `CLOCK_MONOTONIC`, so recordings of one machine share
//! a clock whatever they were made with.

mod calls;
mod device;
mod file_handles;
mod files;
mod instance;
mod live;
mod mounts;
mod output;
mod qemu_events;
mod relay;
mod remove;
mod tracefs;

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use nestor_stop::StopHandle;
use nestor_trace::recording::{Moment, RecordSummary, SUMMARY_FILE};
use nestor_trace::{TraceError, TracePoint};

pub use calls::{CallOptions, record_calls};
use device::BlockDevice;
pub use file_handles::{FileHandles, file_handles};
pub use files::{COUNTERS, TRACEFS_TEXT};
pub use instance::remove_stale_instances;
pub use live::{LiveCapture, LiveEvent, LiveOptions};
pub use qemu_events::{HypervisorOptions, ImageFormat, record_hypervisor};
pub use remove::remove_recording;

/// Name of the file that appears in the output directory when events are being recorded.
pub const READY_FILE: &str = "ready";
/// Which way to record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// Relay files if `blktrace` is there and may read them, else tracefs.
    #[default]
    Auto,
    /// `blktrace`.
    Relay,
    /// tracefs.
    Tracefs,
}

/// What to record, and where to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordOptions {
    /// The block device.
    pub device: PathBuf,
    /// A directory that is not on that device: one that is not there yet, an empty one, or that of an earlier recording, whose
    /// files give way.
    pub output: PathBuf,
    /// Which way.
    pub method: Method,
}

/// What a way of recording reports when it has ended.
struct Recorded {
    dropped_events: u64,
    files: Vec<PathBuf>,
    started: Moment,
    stopped_monotonic_ns: u64,
}

/// Records until it is stopped, then writes the [`RecordSummary`] beside the recorded files and returns it.
///
/// A file `ready` appears in the output directory as soon as every later request of the device is recorded. What is
/// mounted or made for the recording is taken away again, also after an error. Needs root.
///
/// # Errors
/// The device or the directory cannot be used; the kernel cannot record this way; the recorder ended by itself.
pub fn record(options: &RecordOptions, stop: &StopHandle) -> Result<RecordSummary, TraceError> {
    let device = BlockDevice::open(&options.device)?;
    let output = &options.output;
    output::make(output)?;
    let (method, why, recorded) = started(&device, options, stop).inspect_err(|_| output::clear(output))?;
    let _ = fs::remove_file(output.join(READY_FILE));
    let summary = RecordSummary {
        method,
        why,
        device: device.number,
        partitions: device.partitions.clone(),
        dropped_events: recorded.dropped_events,
        files: recorded.files,
        started_monotonic_ns: recorded.started.monotonic_ns,
        started_realtime_ns: recorded.started.realtime_ns,
        stopped_monotonic_ns: recorded.stopped_monotonic_ns,
        hypervisor: None,
    };
    write_summary(&summary, output)?;
    Ok(summary)
}

fn started(
    device: &BlockDevice,
    options: &RecordOptions,
    stop: &StopHandle,
) -> Result<(TracePoint, String, Recorded), TraceError> {
    let output = &options.output;
    Ok(match options.method {
        Method::Relay => {
            (TracePoint::Blktrace, "asked for".to_owned(), relay::Relay::start(device, output)?.run(stop)?)
        }
        Method::Tracefs => (TracePoint::Tracefs, "asked for".to_owned(), tracefs::run(device, output, stop)?),
        Method::Auto => match relay::Relay::start(device, output) {
            Ok(relay) => (TracePoint::Blktrace, "blktrace works here".to_owned(), relay.run(stop)?),
            Err(error) => {
                // What blktrace said is in the error; its file is not part of a recording through tracefs.
                output::clear(output);
                (TracePoint::Tracefs, error.to_string(), tracefs::run(device, output, stop)?)
            }
        },
    })
}

/// Writes the summary beside the recorded files.
fn write_summary(summary: &RecordSummary, directory: &Path) -> Result<(), TraceError> {
    let path = directory.join(SUMMARY_FILE);
    let text = serde_json::to_vec_pretty(summary).expect("a plain structure can be written as JSON");
    new_file(&path)?.write_all(&text).map_err(TraceError::io("write the recording's summary", &path))
}

/// Says that events are being recorded, and when that was.
fn announce_ready(output: &Path) -> Result<Moment, TraceError> {
    let now = Moment::now();
    let path = output.join(READY_FILE);
    let mut file = new_file(&path)?;
    writeln!(file, "{}", now.monotonic_ns).map_err(TraceError::io("write", &path))?;
    Ok(now)
}

/// A file of a recording, which nothing gives way to: [`output::make`] has seen to it that there is nothing.
fn new_file(path: &Path) -> Result<File, TraceError> {
    nestor_ownership::new_file(path, 0o644).map_err(TraceError::io("make", path))
}

/// KiB of the kernel's buffer of each CPU, which is at least `least_kib`: all together enough for bursts, and little of a small
/// machine's memory, which is the cache under test.
fn buffer_kib_of_cpu(memory_bytes: u64, cpus: u64, least_kib: u64) -> u64 {
    const MOST_KIB: u64 = 32 << 10;
    const LEAST_KIB: u64 = 2 << 10;
    ((memory_bytes / 128 / 1024).clamp(LEAST_KIB, MOST_KIB) / cpus.max(1)).max(least_kib)
}

fn cpus() -> u64 {
    std::thread::available_parallelism().map_or(1, |n| n.get() as u64)
}
