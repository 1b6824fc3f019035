//! The additive model of throughput: each level of each factor multiplies it by its own ratio, each block by another.
//!
//! ln(rate) = mean + effect of each factor's level + effect of the block + error, fitted by least squares. The normal
//! equations are written with one column for every level, so they are singular; their pseudo-inverse (by Jacobi's
//! eigenvalues) gives the same answer as any choice of contrasts for everything that the runs tell, and shows what they do
//! not tell (Searle, Linear Models, 1971, §5.4: a function is estimable if it lies in the space of the rows).

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::ratio::Ratio;
use crate::student;
use crate::summary::{CONFIDENCE, Interval};

/// Eigenvalues below this share of the largest are zero: the columns are of zeros and ones.
const ZERO: f64 = 1e-9;

/// One measured run.
#[derive(Clone, Debug, PartialEq)]
pub struct AdditiveRun {
    /// The level of each factor, from 0.
    pub levels: Vec<usize>,
    /// The block it was measured in; any numbers.
    pub block: usize,
    /// What was measured, in any unit; a positive number.
    pub rate: f64,
}

/// What the model expects of a combination.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Prediction {
    /// The rate in a block like the mean of all blocks, in the unit of the runs.
    pub value: f64,
    /// Where one more run would be found with 95 % probability; `None` if all runs are needed for the effects.
    pub interval: Option<Interval>,
}

/// What one level of a factor does, all else equal.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LevelEffect {
    /// The factor, from 0.
    pub factor: usize,
    /// The level, from 0.
    pub level: usize,
    /// Rate with this level over the geometric mean of all its factor's levels.
    pub value: f64,
    /// Its 95 % interval; `None` if all runs are needed for the effects.
    pub interval: Option<Interval>,
}

/// Whether the factors act on their own.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LackOfFit {
    /// Standard deviation between runs of one combination, as a share (0.05 is 5 %).
    pub between_repeats: f64,
    /// F of what the model misses beyond that.
    pub f: f64,
    /// Degrees of freedom of what it misses, and of the repeats.
    pub degrees: (usize, usize),
    /// Probability of an F as large if the factors do act on their own.
    pub probability: f64,
}

/// A fitted model.
#[derive(Clone, Debug, PartialEq)]
pub struct AdditiveModel {
    level_counts: Vec<usize>,
    blocks: usize,
    coefficients: Vec<f64>,
    /// Pseudo-inverse of X'X.
    inverse: Vec<Vec<f64>>,
    /// Directions about which the runs tell nothing.
    untold: Vec<Vec<f64>>,
    runs: usize,
    rank: usize,
    residual_squares: f64,
    lack_of_fit: Option<LackOfFit>,
}

impl AdditiveModel {
    /// Fits the model. `None` without runs, or if one has a rate that is not positive or a level that its factor lacks.
    pub fn fit(level_counts: &[usize], runs: &[AdditiveRun]) -> Option<Self> {
        let numbers: BTreeSet<usize> = runs.iter().map(|run| run.block).collect();
        let blocks: BTreeMap<usize, usize> = numbers.into_iter().zip(0..).collect();
        let mut rows = Vec::new();
        let mut logs = Vec::new();
        for run in runs {
            let fits = run.levels.len() == level_counts.len()
                && run.levels.iter().zip(level_counts).all(|(level, count)| level < count);
            if !fits || !run.rate.is_finite() || run.rate <= 0.0 {
                return None;
            }
            rows.push(indicators(
                level_counts,
                &run.levels,
                |block| blocks[&run.block] == block,
                blocks.len(),
            ));
            logs.push(run.rate.ln());
        }
        let fitted = least_squares(&rows, &logs)?;
        let mut model = Self {
            level_counts: level_counts.to_vec(),
            blocks: blocks.len(),
            coefficients: fitted.coefficients,
            inverse: fitted.inverse,
            untold: fitted.untold,
            runs: runs.len(),
            rank: fitted.rank,
            residual_squares: fitted.residual_squares,
            lack_of_fit: None,
        };
        model.lack_of_fit = model.test_against_repeats(runs, &blocks, &logs);
        Some(model)
    }

    /// What is expected of a combination; `None` if the runs do not tell.
    pub fn predict(&self, levels: &[usize]) -> Option<Prediction> {
        let (log, variance) = self.estimate(&self.mean_block_row(levels)?)?;
        // One run more has its own error, and a combination that is unlike its factors' sum has it too.
        let half = self.half_width(variance + 1.0);
        Some(Prediction { value: log.exp(), interval: half.map(|half| around(log, half)) })
    }

