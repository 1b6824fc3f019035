//! The cells of a matrix that were not measured, from those that were: guests × hosts, or guests × hosts × workloads.
//!
//! The logarithm of a rate is the sum of what each factor's level does, of what levels do together, and of the error of
//! measuring. Each of these is drawn from a normal distribution whose variance is fitted (random effects: Henderson, Biometrics
//! 31, 1975, whose best linear unbiased predictions these are; as a Gaussian process, levels are alike if they are the same). So
//! few cells give wide intervals instead of wild effects, and what factors do together is in the interval where it cannot be told.

use serde::{Deserialize, Serialize};

use crate::gaussian_process::GaussianProcess;
use crate::informative::most_informative;
use crate::simplex;
use crate::student;
use crate::summary::Interval;

/// Fewer cells tell no variances.
pub const FEWEST_CELLS: usize = 4;
/// Values of the likelihood that the search for the variances may ask for, for each of them.
const EVALUATIONS: usize = 80;
/// Effects of more factors together than these are part of the error.
const MOST_TOGETHER: usize = 2;
/// Confidence of the intervals.
const CONFIDENCE: f64 = 0.90;

/// A cell that was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MeasuredCell {
    /// The level of each factor, from 0.
    pub levels: Vec<usize>,
    /// Its rate, in any unit that is the same within a workload; positive.
    pub rate: f64,
}

/// What is expected of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct CellPrediction {
    /// The rate.
    pub rate: f64,
    /// Where a measurement would be found with 90 % probability.
    pub interval: Interval,
    /// Whether every one of its levels was measured with some other; otherwise it is not known.
    pub is_told: bool,
}

/// A matrix with what was measured of it.
pub struct Completion {
    level_counts: Vec<usize>,
    process: GaussianProcess<Vec<usize>, Covariance>,
    variances: Variances,
    /// Half a 90 % interval of a prediction, in deviations.
    half: f64,
}

type Covariance = Box<dyn Fn(&Vec<usize>, &Vec<usize>) -> f64 + Send + Sync>;

/// Variances of effects: of sets of factors, and of what is left.
#[derive(Clone, Debug)]
struct Variances {
    /// The factors of a set, as bits; and the variance of their effects together.
    effects: Vec<(u32, f64)>,
    /// Of a cell alone: what all factors do together, and the error of measuring it.
    rest: f64,
}

impl Variances {
    /// The sets of factors that have effects, the single ones first.
    fn sets(factors: usize) -> Vec<u32> {
        let mut sets: Vec<u32> = (1..1_u32 << factors)
            .filter(|set| {
                let together = set.count_ones() as usize;
                // All together are what a cell alone has.
                together <= MOST_TOGETHER && together < factors.max(2)
            })
            .collect();
        sets.sort_by_key(|set| set.count_ones());
        sets
    }

    fn of_search(sets: &[u32], logs: &[f64]) -> Self {
        // Below a hundredth of a per cent nothing changes any more; above e³ nothing real is.
        let variance = |log: &f64| (2.0 * log).exp().clamp(1e-8, 10.0);
        let (rest, effects) = match logs.split_last() {
            Some((rest, effects)) => (variance(rest).max(1e-6), effects),
            None => (1e-4, logs),
        };
        Self { effects: sets.iter().copied().zip(effects.iter().map(variance)).collect(), rest }
    }

    fn covariance(&self) -> Covariance {
        let effects = self.effects.clone();
        Box::new(move |a, b| {
            let same = a.iter().zip(b).enumerate().filter(|(_, (a, b))| a == b);
            let same = same.fold(0_u32, |bits, (factor, _)| bits | 1 << factor);
            effects.iter().filter(|(set, _)| set & same == *set).map(|(_, variance)| variance).sum()
        })
    }
}

