//! A quantity of cells whose logarithms are scaled, load by load, before it is learnt.
//!
//! What layers do to one load may be a per cent, and what they do to another a factor of ten: a host that keeps flushes to itself changes
//! nothing for reads. One variance for all would take the first for noise and the second for less than it is.

use std::collections::BTreeMap;

use nestor_statistics::prediction::learnt::{Cell, Subject, Weights};
use nestor_statistics::prediction::{Learnt, LearntRate};
use nestor_statistics::{Interval, median};

/// How far the stacks of a load are apart where weights are as usual: a deviation of logarithms.
const USUAL_SPREAD: f64 = 0.2;
/// A load is not taken for more constant than this.
const LEAST_SPREAD: f64 = 0.01;
/// Degrees of freedom with which the spread of all loads counts for each.
const OF_ALL: f64 = 2.0;
/// The order in which cells are left out where there are too many.
const SEED: u64 = 1;

/// How a quantity is learnt.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Manner {
    /// Deviation of the logarithm of what loads are by themselves.
    pub loads: f64,
    /// Cells that the search for weights looks at.
    pub searched: usize,
    /// Cells that a model of counted numbers holds: none of them is disturbed. `None` for measured ones, which may be.
    pub counted: Option<usize>,
}

/// Values of cells, each with its load's scale.
struct Scaling {
    all: f64,
    /// Mean of logarithms, and scale.
    loads: BTreeMap<u32, (f64, f64)>,
}

/// A quantity's model.
pub(crate) struct ScaledModel {
    scaling: Scaling,
    learnt: Learnt,
}

impl Scaling {
    fn of(cells: &[(Cell, f64)]) -> Self {
        let mut of_loads: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
        for (cell, value) in cells {
            of_loads.entry(cell.load).or_default().push(value.ln());
        }
        // Of each load its mean, the squares about it, and their degrees of freedom.
        let sums: BTreeMap<u32, (f64, f64, f64)> = of_loads
            .into_iter()
            .map(|(load, logs)| {
                let mean = logs.iter().sum::<f64>() / logs.len() as f64;
                let squares = logs.iter().map(|log| (log - mean).powi(2)).sum();
                (load, (mean, squares, logs.len() as f64 - 1.0))
            })
            .collect();
        // The usual one, not the mean: one load of which layers make a thousand times as much would be the measure of all.
        let logs: Vec<f64> = sums
            .values()
            .filter(|(_, _, freedom)| *freedom >= OF_ALL)
            .map(|(_, squares, freedom)| (squares / freedom).max(LEAST_SPREAD.powi(2)).ln())
            .collect();
        let variance = median(&logs).map_or(USUAL_SPREAD.powi(2), f64::exp);
        let scale = |variance: f64| USUAL_SPREAD / variance.sqrt().max(LEAST_SPREAD);
        let of_load = |(load, (mean, squares, freedom)): (u32, (f64, f64, f64))| {
            (load, (mean, scale((squares + OF_ALL * variance) / (freedom + OF_ALL))))
        };
        Self { all: scale(variance), loads: sums.into_iter().map(of_load).collect() }
    }

    /// Mean and scale of a load; one that is not known is as all are.
    fn of_load(&self, cell: &Cell) -> (f64, f64) {
        self.loads.get(&cell.load).copied().unwrap_or((0.0, self.all))
    }

    /// A cell and its value as they are learnt: what is about the load's mean by the load's scale, the mean by that of all.
    fn scaled(&self, (cell, value): &(Cell, f64)) -> (Cell, f64) {
        let (mean, scale) = self.of_load(cell);
        (self.noisy(cell), ((value.ln() - mean) * scale + mean * self.all).exp())
    }

    /// A cell whose noise is scaled as its values are.
    fn noisy(&self, cell: &Cell) -> Cell {
        let (_, scale) = self.of_load(cell);
        Cell { noise: cell.noise * scale / self.all, ..cell.clone() }
    }

