//! How far runs of one cell are apart, load by load, and how small errors can be at best for it.

use std::collections::BTreeMap;

use nestor_results::WrittenWorkload;
use nestor_statistics::{Interval, SeededOrder, median};
use serde::Serialize;

use crate::evidence::MeasuredLoad;

/// Degrees of freedom with which the variance of all loads counts for each: a load that was repeated often has its own, one that was
/// not has that of all.
const OF_ALL: f64 = 4.0;
/// Fewer degrees of freedom tell no variance.
const LEAST_FREEDOM: f64 = 4.0;
/// Half of a normal distribution is within so many deviations.
pub(crate) const HALF: f64 = 0.674;
/// Draws of the bootstrap.
const DRAWS: usize = 400;
/// Where they begin.
const SEED: u64 = 11;

/// Variances of the logarithm of one run of a cell.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Noise {
    all: Option<f64>,
    loads: BTreeMap<WrittenWorkload, f64>,
    cells: usize,
    /// How far runs were from the mean of their cells, in deviations of their load.
    strays: Vec<f64>,
}

/// The errors of a prediction that knows the mean of each cell exactly: what is left is measurement.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Floor {
    /// Half of its errors are below this share.
    pub median: f64,
    /// Where that is in nine of ten draws.
    pub median_interval: Interval,
    /// Nine of ten are below this.
    pub p90: f64,
}

impl Noise {
    /// From cells that were measured several times: the squares of all of a load are pooled over its stacks, and shrunk to those of all
    /// loads.
    pub fn of(cells: &[MeasuredLoad]) -> Self {
        let several: Vec<(&MeasuredLoad, Vec<f64>)> =
            cells.iter().filter(|cell| cell.run_rates.len() > 1).map(|cell| (cell, strays(cell))).collect();
        let mut of_loads: BTreeMap<&WrittenWorkload, (f64, f64)> = BTreeMap::new();
        let (mut squares, mut freedom) = (0.0, 0.0);
        for (cell, away) in &several {
            let (of_cell, free) = (away.iter().map(|a| a * a).sum::<f64>(), away.len() as f64 - 1.0);
            let of_load = of_loads.entry(&cell.load).or_default();
            *of_load = (of_load.0 + of_cell, of_load.1 + free);
            (squares, freedom) = (squares + of_cell, freedom + free);
        }
        let Some(all) = (freedom >= LEAST_FREEDOM).then(|| squares / freedom) else { return Self::default() };
        let shrunk = |(squares, free): (f64, f64)| (squares + OF_ALL * all) / (free + OF_ALL);
        let loads: BTreeMap<WrittenWorkload, f64> =
            of_loads.into_iter().map(|(load, sums)| (load.clone(), shrunk(sums))).collect();
        let of_run = |(cell, away): &(&MeasuredLoad, Vec<f64>)| {
            let runs = away.len() as f64;
            let scale = (runs / (runs - 1.0)).sqrt() / loads[&cell.load].sqrt().max(1e-12);
            away.iter().map(|a| a * scale).collect::<Vec<_>>()
        };
        let strays = several.iter().flat_map(of_run).collect();
        Self { all: Some(all), cells: several.len(), strays, loads }
    }

    /// Of all loads, with the number of cells that tell it; `None` where no cell was measured twice.
    pub fn of_all(&self) -> Option<(f64, usize)> {
        self.all.map(|all| (all, self.cells))
    }

    /// Half of the runs of a cell are further from its mean than this share, and of how many cells that is known.
    pub fn half_of_all(&self) -> Option<(f64, usize)> {
        self.of_all().map(|(variance, cells)| (HALF * variance.sqrt(), cells))
    }

    /// The same of a load, with its own variance.
    pub fn half(&self, load: &WrittenWorkload) -> Option<f64> {
        self.variance(load).map(|variance| HALF * variance.sqrt())
    }

    /// Of one run of a load; that of all where it was never repeated.
    pub fn variance(&self, load: &WrittenWorkload) -> Option<f64> {
        self.loads.get(load).copied().or(self.all)
    }

    /// How far a load's runs stray, relative to those of all: a deviation over a deviation; 1 where it is not known.
    pub fn relative(&self, load: &WrittenWorkload) -> f64 {
        match (self.variance(load), self.all) {
            (Some(of_load), Some(all)) if all > 0.0 => (of_load / all).sqrt(),
            _ => 1.0,
        }
    }

