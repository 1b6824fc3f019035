//! Latencies as histograms that can be merged, and the few numbers that are printed of them.
//!
//! Percentiles are always read from a (merged) histogram and never averaged; means of different classes
//! of operation are never added.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer as _, V2DeflateSerializer};
use serde::{Deserialize, Serialize};

use crate::histogram_error::HistogramError;
use crate::latency_bounds::halved_count;
pub use crate::latency_bounds::{HIGHEST_LATENCY_NS, MOST_LATENCIES, SHORTEST_LATENCY_NS};
use crate::latency_code::{Bounds, DIGITS, Decoder};

/// A histogram of durations in nanoseconds, 1 ns to about 18 minutes, three significant digits.
///
/// It is stored and sent as the base64 text of HdrHistogram's V2 compressed encoding, which other tools read. In
/// memory it takes about 250 KB while it counts, and a few hundred bytes once it was read back or [compacted].
///
/// [compacted]: Self::compacted
#[derive(Clone, Debug)]
pub struct LatencyHistogram(Counts);

#[derive(Clone, Debug)]
enum Counts {
    /// Every distinguishable duration has a counter.
    Counting(Box<Histogram<u64>>),
    /// The base64 text, which was decoded once to see that it can be.
    Compact(Box<str>),
}

/// The first duration that no counter is for: that of the highest one is as wide as its octave has it.
const LONGEST_COUNTED_NS: u64 = 2 * HIGHEST_LATENCY_NS;

impl Default for LatencyHistogram {
    fn default() -> Self {
        Self(Counts::Counting(Box::new(empty())))
    }
}

fn empty() -> Histogram<u64> {
    Histogram::new_with_bounds(SHORTEST_LATENCY_NS, HIGHEST_LATENCY_NS, DIGITS)
        .expect("constant bounds are valid")
}

impl LatencyHistogram {
    /// Counts one duration.
    pub fn record_ns(&mut self, latency_ns: u64) {
        self.record_many_ns(latency_ns, 1);
    }

    /// Counts `count` equal durations, of which there are at most [`MOST_LATENCIES`].
    pub fn record_many_ns(&mut self, latency_ns: u64, count: u64) {
        let histogram = self.counting();
        histogram.saturating_record_n(latency_ns.max(SHORTEST_LATENCY_NS), count.min(MOST_LATENCIES));
        limit_count(histogram);
    }

    /// All of several together; empty without any.
    pub fn merged<'a>(several: impl IntoIterator<Item = &'a Self>) -> Self {
        let mut all = Self::default();
        several.into_iter().for_each(|one| all.merge(one));
        all
    }

    /// Adds every duration of `other`.
    pub fn merge(&mut self, other: &Self) {
        let histogram = self.counting();
        histogram.add(&*other.histogram()).expect("all histograms have the same bounds");
        limit_count(histogram);
    }

    /// The same histogram in little memory, for keeping many of them. Counting on unpacks it again.
    #[must_use]
    pub fn compacted(self) -> Self {
        match &self.0 {
            Counts::Counting(histogram) => Self(Counts::Compact(encode(histogram).into_boxed_str())),
            Counts::Compact(_) => self,
        }
    }

    /// How many durations were counted.
    pub fn count(&self) -> u64 {
        self.histogram().len()
    }

    /// The duration below which `quantile` (0 to 1) of the operations fall, or `None` without any.
    pub fn quantile_ns(&self, quantile: f64) -> Option<u64> {
        let histogram = self.histogram();
        (!histogram.is_empty()).then(|| histogram.value_at_quantile(quantile))
    }

    /// The numbers that tables print, or `None` without any operation.
    pub fn summary(&self) -> Option<LatencySummary> {
        let histogram = self.histogram();
        (!histogram.is_empty()).then(|| LatencySummary {
            count: histogram.len(),
            mean_ns: histogram.mean(),
            min_ns: histogram.min(),
            p50_ns: histogram.value_at_quantile(0.50),
            p90_ns: histogram.value_at_quantile(0.90),
            p99_ns: histogram.value_at_quantile(0.99),
            max_ns: histogram.max(),
        })
    }

    /// Each distinguished duration with how many operations took it, ascending.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> {
        let histogram = self.histogram();
        let buckets: Vec<_> =
            histogram.iter_recorded().map(|v| (v.value_iterated_to(), v.count_at_value())).collect();
        buckets.into_iter()
    }

    /// The histogram of counters by index, as [`LatencySum`](crate::latency_sum::LatencySum) adds them up.
    pub(crate) fn of_counters(counters: &[u64]) -> Self {
        let mut histogram = Self::default();
        for (index, count) in counters.iter().enumerate().filter(|(_, count)| **count > 0) {
            let value = Bounds::OURS.value_at(index).expect("counters have the bounds of our histograms");
            histogram.record_many_ns(value, *count);
        }
        histogram
    }

    fn histogram(&self) -> Cow<'_, Histogram<u64>> {
        match &self.0 {
            Counts::Counting(histogram) => Cow::Borrowed(histogram),
            Counts::Compact(text) => Cow::Owned(decode(text).expect("it was decoded when it was read")),
        }
    }

    fn counting(&mut self) -> &mut Histogram<u64> {
        if let Counts::Compact(_) = &self.0 {
            self.0 = Counts::Counting(Box::new(self.histogram().into_owned()));
        }
        match &mut self.0 {
            Counts::Counting(histogram) => histogram,
            Counts::Compact(_) => unreachable!("it was unpacked above"),
        }
    }
}

