//! A straight line through points by ordinary least squares, and how far its slope, its intercept and its crossing with another line
//! can be trusted.
//!
//! The intervals take the x as given and the errors of the y as independent, normal and of one deviation along the line. With two points
//! a line has no residuals, and so no interval.

mod crossing;
mod estimated;
#[cfg(test)]
mod tests;

pub use crossing::{Crossing, CrossingSet, crossing, crossing_apart};
pub use estimated::Estimated;

use crate::student;
use crate::summary::Interval;

/// Parameters of a line, which the residuals have lost as degrees of freedom.
const PARAMETERS: usize = 2;

/// The line of least squares through points.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FittedLine {
    points: usize,
    mean_x: f64,
    mean_y: f64,
    /// Sum of the squared distances of the x from their mean.
    square_x: f64,
    slope: f64,
    /// Sum of the squared distances of the y from the line.
    residual_square: f64,
}

impl FittedLine {
    /// The line through `(x, y)` points.
    ///
    /// `None` for points that are not finite, or whose x are all equal: then no line or every line fits.
    pub fn through(points: &[(f64, f64)]) -> Option<Self> {
        let count = points.len() as f64;
        let mean_x = points.iter().map(|(x, _)| x).sum::<f64>() / count;
        let mean_y = points.iter().map(|(_, y)| y).sum::<f64>() / count;
        let (covariance, square_x) = points
            .iter()
            .fold((0.0, 0.0), |(c, s), (x, y)| (c + (x - mean_x) * (y - mean_y), s + (x - mean_x).powi(2)));
        // Equal x whose sum is rounded are not quite at their mean.
        let is_steep = points.iter().all(|(x, _)| *x == points[0].0);
        if is_steep || square_x == 0.0 {
            return None;
        }
        let slope = covariance / square_x;
        let residual = |(x, y): &(f64, f64)| (y - mean_y - slope * (x - mean_x)).powi(2);
        let residual_square = points.iter().map(residual).sum::<f64>();
        let line = Self { points: points.len(), mean_x, mean_y, square_x, slope, residual_square };
        [mean_x, mean_y, square_x, slope, residual_square].iter().all(|n| n.is_finite()).then_some(line)
    }

    /// How many points it is through.
    pub fn points(&self) -> usize {
        self.points
    }

    /// By how much y rises for each unit of x, in units of y.
    pub fn slope(&self) -> f64 {
        self.slope
    }

    /// The y at an x, in the unit of y; at 0, the intercept.
    pub fn at(&self, x: f64) -> f64 {
        self.mean_y + self.slope * (x - self.mean_x)
    }

    /// The y at x = 0, in the unit of y.
    pub fn intercept(&self) -> f64 {
        self.at(0.0)
    }

    /// The interval of the slope, by Student's t with n − 2 degrees of freedom (Draper and Smith, Applied Regression Analysis, 3rd ed.,
    /// §1.4, eq. 1.4.7).
    ///
    /// `None` below three points, or for a confidence that is not between 0 and 1.
    pub fn slope_interval(&self, confidence: f64) -> Option<Interval> {
        let half = student::half_width(self.squared_error_of_slope()?, self.degrees(), confidence)?;
        Some(around(self.slope, half))
    }

    /// The interval of the mean of y at an x, by Student's t with n − 2 degrees of freedom (Draper and Smith, §3.1, eq. 3.1.6).
    ///
    /// `None` as for the slope.
    pub fn interval_at(&self, x: f64, confidence: f64) -> Option<Interval> {
        let half = student::half_width(self.squared_error_at(x)?, self.degrees(), confidence)?;
        Some(around(self.at(x), half))
    }

    /// The interval of the intercept (Draper and Smith, §1.4, eq. 1.4.10): that of the mean at 0.
    ///
    /// `None` as for the slope.
    pub fn intercept_interval(&self, confidence: f64) -> Option<Interval> {
        self.interval_at(0.0, confidence)
    }

    /// Degrees of freedom of the residuals.
    fn degrees(&self) -> f64 {
        self.points.saturating_sub(PARAMETERS) as f64
    }

    /// The variance of the errors; `None` below three points.
    fn error_variance(&self) -> Option<f64> {
        (self.points > PARAMETERS).then(|| self.residual_square / self.degrees())
    }

    fn squared_error_of_slope(&self) -> Option<f64> {
        Some(self.error_variance()? / self.square_x)
    }

    /// Of the mean at an x: of the middle's height, and of the slope by the distance from there.
    fn squared_error_at(&self, x: f64) -> Option<f64> {
        let shares = 1.0 / self.points as f64 + (x - self.mean_x).powi(2) / self.square_x;
        Some(self.error_variance()? * shares)
    }
}

/// The slope of the first line less that of the second, with its interval.
///
/// The lines may have errors of different deviations, so the variances are not pooled: Welch's t (Biometrika 29, 1938), whose variances are
/// here those of the slopes. It has the fewer of the two lines' n − 2 degrees of freedom, with which the interval misses in at most
/// 1 − `confidence` (Mickey and Brown, Ann. Math. Statist. 37, 1966). With Satterthwaite's, two lines through three points each would miss
/// more often.
///
/// No interval below three points on a line, or for a confidence that is not between 0 and 1.
pub fn slope_difference(first: &FittedLine, second: &FittedLine, confidence: f64) -> (f64, Option<Interval>) {
    let difference = first.slope - second.slope;
    let squared = first.squared_error_of_slope().zip(second.squared_error_of_slope());
    let half =
        squared.and_then(|(a, b)| student::half_width(a + b, fewer_degrees(first, second), confidence));
    (difference, half.map(|half| around(difference, half)))
}

/// Degrees of freedom of what is compared of two lines.
fn fewer_degrees(first: &FittedLine, second: &FittedLine) -> f64 {
    first.degrees().min(second.degrees())
}

fn around(value: f64, half: f64) -> Interval {
    Interval { low: value - half, high: value + half }
}
