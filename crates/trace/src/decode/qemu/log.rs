//! The text of QEMU's `log` back end: `PID@SECONDS.MICROSECONDS:EVENT TEXT` with `-msg timestamp=on`, else `EVENT TEXT`.
//!
//! The text is each event's own. Its values come in the order of the event's arguments, mostly as `name value`.

use std::collections::HashMap;
use std::io::BufRead;
use std::path::PathBuf;
use std::sync::Arc;

use super::signature::Signatures;
use super::{Argument, QemuEvent, Value};
use crate::decode::lines::Lines;
use crate::decode::rwbs::time_ns;
use crate::decode::{Clock, QemuSource, ReadWarnings};
use crate::error::TraceError;

/// Names of events and arguments that are kept as they are; QEMU has 6,000 events.
const MOST_NAMES: usize = 1 << 14;

/// Values of an event that are read; QEMU's have ten at most.
const MOST_VALUES: usize = 32;

/// Reads the events of a log in constant memory.
pub struct LogReader<R> {
    lines: Lines<R>,
    signatures: Signatures,
    names: Names,
    clock: Clock,
    last_ns: u64,
    warnings: ReadWarnings,
}

impl<R: BufRead> LogReader<R> {
    /// Reads from `source`; `path` is what errors call it.
    pub fn new(source: R, path: impl Into<PathBuf>, signatures: Signatures) -> Self {
        Self {
            lines: Lines::new(source, path),
            signatures,
            names: Names::default(),
            clock: Clock::Realtime,
            last_ns: 0,
            warnings: ReadWarnings::default(),
        }
    }
}

impl<R: BufRead + Send> QemuSource for LogReader<R> {
    fn next_event(&mut self) -> Result<Option<QemuEvent>, TraceError> {
        while self.lines.advance()? {
            let text = self.lines.text();
            if text.is_empty() && self.lines.is_whole() {
                continue;
            }
            if let Some(line) = parse_line(&text, &self.signatures) {
                let name = self.names.get(line.name);
                let arguments = arguments(line.name, line.text, &self.signatures, &mut self.names);
                let event = QemuEvent { time_ns: line.time_ns.unwrap_or(0), pid: line.pid, name, arguments };
                self.clock = if line.time_ns.is_some() { Clock::Realtime } else { Clock::None };
                drop(text);
                self.lines.accept();
                self.warnings.out_of_order += u64::from(event.time_ns < self.last_ns);
                self.last_ns = event.time_ns;
                return Ok(Some(event));
            }
            drop(text);
            self.warnings.skipped_lines += 1;
        }
        Ok(None)
    }

    fn clock(&self) -> Clock {
        self.clock
    }

    fn lost_events(&self) -> u64 {
        0
    }

    fn warnings(&self) -> ReadWarnings {
        self.warnings
    }
}

/// Whether a line is an event, for recognition.
pub(in crate::decode) fn is_event_line(line: &str, signatures: &Signatures) -> bool {
    parse_line(line, signatures).is_some()
}

#[derive(Debug, PartialEq)]
struct Line<'a> {
    pid: u32,
    time_ns: Option<u64>,
    name: &'a str,
    text: &'a str,
}

/// Without a time, only lines of known events are taken for events: anything may stand in a log.
fn parse_line<'a>(line: &'a str, signatures: &Signatures) -> Option<Line<'a>> {
    let name_and_text = |event: &'a str| {
        let (name, text) = event.split_once(' ').unwrap_or((event, ""));
        let is_name = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') && !name.is_empty();
        is_name.then_some((name, text))
    };
    if let Some((stamp, event)) = line.split_once(':')
        && let Some((pid, time)) = stamp.split_once('@')
        && let (Ok(pid), Some(time_ns)) = (pid.parse(), time_ns(time))
    {
        let (name, text) = name_and_text(event)?;
        return Some(Line { pid, time_ns: Some(time_ns), name, text });
    }
    let (name, text) = name_and_text(line)?;
    signatures.get(name)?;
    Some(Line { pid: 0, time_ns: None, name, text })
}

