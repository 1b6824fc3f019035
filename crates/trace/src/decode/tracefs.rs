//! The text that tracefs prints of the `block:*` events, from `trace_pipe` or `trace`.
//!
//! A line is `THREAD-PID [CPU] FLAGS SECONDS.MICROSECONDS: EVENT: FIELDS`, FIELDS as in the kernel's
//! `include/trace/events/block.h`. Newer kernels print a request's I/O priority (`+ 8 be,0,4 [fio]`; Linux 6.1 has
//! `+ 8 [fio]`); both forms are read.

use std::io::BufRead;
use std::path::PathBuf;

use super::ReadWarnings;
use crate::error::TraceError;
use crate::event::{Action, BlockEvent, Device, Direction, Flags, SECTOR_BYTES};

/// The longest line read whole; what is longer is no event.
const LONGEST_LINE: u64 = 16 * 1024;

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

/// What a line says.
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
    source: R,
    path: PathBuf,
    line: Vec<u8>,
    warnings: ReadWarnings,
    lost: u64,
    last_ns: Vec<u64>,
}

impl<R: BufRead> TextReader<R> {
    /// Reads from `source`; `path` is what errors call it.
    pub fn new(source: R, path: impl Into<PathBuf>) -> Self {
        Self {
            source,
            path: path.into(),
            line: Vec::new(),
            warnings: ReadWarnings::default(),
            lost: 0,
            last_ns: Vec::new(),
        }
    }

    /// What was odd so far.
    pub fn warnings(&self) -> &ReadWarnings {
        &self.warnings
    }

    /// Events that the text itself says were lost.
    pub fn lost_events(&self) -> u64 {
        self.lost
    }

    /// The next event, or `None` at the end.
    ///
    /// # Errors
    /// The text cannot be read.
    pub fn next_event(&mut self) -> Result<Option<BlockEvent>, TraceError> {
        while let Some(whole) = self.next_line()? {
            let text = String::from_utf8_lossy(&self.line);
            let meaning = if whole { parse_line(text.trim_end()) } else { Line::Unreadable };
            match meaning {
                Line::Event(event) => {
                    self.check_order(&event);
                    return Ok(Some(event));
                }
                Line::Lost(count) => self.lost = self.lost.saturating_add(count),
                Line::Other => {}
                Line::Unknown => self.warnings.unknown_actions += 1,
                Line::Unreadable => self.warnings.skipped_lines += 1,
            }
        }
        Ok(None)
    }

    /// Reads a line into `self.line`; says whether it was read whole, or `None` at the end.
    fn next_line(&mut self) -> Result<Option<bool>, TraceError> {
        self.line.clear();
        let mut limited = std::io::Read::take(&mut self.source, LONGEST_LINE);
        let read = limited
            .read_until(b'\n', &mut self.line)
            .map_err(TraceError::io("read the trace", &self.path))?;
        if read == 0 {
            return Ok(None);
        }
        if self.line.ends_with(b"\n") || (read as u64) < LONGEST_LINE {
            return Ok(Some(true));
        }
        self.skip_rest_of_line()?;
        Ok(Some(false))
    }

    fn skip_rest_of_line(&mut self) -> Result<(), TraceError> {
        loop {
            let buffer = self.source.fill_buf().map_err(TraceError::io("read the trace", &self.path))?;
            let newline = buffer.iter().position(|&b| b == b'\n');
            let used = newline.map_or(buffer.len(), |at| at + 1);
            let ended = newline.is_some() || used == 0;
            self.source.consume(used);
            if ended {
                return Ok(());
            }
        }
    }

