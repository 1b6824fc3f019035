//! Requests in, a profile out.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use nestor_statistics::LatencyHistogram;
use nestor_workload::profile::{Concurrency, LONGEST_THINK_MS, Profile, Rates, Requests};

use crate::blocks::Blocks;
use crate::sizes::Sizes;
use crate::span::Span;
use crate::streams::Streams;
use crate::threads::Threads;

/// Requests that may be under way at once for their order of beginning to be exact.
const REORDERED: usize = 8192;
/// Fewer requests tell no shares: of a hundred, a share of a half is known to ±10 %.
const FEWEST_REQUESTS: u64 = 100;
/// A shorter time tells no rates.
const SHORTEST_S: f64 = 1.0;
/// Seconds whose requests are counted one by one.
const MOST_SECONDS: usize = 7 * 24 * 3600;
/// Smaller shares change little.
const WORTH_SAYING: f64 = 0.05;
/// Of a clock that is too coarse to see any time pass; a profile's response is more than nothing.
const SHORTEST_RESPONSE_MS: f64 = 1e-3;
/// A load that comes in larger bursts is not one of workers that think.
const BURSTY: f64 = 10.0;

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Data from below.
    Read,
    /// Data to below; `waits` for the medium (FUA).
    Write {
        /// Whether it is on the medium when it ends.
        waits: bool,
    },
    /// Caches are to be written out.
    Flush,
}

/// One request, from the layer above handing it over to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// What it asks for.
    pub kind: Kind,
    /// When it came, in nanoseconds of any clock.
    pub start_ns: u64,
    /// When it was finished, on the same clock.
    pub end_ns: u64,
    /// Where, in bytes. Different devices have to be far from each other.
    pub offset: u64,
    /// How much.
    pub bytes: u64,
    /// Who asked.
    pub thread: u32,
}

/// Too little was seen for a profile.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum TooLittle {
    /// Nothing at all.
    #[error("no request arrived in {seconds:.0} s, so there is nothing to characterise")]
    Nothing {
        /// Seconds that were watched.
        seconds: f64,
    },
    /// Too few requests.
    #[error(
        "{requests} requests arrived in {seconds:.1} s; a profile needs at least {FEWEST_REQUESTS} in at \
         least {SHORTEST_S:.0} s"
    )]
    Few {
        /// How many there were.
        requests: u64,
        /// From the first to the last.
        seconds: f64,
    },
}

/// Start, end, offset, bytes and thread of a request, in the order of starts.
type Waiting = (u64, u64, u64, u64, u32);

/// Takes requests and keeps what a profile says of them.
pub struct Collector {
    /// What is not yet in order, by start.
    waiting: BinaryHeap<Reverse<Waiting>>,
    sizes: Sizes,
    streams: Streams,
    threads: Threads,
    blocks: Blocks,
    span: Span,
    latency: LatencyHistogram,
    by_second: Vec<u64>,
    reads: u64,
    writes: u64,
    waited_for: u64,
    bytes: u64,
    latency_ns: u128,
    first_ns: Option<u64>,
    last_ns: u64,
}

impl Default for Collector {
    fn default() -> Self {
        Self {
            waiting: BinaryHeap::new(),
            sizes: Sizes::default(),
            streams: Streams::default(),
            threads: Threads::default(),
            blocks: Blocks::new(),
            span: Span::default(),
            latency: LatencyHistogram::default(),
            by_second: Vec::new(),
            reads: 0,
            writes: 0,
            waited_for: 0,
            bytes: 0,
            latency_ns: 0,
            first_ns: None,
            last_ns: 0,
        }
    }
}

impl Collector {
    /// Takes a request; they come in the order in which they ended.
    pub fn add(&mut self, seen: &Seen) {
        let end_ns = seen.end_ns.max(seen.start_ns);
        self.first_ns = Some(self.first_ns.map_or(seen.start_ns, |first| first.min(seen.start_ns)));
        self.last_ns = self.last_ns.max(end_ns);
        match seen.kind {
            Kind::Flush => {
                self.waited_for += 1;
                return;
            }
            Kind::Read => self.reads += 1,
            Kind::Write { waits } => {
                self.writes += 1;
                self.waited_for += u64::from(waits);
            }
        }
        self.bytes = self.bytes.saturating_add(seen.bytes);
        self.latency_ns += u128::from(end_ns - seen.start_ns);
        self.latency.record_ns(end_ns - seen.start_ns);
        self.sizes.add(seen.bytes);
        self.blocks.touch(seen.offset, seen.bytes);
        self.span.add(seen.offset, seen.bytes);
        self.waiting.push(Reverse((seen.start_ns, end_ns, seen.offset, seen.bytes, seen.thread)));
        if self.waiting.len() > REORDERED {
            self.take_first();
        }
    }

    /// The request that began first, now that all before it are known.
    fn take_first(&mut self) {
        let Some(Reverse((start_ns, end_ns, offset, bytes, thread))) = self.waiting.pop() else { return };
        self.streams.add(offset, bytes);
        self.threads.add(thread, start_ns, end_ns);
        let second = (start_ns.saturating_sub(self.first_ns.unwrap_or(start_ns)) / 1_000_000_000) as usize;
        if second < MOST_SECONDS {
            if second >= self.by_second.len() {
                self.by_second.resize(second + 1, 0);
            }
            self.by_second[second] += 1;
        }
    }

