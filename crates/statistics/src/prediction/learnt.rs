//! What stacks do to loads, learnt from every cell that was measured.
//!
//! The logarithm of a rate is what the load does by itself, plus what the stack's layers do: each to every load, to loads that are
//! like this one, and to this one alone; plus what their combination does. Stacks are alike as far as they have the same layers
//! with the same options, loads as far as their requests are. How much each counts is fitted: a layer may matter to all loads
//! alike, or to each in its own way. A new cell is predicted from its load on other stacks, from other loads on its stack, and
//! from its layers in other stacks: relative fitness (Mesnier et al., SIGMETRICS 2007) with what is known of the devices put into
//! the covariance (a Gaussian process over both factors: Bonilla et al., NIPS 2007).

use serde::{Deserialize, Serialize};

use super::learnt_fit;
use crate::gaussian_process::GaussianProcess;
use crate::random::SeededOrder;
use crate::summary::Interval;

/// Fewer cells teach nothing.
const FEWEST: usize = 8;
/// Cells that a model holds.
pub const MOST: usize = 800;
/// Deviation of what loads do by themselves where they have units of their own.
const OF_LOADS: f64 = 10.0;
/// A cell that strays by more deviations from what the others tell of it is held for less sure, so that it strays by no more: a
/// run that something disturbed does not bend its neighbours (Huber, Annals of Mathematical Statistics 35, 1964).
const STRAY: f64 = 2.0;
/// Rounds of that.
const ROUNDS: usize = 3;

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
    /// How often it was measured; 1 at least.
    pub runs: u32,
    /// How far its runs stray, relative to those of all loads: 1 as far, 2 twice as far.
    pub noise: f64,
}

/// How much an aspect of stacks counts: standard deviations of logarithms of rates.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Effect {
    /// What it does to every load.
    pub every_load: f64,
    /// What it does to loads alike.
    pub alike_loads: f64,
    /// What it does to one load.
    pub one_load: f64,
}

/// How much things count: fitted, and kept, for fitting takes seconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Weights {
    /// Of each aspect.
    pub aspects: Vec<Effect>,
    /// Of a stack beyond its aspects: their combination.
    pub alone: Effect,
    /// By feature the distance over which loads stop being alike.
    pub lengths: Vec<f64>,
    /// The error of one run.
    pub error: f64,
    /// Deviation of what loads do by themselves; not fitted.
    #[serde(default = "of_loads")]
    pub loads: f64,
}

fn of_loads() -> f64 {
    OF_LOADS
}

/// What is learnt, as far as that has to be known beforehand.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Subject {
    /// Deviation of the logarithm of what loads do by themselves: large where they have units of their own.
    pub loads: f64,
    /// Cells that the search for the weights looks at: it takes as long as their cube.
    pub searched: usize,
}

impl Subject {
    /// Rates, each load in its unit.
    pub const RATES: Self = Self { loads: OF_LOADS, searched: 320 };
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
    /// Before anything is known: every aspect and every feature counts alike.
    pub fn usual(aspects: usize, features: usize, loads: f64) -> Self {
        let effect = |scale: f64| Effect {
            every_load: 0.15 * scale,
            alike_loads: 0.15 * scale,
            one_load: 0.10 * scale,
        };
        Self {
            aspects: vec![effect(1.0); aspects],
            alone: effect(0.4),
            lengths: vec![0.5; features],
            error: 0.05,
            loads,
        }
    }

    /// The covariance of two cells.
    pub fn covariance(&self, a: &Cell, b: &Cell) -> f64 {
        let same_load = a.load == b.load;
        let likeness = self.likeness(a, b);
        let same = a.aspects.iter().zip(&b.aspects).zip(&self.aspects).filter(|((a, b), _)| a == b);
        let of_aspects: f64 = same.map(|(_, effect)| effect.covariance(likeness, same_load)).sum();
        let alone = if a.stack == b.stack { self.alone.covariance(likeness, same_load) } else { 0.0 };
        let of_load = if same_load { self.loads * self.loads } else { 0.0 };
        of_load + of_aspects + alone
    }

    /// How alike two loads are, 0 to 1.
    pub(super) fn likeness(&self, a: &Cell, b: &Cell) -> f64 {
        let each = a.features.iter().zip(&b.features).zip(&self.lengths);
        let distance: f64 = each.map(|((a, b), length)| ((a - b) / length).powi(2)).sum();
        (-0.5 * distance).exp()
    }