    fn check_order(&mut self, event: &BlockEvent) {
        /// More CPUs than any machine has; events of higher ones are not checked.
        const MOST_CPUS: usize = 8192;
        let cpu = event.cpu as usize;
        if cpu >= MOST_CPUS {
            return;
        }
        if cpu >= self.last_ns.len() {
            self.last_ns.resize(cpu + 1, 0);
        }
        if event.time_ns < self.last_ns[cpu] {
            self.warnings.out_of_order += 1;
        }
        self.last_ns[cpu] = event.time_ns;
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
        // Some other event, if it has the form of one at all.
        return if line.contains("]") && line.contains(": ") { Line::Other } else { Line::Unreadable };
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
fn overwritten(comment: &str) -> Option<u64> {
    let counts = comment.trim_start().strip_prefix("entries-in-buffer/entries-written:")?;
    let (kept, written) = counts.split_whitespace().next()?.split_once('/')?;
    Some(written.parse::<u64>().ok()?.saturating_sub(kept.parse().ok()?))
}

/// `CPU:0 [LOST 123 EVENTS]`.
fn lost(line: &str) -> Option<u64> {
    let rest = line.strip_prefix("CPU:")?;
    let (_, rest) = rest.split_once("[LOST ")?;
    rest.split_whitespace().next()?.parse().ok()
}

/// Thread, CPU and time before the event's name.
fn context(head: &str) -> Option<(u32, u32, u64)> {
    let (rest, time) = head.trim_end().rsplit_once(char::is_whitespace)?;
    let (seconds, fraction) = time.split_once('.')?;
    let digits = fraction.len();
    if digits == 0 || digits > 9 {
        return None;
    }
    let fraction_ns = fraction.parse::<u64>().ok()? * 10_u64.pow(9 - digits as u32);
    let time_ns = seconds.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(fraction_ns)?;
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
    let (direction, flags) = rwbs_meaning(rwbs, bytes);
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
    let (direction, flags) = rwbs_meaning(rwbs, bytes);
    Some(Fields { device, action: Action::Split { new_sector }, direction, flags, sector, bytes, error: 0 })
}

/// `8,0 W 2148 + 8 <- (8,1) 100`.
fn remap(fields: &str) -> Option<Fields> {
    let (this, from) = fields.split_once(" <- (")?;
    let (from_device, from_sector) = from.split_once(')')?;
    let from_sector = from_sector.split_whitespace().next()?.parse().ok()?;
    request(Action::Remap { from: device(from_device)?, from_sector }, this)
}

/// `[fio] 4`.
fn unplug(fields: &str) -> Option<Fields> {
    let requests = fields.rsplit_once(' ')?.1.parse().ok()?;
    Some(Fields::of_no_request(Action::Unplug { requests, timer: false }))
}

fn device_and_rwbs(fields: &str) -> Option<(Device, &str, &str)> {
    let (number, rest) = fields.split_once(' ')?;
    let (rwbs, rest) = rest.split_once(' ')?;
    Some((device(number)?, rwbs, rest))
}

fn device(text: &str) -> Option<Device> {
    let (major, minor) = text.split_once(',')?;
    Some(Device { major: major.parse().ok()?, minor: minor.parse().ok()? })
}

/// Takes apart what `blk_fill_rwbs` (`kernel/trace/blktrace.c`) prints: `F` for a flush before, the operation,
/// then `F` for FUA, `A`, `S`, `M`.
fn rwbs_meaning(rwbs: &str, bytes: u64) -> (Direction, Flags) {
    let letters = rwbs.as_bytes();
    let preflush = letters.len() > 1 && letters[0] == b'F' && b"WDRFNZ".contains(&letters[1]);
    let letters = &letters[usize::from(preflush)..];
    let (operation, modifiers) = letters.split_first().map_or((b'N', &[][..]), |(o, m)| (*o, m));
    let direction = match operation {
        b'R' => Direction::Read,
        b'D' => Direction::Discard,
        b'W' if modifiers.first() == Some(&b'Z') => Direction::Discard,
        b'W' | b'Z' if bytes > 0 || !preflush => Direction::Write,
        // Operations without a letter of their own; those with sectors are zeroes written without data.
        b'N' if bytes > 0 => Direction::Discard,
        _ => Direction::None,
    };
    let has = |letter: u8| modifiers.contains(&letter);
    let flags = Flags::default()
        .with(Flags::FLUSH, preflush || operation == b'F')
        .with(Flags::FUA, has(b'F'))
        .with(Flags::SYNC, has(b'S'))
        .with(Flags::META, has(b'M'))
        .with(Flags::AHEAD, has(b'A'));
    (direction, flags)
}
