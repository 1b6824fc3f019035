//! Who asks: threads with one request at a time, or with many.

use std::collections::HashMap;

/// More threads than these are counted as one.
const MOST_THREADS: usize = 1 << 16;
/// A thread with a smaller share of the requests is no worker of its own.
const SMALLEST_SHARE: f64 = 0.002;

/// What is known of one thread; times in nanoseconds.
#[derive(Clone, Copy, Default)]
struct Thread {
    requests: u64,
    /// Time of all its requests, each from its start to its end.
    request_ns: u64,
    /// Time in which it had at least one.
    busy_ns: u64,
    busy_until_ns: u64,
}

/// The threads that asked.
#[derive(Default)]
pub(crate) struct Threads {
    threads: HashMap<u32, Thread>,
    requests: u64,
}

impl Threads {
    /// Takes requests in the order in which they began.
    pub(crate) fn add(&mut self, thread: u32, start_ns: u64, end_ns: u64) {
        self.requests += 1;
        let known = self.threads.contains_key(&thread) || self.threads.len() < MOST_THREADS;
        let counts = self.threads.entry(if known { thread } else { u32::MAX }).or_default();
        counts.requests += 1;
        counts.request_ns += end_ns.saturating_sub(start_ns);
        let from = start_ns.max(counts.busy_until_ns);
        counts.busy_ns += end_ns.saturating_sub(from);
        counts.busy_until_ns = counts.busy_until_ns.max(end_ns);
    }

    /// Workers with one request at a time that would ask alike: a thread that keeps so many requests under way, while it has
    /// any, is as many workers.
    pub(crate) fn workers(&self) -> u32 {
        let depth_of = |thread: &Thread| {
            let depth = thread.request_ns as f64 / (thread.busy_ns.max(1)) as f64;
            depth.round().max(1.0) as u64
        };
        let least = (self.requests as f64 * SMALLEST_SHARE).max(1.0);
        let workers: u64 = self.threads.values().filter(|t| t.requests as f64 >= least).map(depth_of).sum();
        u32::try_from(workers.max(1)).unwrap_or(u32::MAX)
    }
}
