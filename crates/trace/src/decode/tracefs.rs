//! The text that tracefs prints of the `block:*` events, from `trace_pipe` or `trace`.
//!
//! A line is `THREAD-PID [CPU] FLAGS SECONDS.MICROSECONDS: EVENT: FIELDS`, FIELDS as in the kernel's
//! `include/trace/events/block.h`. Newer kernels print a request's I/O priority (`+ 8 be,0,4 [fio]`; Linux 6.1 has
//! `+ 8 [fio]`); both forms are read.

use std::io::BufRead;
use std::path::PathBuf;

use super::lines::Lines;
use super::rwbs;
use super::sequence::SequenceCheck;
use super::{EventSource, ReadWarnings, ThreadNames};
use crate::error::TraceError;
use crate::event::{Action, BlockEvent, Device, Direction, Flags, SECTOR_BYTES};

/// Every event of the block layer's trace points whose meaning is known here, with its action.
const ACTIONS: [(&str, Action); 13] = [
    ("bio_queue", Action::Queue),
    ("bio_backmerge", Action::BackMerge),
    // One request appended to another, which blktrace calls M as well.
    ("rq_merge", Action::BackMerge),
    ("bio_frontmerge", Action::FrontMerge),
    ("getrq", Action::GetRequest),
    ("sleeprq", Action::Sleep),
    ("rq_requeue", Action::Requeue),
    ("rq_insert", Action::Insert),
    ("rq_issue", Action::Issue),
    ("rq_complete", Action::Complete),
    // Devices without requests (device mapper, MD) complete bios.
    ("bio_complete", Action::Complete),
    ("bio_bounce", Action::Bounce),
    ("plug", Action::Plug),
];

/// Events that repeat others or say nothing of requests.
const REDUNDANT: [&str; 5] = ["io_start", "io_done", "rq_error", "touch_buffer", "dirty_buffer"];

/// The contents of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line {
    /// A block event.
    Event(BlockEvent),
    /// The recorder lost that many events at this place.
    Lost(u64),
    /// Nothing of interest: a comment, another event.
    Other,
    /// A block event of an unknown kind.
    Unknown,
    /// Not what tracefs prints.
    Unreadable,
}

/// Reads the events of a text in constant memory.
pub struct TextReader<R> {
    lines: Lines<R>,
    names: ThreadNames,
    warnings: ReadWarnings,
    lost: u64,
    sequences: SequenceCheck,
}

impl<R: BufRead> TextReader<R> {
    /// Reads from `source`; `path` is what errors call it.
    pub fn new(source: R, path: impl Into<PathBuf>) -> Self {
        Self {
            lines: Lines::new(source, path),
            names: ThreadNames::default(),
            warnings: ReadWarnings::default(),
            lost: 0,
            sequences: SequenceCheck::default(),
        }
    }

    /// What was odd so far.
    pub fn warnings(&self) -> &ReadWarnings {
        &self.warnings
    }

    /// Lost events that the text itself reports.
    pub fn lost_events(&self) -> u64 {
        self.lost
    }

    /// The next event, or `None` at the end.
    ///
    /// # Errors
    /// The text cannot be read or has become something else.
    pub fn next_event(&mut self) -> Result<Option<BlockEvent>, TraceError> {
        while self.lines.advance()? {
            let meaning =
                if self.lines.is_whole() { parse_line(&self.lines.text()) } else { Line::Unreadable };
            match meaning {
                Line::Event(event) => {
                    self.lines.accept();
                    if let Some(name) = thread_name(&self.lines.text()) {
                        self.names.insert(event.pid, name);
                    }
                    self.sequences.check(&event, &mut self.warnings);
                    return Ok(Some(event));
                }
                Line::Lost(count) => self.lost = self.lost.saturating_add(count),
                Line::Other => {}
                Line::Unknown => self.warnings.unknown_actions += 1,
                Line::Unreadable => {
                    self.warnings.skipped_lines += 1;
                    continue;
                }
            }
            self.lines.accept();
        }
        Ok(None)
    }
}

