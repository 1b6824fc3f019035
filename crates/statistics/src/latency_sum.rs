//! Adds up many stored histograms quickly.
//!
//! Merging decodes each one into a histogram of a quarter of a megabyte. Those of a large study are hundreds of thousands,
//! each of a few hundred counts, so these are added straight from the encoding.

use crate::histogram_error::HistogramError;
use crate::latency::LatencyHistogram;
use crate::latency_bounds::{MOST_LATENCIES, halved_count};
use crate::latency_code::{Bounds, Decoder};

/// The sum of histograms that were written by [`LatencyHistogram`].
#[derive(Debug, Default)]
pub struct LatencySum {
    counts: Vec<u64>,
    /// Of all counts.
    total: u64,
    decoder: Decoder,
}

impl LatencySum {
    /// Adds a histogram from the text it is stored as.
    ///
    /// # Errors
    /// What is wrong with the text; then nothing of it is added.
    pub fn add(&mut self, text: &str) -> Result<(), HistogramError> {
        let decoded = self.decoder.decode(text)?;
        if decoded.bounds != Bounds::OURS {
            return Err(HistogramError::OtherBounds);
        }
        // The decoder allows only as many as there are counters.
        let needed = decoded.counts.last().map_or(0, |(index, _)| index.saturating_add(1));
        if needed > self.counts.len() {
            self.counts.resize(needed, 0);
        }
        for (index, count) in decoded.counts {
            // The decoder allows no more than [`MOST_LATENCIES`] in all, and there are no more here.
            self.counts[*index] += count;
            self.total += count;
        }
        // As merging does.
        while self.total > MOST_LATENCIES {
            self.counts.iter_mut().for_each(|count| *count = halved_count(*count));
            self.total = self.counts.iter().sum();
        }
        Ok(())
    }

    /// The sum as a histogram.
    pub fn finish(&self) -> LatencyHistogram {
        LatencyHistogram::of_counters(&self.counts).compacted()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::latency_code::MOST_COUNTS;
    use proptest::prelude::*;

    fn text(histogram: &LatencyHistogram) -> String {
        serde_json::to_value(histogram).unwrap().as_str().unwrap().to_owned()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn a_sum_is_what_merging_gives(
            parts in prop::collection::vec(prop::collection::vec((0_u64..2 << 40, 1_u64..1 << 40), 0..40), 0..6),
        ) {
            let mut merged = LatencyHistogram::default();
            let mut sum = LatencySum::default();
            for part in parts {
                let mut histogram = LatencyHistogram::default();
                part.iter().for_each(|(ns, count)| histogram.record_many_ns(*ns, *count));
                merged.merge(&histogram);
                sum.add(&text(&histogram)).unwrap();
            }
            prop_assert_eq!(sum.finish().summary(), merged.summary());
            prop_assert_eq!(sum.finish(), merged);
        }
    }

    #[test]
    fn a_histogram_in_which_every_counter_is_used_is_added_too() {
        let mut full = LatencyHistogram::default();
        let durations = (0..MOST_COUNTS).filter_map(|index| Bounds::OURS.value_at(index));
        durations.zip(1..).for_each(|(ns, count)| full.record_many_ns(ns, count << 20));
        let mut sum = LatencySum::default();
        sum.add(&text(&full)).unwrap();
        assert_eq!(sum.finish(), full);
    }

    #[test]
    fn what_is_not_a_histogram_of_ours_is_refused() {
        let whole = text(&{
            let mut h = LatencyHistogram::default();
            h.record_many_ns(5_000, 3);
            h
        });
        let mut sum = LatencySum::default();
        for broken in ["", "AAAA", "no base64!", &whole[..whole.len() / 2 / 4 * 4]] {
            assert!(sum.add(broken).is_err(), "{broken}");
        }
        assert_eq!(sum.finish().count(), 0);
    }
}
