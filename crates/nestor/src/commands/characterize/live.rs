//! Watching a system at work.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nestor_load::Profile;
use nestor_load::profile::Processor;
use nestor_trace::capture::READY_FILE;
use nestor_trace::{Method, RecordOptions, RecordSummary, Wanted, record};

use super::disks;
use super::observed::{Collectors, read};
use super::processor::{ProcessorTimes, own_s};
use super::who::{Who, threads};
use crate::progress::Progress;

/// How often it is looked whether the time is over.
const LOOK: Duration = Duration::from_millis(100);
/// How often the threads are listed: seldom enough to cost nothing.
const LIST: Duration = Duration::from_secs(1);
/// How long a recorder may take to begin.
const BEGIN: Duration = Duration::from_secs(20);
/// Memory is nobody's disk: a recording there does not record itself.
const IN_MEMORY: &str = "/dev/shm";

/// What to watch.
pub struct Watch<'a> {
    /// How long.
    pub time: Duration,
    /// The device, if it is named.
    pub device: Option<&'a str>,
    /// Whose requests.
    pub who: Who,
    /// The user's wish to stop: what was seen until then counts.
    pub interrupted: &'a AtomicBool,
}

/// What was seen besides the requests.
struct Seen {
    threads: HashSet<u32>,
    processor: Processor,
    seconds: f64,
    /// Share of one processor that watching took.
    cost: f64,
}

/// Watches, and says what the load is.
///
/// # Errors
/// When the device cannot be recorded (that needs root), or there was too little.
pub fn observe(watch: &Watch<'_>) -> Result<Profile> {
    let device = disks::device(watch.device, &watch.who)?;
    let at = if Path::new(IN_MEMORY).is_dir() { PathBuf::from(IN_MEMORY) } else { std::env::temp_dir() };
    let directory = tempfile::Builder::new()
        .prefix("nestor-characterize-")
        .tempdir_in(&at)
        .with_context(|| format!("cannot create a directory in {} for the recording", at.display()))?;
    let (summary, seen) = watched(watch, &device, directory.path())?;
    let files: Vec<PathBuf> = summary.files.iter().map(|name| directory.path().join(name)).collect();
    let wanted = Wanted { device: Some(summary.device), partitions: summary.partitions.clone() };
    let of_all = watch.who == Who::Everybody;
    let observed = read(&files, &wanted, Collectors::new((!of_all).then_some(&seen.threads)))?;
    let others = observed.others;
    let longer = if others > 0 {
        format!(
            "{} other requests were of threads that were not asked for (the kernel writes back for everybody); without --pid and --cgroup all count",
            others
        )
    } else {
        "watch longer, or while the application is at work: --for 5m".to_owned()
    };
    let mut profile = observed.profile(Some(seen.seconds), &longer)?;
    profile.processor = Some(seen.processor);
    profile.observed_on = match watch.who.in_words() {
        words if words.is_empty() => device.display().to_string(),
        words => format!("{words} on {}", device.display()),
    };
    if summary.dropped_events > 0 {
        profile.remarks.push(format!("the kernel could not keep {} events", summary.dropped_events));
    }
    if others > 0 {
        profile.remarks.push(format!(
            "{others} requests of other threads are not in it; what the kernel writes back later for the application is among them"
        ));
    }
    if of_all {
        profile.remarks.push("the processor's shares are the whole machine's".to_owned());
    }
    profile.remarks.push(format!("watching took {:.2} % of one processor", seen.cost * 100.0));
    Ok(profile)
}

/// Records until the time is over or the user has enough.
fn watched(watch: &Watch<'_>, device: &Path, output: &Path) -> Result<(RecordSummary, Seen)> {
    let options =
        RecordOptions { device: device.to_path_buf(), output: output.to_path_buf(), method: Method::Auto };
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let recorder = scope.spawn(|| record(&options, &stop));
        let begun = Instant::now();
        let ready = output.join(READY_FILE);
        while !ready.exists() && !recorder.is_finished() && begun.elapsed() < BEGIN {
            std::thread::sleep(LOOK);
        }
        let own_before_s = own_s();
        let seen = ready.exists().then(|| look_on(watch, || recorder.is_finished()));
        stop.store(true, Ordering::Relaxed);
        let summary = match recorder.join() {
            Ok(summary) => summary.context("recording the device needs root; `sudo` gives it")?,
            Err(_) => bail!("the recorder of {} failed", device.display()),
        };
        let Some(mut seen) = seen else {
            bail!("the recorder of {} did not begin within {} s", device.display(), BEGIN.as_secs())
        };
        // With blktrace's, which has ended now.
        seen.cost = (own_s() - own_before_s) / seen.seconds.max(1e-9);
        Ok((summary, seen))
    })
}

/// Lists threads and reads processor times while the recorder works.
fn look_on(watch: &Watch<'_>, ended: impl Fn() -> bool) -> Seen {
    let progress = Progress::new(watch.time.as_secs());
    progress.about("watching; Ctrl-C ends it sooner", None);
    let mut times = ProcessorTimes::new(watch.who == Who::Everybody);
    let mut seen_threads = HashSet::new();
    let begun = Instant::now();
    let mut listed: Option<Instant> = None;
    loop {
        let over = begun.elapsed() >= watch.time || watch.interrupted.load(Ordering::Relaxed) || ended();
        if over || listed.is_none_or(|then| then.elapsed() >= LIST) {
            let processes = watch.who.processes();
            seen_threads.extend(processes.iter().flat_map(|pid| threads(*pid)));
            times.read(&processes);
            listed = Some(Instant::now());
            progress.position(begun.elapsed().as_secs());
        }
        if over {
            break;
        }
        std::thread::sleep(LOOK.min(watch.time.saturating_sub(begun.elapsed())));
    }
    progress.finish();
    let seconds = begun.elapsed().as_secs_f64();
    Seen { threads: seen_threads, processor: times.shares(seconds), seconds, cost: 0.0 }
}
