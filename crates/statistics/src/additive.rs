//! The additive model of throughput: each level of each factor multiplies it by its own ratio, each block by another.
//!
//! ln(rate) = effect of the block + effect of each factor's level + error, fitted by least squares. Blocks are as many as there
//! were days of measuring, so they get no columns: rows and logarithms are taken from their block's mean, which leaves the same
//! effects and the same residuals (the within-transformation: Frisch and Waugh, Econometrica 1, 1933). The normal equations are
//! written with one column for every level, so they are singular; their pseudo-inverse (by Jacobi's eigenvalues) gives the same
//! answer as any choice of contrasts for everything that the runs tell, and shows what they do not tell (Searle, Linear Models,
//! 1971, §5.4: a function is estimable if it lies in the space of the rows).

mod repeats;

use std::collections::BTreeMap;

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
    /// Of each level's column.
    coefficients: Vec<f64>,
    /// Mean of the blocks' mean rows and of their mean logarithms, and the variance of the latter in units of the error's.
    middle: Middle,
    /// Pseudo-inverse of X'X, with rows from their blocks' means.
    inverse: Vec<Vec<f64>>,
    /// Directions about which the runs tell nothing.
    untold: Vec<Vec<f64>>,
    runs: usize,
    rank: usize,
    residual_squares: f64,
    lack_of_fit: Option<LackOfFit>,
}

/// A block like the mean of all blocks.
#[derive(Clone, Debug, PartialEq)]
struct Middle {
    row: Vec<f64>,
    log: f64,
    variance: f64,
}

impl AdditiveModel {
    /// Fits the model. `None` without runs, or if one has a rate that is not positive or a level that its factor lacks.
    pub fn fit(level_counts: &[usize], runs: &[AdditiveRun]) -> Option<Self> {
        let mut blocks: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        let mut rows = Vec::new();
        let mut logs = Vec::new();
        for (index, run) in runs.iter().enumerate() {
            if !run.rate.is_finite() || run.rate <= 0.0 {
                return None;
            }
            rows.push(indicators(level_counts, &run.levels)?);
            logs.push(run.rate.ln());
            blocks.entry(run.block).or_default().push(index);
        }
        let middle = take_from_block_means(&mut rows, &mut logs, blocks.values())?;
        let fitted = least_squares(&rows, &logs)?;
        let (rank, residual_squares) = (fitted.rank + blocks.len(), fitted.residual_squares);
        Some(Self {
            level_counts: level_counts.to_vec(),
            coefficients: fitted.coefficients,
            middle,
            inverse: fitted.inverse,
            untold: fitted.untold,
            runs: runs.len(),
            rank,
            residual_squares,
            lack_of_fit: repeats::lack_of_fit(runs, rank, residual_squares),
        })
    }

    /// What is expected of a combination; `None` if the runs do not tell.
    pub fn predict(&self, levels: &[usize]) -> Option<Prediction> {
        let row = indicators(&self.level_counts, levels)?;
        let (from_middle, variance) = self.estimate(&difference(&row, &self.middle.row))?;
        let log = self.middle.log + from_middle;
        // One run more has its own error, and a combination that is unlike its factors' sum has it too.
        let half = self.half_width(variance + self.middle.variance + 1.0);
        Some(Prediction { value: log.exp(), interval: half.map(|half| around(log, half)) })
    }

    /// One combination over another; `None` if the runs do not tell. `pairs` is the number of runs beyond those needed
    /// for the effects.
    pub fn ratio(&self, baseline: &[usize], candidate: &[usize]) -> Option<Ratio> {
        let (from, to) =
            (indicators(&self.level_counts, baseline)?, indicators(&self.level_counts, candidate)?);
        let (log, variance) = self.estimate(&difference(&to, &from))?;
        let interval = self.half_width(variance).map(|half| around(log, half));
        Some(Ratio { value: log.exp(), interval, pairs: self.degrees_of_freedom() })
    }

    /// The effects of all levels of factors with more than one, as far as the runs tell.
    pub fn effects(&self) -> Vec<LevelEffect> {
        let mut effects = Vec::new();
        for (factor, count) in self.level_counts.iter().enumerate().filter(|(_, count)| **count > 1) {
            let first = self.level_counts[..factor].iter().sum::<usize>();
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

    /// The value of a linear function of the coefficients and its variance; `None` if the runs do not tell it.
    fn estimate(&self, row: &[f64]) -> Option<(f64, f64)> {
        let told = self.untold.iter().all(|direction| dot(direction, row).abs() < 1e-6);
        let spread: Vec<f64> = self.inverse.iter().map(|line| dot(line, row)).collect();
        told.then(|| (dot(&self.coefficients, row), dot(&spread, row)))
    }
}

/// A column for each level of each factor; `None` if a level is one that its factor lacks.
fn indicators(level_counts: &[usize], levels: &[usize]) -> Option<Vec<f64>> {
    let fits = levels.len() == level_counts.len()
        && levels.iter().zip(level_counts).all(|(level, count)| level < count);
    let mut row = Vec::new();
    for (count, level) in level_counts.iter().zip(levels) {
        row.extend((0..*count).map(|column| f64::from(u8::from(column == *level))));
    }
    fits.then_some(row)
}

/// Takes the mean of its block from each row and logarithm; the mean of these means. `None` without blocks.
fn take_from_block_means<'a>(
    rows: &mut [Vec<f64>],
    logs: &mut [f64],
    blocks: impl ExactSizeIterator<Item = &'a Vec<usize>>,
) -> Option<Middle> {
    let share = 1.0 / blocks.len() as f64;
    let mut middle = Middle { row: vec![0.0; rows.first()?.len()], log: 0.0, variance: 0.0 };
    for block in blocks {
        let size = block.len() as f64;
        let log = block.iter().map(|run| logs[*run]).sum::<f64>() / size;
        // The sums are of zeros and ones, so what all runs of a block have is left as an exact zero.
        let row: Vec<f64> = (0..middle.row.len())
            .map(|column| block.iter().map(|run| rows[*run][column]).sum::<f64>() / size)
            .collect();
        for run in block {
            rows[*run] = difference(&rows[*run], &row);
            logs[*run] -= log;
        }
        middle.row.iter_mut().zip(&row).for_each(|(sum, mean)| *sum += mean * share);
        middle.log += log * share;
        middle.variance += share * share / size;
    }
    Some(middle)
}

struct LeastSquares {
    coefficients: Vec<f64>,
    inverse: Vec<Vec<f64>>,
    untold: Vec<Vec<f64>>,
    rank: usize,
    residual_squares: f64,
}

/// The shortest of all solutions of the normal equations, which have as many unknowns as factors have levels. `None` without
/// rows.
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

fn difference(a: &[f64], b: &[f64]) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| a - b).collect()
}

fn around(log: f64, half: f64) -> Interval {
    Interval { low: (log - half).exp(), high: (log + half).exp() }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[cfg(test)]
mod tests;
