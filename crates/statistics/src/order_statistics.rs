//! How far a median or another quantile can be trusted, whatever the distribution.
//!
//! The number of samples below a true quantile is binomial, so two of the sorted samples bracket it with a known
//! probability (David and Nagaraja, Order Statistics, 3rd edition, §7.1). Three samples bracket their median only in
//! 75 % of the cases; 95 % take six.

use serde::{Deserialize, Serialize};

use crate::binomial::cumulative_binomial;
use crate::summary::Interval;

/// Two samples that bracket a quantile.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct QuantileInterval {
    /// The two samples.
    pub interval: Interval,
    /// The probability that they bracket it: at least what was asked for.
    pub coverage: f64,
}

/// The narrowest interval of equal tails that brackets the true median with at least this confidence; `None` for too
/// few samples (below six for 95 %) or samples that are not numbers.
pub fn median_interval(samples: &[f64], confidence: f64) -> Option<QuantileInterval> {
    quantile_interval(samples, 0.5, confidence)
}

/// The same for any quantile between 0 and 1: 0.99 takes 368 samples for 95 %.
pub fn quantile_interval(samples: &[f64], quantile: f64, confidence: f64) -> Option<QuantileInterval> {
    let within = |share: f64| share > 0.0 && share < 1.0;
    if !within(quantile) || !within(confidence) || samples.iter().any(|s| !s.is_finite()) {
        return None;
    }
    // Sums of logarithms are a few last digits off, and must not cost a rank.
    let tail = (1.0 - confidence) / 2.0 + 1e-12;
    let at_most = cumulative_binomial(samples.len(), quantile);
    // The lower end is too high if fewer than `low` samples lie below the quantile: `low` counts from 1.
    let low = at_most.iter().take_while(|p| **p <= tail).count();
    // The upper end is too low if at least `high` do.
    let high = at_most.iter().take_while(|p| 1.0 - **p > tail).count() + 1;
    if low == 0 || high > samples.len() {
        return None;
    }
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    Some(QuantileInterval {
        interval: Interval { low: sorted[low - 1], high: sorted[high - 1] },
        coverage: at_most[high - 1] - at_most[low - 1],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn six_samples_bracket_their_median_and_five_do_not() {
        let six = median_interval(&[6.0, 2.0, 4.0, 1.0, 5.0, 3.0], 0.95).unwrap();
        assert_eq!(six.interval, Interval { low: 1.0, high: 6.0 });
        // 1 - 2/2^6.
        assert!((six.coverage - 0.968_75).abs() < 1e-12);
        assert_eq!(median_interval(&[1.0, 2.0, 3.0, 4.0, 5.0], 0.95), None);
        // Three samples do so in 75 % of the cases.
        assert!((median_interval(&[1.0, 2.0, 3.0], 0.75).unwrap().coverage - 0.75).abs() < 1e-12);
    }

    #[test]
    fn ranks_of_the_published_table() {
        // Ranks of the 95 % interval of a median: n = 10: 2 and 9; n = 20: 6 and 15; n = 50: 18 and 33
        // (Conover, Practical Nonparametric Statistics, 3rd edition, §3.2 with table A3).
        for (n, low, high) in [(10, 2.0, 9.0), (20, 6.0, 15.0), (50, 18.0, 33.0)] {
            let samples: Vec<f64> = (1..=n).map(f64::from).collect();
            let found = median_interval(&samples, 0.95).unwrap();
            assert_eq!(found.interval, Interval { low, high }, "{n}");
        }
    }

    #[test]
    fn high_quantiles_take_many_samples() {
        let samples = |n: u32| (1..=n).map(f64::from).collect::<Vec<_>>();
        // 0.99^n ≤ 0.025 from n = 368 on.
        assert_eq!(quantile_interval(&samples(367), 0.99, 0.95), None);
        assert!(quantile_interval(&samples(368), 0.99, 0.95).is_some());
        assert!(median_interval(&samples(5_000), 0.95).unwrap().coverage >= 0.95);
        assert_eq!(median_interval(&[f64::NAN; 9], 0.95), None);
        assert_eq!(median_interval(&[], 0.95), None);
    }

    proptest::proptest! {
        #[test]
        fn the_interval_is_as_sure_as_asked(n in 6_u32..300, quantile in 0.3_f64..0.7) {
            let samples: Vec<f64> = (1..=n).map(f64::from).collect();
            if let Some(found) = quantile_interval(&samples, quantile, 0.95) {
                proptest::prop_assert!(found.coverage >= 0.95 - 1e-9);
                proptest::prop_assert!(found.interval.low <= f64::from(n) * quantile + 1.0);
                proptest::prop_assert!(found.interval.high >= f64::from(n) * quantile);
            }
        }
    }
}
