//! Recording the block events of a device on the machine where this runs.
//!
//! Two ways: `blktrace`, which reads the kernel's relay files, and tracefs, which some kernels still offer where
//! they lock those (`lockdown=confidentiality`). Both times are `CLOCK_MONOTONIC`, so recordings of one machine share
//! a clock whatever they were made with.

mod device;
mod hypervisor;
mod mounts;
mod output;
mod relay;
mod remove;
mod tracefs;

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use serde::{Deserialize, Serialize};

use crate::error::TraceError;
use crate::event::Device;
use crate::metrics::TracePoint;

use device::BlockDevice;
pub use hypervisor::{HypervisorOptions, HypervisorSource, Interface, record_hypervisor};
pub use remove::remove_recording;
pub use tracefs::remove_stale_instances;

/// Name of the file that appears in the output directory when events are being recorded.
pub const READY_FILE: &str = "ready";
/// Name of the file with the [`RecordSummary`], written when the recording has ended.
pub const SUMMARY_FILE: &str = "record.json";

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

/// How a recording went.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordSummary {
    /// The way that was taken.
    pub method: TracePoint,
    /// Why that one.
    pub why: String,
    /// The device's number.
    pub device: Device,
    /// Its partitions; tracefs gives the queue events of theirs under their own numbers.
    pub partitions: Vec<Device>,
    /// Events that the kernel could not keep.
    pub dropped_events: u64,
    /// Names of the recorded files in the output directory.
    pub files: Vec<PathBuf>,
    /// `CLOCK_MONOTONIC` when events began to be recorded: the clock of the events.
    pub started_monotonic_ns: u64,
    /// `CLOCK_REALTIME` at the same moment.
    pub started_realtime_ns: u64,
    /// `CLOCK_MONOTONIC` when recording ended.
    pub stopped_monotonic_ns: u64,
    /// What is known of a recording of a hypervisor's requests; absent for a block device's.
    #[serde(default)]
    pub hypervisor: Option<HypervisorSource>,
}

impl RecordSummary {
    /// Reads the summary of the recording in a directory.
    ///
    /// # Errors
    /// There is none, or it is not one.
    pub fn read(directory: &Path) -> Result<Self, TraceError> {
        let path = directory.join(SUMMARY_FILE);
        let text = fs::read(&path).map_err(TraceError::io("read the recording's summary", &path))?;
        Self::parse(&text, path)
    }

    fn parse(text: &[u8], path: PathBuf) -> Result<Self, TraceError> {
        serde_json::from_slice(text).map_err(|error| TraceError::Format {
            path,
            offset: 0,
            reason: format!("not the summary of a recording: {error}; record again"),
        })
    }

    fn write(&self, directory: &Path) -> Result<(), TraceError> {
        let path = directory.join(SUMMARY_FILE);
        let text = serde_json::to_vec_pretty(self).expect("a plain structure can be written as JSON");
        new_file(&path)?.write_all(&text).map_err(TraceError::io("write the recording's summary", &path))
    }
}

/// What a way of recording reports when it has ended.
struct Recorded {
    dropped_events: u64,
    files: Vec<PathBuf>,
    started: Moment,
    stopped_monotonic_ns: u64,
}

/// One instant on both clocks.
#[derive(Clone, Copy)]
pub(crate) struct Moment {
    pub monotonic_ns: u64,
    pub realtime_ns: u64,
}

/// How often the clocks are read for one [`Moment`].
const READINGS: usize = 9;

impl Moment {
    /// Now. A busy machine may be elsewhere for milliseconds between reading one clock and the other, so the pair is
    /// taken that was read in the shortest time, and the realtime put in its middle.
    pub fn now() -> Self {
        use rustix::time::{ClockId, clock_gettime};
        let read = |clock| {
            let time = clock_gettime(clock);
            time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
        };
        let readings = (0..READINGS).map(|_| {
            let before = read(ClockId::Monotonic);
            let realtime_ns = read(ClockId::Realtime);
            let took = read(ClockId::Monotonic).saturating_sub(before);
            (took, Self { monotonic_ns: before + took / 2, realtime_ns })
        });
        readings.min_by_key(|(took, _)| *took).map(|(_, moment)| moment).expect("there are readings")
    }
}

/// Records until `stop` is set, then writes the [`RecordSummary`] beside the recorded files and returns it.
///
/// A file `ready` appears in the output directory as soon as every later request of the device is recorded. What is
/// mounted or made for the recording is taken away again, also after an error. Needs root.
///
/// # Errors
/// The device or the directory cannot be used; the kernel cannot record this way; the recorder ended by itself.
pub fn record(options: &RecordOptions, stop: &AtomicBool) -> Result<RecordSummary, TraceError> {
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
    summary.write(output)?;
    Ok(summary)
}

fn started(
    device: &BlockDevice,
    options: &RecordOptions,
    stop: &AtomicBool,
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
                // What blktrace said is in the error; its file is no part of a recording through tracefs.
                output::clear(output);
                (TracePoint::Tracefs, error.to_string(), tracefs::run(device, output, stop)?)
            }
        },
    })
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
    // With O_EXCL a link is not followed (open(2)).
    let made = File::options().write(true).create_new(true).mode(0o644).open(path);
    made.map_err(TraceError::io("make", path))
}

/// Bytes of the kernel's buffers, all CPUs together: enough for bursts, and little of a small machine's memory, which
/// is the cache under test.
fn buffer_bytes() -> u64 {
    const MOST: u64 = 32 << 20;
    const LEAST: u64 = 2 << 20;
    let info = rustix::system::sysinfo();
    (info.totalram as u64 * u64::from(info.mem_unit.max(1)) / 16).clamp(LEAST, MOST)
}

fn cpus() -> u64 {
    std::thread::available_parallelism().map_or(1, |n| n.get() as u64)
}