impl PartialEq for LatencyHistogram {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Counts::Compact(a), Counts::Compact(b)) if a == b => true,
            _ => *self.histogram() == *other.histogram(),
        }
    }
}

/// Halves all counts while they are over [`MOST_LATENCIES`]; what was counted once stays.
fn limit_count(histogram: &mut Histogram<u64>) {
    while histogram.len() > MOST_LATENCIES {
        let mut halved = empty();
        for counted in histogram.iter_recorded() {
            halved.saturating_record_n(counted.value_iterated_to(), halved_count(counted.count_at_value()));
        }
        *histogram = halved;
    }
}

fn encode(histogram: &Histogram<u64>) -> String {
    let mut bytes = Vec::new();
    // The encoding's counts have a sign; ours have fewer bits.
    V2DeflateSerializer::new().serialize(histogram, &mut bytes).expect("counts that fit are encoded");
    BASE64.encode(bytes)
}

/// Decodes into a histogram of the usual bounds, so that all can be added to each other.
fn decode(text: &str) -> Result<Histogram<u64>, HistogramError> {
    let mut decoder = Decoder::default();
    let decoded = decoder.decode(text)?;
    let mut histogram = empty();
    for (index, count) in decoded.counts {
        let value = decoded.bounds.value_at(*index).filter(|value| *value < LONGEST_COUNTED_NS);
        let value = value.ok_or(HistogramError::BeyondBounds)?;
        histogram.saturating_record_n(value.max(SHORTEST_LATENCY_NS), *count);
    }
    Ok(histogram)
}

/// What is printed of a histogram.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LatencySummary {
    /// Number of operations.
    pub count: u64,
    /// Arithmetic mean.
    pub mean_ns: f64,
    /// Shortest.
    pub min_ns: u64,
    /// Median.
    pub p50_ns: u64,
    /// 90th percentile.
    pub p90_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// Longest.
    pub max_ns: u64,
}

impl LatencySummary {
    /// The time of all operations together, in nanoseconds.
    pub fn whole_ns(&self) -> f64 {
        self.count as f64 * self.mean_ns
    }
}

impl Serialize for LatencyHistogram {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0 {
            Counts::Counting(histogram) => serializer.serialize_str(&encode(histogram)),
            Counts::Compact(text) => serializer.serialize_str(text),
        }
    }
}

