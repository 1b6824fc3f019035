//! Counting operations and their latencies, by all threads at once.

use std::sync::atomic::{AtomicU64, Ordering};

use nestor_statistics::{HIGHEST_LATENCY_NS, LatencyHistogram};

/// Latencies are told apart to 1 part in 1024 at least: three significant digits, as in [`LatencyHistogram`].
const SUB_BUCKET_BITS: u32 = 11;
const HALF: usize = 1 << (SUB_BUCKET_BITS - 1);
/// Buckets of a histogram up to [`HIGHEST_LATENCY_NS`].
const BUCKETS: usize = (HIGHEST_LATENCY_NS.ilog2() - SUB_BUCKET_BITS + 3) as usize * HALF;

/// Counters of one flowop.
///
/// Several threads share each shard, so a count is one atomic addition; shards keep processors off each other's cache
/// lines. A shard takes 250 KB of address space, of which only what is counted in becomes memory.
pub(crate) struct Recorder {
    shards: Vec<Shard>,
}

struct Shard {
    counts: Vec<AtomicU64>,
    /// Apart from the counts, which are far away in memory: written with every operation.
    bytes: AtomicU64,
    total_ns: AtomicU64,
}

impl Recorder {
    pub(crate) fn new(shards: usize) -> Self {
        let shard =
            |_| Shard { counts: zeroed(BUCKETS), bytes: AtomicU64::new(0), total_ns: AtomicU64::new(0) };
        Self { shards: (0..shards.max(1)).map(shard).collect() }
    }

    /// Counts one operation.
    #[inline]
    pub(crate) fn record(&self, thread: usize, latency_ns: u64, bytes: u64) {
        let shard = &self.shards[thread % self.shards.len()];
        shard.counts[bucket_of(latency_ns)].fetch_add(1, Ordering::Relaxed);
        shard.total_ns.fetch_add(latency_ns, Ordering::Relaxed);
        if bytes > 0 {
            shard.bytes.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    /// Bytes moved so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.shards.iter().map(|shard| shard.bytes.load(Ordering::Relaxed)).sum()
    }

    /// Sum of all latencies so far.
    pub(crate) fn total_ns(&self) -> u64 {
        self.shards.iter().map(|shard| shard.total_ns.load(Ordering::Relaxed)).sum()
    }

    /// All latencies so far.
    pub(crate) fn histogram(&self) -> LatencyHistogram {
        let mut histogram = LatencyHistogram::default();
        for shard in &self.shards {
            for (bucket, count) in shard.counts.iter().enumerate() {
                let count = count.load(Ordering::Relaxed);
                if count > 0 {
                    histogram.record_many_ns(lowest_of(bucket), count);
                }
            }
        }
        histogram
    }
}

/// Memory that the kernel gives when it is first touched.
fn zeroed(length: usize) -> Vec<AtomicU64> {
    let zeros: Vec<u64> = vec![0; length];
    let mut zeros = std::mem::ManuallyDrop::new(zeros);
    // SAFETY: AtomicU64 has the size, alignment and bit validity of u64, and the vector is not used again.
    unsafe { Vec::from_raw_parts(zeros.as_mut_ptr().cast(), zeros.len(), zeros.capacity()) }
}

/// The buckets of HdrHistogram: linear below 2048 ns, then 1024 for each doubling.
#[inline]
fn bucket_of(latency_ns: u64) -> usize {
    let value = latency_ns.clamp(1, HIGHEST_LATENCY_NS);
    let shift = (64 - value.leading_zeros()).saturating_sub(SUB_BUCKET_BITS);
    shift as usize * HALF + (value >> shift) as usize
}

/// The smallest latency of a bucket; the same in [`LatencyHistogram`], whose buckets are these.
fn lowest_of(bucket: usize) -> u64 {
    let shift = (bucket / HALF).saturating_sub(1);
    ((bucket - shift * HALF) as u64) << shift
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_bucket_holds_what_is_near(latency_ns in 1..=HIGHEST_LATENCY_NS) {
            let bucket = bucket_of(latency_ns);
            prop_assert!(bucket < BUCKETS);
            let lowest = lowest_of(bucket);
            prop_assert!(lowest <= latency_ns && latency_ns - lowest <= latency_ns / 1024);
            prop_assert_eq!(bucket_of(lowest), bucket);
        }

        #[test]
        fn shards_add_up_to_the_same_histogram(latencies in prop::collection::vec(1u64..1 << 36, 1..200)) {
            let recorder = Recorder::new(3);
            let mut expected = LatencyHistogram::default();
            for (thread, &latency) in latencies.iter().enumerate() {
                recorder.record(thread, latency, 10);
                expected.record_ns(latency);
            }
            let histogram = recorder.histogram();
            prop_assert_eq!(histogram.count(), expected.count());
            for quantile in [0.0, 0.5, 0.99, 1.0] {
                prop_assert_eq!(histogram.quantile_ns(quantile), expected.quantile_ns(quantile));
            }
            prop_assert_eq!(recorder.bytes(), 10 * latencies.len() as u64);
        }
    }

    #[test]
    fn what_lies_outside_is_counted_at_the_ends() {
        let recorder = Recorder::new(1);
        recorder.record(0, 0, 0);
        recorder.record(0, u64::MAX, 0);
        assert_eq!(recorder.histogram().count(), 2);
    }
}
