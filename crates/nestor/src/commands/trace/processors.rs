//! `nestor trace processors`: how busy a machine's processors are, sampled in the machine until it is interrupted.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;

use nestor_vtime::protocol::mark;

use crate::interrupt::interrupted_by_signals;
use crate::whole_file;

/// Arguments of `nestor trace processors`.
#[derive(Args, Debug)]
pub struct ProcessorsArguments {
    /// Where the samples go: for each a line of /proc/stat, one of the device's statistics, and the clock in nanoseconds
    #[arg(long, value_name = "FILE")]
    output: PathBuf,
    /// The block device whose requests say when I/O ran
    #[arg(long, value_name = "DEVICE")]
    device: Option<PathBuf>,
    /// Mark each sample for the library that counts the instructions of a machine in virtual time
    #[arg(long)]
    mark: bool,
    /// Milliseconds between samples
    #[arg(long, default_value_t = 400)]
    interval_ms: u64,
}

/// Runs it.
///
/// # Errors
/// When the kernel's statistics cannot be read, or the file not be written.
pub fn run(arguments: &ProcessorsArguments) -> Result<()> {
    let stop = interrupted_by_signals()?;
    let output = &arguments.output;
    let device = arguments.device.as_deref().and_then(Path::file_name);
    let device = device.map(|name| Path::new("/sys/class/block").join(name).join("stat"));
    let mut file =
        whole_file::create(output).with_context(|| format!("cannot write {}", output.display()))?;
    loop {
        let stopped = stop.load(Ordering::Relaxed);
        let requests = device.as_deref().map(first_line).transpose()?.unwrap_or_default();
        let clock = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        if arguments.mark {
            mark();
        }
        let clock_ns = clock.tv_sec * 1_000_000_000 + clock.tv_nsec;
        let sample = format!("{}\n{requests}\n{clock_ns}\n", first_line(Path::new("/proc/stat"))?);
        file.write_all(sample.as_bytes()).with_context(|| format!("cannot write {}", output.display()))?;
        if stopped {
            return Ok(());
        }
        // A signal cuts it short.
        let _ = rustix::thread::nanosleep(&pause(Duration::from_millis(arguments.interval_ms)));
    }
}

fn pause(of: Duration) -> rustix::time::Timespec {
    rustix::time::Timespec { tv_sec: of.as_secs().cast_signed(), tv_nsec: of.subsec_nanos().into() }
}

fn first_line(path: &Path) -> Result<String> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(text.lines().next().unwrap_or_default().to_owned())
}