    /// Variance of the error of a cell.
    pub(super) fn error_variance(&self, cell: &Cell) -> f64 {
        (self.error * cell.noise).powi(2) / f64::from(cell.runs.max(1))
    }

    fn is_for(&self, cell: &Cell) -> bool {
        cell.aspects.len() == self.aspects.len() && cell.features.len() == self.lengths.len()
    }
}

impl Effect {
    fn covariance(&self, likeness: f64, same_load: bool) -> f64 {
        let one = if same_load { self.one_load * self.one_load } else { 0.0 };
        self.every_load * self.every_load + self.alike_loads * self.alike_loads * likeness + one
    }
}

impl Learnt {
    /// Fits weights and model to cells with their rates. `None` with fewer than eight, or a rate that is not positive.
    pub fn fit(cells: &[(Cell, f64)], seed: u64) -> Option<Self> {
        Self::with(Self::weights_of(cells, Subject::RATES, seed)?, cells, &[], seed)
    }

    /// The weights that explain cells best; `None` as for [`Self::fit`].
    pub fn weights_of(cells: &[(Cell, f64)], subject: Subject, seed: u64) -> Option<Weights> {
        let first = &cells.first()?.0;
        let usual = Weights::usual(first.aspects.len(), first.features.len(), subject.loads);
        if cells.len() < FEWEST || !are_sound(cells, &usual) {
            return None;
        }
        let searched = some_of(cells, subject.searched, &[], seed);
        Some(learnt_fit::fitted(&searched, &usual))
    }

    /// The model of cells with weights that were fitted before; `None` as for [`Self::fit`]. Of more cells than a model holds
    /// those stay that tell most of the `asked` ones: of the same stack, of the same load, of alike stacks.
    pub fn with(weights: Weights, cells: &[(Cell, f64)], asked: &[&Cell], seed: u64) -> Option<Self> {
        Self::with_most(weights, cells, asked, MOST, ROUNDS, seed)
    }

    /// The same of cells that nothing disturbed: one that strays is as true as the others. It holds at most `most` cells.
    pub fn of_exact(
        weights: Weights,
        cells: &[(Cell, f64)],
        asked: &[&Cell],
        most: usize,
        seed: u64,
    ) -> Option<Self> {
        Self::with_most(weights, cells, asked, most, 0, seed)
    }

    fn with_most(
        weights: Weights,
        cells: &[(Cell, f64)],
        asked: &[&Cell],
        most: usize,
        rounds: usize,
        seed: u64,
    ) -> Option<Self> {
        if !are_sound(cells, &weights) {
            return None;
        }
        let held = some_of(cells, most, asked, seed);
        let mut errors: Vec<f64> = held.iter().map(|(cell, _)| weights.error_variance(cell)).collect();
        let mut process = process_of(&held, &errors, &weights)?;
        for _ in 0..rounds {
            let mut strayed = false;
            for ((error, (_, rate)), others) in errors.iter_mut().zip(&held).zip(process.without_each()) {
                let away = (rate.ln() - others.mean).powi(2) / others.variance / (STRAY * STRAY);
                if away > 1.0 {
                    *error += (away - 1.0) * others.variance;
                    strayed = true;
                }
            }
            if !strayed {
                break;
            }
            process = process_of(&held, &errors, &weights)?;
        }
        Some(Self { process, weights })
    }

    /// What is expected of a cell: of one run of it.
    pub fn predict(&self, cell: &Cell) -> LearntRate {
        let found = self.process.predict(cell);
        let deviation = (found.variance + (self.weights.error * cell.noise).powi(2)).sqrt();
        LearntRate { rate: found.mean.exp(), interval: Interval::of_logarithm(found.mean, deviation) }
    }

    /// How much things count.
    pub fn weights(&self) -> &Weights {
        &self.weights
    }
}

fn process_of(
    held: &[(Cell, f64)],
    errors: &[f64],
    weights: &Weights,
) -> Option<GaussianProcess<Cell, Covariance>> {
    let points: Vec<Cell> = held.iter().map(|(cell, _)| cell.clone()).collect();
    let logs = held.iter().map(|(_, rate)| rate.ln()).collect();
    let weights = weights.clone();
    let covariance: Covariance = Box::new(move |a, b| weights.covariance(a, b));
    GaussianProcess::fit(points, logs, errors, covariance)
}

fn are_sound(cells: &[(Cell, f64)], weights: &Weights) -> bool {
    cells.iter().all(|(cell, rate)| rate.is_finite() && *rate > 0.0 && weights.is_for(cell))
}