impl Completion {
    /// Fits the cells of a matrix with so many levels of each factor. `None` with fewer than four cells, with a rate that is not
    /// positive, or a level that its factor lacks.
    pub fn fit(level_counts: &[usize], cells: &[MeasuredCell]) -> Option<Self> {
        let fits = |cell: &MeasuredCell| {
            cell.levels.len() == level_counts.len()
                && cell.levels.iter().zip(level_counts).all(|(level, count)| level < count)
                && cell.rate.is_finite()
                && cell.rate > 0.0
        };
        if cells.len() < FEWEST_CELLS
            || level_counts.is_empty()
            || level_counts.len() > 8
            || !cells.iter().all(fits)
        {
            return None;
        }
        let process_of = |variances: &Variances| {
            let levels = cells.iter().map(|cell| cell.levels.clone()).collect();
            let rates = cells.iter().map(|cell| cell.rate.ln()).collect();
            GaussianProcess::fit(levels, rates, &vec![variances.rest; cells.len()], variances.covariance())
        };
        let sets = Variances::sets(level_counts.len());
        let start = usual_deviations(&sets);
        let misfit = |logs: &[f64]| {
            let process = process_of(&Variances::of_search(&sets, logs));
            // A faint wish for the usual, for few cells hardly tell variances apart.
            let away: f64 = logs.iter().zip(&start).map(|(log, usual)| ((log - usual) / 1.5).powi(2)).sum();
            process.map_or(f64::INFINITY, |process| -process.log_likelihood() + 0.5 * away)
        };
        let found = simplex::minimise(&start, 0.7, EVALUATIONS * start.len(), misfit);
        let variances = Variances::of_search(&sets, &found);
        let process = process_of(&variances)?;
        // The variances are estimates: of as many values as there are cells beyond the levels that were met.
        let met: usize = (0..level_counts.len())
            .map(|factor| {
                let mut levels: Vec<usize> = cells.iter().map(|cell| cell.levels[factor]).collect();
                levels.sort_unstable();
                levels.dedup();
                levels.len() - 1
            })
            .sum();
        let degrees = cells.len().saturating_sub(met + 1).max(3);
        let half = student::two_sided_factor(CONFIDENCE, degrees as f64)?;
        Some(Self { level_counts: level_counts.to_vec(), process, variances, half })
    }

    /// What is expected of a cell; `None` for a level that its factor lacks.
    pub fn predict(&self, levels: &[usize]) -> Option<CellPrediction> {
        let fits = levels.len() == self.level_counts.len()
            && levels.iter().zip(&self.level_counts).all(|(level, count)| level < count);
        if !fits {
            return None;
        }
        let found = self.process.predict(&levels.to_vec());
        let half = self.half * (found.variance + self.variances.rest).sqrt();
        let met = |factor: usize| self.process.points().iter().any(|known| known[factor] == levels[factor]);
        Some(CellPrediction {
            rate: found.mean.exp(),
            interval: Interval { low: (found.mean - half).exp(), high: (found.mean + half).exp() },
            is_told: (0..levels.len()).all(met),
        })
    }

    /// The cells most worth measuring next of those that were not, the most informative first.
    pub fn suggest(&self, count: usize) -> Vec<Vec<usize>> {
        let all = all_cells(&self.level_counts);
        let measured = |cell: &Vec<usize>| self.process.points().contains(cell);
        let known: Vec<usize> = (0..all.len()).filter(|index| measured(&all[*index])).collect();
        let covariance = self.variances.covariance();
        let rest = self.variances.rest;
        // What a cell has alone is worth knowing only for itself.
        let entry = |i: usize, j: usize| covariance(&all[i], &all[j]) + if i == j { rest } else { 0.0 };
        let matrix = (0..all.len()).map(|i| (0..all.len()).map(|j| entry(i, j)).collect()).collect();
        let chosen = most_informative(matrix, rest * 0.1, &known, |index| !known.contains(&index), count);
        chosen.into_iter().map(|index| all[index].clone()).collect()
    }

    /// Standard deviation of the logarithm of what each factor does alone.
    pub fn deviations(&self) -> Vec<f64> {
        let alone = self.variances.effects.iter().filter(|(set, _)| set.count_ones() == 1);
        alone.map(|(_, variance)| variance.sqrt()).collect()
    }
}

/// A first guess for the search: logarithms of deviations. Each factor alone does more than two together, and these more than
/// what is left.
fn usual_deviations(sets: &[u32]) -> Vec<f64> {
    let deviation = |set: &u32| if set.count_ones() == 1 { 0.3_f64 } else { 0.1 };
    sets.iter().map(|set| deviation(set).ln()).chain([0.05_f64.ln()]).collect()
}