    fn cells(&self, cells: &[(Cell, f64)]) -> Vec<(Cell, f64)> {
        cells.iter().map(|cell| self.scaled(cell)).collect()
    }
}

/// The weights that explain cells best; `None` with too few of them.
pub(crate) fn weights_of(cells: &[(Cell, f64)], manner: Manner) -> Option<Weights> {
    let scaling = Scaling::of(cells);
    let subject = Subject { loads: manner.loads * scaling.all, searched: manner.searched };
    Learnt::weights_of(&scaling.cells(cells), subject, SEED)
}

impl ScaledModel {
    /// The model of cells, for questions about the `asked` ones.
    pub fn of(weights: &Weights, cells: &[(Cell, f64)], manner: Manner, asked: &[&Cell]) -> Option<Self> {
        let scaling = Scaling::of(cells);
        let (weights, cells) = (weights.clone(), scaling.cells(cells));
        let learnt = match manner.counted {
            Some(most) => Learnt::of_exact(weights, &cells, asked, most, SEED),
            None => Learnt::with(weights, &cells, asked, SEED),
        };
        Some(Self { scaling, learnt: learnt? })
    }

    /// What is expected of a cell: of one run of it.
    pub fn expected(&self, cell: &Cell) -> LearntRate {
        let (mean, scale) = self.scaling.of_load(cell);
        let found = self.learnt.predict(&self.scaling.noisy(cell));
        let log = (found.rate.ln() - mean * self.scaling.all) / scale + mean;
        let deviation = found.interval.deviation_of_logarithm() / scale;
        LearntRate { rate: log.exp(), interval: Interval::of_logarithm(log, deviation) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANNER: Manner = Manner { loads: 10.0, searched: 100, counted: Some(100) };

    /// Three hosts: one does nothing to reads and a factor of a thousand to flushes.
    fn cells() -> Vec<(Cell, f64)> {
        let mut cells = Vec::new();
        for stack in 0..9_u32 {
            for load in 0..2_u32 {
                let host = stack % 3;
                let cell = Cell {
                    load,
                    features: vec![f64::from(load)],
                    stack,
                    aspects: vec![stack / 3, host],
                    runs: 1,
                    noise: 1.0,
                };
                let effect = if host == 2 { [1.0, 1000.0][load as usize] } else { 1.0 };
                let little = 1.0 + 0.002 * f64::from((stack * 5 + load) % 7);
                cells.push((cell, 7.0 * effect * little));
            }
        }
        cells
    }

    #[test]
    fn a_load_that_layers_change_a_lot_and_one_that_they_do_not_are_both_told() {
        let all = cells();
        let weights = weights_of(&all, MANNER).unwrap();
        let known: Vec<(Cell, f64)> = all.iter().filter(|(cell, _)| cell.stack != 8).cloned().collect();
        let model = ScaledModel::of(&weights, &known, MANNER, &[]).unwrap();
        for (cell, value) in all.iter().filter(|(cell, _)| cell.stack == 8) {
            let found = model.expected(cell);
            let most = [0.02, 0.5][cell.load as usize];
            assert!((found.rate / value).ln().abs() < most, "{found:?} {value}");
            assert!(found.interval.contains(*value), "{found:?} {value}");
        }
        // What is not known at all is as all are.
        let new = Cell { load: 9, ..all[0].0.clone() };
        assert!(model.expected(&new).interval.deviation_of_logarithm() > 1.0);
    }

    #[test]
    fn scaling_is_undone() {
        let all = cells();
        let scaling = Scaling::of(&all);
        for cell in &all {
            let (mean, scale) = scaling.of_load(&cell.0);
            let back = (scaling.scaled(cell).1.ln() - mean * scaling.all) / scale + mean;
            assert!((back - cell.1.ln()).abs() < 1e-9);
        }
        let spread = |load: u32| scaling.loads[&load].1;
        assert!(spread(0) > 3.0 * spread(1), "{} {}", spread(0), spread(1));
    }
}
