//! Recording the block events of a device on the machine where this runs.
//!
//! Two ways: `blktrace`, which reads the kernel's relay files, and tracefs, which some kernels still offer where
//! they lock those (`lockdown=confidentiality`). Both times are `CLOCK_MONOTONIC`, so recordings of one machine share
//! a clock whatever they were made with.

mod device;
mod hypervisor;
mod mounts;
mod relay;
mod remove;
mod tracefs;

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use serde::{Deserialize, Serialize};

use nestor_machine::ownership;

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
    /// A directory that is not on that device; made if it is missing.
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
        serde_json::from_slice(&text).map_err(|error| TraceError::Format {
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
    make_output(output)?;
    for old in [READY_FILE, SUMMARY_FILE] {
        // A recording that was here before must not look like this one.
        let _ = fs::remove_file(output.join(old));
    }
    let (method, why, recorded) = match options.method {
        Method::Relay => {
            (TracePoint::Blktrace, "asked for".to_owned(), relay::Relay::start(&device, output)?.run(stop)?)
        }
        Method::Tracefs => {
            (TracePoint::Tracefs, "asked for".to_owned(), tracefs::run(&device, output, stop)?)
        }
        Method::Auto => match relay::Relay::start(&device, output) {
            Ok(relay) => (TracePoint::Blktrace, "blktrace works here".to_owned(), relay.run(stop)?),
            Err(error) => (TracePoint::Tracefs, error.to_string(), tracefs::run(&device, output, stop)?),
        },
    };
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

/// Says that events are being recorded, and when that was.
fn announce_ready(output: &Path) -> Result<Moment, TraceError> {
    let now = Moment::now();
    let path = output.join(READY_FILE);
    let mut file = new_file(&path)?;
    writeln!(file, "{}", now.monotonic_ns).map_err(TraceError::io("write", &path))?;
    Ok(now)
}

/// A file of a recording, in place of one of an earlier recording; never through a link, which somebody else may have
/// made.
fn new_file(path: &Path) -> Result<File, TraceError> {
    let options = &mut File::options();
    let options = options.write(true).create(true).truncate(true).custom_flags(libc::O_NOFOLLOW);
    options.open(path).map_err(TraceError::io("write", path))
}

/// Makes the directory of a recording. One that is there already has to be this user's alone: in another's, what the
/// recorder writes could be led elsewhere.
fn make_output(output: &Path) -> Result<(), TraceError> {
    let make = fs::DirBuilder::new().recursive(true).mode(0o755).create(output);
    make.map_err(TraceError::io("make the output directory", output))?;
    let look = |file: File| Ok((file.metadata()?.uid(), ownership::writers(&file)?));
    let found = File::open(output).and_then(look);
    let (owner, writers) = found.map_err(TraceError::io("look at the output directory", output))?;
    let reason = match writers {
        Some(writers) => writers.to_string(),
        None if owner == ownership::user() => return Ok(()),
        None => "it belongs to another user".to_owned(),
    };
    Err(TraceError::NotOurs { path: output.to_owned(), reason })
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
