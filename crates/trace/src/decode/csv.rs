//! Requests in lines of their own, separated by commas: the form of the traces that Microsoft Research published through
//! SNIA's repository (IOTTA), and of the traces of commands by vscsiStats.

use std::io::BufRead;
use std::path::PathBuf;

use super::by_completion::ByCompletion;
use super::fio::request;
use super::lines::Lines;
use super::targets::Targets;
use super::vscsi::{self, CommandLine};
use super::{ReadWarnings, Recorded, RequestSource, TracedRequest};
use crate::error::TraceError;
use crate::request::{Operation, Request};

/// Whose lines they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CsvForm {
    /// `Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime`: ticks of 100 ns since 1601 (Windows file time), bytes.
    Msr,
    /// `Serial Number,IO Data Length,Num SG Entries,Command Type,LBN,Time Stamp (microseconds)`: bytes, sectors.
    VscsiCommands,
}

/// Nanoseconds of a tick of Windows file time.
const TICK_NS: u64 = 100;

/// 1970 in Windows file time: 11,644,473,600 s after 1601.
const UNIX_EPOCH_TICKS: u64 = 116_444_736_000_000_000;

/// The contents of a line.
pub(super) enum CsvLine<'a> {
    /// A request of a disk.
    Request(Disk<'a>, Request),
    /// A header, a comment, nothing.
    Other,
    /// A request of a kind that is not read.
    Unknown,
}

/// The name of a disk.
pub(super) enum Disk<'a> {
    /// Of a host and its disk's number.
    Numbered(&'a str, &'a str),
    /// A disk without a name.
    Unnamed,
}

/// Reads requests in constant memory.
pub struct CsvReader<R> {
    lines: Lines<R>,
    form: CsvForm,
    targets: Targets,
    /// Reused for names.
    name: String,
    ordered: ByCompletion,
    warnings: ReadWarnings,
}

impl<R: BufRead> CsvReader<R> {
    /// Reads from `source`; `path` is what errors call it.
    pub fn new(source: R, path: impl Into<PathBuf>, form: CsvForm) -> Self {
        Self {
            lines: Lines::new(source, path),
            form,
            targets: Targets::default(),
            name: String::new(),
            ordered: ByCompletion::new(),
            warnings: ReadWarnings::default(),
        }
    }
}

impl<R: BufRead + Send> RequestSource for CsvReader<R> {
    fn next_request(&mut self) -> Result<Option<TracedRequest>, TraceError> {
        let Self { lines, form, targets, name, ordered, warnings } = self;
        ordered.next(|| {
            while lines.advance()? {
                let text = lines.text();
                let meaning = if lines.is_whole() { parse_line(*form, &text) } else { None };
                let found = match meaning {
                    Some(CsvLine::Request(disk, request)) => {
                        name.clear();
                        match disk {
                            Disk::Numbered(host, number) => name.extend([host, ".", number]),
                            Disk::Unnamed => name.push_str("the virtual disk"),
                        }
                        Some(TracedRequest { target: targets.number(name), request })
                    }
                    Some(CsvLine::Other) => None,
                    Some(CsvLine::Unknown) => {
                        warnings.unknown_actions += 1;
                        None
                    }
                    None => {
                        drop(text);
                        warnings.skipped_lines += 1;
                        continue;
                    }
                };
                drop(text);
                lines.accept();
                if found.is_some() {
                    return Ok(found);
                }
            }
            Ok(None)
        })
    }

    fn targets(&self) -> &[String] {
        self.targets.names()
    }

    fn recorded(&self) -> Recorded {
        Recorded { time: true, latency: self.form == CsvForm::Msr, offset: true }
    }

    fn warnings(&self) -> ReadWarnings {
        ReadWarnings { out_of_order: self.ordered.out_of_order(), ..self.warnings }
    }
}

/// Reads one line; `None` if it has another form.
pub(super) fn parse_line(form: CsvForm, line: &str) -> Option<CsvLine<'_>> {
    if line.is_empty() || line.starts_with('#') {
        return Some(CsvLine::Other);
    }
    match form {
        CsvForm::Msr => parse_msr(line),
        CsvForm::VscsiCommands => match vscsi::parse_command(line)? {
            CommandLine::Request(request) => Some(CsvLine::Request(Disk::Unnamed, request)),
            CommandLine::Unknown => Some(CsvLine::Unknown),
        },
    }
}

fn parse_msr(line: &str) -> Option<CsvLine<'_>> {
    let mut fields = line.split(',').map(str::trim);
    let [time, host, disk, operation, offset, size, response] = std::array::from_fn(|_| fields.next());
    if fields.next().is_some() {
        return None;
    }
    if time?.eq_ignore_ascii_case("timestamp") {
        return Some(CsvLine::Other);
    }
    let operation = match operation? {
        word if word.eq_ignore_ascii_case("read") => Operation::Read,
        word if word.eq_ignore_ascii_case("write") => Operation::Write,
        _ => return None,
    };
    let ticks: u64 = time?.parse().ok()?;
    // Excerpts are often counted from their beginning.
    let ticks = ticks.checked_sub(UNIX_EPOCH_TICKS).unwrap_or(ticks);
    let response: u64 = response?.parse().ok()?;
    let mut request =
        request(operation, offset?.parse().ok()?, size?.parse().ok()?, ticks.checked_mul(TICK_NS)?);
    request.completed_ns = request.queued_ns.checked_add(response.checked_mul(TICK_NS)?)?;
    Some(CsvLine::Request(Disk::Numbered(host?, disk?), request))
}
