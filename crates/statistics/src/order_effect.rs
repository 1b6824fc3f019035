//! Does it matter when a run had its turn?
//!
//! A run's residual is what its own cell does not explain: the logarithm of its throughput less the mean of its cell's.
//! Residuals that rise or fall with the position in the order say that something carried over from run to run: a disk
//! that fills, a host that warms up (Duplyakin and others, Avoiding the Ordering Trap in Systems Performance
//! Measurement, USENIX ATC 2023).

use serde::{Deserialize, Serialize};

use crate::line::FittedLine;
use crate::random::SeededOrder;
use crate::student;

/// Fewer runs are not tested.
pub const FEWEST_RUNS: usize = 6;
/// Up to so many runs all orders are tried: 40 320.
const ALL_ORDERS_UP_TO: usize = 8;
/// Up to so many runs random orders are tried; beyond, the t approximation is exact enough.
const RANDOM_ORDERS_UP_TO: usize = 40;
/// Random orders per test.
const PERMUTATIONS: u32 = 1_999;

/// How residuals go with the order.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct OrderEffect {
    /// Spearman's rank correlation of residual and position, -1 to 1.
    pub correlation: f64,
    /// Probability of one at least as strong, in either direction, if the order does not matter.
    pub p_value: f64,
    /// How much the line fitted through the residuals changes from the first position to the last, as a ratio: 0.95 is
    /// 5 % slower at the end.
    pub last_over_first: f64,
    /// Runs that were tested.
    pub runs: usize,
}

/// Tests `(position, residual)` pairs; `None` for too few, for equal positions or residuals, or what is not a number.
///
/// All orders are tried for few runs and random ones, fixed by the seed, for more (permutation test); for many the
/// p-value is that of t = r·√((n - 2)/(1 - r²)) with n - 2 degrees of freedom (Kendall and Gibbons, Rank Correlation
/// Methods, 5th edition, §4.18).
pub fn order_effect(residuals: &[(f64, f64)], seed: u64) -> Option<OrderEffect> {
    let finite = residuals.iter().all(|(p, r)| p.is_finite() && r.is_finite());
    if residuals.len() < FEWEST_RUNS || !finite {
        return None;
    }
    let (positions, values): (Vec<f64>, Vec<f64>) = residuals.iter().copied().unzip();
    let (first, second) = (centred_ranks(&positions), centred_ranks(&values));
    let correlation = correlation(&first, &second)?;
    let p_value = match residuals.len() {
        n if n <= ALL_ORDERS_UP_TO => all_orders(&first, &second),
        n if n <= RANDOM_ORDERS_UP_TO => random_orders(&first, &second, seed),
        n => by_t(correlation, n as f64),
    };
    let last_over_first = fitted_change(&positions, &values).exp();
    Some(OrderEffect { correlation, p_value, last_over_first, runs: residuals.len() })
}

/// Spearman's rank correlation of pairs, -1 to 1; `None` with fewer than three, if one side is all alike, or for what is not a
/// number.
pub fn rank_correlation(pairs: &[(f64, f64)]) -> Option<f64> {
    if pairs.len() < 3 || !pairs.iter().all(|(a, b)| a.is_finite() && b.is_finite()) {
        return None;
    }
    let (first, second): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
    correlation(&centred_ranks(&first), &centred_ranks(&second))
}

/// Of centred values; `None` if one side is all alike.
fn correlation(first: &[f64], second: &[f64]) -> Option<f64> {
    let norm = (product(first, first) * product(second, second)).sqrt();
    (norm > 0.0).then(|| (product(first, second) / norm).clamp(-1.0, 1.0))
}

/// Ranks from 1, the mean of them for equal values, less their mean.
fn centred_ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|a, b| values[*a].total_cmp(&values[*b]));
    let mut ranks = vec![0.0; values.len()];
    let mut from = 0;
    for equals in order.chunk_by(|a, b| values[*a] == values[*b]) {
        let middle = from as f64 + (equals.len() as f64 + 1.0) / 2.0;
        equals.iter().for_each(|index| ranks[*index] = middle);
        from += equals.len();
    }
    let mean = (values.len() as f64 + 1.0) / 2.0;
    ranks.iter().map(|rank| rank - mean).collect()
}

