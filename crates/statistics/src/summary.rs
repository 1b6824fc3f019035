//! A few samples in two numbers: the mean and how far it can be trusted.

use serde::{Deserialize, Serialize};

use crate::student;

/// Half a 90 % interval of a normal distribution, in deviations.
pub(crate) const HALF_OF_90: f64 = 1.645;

/// The confidence of every interval Nestor prints.
pub const CONFIDENCE: f64 = 0.95;

/// A 95 % confidence interval, in the unit of what it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Interval {
    /// Whether `value` lies in the interval.
    pub fn contains(&self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }

    /// The 90 % interval of a number whose logarithm is normal, by the mean and the deviation of that.
    pub fn of_logarithm(mean: f64, deviation: f64) -> Self {
        let half = HALF_OF_90 * deviation;
        Self { low: (mean - half).exp(), high: (mean + half).exp() }
    }

    /// The deviation of the logarithm of a number of which this is the 90 % interval: the inverse of [`Self::of_logarithm`].
    pub fn deviation_of_logarithm(&self) -> f64 {
        (self.high / self.low).ln() / 2.0 / HALF_OF_90
    }

    /// Half the width.
    pub fn half_width(&self) -> f64 {
        (self.high - self.low) / 2.0
    }
}

/// A mean of independent samples: arithmetic, or of rates geometric ([`rate_mean`]).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Mean {
    /// The mean.
    pub value: f64,
    /// How many samples it was taken from.
    pub samples: usize,
    /// Its 95 % t-interval; one sample has none, and of rates two have none.
    pub interval: Option<Interval>,
}

/// The mean of `samples` with its 95 % t-interval; `None` without samples or with one that is not a number.
pub fn mean(samples: &[f64]) -> Option<Mean> {
    mean_at(samples, CONFIDENCE)
}

/// The same with an interval of another confidence; `None` also for one that is not between 0 and 1.
pub fn mean_at(samples: &[f64], confidence: f64) -> Option<Mean> {
    let valid = confidence > 0.0 && confidence < 1.0;
    if !valid || samples.is_empty() || samples.iter().any(|s| !s.is_finite()) {
        return None;
    }
    let value = samples.iter().sum::<f64>() / samples.len() as f64;
    let interval = standard_error(samples, value).and_then(|(error, degrees)| {
        let half = error * student::two_sided_factor(confidence, degrees)?;
        Some(Interval { low: value - half, high: value + half })
    });
    Some(Mean { value, samples: samples.len(), interval })
}

/// Fewer rates are shown as they are: two have an interval of eight times their distance.
const FEWEST_RATES: usize = 3;

/// The mean of rates on a logarithmic scale, as ratios are averaged: the geometric mean with its 95 % t-interval, which is never below
/// zero. Where one is zero (a load that moves no bytes) the mean is arithmetic. `None` without samples or with one that is negative or not
/// a number.
pub fn rate_mean(samples: &[f64]) -> Option<Mean> {
    if samples.iter().any(|s| *s < 0.0) {
        return None;
    }
    if samples.contains(&0.0) {
        return mean(samples).map(|mean| Mean { interval: None, ..mean });
    }
    let logarithms: Vec<f64> = samples.iter().map(|s| s.ln()).collect();
    let found = mean(&logarithms)?;
    let interval = found.interval.filter(|_| samples.len() >= FEWEST_RATES);
    Some(Mean {
        // Of one rate to the last bit.
        value: if let [one] = samples { *one } else { found.value.exp() },
        samples: found.samples,
        interval: interval.map(|i| Interval { low: i.low.exp(), high: i.high.exp() }),
    })
}

/// Standard deviation over mean (0 to 1 and above), from the unbiased variance.
///
/// `None` below two samples or for a mean that is not positive.
pub fn coefficient_of_variation(samples: &[f64]) -> Option<f64> {
    let mean = mean(samples)?.value;
    (mean > 0.0).then_some(())?;
    Some(variance(samples, mean)?.sqrt() / mean)
}

/// The middle of the samples, or the middle between the two middle ones; `None` without samples.
pub fn median(samples: &[f64]) -> Option<f64> {
    if samples.is_empty() || samples.iter().any(|s| !s.is_finite()) {
        return None;
    }
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    Some(if sorted.len() % 2 == 1 { sorted[middle] } else { 0.5 * (sorted[middle - 1] + sorted[middle]) })
}