impl<R: BufRead + Send> EventSource for TextReader<R> {
    fn next_event(&mut self) -> Result<Option<BlockEvent>, TraceError> {
        TextReader::next_event(self)
    }

    fn warnings(&self) -> ReadWarnings {
        *TextReader::warnings(self)
    }

    fn lost_events(&self) -> u64 {
        TextReader::lost_events(self)
    }

    fn thread_name(&self, pid: u32) -> Option<&str> {
        self.names.get(pid)
    }
}

/// Reads one line without its end.
pub fn parse_line(line: &str) -> Line {
    if let Some(comment) = line.strip_prefix('#') {
        return overwritten(comment).map_or(Line::Other, Line::Lost);
    }
    if line.trim().is_empty() {
        return Line::Other;
    }
    if let Some(count) = lost(line) {
        return Line::Lost(count);
    }
    let Some((head, event)) = line.split_once(": block_") else {
        // Some other event, if it has the form of one at all. A thread's name may hold the separator.
        let is_event = line.match_indices(": ").any(|(end, _)| context(&line[..end]).is_some());
        return if is_event { Line::Other } else { Line::Unreadable };
    };
    let Some((name, fields)) = event.split_once(':') else { return Line::Unreadable };
    if REDUNDANT.contains(&name) {
        return Line::Other;
    }
    let fields = fields.trim();
    let parsed = match name {
        "split" => split(fields),
        "bio_remap" | "rq_remap" => remap(fields),
        "unplug" => unplug(fields),
        "plug" => Some(Fields::of_no_request(Action::Plug)),
        _ => match ACTIONS.iter().find(|(known, _)| *known == name) {
            Some((_, action)) => request(*action, fields),
            None => return Line::Unknown,
        },
    };
    match (context(head), parsed) {
        (Some((pid, cpu, time_ns)), Some(f)) => Line::Event(BlockEvent {
            time_ns,
            sequence: 0,
            cpu,
            pid,
            device: f.device,
            action: f.action,
            direction: f.direction,
            flags: f.flags,
            sector: f.sector,
            bytes: f.bytes,
            error: f.error,
        }),
        _ => Line::Unreadable,
    }
}

/// `# entries-in-buffer/entries-written: 140/250   #P:4`: the head of a `trace` file.
pub(super) fn overwritten(comment: &str) -> Option<u64> {
    let counts = comment.trim_start().strip_prefix("entries-in-buffer/entries-written:")?;
    let (kept, written) = counts.split_whitespace().next()?.split_once('/')?;
    Some(written.parse::<u64>().ok()?.saturating_sub(kept.parse().ok()?))
}

/// `CPU:0 [LOST 123 EVENTS]`.
pub(super) fn lost(line: &str) -> Option<u64> {
    let rest = line.strip_prefix("CPU:")?;
    let (_, rest) = rest.split_once("[LOST ")?;
    rest.split_whitespace().next()?.parse().ok()
}

/// The thread's name before its number; the kernel prints `<...>` where it has forgotten it.
fn thread_name(line: &str) -> Option<&str> {
    let (head, _) = line.split_once(": block_")?;
    let (thread, _) = head.rsplit_once('[')?;
    let thread = thread.trim_end();
    let thread = if thread.ends_with(')') { thread.rsplit_once('(')?.0 } else { thread };
    let (name, _) = thread.rsplit_once('-')?;
    Some(name.trim_start()).filter(|name| *name != "<...>")
}