    /// What a perfect prediction would be off in cells of these loads, each the mean of so many runs: deviations are drawn again from
    /// those that were found (bootstrap: Efron, Annals of Statistics 7, 1979). `None` where nothing was repeated, and without cells.
    pub fn floor(&self, cells: &[(&WrittenWorkload, usize)]) -> Option<Floor> {
        if self.strays.is_empty() || cells.is_empty() {
            return None;
        }
        let mut chance = SeededOrder::new(SEED);
        let (mut medians, mut nineties) = (Vec::new(), Vec::new());
        for _ in 0..DRAWS {
            let mut error = |(load, runs): &(&WrittenWorkload, usize)| {
                let drawn: f64 = (0..*runs).map(|_| self.strays[chance.below(self.strays.len())]).sum();
                let deviation = self.variance(load).unwrap_or_default().sqrt();
                (drawn / *runs as f64 * deviation).exp_m1().abs()
            };
            let mut errors: Vec<f64> = cells.iter().filter(|(_, runs)| *runs > 0).map(&mut error).collect();
            errors.sort_by(f64::total_cmp);
            medians.push(median(&errors)?);
            nineties.push(rank_quantile(&errors, 0.9)?);
        }
        medians.sort_by(f64::total_cmp);
        let interval = Interval { low: rank_quantile(&medians, 0.05)?, high: rank_quantile(&medians, 0.95)? };
        Some(Floor { median: median(&medians)?, median_interval: interval, p90: median(&nineties)? })
    }
}

/// Logarithms of runs less their mean.
fn strays(cell: &MeasuredLoad) -> Vec<f64> {
    let logs: Vec<f64> = cell.run_rates.iter().filter(|rate| **rate > 0.0).map(|rate| rate.ln()).collect();
    let mean = logs.iter().sum::<f64>() / logs.len().max(1) as f64;
    logs.iter().map(|log| log - mean).collect()
}

/// The value below which such a share of sorted ones is: always one of them, while the median of an even number of values lies between two.
pub(crate) fn rank_quantile(sorted: &[f64], share: f64) -> Option<f64> {
    let place = (sorted.len() as f64 * share) as usize;
    sorted.get(place.min(sorted.len().saturating_sub(1))).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(load: &str, run_rates: Vec<f64>) -> MeasuredLoad {
        MeasuredLoad { load: load.into(), run_rates, ..MeasuredLoad::default() }
    }

    /// Cells of three runs each: a load that strays by 1 % and one that strays by 10 %.
    fn cells() -> Vec<MeasuredLoad> {
        let mut chance = SeededOrder::new(2);
        let mut cells = Vec::new();
        for (load, deviation) in [("calm", 0.01_f64), ("wild", 0.1)] {
            for _ in 0..200 {
                cells.push(cell(load, (0..3).map(|_| (deviation * chance.normal()).exp()).collect()));
            }
        }
        cells
    }

    #[test]
    fn each_load_has_its_own_noise_and_one_that_was_not_repeated_that_of_all() {
        let noise = Noise::of(&cells());
        let relative = |load: &str| noise.relative(&load.into());
        let deviation = |load: &str| noise.variance(&load.into()).unwrap().sqrt();
        assert!((deviation("calm") / 0.01 - 1.0).abs() < 0.3, "{}", deviation("calm"));
        assert!((deviation("wild") / 0.1 - 1.0).abs() < 0.1, "{}", deviation("wild"));
        assert!(relative("wild") > 1.2 && relative("calm") < 0.3);
        assert_eq!((relative("new"), noise.of_all().unwrap().1), (1.0, 400));
        assert_eq!(Noise::of(&[cell("once", vec![3.0])]), Noise::default());
    }

    /// By hand: in each cell squares of 2 × 0.1² with one degree of freedom; as much in the pooled variance, which changes nothing.
    #[test]
    fn a_variance_is_that_of_the_runs_about_the_mean_of_their_cell() {
        let pair = cell("one", vec![0.1_f64.exp(), (-0.1_f64).exp()]);
        let noise = Noise::of(&vec![pair.clone(); 4]);
        assert!((noise.variance(&"one".into()).unwrap() - 0.02).abs() < 1e-12);
        assert_eq!(Noise::of(&[pair]), Noise::default(), "one pair of runs tells no variance");
    }

    /// Half of a normal distribution is within 0.674 deviations, nine of ten within 1.645; the mean of three runs strays less.
    #[test]
    fn the_floor_is_that_of_the_mean_of_as_many_runs() {
        let noise = Noise::of(&cells());
        let floor = |runs: usize| noise.floor(&[(&"wild".into(), runs); 300]).unwrap();
        let (one, three) = (floor(1), floor(3));
        assert!((one.median / 0.0674 - 1.0).abs() < 0.15, "{one:?}");
        assert!((one.p90 / 0.165 - 1.0).abs() < 0.15, "{one:?}");
        assert!((one.median / three.median / 3.0_f64.sqrt() - 1.0).abs() < 0.15, "{three:?}");
        assert!(one.median_interval.contains(one.median));
        assert_eq!(noise.floor(&[]), None);
    }
}
