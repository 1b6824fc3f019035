//! The seek curve: how long the arm takes for a distance.
//!
//! Short seeks are dominated by acceleration, which makes their time grow with the square root of the distance; long
//! ones coast at full speed, which makes it grow linearly (Ruemmler and Wilkes, "An introduction to disk drive
//! modeling", IEEE Computer 27(3), 1994). The two meet with equal value and equal slope:
//!
//! ```text
//! t(d) = a + b·d^p         for 1 ≤ d ≤ k, with p = 1/2
//! t(d) = c + e·d           for k ≤ d ≤ D
//! ```
//!
//! Published are t(1), t(D) and the mean over uniformly random pairs of cylinders. The further out the knee k, the
//! higher the mean between the same two ends, so k is found by bisection. Disks that are slow to start (many 2.5-inch
//! ones) have a higher mean than even k = D gives; for these p is lowered instead.

use crate::model::FiguresError;

/// A fitted curve; distances in cylinders, times in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SeekCurve {
    knee: f64,
    power: f64,
    power_base: f64,
    power_slope: f64,
    line_base: f64,
    line_slope: f64,
}

const SQUARE_ROOT: f64 = 0.5;
const LEAST_POWER: f64 = 0.05;

impl SeekCurve {
    /// Fits the curve of an arm that reaches `longest` cylinders far.
    ///
    /// # Errors
    /// The range in which the average must be so that a curve of this form exists.
    pub fn fit(single_ms: f64, average_ms: f64, full_ms: f64, longest: u32) -> Result<Self, FiguresError> {
        let longest = f64::from(longest);
        let ordered = 0.0 <= single_ms && single_ms < average_ms && average_ms < full_ms;
        if longest < 2.0 || !ordered {
            return Err(FiguresError::SeeksDoNotGrow { single_ms, average_ms, full_ms });
        }
        let with_knee = |knee: f64| Self::through(single_ms, full_ms, longest, knee, SQUARE_ROOT);
        let with_power = |power: f64| Self::through(single_ms, full_ms, longest, longest, power);
        let mean = |curve: Self| curve.mean_ms(longest);
        let (least_ms, most_ms) = (mean(with_knee(1.0)), mean(with_power(LEAST_POWER)));
        if average_ms < least_ms || average_ms > most_ms {
            return Err(FiguresError::AverageSeek { single_ms, average_ms, full_ms, least_ms, most_ms });
        }
        if average_ms <= mean(with_knee(longest)) {
            let knee = bisect(1.0, longest, |knee| mean(with_knee(knee)) < average_ms);
            Ok(with_knee(knee))
        } else {
            let power = bisect(LEAST_POWER, SQUARE_ROOT, |power| mean(with_power(power)) > average_ms);
            Ok(with_power(power))
        }
    }

    /// The curve through both ends with a given knee and power.
    fn through(single_ms: f64, full_ms: f64, longest: f64, knee: f64, power: f64) -> Self {
        // Equal slopes at the knee: line_slope = power_slope·p·k^(p−1). Then both ends give power_slope.
        let slope_at_knee = power * knee.powf(power - 1.0);
        let reach = knee.powf(power) - 1.0 + (longest - knee) * slope_at_knee;
        let power_slope = (full_ms - single_ms) / reach;
        let line_slope = power_slope * slope_at_knee;
        Self {
            knee,
            power,
            power_base: single_ms - power_slope,
            power_slope,
            line_base: full_ms - line_slope * longest,
            line_slope,
        }
    }

    /// The time for a distance of at least one cylinder.
    pub fn time_ms(&self, distance: f64) -> f64 {
        if distance >= self.knee {
            self.line_base + self.line_slope * distance
        } else if self.power == SQUARE_ROOT {
            self.power_base + self.power_slope * distance.sqrt()
        } else {
            self.power_base + self.power_slope * distance.powf(self.power)
        }
    }

    /// The mean over uniformly random pairs of different cylinders: a distance d among `longest` + 1 cylinders is as
    /// frequent as `longest` + 1 − d (the "weighted average of all possible seek combinations" of drive manuals).
    pub fn mean_ms(&self, longest: f64) -> f64 {
        // Sums of thousands of smooth terms: the integrals from 1/2 to longest + 1/2 are exact enough.
        let cylinders = longest + 1.0;
        // ∫ (cylinders − x)·x^q dx
        let moment = |q: f64, from: f64, to: f64| {
            let at = |x: f64| cylinders * x.powf(q + 1.0) / (q + 1.0) - x.powf(q + 2.0) / (q + 2.0);
            at(to) - at(from)
        };
        let (first, last) = (0.5, longest + 0.5);
        let knee = self.knee.clamp(first, last);
        let short =
            self.power_base * moment(0.0, first, knee) + self.power_slope * moment(self.power, first, knee);
        let long = self.line_base * moment(0.0, knee, last) + self.line_slope * moment(1.0, knee, last);
        (short + long) / moment(0.0, first, last)
    }
}

/// Where a condition that holds at `low` ceases to hold on the way to `high`.
fn bisect(mut low: f64, mut high: f64, holds: impl Fn(f64) -> bool) -> f64 {
    for _ in 0..100 {
        let middle = f64::midpoint(low, high);
        if holds(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ends_and_average_are_as_published() {
        let longest = 60_000;
        // Below and above what the square root alone gives.
        for (single, average, full) in [(2.0, 8.9, 21.0), (1.0, 12.0, 20.0)] {
            let curve = SeekCurve::fit(single, average, full, longest).unwrap();
            assert!((curve.time_ms(1.0) - single).abs() < 1e-9);
            assert!((curve.time_ms(f64::from(longest)) - full).abs() < 1e-9);
            // The mean again, summed instead of integrated.
            let cylinders = f64::from(longest) + 1.0;
            let weights = (1..=longest).map(|d| (cylinders - f64::from(d), curve.time_ms(f64::from(d))));
            let (weight, sum) =
                weights.fold((0.0, 0.0), |(w, s), (weight, time)| (w + weight, s + weight * time));
            assert!((sum / weight - average).abs() < 0.001, "{} instead of {average}", sum / weight);
        }
    }

    #[test]
    fn an_impossible_average_is_refused_with_the_possible_range() {
        insta::assert_snapshot!(
            SeekCurve::fit(1.0, 18.0, 20.0, 10_000).unwrap_err(),
            @"an average seek of 18 ms does not fit 1 ms for one cylinder and 20 ms for all; it must be between 7.33 and 16.35 ms"
        );
    }

    proptest! {
        #[test]
        fn a_longer_way_never_takes_less(share in 0.01f64..0.99, longest in 100u32..200_000) {
            let (single, full) = (0.8, 17.0);
            let longest_f = f64::from(longest);
            let low = SeekCurve::through(single, full, longest_f, 1.0, SQUARE_ROOT).mean_ms(longest_f);
            let high = SeekCurve::through(single, full, longest_f, longest_f, LEAST_POWER).mean_ms(longest_f);
            let curve = SeekCurve::fit(single, low + share * (high - low), full, longest).unwrap();
            let times: Vec<f64> =
                (0..=100).map(|i| curve.time_ms(1.0 + f64::from(i) / 100.0 * f64::from(longest - 1))).collect();
            prop_assert!(times.windows(2).all(|pair| pair[0] <= pair[1] + 1e-9));
            prop_assert!(times[0] >= single - 1e-9);
        }
    }
}
