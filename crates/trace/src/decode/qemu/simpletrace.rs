//! The binary file of QEMU's `simple` back end, version 4 (`trace/simple.c` of QEMU's sources).
//!
//! A header of three 64-bit numbers: all ones, the magic, the version. Then records, each with its kind in 64 bits:
//! 0 maps an event's number to its name (number, length in 32 bits, name), 1 is an event (number, time, length of all
//! from the number on and process in 32 bits each, arguments). An argument is a number of 64 bits, or the length of a string in
//! 32 bits and the string. All numbers are in the byte order of the machine. An event whose number is all ones but the lowest
//! says how many events were lost before it. Times are `CLOCK_MONOTONIC`.

use std::collections::HashMap;
use std::io::{ErrorKind, Read};
use std::path::PathBuf;
use std::sync::Arc;

use super::signature::{Signature, Signatures};
use super::{Argument, QemuEvent, Value};
use crate::decode::blktrace::ByteOrder;
use crate::decode::reorder::Window;
use crate::decode::{Clock, QemuSource, ReadWarnings};
use crate::error::TraceError;

const HEADER_EVENT: u64 = u64::MAX;
const MAGIC: u64 = 0xf2b1_77cb_0aa4_29b4;
const VERSION: u64 = 4;
const MAPPING: u64 = 0;
const EVENT: u64 = 1;
const DROPPED_EVENT: u64 = u64::MAX - 1;
const HEADER_BYTES: usize = 24;

/// Bytes of an event before its arguments.
const EVENT_HEAD_BYTES: usize = 24;

/// QEMU's buffer of events (`TRACE_BUF_LEN`): none is longer.
const LONGEST_EVENT: usize = 4096 * 64;
const LONGEST_NAME: usize = 256;

/// Events whose names are kept; QEMU has 6,000.
const MOST_EVENTS: usize = 1 << 16;

/// QEMU's threads reserve room for an event before they look at the clock, so neighbours may be exchanged.
const WINDOW: usize = 1024;

/// The byte order of a file with these first bytes, if it is simpletrace's.
pub(in crate::decode) fn begins(head: &[u8]) -> Option<ByteOrder> {
    let (event, rest) = head.split_first_chunk::<8>()?;
    let magic = rest.first_chunk::<8>()?;
    match (u64::from_ne_bytes(*event), u64::from_le_bytes(*magic)) {
        (HEADER_EVENT, MAGIC) => Some(ByteOrder::Little),
        (HEADER_EVENT, magic) if magic == MAGIC.swap_bytes() => Some(ByteOrder::Big),
        _ => None,
    }
}

/// A number, a name, the arguments.
struct Kind {
    name: Arc<str>,
    signature: Option<Signature>,
}

/// Reads the events of a file in constant memory.
pub struct SimpletraceReader<R> {
    source: R,
    path: PathBuf,
    offset: u64,
    order: Option<ByteOrder>,
    signatures: Signatures,
    kinds: HashMap<u64, Kind>,
    buffer: Vec<u8>,
    window: Window<QemuEvent>,
    ended: bool,
    last_ns: u64,
    lost: u64,
    warnings: ReadWarnings,
}

impl<R: Read> SimpletraceReader<R> {
    /// Reads from `source`, preferably buffered; `path` is what errors call it.
    pub fn new(source: R, path: impl Into<PathBuf>, signatures: Signatures) -> Self {
        Self {
            source,
            path: path.into(),
            offset: 0,
            order: None,
            signatures,
            kinds: HashMap::new(),
            buffer: Vec::new(),
            window: Window::new(WINDOW),
            ended: false,
            last_ns: 0,
            lost: 0,
            warnings: ReadWarnings::default(),
        }
    }

    /// The next event as it is in the file.
    fn read_event(&mut self) -> Result<Option<QemuEvent>, TraceError> {
        if self.order.is_none() && !self.read_header()? {
            return Ok(None);
        }
        loop {
            let at = self.offset;
            if !self.take(8)? {
                return Ok(None);
            }
            let event = match self.u64(0) {
                MAPPING => self.read_mapping(at)?.then_some(None),
                EVENT => self.read_one(at)?,
                kind => {
                    return Err(self.error(
                        at,
                        format!("a record of kind {kind} instead of 0 (a name) or 1 (an event): the file is damaged from here on"),
                    ));
                }
            };
            match event {
                Some(Some(event)) => return Ok(Some(event)),
                Some(None) => {}
                None => return Ok(None),
            }
        }
    }

    fn read_header(&mut self) -> Result<bool, TraceError> {
        if !self.take(HEADER_BYTES)? {
            return Ok(false);
        }
        let Some(order) = begins(&self.buffer) else {
            return Err(self.error(0, "not a file of QEMU's simple trace back end".to_owned()));
        };
        self.order = Some(order);
        match self.u64(16) {
            VERSION => Ok(true),
            version => Err(self.error(
                16,
                format!(
                    "version {version} of QEMU's simple trace format instead of {VERSION}: it has numbers for events without their \
                     names; make text of it with the simpletrace.py of the QEMU that wrote it"
                ),
            )),
        }
    }

