//! Where two lines cross: a ratio of two differences, so its interval need not be one.

use super::{Estimated, FittedLine, fewer_degrees};
use crate::student;
use crate::summary::Interval;

/// Where two fitted lines cross.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Crossing {
    /// The x of the fitted lines' crossing, in the unit of x; `None` for parallel ones.
    pub at: Option<f64>,
    /// Where the true lines may cross; `None` below three points on a line, or for a confidence that is not between 0 and 1.
    pub may_be: Option<CrossingSet>,
}

/// The x at which two lines may cross.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CrossingSet {
    /// Between two ends.
    Within(Interval),
    /// At the low end or below it, or at the high end or above it: which line is the steeper one is open. An infinite end has nothing
    /// beyond it.
    Beyond(Interval),
    /// Anywhere: neither the slopes nor the heights can be told apart.
    Anywhere,
    /// Nowhere: the lines are parallel without any error.
    Nowhere,
}

impl CrossingSet {
    /// Whether the lines may cross at an x.
    pub fn contains(&self, x: f64) -> bool {
        match self {
            Self::Within(interval) => interval.contains(x),
            Self::Beyond(gap) => x <= gap.low || x >= gap.high,
            Self::Anywhere => true,
            Self::Nowhere => false,
        }
    }
}

/// Where two lines cross, by Fieller's theorem (J. Roy. Statist. Soc. B 16, 1954): every x at which the difference of the two lines cannot
/// be told from 0. The delta method would always give a bounded interval, and a far too narrow one where the slopes are hardly told
/// apart.
///
/// The test of each x is that of [`slope_difference`](super::slope_difference), which pools no variances: the set is bounded just where
/// the slopes are told apart.
pub fn crossing(first: &FittedLine, second: &FittedLine, confidence: f64) -> Crossing {
    crossing_apart(first, second, Estimated::exactly(0.0), confidence)
}

/// The same where the first line is higher than its points by `head`, in the unit of y: by what other data say of something that comes before.
/// Its error counts as theirs do.
pub fn crossing_apart(first: &FittedLine, second: &FittedLine, head: Estimated, confidence: f64) -> Crossing {
    let difference = Difference::of(first, second, head);
    let steepness = first.slope - second.slope;
    let at = (steepness != 0.0).then(|| difference.origin - difference.height / steepness);
    let degrees = head.error().map_or(0.0, |error| error.degrees).min(fewer_degrees(first, second));
    let squared_t = student::two_sided_factor(confidence, degrees).map(|t| t * t);
    let may_be = squared_t.and_then(|squared_t| difference.where_none(squared_t));
    Crossing { at: at.filter(|x| x.is_finite()), may_be }
}

/// The difference of two lines at a distance from an origin between them.
struct Difference {
    /// The x from which distances count; far from it, squares would lose their digits.
    origin: f64,
    /// The difference at the origin, and for each unit of distance.
    height: f64,
    slope: f64,
    /// The squared standard error of the difference, as a polynomial of the distance u: `[0] + 2·[1]·u + [2]·u²`.
    squared_error: Option<[f64; 3]>,
}

impl Difference {
    fn of(first: &FittedLine, second: &FittedLine, head: Estimated) -> Self {
        let origin = (first.mean_x + second.mean_x) / 2.0;
        let squared_error = |line: &FittedLine| {
            let of_slope = line.squared_error_of_slope()?;
            Some([line.squared_error_at(origin)?, of_slope * (origin - line.mean_x), of_slope])
        };
        let squared_error = squared_error(first)
            .zip(squared_error(second))
            .map(|(a, b): ([f64; 3], [f64; 3])| std::array::from_fn(|i| a[i] + b[i]))
            .zip(head.error())
            .map(|([level, tilt, bend], head)| [level + head.squared, tilt, bend]);
        Self {
            origin,
            height: head.value() + first.at(origin) - second.at(origin),
            slope: first.slope - second.slope,
            squared_error,
        }
    }

    /// Where the square of the difference is at most `squared_t` times its squared standard error: a quadratic inequality
    /// a·u² + 2·b·u + c ≤ 0.
    fn where_none(&self, squared_t: f64) -> Option<CrossingSet> {
        let [level, tilt, bend] = self.squared_error?;
        let a = self.slope * self.slope - squared_t * bend;
        let b = self.height * self.slope - squared_t * tilt;
        let c = self.height * self.height - squared_t * level;
        let place = |distance: f64| self.origin + distance;
        if a == 0.0 {
            let edge = place(-c / (2.0 * b));
            return Some(match b {
                0.0 if c > 0.0 => CrossingSet::Nowhere,
                0.0 => CrossingSet::Anywhere,
                b if b > 0.0 => CrossingSet::Beyond(Interval { low: edge, high: f64::INFINITY }),
                _ => CrossingSet::Beyond(Interval { low: f64::NEG_INFINITY, high: edge }),
            });
        }
        let discriminant = b * b - a * c;
        if a < 0.0 && discriminant <= 0.0 {
            return Some(CrossingSet::Anywhere);
        }
        // Where the slopes are told apart the fitted crossing is in the set, so that only rounding takes it below zero.
        let root = discriminant.max(0.0).sqrt();
        let (one, other) = roots(a, b, c, root);
        let ends = Interval { low: place(one.min(other)), high: place(one.max(other)) };
        let is_finite = ends.low.is_finite() && ends.high.is_finite();
        let set = if a > 0.0 { CrossingSet::Within(ends) } else { CrossingSet::Beyond(ends) };
        is_finite.then_some(set)
    }
}

/// The roots of a·u² + 2·b·u + c without the difference of nearly equal numbers (Press and others, Numerical Recipes, §5.6).
fn roots(a: f64, b: f64, c: f64, root: f64) -> (f64, f64) {
    let q = -(b + root.copysign(b));
    if q == 0.0 { (0.0, 0.0) } else { (q / a, c / q) }
}
