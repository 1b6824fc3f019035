//! What stacks do to loads, learnt from every cell that was measured.
//!
//! The logarithm of a rate is what the load does by itself, plus what the stack does: to every load, to loads that are like this
//! one, and to this one alone. Stacks are alike as far as they have the same layers with the same options, loads as far as their
//! requests are. How much each counts is fitted. A new cell is predicted from its load on other stacks, from other loads on its
//! stack, and from its layers in other stacks: relative fitness (Mesnier et al., SIGMETRICS 2007) with what is known of the
//! devices put into the covariance (a Gaussian process over both factors: Bonilla et al., NIPS 2007).

use serde::{Deserialize, Serialize};

use crate::gaussian_process::GaussianProcess;
use crate::random::SeededOrder;
use crate::simplex;
use crate::summary::Interval;

/// Fewer cells teach nothing.
const FEWEST: usize = 8;
/// Cells that the search for the weights looks at.
const SEARCHED: usize = 260;
/// Cells that a model holds; further ones are left out by chance.
const MOST: usize = 1200;
/// Values of the likelihood that the search asks for, for each weight.
const EVALUATIONS: usize = 40;
/// Deviation of what loads do by themselves: they have units of their own.
const OF_LOADS: f64 = 10.0;
/// Half a 90 % interval, in deviations.
const HALF_OF_90: f64 = 1.645;

/// A stack by what it is made of: one number for each aspect, equal where the stacks are.
pub type Aspects = Vec<u32>;
/// A load by what its requests are, each number from about 0 to 1.
pub type Features = Vec<f64>;

/// A cell that was measured, or is to be predicted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// Which load.
    pub load: u32,
    /// What it asks for.
    pub features: Features,
    /// Which stack.
    pub stack: u32,
    /// What it is made of.
    pub aspects: Aspects,
}

/// How much things count: fitted, and kept, for fitting takes seconds. Standard deviations of logarithms of rates.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Weights {
    /// Of each aspect, relative to one another.
    pub aspects: Vec<f64>,
    /// Of a stack alone, on the same scale.
    pub alone: f64,
    /// What a stack does to every load.
    pub every_load: f64,
    /// What it does to loads alike.
    pub alike_loads: f64,
    /// What it does to one load.
    pub one_load: f64,
    /// The distance of features over which loads stop being alike.
    pub length: f64,
    /// The error of measuring.
    pub error: f64,
}

/// What is expected of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LearntRate {
    /// The rate.
    pub rate: f64,
    /// Where a measurement would be found with 90 % probability.
    pub interval: Interval,
}

/// A model of stacks and loads.
pub struct Learnt {
    process: GaussianProcess<Cell, Covariance>,
    weights: Weights,
}

type Covariance = Box<dyn Fn(&Cell, &Cell) -> f64 + Send + Sync>;

impl Weights {
    /// Before anything is known: every aspect counts alike.
    fn usual(aspects: usize) -> Self {
        Self {
            aspects: vec![0.3; aspects],
            alone: 0.1,
            every_load: 0.5,
            alike_loads: 0.5,
            one_load: 0.3,
            length: 0.5,
            error: 0.05,
        }
    }

    fn to_search(&self) -> Vec<f64> {
        let others = [self.alone, self.every_load, self.alike_loads, self.one_load, self.length, self.error];
        self.aspects.iter().chain(&others).map(|weight| weight.ln()).collect()
    }

    fn of_search(logs: &[f64]) -> Self {
        // Beyond these nothing changes any more.
        let weight = |log: &f64| log.exp().clamp(1e-3, 10.0);
        let (aspects, others) = logs.split_at(logs.len().saturating_sub(6));
        let other = |i: usize| others.get(i).map_or(1e-3, weight);
        Self {
            aspects: aspects.iter().map(weight).collect(),
            alone: other(0),
            every_load: other(1),
            alike_loads: other(2),
            one_load: other(3),
            length: other(4).max(0.02),
            error: other(5).max(5e-3),
        }
    }

    fn covariance(&self) -> Covariance {
        let weights = self.clone();
        let whole: f64 = weights.aspects.iter().map(|w| w * w).sum::<f64>() + weights.alone * weights.alone;
        Box::new(move |a, b| {
            let same_load = if a.load == b.load { 1.0 } else { 0.0 };
            let aspects = a.aspects.iter().zip(&b.aspects).zip(&weights.aspects);
            let shared: f64 = aspects.filter(|((a, b), _)| a == b).map(|(_, w)| w * w).sum();
            let alone = if a.stack == b.stack { weights.alone * weights.alone } else { 0.0 };
            let stacks = (shared + alone) / whole;
            let distance: f64 = a.features.iter().zip(&b.features).map(|(a, b)| (a - b).powi(2)).sum();
            let loads = (-0.5 * distance / (weights.length * weights.length)).exp();
            let effect = weights.every_load.powi(2)
                + weights.alike_loads.powi(2) * loads
                + weights.one_load.powi(2) * same_load;
            OF_LOADS * OF_LOADS * same_load + effect * stacks
        })
    }
}

