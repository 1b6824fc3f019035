//! Whether factors act on their own, by runs of one combination that were made more than once.

use std::collections::BTreeMap;

use super::{AdditiveRun, LackOfFit};
use crate::student;

/// Pivots below this share of the largest are zero.
const ZERO: f64 = 1e-9;
/// With more combinations than this the test is left out: its equations have an unknown for each.
const MOST_CELLS: usize = 400;

/// Holds what a model of this rank misses against the spread of runs of one combination (Draper and Smith, Applied Regression
/// Analysis, §2.1), of which the blocks' means are taken off too. `None` unless some combination was measured more than once.
pub(super) fn lack_of_fit(runs: &[AdditiveRun], rank: usize, residual_squares: f64) -> Option<LackOfFit> {
    let pure = Repeats::of(runs)?;
    let repeats = runs.len().checked_sub(pure.rank).filter(|repeats| *repeats > 0)?;
    let missed = pure.rank.checked_sub(rank).filter(|missed| *missed > 0)?;
    let pure_variance = pure.residual_squares / repeats as f64;
    let missed_variance = (residual_squares - pure.residual_squares).max(0.0) / missed as f64;
    if pure_variance <= 0.0 {
        return None;
    }
    let f = missed_variance / pure_variance;
    Some(LackOfFit {
        between_repeats: pure_variance.sqrt(),
        f,
        degrees: (missed, repeats),
        probability: exceeded(f, missed as f64, repeats as f64),
    })
}

/// The model of a mean for each combination and one for each block, with no factors.
struct Repeats {
    rank: usize,
    residual_squares: f64,
}

impl Repeats {
    fn of(runs: &[AdditiveRun]) -> Option<Self> {
        let mut cells: BTreeMap<&[usize], usize> = BTreeMap::new();
        let mut blocks: BTreeMap<usize, Vec<(usize, f64)>> = BTreeMap::new();
        for run in runs {
            let next = cells.len();
            let cell = *cells.entry(&run.levels).or_insert(next);
            blocks.entry(run.block).or_default().push((cell, run.rate.ln()));
        }
        if cells.len() == runs.len() || cells.len() > MOST_CELLS {
            return None;
        }
        // Reduced normal equations of the combinations after the blocks (Searle, Linear Models, 1971, §7.1).
        let mut normal = vec![vec![0.0; cells.len()]; cells.len()];
        let mut right = vec![0.0; cells.len()];
        for block in blocks.values() {
            let share = 1.0 / block.len() as f64;
            let mean = block.iter().map(|(_, log)| log).sum::<f64>() * share;
            let mut counts: BTreeMap<usize, f64> = BTreeMap::new();
            for (cell, log) in block {
                *counts.entry(*cell).or_default() += 1.0;
                right[*cell] += log - mean;
            }
            for (a, count_a) in &counts {
                normal[*a][*a] += count_a;
                for (b, count_b) in &counts {
                    normal[*a][*b] -= count_a * count_b * share;
                }
            }
        }
        let (effects, rank) = solve(normal, right);
        let residual_squares = blocks.values().map(|block| squares_in(block, &effects)).sum();
        Some(Self { rank: rank + blocks.len(), residual_squares })
    }
}

/// What is left of a block's logarithms after the effects of combinations and its own mean.
fn squares_in(block: &[(usize, f64)], effects: &[f64]) -> f64 {
    let left: Vec<f64> = block.iter().map(|(cell, log)| log - effects[*cell]).collect();
    let mean = left.iter().sum::<f64>() / left.len() as f64;
    left.iter().map(|left| (left - mean).powi(2)).sum()
}

/// A solution of consistent equations with a positive semidefinite matrix, by elimination, and the matrix's rank. Where a
/// pivot is zero so is all of its row: that unknown is free and set to zero.
fn solve(mut matrix: Vec<Vec<f64>>, mut right: Vec<f64>) -> (Vec<f64>, usize) {
    let size = right.len();
    let zero = ZERO * (0..size).map(|i| matrix[i][i]).fold(0.0, f64::max);
    let mut rank = 0;
    for pivot in 0..size {
        if matrix[pivot][pivot] <= zero {
            matrix[pivot].fill(0.0);
            continue;
        }
        rank += 1;
        let (above, below) = matrix.split_at_mut(pivot + 1);
        let line = &above[pivot];
        for (offset, other) in below.iter_mut().enumerate().filter(|(_, other)| other[pivot] != 0.0) {
            let times = other[pivot] / line[pivot];
            for (to, from) in other[pivot..].iter_mut().zip(&line[pivot..]) {
                *to -= times * from;
            }
            right[pivot + 1 + offset] -= times * right[pivot];
        }
    }
    let mut solution = vec![0.0; size];
    for row in (0..size).rev().filter(|row| matrix[*row][*row] > 0.0).collect::<Vec<_>>() {
        let known: f64 = (row + 1..size).map(|column| matrix[row][column] * solution[column]).sum();
        solution[row] = (right[row] - known) / matrix[row][row];
    }
    (solution, rank)
}

/// Probability that an F-distributed variable exceeds `f` (Abramowitz and Stegun, Handbook of Mathematical Functions,
/// 26.6.2).
fn exceeded(f: f64, above: f64, below: f64) -> f64 {
    student::incomplete_beta(0.5 * below, 0.5 * above, below / (below + above * f))
}
