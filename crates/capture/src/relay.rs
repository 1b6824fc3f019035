//! Recording with the `blktrace` tool, which reads the kernel's relay files.

use std::fs;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use std::{io, thread};

use super::device::BlockDevice;
use super::files::BLKTRACE_LOG;
use super::mounts::Mounted;
use super::{Recorded, announce_ready, buffer_kib_of_cpu, cpus, new_file};
use nestor_kernel::memory;
use nestor_stop::{StopHandle, Woken};
use nestor_trace::TraceError;
use nestor_trace::recording::Moment;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

const METHOD: &str = "blktrace";
/// Prefix of the recorded files.
pub(super) const NAME: &str = "trace";
/// Sub-buffers of each CPU's buffer. blktrace locks the memory of as many, but no fewer than 16, of the file that it writes
/// (`setup_mmap` in blktrace.c): with 16 of them it takes as much as the kernel's buffers, with fewer larger ones several times that.
const SUB_BUFFERS: u64 = 16;
/// The smallest sub-buffer, some 250 events.
const LEAST_SUB_BUFFER_KIB: u64 = 16;
const START_LIMIT: Duration = Duration::from_secs(20);
/// Writing out what is buffered may take a slow disk long.
const STOP_LIMIT: Duration = Duration::from_secs(60);
/// How often it is looked whether it has begun or ended.
const PAUSE: Duration = Duration::from_millis(5);
/// How often it is looked whether blktrace ended by itself, on a kernel that cannot say it.
const LOOK: Duration = Duration::from_millis(200);

/// `_IO(0x12, 116)` (`include/uapi/linux/fs.h`).
const BLKTRACESTART: libc::c_ulong = 0x1274;

/// A blktrace that records. Dropping it ends it.
pub(super) struct Relay<'a> {
    device: &'a BlockDevice,
    output: PathBuf,
    child: Child,
    started: Moment,
    ended: bool,
    // Last, so that debugfs is let go after blktrace has ended.
    _debugfs: Mounted,
}

impl<'a> Relay<'a> {
    /// Starts blktrace and waits until it records.
    pub fn start(device: &'a BlockDevice, output: &Path) -> Result<Self, TraceError> {
        let debugfs = Mounted::debugfs()?;
        let child = spawn(device, output)?;
        let started = Moment::now();
        let mut relay =
            Self { device, output: output.to_path_buf(), child, started, ended: false, _debugfs: debugfs };
        match relay.wait_until_recording() {
            Ok(()) => {
                relay.started = announce_ready(output)?;
                Ok(relay)
            }
            Err(error) => {
                relay.end_now();
                remove_recorded(output);
                Err(error)
            }
        }
    }

    /// Waits for `stop`, ends blktrace and says what it recorded.
    pub fn run(mut self, stop: &StopHandle) -> Result<Recorded, TraceError> {
        let ended = end_before_stop(&mut self.child, stop);
        if let Some(status) = ended.map_err(TraceError::io("wait for blktrace on", &self.device.path))? {
            self.ended = true;
            return Err(self.ended_early(status));
        }
        let stopped_monotonic_ns = Moment::now().monotonic_ns;
        self.signal(libc::SIGINT);
        let deadline = Instant::now() + STOP_LIMIT;
        while self.exit_status()?.is_none() {
            if Instant::now() > deadline {
                let said =
                    format!("it did not end within {STOP_LIMIT:?} after its stop signal; {}", self.said());
                return Err(self.device.cannot(METHOD, said));
            }
            thread::sleep(PAUSE);
        }
        Ok(Recorded {
            dropped_events: dropped_events(&self.log()),
            files: recorded_files(&self.output),
            started: self.started,
            stopped_monotonic_ns,
        })
    }

    /// blktrace opens each CPU's relay file, then the file it writes to, and only then lets the kernel begin. Asking
    /// the kernel to begin is how to know that it has: it refuses where events are recorded already.
    fn wait_until_recording(&mut self) -> Result<(), TraceError> {
        let relay_files = Path::new("/sys/kernel/debug/block").join(self.device.name.replace('/', "!"));
        let deadline = Instant::now() + START_LIMIT;
        loop {
            if let Some(status) = self.exit_status()? {
                return Err(self.ended_early(status));
            }
            let wanted = count_files(&relay_files, "trace");
            if wanted > 0 && recorded_files(&self.output).len() >= wanted && self.begin()? {
                return Ok(());
            }
            if Instant::now() > deadline {
                let said = format!("it did not begin within {START_LIMIT:?}; {}", self.said());
                return Err(self.device.cannot(METHOD, said));
            }
            thread::sleep(PAUSE);
        }
    }

