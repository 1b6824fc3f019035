//! Did something change while the study ran, and when?
//!
//! E-divisive of Matteson and James (A Nonparametric Approach for Multiple Change Point Analysis of Multivariate Data,
//! J. Am. Statist. Assoc. 109, 2014), with exponent 1: it supposes no distribution and sees changes of the mean and of
//! the spread. The series is divided where the energy distance between the two sides is largest, and each division must
//! be larger than what the same values in random order give.

use serde::{Deserialize, Serialize};

use crate::random::SeededOrder;

/// Shorter series are not tested.
pub const FEWEST_VALUES: usize = 6;
/// The fewest values between two change points.
pub const SHORTEST_SEGMENT: usize = 3;
/// A change is one if chance alone makes as large a one in at most this share of the orders.
pub const SIGNIFICANCE: f64 = 0.05;
/// Random orders per test: p-values in steps of a thousandth.
const PERMUTATIONS: u32 = 999;
/// Longer series are tested by the means of neighbours, as many of them that there are no more than this.
const MOST_TESTED: usize = 48;

/// A place where a series changed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChangePoint {
    /// Index of the first value after the change.
    pub at: usize,
    /// Share of the random orders in which the largest change is at least as large, 0 to 1.
    pub p_value: f64,
}

/// The change points of a series, in its order; `None` if it is too short or has values that are not numbers.
///
/// The same seed gives the same answer. With 6 or 7 values no order of them is rarer than the significance asks for, so
/// nothing can be found yet: two clearly separated halves are seen from 8 values on.
pub fn change_points(series: &[f64], seed: u64) -> Option<Vec<ChangePoint>> {
    if series.len() < FEWEST_VALUES || series.iter().any(|v| !v.is_finite()) {
        return None;
    }
    let width = series.len().div_ceil(MOST_TESTED);
    if width == 1 {
        return Some(divisions(series, seed));
    }
    // What is left over at the end belongs to the last group.
    let groups = series.len() / width;
    let group = |i: usize| &series[i * width..if i + 1 == groups { series.len() } else { (i + 1) * width }];
    let means: Vec<f64> = (0..groups).map(|i| group(i).iter().sum::<f64>() / group(i).len() as f64).collect();
    let mut points = divisions(&means, seed);
    points.iter_mut().for_each(|point| point.at *= width);
    let rough = segments(&points, series.len());
    for (point, sides) in points.iter_mut().zip(rough.windows(2)) {
        point.at = largest_step(series, sides[0].0, sides[1].1, point.at, width);
    }
    Some(points)
}

/// Of the places within `reach` of `near`, the one that parts `from..to` into the two sides whose means differ most for
/// their lengths.
fn largest_step(series: &[f64], from: usize, to: usize, near: usize, reach: usize) -> usize {
    let sum = |from: usize, to: usize| series[from..to].iter().sum::<f64>();
    let difference = |at: usize| {
        let (left, right) = ((at - from) as f64, (to - at) as f64);
        (sum(from, at) / left - sum(at, to) / right).powi(2) * left * right / (left + right)
    };
    let places =
        (near + 1 - reach).max(from + SHORTEST_SEGMENT)..(near + reach).min(to - SHORTEST_SEGMENT + 1);
    places.max_by(|a, b| difference(*a).total_cmp(&difference(*b))).unwrap_or(near)
}

