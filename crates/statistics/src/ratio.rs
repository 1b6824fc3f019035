//! How much faster or slower: ratios of a candidate to a baseline.
//!
//! Ratios are averaged as logarithms, so that twice as fast and half as fast cancel out, and a pair is
//! two cells of the same block, so that whatever drifts from block to block cancels out too.

use serde::{Deserialize, Serialize};

use crate::random::SeededOrder;
use crate::student;
use crate::summary::{CONFIDENCE, Interval, mean, mean_at, variance};

/// Candidate over baseline: 0.85 is 15 % slower.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    /// The ratio of geometric means.
    pub value: f64,
    /// Its interval, of 95 % unless it was asked for at another confidence; one pair has none.
    pub interval: Option<Interval>,
    /// How many pairs, or for unpaired samples the smaller of the two counts.
    pub pairs: usize,
}

impl Ratio {
    /// The change in per cent: -15 for a ratio of 0.85.
    pub fn change_percent(&self) -> f64 {
        (self.value - 1.0) * 100.0
    }

    /// The interval of [`Self::change_percent`].
    pub fn change_interval_percent(&self) -> Option<Interval> {
        self.interval.map(|i| Interval { low: (i.low - 1.0) * 100.0, high: (i.high - 1.0) * 100.0 })
    }

    /// Whether the interval excludes "no difference"; `None` without an interval.
    pub fn differs(&self) -> Option<bool> {
        self.interval.map(|i| !i.contains(1.0))
    }
}

/// The ratio of `(baseline, candidate)` pairs with a 95 % t-interval over the logarithms.
///
/// `None` without pairs, or if a sample is not a positive number.
pub fn paired_ratio(pairs: &[(f64, f64)]) -> Option<Ratio> {
    paired_ratio_at(pairs, CONFIDENCE)
}

/// The same with an interval of another confidence: 0.99 where five looks share an error of 5 %.
///
/// `None` without pairs, if a sample is not a positive number or the confidence not between 0 and 1.
pub fn paired_ratio_at(pairs: &[(f64, f64)], confidence: f64) -> Option<Ratio> {
    let logarithms = log_ratios(pairs)?;
    let found = mean_at(&logarithms, confidence)?;
    Some(Ratio { value: found.value.exp(), interval: found.interval.map(exponential), pairs: pairs.len() })
}

/// The same with a percentile bootstrap over the pairs instead of a t-interval (Efron and Tibshirani, An
/// Introduction to the Bootstrap, §13.3), which assumes no distribution but is too narrow for few pairs.
///
/// The same seed gives the same interval. `None` below three pairs or 100 resamples.
pub fn paired_bootstrap(pairs: &[(f64, f64)], resamples: usize, seed: u64) -> Option<Ratio> {
    let logarithms = log_ratios(pairs)?;
    if logarithms.len() < 3 || resamples < 100 {
        return None;
    }
    let mut random = SeededOrder::new(seed);
    let mut means: Vec<f64> = (0..resamples)
        .map(|_| {
            let sum: f64 = (0..logarithms.len()).map(|_| logarithms[random.below(logarithms.len())]).sum();
            sum / logarithms.len() as f64
        })
        .collect();
    means.sort_by(f64::total_cmp);
    let at = |quantile: f64| means[((quantile * (resamples - 1) as f64).round() as usize).min(resamples - 1)];
    let tail = (1.0 - CONFIDENCE) / 2.0;
    Some(Ratio {
        value: mean(&logarithms)?.value.exp(),
        interval: Some(exponential(Interval { low: at(tail), high: at(1.0 - tail) })),
        pairs: pairs.len(),
    })
}

/// The ratio of samples that have no partners, with Welch's t-interval over the logarithms.
///
/// `None` if one side is empty or a sample is not a positive number; no interval below two samples a side.
pub fn unpaired_ratio(baseline: &[f64], candidate: &[f64]) -> Option<Ratio> {
    unpaired_ratio_at(baseline, candidate, CONFIDENCE)
}

/// The same with an interval of another confidence.
pub fn unpaired_ratio_at(baseline: &[f64], candidate: &[f64], confidence: f64) -> Option<Ratio> {
    let baseline = logarithms(baseline)?;
    let candidate = logarithms(candidate)?;
    let (from, to) = (mean(&baseline)?.value, mean(&candidate)?.value);
    let difference = to - from;
    let interval = welch_half_width((&baseline, from), (&candidate, to), confidence)
        .map(|half| exponential(Interval { low: difference - half, high: difference + half }));
    Some(Ratio { value: difference.exp(), interval, pairs: baseline.len().min(candidate.len()) })
}

/// The geometric mean; `None` without samples or with one that is not positive.
pub fn geometric_mean(samples: &[f64]) -> Option<f64> {
    mean(&logarithms(samples)?).map(|m| m.value.exp())
}

