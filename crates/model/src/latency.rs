//! Latencies as histograms that can be merged, and the few numbers that are printed of them.
//!
//! Percentiles are always read from a (merged) histogram and never averaged; means of different classes
//! of operation are never added.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer as HdrDeserializer, Serializer as _, V2DeflateSerializer};
use serde::{Deserialize, Serialize};

use crate::latency_sum::LatencySum;

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

/// The largest duration a histogram distinguishes; longer ones are counted as this one.
pub const HIGHEST_LATENCY_NS: u64 = 1 << 40;

impl Default for LatencyHistogram {
    fn default() -> Self {
        Self(Counts::Counting(Box::new(empty())))
    }
}

fn empty() -> Histogram<u64> {
    Histogram::new_with_bounds(1, HIGHEST_LATENCY_NS, 3).expect("constant bounds are valid")
}

impl LatencyHistogram {
    /// Counts one duration.
    pub fn record_ns(&mut self, latency_ns: u64) {
        self.record_many_ns(latency_ns, 1);
    }

    /// Counts `count` equal durations.
    pub fn record_many_ns(&mut self, latency_ns: u64, count: u64) {
        self.counting().saturating_record_n(latency_ns.max(1), count);
    }

    /// Adds every duration of `other`.
    pub fn merge(&mut self, other: &Self) {
        self.counting().add(&*other.histogram()).expect("all histograms have the same bounds");
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

fn encode(histogram: &Histogram<u64>) -> String {
    let mut bytes = Vec::new();
    V2DeflateSerializer::new().serialize(histogram, &mut bytes).expect("writing to memory does not fail");
    BASE64.encode(bytes)
}

/// Decodes into a histogram of the usual bounds, so that all can be added to each other.
fn decode(text: &str) -> Result<Histogram<u64>, String> {
    let bytes = BASE64.decode(text).map_err(|e| e.to_string())?;
    let read: Histogram<u64> =
        HdrDeserializer::new().deserialize(&mut bytes.as_slice()).map_err(|e| e.to_string())?;
    if read.low() == 1 && read.high() == HIGHEST_LATENCY_NS && read.sigfig() == 3 {
        return Ok(read);
    }
    let mut histogram = empty();
    histogram.add(&read).map_err(|e| e.to_string())?;
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
        // Nearly all were written here, and there are dozens in every record.
        if LatencySum::default().add(&text).is_ok() {
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
}
