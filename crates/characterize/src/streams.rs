//! Which requests go on where an earlier one ended.

use std::collections::VecDeque;

/// Ends that are remembered: as many sequential streams side by side are told from chance.
const STREAMS: usize = 64;

/// The ends of the last requests.
#[derive(Default)]
pub(crate) struct Streams {
    ends: VecDeque<u64>,
    requests: u64,
    continued: u64,
}

impl Streams {
    /// Takes requests in the order in which they began.
    pub(crate) fn add(&mut self, offset: u64, bytes: u64) {
        self.requests += 1;
        // A stream that goes on keeps its place: what it had is of no more use.
        match self.ends.iter().position(|end| *end == offset) {
            Some(at) => {
                self.continued += 1;
                self.ends.remove(at);
            }
            None if self.ends.len() == STREAMS => {
                self.ends.pop_front();
            }
            None => {}
        }
        self.ends.push_back(offset.saturating_add(bytes));
    }

    /// Share of requests that began somewhere else.
    pub(crate) fn random_share(&self) -> f64 {
        // The first request cannot go on anywhere; it says nothing.
        let told = self.requests.saturating_sub(1).max(1);
        (self.requests.saturating_sub(1) - self.continued.min(self.requests.saturating_sub(1))) as f64
            / told as f64
    }
}