/// All combinations of levels.
fn all_cells(level_counts: &[usize]) -> Vec<Vec<usize>> {
    level_counts.iter().fold(vec![Vec::new()], |cells, count| {
        let with = |cell: Vec<usize>| (0..*count).map(move |level| [cell.as_slice(), &[level]].concat());
        cells.into_iter().flat_map(with).collect()
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::random::SeededOrder;
    use crate::summary::median;

    /// Six guests on seven hosts: each has its effect, some pairs their own, and each run an error.
    fn matrix(seed: u64) -> Vec<MeasuredCell> {
        let mut order = SeededOrder::new(seed);
        let mut uniform = || order.unit() - 0.5;
        let guests: Vec<f64> = (0..6).map(|_| uniform() * 0.8).collect();
        let hosts: Vec<f64> = (0..7).map(|_| uniform() * 1.2).collect();
        all_cells(&[6, 7])
            .into_iter()
            .map(|levels| {
                let log = 3.0 + guests[levels[0]] + hosts[levels[1]] + uniform() * 0.1;
                MeasuredCell { levels, rate: log.exp() }
            })
            .collect()
    }

    /// Twelve cells that meet every guest twice and every host at least once.
    fn twelve(cells: &[MeasuredCell]) -> Vec<MeasuredCell> {
        let met = |cell: &&MeasuredCell| {
            let (guest, host) = (cell.levels[0], cell.levels[1]);
            host == guest || host == (guest + 1) % 7
        };
        cells.iter().filter(met).cloned().collect()
    }

    #[test]
    fn twelve_of_forty_two_cells_tell_the_others() {
        let (mut misses, mut inside, mut all) = (Vec::new(), 0, 0);
        for seed in 0..12 {
            let cells = matrix(seed);
            let known = twelve(&cells);
            assert_eq!(known.len(), 12);
            let found = Completion::fit(&[6, 7], &known).unwrap();
            for cell in cells.iter().filter(|cell| !known.contains(cell)) {
                let predicted = found.predict(&cell.levels).unwrap();
                assert!(predicted.is_told);
                misses.push((predicted.rate / cell.rate - 1.0).abs());
                inside += usize::from(predicted.interval.contains(cell.rate));
                all += 1;
            }
        }
        assert!(median(&misses).unwrap() < 0.10, "{:?}", median(&misses));
        let covered = f64::from(inside as u32) / f64::from(all as u32);
        assert!((0.85..=0.97).contains(&covered), "{covered}");
    }

    #[test]
    fn a_level_that_was_never_met_is_not_told() {
        let cells = matrix(1);
        let known: Vec<MeasuredCell> =
            twelve(&cells).into_iter().filter(|cell| cell.levels[0] != 3).collect();
        let found = Completion::fit(&[6, 7], &known).unwrap();
        let (told, untold) = (found.predict(&[0, 5]).unwrap(), found.predict(&[3, 5]).unwrap());
        assert!(told.is_told && !untold.is_told);
        let width = |p: &CellPrediction| (p.interval.high / p.interval.low).ln();
        assert!(width(&untold) > width(&told));
        // The unknown row is suggested first.
        assert_eq!(found.suggest(1)[0][0], 3);
    }

    #[test]
    fn suggestions_are_new_and_differ() {
        let cells = matrix(2);
        let known = twelve(&cells);
        let found = Completion::fit(&[6, 7], &known).unwrap();
        let suggested = found.suggest(5);
        assert_eq!(suggested.len(), 5);
        for (index, cell) in suggested.iter().enumerate() {
            assert!(known.iter().all(|k| k.levels != *cell) && !suggested[..index].contains(cell));
        }
        assert_eq!(found.suggest(100).len(), 30);
    }

    #[test]
    fn nonsense_is_refused() {
        let cells = matrix(3);
        assert!(Completion::fit(&[6, 7], &cells[..3]).is_none());
        assert!(Completion::fit(&[6, 6], &cells).is_none());
        assert!(Completion::fit(&[], &[]).is_none());
        let mut cells = twelve(&cells);
        let found = Completion::fit(&[6, 7], &cells).unwrap();
        assert_eq!(found.predict(&[6, 0]), None);
        assert_eq!(found.predict(&[0]), None);
        cells[0].rate = -1.0;
        assert!(Completion::fit(&[6, 7], &cells).is_none());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(8))]

        #[test]
        fn the_unit_does_not_matter(seed in 0_u64..1000) {
            let known = twelve(&matrix(seed));
            let scaled: Vec<MeasuredCell> =
                known.iter().map(|cell| MeasuredCell { rate: cell.rate * 1e6, ..cell.clone() }).collect();
            let a = Completion::fit(&[6, 7], &known).unwrap().predict(&[5, 0]).unwrap();
            let b = Completion::fit(&[6, 7], &scaled).unwrap().predict(&[5, 0]).unwrap();
            prop_assert!((b.rate / a.rate / 1e6 - 1.0).abs() < 0.01);
        }
    }
}
