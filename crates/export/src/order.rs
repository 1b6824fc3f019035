//! Requests in the order in which they began, out of the order in which they ended.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use nestor_trace::{Request, TraceError};

use crate::error::ExportError;

/// How many requests are held at most: 2^22, a third of a GiB. Only a request that took minutes makes as many wait.
const MOST_HELD: usize = 1 << 22;

/// What a first reading found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Scan {
    pub requests: u64,
    /// Longest time from a request's begin to the latest end known when it is read. After a request that ended at `t`
    /// none can follow that began before `t - lag_ns`; this holds whatever order the source has.
    pub lag_ns: u64,
}

impl Scan {
    pub(crate) fn of(
        requests: impl Iterator<Item = Result<Request, TraceError>>,
    ) -> Result<Self, TraceError> {
        let (mut scan, mut latest_end) = (Self::default(), 0);
        for request in requests {
            let request = request?;
            latest_end = request.completed_ns.max(latest_end);
            scan.requests += 1;
            scan.lag_ns = scan.lag_ns.max(latest_end - request.queued_ns);
        }
        Ok(scan)
    }
}

/// A request in the order of its begin; of two that begin together the one that was read first comes first.
struct Waiting(Request, u64);

impl Waiting {
    fn key(&self) -> (u64, u64) {
        (self.0.queued_ns, self.1)
    }
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Waiting {}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Waiting {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

/// Hands every request to `each` in the order of their begins.
pub(crate) fn by_begin(
    requests: impl Iterator<Item = Result<Request, TraceError>>,
    scan: Scan,
    layer: &str,
    mut each: impl FnMut(Request) -> Result<(), ExportError>,
) -> Result<(), ExportError> {
    let mut waiting: BinaryHeap<Reverse<Waiting>> = BinaryHeap::new();
    let mut latest_end = 0;
    for (number, request) in requests.enumerate() {
        let request = request?;
        latest_end = request.completed_ns.max(latest_end);
        waiting.push(Reverse(Waiting(request, number as u64)));
        while waiting
            .peek()
            .is_some_and(|Reverse(first)| first.0.queued_ns < latest_end.saturating_sub(scan.lag_ns))
        {
            if let Some(Reverse(first)) = waiting.pop() {
                each(first.0)?;
            }
        }
        if waiting.len() > MOST_HELD {
            return Err(ExportError::TooManyAtOnce {
                layer: layer.to_owned(),
                limit: MOST_HELD,
                longest_s: scan.lag_ns as f64 / 1e9,
            });
        }
    }
    while let Some(Reverse(first)) = waiting.pop() {
        each(first.0)?;
    }
    Ok(())
}
