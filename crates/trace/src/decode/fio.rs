//! What fio leaves of its requests: iologs (`write_iolog`, versions 2 and 3) and latency logs (`write_lat_log`).
//! Section "Trace file format" and "Log file formats" of fio's manual page.

use std::io::BufRead;
use std::path::{Path, PathBuf};

use nestor_layout::Class;

use super::by_completion::ByCompletion;
use super::lines::Lines;
use super::targets::Targets;
use super::{ReadWarnings, Recorded, RequestSource, TracedRequest};
use crate::error::TraceError;
use crate::event::Flags;
use crate::request::{Operation, Request};

/// The first line of an iolog of version 2.
pub(super) const IOLOG_2: &str = "fio version 2 iolog";
/// The first line of an iolog of version 3.
pub(super) const IOLOG_3: &str = "fio version 3 iolog";

/// A request with nothing known but what was asked for and when.
pub(super) fn request(operation: Operation, offset: u64, bytes: u64, queued_ns: u64) -> Request {
    Request {
        id: 0,
        operation,
        flags: Flags::default().with(Flags::FLUSH, operation == Operation::Flush),
        class: if operation == Operation::Flush { Class::Flush } else { Class::Unknown },
        offset,
        bytes,
        queued_ns,
        issued_ns: queued_ns,
        completed_ns: queued_ns,
        bios: 1,
        pid: 0,
    }
}

/// Reads an iolog. It records when requests came (version 3) or how long fio is to wait between them (version 2), in
/// microseconds as fio writes them, and not how long they took.
pub struct IologReader<R> {
    lines: Lines<R>,
    targets: Targets,
    timed: bool,
    now_ns: u64,
    last_ns: u64,
    count: u64,
    warnings: ReadWarnings,
}

impl<R: BufRead> IologReader<R> {
    /// Reads from `source`; `path` is what errors call it.
    pub fn new(source: R, path: impl Into<PathBuf>) -> Self {
        Self {
            lines: Lines::new(source, path),
            targets: Targets::default(),
            timed: false,
            now_ns: 0,
            last_ns: 0,
            count: 0,
            warnings: ReadWarnings::default(),
        }
    }

    /// What a line asks for: a request, or nothing. `None` if it is not a line of an iolog.
    fn understand(&mut self) -> Option<Option<TracedRequest>> {
        let text = self.lines.text();
        match &*text {
            "" if self.lines.is_whole() => return Some(None),
            IOLOG_2 => self.timed = false,
            IOLOG_3 => self.timed = true,
            line => {
                let mut words = line.split_whitespace();
                if self.timed {
                    self.now_ns = words.next()?.parse::<u64>().ok()?.checked_mul(1000)?;
                }
                let (file, action) = (words.next()?, words.next()?);
                let mut number = || words.next()?.parse::<u64>().ok();
                let operation = match action {
                    "read" => Operation::Read,
                    "write" => Operation::Write,
                    "trim" => Operation::Discard,
                    "sync" | "datasync" | "sync_file_range" | "syncfs" => Operation::Flush,
                    "add" | "open" | "close" => return Some(None),
                    "wait" => {
                        self.now_ns = self.now_ns.saturating_add(number()?.saturating_mul(1000));
                        return Some(None);
                    }
                    _ => return None,
                };
                let is_flush = operation == Operation::Flush;
                let (offset, bytes) = if is_flush { (0, 0) } else { (number()?, number()?) };
                let request = request(operation, offset, bytes, self.now_ns);
                return Some(Some(TracedRequest { target: self.targets.number(file), request }));
            }
        }
        Some(None)
    }
}

impl<R: BufRead + Send> RequestSource for IologReader<R> {
    fn next_request(&mut self) -> Result<Option<TracedRequest>, TraceError> {
        while self.lines.advance()? {
            match self.understand() {
                Some(found) => {
                    self.lines.accept();
                    let Some(mut found) = found else { continue };
                    found.request.id = self.count;
                    self.count += 1;
                    self.warnings.out_of_order += u64::from(self.now_ns < self.last_ns);
                    self.last_ns = self.now_ns;
                    return Ok(Some(found));
                }
                None => {
                    self.warnings.skipped_lines += 1;
                }
            }
        }
        Ok(None)
    }

    fn targets(&self) -> &[String] {
        self.targets.names()
    }

    fn recorded(&self) -> Recorded {
        Recorded { time: self.timed, latency: false, offset: true }
    }

    fn warnings(&self) -> ReadWarnings {
        self.warnings
    }
}

/// The quantity of a log of fio, by the file's name: its contents do not show it.
///
/// fio names them `NAME_lat.JOB.log`, without the job's number with `per_job_logs=0` (section "Log file formats" of its
/// manual page, `setup_log` in its `backend.c`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LogKind {
    /// Whole latencies (`_lat`) or those of completion (`_clat`).
    Latency,
    /// How long it took to submit (`_slat`).
    Submission,
    /// Something else, in words.
    Other(&'static str),
    /// The name does not show it.
    Unknown,
}

impl LogKind {
    /// By the name of a file.
    pub fn of(path: &Path) -> Self {
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else { return Self::Unknown };
        let Some(stem) = name.strip_suffix(".log") else { return Self::Unknown };
        let stem = match stem.rsplit_once('.') {
            Some((stem, job)) if !job.is_empty() && job.bytes().all(|b| b.is_ascii_digit()) => stem,
            _ => stem,
        };
        let ends = |end: &str| stem.rsplit_once('_').is_some_and(|(_, last)| last == end);
        match stem {
            _ if ends("lat") || ends("clat") => Self::Latency,
            _ if ends("slat") => Self::Submission,
            _ if ends("bw") => Self::Other("bandwidth (KiB/s)"),
            _ if ends("iops") => Self::Other("operations per second"),
            _ if stem.ends_with("_clat_hist") => Self::Other("histograms of latency"),
            _ => Self::Unknown,
        }
    }

