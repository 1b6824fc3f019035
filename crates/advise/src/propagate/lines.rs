//! Lines through what was taken, over a number of bytes.

use std::collections::{BTreeMap, BTreeSet};

use nestor_results::Resource;
use nestor_statistics::{Estimated, FittedLine};
use serde::Serialize;

use super::Taken;

/// Fewer different x do not show whether the points are on a line.
pub(super) const FEWEST: usize = 3;

/// A line is believed so many times further than it was measured; beyond, it is said to be an extrapolation.
const FURTHEST: f64 = 2.0;

/// What was measured of a line.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MeasuredRange {
    /// Runs.
    pub runs: Vec<i64>,
    /// Different numbers of bytes; below three the numbers have no interval.
    pub sizes: usize,
    /// The smallest of them.
    pub smallest_bytes: u64,
    /// The largest.
    pub largest_bytes: u64,
    /// How many times further than that the line was drawn, where it is more than twice.
    pub extrapolated: Option<f64>,
}

impl MeasuredRange {
    /// Of runs and their bytes, for what is asked; `None` without any.
    fn of(points: &[Point<'_>], asked_bytes: f64) -> Option<Self> {
        let sizes: BTreeSet<u64> = points.iter().map(|point| point.bytes).collect();
        let (smallest_bytes, largest_bytes) = (*sizes.first()?, *sizes.last()?);
        let mut runs: Vec<i64> = points.iter().map(|point| point.run).collect();
        runs.sort_unstable();
        let extrapolated = beyond(smallest_bytes, largest_bytes, asked_bytes);
        Some(Self { runs, sizes: sizes.len(), smallest_bytes, largest_bytes, extrapolated })
    }
}

/// How many times further than measured a number of bytes is, where it is more than twice.
pub(super) fn beyond(smallest_bytes: u64, largest_bytes: u64, asked_bytes: f64) -> Option<f64> {
    let asked_bytes = asked_bytes.max(1.0);
    let factor = (asked_bytes / largest_bytes as f64).max(smallest_bytes as f64 / asked_bytes);
    (factor > FURTHEST).then_some(factor)
}

/// What something of so many bytes took.
#[derive(Clone, Copy)]
pub(super) struct Point<'a> {
    pub run: i64,
    pub bytes: u64,
    pub taken: &'a Taken,
}

/// The lines of seconds and of each resource's demand.
pub(super) struct Lines<'a> {
    points: Vec<Point<'a>>,
    seconds: Line,
    demand_s: BTreeMap<Resource, Line>,
}

/// What is drawn through points.
struct Line {
    points: Vec<(f64, f64)>,
    fitted: Option<FittedLine>,
    /// Whether there are enough different x for an interval.
    has_interval: bool,
}

impl<'a> Lines<'a> {
    /// `None` without points.
    pub fn through(points: Vec<Point<'a>>) -> Option<Self> {
        let (first, others) = points.split_first()?;
        let through = |y: &dyn Fn(&Taken) -> f64| {
            Line::through(points.iter().map(|p| (p.bytes as f64, y(p.taken))).collect())
        };
        // One that was not always counted has no line.
        let counted = first
            .taken
            .demand_s
            .keys()
            .filter(|resource| others.iter().all(|point| point.taken.demand_s.contains_key(resource)));
        let demand_s = counted.map(|resource| (resource.clone(), through(&|taken| taken.demand_s[resource])));
        let demand_s = demand_s.collect();
        Some(Self { seconds: through(&|taken| taken.seconds), demand_s, points })
    }

    /// How many different numbers of bytes there are.
    pub fn sizes(&self) -> usize {
        self.points.iter().map(|point| point.bytes).collect::<BTreeSet<_>>().len()
    }

    /// What was measured of them.
    pub fn range(&self, asked_bytes: f64) -> Option<MeasuredRange> {
        MeasuredRange::of(&self.points, asked_bytes)
    }

    /// The line of the seconds; `None` if there are too few different x for one with an interval.
    pub fn of_seconds(&self) -> Option<&FittedLine> {
        self.seconds.fitted.as_ref().filter(|_| self.seconds.has_interval)
    }

    /// Seconds of one more at a number of bytes; `None` if that was not measured and there is no line.
    pub fn one_more_at(&self, bytes: f64) -> Option<Estimated> {
        self.seconds.at(bytes, FittedLine::one_more_at)
    }

    /// Their mean.
    pub fn mean_at(&self, bytes: f64) -> Option<Estimated> {
        self.seconds.at(bytes, FittedLine::mean_at)
    }

    /// The mean demands.
    pub fn demands_at(&self, bytes: f64) -> BTreeMap<Resource, Estimated> {
        let at = |(resource, line): (&Resource, &Line)| {
            Some((resource.clone(), line.at(bytes, FittedLine::mean_at)?))
        };
        self.demand_s.iter().filter_map(at).collect()
    }
}

impl Line {
    fn through(points: Vec<(f64, f64)>) -> Self {
        let different: BTreeSet<u64> = points.iter().map(|(x, _)| x.to_bits()).collect();
        let fitted = FittedLine::through(&points);
        Self { points, fitted, has_interval: different.len() >= FEWEST }
    }

    fn at(&self, x: f64, estimate: impl Fn(&FittedLine, f64) -> Estimated) -> Option<Estimated> {
        match &self.fitted {
            Some(line) if self.has_interval => Some(estimate(line, x)),
            Some(line) => Some(Estimated::of_unknown_error(line.at(x))),
            // All are of one size: it says nothing of others.
            None if self.points.iter().all(|(measured, _)| *measured == x) => {
                let sum: f64 = self.points.iter().map(|(_, y)| y).sum();
                Some(Estimated::of_unknown_error(sum / self.points.len() as f64))
            }
            None => None,
        }
    }
}