fn divisions(series: &[f64], seed: u64) -> Vec<ChangePoint> {
    let mut found: Vec<ChangePoint> = Vec::new();
    loop {
        let segments = segments(&found, series.len());
        let best = |values: &[f64], enough: f64| -> Option<(usize, Split)> {
            let splits = segments
                .iter()
                .filter_map(|&(from, to)| Some((from, best_split(&values[from..to], enough)?)));
            splits.max_by(|a, b| a.1.statistic.total_cmp(&b.1.statistic))
        };
        let Some((from, split)) = best(series, f64::INFINITY) else { break };
        // Sums of the same numbers in another order differ in the last digits.
        let enough = split.statistic * (1.0 - 1e-9);
        let mut random = SeededOrder::for_part(seed, found.len() as u64);
        let mut shuffled = series.to_vec();
        let mut as_large = 0;
        // So many make the change one of chance, whatever the other orders give.
        let too_many = (SIGNIFICANCE * f64::from(PERMUTATIONS + 1)) as u32;
        for _ in 0..PERMUTATIONS {
            segments.iter().for_each(|&(from, to)| random.shuffle(&mut shuffled[from..to]));
            let large = best(&shuffled, enough).is_some_and(|(_, s)| s.statistic >= enough);
            as_large += u32::from(large);
            if as_large >= too_many {
                break;
            }
        }
        let p_value = f64::from(as_large + 1) / f64::from(PERMUTATIONS + 1);
        if split.statistic <= 0.0 || p_value > SIGNIFICANCE {
            break;
        }
        found.push(ChangePoint { at: from + split.at, p_value });
        found.sort_by_key(|point| point.at);
    }
    found
}

/// The runs of values without a change, in order: from index, up to but not including.
pub fn segments(points: &[ChangePoint], length: usize) -> Vec<(usize, usize)> {
    let starts = std::iter::once(0).chain(points.iter().map(|p| p.at));
    let ends = points.iter().map(|p| p.at).chain(std::iter::once(length));
    starts.zip(ends).collect()
}

/// Where a segment is best divided.
#[derive(Clone, Copy)]
struct Split {
    at: usize,
    statistic: f64,
}

/// The division into `[0, at)` and `[at, end)` with the largest scaled energy distance, over all `at` and all `end`
/// (eq. 5 and 7 of the paper), or the first that is `enough`; `None` for a segment that is too short to divide.
fn best_split(values: &[f64], enough: f64) -> Option<Split> {
    let sums = DistanceSums::of(values);
    let mut best: Option<Split> = None;
    for at in SHORTEST_SEGMENT..=values.len().checked_sub(SHORTEST_SEGMENT)? {
        for end in at + SHORTEST_SEGMENT..=values.len() {
            let (left, right) = (at as f64, (end - at) as f64);
            let between = sums.block(0, at, at, end) / (left * right);
            // Each pair stands twice in a square block.
            let pairs = |n: f64| n * (n - 1.0);
            let within = sums.block(0, at, 0, at) / pairs(left) + sums.block(at, end, at, end) / pairs(right);
            let statistic = left * right / (left + right) * (2.0 * between - within);
            if best.is_none_or(|b| statistic > b.statistic) {
                best = Some(Split { at, statistic });
                if statistic >= enough {
                    return best;
                }
            }
        }
    }
    best
}

/// Sums of distances |a - b| over blocks of pairs, so that each division costs the same however long it is.
struct DistanceSums {
    width: usize,
    /// `sums[i * width + j]`: over all pairs of the first `i` with the first `j` values.
    sums: Vec<f64>,
}

impl DistanceSums {
    fn of(values: &[f64]) -> Self {
        let width = values.len() + 1;
        let mut sums = vec![0.0; width * width];
        for (i, a) in values.iter().enumerate() {
            let mut row = 0.0;
            for (j, b) in values.iter().enumerate() {
                row += (a - b).abs();
                sums[(i + 1) * width + j + 1] = sums[i * width + j + 1] + row;
            }
        }
        Self { width, sums }
    }

