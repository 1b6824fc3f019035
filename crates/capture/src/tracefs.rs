//! Recording through tracefs, in its own instance, so that no other tracing is disturbed.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use super::device::BlockDevice;
use super::files::TRACEFS_TEXT;
use super::mounts::{self, Mounted};
use super::{Recorded, announce_ready, buffer_kib_of_cpu, cpus, memory_bytes, new_file};
use nestor_stop::StopHandle;
use nestor_trace::TraceError;
use nestor_trace::recording::Moment;

const METHOD: &str = "tracefs";
/// Our instances are called this and the number of the process.
const INSTANCE_PREFIX: &str = "nestor-";
const PAUSE: Duration = Duration::from_millis(10);
/// The smallest buffer of a CPU: what it holds is read every [`PAUSE`] at best.
const LEAST_BUFFER_KIB: u64 = 512;

/// The events without which there is nothing to pair.
const NEEDED: [&str; 3] = ["block_bio_queue", "block_rq_issue", "block_rq_complete"];
/// Recorded too where the kernel has them.
const WANTED: [&str; 7] = [
    "block_bio_backmerge",
    "block_bio_frontmerge",
    "block_rq_merge",
    "block_rq_insert",
    "block_rq_requeue",
    "block_split",
    "block_bio_complete",
];

/// A directory of `instances/`, removed at the end.
struct Instance {
    path: PathBuf,
}

impl Instance {
    fn make(tracefs: &Path) -> Result<Self, TraceError> {
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

    fn set(&self, file: &str, value: &str) -> Result<(), TraceError> {
        let path = self.path.join(file);
        fs::write(&path, value).map_err(TraceError::io("set", &path))
    }

    fn has_event(&self, event: &str) -> bool {
        self.path.join("events/block").join(event).exists()
    }

    /// Events that could not be kept, of all CPUs.
    fn lost_events(&self) -> u64 {
        let Ok(cpus) = fs::read_dir(self.path.join("per_cpu")) else { return 0 };
        let stats = cpus.flatten().filter_map(|cpu| fs::read_to_string(cpu.path().join("stats")).ok());
        stats.fold(0, |sum, text| sum.saturating_add(lost_in(&text)))
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

/// Records until it is stopped.
pub(super) fn run(device: &BlockDevice, output: &Path, stop: &StopHandle) -> Result<Recorded, TraceError> {
    if device.is_partition {
        let reason =
            "it is a partition, whose requests tracefs reports as the whole disk's; name the whole disk";
        return Err(device.cannot(METHOD, reason));
    }
    let tracefs = Mounted::tracefs()?;
    let instance = Instance::make(&tracefs.path)?;
    let pipe = set_up(&instance, device)?;
    let path = output.join(TRACEFS_TEXT);
    let file = new_file(&path)?;
    instance.set("tracing_on", "1")?;
    let started = announce_ready(output)?;
    let drained = drain(pipe, BufWriter::with_capacity(1 << 18, file), &instance, stop);
    let stopped_monotonic_ns = drained.map_err(TraceError::io("write the trace to", &path))?;
    Ok(Recorded {
        dropped_events: instance.lost_events(),
        files: vec![PathBuf::from(TRACEFS_TEXT)],
        started,
        stopped_monotonic_ns,
    })
}

fn set_up(instance: &Instance, device: &BlockDevice) -> Result<File, TraceError> {
    instance.set("tracing_on", "0")?;
    instance.set("trace_clock", "mono")?;
    instance
        .set("buffer_size_kb", &buffer_kib_of_cpu(memory_bytes(), cpus(), LEAST_BUFFER_KIB).to_string())?;
    // Queue events of partitions carry the partition's number, all others the whole disk's.
    let filter = std::iter::once(&device.number)
        .chain(&device.partitions)
        .map(|number| format!("dev == {}", number.to_kernel()))
        .collect::<Vec<_>>()
        .join(" || ");
    for event in NEEDED.into_iter().chain(WANTED) {
        if instance.has_event(event) {
            instance.set(&format!("events/block/{event}/filter"), &filter)?;
            instance.set(&format!("events/block/{event}/enable"), "1")?;
        } else if NEEDED.contains(&event) {
            let reason = format!("this kernel has no event {event} (CONFIG_BLK_DEV_IO_TRACE is off)");
            return Err(device.cannot(METHOD, reason));
        }
    }
    let path = instance.path.join("trace_pipe");
    OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(&path)
        .map_err(TraceError::io("read", &path))
}

/// Copies events until it is stopped and what was recorded before is written. Returns when recording ended.
fn drain(mut pipe: File, mut to: BufWriter<File>, instance: &Instance, stop: &StopHandle) -> io::Result<u64> {
    let mut buffer = vec![0; 1 << 16];
    let mut stopped_ns = None;
    loop {
        if stopped_ns.is_none() && stop.is_stopped() {
            instance.set("tracing_on", "0").map_err(io::Error::other)?;
            stopped_ns = Some(Moment::now().monotonic_ns);
        }
        match pipe.read(&mut buffer) {
            Ok(read) if read > 0 => to.write_all(&buffer[..read])?,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() != ErrorKind::WouldBlock => return Err(error),
            // Nothing there at the moment.
            _ => match stopped_ns {
                Some(ns) => {
                    to.flush()?;
                    return Ok(ns);
                }
                None => {
                    stop.wait_at_most(PAUSE);
                }
            },
        }
    }
}

/// Reads the losses of one CPU's `stats`.
fn lost_in(stats: &str) -> u64 {
    let lines = stats.lines().filter_map(|line| line.split_once(": "));
    lines
        .filter(|(name, _)| ["overrun", "commit overrun", "dropped events"].contains(&name.trim()))
        .filter_map(|(_, count)| count.trim().parse::<u64>().ok())
        .fold(0, u64::saturating_add)
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
        assert_eq!(lost_in(stats), 8);
    }
}
