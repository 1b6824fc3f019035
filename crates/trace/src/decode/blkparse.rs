//! What blkparse prints by default.
//!
//! A line is `MAJOR,MINOR CPU SEQUENCE SECONDS.NANOSECONDS PID ACTION RWBS DETAILS`, the details as in blkparse's manual
//! page, section "Default output"; with `-t`, the time since the event before is in parentheses among them. Times count
//! from the first event of the trace.

use std::io::BufRead;
use std::path::PathBuf;

use super::lines::Lines;
use super::rwbs::{self, time_ns};
use super::sequence::SequenceCheck;
use super::{EventSource, ReadWarnings, ThreadNames};
use crate::error::TraceError;
use crate::event::{Action, BlockEvent, Device, Flags, SECTOR_BYTES};

/// How lines of blkparse's closing summary begin.
const SUMMARY: [&str; 8] =
    ["CPU", "Total (", "Read", "IO unplugs:", "Throughput (R/W):", "Events (", "Skips:", "Input file "];

/// What blkparse prints for a thread whose name it does not know.
const NO_NAMES: [&str; 2] = ["(null)", "unknown"];

/// The contents of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line<'a> {
    /// A block event, and the name of its thread if the line has it.
    Event(BlockEvent, Option<&'a str>),
    /// So many records were missing, of all CPUs of a device.
    Skipped(u64),
    /// Nothing of interest: a message, the summary.
    Other,
    /// A block event of an unknown kind.
    Unknown,
    /// Not what blkparse prints.
    Unreadable,
}

/// Reads the events of a text in constant memory.
pub struct BlkparseReader<R> {
    lines: Lines<R>,
    names: ThreadNames,
    sequences: SequenceCheck,
    warnings: ReadWarnings,
    skipped: u64,
}

impl<R: BufRead> BlkparseReader<R> {
    /// Reads from `source`; `path` is what errors call it.
    pub fn new(source: R, path: impl Into<PathBuf>) -> Self {
        Self {
            lines: Lines::new(source, path),
            names: ThreadNames::default(),
            sequences: SequenceCheck::default(),
            warnings: ReadWarnings::default(),
            skipped: 0,
        }
    }
}

impl<R: BufRead + Send> EventSource for BlkparseReader<R> {
    fn next_event(&mut self) -> Result<Option<BlockEvent>, TraceError> {
        while self.lines.advance()? {
            let text = self.lines.text();
            let meaning = if self.lines.is_whole() { parse_line(&text) } else { Line::Unreadable };
            match meaning {
                Line::Event(event, name) => {
                    if let Some(name) = name {
                        self.names.insert(event.pid, name);
                    }
                    drop(text);
                    self.lines.accept();
                    self.sequences.check(&event, &mut self.warnings);
                    return Ok(Some(event));
                }
                Line::Skipped(count) => self.skipped = self.skipped.saturating_add(count),
                Line::Other => {}
                Line::Unknown => self.warnings.unknown_actions += 1,
                Line::Unreadable => {
                    self.warnings.skipped_lines += 1;
                    drop(text);
                    continue;
                }
            }
            drop(text);
            self.lines.accept();
        }
        Ok(None)
    }

    fn warnings(&self) -> ReadWarnings {
        // blkparse's own count, at the end, is of the gaps that are seen here as well.
        let missing_records = self.warnings.missing_records.max(self.skipped);
        ReadWarnings { missing_records, ..self.warnings }
    }

    fn thread_name(&self, pid: u32) -> Option<&str> {
        self.names.get(pid)
    }
}

/// Reads one line without its end.
pub fn parse_line(line: &str) -> Line<'_> {
    let line = line.trim_start();
    if line.is_empty() {
        return Line::Other;
    }
    if let Some(skips) = line.strip_prefix("Skips:") {
        return skipped(skips).map_or(Line::Other, Line::Skipped);
    }
    if SUMMARY.iter().any(|begin| line.starts_with(begin)) {
        return Line::Other;
    }
    let Some((head, details)) = head(line) else { return Line::Unreadable };
    let parsed = match head.action {
        "m" => return Line::Other,
        "X" => split(details),
        "A" => remap(details),
        "U" | "UT" => unplug(head.action == "UT", details),
        letters => match action(letters) {
            Some(action) => request(action, details),
            None => return Line::Unknown,
        },
    };
    let Some((action, details)) = parsed else { return Line::Unreadable };
    let (direction, flags) = rwbs::meaning(head.rwbs, details.bytes);
    let event = BlockEvent {
        time_ns: head.time_ns,
        sequence: head.sequence,
        cpu: head.cpu,
        pid: head.pid,
        device: head.device,
        action,
        direction,
        flags: flags.with(Flags::PASSTHROUGH, details.passthrough),
        sector: details.sector,
        bytes: details.bytes,
        error: details.error,
    };
    Line::Event(event, details.name.filter(|name| !NO_NAMES.contains(name)))
}