/// Thread, CPU and time before the event's name.
pub(super) fn context(head: &str) -> Option<(u32, u32, u64)> {
    let (rest, time) = head.trim_end().rsplit_once(char::is_whitespace)?;
    let time_ns = rwbs::time_ns(time)?;
    // The thread's name may hold anything, so the CPU is looked for from the right.
    let (thread, cpu) = rest[..rest.rfind(']')?].rsplit_once('[')?;
    // With `record-tgid` there is a `(TGID)` between thread and CPU.
    let thread = thread.trim_end();
    let thread = if thread.ends_with(')') { thread.rsplit_once('(')?.0.trim_end() } else { thread };
    let (_, pid) = thread.rsplit_once('-')?;
    Some((pid.parse().ok()?, cpu.trim().parse().ok()?, time_ns))
}

struct Fields {
    device: Device,
    action: Action,
    direction: Direction,
    flags: Flags,
    sector: u64,
    bytes: u64,
    error: u32,
}

impl Fields {
    fn of_no_request(action: Action) -> Self {
        Self {
            device: Device::default(),
            action,
            direction: Direction::None,
            flags: Flags::default(),
            sector: 0,
            bytes: 0,
            error: 0,
        }
    }
}

/// `8,0 WS 4096 () 2048 + 8 be,0,4 [fio]`; bytes, command and priority only with some events and kernels.
fn request(action: Action, fields: &str) -> Option<Fields> {
    let (device, rwbs, rest) = device_and_rwbs(fields)?;
    let (before, after) = rest.split_once(" + ")?;
    let mut after_words = after.split_whitespace();
    let sectors: u64 = after_words.next()?.parse().ok()?;
    let (command_bytes, sector) = match before.split_once('(') {
        Some((bytes, command)) => (bytes.trim().parse().unwrap_or(0), command.rsplit_once(')')?.1.trim()),
        None => (0, before.trim()),
    };
    let bytes = if sectors == 0 { command_bytes } else { sectors.checked_mul(SECTOR_BYTES)? };
    let error = match action {
        Action::Complete | Action::Requeue => {
            let number = after.rsplit_once('[').map(|(_, e)| e.trim_end_matches(']'));
            number.and_then(|e| e.parse::<i32>().ok()).unwrap_or(0).unsigned_abs()
        }
        _ => 0,
    };
    let (direction, flags) = rwbs::meaning(rwbs, bytes);
    // A request with bytes but no sectors carries a command of the device's own language.
    let flags = flags.with(Flags::PASSTHROUGH, sectors == 0 && command_bytes > 0);
    Some(Fields { device, action, direction, flags, sector: sector.parse().ok()?, bytes, error })
}

/// `7,0 WS 204800 / 206848 [fio]`: first sector, first sector of the second part.
fn split(fields: &str) -> Option<Fields> {
    let (device, rwbs, rest) = device_and_rwbs(fields)?;
    let mut words = rest.split_whitespace();
    let sector: u64 = words.next()?.parse().ok()?;
    let new_sector: u64 = words.nth(1)?.parse().ok()?;
    let bytes = new_sector.saturating_sub(sector).checked_mul(SECTOR_BYTES)?;
    let (direction, flags) = rwbs::meaning(rwbs, bytes);
    Some(Fields { device, action: Action::Split { new_sector }, direction, flags, sector, bytes, error: 0 })
}

/// `8,0 W 2148 + 8 <- (8,1) 100`.
fn remap(fields: &str) -> Option<Fields> {
    let (this, from) = fields.split_once(" <- (")?;
    let (from_device, from_sector) = from.split_once(')')?;
    let from_sector = from_sector.split_whitespace().next()?.parse().ok()?;
    request(Action::Remap { from: Device::parse(from_device, ',')?, from_sector }, this)
}

/// `[fio] 4`.
fn unplug(fields: &str) -> Option<Fields> {
    let requests = fields.rsplit_once(' ')?.1.parse().ok()?;
    Some(Fields::of_no_request(Action::Unplug { requests, timer: false }))
}

fn device_and_rwbs(fields: &str) -> Option<(Device, &str, &str)> {
    let (number, rest) = fields.split_once(' ')?;
    let (rwbs, rest) = rest.split_once(' ')?;
    Some((Device::parse(number, ',')?, rwbs, rest))
}
