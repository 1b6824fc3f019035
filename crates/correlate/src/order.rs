//! Requests in the order in which they were issued, from a stream in the order of completion.
//!
//! A request that is yet to be read was completed after those read so far, so it was issued at most one wait before.
//! With the few longest waits kept aside by the first reading, those that are still open to be overtaken are about as
//! many as were in flight at once.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use nestor_trace::Request;

use crate::input::RequestStream;
use crate::survey::{Survey, in_order};

/// Requests that are held at most. Only a stream that is far out of order needs more; then some come late.
const MOST_HELD: usize = 1 << 20;

pub(crate) struct Ordered<'a> {
    stream: RequestStream<'a>,
    /// By issue and position in the stream, with where they are held.
    waiting: BinaryHeap<Reverse<(u64, u64, u32)>>,
    held: Vec<Request>,
    free: Vec<u32>,
    /// Set aside by the first reading, the next one last.
    longest: Vec<Request>,
    /// Longer ones come from there.
    rest_wait_ns: u64,
    disorder_ns: u64,
    latest_ns: u64,
    read: u64,
    ended: bool,
    /// Most that were held at once.
    pub most_held: usize,
}

impl<'a> Ordered<'a> {
    /// Puts a stream into order that was surveyed before.
    pub fn new(stream: RequestStream<'a>, survey: &mut Survey) -> Self {
        let mut longest = std::mem::take(&mut survey.longest);
        longest.reverse();
        Self {
            stream,
            waiting: BinaryHeap::new(),
            held: Vec::new(),
            free: Vec::new(),
            longest,
            rest_wait_ns: survey.rest_wait_ns,
            disorder_ns: survey.disorder_ns,
            latest_ns: 0,
            read: 0,
            ended: false,
            most_held: 0,
        }
    }

    fn read_one(&mut self) {
        match self.stream.next() {
            Some(Ok(request)) => {
                let request = in_order(request);
                self.read += 1;
                self.latest_ns = self.latest_ns.max(request.completed_ns);
                if request.completed_ns - request.issued_ns <= self.rest_wait_ns {
                    self.hold(request);
                }
            }
            // The first reading met the error too and remarked on it.
            Some(Err(_)) | None => self.ended = true,
        }
    }

    fn hold(&mut self, request: Request) {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.held.push(request);
            (self.held.len() - 1) as u32
        });
        self.held[slot as usize] = request;
        self.waiting.push(Reverse((request.issued_ns, self.read, slot)));
        self.most_held = self.most_held.max(self.waiting.len());
    }
}

impl Iterator for Ordered<'_> {
    type Item = Request;

    fn next(&mut self) -> Option<Request> {
        loop {
            let settled_ns =
                self.latest_ns.saturating_sub(self.disorder_ns).saturating_sub(self.rest_wait_ns);
            let first = self.waiting.peek().map(|Reverse((issued_ns, ..))| *issued_ns);
            let ready = self.ended
                || first.is_some_and(|first| first < settled_ns)
                || self.waiting.len() >= MOST_HELD;
            if !ready {
                self.read_one();
                continue;
            }
            let aside = self.longest.last().map(|request| request.issued_ns);
            return match (first, aside) {
                (Some(first), Some(aside)) if aside <= first => self.longest.pop(),
                (None, Some(_)) => self.longest.pop(),
                (Some(_), _) => {
                    let Reverse((_, _, slot)) = self.waiting.pop()?;
                    self.free.push(slot);
                    Some(self.held[slot as usize])
                }
                (None, None) => None,
            };
        }
    }
}
