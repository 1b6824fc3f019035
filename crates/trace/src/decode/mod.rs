//! Readers of the forms in which storage is traced, each in constant memory.
//!
//! [`open()`] recognises a form by its content and gives a [`Source`]: events of the block layer, requests,
//! distributions, or events of QEMU. No reader panics or takes more memory than its buffers, whatever it reads: what
//! is odd is counted in [`ReadWarnings`], and where more than [`MOST_GARBAGE_BYTES`] in a row make no sense, reading ends
//! with an error.

pub mod blkparse;
pub mod blktrace;
mod by_completion;
pub mod calls;
pub mod csv;
pub mod file_io;
pub mod fio;
mod input;
mod lines;
mod names;
mod open;
pub mod qemu;
mod recognise;
mod recorded;
mod reorder;
mod rwbs;
mod sequence;
mod source;
mod targets;
pub mod tracefs;
pub mod vscsi;

pub use blktrace::ClockNote;
pub use input::Input;
pub use names::ThreadNames;
pub use open::{OpenOptions, Trace, open, open_input, open_with};
pub use qemu::QemuEvent;
pub use recognise::Format;
pub use source::{Clock, EventSource, QemuSource, Recorded, RequestSource, Source, TracedRequest};
pub use vscsi::VscsiHistogram;

use std::fmt;

/// Bytes in a row that may make no sense: a hole that a crash left in a file is bridged (blktrace writes 512 KiB at a
/// time), a file of garbage is not read to its end.
pub const MOST_GARBAGE_BYTES: u64 = 1 << 20;

/// Why reading ends within garbage.
fn garbage(wanted: &str) -> String {
    let mebibytes = MOST_GARBAGE_BYTES >> 20;
    format!(
        "for {mebibytes} MiB from here on, nothing could be {wanted}; if the file is damaged, cut it off here \
         (`head -c`) to use what comes before"
    )
}

/// Oddities that a reader met; every count above zero belongs beside the result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadWarnings {
    /// Bytes of an unfinished record at the end of a file.
    pub truncated_bytes: u64,
    /// Bytes in the middle that were no records.
    pub skipped_bytes: u64,
    /// Lines that were no events (text only).
    pub skipped_lines: u64,
    /// Records missing by their numbers.
    pub missing_records: u64,
    /// Events older than the one before on the same CPU.
    pub out_of_order: u64,
    /// Events more than a day younger than the one before on the same CPU.
    pub clock_jumps: u64,
    /// Events of a kind that this program does not know.
    pub unknown_actions: u64,
    /// Messages of drivers, schedulers or users (`BLK_TN_MESSAGE`), which are not events of requests.
    pub messages: u64,
    /// Events whose numbers were not checked, because too many recorders (CPUs of devices) take turns.
    pub unchecked_events: u64,
}

impl ReadWarnings {
    /// Adds the counts of another reader.
    pub fn add(&mut self, other: &Self) {
        self.truncated_bytes += other.truncated_bytes;
        self.skipped_bytes += other.skipped_bytes;
        self.skipped_lines += other.skipped_lines;
        self.missing_records += other.missing_records;
        self.out_of_order += other.out_of_order;
        self.clock_jumps += other.clock_jumps;
        self.unknown_actions += other.unknown_actions;
        self.messages += other.messages;
        self.unchecked_events += other.unchecked_events;
    }

    /// The warnings in words, one each.
    pub fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        let mut say = |count: u64, what: fmt::Arguments<'_>| {
            if count > 0 {
                remarks.push(what.to_string());
            }
        };
        let n = self.truncated_bytes;
        say(n, format_args!("the last {n} bytes are an unfinished record and were left out"));
        let n = self.skipped_bytes;
        say(n, format_args!("{n} bytes in the middle of the trace are not records and were skipped"));
        let n = self.skipped_lines;
        say(n, format_args!("{n} lines are not events and were skipped"));
        let n = self.missing_records;
        say(n, format_args!("{n} records are missing, by their numbers"));
        let n = self.out_of_order;
        say(n, format_args!("{n} events are older than the one before on the same CPU"));
        let n = self.clock_jumps;
        say(n, format_args!("{n} events are more than a day younger than the one before: the clock was set"));
        let n = self.unknown_actions;
        say(n, format_args!("{n} events are of an unknown kind and were ignored"));
        let n = self.messages;
        say(
            n,
            format_args!(
                "{n} messages of drivers, schedulers or users are in the trace: not counted as events"
            ),
        );
        let n = self.unchecked_events;
        say(
            n,
            format_args!("{n} events were not checked for losses: the trace has too many CPUs and devices"),
        );
        remarks
    }
}
