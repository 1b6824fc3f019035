//! `nestor trace processors`: how busy a machine's processors are, sampled in the machine until it is interrupted.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;

use nestor_measure::cell::{SamplePace, completed_requests};
use nestor_trace::rpc::{CLIENT_COUNTERS, RpcCounts};
use nestor_vtime::protocol::mark;

use crate::interrupt::stopped_by_signals;
use crate::whole_file;

/// Arguments of `nestor trace processors`.
#[derive(Args, Debug)]
pub struct ProcessorsArguments {
    /// Where the samples go: for each a line of /proc/stat, one with the requests completed, and the clock in nanoseconds
    #[arg(long, value_name = "FILE")]
    output: PathBuf,
    /// The block device whose requests say when I/O ran
    #[arg(long, value_name = "DEVICE")]
    device: Option<PathBuf>,
    /// The mount point of an NFS whose calls say when I/O ran
    #[arg(long, value_name = "DIRECTORY", conflicts_with = "device")]
    nfs: Option<PathBuf>,
    /// Mark each sample for the library that counts the instructions of a machine in virtual time
    #[arg(long)]
    mark: bool,
    /// Most milliseconds between samples; shorter while I/O has just begun
    #[arg(long, default_value_t = 400)]
    interval_ms: u64,
}

/// Runs it.
///
/// # Errors
/// When the kernel's statistics cannot be read, or the file not be written.
pub fn run(arguments: &ProcessorsArguments) -> Result<()> {
    let stop = stopped_by_signals()?;
    let output = &arguments.output;
    let source = Source::of(arguments);
    let mut file =
        whole_file::create(output).with_context(|| format!("cannot write {}", output.display()))?;
    let mut begun: Option<SamplePace> = None;
    loop {
        let stopped = stop.is_stopped();
        let done = source.as_ref().map(Source::completed).transpose()?;
        let clock = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        let now =
            Duration::new(clock.tv_sec.unsigned_abs(), u32::try_from(clock.tv_nsec).unwrap_or_default());
        let is_first = begun.is_none();
        let longest = Duration::from_millis(arguments.interval_ms);
        let pace = begun.get_or_insert_with(|| SamplePace::new(longest, done, now));
        if is_first || pace.is_due(done, now) || stopped {
            if arguments.mark {
                mark();
            }
            let processors = first_line(Path::new("/proc/stat"))?;
            let requests = done.map_or_else(String::new, |done| done.to_string());
            let sample = format!("{processors}\n{requests}\n{}\n", now.as_nanos());
            file.write_all(sample.as_bytes())
                .with_context(|| format!("cannot write {}", output.display()))?;
        }
        if stopped {
            return Ok(());
        }
        stop.wait_at_most(pace.pause(now));
    }
}

/// What says when I/O runs.
enum Source<'a> {
    /// The statistics of a block device.
    Device(PathBuf),
    /// An NFS that is mounted.
    Nfs(&'a Path),
}

impl<'a> Source<'a> {
    fn of(arguments: &'a ProcessorsArguments) -> Option<Self> {
        let device = arguments.device.as_deref().and_then(Path::file_name);
        let device = device.map(|name| Self::Device(Path::new("/sys/class/block").join(name).join("stat")));
        device.or_else(|| arguments.nfs.as_deref().map(Self::Nfs))
    }

    /// How many requests it has completed.
    fn completed(&self) -> Result<u64> {
        match self {
            Self::Device(statistics) => Ok(completed_requests(&first_line(statistics)?)),
            Self::Nfs(mount_point) => {
                Ok(RpcCounts::of_client(&read(Path::new(CLIENT_COUNTERS))?, mount_point)?.calls())
            }
        }
    }
}

fn first_line(path: &Path) -> Result<String> {
    Ok(read(path)?.lines().next().unwrap_or_default().to_owned())
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}