    /// `false` at the end of the file.
    fn read_mapping(&mut self, at: u64) -> Result<bool, TraceError> {
        if !self.take(12)? {
            return Ok(false);
        }
        let (number, length) = (self.u64(0), self.u32(8) as usize);
        if !(1..=LONGEST_NAME).contains(&length) || self.kinds.len() >= MOST_EVENTS {
            return Err(self.error(
                at,
                format!(
                    "name {} of an event, of {length} bytes: the file is damaged from here on",
                    self.kinds.len()
                ),
            ));
        }
        if !self.take(length)? {
            return Ok(false);
        }
        let name: Arc<str> = String::from_utf8_lossy(&self.buffer).into();
        let signature = self.signatures.get(&name).cloned();
        self.kinds.insert(number, Kind { name, signature });
        Ok(true)
    }

    /// `None` at the end of the file, `Some(None)` for a record without an event.
    fn read_one(&mut self, at: u64) -> Result<Option<Option<QemuEvent>>, TraceError> {
        if !self.take(EVENT_HEAD_BYTES)? {
            return Ok(None);
        }
        let (number, time_ns) = (self.u64(0), self.u64(8));
        let (length, pid) = (self.u32(16) as usize, self.u32(20));
        if !(EVENT_HEAD_BYTES..=LONGEST_EVENT).contains(&length) {
            return Err(
                self.error(at, format!("an event of {length} bytes: the file is damaged from here on"))
            );
        }
        if !self.take(length - EVENT_HEAD_BYTES)? {
            return Ok(None);
        }
        if number == DROPPED_EVENT {
            let lost = if self.buffer.len() >= 8 { self.u64(0) } else { 1 };
            self.lost = self.lost.saturating_add(lost);
            return Ok(Some(None));
        }
        let Some(kind) = self.kinds.get(&number) else {
            self.warnings.unknown_actions += 1;
            return Ok(Some(None));
        };
        let arguments = match &kind.signature {
            Some(signature) => self.named(signature),
            None => None,
        };
        let arguments = arguments.unwrap_or_else(|| self.unnamed());
        Ok(Some(Some(QemuEvent { time_ns, pid, name: kind.name.clone(), arguments })))
    }

    /// The arguments, if they have the form of the signature.
    fn named(&self, signature: &Signature) -> Option<Vec<Argument>> {
        let mut at = 0;
        let mut arguments = Vec::with_capacity(signature.len());
        for parameter in signature.iter() {
            let value = if parameter.is_text {
                let length = self.buffer.get(at..at + 4).map(|_| self.u32(at) as usize)?;
                let text = self.buffer.get(at + 4..)?.get(..length)?;
                at += 4 + length;
                Value::Text(String::from_utf8_lossy(text).into_owned())
            } else {
                self.buffer.get(at..at + 8)?;
                at += 8;
                Value::Unsigned(self.u64(at - 8))
            };
            arguments.push(Argument { name: parameter.name.clone(), value });
        }
        (at == self.buffer.len()).then_some(arguments)
    }

    /// The arguments of an event without a known signature, taken for numbers.
    fn unnamed(&self) -> Vec<Argument> {
        /// QEMU's events have ten at most.
        const MOST: usize = 16;
        let words = (0..self.buffer.len() / 8).take(MOST);
        words
            .map(|i| Argument { name: format!("arg{i}").into(), value: Value::Unsigned(self.u64(i * 8)) })
            .collect()
    }

    /// Brings the next `wanted` bytes into the buffer; where the file ends before, counts them as lost.
    fn take(&mut self, wanted: usize) -> Result<bool, TraceError> {
        self.buffer.resize(wanted, 0);
        let mut filled = 0;
        while filled < wanted {
            match self.source.read(&mut self.buffer[filled..]) {
                Ok(0) => {
                    self.warnings.truncated_bytes += filled as u64;
                    return Ok(false);
                }
                Ok(read) => filled += read,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(TraceError::io("read the trace", &self.path)(error)),
            }
        }
        self.offset += wanted as u64;
        Ok(true)
    }

    fn u32(&self, at: usize) -> u32 {
        let bytes = self.buffer[at..at + 4].try_into().expect("four bytes");
        if self.order == Some(ByteOrder::Big) { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
    }

    fn u64(&self, at: usize) -> u64 {
        let bytes = self.buffer[at..at + 8].try_into().expect("eight bytes");
        if self.order == Some(ByteOrder::Big) { u64::from_be_bytes(bytes) } else { u64::from_le_bytes(bytes) }
    }

    fn error(&self, offset: u64, reason: String) -> TraceError {
        TraceError::Format { path: self.path.clone(), offset, reason }
    }
}

impl<R: Read + Send> QemuSource for SimpletraceReader<R> {
    fn next_event(&mut self) -> Result<Option<QemuEvent>, TraceError> {
        while !self.ended && !self.window.is_full() {
            match self.read_event()? {
                Some(event) => self.window.push(event.time_ns, event),
                None => self.ended = true,
            }
        }
        let event = self.window.pop();
        if let Some(event) = &event {
            self.warnings.out_of_order += u64::from(event.time_ns < self.last_ns);
            self.last_ns = event.time_ns;
        }
        Ok(event)
    }

    fn clock(&self) -> Clock {
        Clock::Monotonic
    }

    fn lost_events(&self) -> u64 {
        self.lost
    }

    fn warnings(&self) -> ReadWarnings {
        self.warnings
    }
}
