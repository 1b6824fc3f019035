//! What a line says of a place: a number with the variance of its error, so that numbers of several lines can be added.

use super::{FittedLine, around};
use crate::student;
use crate::summary::Interval;

/// An estimate, and how far it may be off.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimated {
    value: f64,
    /// `None` where nothing says how far it may be off.
    error: Option<EstimationError>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct EstimationError {
    /// The squared standard error.
    pub squared: f64,
    /// Degrees of freedom from which that is known; infinite for what is known exactly.
    pub degrees: f64,
}

impl Estimated {
    /// A number without an error.
    pub const fn exactly(value: f64) -> Self {
        Self { value, error: Some(EstimationError { squared: 0.0, degrees: f64::INFINITY }) }
    }

    /// A number of which nothing says how far it may be off.
    pub const fn of_unknown_error(value: f64) -> Self {
        Self { value, error: None }
    }

    /// The estimate.
    pub fn value(&self) -> f64 {
        self.value
    }

    pub(super) fn error(&self) -> Option<EstimationError> {
        self.error
    }

    /// The sum with an estimate from other data.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self { value: self.value + other.value, error: joint(self.error, other.error) }
    }

    /// The difference from an estimate from other data.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        Self { value: self.value - other.value, error: joint(self.error, other.error) }
    }

    /// Its interval by Student's t. That of a sum has the fewest degrees of freedom of its parts
    /// ([`slope_difference`](super::slope_difference) says why).
    ///
    /// `None` where the error of a part is not known, or for a confidence that is not between 0 and 1.
    pub fn interval(&self, confidence: f64) -> Option<Interval> {
        let error = self.error?;
        if error.squared == 0.0 {
            return (0.0 < confidence && confidence < 1.0).then(|| around(self.value, 0.0));
        }
        Some(around(self.value, student::half_width(error.squared, error.degrees, confidence)?))
    }
}

fn joint(one: Option<EstimationError>, other: Option<EstimationError>) -> Option<EstimationError> {
    let (one, other) = (one?, other?);
    Some(EstimationError { squared: one.squared + other.squared, degrees: one.degrees.min(other.degrees) })
}

impl FittedLine {
    /// The mean of y at an x. Its interval is [`Self::interval_at`]; below three points on the line nothing says how far it may be off.
    pub fn mean_at(&self, x: f64) -> Estimated {
        self.estimated(x, self.squared_error_at(x))
    }

    /// One more y at an x: its error is that of the mean and its own (Draper and Smith, Applied Regression Analysis, 3rd ed., §3.1). Below
    /// three points on the line nothing says how far it may be off.
    pub fn one_more_at(&self, x: f64) -> Estimated {
        let own = self.error_variance();
        self.estimated(x, self.squared_error_at(x).zip(own).map(|(mean, own)| mean + own))
    }

    fn estimated(&self, x: f64, squared: Option<f64>) -> Estimated {
        let error = squared.map(|squared| EstimationError { squared, degrees: self.degrees() });
        Estimated { value: self.at(x), error }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SeededOrder;

    /// Points on x = −1, 0, 1 with residuals 1, −2, 1: a residual variance of 6 with one degree of freedom, Σ(x − x̄)² = 2.
    fn three() -> FittedLine {
        FittedLine::through(&[(-1.0, 5.0 - 2.0 + 1.0), (0.0, 5.0 - 2.0), (1.0, 5.0 + 2.0 + 1.0)]).unwrap()
    }

    #[test]
    fn one_more_errs_by_its_own_error_too() {
        let line = three();
        let t = (0.45 * std::f64::consts::PI).tan();
        let half = |estimated: Estimated| estimated.interval(0.90).unwrap().half_width();
        assert_eq!(line.mean_at(2.0).interval(0.90), line.interval_at(2.0, 0.90));
        assert!((half(line.mean_at(2.0)) - t * (6.0_f64 * (1.0 / 3.0 + 2.0)).sqrt()).abs() < 1e-6);
        assert!((half(line.one_more_at(2.0)) - t * (6.0_f64 * (1.0 + 1.0 / 3.0 + 2.0)).sqrt()).abs() < 1e-6);
        assert_eq!(line.mean_at(2.0).interval(1.0), None);
    }

    #[test]
    fn sums_and_differences_err_by_both() {
        let (line, half) = (three(), |e: Estimated| e.interval(0.95).unwrap().half_width());
        let one = line.mean_at(0.5);
        let (sum, difference) = (one.plus(one), one.minus(one));
        assert_eq!((sum.value(), difference.value()), (2.0 * one.value(), 0.0));
        assert!((half(sum) - half(one) * 2.0_f64.sqrt()).abs() < 1e-9);
        // An interval keeps its ends, so that half of its width is rounded.
        assert!((half(sum) / half(difference) - 1.0).abs() < 1e-12);
        assert!((half(one.plus(Estimated::exactly(3.0))) / half(one) - 1.0).abs() < 1e-12);
        assert_eq!(Estimated::exactly(3.0).interval(0.95), Some(Interval { low: 3.0, high: 3.0 }));
        let two = FittedLine::through(&[(0.0, 1.0), (1.0, 2.0)]).unwrap();
        assert_eq!((two.mean_at(3.0).value(), two.one_more_at(3.0).interval(0.95)), (4.0, None));
        assert_eq!(one.plus(two.mean_at(0.0)).interval(0.95), None);
    }

    /// In 4000 simulated studies, one more y beyond the measured x is within its interval as often as that says.
    #[test]
    fn one_more_is_within_its_interval() {
        const STUDIES: u32 = 4_000;
        let mut random = SeededOrder::new(1_978);
        let mut held = 0_u32;
        for _ in 0..STUDIES {
            let points: Vec<(f64, f64)> =
                (0..5).map(|x| (f64::from(x), 3.0 + 2.0 * f64::from(x) + random.normal())).collect();
            let line = FittedLine::through(&points).unwrap();
            let next = 3.0 + 2.0 * 8.0 + random.normal();
            held += u32::from(line.one_more_at(8.0).interval(0.95).unwrap().contains(next));
        }
        let share = 100.0 * f64::from(held) / f64::from(STUDIES);
        // Three standard errors of a share of 4000 around 95 %.
        assert!((share - 95.0).abs() <= 1.04, "{share}");
    }
}
