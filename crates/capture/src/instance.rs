//! An instance of tracefs: events and a buffer of one recorder alone (Documentation/trace/ftrace.rst, "Instances").

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use super::mounts;
use super::{buffer_kib_of_cpu, cpus};
use nestor_kernel::memory;
use nestor_trace::TraceError;
use nestor_trace::recording::Moment;

/// Our instances are called this and the number of the process.
const INSTANCE_PREFIX: &str = "nestor-";
/// How long to wait for somebody to close a file of an instance that is to go.
const PAUSE: Duration = Duration::from_millis(10);
/// The smallest buffer of a CPU: what it holds is read every 10 ms at best.
const LEAST_BUFFER_KIB: u64 = 512;

/// A directory of `instances/`, removed at the end.
pub(super) struct Instance {
    pub path: PathBuf,
}

impl Instance {
    /// Makes one, in which nothing is recorded yet.
    pub fn make(tracefs: &Path) -> Result<Self, TraceError> {
        static NUMBER: AtomicBool = AtomicBool::new(false);
        let second = if NUMBER.swap(true, Ordering::Relaxed) {
            format!("-{}", Moment::now().monotonic_ns)
        } else {
            String::new()
        };
        let path = tracefs.join(format!("instances/{INSTANCE_PREFIX}{}{second}", std::process::id()));
        fs::create_dir(&path).map_err(TraceError::io("make a tracing instance", &path))?;
        Ok(Self { path })
    }

    /// Writes to a file of it.
    pub fn set(&self, file: &str, value: &str) -> Result<(), TraceError> {
        let path = self.path.join(file);
        fs::write(&path, value).map_err(TraceError::io("set", &path))
    }

    /// Adds to what a file has.
    pub fn append(&self, file: &str, value: &str) -> Result<(), TraceError> {
        let path = self.path.join(file);
        let added =
            OpenOptions::new().append(true).open(&path).and_then(|mut to| to.write_all(value.as_bytes()));
        added.map_err(TraceError::io("add to", &path))
    }

    /// Switches an event of a group on; `false` if the kernel does not have it.
    pub fn enable(&self, group: &str, event: &str, filter: Option<&str>) -> Result<bool, TraceError> {
        let event = format!("events/{group}/{event}");
        if !self.path.join(&event).exists() {
            return Ok(false);
        }
        if let Some(filter) = filter {
            self.set(&format!("{event}/filter"), filter)?;
        }
        self.set(&format!("{event}/enable"), "1")?;
        Ok(true)
    }

    /// Gives the buffer its size and the events the clock that all recordings of a machine have.
    pub fn prepare(&self) -> Result<(), TraceError> {
        self.set("tracing_on", "0")?;
        self.set("trace_clock", "mono")?;
        self.set("buffer_size_kb", &Self::buffer_kib().to_string())
    }

    /// KiB of the buffer of each CPU.
    fn buffer_kib() -> u64 {
        buffer_kib_of_cpu(memory::total_bytes().unwrap_or(0), cpus(), LEAST_BUFFER_KIB)
    }

    /// The text of the events as it comes; a read of it does not wait.
    pub fn open_pipe(&self) -> Result<File, TraceError> {
        let path = self.path.join("trace_pipe");
        let options = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(&path);
        options.map_err(TraceError::io("read", &path))
    }

    /// Whether the buffer of a CPU is filled to more than a half with what was not read.
    pub fn is_half_full(&self) -> bool {
        let half = Self::buffer_kib() * 1024 / 2;
        self.statistics().any(|text| number_of("bytes", &text) > half)
    }

    /// What the kernel says of the buffer of each CPU.
    fn statistics(&self) -> impl Iterator<Item = String> {
        let cpus = fs::read_dir(self.path.join("per_cpu")).into_iter().flatten().flatten();
        cpus.filter_map(|cpu| fs::read_to_string(cpu.path().join("stats")).ok())
    }