    fn begin(&self) -> Result<bool, TraceError> {
        // SAFETY: the descriptor is open for as long as `self.device` lives, and this request takes no argument.
        let result = unsafe { libc::ioctl(self.device.file.as_raw_fd(), BLKTRACESTART as _, 0) };
        if result == 0 {
            return Ok(true);
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EINVAL) => Ok(true),
            // Not set up yet, or torn down because blktrace is about to fail.
            Some(libc::ENOTTY | libc::ENOENT) => Ok(false),
            _ => Err(self.device.cannot(METHOD, format!("the kernel does not start the trace: {error}"))),
        }
    }

    fn exit_status(&mut self) -> Result<Option<ExitStatus>, TraceError> {
        let status =
            self.child.try_wait().map_err(TraceError::io("wait for blktrace on", &self.device.path))?;
        self.ended |= status.is_some();
        Ok(status)
    }

    fn ended_early(&self, status: ExitStatus) -> TraceError {
        let said = self.said();
        let errors: Vec<Errno> = self.log().lines().filter_map(error_of).collect();
        let advice = if errors.contains(&Errno::PERM) {
            "; this kernel locks the relay files (lockdown=confidentiality), but tracefs may still work"
        } else if errors.contains(&Errno::BUSY) {
            "; the device is being traced already: end the other blktrace, or run `blktrace -k DEVICE` if it was killed"
        } else {
            ""
        };
        self.device.cannot(METHOD, format!("it ended with {status}; {said}{advice}"))
    }

    /// What blktrace has printed.
    fn log(&self) -> String {
        fs::read_to_string(self.output.join(BLKTRACE_LOG)).unwrap_or_default()
    }

    fn said(&self) -> String {
        let log = self.log();
        let lines: Vec<_> = log.lines().map(str::trim).filter(|line| !line.is_empty()).take(3).collect();
        if lines.is_empty() {
            "it printed nothing".to_owned()
        } else {
            format!("it printed: {}", lines.join("; "))
        }
    }

    fn signal(&self, signal: libc::c_int) {
        // SAFETY: plain system call; the child has not been waited for, so the number is still its own.
        unsafe { libc::kill(self.child.id() as libc::pid_t, signal) };
    }

    fn end_now(&mut self) {
        if self.ended {
            return;
        }
        // Asked politely first: only blktrace itself undoes what it set up in the kernel.
        self.signal(libc::SIGINT);
        let deadline = Instant::now() + Duration::from_secs(5);
        while Instant::now() < deadline {
            if !matches!(self.exit_status(), Ok(None)) {
                return;
            }
            thread::sleep(PAUSE);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.ended = true;
    }
}

impl Drop for Relay<'_> {
    fn drop(&mut self) {
        self.end_now();
    }
}

/// Waits until `stop` or until the child has ended by itself, and says how it ended. The machine under test is not woken meanwhile.
fn end_before_stop(child: &mut Child, stop: &StopHandle) -> io::Result<Option<ExitStatus>> {
    // Kernels before 5.3 do not offer it.
    let end = pidfd_open(Pid::from_child(child), PidfdFlags::empty()).ok();
    let limit = end.is_none().then_some(LOOK);
    loop {
        let woken = stop.wait_with(end.as_ref().map(AsFd::as_fd), limit);
        // Also after the stop: one that failed just before it has recorded nothing to rely on.
        let ended = child.try_wait()?;
        if ended.is_some() || woken == Woken::Stopped {
            return Ok(ended);
        }
    }
}

/// Size of a sub-buffer, in KiB as blktrace's `-b` counts.
fn sub_buffer_kib(memory_bytes: u64, cpus: u64) -> u64 {
    buffer_kib_of_cpu(memory_bytes, cpus, LEAST_SUB_BUFFER_KIB * SUB_BUFFERS) / SUB_BUFFERS
}

fn spawn(device: &BlockDevice, output: &Path) -> Result<Child, TraceError> {
    let log_path = output.join(BLKTRACE_LOG);
    let log = new_file(&log_path)?;
    let log_too = log.try_clone().map_err(TraceError::io("write", &log_path))?;
    let sub_buffer_kib = sub_buffer_kib(memory::total_bytes().unwrap_or(0), cpus());
    let mut command = Command::new("blktrace");
    command
        .args(["-o", NAME, "-b", &sub_buffer_kib.to_string(), "-n", &SUB_BUFFERS.to_string()])
        .arg("-d")
        .arg(&device.path)
        .arg("-D")
        .arg(output)
        .stdin(Stdio::null())
        .stdout(log)
        .stderr(log_too)
        // A terminal's interrupt is for us; we end blktrace when we are ready to.
        .process_group(0);
    let parent = std::process::id();
    // SAFETY: only async-signal-safe calls between fork and exec.
    unsafe {
        command.pre_exec(move || {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGINT);
            // The parent may have died before the call above.
            if libc::getppid() as u32 == parent {
                Ok(())
            } else {
                Err(io::Error::from_raw_os_error(libc::ESRCH))
            }
        });
    }
    command.spawn().map_err(|error| {
        let advice = if error.kind() == io::ErrorKind::NotFound {
            "it is not installed (Debian package blktrace)"
        } else {
            "it cannot be started"
        };
        device.cannot(METHOD, format!("{advice}: {error}"))
    })
}

