//! Watching a system at work.

use std::collections::{BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nestor_capture::READY_FILE;
use nestor_capture::{Method, RecordOptions, record};
use nestor_stop::StopHandle;
use nestor_trace::{RecordSummary, Wanted};
use nestor_workload::Profile;
use nestor_workload::profile::Processor;

use super::disks;
use super::observed::{Collectors, read};
use super::processor::{ProcessorTimes, own_s, stat_of};
use super::recording::Recording;
use super::who::{Who, threads};
use crate::progress::Progress;

/// Said when it begins.
const WATCHING: &str = "watching; Ctrl-C ends it early";
/// How often it is looked whether the time is over.
const LOOK: Duration = Duration::from_millis(100);
/// How often the threads are listed: seldom enough to cost nothing.
const LIST: Duration = Duration::from_secs(1);
/// How long a recorder may take to begin: one way to record may fail after 20 s, and another is tried.
const BEGIN: Duration = Duration::from_secs(45);
/// A recording does not take more of the system's memory than this; 300 to 500 bytes are a request.
const MOST_BYTES: u64 = 1 << 30;
/// Watching that takes a larger share of a processor is told at once.
const MOST_COST: f64 = 0.01;

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
    /// Seconds before the end of the time at which all processes that were watched had ended.
    ended_s: Option<f64>,
    /// Whether the recording took as much memory as it may before the time was over.
    full: bool,
    /// Share of one processor that watching took.
    cost: f64,
}

/// Watches, and says what the load is.
///
/// # Errors
/// When the device cannot be recorded (that needs root), or there was too little.
pub fn observe(watch: &Watch<'_>) -> Result<Profile> {
    let device = disks::device(watch.device, &watch.who)?;
    // A process that has ended has no name any more.
    let who = watch.who.in_words();
    let recording = Recording::new()?;
    let (summary, seen) = watched(watch, &device, recording.path())?;
    let files: Vec<PathBuf> = summary.files.iter().map(|name| recording.path().join(name)).collect();
    let wanted = Wanted { device: Some(summary.device), partitions: summary.partitions.clone() };
    let of_all = watch.who == Who::Everybody;
    let own_before_s = own_s();
    let observed = read(&files, &wanted, Collectors::new((!of_all).then_some(&seen.threads)))?;
    let others = observed.others;
    let longer = if others > 0 {
        format!(
            "{others} requests came from other threads (the kernel writes back for all processes); without \
             --pid and --cgroup, all requests count"
        )
    } else {
        "watch longer (--for 5m), or while the application is working".to_owned()
    };
    let mut profile = observed.profile(Some(seen.seconds), &longer)?;
    profile.processor = Some(seen.processor);
    profile.observed_on = match who.as_str() {
        "" => device.display().to_string(),
        who => format!("{who} on {}", device.display()),
    };
    profile.remarks.extend(remarks(&summary, others, of_all, &seen));
    let reading_s = own_s() - own_before_s;
    let cost = format!(
        "watching took {:.2} % of one processor; reading the recording afterwards took {reading_s:.1} s of \
         one processor",
        seen.cost * 100.0
    );
    if seen.cost > MOST_COST {
        errln!("note: {cost}: the load was not alone");
    }
    profile.remarks.push(cost);
    Ok(profile)
}

/// What the recording lacks.
fn remarks(
    summary: &RecordSummary,
    others: u64,
    of_all: bool,
    seen: &Seen,
) -> impl Iterator<Item = String> + use<> {
    let dropped = summary.dropped_events;
    [
        (dropped > 0).then(|| format!("the kernel dropped {dropped} events")),
        (others > 0).then(|| {
            format!(
                "{others} requests of other threads are left out; these include what the kernel writes back \
                 later for the application"
            )
        }),
        of_all.then(|| "the processor's shares are those of the whole machine".to_owned()),
        seen.ended_s.map(|ended_s| {
            format!("the processes ended {ended_s:.0} s early: rates are those of the time before their end")
        }),
        seen.full.then(|| format!("the memory for the recording was full after {:.0} s", seen.seconds)),
    ]
    .into_iter()
    .flatten()
}

/// Records until the time is over or the user has enough.
fn watched(watch: &Watch<'_>, device: &Path, output: &Path) -> Result<(RecordSummary, Seen)> {
    let options =
        RecordOptions { device: device.to_path_buf(), output: output.to_path_buf(), method: Method::Auto };
    let stop = StopHandle::new()?;
    std::thread::scope(|scope| {
        let recorder = scope.spawn(|| record(&options, &stop));
        let begun = Instant::now();
        let ready = output.join(READY_FILE);
        while !ready.exists() && !recorder.is_finished() && begun.elapsed() < BEGIN {
            std::thread::sleep(LOOK);
        }
        let own_before_s = own_s();
        let seen = ready.exists().then(|| look_on(watch, output, || recorder.is_finished()));
        stop.stop();
        let summary = match recorder.join() {
            Ok(summary) if rustix::process::geteuid().is_root() => summary?,
            Ok(summary) => summary.context("recording the device needs root; use `sudo`")?,
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

fn bytes_in(directory: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(directory) else { return 0 };
    entries.flatten().filter_map(|entry| Some(entry.metadata().ok()?.len())).sum()
}

/// Room that is left there; the recording takes no more than half of what there was.
fn free_bytes(directory: &Path) -> u64 {
    rustix::fs::statvfs(directory).map_or(u64::MAX, |room| room.f_bavail * room.f_frsize)
}

fn is_alive(pid: u32) -> bool {
    // One that has ended and was not waited for is there, but without threads that do anything.
    stat_of(pid).is_some_and(|stat| stat.state != 'Z')
}

/// Lists threads and reads processor times while the recorder works.
fn look_on(watch: &Watch<'_>, recording: &Path, ended: impl Fn() -> bool) -> Seen {
    let progress = Progress::new(watch.time.as_secs());
    let mut times = ProcessorTimes::new(watch.who == Who::Everybody);
    let mut seen_threads = HashSet::new();
    let begun = Instant::now();
    // Who reads it knows that the time that is watched has begun.
    progress.line(WATCHING);
    let mut listed: Option<Instant> = None;
    let (mut gone, mut full) = (false, false);
    let mut seen_processes: BTreeSet<u32> = BTreeSet::new();
    loop {
        let over = gone
            || full
            || begun.elapsed() >= watch.time
            || watch.interrupted.load(Ordering::Relaxed)
            || ended();
        if over || listed.is_none_or(|then| then.elapsed() >= LIST) {
            let processes = watch.who.processes();
            seen_threads.extend(processes.iter().flat_map(|pid| threads(*pid)));
            times.read(&processes);
            seen_processes.extend(&processes);
            // A control group may be empty for a while; a process does not come back.
            gone = matches!(watch.who, Who::Process(_)) && !seen_processes.iter().any(|pid| is_alive(*pid));
            full = bytes_in(recording) > MOST_BYTES.min(free_bytes(recording));
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
    let ended_s = gone.then_some(watch.time.as_secs_f64() - seconds).filter(|left| *left > 1.0);
    Seen { threads: seen_threads, processor: times.shares(seconds), seconds, ended_s, full, cost: 0.0 }
}