/// At most so many of the cells: those that tell most of the asked ones, the others by chance.
fn some_of(cells: &[(Cell, f64)], most: usize, asked: &[&Cell], seed: u64) -> Vec<(Cell, f64)> {
    let mut order: Vec<usize> = (0..cells.len()).collect();
    if cells.len() > most {
        SeededOrder::new(seed).shuffle(&mut order);
        order.sort_by_cached_key(|index| std::cmp::Reverse(told_of(&cells[*index].0, asked)));
        order.truncate(most);
        order.sort_unstable();
    }
    order.into_iter().map(|index| cells[index].clone()).collect()
}

/// How much a cell tells of the one that it tells most of: the same stack, then the same load on stacks alike.
fn told_of(cell: &Cell, asked: &[&Cell]) -> usize {
    let likeness = |asked: &&Cell| {
        let shared = cell.aspects.iter().zip(&asked.aspects).filter(|(a, b)| a == b).count();
        let weight = |is: bool, weight: usize| if is { weight } else { 0 };
        weight(cell.stack == asked.stack, 10_000) + weight(cell.load == asked.load, 100) + shared
    };
    asked.iter().map(likeness).max().unwrap_or(0)
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
                let effect = |layer: usize| effects[layer][aspects[layer] as usize];
                let log = f64::from(load)
                    + effect(0)
                    + writes * effect(1)
                    + (1.0 - writes) * effect(2)
                    + 0.04 * uniform();
                let cell = Cell {
                    load,
                    features: vec![writes],
                    stack,
                    aspects: aspects.clone(),
                    runs: 1,
                    noise: 1.0,
                };
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
            let model = Learnt::with(all.weights().clone(), &known, &[], 1).unwrap();
            for (cell, rate) in cells.iter().filter(|(c, _)| c.stack == stack && ![0, 5].contains(&c.load)) {
                let found = model.predict(cell);
                misses.push((found.rate / rate - 1.0).abs());
                inside += u32::from(found.interval.contains(*rate));
                asked += 1;
            }
        }
        assert!(median(&misses).unwrap() < 0.04, "{misses:?}");
        assert!(f64::from(inside) / f64::from(asked) >= 0.8, "{inside} of {asked}");
    }

    #[test]
    fn a_disturbed_run_does_not_bend_its_neighbours() {
        let mut cells = cells();
        let all = Learnt::fit(&cells, 1).unwrap();
        let asked = cells.iter().find(|(cell, _)| cell.stack == 8 && cell.load == 2).unwrap().clone();
        cells.retain(|(cell, _)| cell.stack != 8);
        let before = Learnt::with(all.weights().clone(), &cells, &[], 1).unwrap().predict(&asked.0).rate;
        let neighbour = cells.iter_mut().find(|(cell, _)| cell.stack == 24 && cell.load == 2).unwrap();
        neighbour.1 *= 4.0;
        let after = Learnt::with(all.weights().clone(), &cells, &[], 1).unwrap().predict(&asked.0).rate;
        assert!((after / before - 1.0).abs() < 0.05, "{before} {after}");
    }

    #[test]
    fn a_load_that_was_never_seen_is_not_known_until_it_was_seen_once() {
        let mut cells = cells();
        let model = Learnt::fit(&cells[..60], 1).unwrap();
        let unknown = Cell { load: 99, ..cells[0].0.clone() };
        let interval = model.predict(&unknown).interval;
        assert!(interval.high / interval.low > 1e6);
        // Like load 0, but a hundred times as fast: on one stack, and so on all.
        let (first, rate) = cells[0].clone();
        cells.push((Cell { load: 99, ..first }, rate * 100.0));
        let model = Learnt::with(model.weights().clone(), &cells, &[], 1).unwrap();
        let (other, rate) = cells.iter().find(|(cell, _)| cell.stack == 9 && cell.load == 0).unwrap();
        let found = model.predict(&Cell { load: 99, ..other.clone() });
        assert!((found.rate / rate / 100.0 - 1.0).abs() < 0.1, "{} beside {rate}", found.rate);
    }

    #[test]
    fn of_too_many_cells_those_stay_that_tell_of_the_asked_one() {
        let cells = cells();
        let asked = &cells[40].0;
        let held = some_of(&cells, 30, &[asked], 1);
        assert_eq!(held.len(), 30);
        let of_stack = held.iter().filter(|(cell, _)| cell.stack == asked.stack).count();
        let of_load = held.iter().filter(|(cell, _)| cell.load == asked.load).count();
        assert!(of_stack == 6 && of_load >= 24, "{of_stack} {of_load}");
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