fn count_files(directory: &Path, prefix: &str) -> usize {
    let numbered = |name: &str| {
        name.strip_prefix(prefix).is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
    };
    fs::read_dir(directory)
        .map_or(0, |entries| entries.flatten().filter(|e| numbered(&e.file_name().to_string_lossy())).count())
}

/// The processor whose events are in a file of that name.
pub(super) fn cpu_of(name: &str) -> Option<u32> {
    let number = name.strip_prefix(NAME)?.strip_prefix(".blktrace.")?;
    // Not every text that is a number is one that blktrace writes: `+1`, `01`.
    number.parse::<u32>().ok().filter(|cpu| cpu.to_string() == number)
}

/// Names of the recorded files, in the order of their CPUs.
pub(super) fn recorded_files(output: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(output) else { return Vec::new() };
    let mut found: Vec<_> = entries
        .flatten()
        .filter_map(|e| {
            cpu_of(&e.file_name().to_string_lossy()).map(|cpu| (cpu, PathBuf::from(e.file_name())))
        })
        .collect();
    found.sort();
    found.into_iter().map(|(_, name)| name).collect()
}

fn remove_recorded(output: &Path) {
    for name in recorded_files(output) {
        let _ = fs::remove_file(output.join(name));
    }
}

/// The kernel's error in a line of blktrace, which prints its number before its words (`setup_buts` and `open_ios` in blktrace.c):
/// `BLKTRACESETUP(2) /dev/vda failed: 16/Device or resource busy`.
fn error_of(line: &str) -> Option<Errno> {
    let (number, _) = line.rsplit_once(": ")?.1.split_once('/')?;
    number.parse().ok().map(Errno::from_raw_os_error)
}

/// `Total: 3642 events (dropped 17), 171 KiB data`, once per device.
fn dropped_events(log: &str) -> u64 {
    let numbers =
        log.split("(dropped ").skip(1).filter_map(|rest| rest.split(')').next()?.trim().parse::<u64>().ok());
    numbers.fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_take_little_of_small_machines_and_of_many_processors() {
        let mib_of = |memory_mib: u64, cpus: u64| {
            (sub_buffer_kib(memory_mib << 20, cpus) * SUB_BUFFERS * cpus) as f64 / 1024.0
        };
        assert_eq!(mib_of(204, 1), 2.0);
        assert_eq!(mib_of(256, 4), 2.0);
        assert_eq!(mib_of(1024, 2), 8.0);
        assert_eq!(mib_of(1 << 20, 16), 32.0);
        // A quarter of a MiB for each, however many there are.
        assert_eq!(mib_of(256, 64), 16.0);
    }

    #[test]
    fn drops_are_read_from_what_blktrace_says() {
        let log = "=== vda ===\n  CPU  0:   3625 events,  170 KiB data\n  Total:   3642 events (dropped 17),  171 KiB data\n";
        assert_eq!(dropped_events(log), 17);
        assert_eq!(dropped_events("Total: 3 events (dropped many)"), 0);
    }

    #[test]
    fn errors_are_told_apart_by_their_numbers() {
        let busy = "BLKTRACESETUP(2) /dev/vda failed: 16/Device or resource busy";
        let locked = "Thread 0 failed open /sys/kernel/debug/block/vda/trace0: 1/Operation not permitted";
        assert_eq!([busy, locked].map(error_of), [Some(Errno::BUSY), Some(Errno::PERM)]);
        assert_eq!(error_of("  Total:   3642 events (dropped 17),  171 KiB data"), None);
    }

    /// How often this thread has waited for something.
    fn times_slept() -> u64 {
        let status = fs::read_to_string("/proc/thread-self/status").unwrap();
        let count = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        count.unwrap().trim().parse().unwrap()
    }

    #[test]
    fn a_recorder_sleeps_until_it_is_stopped() {
        let mut child = Command::new("sleep").arg("100").spawn().unwrap();
        let stop = StopHandle::new().unwrap();
        let other = stop.clone();
        let stopping = thread::spawn(move || {
            thread::sleep(Duration::from_millis(300));
            other.stop();
        });
        let before = times_slept();
        assert_eq!(end_before_stop(&mut child, &stop).unwrap(), None);
        let slept = times_slept() - before;
        child.kill().unwrap();
        child.wait().unwrap();
        stopping.join().unwrap();
        // Once to wait; it may have waited for the kernel's locks too.
        assert!(slept < 10, "it was woken {slept} times");
    }

    #[test]
    fn a_child_that_ends_by_itself_is_noticed() {
        let mut child = Command::new("false").spawn().unwrap();
        let stop = StopHandle::new().unwrap();
        let status = end_before_stop(&mut child, &stop).unwrap();
        assert_eq!(status.and_then(|status| status.code()), Some(1));
        // Also if it is stopped in the same moment.
        stop.stop();
        assert_eq!(end_before_stop(&mut child, &stop).unwrap(), status);
    }
}