    /// Over the pairs of `rows_from..rows_to` with `columns_from..columns_to`.
    fn block(&self, rows_from: usize, rows_to: usize, columns_from: usize, columns_to: usize) -> f64 {
        let at = |row: usize, column: usize| self.sums[row * self.width + column];
        at(rows_to, columns_to) - at(rows_from, columns_to) - at(rows_to, columns_from)
            + at(rows_from, columns_from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_statistic_of_a_worked_example() {
        // {0, 0, 0} and {1, 1, 1}: 9 distances of 1 between them, none within: 3·3/6 · 2·1 = 3.
        let split = best_split(&[0.0, 0.0, 0.0, 1.0, 1.0, 1.0], f64::INFINITY).unwrap();
        assert_eq!(split.at, 3);
        assert!((split.statistic - 3.0).abs() < 1e-12);
        // {0, 1, 2} and {10, 11, 12}: mean between 10, mean within 4/3 each: 1.5 · (20 - 8/3) = 26.
        let split = best_split(&[0.0, 1.0, 2.0, 10.0, 11.0, 12.0], f64::INFINITY).unwrap();
        assert!((split.statistic - 26.0).abs() < 1e-9, "{}", split.statistic);
    }

    #[test]
    fn a_step_is_found_where_it_is() {
        let series = [100.0, 101.0, 99.5, 100.4, 100.1, 80.0, 81.0, 79.6, 80.3];
        let points = change_points(&series, 1).unwrap();
        assert_eq!(points.iter().map(|p| p.at).collect::<Vec<_>>(), [5]);
        assert!(points[0].p_value <= 0.05, "{points:?}");
        assert_eq!(segments(&points, series.len()), [(0, 5), (5, 9)]);
        assert_eq!(change_points(&series, 1).unwrap(), points);
    }

    #[test]
    fn two_steps_are_two_change_points() {
        let series: Vec<f64> =
            (0..18).map(|i| [100.0, 50.0, 200.0][i / 6] + [0.3, -0.8, 0.5, -0.2, 0.9, -0.4][i % 6]).collect();
        let points = change_points(&series, 1).unwrap();
        assert_eq!(points.iter().map(|p| p.at).collect::<Vec<_>>(), [6, 12]);
    }

    #[test]
    fn noise_has_a_change_point_in_about_one_series_of_twenty() {
        let mut random = SeededOrder::new(7);
        let series = |random: &mut SeededOrder| (0..12).map(|_| random.unit()).collect::<Vec<f64>>();
        let wrong = (0..200).filter(|_| !change_points(&series(&mut random), 3).unwrap().is_empty());
        let wrong = wrong.count();
        // 10 are expected; 20 or more would have a probability of 0.3 %.
        assert!((1..20).contains(&wrong), "{wrong} of 200");
    }

    #[test]
    fn long_series_are_tested_by_their_groups_and_parted_at_the_value() {
        let mut random = SeededOrder::new(5);
        let series: Vec<f64> =
            (0..1_001).map(|i| if i < 617 { 100.0 } else { 90.0 } + random.unit()).collect();
        let points = change_points(&series, 1).unwrap();
        assert_eq!(points.iter().map(|p| p.at).collect::<Vec<_>>(), [617], "{points:?}");
    }

    #[test]
    fn short_and_constant_series_have_none() {
        assert_eq!(change_points(&[1.0; 5], 1), None);
        assert_eq!(change_points(&[1.0, 2.0, 3.0, 4.0, 5.0, f64::NAN], 1), None);
        assert_eq!(change_points(&[1.0; 12], 1), Some(Vec::new()));
        assert_eq!(segments(&[], 12), [(0, 12)]);
        // A perfect step, but too few values for it to be rare.
        assert_eq!(change_points(&[1.0, 1.0, 1.0, 2.0, 2.0, 2.0], 1), Some(Vec::new()));
    }

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig::with_cases(16))]
        #[test]
        fn segments_are_never_shorter_than_allowed(
            series in proptest::collection::vec(0.0_f64..10.0, 6..20), seed in 0_u64..1000
        ) {
            let points = change_points(&series, seed).unwrap();
            for (from, to) in segments(&points, series.len()) {
                proptest::prop_assert!(to - from >= SHORTEST_SEGMENT);
            }
        }
    }
}
