//! What a trace yields, whatever form it has.

use super::{ClockNote, QemuEvent, ReadWarnings, VscsiHistogram};
use crate::error::TraceError;
use crate::event::BlockEvent;
use crate::request::Request;

/// A trace by what it yields.
pub enum Source {
    /// What happened in the block layer.
    BlockEvents(Box<dyn EventSource>),
    /// Requests, one record each.
    Requests(Box<dyn RequestSource>),
    /// Distributions that another program has counted, of all disks in the file.
    Histograms(Vec<VscsiHistogram>),
    /// What happened in QEMU.
    Qemu(Box<dyn QemuSource>),
}

/// Yields events of the block layer in the order of time, in constant memory.
pub trait EventSource: Send {
    /// The next event, or `None` at the end.
    ///
    /// # Errors
    /// The trace cannot be read or is not what it began as.
    fn next_event(&mut self) -> Result<Option<BlockEvent>, TraceError>;

    /// Replaces `events` by the next ones, `most` at most; says whether there were any. Cheaper than one call per event.
    ///
    /// # Errors
    /// As [`EventSource::next_event`]; the events before the error are in `events`.
    fn next_events(&mut self, most: usize, events: &mut Vec<BlockEvent>) -> Result<bool, TraceError> {
        events.clear();
        while events.len() < most {
            match self.next_event()? {
                Some(event) => events.push(event),
                None => break,
            }
        }
        Ok(!events.is_empty())
    }

    /// What was odd so far.
    fn warnings(&self) -> ReadWarnings;

    /// Events that the trace itself says were lost.
    fn lost_events(&self) -> u64 {
        0
    }

    /// The wall clock at one instant of the trace, if that was read.
    fn clock(&self) -> Option<ClockNote> {
        None
    }

    /// The name of a thread, as far as read: complete after the last event.
    fn thread_name(&self, _pid: u32) -> Option<&str> {
        None
    }
}

/// A request of a disk or file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TracedRequest {
    /// Which disk or file: [`RequestSource::target`] has its name.
    pub target: u32,
    /// The request. Its number counts the requests of the whole source.
    pub request: Request,
}

/// What records of requests contain besides operation, offset and size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// When requests came. Without it, all times are 0 or those of waits between requests.
    pub time: bool,
    /// How long they took. Without it, they end when they come.
    pub latency: bool,
    /// Where on the disk they were. Without it, all offsets are 0.
    pub offset: bool,
}

/// Yields requests in constant memory, in the order of completion as far as a window of 65,536 requests can bring it
/// about.
pub trait RequestSource: Send {
    /// The next request, or `None` at the end.
    ///
    /// # Errors
    /// The trace cannot be read or is not what it began as.
    fn next_request(&mut self) -> Result<Option<TracedRequest>, TraceError>;

    /// The disks or files met so far; [`TracedRequest::target`] is the position.
    fn targets(&self) -> &[String];

    /// What the records contain.
    fn recorded(&self) -> Recorded;

    /// What was odd so far.
    fn warnings(&self) -> ReadWarnings;
}

/// Which clock the times of a trace are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// `CLOCK_MONOTONIC`, as the kernel's traces.
    Monotonic,
    /// `CLOCK_REALTIME`.
    Realtime,
    /// The trace has no times.
    None,
}

/// Yields QEMU's trace events in the order of the file, in constant memory.
pub trait QemuSource: Send {
    /// The next event, or `None` at the end.
    ///
    /// # Errors
    /// The trace cannot be read or is not what it began as.
    fn next_event(&mut self) -> Result<Option<QemuEvent>, TraceError>;

    /// Which clock the times are of; of a log known after its first event.
    fn clock(&self) -> Clock;

    /// Events that the trace itself says were lost.
    fn lost_events(&self) -> u64;

    /// What was odd so far.
    fn warnings(&self) -> ReadWarnings;
}
