//! Events as they happen, for who looks on: the block events of some devices, and what some processes ask of their files. Nothing is
//! written anywhere.
//!
//! # Why these events
//! Block events are those of a recording through tracefs. What a hypervisor asks of its images has no event of its own in the kernel, so
//! its system calls and its rings of io_uring are recorded. The calls of only these processes are, in an instance by itself, because a list
//! of processes holds for all events of an instance, and requests are done in the context of whatever runs. A ring's requests may be done
//! by a thread of the kernel's, so the events of rings are those of everybody; they are few where nobody else has rings.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, ErrorKind, Read as _};
use std::path::Path;

use nestor_trace::TraceError;
use nestor_trace::decode::file_io::{self, CALLS, FileIoEvent, RING_EVENTS};
use nestor_trace::decode::tracefs::{self, Line};
use nestor_trace::event::{BlockEvent, Device};

use super::instance::Instance;
use super::mounts::Mounted;
use super::tracefs::{NEEDED, WANTED, filter_of};

/// Bytes that are read at a time.
const CHUNK: usize = 1 << 16;
/// A line that is longer is no event.
const LONGEST_LINE: usize = 16 << 10;
/// Bytes that one reading takes of an instance at most, so that who looks on is not kept by an endless stream of events.
const MOST_AT_ONCE: usize = 32 << 20;

/// What is to be seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LiveOptions {
    /// Whole devices and partitions whose events are wanted.
    pub devices: Vec<Device>,
    /// Threads whose calls are wanted, with those that they start later.
    pub threads: Vec<u32>,
}

/// Something that happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LiveEvent {
    /// In the block layer.
    Block(BlockEvent),
    /// Between a process and its files.
    FileIo(FileIoEvent),
}

impl LiveEvent {
    /// When, on `CLOCK_MONOTONIC`.
    pub fn time_ns(&self) -> u64 {
        match self {
            Self::Block(event) => event.time_ns,
            Self::FileIo(event) => event.time_ns,
        }
    }
}

/// Recording into buffers of the kernel's until it is dropped; then all that was made for it is gone.
pub struct LiveCapture {
    block: Stream,
    calls: Option<Stream>,
    /// Threads whose calls are recorded, as far as they were named.
    threads: BTreeSet<u32>,
    /// Why calls are not recorded, if they were wanted.
    no_calls: Option<String>,
    // Last, so that tracefs is let go after the instances.
    _tracefs: Mounted,
}

impl LiveCapture {
    /// Begins.
    ///
    /// # Errors
    /// It needs root and a kernel with tracefs and the events of the block layer.
    pub fn start(options: &LiveOptions) -> Result<Self, TraceError> {
        let tracefs = Mounted::tracefs()?;
        let block = block_events(&tracefs.path, options)?;
        let (calls, no_calls) = match options.threads.is_empty() {
            true => (None, None),
            false => match calls(&tracefs.path, &options.threads) {
                Ok(calls) => (Some(calls), None),
                Err(error) => (None, Some(error.to_string())),
            },
        };
        for stream in std::iter::once(&block).chain(&calls) {
            stream.instance.set("tracing_on", "1")?;
        }
        let threads = options.threads.iter().copied().collect();
        Ok(Self { block, calls, threads, no_calls, _tracefs: tracefs })
    }

    /// Records the calls of more threads, and gives whether there was a new one. A thread that is started after the threads were
    /// listed and before recording began is not among those that the kernel adds, so they are listed again after the beginning.
    ///
    /// # Errors
    /// The kernel does not take them.
    pub fn add_threads(&mut self, threads: &[u32]) -> Result<bool, TraceError> {
        let new: Vec<u32> = threads.iter().copied().filter(|thread| self.threads.insert(*thread)).collect();
        let Some(calls) = self.calls.as_ref().filter(|_| !new.is_empty()) else { return Ok(false) };
        calls.instance.append("set_event_pid", &listed(&new))?;
        Ok(true)
    }

    /// Why calls are not recorded, if they were wanted.
    pub fn no_calls(&self) -> Option<&str> {
        self.no_calls.as_deref()
    }

    /// Takes what has happened so far, of each CPU in the order of time, and does not wait for more.
    ///
    /// # Errors
    /// The kernel's buffers cannot be read.
    pub fn read(&mut self, take: &mut dyn FnMut(LiveEvent)) -> Result<(), TraceError> {
        std::iter::once(&mut self.block).chain(&mut self.calls).try_for_each(|stream| {
            stream.read(take).map_err(TraceError::io("read", &stream.instance.path.join("trace_pipe")))
        })
    }

    /// Events that the kernel could not keep so far.
    pub fn lost_events(&self) -> u64 {
        std::iter::once(&self.block).chain(&self.calls).map(|stream| stream.instance.lost_events()).sum()
    }
}