    /// One combination over another; `None` if the runs do not tell. `pairs` is the number of runs beyond those needed
    /// for the effects.
    pub fn ratio(&self, baseline: &[usize], candidate: &[usize]) -> Option<Ratio> {
        let (from, to) = (self.mean_block_row(baseline)?, self.mean_block_row(candidate)?);
        let contrast: Vec<f64> = to.iter().zip(&from).map(|(to, from)| to - from).collect();
        let (log, variance) = self.estimate(&contrast)?;
        let interval = self.half_width(variance).map(|half| around(log, half));
        Some(Ratio { value: log.exp(), interval, pairs: self.degrees_of_freedom() })
    }

    /// The effects of all levels of factors with more than one, as far as the runs tell.
    pub fn effects(&self) -> Vec<LevelEffect> {
        let mut effects = Vec::new();
        for (factor, count) in self.level_counts.iter().enumerate().filter(|(_, count)| **count > 1) {
            let first = 1 + self.level_counts[..factor].iter().sum::<usize>();
            for level in 0..*count {
                let mut contrast = vec![0.0; self.coefficients.len()];
                for other in 0..*count {
                    contrast[first + other] = f64::from(u8::from(other == level)) - 1.0 / *count as f64;
                }
                if let Some((log, variance)) = self.estimate(&contrast) {
                    let interval = self.half_width(variance).map(|half| around(log, half));
                    effects.push(LevelEffect { factor, level, value: log.exp(), interval });
                }
            }
        }
        effects
    }

    /// Runs beyond those needed for the effects.
    pub fn degrees_of_freedom(&self) -> usize {
        self.runs - self.rank
    }

    /// Standard deviation of what the model misses, as a share (0.05 is 5 %); `None` if all runs are needed for the
    /// effects.
    pub fn residual_deviation(&self) -> Option<f64> {
        self.variance().map(f64::sqrt)
    }

    /// Whether the factors act on their own; `None` unless some combination was measured more than once.
    pub fn lack_of_fit(&self) -> Option<LackOfFit> {
        self.lack_of_fit
    }

    fn variance(&self) -> Option<f64> {
        let degrees = self.degrees_of_freedom();
        (degrees > 0).then(|| self.residual_squares / degrees as f64)
    }

    /// Half of a 95 % interval of something with `variance` in units of the error's.
    fn half_width(&self, variance: f64) -> Option<f64> {
        let factor = student::two_sided_factor(CONFIDENCE, self.degrees_of_freedom() as f64)?;
        Some(factor * (self.variance()? * variance.max(0.0)).sqrt())
    }

    fn mean_block_row(&self, levels: &[usize]) -> Option<Vec<f64>> {
        let fits = levels.len() == self.level_counts.len()
            && levels.iter().zip(&self.level_counts).all(|(level, count)| level < count);
        let mut row = fits.then(|| indicators(&self.level_counts, levels, |_| false, self.blocks))?;
        let first = row.len() - self.blocks;
        row[first..].fill(1.0 / self.blocks as f64);
        Some(row)
    }

    /// The value of a linear function of the coefficients and its variance; `None` if the runs do not tell it.
    fn estimate(&self, row: &[f64]) -> Option<(f64, f64)> {
        let told = self.untold.iter().all(|direction| dot(direction, row).abs() < 1e-6);
        let spread: Vec<f64> = self.inverse.iter().map(|line| dot(line, row)).collect();
        told.then(|| (dot(&self.coefficients, row), dot(&spread, row)))
    }

