//! Latencies as histograms that can be merged, and the few numbers that are printed of them.
//!
//! Percentiles are always read from a (merged) histogram and never averaged; means of different classes
//! of operation are never added.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer as HdrDeserializer, Serializer as _, V2DeflateSerializer};
use serde::{Deserialize, Serialize};

/// A histogram of durations in nanoseconds, 1 ns to about 18 minutes, three significant digits.
///
/// It is stored and sent as the base64 text of HdrHistogram's V2 compressed encoding, which other tools read.
#[derive(Clone, Debug, PartialEq)]
pub struct LatencyHistogram(Histogram<u64>);

/// The largest duration a histogram distinguishes; longer ones are counted as this one.
pub const HIGHEST_LATENCY_NS: u64 = 1 << 40;

impl Default for LatencyHistogram {
    fn default() -> Self {
        Self(Histogram::new_with_bounds(1, HIGHEST_LATENCY_NS, 3).expect("constant bounds are valid"))
    }
}

impl LatencyHistogram {
    /// Counts one duration.
    pub fn record_ns(&mut self, latency_ns: u64) {
        self.record_many_ns(latency_ns, 1);
    }

    /// Counts `count` equal durations.
    pub fn record_many_ns(&mut self, latency_ns: u64, count: u64) {
        self.0.saturating_record_n(latency_ns.max(1), count);
    }

    /// Adds every duration of `other`.
    pub fn merge(&mut self, other: &Self) {
        self.0.add(&other.0).expect("all histograms have the same bounds");
    }

    /// How many durations were counted.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// The duration below which `quantile` (0 to 1) of the operations fall, or `None` without any.
    pub fn quantile_ns(&self, quantile: f64) -> Option<u64> {
        (!self.0.is_empty()).then(|| self.0.value_at_quantile(quantile))
    }

    /// The numbers that tables print, or `None` without any operation.
    pub fn summary(&self) -> Option<LatencySummary> {
        (!self.0.is_empty()).then(|| LatencySummary {
            count: self.0.len(),
            mean_ns: self.0.mean(),
            min_ns: self.0.min(),
            p50_ns: self.0.value_at_quantile(0.50),
            p90_ns: self.0.value_at_quantile(0.90),
            p99_ns: self.0.value_at_quantile(0.99),
            max_ns: self.0.max(),
        })
    }

    /// Each distinguished duration with how many operations took it, ascending.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.0.iter_recorded().map(|v| (v.value_iterated_to(), v.count_at_value()))
    }
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
        let mut bytes = Vec::new();
        V2DeflateSerializer::new().serialize(&self.0, &mut bytes).map_err(serde::ser::Error::custom)?;
        serializer.serialize_str(&BASE64.encode(bytes))
    }
}

impl<'de> Deserialize<'de> for LatencyHistogram {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error as _;
        let text = String::deserialize(deserializer)?;
        let bytes = BASE64.decode(text).map_err(D::Error::custom)?;
        let read: Histogram<u64> =
            HdrDeserializer::new().deserialize(&mut bytes.as_slice()).map_err(D::Error::custom)?;
        let mut histogram = Self::default();
        histogram.0.add(&read).map_err(D::Error::custom)?;
        Ok(histogram)
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
}
