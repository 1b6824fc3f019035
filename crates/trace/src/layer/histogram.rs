//! Histograms for counting an event at a time.
//!
//! The buckets are those of an HDR histogram (G. Tene, HdrHistogram): the values of each power of two are divided
//! into equally wide parts, 1024 of them for three significant digits. A value's bucket is found by counting
//! leading zeros, and nothing is checked or moved as values come in. What is exact (count, sum, minimum, maximum)
//! is kept beside the buckets.

use nestor_statistics::{LatencyHistogram, LatencySummary};

use crate::metrics::BttInterval;

/// Parts of a power of two, as a power of two: three significant digits.
const FINE: u32 = 10;
/// The same for the many histograms of processes: 1.6 %.
const COARSE: u32 = 5;

/// Values beyond the last bucket are counted as [`HIGHEST`], as [`LatencyHistogram`] does.
const BEYOND: u64 = 1 << 41;
const HIGHEST: u64 = 1 << 40;

/// Bucket of a value.
fn bucket<const PARTS: u32>(value: u64) -> usize {
    let value = if value < BEYOND { value } else { HIGHEST };
    let shift = (u64::BITS - (value | ((2 << PARTS) - 1)).leading_zeros()) - (PARTS + 1);
    ((shift as usize) << PARTS) + (value >> shift) as usize
}

/// Lowest and highest value of a bucket.
fn bounds<const PARTS: u32>(bucket: usize) -> (u64, u64) {
    let shift = (bucket >> PARTS).saturating_sub(1) as u32;
    let low = ((bucket - ((shift as usize) << PARTS)) as u64) << shift;
    (low, low + (1 << shift) - 1)
}

/// How many buckets there are.
const fn buckets(parts: u32) -> usize {
    ((41 - parts as usize - 1) << parts) + (2 << parts)
}

/// Count, sum, minimum and maximum.
#[derive(Clone, Copy, Debug)]
pub(super) struct Exact {
    count: u64,
    total: u64,
    min: u64,
    max: u64,
}

impl Default for Exact {
    fn default() -> Self {
        Self { count: 0, total: 0, min: u64::MAX, max: 0 }
    }
}

impl Exact {
    #[inline]
    pub fn record(&mut self, value: u64) {
        self.count += 1;
        self.total = self.total.saturating_add(value);
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }

    fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.total = self.total.saturating_add(other.total);
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    pub fn interval(&self) -> BttInterval {
        let min_ns = if self.count == 0 { 0 } else { self.min };
        BttInterval { count: self.count, min_ns, max_ns: self.max, total_ns: self.total }
    }

    fn mean(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.total as f64 / self.count as f64 }
    }
}

/// Three significant digits. Memory is taken up as buckets are touched, 128 KiB at most.
#[derive(Clone, Debug, Default)]
pub(super) struct Histogram {
    exact: Exact,
    /// Empty until the first value. Counts stop at their highest, which takes four thousand million equal values.
    counts: Vec<u32>,
}

impl Histogram {
    /// Counts values. Of many at once the processor looks for the counters all together.
    pub fn record_all(&mut self, values: &[u64]) {
        if self.counts.is_empty() && !values.is_empty() {
            self.counts = vec![0; buckets(FINE)];
        }
        let mut exact = self.exact;
        for &value in values {
            exact.record(value);
            let count = &mut self.counts[bucket::<FINE>(value)];
            *count = count.saturating_add(1);
        }
        self.exact = exact;
    }