    /// Why such a log cannot be read as one of latencies, if it cannot.
    pub fn refusal(self) -> Option<String> {
        let Self::Other(what) = self else { return None };
        Some(format!(
            "by its name it is fio's log of {what}, which contains no requests; give its log of latencies \
             (NAME_lat.JOB.log, of `write_lat_log`)"
        ))
    }

    /// What belongs beside the numbers of such a log.
    pub fn remark(self) -> Option<&'static str> {
        match self {
            Self::Submission => Some("by its name it is a log of submission latencies: not whole requests"),
            Self::Unknown => Some(
                "read as latencies; fio's logs of bandwidth and of operations per second look the same, and the \
                 name does not tell (NAME_lat.JOB.log would)",
            ),
            Self::Latency | Self::Other(_) => None,
        }
    }
}

/// A line of a latency log.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct LogLine {
    time_ms: u64,
    latency_ns: u64,
    operation: Operation,
    bytes: u64,
    /// Only with `log_offset`.
    offset: Option<u64>,
    /// Only with `log_issue_time`.
    issued_ns: Option<u64>,
}

/// Reads `TIME_MS, VALUE, DIRECTION, BYTES[, OFFSET], PRIORITY[, ISSUE_TIME]`; before fio 3.20 there was no priority.
pub(super) fn parse_log_line(line: &str) -> Option<LogLine> {
    let mut fields = [""; 7];
    let mut count = 0;
    for field in line.split(',') {
        *fields.get_mut(count)? = field.trim();
        count += 1;
    }
    if count < 4 {
        return None;
    }
    let number = |at: usize| fields[at].parse::<u64>().ok();
    let operation = match number(2)? {
        0 => Operation::Read,
        1 => Operation::Write,
        2 => Operation::Discard,
        // fio's syncs, data syncs, syncs of ranges and of file systems.
        3..=6 => Operation::Flush,
        _ => return None,
    };
    let priority = |at: usize| match fields[at].strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => number(at),
    };
    // Five fields are a priority (0, 1, 0x…) in new logs and an offset in old ones.
    let is_priority = count == 5 && (fields[4].starts_with("0x") || number(4)? <= 1);
    let offset = if count >= 5 && !is_priority { Some(number(4)?) } else { None };
    if count >= 6 {
        priority(5)?;
    }
    let issued_ns = if count == 7 { Some(number(6)?).filter(|n| *n > 0) } else { None };
    Some(LogLine {
        time_ms: number(0)?,
        latency_ns: number(1)?,
        operation,
        bytes: number(3)?,
        offset,
        issued_ns,
    })
}

/// Reads a latency log with an entry for every request.
///
/// fio logs at the completion, in whole milliseconds from its start; a latency is exact. A log of bandwidth or of
/// operations per second looks the same, and only the file's name shows the difference: see [`LogKind`].
pub struct LatencyLogReader<R> {
    lines: Lines<R>,
    names: Vec<String>,
    ordered: ByCompletion,
    has_offset: bool,
    warnings: ReadWarnings,
}

impl<R: BufRead> LatencyLogReader<R> {
    /// Reads from `source`; `path` is what errors call it.
    pub fn new(source: R, path: impl Into<PathBuf>) -> Self {
        Self {
            lines: Lines::new(source, path),
            names: vec!["the job's files".to_owned()],
            ordered: ByCompletion::new(),
            has_offset: false,
            warnings: ReadWarnings::default(),
        }
    }
}

impl LogLine {
    fn request(&self) -> TracedRequest {
        let completed_ns = self.time_ms.saturating_mul(1_000_000);
        // The first requests may be longer than the milliseconds that have gone by.
        let queued_ns = self.issued_ns.unwrap_or_else(|| completed_ns.saturating_sub(self.latency_ns));
        let mut request = request(self.operation, self.offset.unwrap_or(0), self.bytes, queued_ns);
        request.completed_ns = queued_ns.saturating_add(self.latency_ns);
        TracedRequest { target: 0, request }
    }
}

impl<R: BufRead + Send> RequestSource for LatencyLogReader<R> {
    fn next_request(&mut self) -> Result<Option<TracedRequest>, TraceError> {
        let Self { lines, ordered, has_offset, warnings, .. } = self;
        ordered.next(|| {
            while lines.advance()? {
                let Some(line) = parse_log_line(&lines.text()) else {
                    warnings.skipped_lines += 1;
                    continue;
                };
                lines.accept();
                if line.bytes == 0 && line.operation != Operation::Flush {
                    return Err(lines.error(
                        "an entry without a size: this is a log of averages; let fio log every request (without \
                         log_avg_msec)",
                    ));
                }
                *has_offset |= line.offset.is_some();
                return Ok(Some(line.request()));
            }
            Ok(None)
        })
    }

    fn targets(&self) -> &[String] {
        &self.names
    }

    fn recorded(&self) -> Recorded {
        Recorded { time: true, latency: true, offset: self.has_offset }
    }

    fn warnings(&self) -> ReadWarnings {
        ReadWarnings { out_of_order: self.ordered.out_of_order(), ..self.warnings }
    }
}
