//! `nestor trace processors`: how busy a machine's processors are, sampled in the machine until it is interrupted.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;

use nestor_measure::cell::completed_requests;
use nestor_vtime::protocol::mark;

use crate::interrupt::stopped_by_signals;
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
    /// Most milliseconds between samples; shorter while I/O has just begun
    #[arg(long, default_value_t = 400)]
    interval_ms: u64,
}

/// How often it is looked whether I/O has begun, and the least time between samples.
const SHORTEST: Duration = Duration::from_millis(25);

/// A sample is taken when I/O has gone on for this part longer than at the one before, so that short runs have as many as long ones.
const PART: u32 = 8;

/// After such a time without a request, the next one begins anew: what is read to open files comes before the workload's I/O.
const SILENCE: Duration = Duration::from_millis(100);

/// Says when samples are due.
struct Pace {
    longest: Duration,
    /// Reads and writes that were completed when it was looked last; `None` without a device, where samples are due at equal times.
    completed: Option<u64>,
    completed_at: Duration,
    io_began: Option<Duration>,
    sampled_at: Duration,
    due_at: Duration,
}

impl Pace {
    /// From a first sample on.
    fn new(longest: Duration, completed: Option<u64>, now: Duration) -> Self {
        let mut pace =
            Self { longest, completed, completed_at: now, io_began: None, sampled_at: now, due_at: now };
        pace.due_at = now + pace.interval(now);
        pace
    }

    fn interval(&self, now: Duration) -> Duration {
        match (self.completed, self.io_began) {
            (None, _) => self.longest,
            (Some(_), None) => SHORTEST.min(self.longest),
            (Some(_), Some(began)) => (now.saturating_sub(began) / PART).max(SHORTEST).min(self.longest),
        }
    }

    /// How long from now until it has to be looked again.
    fn pause(&self, now: Duration) -> Duration {
        match self.due_at.saturating_sub(now) {
            Duration::ZERO => SHORTEST.min(self.longest),
            left => left,
        }
    }

    /// Whether a sample is due now.
    fn is_due(&mut self, completed: Option<u64>, now: Duration) -> bool {
        if self.completed != completed {
            self.io_began.get_or_insert(now);
            (self.completed, self.completed_at) = (completed, now);
        } else if now.saturating_sub(self.completed_at) >= SILENCE.max(self.interval(now)) {
            self.io_began = None;
        }
        let waits_for_io =
            self.completed.is_some() && self.io_began.is_none() && self.sampled_at >= self.completed_at;
        let is_due = !waits_for_io && now >= self.due_at;
        if is_due {
            self.sampled_at = now;
            self.due_at = now + self.interval(now);
        }
        is_due
    }
}

/// Runs it.
///
/// # Errors
/// When the kernel's statistics cannot be read, or the file not be written.
pub fn run(arguments: &ProcessorsArguments) -> Result<()> {
    let stop = stopped_by_signals()?;
    let output = &arguments.output;
    let device = arguments.device.as_deref().and_then(Path::file_name);
    let device = device.map(|name| Path::new("/sys/class/block").join(name).join("stat"));
    let mut file =
        whole_file::create(output).with_context(|| format!("cannot write {}", output.display()))?;
    let mut pace: Option<Pace> = None;
    loop {
        let stopped = stop.is_stopped();
        let requests = device.as_deref().map(first_line).transpose()?;
        let clock = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        let now =
            Duration::new(clock.tv_sec.unsigned_abs(), u32::try_from(clock.tv_nsec).unwrap_or_default());
        let done = requests.as_deref().map(completed_requests);
        let is_due = match &mut pace {
            Some(pace) => pace.is_due(done, now),
            None => {
                pace = Some(Pace::new(Duration::from_millis(arguments.interval_ms), done, now));
                true
            }
        };
        if is_due || stopped {
            if arguments.mark {
                mark();
            }
            let (processors, requests) = (first_line(Path::new("/proc/stat"))?, requests.unwrap_or_default());
            let sample = format!("{processors}\n{requests}\n{}\n", now.as_nanos());
            file.write_all(sample.as_bytes())
                .with_context(|| format!("cannot write {}", output.display()))?;
        }
        if stopped {
            return Ok(());
        }
        stop.wait_at_most(pace.as_ref().map_or(SHORTEST, |pace| pace.pause(now)));
    }
}

fn first_line(path: &Path) -> Result<String> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONGEST: Duration = Duration::from_millis(400);

    /// The times in ms at which samples are taken, if requests are completed at these.
    fn sampled(requests_at_ms: &[u64], until_ms: u64) -> Vec<u64> {
        let done = |now: u64| Some(requests_at_ms.iter().filter(|at| **at <= now).count() as u64);
        let mut pace = Pace::new(LONGEST, done(0), Duration::ZERO);
        let (mut now, mut sampled) = (Duration::ZERO, Vec::new());
        while now < Duration::from_millis(until_ms) {
            let pause = pace.pause(now);
            assert!(!pause.is_zero());
            now += pause;
            if pace.is_due(done(now.as_millis() as u64), now) {
                sampled.push(now.as_millis() as u64);
            }
        }
        sampled
    }

    #[test]
    fn a_short_run_has_several_samples_and_what_opened_its_files_does_not_count() {
        let io: Vec<u64> = [30].into_iter().chain(1_000..1_090).collect();
        let samples = sampled(&io, 3_000);
        let within = samples.iter().filter(|at| (1_000..=1_100).contains(*at)).count();
        assert!(within >= 4, "{samples:?}");
        assert!(samples.len() <= within + 8, "few where nothing happens: {samples:?}");
        assert!(*samples.last().unwrap() >= 1_089, "the last shows the last request: {samples:?}");
    }

    #[test]
    fn a_long_run_has_few_more() {
        let io: Vec<u64> = (0..2_000).map(|n| 500 + n * 10).collect();
        let samples = sampled(&io, 21_000);
        assert!((40..90).contains(&samples.len()), "{}: {samples:?}", samples.len());
        let steps: Vec<u64> = samples.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(steps[1..].iter().all(|step| *step <= 400), "{steps:?}");
    }

    #[test]
    fn without_a_device_samples_are_taken_at_equal_times() {
        let mut pace = Pace::new(LONGEST, None, Duration::ZERO);
        assert_eq!(pace.pause(Duration::ZERO), LONGEST);
        assert!(!pace.is_due(None, Duration::from_millis(300)) && pace.is_due(None, LONGEST));
    }
}