    /// Events that could not be kept, of all CPUs.
    pub fn lost_events(&self) -> u64 {
        self.statistics().fold(0, |sum, text| sum.saturating_add(lost_in(&text)))
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        let _ = self.set("tracing_on", "0");
        let _ = self.set("events/enable", "0");
        // The kernel refuses for as long as a file of it is open somewhere.
        for _ in 0..50 {
            if fs::remove_dir(&self.path).is_ok() {
                return;
            }
            thread::sleep(PAUSE);
        }
    }
}

/// Copies some of what a pipe has at the moment; `false` if it has nothing.
pub(super) fn read_some(pipe: &mut impl Read, to: &mut impl Write, buffer: &mut [u8]) -> io::Result<bool> {
    match pipe.read(buffer) {
        Ok(0) => Ok(false),
        Ok(read) => to.write_all(&buffer[..read]).map(|()| true),
        Err(error) if error.kind() == ErrorKind::Interrupted => Ok(true),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
        Err(error) => Err(error),
    }
}

/// Reads the losses of one CPU's `stats` (kernel/trace/trace.c, `tracing_stats_read`).
fn lost_in(stats: &str) -> u64 {
    let losses = ["overrun", "commit overrun", "dropped events"].map(|name| number_of(name, stats));
    losses.into_iter().fold(0, u64::saturating_add)
}

/// A number of a CPU's `stats`; 0 if it is not there.
fn number_of(name: &str, stats: &str) -> u64 {
    let mut lines = stats.lines().filter_map(|line| line.split_once(": "));
    let found = lines.find(|(found, _)| found.trim() == name);
    found.and_then(|(_, count)| count.trim().parse().ok()).unwrap_or(0)
}

/// Removes instances whose recorder was killed. Returns what was removed; nothing if tracefs is not mounted.
pub fn remove_stale_instances() -> Vec<PathBuf> {
    let Some(tracefs) = mounts::find("tracefs", Path::new("/sys/kernel/tracing")) else { return Vec::new() };
    let Ok(instances) = fs::read_dir(tracefs.join("instances")) else { return Vec::new() };
    let stale = |path: &PathBuf| {
        let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        let pid =
            name.strip_prefix(INSTANCE_PREFIX).and_then(|rest| rest.split('-').next()?.parse::<u32>().ok());
        pid.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists())
    };
    let found: Vec<_> = instances.flatten().map(|entry| entry.path()).filter(stale).collect();
    found
        .into_iter()
        // A recorder holds a file of its instance open, and then the kernel refuses: one in another pid namespace,
        // whose number does not exist here, is not disturbed. Events that are on go with the instance.
        .filter(|path| fs::remove_dir(path).is_ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Needs root and tracefs.
    #[test]
    fn an_instance_that_somebody_reads_is_not_disturbed_and_another_is_removed() {
        let Some(tracefs) = mounts::find("tracefs", Path::new("/sys/kernel/tracing")) else { return };
        // No process here has that number: its recorder is dead, or in another pid namespace.
        let path = tracefs.join(format!("instances/{INSTANCE_PREFIX}4194305-{}", Moment::now().monotonic_ns));
        let enable = path.join("events/block/block_rq_issue/enable");
        if fs::create_dir(&path).is_err() {
            eprintln!("not tried: this needs root");
            return;
        }
        let enabled = fs::write(&enable, "1").is_ok();
        let pipe = File::open(path.join("trace_pipe")).unwrap();
        assert!(!remove_stale_instances().contains(&path));
        assert!(path.exists());
        if enabled {
            assert_eq!(fs::read_to_string(&enable).unwrap().trim(), "1");
        }
        drop(pipe);
        assert!(remove_stale_instances().contains(&path));
        assert!(!path.exists());
    }

    #[test]
    fn losses_are_read_from_a_cpu_s_statistics() {
        let stats = "entries: 0\noverrun: 5\ncommit overrun: 2\nbytes: 40\noldest event ts:  2471.1\nnow ts:  2474.2\n\
                     dropped events: 1\nread events: 251\n";
        assert_eq!((lost_in(stats), number_of("bytes", stats), number_of("byte", stats)), (8, 40, 0));
    }
}
