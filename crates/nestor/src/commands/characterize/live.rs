//! Watching a system at work.

use std::collections::{BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use nestor_capture::READY_FILE;
use nestor_capture::{Method, RecordOptions, record};
use nestor_characterize::{Collectors, Watched, read};
use nestor_kernel::processes::{CGROUPS, Who, is_alive, threads};
use nestor_kernel::processor_time::{ProcessorShares, ProcessorUse, own_s};
use nestor_ownership::{LockedDirectory, place_for_temporary};
use nestor_stop::StopHandle;
use nestor_trace::{RecordSummary, Wanted};
use nestor_workload::Profile;
use nestor_workload::profile::Processor;

use super::disks;
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
/// A recording in memory does not record its own writes.
const IN_MEMORY: &str = "/dev/shm";
/// Of the recording's directory.
const PREFIX: &str = "nestor-characterize-";

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
    watched: Watched,
    /// Threads whose requests count, if not all do.
    threads: HashSet<u32>,
}

/// Watches, and says what the load is.
///
/// # Errors
/// When the device cannot be recorded (that needs root), or there was too little.
pub fn observe(watch: &Watch<'_>) -> Result<Profile> {
    let device = disks::device(watch.device, &watch.who)?;
    // A process that has ended has no name any more.
    let who = watch.who.in_words();
    let at = Path::new(IN_MEMORY);
    let at = if at.is_dir() { at.to_path_buf() } else { place_for_temporary() };
    let recording = LockedDirectory::new_in(&at, PREFIX)
        .with_context(|| format!("cannot create a directory in {} for the recording", at.display()))?;
    let (summary, Seen { watched, threads }) = watched(watch, &device, recording.path())?;
    let files: Vec<PathBuf> = summary.files.iter().map(|name| recording.path().join(name)).collect();
    let wanted = Wanted { device: Some(summary.device), partitions: summary.partitions };
    let own_before_s = own_s();
    let observed = read(&files, &wanted, Collectors::new((!watched.everybody).then_some(&threads)))?;
    let mut profile = watched.profile(observed)?;
    profile.observed_on = match who.as_str() {
        "" => device.display().to_string(),
        who => format!("{who} on {}", device.display()),
    };
    let cost = watched.cost(own_s() - own_before_s);
    if watched.is_costly() {
        errln!("note: {cost}: the load was not alone");
    }
    profile.remarks.push(cost);
    Ok(profile)
}

/// Whose requests count, from the options.
///
/// # Errors
/// When there is no such process or group.
pub fn who(pid: Option<u32>, cgroup: Option<&Path>) -> Result<Who> {
    match (pid, cgroup) {
        (Some(pid), _) => Who::process(pid)
            .with_context(|| format!("there is no process {pid}; `pgrep -a NAME` finds it")),
        (None, Some(cgroup)) => Who::group(cgroup).map_err(|below| {
            anyhow!(
                "there is no control group {} below {CGROUPS}; `systemd-cgls` or `cat /proc/PID/cgroup` shows them",
                below.display()
            )
        }),
        (None, None) => Ok(Who::Everybody),
    }
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
        seen.watched.own_s = own_s() - own_before_s;
        seen.watched.dropped_events = summary.dropped_events;
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

/// Lists threads and reads processor times while the recorder works.
fn look_on(watch: &Watch<'_>, recording: &Path, ended: impl Fn() -> bool) -> Seen {
    let progress = Progress::new(watch.time.as_secs());
    let everybody = watch.who == Who::Everybody;
    let mut times = ProcessorUse::new(everybody);
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
    let ProcessorShares { user, system } = times.shares(seconds);
    let processor = Processor { user, system };
    let watched = Watched { seconds, everybody, processor, dropped_events: 0, ended_s, full, own_s: 0.0 };
    Seen { watched, threads: seen_threads }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_is_said() {
        let error = who(Some(u32::MAX), None).unwrap_err().to_string();
        assert!(error.contains("there is no process 4294967295"), "{error}");
        let error = who(None, Some(Path::new("no/such.slice"))).unwrap_err().to_string();
        assert!(error.contains("there is no control group no/such.slice"), "{error}");
    }
}
