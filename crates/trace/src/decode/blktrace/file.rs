//! One CPU's file, read in constant memory.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use super::record::{ByteOrder, Header, Meaning, USUAL_BYTES, UsualHeader, Version, recognise};
use crate::decode::sequence::{Latest, SequenceCheck};
use crate::decode::{MOST_GARBAGE_BYTES, ReadWarnings, ThreadNames, garbage};
use crate::error::TraceError;
use crate::event::{Action, BlockEvent};

/// Bytes held of a file at most; must hold the longest record (64 bytes and 65,535 of data).
const MOST_BUFFER_BYTES: usize = 128 * 1024;

/// Bytes held of a file at first: what the files of a few CPUs need together stays in the processor's cache, and what
/// those of a thousand need is not much.
const READ_BYTES: usize = 32 * 1024;

/// The wall clock at one instant of the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockNote {
    /// The trace's own clock (`CLOCK_MONOTONIC`).
    pub time_ns: u64,
    /// `CLOCK_REALTIME` then.
    pub realtime_ns: u64,
}

/// Reads the events of one file.
///
/// A file that does not begin with a record is refused. Later bytes that are not a record are skipped up to the
/// next one and counted, as is an unfinished record at the end.
pub struct FileReader<R> {
    source: R,
    path: PathBuf,
    buffer: Vec<u8>,
    /// The unread part of `buffer`.
    start: usize,
    end: usize,
    /// Where in the file `start` is.
    offset: u64,
    order: Option<ByteOrder>,
    /// An event that was read and is later than what was asked for.
    held: Option<BlockEvent>,
    sequences: SequenceCheck,
    clock: Option<ClockNote>,
    names: ThreadNames,
    warnings: ReadWarnings,
}

impl FileReader<File> {
    /// Opens a file.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn open(path: &Path) -> Result<Self, TraceError> {
        let file = File::open(path).map_err(TraceError::io("open the trace", path))?;
        Ok(Self::new(file, path))
    }
}

impl<R: Read> FileReader<R> {
    /// Reads from `source`; `path` is what errors call it.
    pub fn new(source: R, path: impl Into<PathBuf>) -> Self {
        Self {
            source,
            path: path.into(),
            buffer: vec![0; READ_BYTES],
            start: 0,
            end: 0,
            offset: 0,
            order: None,
            held: None,
            sequences: SequenceCheck::default(),
            clock: None,
            names: ThreadNames::default(),
            warnings: ReadWarnings::default(),
        }
    }

    /// The first wall clock note read so far.
    pub fn clock(&self) -> Option<ClockNote> {
        self.clock
    }

    /// Names of threads by number, as far as read.
    pub fn thread_names(&self) -> &ThreadNames {
        &self.names
    }

    /// What was odd so far.
    pub fn warnings(&self) -> &ReadWarnings {
        &self.warnings
    }

    /// The next event, or `None` at the end.
    ///
    /// # Errors
    /// The file cannot be read or is not blktrace's.
    pub fn next_event(&mut self) -> Result<Option<BlockEvent>, TraceError> {
        match self.held.take() {
            Some(event) => Ok(Some(event)),
            None => self.read_event(),
        }
    }

    /// Appends events up to and including the time `until_ns` until `events` holds `most`; says when the next one is,
    /// `None` at the end.
    pub(super) fn run(
        &mut self,
        until_ns: u64,
        most: usize,
        events: &mut Vec<BlockEvent>,
    ) -> Result<Option<u64>, TraceError> {
        loop {
            if self.held.is_none() {
                if let Some(time_ns) = self.usual_run(until_ns, most, events) {
                    return Ok(Some(time_ns));
                }
                self.held = self.read_event()?;
            }
            let Some(event) = self.held else { return Ok(None) };
            if event.time_ns > until_ns || events.len() >= most {
                return Ok(Some(event.time_ns));
            }
            self.held = None;
            events.push(event);
        }
    }

    /// As [`Self::run`] for events of the usual form that are in the buffer; `None` when there is something else.
    #[inline]
    fn usual_run(&mut self, until_ns: u64, most: usize, events: &mut Vec<BlockEvent>) -> Option<u64> {
        if self.order != Some(ByteOrder::Little) {
            return None;
        }
        let buffer = &self.buffer[..self.end];
        let mut at = self.start;
        let mut next_ns = None;
        // What is checked of each event is kept here, and not in `self`, for as long as nothing is remarkable.
        let mut latest = self.sequences.latest()?;
        let mut recorder = (latest.device.to_kernel(), latest.cpu);
        while let Some(header) = UsualHeader::of(&buffer[at..]) {
            let pdu = at + USUAL_BYTES;
            let end = pdu + header.pdu_bytes();
            let Some(pdu) = buffer.get(pdu..end) else { break };
            let time_ns = header.time_ns();
            if time_ns > until_ns || events.len() >= most {
                next_ns = Some(time_ns);
                break;
            }
            at = end;
            if recorder == header.recorder() && latest.is_before(header.sequence(), time_ns) {
                (latest.sequence, latest.time_ns) = (header.sequence(), time_ns);
            } else {
                latest = remark(&mut self.sequences, latest, header, &mut self.warnings);
                recorder = header.recorder();
            }
            // No function gets a reference to the event: otherwise it would be put together elsewhere first and then copied, and the
            // copying would wait for the parts.
            events.push(header.event());
            if header.has_data() {
                set_action(header.action_with_data(pdu), events, &mut self.warnings);
            }
        }
        self.sequences.resume(&latest);
        self.offset += (at - self.start) as u64;
        self.start = at;
        next_ns
    }

