//! Distributions that a recorder has counted itself, with what can be said of them.

use serde::Serialize;

use crate::decode::VscsiHistogram;

/// What the values of a distribution are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// Microseconds.
    Microseconds,
    /// Bytes.
    Bytes,
    /// Blocks of 512 bytes (LBNs), backwards if negative.
    Sectors,
    /// Things, such as outstanding requests.
    Number,
}

impl Unit {
    /// By vscsiStats' words for the quantity: `IO lengths`, `distance (in LBNs)`, `Microseconds (us)`, `outstanding IOs`.
    fn of(quantity: &str) -> Self {
        let has = |word: &str| quantity.contains(word);
        match quantity {
            _ if has("Microseconds") || has("(us)") => Self::Microseconds,
            _ if has("LBN") => Self::Sectors,
            _ if has("lengths") => Self::Bytes,
            _ => Self::Number,
        }
    }
}

/// A distribution of one quantity of one virtual disk.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CountedHistogram {
    /// As counted.
    #[serde(flatten)]
    pub histogram: VscsiHistogram,
    /// What its values are.
    pub unit: Unit,
    /// Half of the values are at most this: the limit of a bucket, or the greatest value where that is less. `None` where
    /// neither is known.
    pub p50_at_most: Option<i64>,
    /// The same for 90 %.
    pub p90_at_most: Option<i64>,
    /// The same for 99 %.
    pub p99_at_most: Option<i64>,
}

impl CountedHistogram {
    /// Says what can be said.
    pub fn new(histogram: VscsiHistogram) -> Self {
        let unit = Unit::of(&histogram.quantity);
        let [p50_at_most, p90_at_most, p99_at_most] =
            [50, 90, 99].map(|percent| at_most(&histogram, percent));
        Self { histogram, unit, p50_at_most, p90_at_most, p99_at_most }
    }
}

/// Which value `percent` of the values do not exceed, as far as the buckets show it.
fn at_most(histogram: &VscsiHistogram, percent: u128) -> Option<i64> {
    let hundredfold = |count: u64| u128::from(count) * 100;
    let all: u128 = histogram.buckets.iter().map(|bucket| hundredfold(bucket.count) / 100).sum();
    let mut sum = 0;
    let bucket = histogram.buckets.iter().find(|bucket| {
        sum += hundredfold(bucket.count);
        bucket.count > 0 && sum >= all * percent
    })?;
    match (bucket.limit, histogram.max) {
        (Some(limit), Some(max)) => Some(limit.min(max)),
        (limit, max) => limit.or(max),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::vscsi::Bucket;

    fn histogram(quantity: &str, buckets: &[(Option<i64>, u64)], max: Option<i64>) -> CountedHistogram {
        let buckets: Vec<_> = buckets.iter().map(|&(limit, count)| Bucket { limit, count }).collect();
        let count = buckets.iter().map(|bucket| bucket.count).sum();
        let quantity = quantity.to_owned();
        CountedHistogram::new(VscsiHistogram { quantity, count, buckets, max, ..VscsiHistogram::default() })
    }

    #[test]
    fn parts_are_at_most_the_limit_of_their_bucket() {
        let lengths = histogram(
            "IO lengths of commands",
            &[(Some(512), 0), (Some(4096), 50), (Some(8192), 45), (None, 5)],
            Some(70_000),
        );
        assert_eq!(lengths.unit, Unit::Bytes);
        let limits = (lengths.p50_at_most, lengths.p90_at_most, lengths.p99_at_most);
        assert_eq!(limits, (Some(4096), Some(8192), Some(70_000)));
        let last = histogram("latency of IOs in Microseconds (us)", &[(Some(10), 1), (None, 9)], None);
        assert_eq!((last.unit, last.p50_at_most), (Unit::Microseconds, None));
        let within = histogram("outstanding IOs", &[(Some(64), 3)], Some(33));
        assert_eq!((within.unit, within.p50_at_most), (Unit::Number, Some(33)));
        assert_eq!(
            histogram("distance (in LBNs) between successive commands", &[], None).unit,
            Unit::Sectors
        );
    }
}
