//! Which form a trace has, by its first bytes.

use std::fmt;

use super::csv::{self, CsvForm, CsvLine};
use super::qemu::{self, Signatures};
use super::{blkparse, blktrace, fio, tracefs, vscsi};
use crate::request_file;

/// The form of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// blktrace's binary records: the files of the CPUs, or one file of all, as `blkparse -d` and `blktrace -o -` give.
    Blktrace,
    /// The text of tracefs with the `block:*` events.
    Tracefs,
    /// What blkparse prints by default.
    Blkparse,
    /// QEMU's trace events as its `simple` back end writes them.
    Simpletrace,
    /// QEMU's trace events as its `log` back end writes them.
    QemuLog,
    /// fio's record of what it did, to be replayed (`write_iolog`).
    FioIolog,
    /// fio's log of latencies, an entry for each request (`write_lat_log`).
    FioLatencyLog,
    /// The traces of Microsoft Research in SNIA's repository.
    Msr,
    /// Traces of commands by VMware's vscsiStats.
    VscsiCommands,
    /// Histograms by VMware's vscsiStats.
    VscsiHistograms,
    /// This program's file of requests.
    RequestFile,
    /// The log of a modelled disk.
    DiskLog,
    /// The log of a modelled link.
    LinkLog,
}

impl Format {
    /// All of them.
    pub const ALL: [Self; 13] = [
        Self::Blktrace,
        Self::Tracefs,
        Self::Blkparse,
        Self::Simpletrace,
        Self::QemuLog,
        Self::FioIolog,
        Self::FioLatencyLog,
        Self::Msr,
        Self::VscsiCommands,
        Self::VscsiHistograms,
        Self::RequestFile,
        Self::DiskLog,
        Self::LinkLog,
    ];
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Blktrace => "blktrace records",
            Self::Tracefs => "tracefs text of block events",
            Self::Blkparse => "blkparse text",
            Self::Simpletrace => "QEMU simpletrace",
            Self::QemuLog => "QEMU trace log",
            Self::FioIolog => "fio iolog",
            Self::FioLatencyLog => "fio latency log",
            Self::Msr => "MSR Cambridge CSV",
            Self::VscsiCommands => "vscsiStats commands",
            Self::VscsiHistograms => "vscsiStats histograms",
            Self::RequestFile => "Nestor request file",
            Self::DiskLog => "Nestor disk log",
            Self::LinkLog => "Nestor frame log",
        })
    }
}

/// What the first bytes say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Recognition {
    /// The form.
    Is(Format),
    /// A form that has to be made another first, and what to do.
    Wrapped(&'static str),
    /// More bytes are needed.
    Undecided,
    /// No form that is known.
    Unknown,
}

/// Lines before the first one that is understood: heads and comments of the tools.
const MOST_LINES: usize = 200;

/// Judges the first bytes of a file; `all` if there are no more.
pub(super) fn recognise(head: &[u8], all: bool, signatures: &Signatures) -> Recognition {
    if let Some(format) = binary(head) {
        return Recognition::Is(format);
    }
    if let Some(wrapped) = wrapped(head) {
        return Recognition::Wrapped(wrapped);
    }
    if head.len() < 16 && !all {
        return Recognition::Undecided;
    }
    recognise_text(head, all, signatures)
}

fn binary(head: &[u8]) -> Option<Format> {
    if head.first_chunk::<4>().is_some_and(|word| blktrace::begins(*word)) {
        return Some(Format::Blktrace);
    }
    if qemu::begins_simpletrace(head).is_some() {
        return Some(Format::Simpletrace);
    }
    let own = [
        (request_file::HEAD, Format::RequestFile),
        (nestor_disk::log::HEAD, Format::DiskLog),
        (nestor_link::log::HEAD, Format::LinkLog),
    ];
    own.into_iter().find(|(begin, _)| head.starts_with(begin.magic)).map(|(_, format)| format)
}

fn wrapped(head: &[u8]) -> Option<&'static str> {
    const MAGICS: [(&[u8], &str); 5] = [
        (b"\x1f\x8b", "it is compressed with gzip: give `zcat FILE` on standard input, with - as its name"),
        (
            b"\x28\xb5\x2f\xfd",
            "it is compressed with zstd: give `zstdcat FILE` on standard input, with - as its name",
        ),
        (b"\xfd7zXZ\0", "it is compressed with xz: give `xzcat FILE` on standard input, with - as its name"),
        (b"BZh", "it is compressed with bzip2: give `bzcat FILE` on standard input, with - as its name"),
        (b"PK\x03\x04", "it is a zip archive: unpack it and name the files in it"),
    ];
    MAGICS.iter().find(|(magic, _)| head.starts_with(magic)).map(|(_, hint)| *hint)
}

fn recognise_text(head: &[u8], all: bool, signatures: &Signatures) -> Recognition {
    let mut lines: Vec<_> = head.split(|&b| b == b'\n').collect();
    // The last one may not be whole.
    if !all {
        lines.pop();
    }
    for line in lines.iter().take(MOST_LINES) {
        // No text that is read here has a zero in it.
        if line.contains(&0) {
            return Recognition::Unknown;
        }
        if let Some(format) = format_of_line(String::from_utf8_lossy(line).trim_end(), signatures) {
            return Recognition::Is(format);
        }
    }
    if all || lines.len() > MOST_LINES { Recognition::Unknown } else { Recognition::Undecided }
}

/// The form of which a line is, if it is of one and no comment.
fn format_of_line(line: &str, signatures: &Signatures) -> Option<Format> {
    if line.is_empty() {
        return None;
    }
    if line == fio::IOLOG_2 || line == fio::IOLOG_3 {
        return Some(Format::FioIolog);
    }
    if line.trim_start_matches('"').starts_with(vscsi::TITLE) {
        return Some(Format::VscsiHistograms);
    }
    if line.starts_with("#Vscsi Cmd Trace") {
        return Some(Format::VscsiCommands);
    }
    if line.starts_with("# tracer:") {
        return Some(Format::Tracefs);
    }
    if line.starts_with('#') {
        return None;
    }
    // From the strictest to the most lenient.
    if matches!(blkparse::parse_line(line), blkparse::Line::Event(..) | blkparse::Line::Unknown) {
        return Some(Format::Blkparse);
    }
    if qemu::is_event_line(line, signatures) {
        return Some(Format::QemuLog);
    }
    let is_csv = |form| matches!(csv::parse_line(form, line), Some(CsvLine::Request(..)));
    if is_csv(CsvForm::Msr) {
        return Some(Format::Msr);
    }
    if is_csv(CsvForm::VscsiCommands) {
        return Some(Format::VscsiCommands);
    }
    if fio::parse_log_line(line).is_some() {
        return Some(Format::FioLatencyLog);
    }
    (tracefs::parse_line(line) != tracefs::Line::Unreadable).then_some(Format::Tracefs)
}
