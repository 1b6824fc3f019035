//! How much each layer counts in the learnt model: the weights of the highest restricted likelihood (Patterson and Thompson,
//! Biometrika 58, 1971), found along its derivatives (Rasmussen and Williams, Gaussian Processes for Machine Learning, 2006,
//! §5.4.1).

use super::learnt::{Cell, Effect, Weights};
use crate::cholesky::Cholesky;
use crate::descent;

/// Steps of the search.
const STEPS: usize = 60;
/// How far weights go from the usual where the cells do not tell: a deviation of their logarithms. A faint wish.
const AWAY: f64 = 1.5;
/// Weights are searched between these.
const SMALLEST: f64 = 1e-3;
const LARGEST: f64 = 10.0;
/// No feature is felt over less, and no run is surer.
const SHORTEST: f64 = 0.05;
const SUREST: f64 = 5e-3;

/// The weights that explain the cells best.
pub(super) fn fitted(cells: &[(Cell, f64)], usual: &Weights) -> Weights {
    let start = to_search(usual);
    let found = descent::minimise(&start, STEPS, |logs| {
        let (likelihood, slope) = likelihood(cells, &of_search(logs, usual))?;
        let away: Vec<f64> = logs.iter().zip(&start).map(|(log, usual)| (log - usual) / AWAY).collect();
        let wish = 0.5 * away.iter().map(|a| a * a).sum::<f64>();
        let slope = slope.iter().zip(&away).map(|(slope, away)| away / AWAY - slope).collect();
        Some((wish - likelihood, slope))
    });
    of_search(&found, usual)
}

/// Logarithms: three of each aspect, three of the combination, the lengths, the error.
fn to_search(weights: &Weights) -> Vec<f64> {
    let effects = weights.aspects.iter().chain([&weights.alone]);
    let effects = effects.flat_map(|effect| [effect.every_load, effect.alike_loads, effect.one_load]);
    effects.chain(weights.lengths.iter().copied()).chain([weights.error]).map(f64::ln).collect()
}

/// The other way; what is not searched is as usual.
fn of_search(logs: &[f64], usual: &Weights) -> Weights {
    let (aspects, features) = (usual.aspects.len(), usual.lengths.len());
    let value = |log: &f64| log.exp().clamp(SMALLEST, LARGEST);
    let (effects, others) = logs.split_at(3 * (aspects + 1));
    let effect = |three: &[f64]| Effect {
        every_load: value(&three[0]),
        alike_loads: value(&three[1]),
        one_load: value(&three[2]),
    };
    let mut effects: Vec<Effect> = effects.chunks_exact(3).map(effect).collect();
    let alone = effects.remove(aspects);
    let lengths = others[..features].iter().map(|log| value(log).max(SHORTEST)).collect();
    Weights {
        aspects: effects,
        alone,
        lengths,
        error: value(&others[features]).max(SUREST),
        loads: usual.loads,
    }
}

/// The logarithm of the likelihood, and its derivatives by the logarithms of the weights in the order of [`to_search`].
fn likelihood(cells: &[(Cell, f64)], weights: &Weights) -> Option<(f64, Vec<f64>)> {
    let size = cells.len();
    let matrix: Vec<Vec<f64>> = (0..size)
        .map(|i| {
            let mut row: Vec<f64> = (0..=i).map(|j| weights.covariance(&cells[i].0, &cells[j].0)).collect();
            row[i] += weights.error_variance(&cells[i].0);
            row
        })
        .collect();
    let factor = Cholesky::of(&matrix)?;
    let ones = factor.solve(&vec![1.0; size]);
    let weight: f64 = ones.iter().sum();
    let logs: Vec<f64> = cells.iter().map(|(_, rate)| rate.ln()).collect();
    let constant = dot(&ones, &logs) / weight;
    let rests: Vec<f64> = logs.iter().map(|log| log - constant).collect();
    let pull = factor.solve(&rests);
    let value = -0.5 * (dot(&rests, &pull) + factor.log_determinant() + weight.ln());
    let inverse = factor.inverse();
    let mut slope = Derivatives::of(weights);
    for (i, (a, _)) in cells.iter().enumerate() {
        for (j, (b, _)) in cells[..=i].iter().enumerate() {
            // Both halves of the matrix; P = K⁻¹ less what the constant takes.
            let both = if i == j { 0.5 } else { 1.0 };
            let projected = inverse[i][j] - ones[i] * ones[j] / weight;
            slope.add(a, b, both * (pull[i] * pull[j] - projected));
        }
        let own = 0.5 * (pull[i] * pull[i] - inverse[i][i] + ones[i] * ones[i] / weight);
        slope.error += own * 2.0 * weights.error_variance(a);
    }
    value.is_finite().then(|| (value, slope.all()))
}