    pub fn merge(&mut self, other: &Self) {
        self.exact.merge(&other.exact);
        if self.counts.is_empty() {
            self.counts.clone_from(&other.counts);
            return;
        }
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count = count.saturating_add(*more);
        }
    }

    pub fn exact(&self) -> &Exact {
        &self.exact
    }

    pub fn count(&self) -> u64 {
        self.exact.count
    }

    pub fn mean(&self) -> f64 {
        self.exact.mean()
    }

    /// The highest value of the bucket that `quantile` (0 to 1) of the values do not exceed.
    pub fn quantile(&self, quantile: f64) -> u64 {
        quantile_of(&self.counts, &self.exact, quantile, bounds::<FINE>)
    }

    /// [`Self::quantile`] of 0, 1/`steps`, 2/`steps`, … 1, in one pass.
    pub fn quantiles(&self, steps: usize) -> Vec<u64> {
        let (mut bucket, mut sum) = (0, 0);
        let each = (0..=steps).map(|step| {
            let wanted = rank(&self.exact, step as f64 / steps as f64);
            while sum < wanted && bucket < self.counts.len() {
                sum += u64::from(self.counts[bucket]);
                bucket += 1;
            }
            if sum < wanted {
                return self.exact.max;
            }
            bounds::<FINE>(bucket - 1).1.clamp(self.exact.min, self.exact.max)
        });
        each.collect()
    }

    /// `None` without values. In little memory, because results are kept.
    pub fn latencies(&self) -> Option<LatencyHistogram> {
        if self.exact.count == 0 {
            return None;
        }
        let mut latencies = LatencyHistogram::default();
        for (bucket, &count) in self.counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            latencies.record_many_ns(bounds::<FINE>(bucket).0, u64::from(count));
        }
        Some(latencies.compacted())
    }
}

/// Values that wait to be counted together.
pub(super) const ROW: usize = 32;

/// A [`Histogram`] in the making.
#[derive(Debug, Default)]
pub(super) struct Tally {
    waiting: [u64; ROW],
    count: usize,
    histogram: Histogram,
}

impl Tally {
    #[inline(always)]
    pub fn record(&mut self, value: u64) {
        self.waiting[self.count % ROW] = value;
        self.count += 1;
        if self.count == ROW {
            self.flush();
        }
    }

    /// Counts a value in what is exact only.
    #[inline(always)]
    pub fn record_exact(&mut self, value: u64) {
        self.histogram.exact.record(value);
    }

    /// Adds values that were counted elsewhere to what is exact.
    pub fn merge_exact(&mut self, other: &Exact) {
        self.histogram.exact.merge(other);
    }

    #[inline(never)]
    fn flush(&mut self) {
        self.histogram.record_all(&self.waiting[..self.count]);
        self.count = 0;
    }

    pub fn finish(mut self) -> Histogram {
        self.flush();
        self.histogram
    }
}

/// Which value from the least on is the quantile.
fn rank(exact: &Exact, quantile: f64) -> u64 {
    ((exact.count as f64 * quantile).ceil() as u64).max(1)
}

/// The bucket's upper end, but for the largest and smallest value the exact one.
fn quantile_of(counts: &[u32], exact: &Exact, quantile: f64, bounds: impl Fn(usize) -> (u64, u64)) -> u64 {
    let wanted = rank(exact, quantile);
    let mut sum = 0;
    for (bucket, &count) in counts.iter().enumerate() {
        sum += u64::from(count);
        if sum >= wanted {
            return bounds(bucket).1.clamp(exact.min, exact.max);
        }
    }
    exact.max
}

/// 1.6 %, in 128 bytes for each power of two up to the largest value.
#[derive(Clone, Debug, Default)]
pub(super) struct CoarseHistogram {
    exact: Exact,
    counts: Vec<u32>,
}

impl CoarseHistogram {
    #[inline(always)]
    pub fn record(&mut self, value: u64) {
        self.exact.record(value);
        let bucket = bucket::<COARSE>(value);
        match self.counts.get_mut(bucket) {
            Some(count) => *count = count.saturating_add(1),
            None => self.begin(bucket),
        }
    }

    #[cold]
    fn begin(&mut self, bucket: usize) {
        let octaves = (bucket >> COARSE) + 1;
        // Exactly: there are thousands of these.
        self.counts.reserve_exact((octaves << COARSE) - self.counts.len());
        self.counts.resize(octaves << COARSE, 0);
        self.counts[bucket] = 1;
    }