impl<'de> Deserialize<'de> for LatencyHistogram {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        // Nearly all were written here, and there are dozens in every record: those need no counters to be checked.
        if Decoder::default().decode(&text).is_ok_and(|decoded| decoded.bounds == Bounds::OURS) {
            return Ok(Self(Counts::Compact(text.into_boxed_str())));
        }
        let histogram = decode(&text).map_err(serde::de::Error::custom)?;
        // Written anew, with our bounds.
        Ok(Self(Counts::Compact(encode(&histogram).into_boxed_str())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::latency_code::tests::{compressed, crafted};
    use crate::latency_sum::LatencySum;

    #[test]
    fn a_histogram_survives_storage_and_merges() {
        let mut a = LatencyHistogram::default();
        a.record_ns(1_000);
        a.record_many_ns(5_000_000, 3);
        let text = serde_json::to_string(&a).unwrap();
        let mut b: LatencyHistogram = serde_json::from_str(&text).unwrap();
        assert_eq!(a, b);
        b.merge(&a);
        assert_eq!(b.count(), 8);
        assert_eq!(b.summary().unwrap().min_ns, 1_000);
    }

    #[test]
    fn a_compact_histogram_is_the_same_and_counts_on() {
        let mut counting = LatencyHistogram::default();
        counting.record_many_ns(70_000, 5);
        let mut compact = counting.clone().compacted();
        assert_eq!(compact, counting);
        assert_eq!(compact.summary(), counting.summary());
        assert_eq!(compact.buckets().collect::<Vec<_>>(), counting.buckets().collect::<Vec<_>>());
        assert_eq!(serde_json::to_string(&compact).unwrap(), serde_json::to_string(&counting).unwrap());
        compact.record_ns(1);
        assert_ne!(compact, counting);
        assert_eq!((compact.count(), compact.quantile_ns(0.0)), (6, Some(1)));
    }

    #[test]
    fn a_broken_text_is_refused_when_it_is_read() {
        for text in ["\"\"", "\"AAAA\"", "\"no base64!\"", "7"] {
            assert!(serde_json::from_str::<LatencyHistogram>(text).is_err(), "{text}");
        }
    }

    /// Everything that is asked of a histogram.
    fn use_all(histogram: &LatencyHistogram) -> u64 {
        let mut sum = LatencyHistogram::default();
        sum.merge(histogram);
        sum.merge(histogram);
        let _ = (sum.summary(), sum.quantile_ns(0.5), sum.buckets().count(), sum.clone().compacted());
        sum.count()
    }

    #[test]
    fn what_cannot_be_counted_is_refused_when_it_is_read_and_not_when_it_is_used() {
        let ours = (3, 1, HIGHEST_LATENCY_NS);
        let body = [2];
        // A run of 40 000 zeros, where there are 32 768 counters: 79 999 as seven bits a byte.
        let zeros = [0xff, 0xf0, 0x04, 2];
        let crafted = [
            crafted(4, ours, 1.0, &zeros),
            crafted(3, ours, 1.0, &zeros[..3]),
            crafted(1, ours, f64::NAN, &body),
            crafted(1, ours, 2.0, &body),
            crafted(0xffff_fff0, ours, 1.0, &body),
            crafted(0xffff_fff0, (5, 1, u64::MAX), 1.0, &body),
            crafted(1, (77, 1, HIGHEST_LATENCY_NS), 1.0, &body),
            crafted(1, (3, 0, 0), 1.0, &body),
        ];
        for plain in crafted {
            for text in [compressed(&plain), plain] {
                let read = serde_json::from_value::<LatencyHistogram>(text.clone().into());
                assert!(read.is_err(), "{text} {}", use_all(&read.unwrap()));
                assert!(LatencySum::default().add(&text).is_err(), "{text}");
            }
        }
    }

    /// `count` at 1 ns, and at the durations after it, as text from outside.
    fn text_of(counts: &[i64]) -> String {
        let mut body = Vec::new();
        for count in counts {
            let mut left = ((count << 1) ^ (count >> 63)) as u64;
            for i in 0..9 {
                let more = i < 8 && left >> 7 > 0;
                body.push(if i == 8 { left as u8 } else { left as u8 & 0x7f | u8::from(more) << 7 });
                if !more {
                    break;
                }
                left >>= 7;
            }
        }
        crafted(body.len() as u32, (3, 1, HIGHEST_LATENCY_NS), 1.0, &body)
    }

    #[test]
    fn more_than_can_be_counted_is_refused_when_it_is_read() {
        let most = MOST_LATENCIES as i64;
        for counts in [&[-5000, i64::MAX, i64::MAX, i64::MAX][..], &[0, most, 1], &[i64::MAX]] {
            let plain = text_of(counts);
            for text in [compressed(&plain), plain] {
                assert!(LatencySum::default().add(&text).is_err(), "{counts:?}");
                let read = serde_json::from_value::<LatencyHistogram>(text.into());
                assert!(read.is_err(), "{counts:?} {}", use_all(&read.unwrap()));
            }
        }
        let read: LatencyHistogram = serde_json::from_value(text_of(&[0, most - 1, 1]).into()).unwrap();
        assert_eq!((read.count(), read.quantile_ns(1.0)), (MOST_LATENCIES, Some(2)));
        assert_eq!(use_all(&read), MOST_LATENCIES);
    }

    #[test]
    fn quantiles_stay_right_where_more_is_added_than_can_be_counted() {
        let full: LatencyHistogram =
            serde_json::from_value(text_of(&[0, 1 << 52, (1 << 51) + 1, (1 << 51) - 1]).into()).unwrap();
        let text = serde_json::to_value(&full).unwrap().as_str().unwrap().to_owned();
        let (mut merged, mut sum) = (LatencyHistogram::default(), LatencySum::default());
        for _ in 0..5000 {
            merged.merge(&full);
            sum.add(&text).unwrap();
        }
        for histogram in [merged.clone(), sum.finish(), merged.clone().compacted()] {
            assert!(histogram.count() <= MOST_LATENCIES && histogram.count() > MOST_LATENCIES / 2);
            let quantiles = [0.0, 0.49, 0.51, 0.74, 0.76, 1.0].map(|q| histogram.quantile_ns(q).unwrap());
            assert_eq!(quantiles, [1, 1, 2, 2, 3, 3]);
            assert_eq!(histogram.summary(), merged.summary());
        }
        let mut counted = LatencyHistogram::default();
        (0..5).for_each(|_| counted.record_many_ns(7, u64::MAX));
        counted.record_ns(1_000_000);
        assert_eq!((counted.quantile_ns(0.5), counted.summary().unwrap().max_ns > 999_000), (Some(7), true));
        assert!(counted.count() <= MOST_LATENCIES);
        use_all(&counted);
    }
}