    /// Holds what the model misses against the spread of runs of one combination (Draper and Smith, Applied Regression
    /// Analysis, §2.1), of which the blocks' means are taken off too.
    fn test_against_repeats(
        &self,
        runs: &[AdditiveRun],
        blocks: &BTreeMap<usize, usize>,
        logs: &[f64],
    ) -> Option<LackOfFit> {
        let distinct: BTreeSet<&Vec<usize>> = runs.iter().map(|run| &run.levels).collect();
        let cells: BTreeMap<&Vec<usize>, usize> = distinct.into_iter().zip(0..).collect();
        if cells.len() == runs.len() {
            return None;
        }
        let rows: Vec<Vec<f64>> = runs
            .iter()
            .map(|run| {
                indicators(&[cells.len()], &[cells[&run.levels]], |b| blocks[&run.block] == b, blocks.len())
            })
            .collect();
        let pure = least_squares(&rows, logs)?;
        let repeats = runs.len() - pure.rank;
        let missed = pure.rank.checked_sub(self.rank).filter(|missed| *missed > 0)?;
        if repeats == 0 {
            return None;
        }
        let pure_variance = pure.residual_squares / repeats as f64;
        let missed_variance = (self.residual_squares - pure.residual_squares).max(0.0) / missed as f64;
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
}

/// Probability that an F-distributed variable exceeds `f` (Abramowitz and Stegun, Handbook of Mathematical Functions,
/// 26.6.2).
fn exceeded(f: f64, above: f64, below: f64) -> f64 {
    student::incomplete_beta(0.5 * below, 0.5 * above, below / (below + above * f))
}

/// 1 for the mean, a column for each level of each factor, a column for each block.
fn indicators(
    level_counts: &[usize],
    levels: &[usize],
    in_block: impl Fn(usize) -> bool,
    blocks: usize,
) -> Vec<f64> {
    let flag = |set: bool| f64::from(u8::from(set));
    let mut row = vec![1.0];
    for (count, level) in level_counts.iter().zip(levels) {
        row.extend((0..*count).map(|column| flag(column == *level)));
    }
    row.extend((0..blocks).map(|block| flag(in_block(block))));
    row
}

struct LeastSquares {
    coefficients: Vec<f64>,
    inverse: Vec<Vec<f64>>,
    untold: Vec<Vec<f64>>,
    rank: usize,
    residual_squares: f64,
}

/// The shortest of all solutions of the normal equations. `None` without rows.
fn least_squares(rows: &[Vec<f64>], values: &[f64]) -> Option<LeastSquares> {
    let size = rows.first()?.len();
    let mut normal = vec![vec![0.0; size]; size];
    let mut right = vec![0.0; size];
    for (row, value) in rows.iter().zip(values) {
        for i in 0..size {
            right[i] += row[i] * value;
            for j in 0..size {
                normal[i][j] += row[i] * row[j];
            }
        }
    }
    let (eigenvalues, vectors) = eigen(normal);
    let largest = eigenvalues.iter().copied().fold(0.0, f64::max);
    let mut inverse = vec![vec![0.0; size]; size];
    let mut untold = Vec::new();
    for (eigenvalue, vector) in eigenvalues.iter().zip(vectors) {
        if *eigenvalue <= ZERO * largest {
            untold.push(vector);
            continue;
        }
        for i in 0..size {
            for j in 0..size {
                inverse[i][j] += vector[i] * vector[j] / eigenvalue;
            }
        }
    }
    let coefficients: Vec<f64> = inverse.iter().map(|line| dot(line, &right)).collect();
    let squares = rows.iter().zip(values).map(|(row, value)| (value - dot(&coefficients, row)).powi(2));
    let residual_squares = squares.sum();
    Some(LeastSquares { rank: size - untold.len(), coefficients, inverse, untold, residual_squares })
}

/// Eigenvalues and unit eigenvectors of a symmetric matrix, by Jacobi's rotations (Golub and Van Loan, Matrix
/// Computations, §8.5).
fn eigen(mut matrix: Vec<Vec<f64>>) -> (Vec<f64>, Vec<Vec<f64>>) {
    let size = matrix.len();
    // One vector a row, so that the vectors come out ready to use.
    let mut vectors: Vec<Vec<f64>> =
        (0..size).map(|i| (0..size).map(|j| f64::from(u8::from(i == j))).collect()).collect();
    let scale: f64 = matrix.iter().flatten().map(|x| x * x).sum();
    // Sweeps converge quadratically: a handful is enough, 50 never happens.
    for _ in 0..50 {
        let off: f64 =
            (0..size).flat_map(|i| (0..i).map(move |j| (i, j))).map(|(i, j)| matrix[i][j].powi(2)).sum();
        if off <= 1e-28 * scale {
            break;
        }
        for p in 0..size {
            for q in p + 1..size {
                if matrix[p][q] != 0.0 {
                    rotate(&mut matrix, &mut vectors, p, q);
                }
            }
        }
    }
    ((0..size).map(|i| matrix[i][i]).collect(), vectors)
}

/// Makes the element at `p`, `q` zero.
fn rotate(matrix: &mut [Vec<f64>], vectors: &mut [Vec<f64>], p: usize, q: usize) {
    let theta = (matrix[q][q] - matrix[p][p]) / (2.0 * matrix[p][q]);
    let tangent = theta.signum() / (theta.abs() + (theta * theta + 1.0).sqrt());
    let cosine = 1.0 / (tangent * tangent + 1.0).sqrt();
    let sine = tangent * cosine;
    let turn = |a: f64, b: f64| (cosine * a - sine * b, sine * a + cosine * b);
    for line in matrix.iter_mut() {
        (line[p], line[q]) = turn(line[p], line[q]);
    }
    turn_lines(matrix, p, q, turn);
    turn_lines(vectors, p, q, turn);
}

/// Turns two lines of a matrix, the first of them with the smaller number.
fn turn_lines(matrix: &mut [Vec<f64>], p: usize, q: usize, turn: impl Fn(f64, f64) -> (f64, f64)) {
    let (before, after) = matrix.split_at_mut(q);
    for (a, b) in before[p].iter_mut().zip(after[0].iter_mut()) {
        (*a, *b) = turn(*a, *b);
    }
}

fn around(log: f64, half: f64) -> Interval {
    Interval { low: (log - half).exp(), high: (log + half).exp() }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[cfg(test)]
mod tests;