/// What every line begins with.
struct Head<'a> {
    device: Device,
    cpu: u32,
    sequence: u32,
    time_ns: u64,
    pid: u32,
    action: &'a str,
    rwbs: &'a str,
}

fn head(line: &str) -> Option<(Head<'_>, &str)> {
    let mut rest = line;
    let mut word = || {
        let (word, after) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        rest = after.trim_start();
        (!word.is_empty()).then_some(word)
    };
    let head = Head {
        device: Device::parse(word()?, ',')?,
        cpu: word()?.parse().ok()?,
        sequence: word()?.parse().ok()?,
        time_ns: time_ns(word()?)?,
        pid: word()?.parse().ok()?,
        action: word()?,
        rwbs: word()?,
    };
    Some((head, rest))
}

/// The actions whose details are those of a request or nothing but a name.
fn action(letters: &str) -> Option<Action> {
    Some(match letters {
        "Q" => Action::Queue,
        "M" => Action::BackMerge,
        "F" => Action::FrontMerge,
        "G" => Action::GetRequest,
        "S" => Action::Sleep,
        "R" => Action::Requeue,
        "I" => Action::Insert,
        "D" => Action::Issue,
        "C" => Action::Complete,
        "P" => Action::Plug,
        "B" => Action::Bounce,
        _ => return None,
    })
}

/// What follows the head.
#[derive(Default)]
struct Details<'a> {
    sector: u64,
    bytes: u64,
    error: u32,
    passthrough: bool,
    name: Option<&'a str>,
}

/// `2048 + 8 [fio]`, `2048 + 8 (1234) [0]`, `36 (12 01 00 00 24 00) [scsi_id]`, `0 [0]`, `[fio]`.
fn request(action: Action, text: &str) -> Option<(Action, Details<'_>)> {
    let (numbers, name) = bracketed(text)?;
    let (numbers, parenthesised) = match numbers.split_once('(') {
        Some((numbers, rest)) => (numbers.trim(), rest.trim().strip_suffix(')')?.trim()),
        None => (numbers.trim(), ""),
    };
    let mut details = Details::default();
    if parenthesised.contains(' ') {
        // A command of the device's own language; the number is its bytes.
        (details.bytes, details.passthrough) = (numbers.parse().unwrap_or(0), true);
    } else if let Some((sector, sectors)) = numbers.split_once('+') {
        details.sector = sector.trim().parse().ok()?;
        details.bytes = sectors.trim().parse::<u64>().ok()?.checked_mul(SECTOR_BYTES)?;
    } else if !numbers.is_empty() {
        details.sector = numbers.parse().ok()?;
    }
    match action {
        // The record holds a negative errno in 16 bits; older versions print them as unsigned.
        Action::Complete => details.error = u32::from((name.parse::<i64>().ok()? as i16).unsigned_abs()),
        _ => details.name = Some(name),
    }
    Some((action, details))
}

/// `204800 / 206848 [fio]`: first sector, first sector of the second part.
fn split(text: &str) -> Option<(Action, Details<'_>)> {
    let (numbers, name) = bracketed(text)?;
    let (sector, new_sector) = numbers.split_once('/')?;
    let sector: u64 = sector.trim().parse().ok()?;
    let new_sector: u64 = new_sector.trim().parse().ok()?;
    let bytes = new_sector.saturating_sub(sector).checked_mul(SECTOR_BYTES)?;
    Some((Action::Split { new_sector }, Details { sector, bytes, name: Some(name), ..Details::default() }))
}

/// `2148 + 8 <- (8,1) 100`.
fn remap(text: &str) -> Option<(Action, Details<'_>)> {
    let (this, from) = text.split_once("<-")?;
    let (from, from_sector) = from.trim().strip_prefix('(')?.split_once(')')?;
    let from_sector = from_sector.split_whitespace().next()?.parse().ok()?;
    let (sector, sectors) = this.split_once('+')?;
    let details = Details {
        sector: sector.trim().parse().ok()?,
        bytes: sectors.trim().parse::<u64>().ok()?.checked_mul(SECTOR_BYTES)?,
        ..Details::default()
    };
    Some((Action::Remap { from: Device::parse(from, ',')?, from_sector }, details))
}

/// `[fio] 4`.
fn unplug(timer: bool, text: &str) -> Option<(Action, Details<'_>)> {
    let (name, requests) = text.strip_prefix('[')?.rsplit_once(']')?;
    let requests = requests.trim().parse().ok()?;
    Some((Action::Unplug { requests, timer }, Details { name: Some(name), ..Details::default() }))
}

/// The texts before and in the brackets at the end. A name may contain brackets itself.
fn bracketed(text: &str) -> Option<(&str, &str)> {
    text.trim_end().strip_suffix(']')?.split_once('[')
}

/// `0 forward (0 -   0.0%)`: gaps and the records missing in them.
fn skipped(text: &str) -> Option<u64> {
    text.split_once('(')?.1.split_whitespace().next()?.parse().ok()
}