/// Finds the values in the text. If they are as many as the signature has numbers, they get its names; else each has the
/// word before it.
fn arguments(event: &str, text: &str, signatures: &Signatures, names: &mut Names) -> Vec<Argument> {
    let found = values(text);
    if let Some(signature) = signatures.get(event) {
        let numbers: Vec<_> = signature.iter().filter(|p| !p.is_text).collect();
        if numbers.len() == found.len() {
            let named = |(parameter, (_, value)): (&&super::signature::Parameter, (&str, Value))| Argument {
                name: parameter.name.clone(),
                value,
            };
            return numbers.iter().zip(found).map(named).collect();
        }
    }
    let named = |(index, (word, value)): (usize, (&str, Value))| {
        let name = if word.is_empty() { names.get(&format!("arg{index}")) } else { names.get(word) };
        Argument { name, value }
    };
    found.into_iter().enumerate().map(named).collect()
}

/// The numbers in a text, each with the word before it.
fn values(text: &str) -> Vec<(&str, Value)> {
    let mut found = Vec::new();
    let mut before = "";
    // `(nil)` is how the C library prints a null pointer; its parentheses separate words elsewhere.
    let separators = |c: char| c.is_whitespace() || "=,;:()[]<>\"'".contains(c);
    for word in text.split(separators).filter(|word| !word.is_empty()) {
        match number(word) {
            Some(value) if found.len() < MOST_VALUES => found.push((std::mem::take(&mut before), value)),
            Some(_) => break,
            None => before = word,
        }
    }
    found
}

fn number(word: &str) -> Option<Value> {
    if word == "nil" {
        return Some(Value::Unsigned(0));
    }
    if let Some(hex) = word.strip_prefix("0x") {
        return u64::from_str_radix(hex, 16).ok().map(Value::Unsigned);
    }
    if word.starts_with('-') {
        return word.parse().ok().map(Value::Negative);
    }
    if !word.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    word.parse().ok().map(Value::Unsigned)
}

/// Names that are met again and again, as long as there is room for them.
#[derive(Default)]
struct Names {
    known: HashMap<Box<str>, Arc<str>>,
}

impl Names {
    fn get(&mut self, name: &str) -> Arc<str> {
        if let Some(known) = self.known.get(name) {
            return known.clone();
        }
        let new: Arc<str> = name.into();
        if self.known.len() < MOST_NAMES && name.len() <= 128 {
            self.known.insert(name.into(), new.clone());
        }
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &'static str) -> Vec<QemuEvent> {
        let mut reader = LogReader::new(text.as_bytes(), "test", Signatures::of_storage());
        std::iter::from_fn(|| reader.next_event().unwrap()).collect()
    }

    #[test]
    fn values_get_the_names_of_the_signature_or_of_the_words() {
        let events = read(
            "7@12.000034:virtio_blk_rw_complete vdev 0x10 req (nil) ret -5\n\
             7@12.5:scsi_disk_dma_command_WRITE Write AndVerify (sector 16, count 8)\n\
             8@12.6:something_new from 3 to=0x4: 5\n\
             no event\n\
             9@13.0:idle_event\n",
        );
        let e = &events[0];
        assert_eq!((e.pid, e.time_ns, &*e.name), (7, 12_000_034_000, "virtio_blk_rw_complete"));
        assert_eq!((e.number("vdev"), e.number("req"), e.signed("ret")), (Some(16), Some(0), Some(-5)));
        assert_eq!((events[1].number("lba"), events[1].number("len")), (Some(16), Some(8)));
        let e = &events[2];
        assert_eq!((e.number("from"), e.number("to"), e.number("arg2")), (Some(3), Some(4), Some(5)));
        assert_eq!(events[3].arguments, []);
        assert_eq!(events.len(), 4);
    }
}