/// Sums of the derivatives of covariances by the logarithms of the weights.
struct Derivatives<'a> {
    weights: &'a Weights,
    effects: Vec<[f64; 3]>,
    lengths: Vec<f64>,
    error: f64,
}

impl<'a> Derivatives<'a> {
    fn of(weights: &'a Weights) -> Self {
        Self {
            weights,
            effects: vec![[0.0; 3]; weights.aspects.len() + 1],
            lengths: vec![0.0; weights.lengths.len()],
            error: 0.0,
        }
    }

    /// Adds the derivatives of the covariance of two cells, so much of them.
    fn add(&mut self, a: &Cell, b: &Cell, share: f64) {
        let likeness = self.weights.likeness(a, b);
        let same_load = if a.load == b.load { 1.0 } else { 0.0 };
        let same = a.aspects.iter().zip(&b.aspects).map(|(a, b)| a == b).chain([a.stack == b.stack]);
        let effects = self.weights.aspects.iter().chain([&self.weights.alone]);
        let mut alike = 0.0;
        for ((sums, effect), _) in self.effects.iter_mut().zip(effects).zip(same).filter(|(_, same)| *same) {
            sums[0] += share * 2.0 * effect.every_load.powi(2);
            sums[1] += share * 2.0 * effect.alike_loads.powi(2) * likeness;
            sums[2] += share * 2.0 * effect.one_load.powi(2) * same_load;
            alike += effect.alike_loads.powi(2) * likeness;
        }
        let features = a.features.iter().zip(&b.features);
        for ((sum, length), (a, b)) in self.lengths.iter_mut().zip(&self.weights.lengths).zip(features) {
            *sum += share * alike * ((a - b) / length).powi(2);
        }
    }

    fn all(self) -> Vec<f64> {
        self.effects.into_iter().flatten().chain(self.lengths).chain([self.error]).collect()
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cells() -> Vec<(Cell, f64)> {
        let cell = |i: u32| Cell {
            load: i % 3,
            features: vec![f64::from(i % 3) / 2.0, f64::from(i % 2)],
            stack: i / 3,
            aspects: vec![i / 3 % 2, i / 3 % 3],
            runs: 1 + i % 2,
            noise: 1.0 + f64::from(i % 3) / 2.0,
        };
        (0..18).map(|i| (cell(i), 1.0 + f64::from(i * 7 % 11))).collect()
    }

    /// Each derivative beside the difference quotient.
    #[test]
    fn derivatives_are_those_of_the_likelihood() {
        let cells = cells();
        let usual = Weights::usual(2, 2, 10.0);
        let start = to_search(&usual);
        let at = |logs: &[f64]| likelihood(&cells, &of_search(logs, &usual)).unwrap();
        let slope = at(&start).1;
        assert_eq!(slope.len(), start.len());
        for i in 0..start.len() {
            let moved = |by: f64| {
                let mut logs = start.clone();
                logs[i] += by;
                at(&logs).0
            };
            let quotient = (moved(1e-4) - moved(-1e-4)) / 2e-4;
            assert!(
                (slope[i] - quotient).abs() < 1e-4 * (1.0 + quotient.abs()),
                "{i}: {} {quotient}",
                slope[i]
            );
        }
    }

    #[test]
    fn the_search_ends_higher_than_it_began() {
        let cells = cells();
        let usual = Weights::usual(2, 2, 10.0);
        let found = fitted(&cells, &usual);
        assert!(likelihood(&cells, &found).unwrap().0 > likelihood(&cells, &usual).unwrap().0);
    }
}