fn block_events(tracefs: &Path, options: &LiveOptions) -> Result<Stream, TraceError> {
    let instance = Instance::make(tracefs)?;
    instance.prepare()?;
    let filter = filter_of(&options.devices);
    for event in NEEDED.into_iter().chain(WANTED).filter(|_| !options.devices.is_empty()) {
        if !instance.enable("block", event, Some(&filter))? && NEEDED.contains(&event) {
            let reason = format!("this kernel has no event {event} (CONFIG_BLK_DEV_IO_TRACE is off)");
            return Err(TraceError::Capture { device: tracefs.to_path_buf(), method: "tracefs", reason });
        }
    }
    for event in RING_EVENTS.into_iter().filter(|_| !options.threads.is_empty()) {
        instance.enable("io_uring", event, None)?;
    }
    Stream::of(instance)
}

fn calls(tracefs: &Path, threads: &[u32]) -> Result<Stream, TraceError> {
    let instance = Instance::make(tracefs)?;
    instance.prepare()?;
    // Threads that they start are added by the kernel (Documentation/trace/ftrace.rst, `event-fork`).
    instance.set("options/event-fork", "1")?;
    instance.set("set_event_pid", &listed(threads))?;
    let mut found = 0;
    for (call, _) in CALLS {
        for side in ["enter", "exit"] {
            found += u32::from(instance.enable("syscalls", &format!("sys_{side}_{call}"), None)?);
        }
    }
    if found == 0 {
        let reason = "this kernel has no events of system calls (CONFIG_FTRACE_SYSCALLS is off)".to_owned();
        return Err(TraceError::Capture { device: tracefs.to_path_buf(), method: "tracefs", reason });
    }
    Stream::of(instance)
}

/// As the kernel takes a list of processes.
fn listed(threads: &[u32]) -> String {
    threads.iter().map(|thread| format!("{thread} ")).collect()
}

/// The text of one instance, line by line.
struct Stream {
    // Before the instance: the kernel keeps an instance whose pipe is open.
    pipe: File,
    instance: Instance,
    /// The beginning of a line whose end was not there yet.
    begun: Vec<u8>,
    buffer: Vec<u8>,
}

impl Stream {
    fn of(instance: Instance) -> Result<Self, TraceError> {
        Ok(Self { pipe: instance.open_pipe()?, instance, begun: Vec::new(), buffer: vec![0; CHUNK] })
    }

    fn read(&mut self, take: &mut dyn FnMut(LiveEvent)) -> io::Result<()> {
        let mut taken = 0;
        while taken < MOST_AT_ONCE {
            match self.pipe.read(&mut self.buffer) {
                Ok(0) => break,
                Ok(read) => {
                    taken += read;
                    lines(&mut self.begun, &self.buffer[..read], &mut |line| {
                        event_of(line).into_iter().for_each(&mut *take);
                    });
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Gives each line of a text that comes in pieces; `begun` keeps the one that has not ended.
fn lines(begun: &mut Vec<u8>, text: &[u8], take: &mut dyn FnMut(&str)) {
    for piece in text.split_inclusive(|&byte| byte == b'\n') {
        if begun.len() + piece.len() <= LONGEST_LINE {
            begun.extend_from_slice(piece);
        }
        if piece.ends_with(b"\n") {
            take(String::from_utf8_lossy(begun).trim_end());
            begun.clear();
        }
    }
}

fn event_of(line: &str) -> Option<LiveEvent> {
    match tracefs::parse_line(line) {
        Line::Event(event) => Some(LiveEvent::Block(event)),
        _ => file_io::parse_line(line).map(LiveEvent::FileIo),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = " fio-100 [000] ..... 1.000001: block_rq_issue: 8,0 W 4096 () 2048 + 8 [fio]\n\
         CPU:0 [LOST 3 EVENTS]\n qemu-14 [001] ..... 1.000002: sys_pread64 -> 0x200\n";

    #[test]
    fn lines_come_whole_however_the_text_is_cut() {
        for cut in 0..TEXT.len() {
            let (mut begun, mut seen) = (Vec::new(), Vec::new());
            for piece in [&TEXT.as_bytes()[..cut], &TEXT.as_bytes()[cut..]] {
                lines(&mut begun, piece, &mut |line| seen.extend(event_of(line)));
            }
            let times: Vec<u64> = seen.iter().map(LiveEvent::time_ns).collect();
            assert_eq!(times, [1_000_001_000, 1_000_002_000], "cut at {cut}");
            assert!(begun.is_empty());
        }
    }

    #[test]
    fn a_line_without_end_takes_no_memory() {
        let mut begun = Vec::new();
        for _ in 0..100 {
            lines(&mut begun, &[b'x'; 1000], &mut |_| {});
        }
        assert!(begun.len() <= LONGEST_LINE);
    }
}