    pub fn exact(&self) -> &Exact {
        &self.exact
    }

    /// `None` without values.
    pub fn summary(&self) -> Option<LatencySummary> {
        if self.exact.count == 0 {
            return None;
        }
        let quantile = |q| quantile_of(&self.counts, &self.exact, q, bounds::<COARSE>);
        Some(LatencySummary {
            count: self.exact.count,
            mean_ns: self.exact.mean(),
            min_ns: self.exact.min,
            p50_ns: quantile(0.50),
            p90_ns: quantile(0.90),
            p99_ns: quantile(0.99),
            max_ns: self.exact.max,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn buckets_follow_each_other_without_gap() {
        let mut next = 0;
        for bucket in 0..buckets(FINE) {
            let (low, high) = bounds::<FINE>(bucket);
            assert_eq!(low, next, "{bucket}");
            next = high + 1;
        }
        assert_eq!(next, BEYOND);
    }

    proptest! {
        // Few, because each looks through all buckets many times.
        #![proptest_config(ProptestConfig::with_cases(16))]
        #[test]
        fn quantiles_in_one_pass_are_those_one_by_one(values in prop::collection::vec(0..1_u64 << 42, 1..200)) {
            let mut histogram = Tally::default();
            values.iter().for_each(|&value| histogram.record(value >> (value % 40)));
            let histogram = histogram.finish();
            let one_by_one: Vec<_> = (0..=20).map(|i| histogram.quantile(f64::from(i) / 20.0)).collect();
            prop_assert_eq!(histogram.quantiles(20), one_by_one);
        }
    }

    proptest! {
        #[test]
        fn a_value_lies_in_its_bucket(value in prop_oneof![0..10_000_u64, any::<u64>()]) {
            let value = value % BEYOND;
            let (low, high) = bounds::<FINE>(bucket::<FINE>(value));
            prop_assert!(low <= value && value <= high && high - low <= value >> FINE);
            let (low, high) = bounds::<COARSE>(bucket::<COARSE>(value));
            prop_assert!(low <= value && value <= high && high - low <= value >> COARSE);
            prop_assert!(bucket::<FINE>(value) < buckets(FINE) && bucket::<COARSE>(value) < buckets(COARSE));
        }

        /// The same values counted one by one in the histogram that is kept.
        #[test]
        fn it_is_the_kept_histogram(values in prop::collection::vec(1..1_u64 << 42, 1..50)) {
            let (mut fast, mut coarse, mut kept) =
                (Tally::default(), CoarseHistogram::default(), LatencyHistogram::default());
            for &value in &values {
                fast.record(value);
                coarse.record(value);
                kept.record_ns(value);
            }
            prop_assert!(fast.finish().latencies().unwrap() == kept);
            let (rough, exact) = (coarse.summary().unwrap(), kept.summary().unwrap());
            for (a, b) in [(rough.p50_ns, exact.p50_ns), (rough.p90_ns, exact.p90_ns), (rough.p99_ns, exact.p99_ns)] {
                prop_assert!(a.abs_diff(b) <= (b >> COARSE) + 1 || b >= 1 << 40, "{a} {b}");
            }
        }

        #[test]
        fn merged_is_counted_together(
            a in prop::collection::vec(0..1_u64 << 36, 0..50),
            b in prop::collection::vec(0..1_u64 << 36, 0..50),
        ) {
            let counted = |values: &[u64]| {
                let mut histogram = Tally::default();
                values.iter().for_each(|&value| histogram.record(value));
                histogram.finish()
            };
            let (mut both, second) = (counted(&a), counted(&b));
            both.merge(&second);
            let whole = counted(&[a, b].concat());
            prop_assert!(both.latencies() == whole.latencies());
            prop_assert_eq!(both.exact().interval(), whole.exact().interval());
        }
    }
}