    fn read_event(&mut self) -> Result<Option<BlockEvent>, TraceError> {
        loop {
            let Some((order, version)) = self.find_record()? else { return Ok(None) };
            let header_bytes = version.header_bytes();
            if !self.fill(header_bytes)? {
                return Ok(self.end_unfinished());
            }
            let header = Header::decode(&self.buffer[self.start..self.end], order, version);
            let whole = header_bytes + usize::from(header.pdu_bytes);
            if !self.fill(whole)? {
                return Ok(self.end_unfinished());
            }
            let record = self.start..self.start + whole;
            self.start += whole;
            self.offset += whole as u64;
            if let Some(event) = self.understand(&header, order, record.start + header_bytes..record.end) {
                return Ok(Some(event));
            }
        }
    }

    fn understand(
        &mut self,
        header: &Header,
        order: ByteOrder,
        pdu: std::ops::Range<usize>,
    ) -> Option<BlockEvent> {
        match header.meaning(&self.buffer[pdu], order) {
            Meaning::Event(event) => {
                self.sequences.check(&event, &mut self.warnings);
                if let Action::Other(_) = event.action {
                    self.warnings.unknown_actions += 1;
                    return None;
                }
                return Some(event);
            }
            Meaning::Process { name } => {
                let name = name.split(|&b| b == 0).next().unwrap_or(&[]);
                self.names.insert(header.pid, &String::from_utf8_lossy(name));
            }
            Meaning::Clock { realtime_ns } => {
                self.clock.get_or_insert(ClockNote { time_ns: header.time_ns, realtime_ns });
            }
            Meaning::Message => self.warnings.messages += 1,
            Meaning::Remark => {}
        }
        None
    }

    /// Brings `start` to the next record and says its form; `None` at the end of the file.
    fn find_record(&mut self) -> Result<Option<(ByteOrder, Version)>, TraceError> {
        let skipped_before = self.warnings.skipped_bytes;
        loop {
            if !self.fill(4)? {
                self.end_unfinished();
                return Ok(None);
            }
            let word: [u8; 4] =
                self.buffer[self.start..self.start + 4].try_into().expect("four bytes are there");
            match (recognise(word), self.order) {
                (Some((order, version)), None) => {
                    self.order = Some(order);
                    return Ok(Some((order, version)));
                }
                (Some((order, version)), Some(before)) if order == before => {
                    return Ok(Some((order, version)));
                }
                (_, None) => return Err(self.not_blktrace(word)),
                _ => {
                    self.start += 1;
                    self.offset += 1;
                    self.warnings.skipped_bytes += 1;
                    let skipped = self.warnings.skipped_bytes - skipped_before;
                    if skipped > MOST_GARBAGE_BYTES {
                        let (path, offset) = (self.path.clone(), self.offset - skipped);
                        return Err(TraceError::Format { path, offset, reason: garbage("a record") });
                    }
                }
            }
        }
    }

    fn not_blktrace(&self, word: [u8; 4]) -> TraceError {
        let [a, b, c, d] = word;
        TraceError::Format {
            path: self.path.clone(),
            offset: self.offset,
            reason: format!(
                "not a blktrace file: it begins with {a:02x} {b:02x} {c:02x} {d:02x} instead of a record of version \
                 7 or 8; give the files that blktrace wrote (NAME.blktrace.0, …), not blkparse's output"
            ),
        }
    }

    /// Counts what is left as an unfinished record.
    fn end_unfinished(&mut self) -> Option<BlockEvent> {
        self.warnings.truncated_bytes += (self.end - self.start) as u64;
        self.offset += (self.end - self.start) as u64;
        self.start = self.end;
        None
    }

    /// Makes at least `wanted` unread bytes available unless the file ends before.
    fn fill(&mut self, wanted: usize) -> Result<bool, TraceError> {
        if self.end - self.start >= wanted {
            return Ok(true);
        }
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        if wanted > self.buffer.len() {
            self.buffer.resize(MOST_BUFFER_BYTES, 0);
        }
        while self.end < wanted {
            let free = &mut self.buffer[self.end..];
            match self.source.read(free) {
                Ok(0) => return Ok(false),
                Ok(read) => self.end += read,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(TraceError::io("read the trace", &self.path)(error)),
            }
        }
        Ok(true)
    }
}

/// Has an event judged that does not simply follow the latest one. Out of the way, so that what nearly all events need
/// stays in registers.
#[cold]
#[inline(never)]
fn remark(
    sequences: &mut SequenceCheck,
    latest: Latest,
    header: UsualHeader<'_>,
    warnings: &mut ReadWarnings,
) -> Latest {
    sequences.resume(&latest);
    sequences.check(&header.event(), warnings);
    sequences.latest().unwrap_or(latest)
}

/// Sets the action of the last event, or takes that back if the action is not known.
fn set_action(action: Action, events: &mut Vec<BlockEvent>, warnings: &mut ReadWarnings) {
    if let Action::Other(_) = action {
        warnings.unknown_actions += 1;
        events.pop();
    } else if let Some(last) = events.last_mut() {
        last.action = action;
    }
}
