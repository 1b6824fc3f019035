//! Requests in the order in which they were finished.

use super::TracedRequest;
use super::reorder::{WINDOW, Window};
use crate::error::TraceError;

/// Numbers requests in the order of completion, as far as the window reaches.
pub(super) struct ByCompletion {
    window: Window<TracedRequest>,
    ended: bool,
    count: u64,
    last_ns: u64,
    out_of_order: u64,
}

impl ByCompletion {
    pub fn new() -> Self {
        Self { window: Window::new(WINDOW), ended: false, count: 0, last_ns: 0, out_of_order: 0 }
    }

    /// The next of what `read` gives.
    pub fn next(
        &mut self,
        mut read: impl FnMut() -> Result<Option<TracedRequest>, TraceError>,
    ) -> Result<Option<TracedRequest>, TraceError> {
        while !self.ended && !self.window.is_full() {
            match read()? {
                Some(request) => self.window.push(request.request.completed_ns, request),
                None => self.ended = true,
            }
        }
        let Some(mut next) = self.window.pop() else { return Ok(None) };
        next.request.id = self.count;
        self.count += 1;
        self.out_of_order += u64::from(next.request.completed_ns < self.last_ns);
        self.last_ns = next.request.completed_ns;
        Ok(Some(next))
    }

    /// Requests that were finished before the one given out before them.
    pub fn out_of_order(&self) -> u64 {
        self.out_of_order
    }
}