/// Half the width of the interval of a difference of means (Welch 1947, with Satterthwaite's degrees of freedom); of each side the
/// samples and their mean.
fn welch_half_width((a, mean_a): (&[f64], f64), (b, mean_b): (&[f64], f64), confidence: f64) -> Option<f64> {
    let squared_a = variance(a, mean_a)? / a.len() as f64;
    let squared_b = variance(b, mean_b)? / b.len() as f64;
    let sum = squared_a + squared_b;
    if sum == 0.0 {
        return Some(0.0);
    }
    let degrees =
        sum.powi(2) / (squared_a.powi(2) / (a.len() - 1) as f64 + squared_b.powi(2) / (b.len() - 1) as f64);
    Some(student::two_sided_factor(confidence, degrees)? * sum.sqrt())
}

pub(crate) fn log_ratios(pairs: &[(f64, f64)]) -> Option<Vec<f64>> {
    pairs
        .iter()
        .map(|(baseline, candidate)| Some(positive(*candidate)?.ln() - positive(*baseline)?.ln()))
        .collect()
}

fn logarithms(samples: &[f64]) -> Option<Vec<f64>> {
    samples.iter().map(|s| positive(*s).map(f64::ln)).collect()
}

fn positive(sample: f64) -> Option<f64> {
    (sample > 0.0 && sample.is_finite()).then_some(sample)
}

pub(crate) fn exponential(interval: Interval) -> Interval {
    Interval { low: interval.low.exp(), high: interval.high.exp() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worked_example_of_three_pairs() {
        // Ratios 0.8, 0.9, 1.0: logarithms -0.2231, -0.1054, 0; mean -0.1095, standard error 0.06446, t(2) = 4.3027.
        let ratio = paired_ratio(&[(10.0, 8.0), (20.0, 18.0), (5.0, 5.0)]).unwrap();
        assert_eq!(ratio.pairs, 3);
        assert!((ratio.value - 0.72_f64.cbrt()).abs() < 1e-12);
        let interval = ratio.interval.unwrap();
        assert!((interval.low - 0.679_2).abs() < 1e-3, "{interval:?}");
        assert!((interval.high - 1.182_7).abs() < 1e-3, "{interval:?}");
        assert_eq!(ratio.differs(), Some(false));
    }

    #[test]
    fn one_pair_has_a_ratio_but_no_interval() {
        let ratio = paired_ratio(&[(4.0, 3.0)]).unwrap();
        assert!((ratio.change_percent() + 25.0).abs() < 1e-9);
        assert_eq!((ratio.interval, ratio.differs()), (None, None));
    }

    #[test]
    fn zero_and_missing_samples_have_no_ratio() {
        assert_eq!(paired_ratio(&[]), None);
        assert_eq!(paired_ratio(&[(0.0, 1.0)]), None);
        assert_eq!(unpaired_ratio(&[1.0], &[]), None);
        assert_eq!(unpaired_ratio(&[1.0], &[f64::INFINITY]), None);
        assert_eq!(paired_bootstrap(&[(1.0, 1.0), (1.0, 2.0)], 1000, 1), None);
    }

    #[test]
    fn twice_and_half_cancel_out() {
        assert!((geometric_mean(&[2.0, 0.5]).unwrap() - 1.0).abs() < 1e-12);
        assert_eq!(geometric_mean(&[1.0, -1.0]), None);
    }

    #[test]
    fn the_bootstrap_is_repeatable_and_agrees_roughly_with_t() {
        let pairs: Vec<_> = (0..30).map(|i| (10.0, 8.0 + 0.1 * f64::from(i % 7))).collect();
        let first = paired_bootstrap(&pairs, 2_000, 7).unwrap();
        assert_eq!(Some(first), paired_bootstrap(&pairs, 2_000, 7));
        let by_t = paired_ratio(&pairs).unwrap().interval.unwrap();
        let by_bootstrap = first.interval.unwrap();
        assert!(
            (by_t.half_width() / by_bootstrap.half_width() - 1.0).abs() < 0.2,
            "{by_t:?} {by_bootstrap:?}"
        );
    }

    proptest::proptest! {
        #[test]
        fn swapping_the_sides_inverts_the_ratio(
            pairs in proptest::collection::vec((0.1_f64..1e4, 0.1_f64..1e4), 2..12)
        ) {
            let forth = paired_ratio(&pairs).unwrap();
            let swapped: Vec<_> = pairs.iter().map(|(a, b)| (*b, *a)).collect();
            let back = paired_ratio(&swapped).unwrap();
            proptest::prop_assert!((forth.value * back.value - 1.0).abs() < 1e-9);
            proptest::prop_assert!((forth.interval.unwrap().low * back.interval.unwrap().high - 1.0).abs() < 1e-6);
            let (baseline, candidate): (Vec<_>, Vec<_>) = pairs.iter().copied().unzip();
            let unpaired = unpaired_ratio(&baseline, &candidate).unwrap();
            proptest::prop_assert!((unpaired.value / forth.value - 1.0).abs() < 1e-9);
        }
    }
}