/// The unbiased variance about a known mean; `None` below two samples.
pub fn variance(samples: &[f64], mean: f64) -> Option<f64> {
    (samples.len() >= 2)
        .then(|| samples.iter().map(|s| (s - mean).powi(2)).sum::<f64>() / (samples.len() - 1) as f64)
}

/// The standard error of a mean, with its degrees of freedom; `None` below two samples.
pub(crate) fn standard_error(samples: &[f64], mean: f64) -> Option<(f64, f64)> {
    variance(samples, mean).map(|v| ((v / samples.len() as f64).sqrt(), (samples.len() - 1) as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_have_an_interval_above_zero_from_three_on() {
        // 1, 2 and 4 are 2 times or by 2: the deviation of the logarithms is ln 2, the t factor of two degrees 4.3027.
        let found = rate_mean(&[1.0, 2.0, 4.0]).unwrap();
        let half = 4.302_652_7 * std::f64::consts::LN_2 / 3.0_f64.sqrt();
        let interval = found.interval.unwrap();
        assert!(
            (found.value - 2.0).abs() < 1e-12 && (interval.low - 2.0 * (-half).exp()).abs() < 1e-6,
            "{found:?}"
        );
        assert!(interval.low > 0.0 && mean(&[1.0, 2.0, 4.0]).unwrap().interval.unwrap().low < 0.0);
        let two = rate_mean(&[1.0, 4.0]).unwrap();
        assert!((two.value - 2.0).abs() < 1e-12);
        assert_eq!((two.samples, two.interval), (2, None));
        assert_eq!(rate_mean(&[0.0, 0.0]), Some(Mean { value: 0.0, samples: 2, interval: None }));
        assert_eq!(rate_mean(&[]), None);
        assert_eq!(rate_mean(&[-1.0]), None);
        assert_eq!(rate_mean(&[f64::NAN]), None);
    }

    #[test]
    fn the_interval_of_a_worked_example() {
        // Mean 5, standard deviation 1 of 4 samples; t(0.975, 3) = 3.182: 5 ± 3.182 / 2 × 1.
        let samples = [4.0, 5.0, 5.0, 6.0];
        let deviation = (2.0_f64 / 3.0).sqrt();
        let found = mean(&samples).unwrap();
        assert_eq!((found.value, found.samples), (5.0, 4));
        let half = 3.182_446 * deviation / 2.0;
        assert!((found.interval.unwrap().half_width() - half).abs() < 1e-5);
        assert!((coefficient_of_variation(&samples).unwrap() - deviation / 5.0).abs() < 1e-12);
    }

    #[test]
    fn one_sample_has_no_interval_and_none_has_no_mean() {
        assert_eq!(mean(&[7.0]), Some(Mean { value: 7.0, samples: 1, interval: None }));
        assert_eq!(mean(&[]), None);
        assert_eq!(mean(&[1.0, f64::NAN]), None);
        assert_eq!(coefficient_of_variation(&[7.0]), None);
        assert_eq!(coefficient_of_variation(&[0.0, 0.0]), None);
    }

    #[test]
    fn the_median_lies_in_the_middle() {
        assert_eq!(median(&[9.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[9.0, 1.0, 2.0, 4.0]), Some(3.0));
        assert_eq!(median(&[]), None);
    }

    proptest::proptest! {
        #[test]
        fn the_interval_surrounds_the_mean_and_scales_with_the_unit(
            samples in proptest::collection::vec(0.1_f64..1e6, 2..20),
            unit in 0.001_f64..1000.0,
        ) {
            let found = mean(&samples).unwrap();
            let interval = found.interval.unwrap();
            proptest::prop_assert!(interval.contains(found.value));
            let scaled: Vec<f64> = samples.iter().map(|s| s * unit).collect();
            let scaled = mean(&scaled).unwrap().interval.unwrap();
            proptest::prop_assert!((scaled.half_width() - unit * interval.half_width()).abs() <= 1e-6 * scaled.high.abs());
        }
    }
}