    /// Requests with data so far.
    pub fn requests(&self) -> u64 {
        self.reads + self.writes
    }

    /// The profile of all that was taken; of `watched_s` seconds, or from the first request to the end of the last where
    /// the time that it was watched is not known.
    ///
    /// # Errors
    /// When too little was seen.
    pub fn finish(mut self, watched_s: Option<f64>) -> Result<Profile, TooLittle> {
        while !self.waiting.is_empty() {
            self.take_first();
        }
        let span_s = self.last_ns.saturating_sub(self.first_ns.unwrap_or_default()) as f64 / 1e9;
        let seconds = watched_s.unwrap_or(span_s);
        let requests = self.requests();
        if requests == 0 {
            return Err(TooLittle::Nothing { seconds });
        }
        if requests < FEWEST_REQUESTS || seconds < SHORTEST_S {
            return Err(TooLittle::Few { requests, seconds });
        }
        let mut profile = Profile {
            requests: self.kinds(),
            concurrency: self.who(seconds),
            rates: self.rates(seconds),
            ..Profile::default()
        };
        if profile.concurrency.burstiness > BURSTY {
            profile.remarks.push(format!(
                "requests came in bursts (variance over mean of the requests per second: {:.0}); the \
                 workers of a load that is run send them evenly",
                profile.concurrency.burstiness
            ));
        }
        profile.remarks.extend(left_out(&profile));
        Ok(profile)
    }

    fn kinds(&mut self) -> Requests {
        let requests = self.requests() as f64;
        Requests {
            read_share: self.reads as f64 / requests,
            random_share: self.streams.random_share(),
            mean_bytes: self.bytes as f64 / requests,
            sizes: self.sizes.shares(),
            flush_share: (self.waited_for as f64 / self.writes.max(1) as f64).min(1.0),
            working_set_bytes: self.blocks.bytes(),
            span_bytes: std::mem::take(&mut self.span).bytes(),
        }
    }

    fn rates(&self, seconds: f64) -> Rates {
        let requests = self.requests() as f64;
        Rates {
            seconds,
            requests_per_s: requests / seconds,
            bytes_per_s: self.bytes as f64 / seconds,
            // A trace whose clock is coarse has requests that take no time at all.
            response_ms: (self.latency_ns as f64 / requests / 1e6).max(SHORTEST_RESPONSE_MS),
            response_p99_ms: self.latency.summary().map(|summary| summary.p99_ns as f64 / 1e6),
            application_per_s: None,
        }
    }

    /// Workers and their think time, so that a closed load has the rate that was seen: X = W / (Z + R) (§5.2 of the ESX study
    /// varies Z until the rate is met).
    fn who(&self, seconds: f64) -> Concurrency {
        let requests = self.requests() as f64;
        let response_s = self.latency_ns as f64 / requests / 1e9;
        // Threads that come by once in a while are no workers that think for minutes: fewer workers have the same rate.
        let most = (requests * (LONGEST_THINK_MS / 1e3 + response_s) / seconds).floor().max(1.0);
        let workers = self.threads.workers().min(most as u32);
        let think_s = (f64::from(workers) * seconds / requests - response_s).max(0.0);
        Concurrency {
            workers,
            think_ms: (think_s * 1e3).min(LONGEST_THINK_MS),
            outstanding: self.latency_ns as f64 / 1e9 / seconds,
            burstiness: dispersion(&self.by_second).unwrap_or(1.0),
        }
    }
}

/// What a load of the profile that is run does not do as the application did.
fn left_out(profile: &Profile) -> Vec<String> {
    let (requests, who) = (&profile.requests, &profile.concurrency);
    let mut remarks = Vec::new();
    if requests.flush_share > WORTH_SAYING {
        remarks.push(format!(
            "{:.0} % of the writes waited for the medium or were flushed; a load that is run does not flush \
             and is therefore faster",
            requests.flush_share * 100.0
        ));
    }
    if who.workers > 1 && requests.random_share < 1.0 - WORTH_SAYING {
        remarks.push(
            "requests that are not random continue where their worker's last request ended; each worker of \
             a load that is run begins at the start of the file, so a cache may answer the others"
                .to_owned(),
        );
    }
    if profile.model_workers() < who.workers {
        remarks.push(format!(
            "{} workers send requests; a load that is run has only {} workers and part of the rate",
            who.workers,
            profile.model_workers()
        ));
    }
    remarks
}

