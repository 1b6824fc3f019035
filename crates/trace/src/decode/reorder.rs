//! Events that come a little out of order, put into order.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::blktrace::MergedReader;
use super::{ClockNote, EventSource, ReadWarnings};
use crate::error::TraceError;
use crate::event::BlockEvent;

/// How many events and requests are looked at before the earliest is given out.
pub(super) const WINDOW: usize = 1 << 16;

/// The earliest of a number of last things; in constant time if they come in order.
pub(super) struct Window<T> {
    size: usize,
    /// In order.
    queue: VecDeque<(u64, T)>,
    /// Those that came too late for that: by time, then by arrival.
    late: BinaryHeap<Late<T>>,
    arrivals: u64,
}

struct Late<T> {
    key: Reverse<(u64, u64)>,
    value: T,
}

impl<T> PartialEq for Late<T> {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl<T> Eq for Late<T> {}

impl<T> PartialOrd for Late<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Late<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key.cmp(&other.key)
    }
}

impl<T> Window<T> {
    pub fn new(size: usize) -> Self {
        Self { size, queue: VecDeque::new(), late: BinaryHeap::new(), arrivals: 0 }
    }

    pub fn is_full(&self) -> bool {
        self.queue.len() + self.late.len() >= self.size
    }

    pub fn push(&mut self, time_ns: u64, value: T) {
        if self.queue.back().is_none_or(|(last, _)| *last <= time_ns) {
            self.queue.push_back((time_ns, value));
        } else {
            self.arrivals += 1;
            self.late.push(Late { key: Reverse((time_ns, self.arrivals)), value });
        }
    }

    /// The earliest.
    pub fn pop(&mut self) -> Option<T> {
        let late_first = match (self.queue.front(), self.late.peek()) {
            (Some((time_ns, _)), Some(late)) => late.key.0.0 < *time_ns,
            (None, late) => late.is_some(),
            (Some(_), None) => false,
        };
        if late_first { self.late.pop().map(|l| l.value) } else { self.queue.pop_front().map(|(_, v)| v) }
    }
}

/// Events of several CPUs from one file, in the order of time as far as the window reaches.
pub(super) struct InOrder<S> {
    source: S,
    window: Window<BlockEvent>,
    ended: bool,
    last_ns: u64,
    out_of_order: u64,
}

impl<S: EventSource> InOrder<S> {
    pub fn new(source: S) -> Self {
        Self { source, window: Window::new(WINDOW), ended: false, last_ns: 0, out_of_order: 0 }
    }
}

impl<S: EventSource> EventSource for InOrder<S> {
    fn next_event(&mut self) -> Result<Option<BlockEvent>, TraceError> {
        while !self.ended && !self.window.is_full() {
            match self.source.next_event()? {
                Some(event) => self.window.push(event.time_ns, event),
                None => self.ended = true,
            }
        }
        let event = self.window.pop();
        if let Some(event) = &event {
            self.out_of_order += u64::from(event.time_ns < self.last_ns);
            self.last_ns = event.time_ns;
        }
        Ok(event)
    }

    fn warnings(&self) -> ReadWarnings {
        // What the source calls out of order has mostly been put into order since.
        ReadWarnings { out_of_order: self.out_of_order, ..self.source.warnings() }
    }

    fn lost_events(&self) -> u64 {
        self.source.lost_events()
    }

    fn clock(&self) -> Option<ClockNote> {
        self.source.clock()
    }

    fn thread_name(&self, pid: u32) -> Option<&str> {
        self.source.thread_name(pid)
    }
}

impl<R: std::io::Read + Send> EventSource for MergedReader<R> {
    fn next_event(&mut self) -> Result<Option<BlockEvent>, TraceError> {
        MergedReader::next_event(self)
    }

    fn next_events(&mut self, most: usize, events: &mut Vec<BlockEvent>) -> Result<bool, TraceError> {
        MergedReader::next_events(self, most, events)
    }

    fn warnings(&self) -> ReadWarnings {
        MergedReader::warnings(self)
    }

    fn clock(&self) -> Option<ClockNote> {
        MergedReader::clock(self)
    }

    fn thread_name(&self, pid: u32) -> Option<&str> {
        MergedReader::thread_name(self, pid)
    }
}