impl Learnt {
    /// Fits weights and model to cells with their rates. `None` with fewer than eight, or a rate that is not positive.
    pub fn fit(cells: &[(Cell, f64)], seed: u64) -> Option<Self> {
        let aspects = cells.first()?.0.aspects.len();
        if cells.len() < FEWEST {
            return None;
        }
        let searched = some_of(cells, SEARCHED, seed);
        let usual = Weights::usual(aspects).to_search();
        let misfit = |logs: &[f64]| {
            // A faint wish for the usual: what the cells do not tell stays as it was.
            let away: f64 = logs.iter().zip(&usual).map(|(log, usual)| ((log - usual) / 2.0).powi(2)).sum();
            match process_of(&searched, &Weights::of_search(logs)) {
                Some(process) => -process.log_likelihood() + 0.5 * away,
                None => f64::INFINITY,
            }
        };
        let found = simplex::minimise(&usual, 0.8, EVALUATIONS * usual.len(), misfit);
        Self::with(Weights::of_search(&found), cells, seed)
    }

    /// The model of cells with weights that were fitted before; `None` as for [`Self::fit`].
    pub fn with(weights: Weights, cells: &[(Cell, f64)], seed: u64) -> Option<Self> {
        let process = process_of(&some_of(cells, MOST, seed), &weights)?;
        Some(Self { process, weights })
    }

    /// What is expected of a cell.
    pub fn predict(&self, cell: &Cell) -> LearntRate {
        let found = self.process.predict(cell);
        let half = HALF_OF_90 * (found.variance + self.weights.error.powi(2)).sqrt();
        LearntRate {
            rate: found.mean.exp(),
            interval: Interval { low: (found.mean - half).exp(), high: (found.mean + half).exp() },
        }
    }

    /// How much things count.
    pub fn weights(&self) -> &Weights {
        &self.weights
    }
}

fn process_of(cells: &[(Cell, f64)], weights: &Weights) -> Option<GaussianProcess<Cell, Covariance>> {
    if cells
        .iter()
        .any(|(cell, rate)| !(rate.is_finite() && *rate > 0.0) || cell.aspects.len() != weights.aspects.len())
    {
        return None;
    }
    let points = cells.iter().map(|(cell, _)| cell.clone()).collect();
    let logs = cells.iter().map(|(_, rate)| rate.ln()).collect();
    let errors = vec![weights.error * weights.error; cells.len()];
    GaussianProcess::fit(points, logs, &errors, weights.covariance())
}

/// At most so many of the cells, by chance.
fn some_of(cells: &[(Cell, f64)], most: usize, seed: u64) -> Vec<(Cell, f64)> {
    let mut order: Vec<usize> = (0..cells.len()).collect();
    if cells.len() > most {
        SeededOrder::new(seed).shuffle(&mut order);
        order.truncate(most);
        order.sort_unstable();
    }
    order.into_iter().map(|index| cells[index].clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::median;

    /// Stacks of three layers with four kinds each, loads from all reads to all writes: writes feel the second layer, reads the
    /// third, everything the first a little.
    fn cells() -> Vec<(Cell, f64)> {
        let mut order = SeededOrder::new(5);
        let mut uniform = || order.unit() - 0.5;
        let effects: Vec<[f64; 4]> =
            (0..3).map(|layer| [0; 4].map(|_| uniform() * if layer == 0 { 0.3 } else { 1.2 })).collect();
        let mut cells = Vec::new();
        for stack in 0..32_u32 {
            let aspects = vec![stack % 4, (stack / 4) % 4, (stack * 7 / 5) % 4];
            for load in 0..6_u32 {
                let writes = f64::from(load) / 5.0;
                let of = |layer: usize| effects[layer][aspects[layer] as usize];
                let log =
                    f64::from(load) + of(0) + writes * of(1) + (1.0 - writes) * of(2) + 0.04 * uniform();
                let cell = Cell { load, features: vec![writes], stack, aspects: aspects.clone() };
                cells.push((cell, log.exp()));
            }
        }
        cells
    }

    #[test]
    fn a_held_out_stack_is_predicted_from_its_layers_and_two_loads_on_it() {
        let cells = cells();
        let all = Learnt::fit(&cells, 1).unwrap();
        let (mut misses, mut inside, mut asked) = (Vec::new(), 0_u32, 0_u32);
        for stack in [3, 10, 17, 24, 31] {
            let known: Vec<(Cell, f64)> = cells
                .iter()
                .filter(|(cell, _)| cell.stack != stack || [0, 5].contains(&cell.load))
                .cloned()
                .collect();
            let model = Learnt::with(all.weights().clone(), &known, 1).unwrap();
            for (cell, rate) in cells.iter().filter(|(c, _)| c.stack == stack && ![0, 5].contains(&c.load)) {
                let found = model.predict(cell);
                misses.push((found.rate / rate - 1.0).abs());
                inside += u32::from(found.interval.contains(*rate));
                asked += 1;
            }
        }
        assert!(median(&misses).unwrap() < 0.044, "{misses:?}");
        assert!(f64::from(inside) / f64::from(asked) >= 0.8, "{inside} of {asked}");
    }

    #[test]
    fn a_load_that_was_never_seen_is_not_known() {
        let cells = cells();
        let model = Learnt::fit(&cells[..60], 1).unwrap();
        let unknown = Cell { load: 99, ..cells[0].0.clone() };
        let interval = model.predict(&unknown).interval;
        assert!(interval.high / interval.low > 1e6);
    }

    #[test]
    fn too_little_and_nonsense_are_refused() {
        let mut cells = cells();
        assert!(Learnt::fit(&cells[..7], 1).is_none());
        assert!(Learnt::fit(&[], 1).is_none());
        cells[0].1 = f64::NAN;
        assert!(Learnt::fit(&cells, 1).is_none());
    }
}