fn product(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Ranks and their products are multiples of a quarter, so a sum that is smaller by less is the same sum.
const LESS_THAN_A_STEP: f64 = 1e-6;

/// The share of all orders whose correlation is at least as strong (Heap's algorithm goes through them).
fn all_orders(fixed: &[f64], moved: &[f64]) -> f64 {
    let strength = product(fixed, moved).abs() - LESS_THAN_A_STEP;
    let mut moved = moved.to_vec();
    let mut turns = vec![0; moved.len()];
    let (mut as_strong, mut orders, mut at) = (1_u32, 1_u32, 1);
    while at < moved.len() {
        if turns[at] >= at {
            turns[at] = 0;
            at += 1;
            continue;
        }
        let with = if at % 2 == 0 { 0 } else { turns[at] };
        moved.swap(with, at);
        as_strong += u32::from(product(fixed, &moved).abs() >= strength);
        orders += 1;
        turns[at] += 1;
        at = 1;
    }
    f64::from(as_strong) / f64::from(orders)
}

fn random_orders(fixed: &[f64], moved: &[f64], seed: u64) -> f64 {
    let strength = product(fixed, moved).abs() - LESS_THAN_A_STEP;
    let mut random = SeededOrder::new(seed);
    let mut moved = moved.to_vec();
    let as_strong = (0..PERMUTATIONS).filter(|_| {
        random.shuffle(&mut moved);
        product(fixed, &moved).abs() >= strength
    });
    // The order that was seen is one of them.
    f64::from(as_strong.count() as u32 + 1) / f64::from(PERMUTATIONS + 1)
}

fn by_t(correlation: f64, runs: f64) -> f64 {
    if correlation.abs() >= 1.0 {
        return 0.0;
    }
    let t = correlation.abs() * ((runs - 2.0) / (1.0 - correlation * correlation)).sqrt();
    2.0 * (1.0 - student::cumulative(t, runs - 2.0))
}

/// Change along the line of least squares from the smallest position to the largest.
fn fitted_change(positions: &[f64], values: &[f64]) -> f64 {
    let points: Vec<(f64, f64)> = positions.iter().copied().zip(values.iter().copied()).collect();
    let (low, high) = positions.iter().fold((f64::MAX, f64::MIN), |(l, h), p| (l.min(*p), h.max(*p)));
    FittedLine::through(&points).map_or(0.0, |line| line.slope() * (high - low))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_agree_whatever_the_scale() {
        let squares: Vec<(f64, f64)> = (1..9).map(|i| (f64::from(i), f64::from(i * i))).collect();
        assert_eq!(rank_correlation(&squares), Some(1.0));
        let falling: Vec<(f64, f64)> = squares.iter().map(|(a, b)| (*a, -b)).collect();
        assert_eq!(rank_correlation(&falling), Some(-1.0));
        assert_eq!(rank_correlation(&[(1.0, 2.0), (2.0, 2.0), (3.0, 2.0)]), None);
        assert_eq!(rank_correlation(&squares[..2]), None);
    }

    fn in_order(values: &[f64]) -> Vec<(f64, f64)> {
        values.iter().enumerate().map(|(i, v)| (i as f64, *v)).collect()
    }

    #[test]
    fn a_rising_line_is_the_rarest_order_of_all() {
        let found = order_effect(&in_order(&[0.0, 0.01, 0.02, 0.03, 0.04, 0.05]), 1).unwrap();
        assert!((found.correlation - 1.0).abs() < 1e-12);
        // Itself and its reverse, of 6! orders.
        assert!((found.p_value - 2.0 / 720.0).abs() < 1e-12, "{found:?}");
        assert!((found.last_over_first - 0.05_f64.exp()).abs() < 1e-9);
    }

    #[test]
    fn the_correlation_of_a_worked_example() {
        // Ranks 1 2 3 4 5 6 against 2 1 4 3 6 5: 1 - 6·6/(6·35) = 0.8286. The exact two-sided p-value of 0.829 at n = 6 is
        // 0.058 (Zar, J. Am. Statist. Assoc. 67, 1972: the 5 % point is 0.886, the 10 % point 0.829).
        let found = order_effect(&in_order(&[2.0, 1.0, 4.0, 3.0, 6.0, 5.0]), 1).unwrap();
        assert!((found.correlation - (1.0 - 36.0 / 210.0)).abs() < 1e-12);
        assert!((0.05..=0.10).contains(&found.p_value), "{found:?}");
        // 42 of the 720 orders.
        assert!((found.p_value - 42.0 / 720.0).abs() < 1e-12, "{found:?}");
    }

    #[test]
    fn random_orders_and_t_agree_with_each_other() {
        let values: Vec<f64> =
            (0..40).map(|i| f64::from(i) * 0.02 + f64::from((i * 17) % 40) * 0.05).collect();
        let by_orders = order_effect(&in_order(&values), 1).unwrap();
        let approximate = by_t(by_orders.correlation, 40.0);
        assert!((by_orders.p_value - approximate).abs() < 0.01, "{by_orders:?} {approximate}");
        assert_eq!(order_effect(&in_order(&values), 1).unwrap(), by_orders);
    }

    #[test]
    fn equal_residuals_share_their_rank() {
        assert_eq!(centred_ranks(&[5.0, 1.0, 5.0, 9.0]), [0.0, -1.5, 0.0, 1.5]);
        assert_eq!(order_effect(&in_order(&[1.0; 9]), 1), None);
        assert_eq!(order_effect(&in_order(&[1.0, 2.0, 3.0]), 1), None);
    }

    proptest::proptest! {
        #[test]
        fn the_other_way_round_is_as_likely_and_has_the_other_sign(
            values in proptest::collection::vec(-1.0_f64..1.0, 6..8)
        ) {
            let forth = order_effect(&in_order(&values), 1).unwrap();
            let reversed: Vec<f64> = values.iter().rev().copied().collect();
            let back = order_effect(&in_order(&reversed), 1).unwrap();
            proptest::prop_assert!((forth.correlation + back.correlation).abs() < 1e-9);
            proptest::prop_assert!((forth.p_value - back.p_value).abs() < 1e-9);
            proptest::prop_assert!((forth.last_over_first * back.last_over_first - 1.0).abs() < 1e-9);
        }
    }
}
