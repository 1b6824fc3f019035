//! Readers of the forms in which block events are recorded; all yield [`BlockEvent`](crate::event::BlockEvent).

pub mod blktrace;
pub mod tracefs;

use std::fmt;

/// What a reader had to put up with; every count above zero belongs beside the result.
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
    /// Events of a kind that this program does not know.
    pub unknown_actions: u64,
}

impl ReadWarnings {
    /// Adds the counts of another reader.
    pub fn add(&mut self, other: &Self) {
        self.truncated_bytes += other.truncated_bytes;
        self.skipped_bytes += other.skipped_bytes;
        self.skipped_lines += other.skipped_lines;
        self.missing_records += other.missing_records;
        self.out_of_order += other.out_of_order;
        self.unknown_actions += other.unknown_actions;
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
        say(n, format_args!("{n} bytes in the middle of the trace are no records and were skipped"));
        let n = self.skipped_lines;
        say(n, format_args!("{n} lines are no block events and were skipped"));
        let n = self.missing_records;
        say(n, format_args!("{n} records are missing by their numbers"));
        let n = self.out_of_order;
        say(n, format_args!("{n} events are older than the one before on the same CPU"));
        let n = self.unknown_actions;
        say(n, format_args!("{n} events are of a kind that is not known and were ignored"));
        remarks
    }
}