/// Variance over mean; `None` below three seconds. The last second is only a part of one.
fn dispersion(by_second: &[u64]) -> Option<f64> {
    let whole = &by_second[..by_second.len().checked_sub(1)?];
    if whole.len() < 2 {
        return None;
    }
    let mean = whole.iter().sum::<u64>() as f64 / whole.len() as f64;
    let squares: f64 = whole.iter().map(|count| (*count as f64 - mean).powi(2)).sum();
    (mean > 0.0).then(|| squares / (whole.len() - 1) as f64 / mean)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MS: u64 = 1_000_000;

    fn read(thread: u32, start_ms: u64, end_ms: u64, offset: u64) -> Seen {
        Seen { kind: Kind::Read, start_ns: start_ms * MS, end_ns: end_ms * MS, offset, bytes: 8192, thread }
    }

    fn profile(requests: impl IntoIterator<Item = Seen>) -> Profile {
        let mut requests: Vec<Seen> = requests.into_iter().collect();
        requests.sort_by_key(|r| r.end_ns);
        let mut collector = Collector::default();
        requests.iter().for_each(|request| collector.add(request));
        collector.finish(None).unwrap()
    }

    /// Ten threads, each 12 ms for a request and 50 ms for itself, for two seconds.
    fn thinkers() -> Vec<Seen> {
        let requests_of = |thread: u32| {
            (0..32_u64).map(move |i| {
                let start = i * 62 + u64::from(thread);
                // Far from any other request's end.
                read(thread, start, start + 12, (i * 10 + u64::from(thread)) * 1_000_003)
            })
        };
        (0..10).flat_map(requests_of).collect()
    }

    #[test]
    fn workers_that_think_are_found_again() {
        let found = profile(thinkers());
        assert_eq!(found.concurrency.workers, 10);
        assert!((found.concurrency.think_ms - 50.0).abs() < 1.5, "{:?}", found.concurrency);
        assert!((found.rates.response_ms - 12.0).abs() < 1e-9);
        assert_eq!((found.requests.read_share, found.requests.random_share), (1.0, 1.0));
        let little = found.rates.requests_per_s * found.rates.response_ms / 1e3;
        assert!((found.concurrency.outstanding - little).abs() < 1e-9);
    }

    #[test]
    fn one_thread_with_many_requests_is_as_many_workers() {
        let found = profile((0..2000_u64).map(|i| read(7, i, i + 16, i * 8192)));
        assert_eq!(found.concurrency.workers, 16);
        assert!(found.concurrency.think_ms < 0.2, "{:?}", found.concurrency);
        assert_eq!(found.requests.random_share, 0.0);
        assert_eq!(found.requests.working_set_bytes, 2000 * 8192);
    }

    #[test]
    fn streams_side_by_side_are_sequential_and_sizes_are_counted() {
        let found = profile((0..1000_u64).map(|i| Seen {
            kind: if i % 4 == 0 { Kind::Write { waits: i % 8 == 0 } } else { Kind::Read },
            bytes: if i % 10 == 0 { 4096 } else { 8192 },
            ..read(1, i * 2, i * 2 + 1, (i % 8) * (1 << 30) + (i / 8) * 8192)
        }));
        assert!(found.requests.random_share < 0.13, "{:?}", found.requests);
        assert!((found.requests.read_share - 0.75).abs() < 1e-9);
        assert!((found.requests.flush_share - 0.5).abs() < 1e-9);
        let sizes: Vec<(u64, f64)> = found.requests.sizes.iter().map(|s| (s.bytes, s.share)).collect();
        assert_eq!(sizes, [(8192, 0.9), (4096, 0.1)]);
    }

    #[test]
    fn bursts_are_told() {
        let found = profile(
            (0..3000_u64)
                .map(|i| read(1, (i / 300) * 3000 + i % 300, (i / 300) * 3000 + i % 300 + 1, i << 20)),
        );
        assert!(found.concurrency.burstiness > BURSTY);
        assert_eq!(found.remarks.len(), 1);
        assert!(profile(thinkers()).concurrency.burstiness <= 1.0);
    }

    #[test]
    fn too_little_is_said() {
        let empty = Collector::default().finish(Some(60.0)).unwrap_err();
        assert_eq!(empty.to_string(), "no request arrived in 60 s, so there is nothing to characterise");
        let mut collector = Collector::default();
        (0..50).for_each(|i| collector.add(&read(1, i * 100, i * 100 + 1, 0)));
        let few = collector.finish(None).unwrap_err();
        assert_eq!(
            few.to_string(),
            "50 requests arrived in 4.9 s; a profile needs at least 100 in at least 1 s"
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn a_closed_load_of_the_profile_has_its_rate(
            workers in 1_u32..30,
            think_ms in 0_u64..100,
            response_ms in 1_u64..40,
        ) {
            let rounds = 4000 / (think_ms + response_ms) + 200 / u64::from(workers) + 1;
            let requests_of = |thread: u32| {
                (0..rounds).map(move |i| {
                    let start = i * (think_ms + response_ms);
                    read(thread, start, start + response_ms, (i * 31 + u64::from(thread)) << 24)
                })
            };
            let found = profile((0..workers).flat_map(requests_of));
            prop_assert_eq!(found.concurrency.workers, workers);
            let c = &found.concurrency;
            let rate = f64::from(c.workers) / (c.think_ms + found.rates.response_ms) * 1e3;
            prop_assert!((rate / found.rates.requests_per_s - 1.0).abs() < 1e-6);
            prop_assert!((c.think_ms - think_ms as f64).abs() <= 0.1 * (think_ms + response_ms) as f64 + 0.1);
        }
    }
}
