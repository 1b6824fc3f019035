//! How far to trust what is learnt from cells: whole stacks and whole families are hidden, predicted from the rest, and the errors
//! held against what the model said of itself.

use serde::{Deserialize, Serialize};

/// Shares of an interval.
const CONFIDENCE: f64 = 0.9;
/// Deviations of a normal distribution to each side that hold so much.
const DEVIATIONS: f64 = 1.645;
/// Fewer errors do not make an interval narrower.
const FEWEST: usize = 20;
/// An interval is not made wider or narrower than so many times.
const WIDEST: f64 = 4.0;
const NARROWEST: f64 = 0.25;
/// Steps of the share.
const STEPS: u32 = 4;

/// A logarithm with its deviation, as a model sees it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Guess {
    pub log: f64,
    pub deviation: f64,
}

/// A hidden cell: what was found, and what was guessed from rates and from mechanisms.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Trial {
    pub truth: f64,
    pub by_rates: Guess,
    pub by_mechanisms: Option<Guess>,
}

/// How far to trust rates and mechanisms.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trust {
    /// What mechanisms count beside rates, 0 to 1.
    pub mechanisms: f64,
    /// By how much deviations of rates are to be wider, for 90 % intervals to hold 90 % of what was hidden.
    pub widening_by_rates: f64,
    /// The same of mechanisms.
    pub widening_by_mechanisms: f64,
    /// The same of both together.
    pub widening: f64,
}

impl Default for Trust {
    fn default() -> Self {
        Self { mechanisms: 1.0, widening_by_rates: 1.0, widening_by_mechanisms: 1.0, widening: 1.0 }
    }
}

/// Both with a share for the second. They look at the same cells and so err together: deviations do not shrink.
pub(crate) fn both(by_rates: Guess, by_mechanisms: Option<Guess>, share: f64) -> Guess {
    let Some(other) = by_mechanisms else { return by_rates };
    Guess {
        log: by_rates.log * (1.0 - share) + other.log * share,
        deviation: by_rates.deviation * (1.0 - share) + other.deviation * share,
    }
}

impl Trust {
    /// From hidden cells.
    pub(crate) fn of(trials: &[Trial]) -> Self {
        let mechanisms = best_share(trials);
        let off = |guess: Guess, truth: f64| (truth - guess.log).abs() / guess.deviation.max(1e-9);
        let by_rates = trials.iter().map(|trial| off(trial.by_rates, trial.truth));
        let by_mechanisms = trials.iter().filter_map(|trial| Some(off(trial.by_mechanisms?, trial.truth)));
        let together = trials
            .iter()
            .map(|trial| off(both(trial.by_rates, trial.by_mechanisms, mechanisms), trial.truth));
        Self {
            mechanisms,
            widening_by_rates: widening(by_rates.collect()),
            widening_by_mechanisms: widening(by_mechanisms.collect()),
            widening: widening(together.collect()),
        }
    }
}

/// The share with the smallest mean of absolute errors; of equal ones the largest.
fn best_share(trials: &[Trial]) -> f64 {
    let with_both: Vec<&Trial> = trials.iter().filter(|trial| trial.by_mechanisms.is_some()).collect();
    let shares = (0..=STEPS).rev().map(|step| f64::from(step) / f64::from(STEPS));
    let error = |share: f64| -> f64 {
        with_both
            .iter()
            .map(|trial| (both(trial.by_rates, trial.by_mechanisms, share).log - trial.truth).abs())
            .sum()
    };
    shares.min_by(|a, b| error(*a).total_cmp(&error(*b))).unwrap_or(1.0)
}

/// The split-conformal quantile of errors in deviations (Lei, G'Sell, Rinaldo, Tibshirani and Wasserman, JASA 113, 2018, algorithm 2),
/// relative to that of a normal distribution: of n, the ⌈0.9 (n + 1)⌉-th. Few errors tell only that more is needed.
fn widening(mut off: Vec<f64>) -> f64 {
    off.sort_by(f64::total_cmp);
    let place = ((off.len() + 1) as f64 * CONFIDENCE).ceil() as usize;
    let Some(quantile) = off.get(place.clamp(1, off.len().max(1)) - 1) else { return 1.0 };
    let narrowest = if off.len() < FEWEST { 1.0 } else { NARROWEST };
    (quantile / DEVIATIONS).clamp(narrowest, WIDEST)
}


#[cfg(test)]
mod tests {
    use nestor_statistics::SeededOrder;

    use super::*;

    fn trials(count: usize, wrong: f64, chance: &mut SeededOrder) -> Vec<Trial> {
        (0..count)
            .map(|_| {
                let truth = chance.normal();
                let by_rates = Guess { log: truth + 0.3 * chance.normal(), deviation: 0.3 };
                let by_mechanisms = Guess { log: truth + wrong * chance.normal(), deviation: 0.1 };
                Trial { truth, by_rates, by_mechanisms: Some(by_mechanisms) }
            })
            .collect()
    }

    #[test]
    fn the_better_of_two_is_trusted_and_one_that_is_too_sure_is_widened() {
        let mut chance = SeededOrder::new(4);
        let good = Trust::of(&trials(400, 0.1, &mut chance));
        assert!(good.mechanisms >= 0.75, "{good:?}");
        assert!((good.widening_by_mechanisms - 1.0).abs() < 0.15, "{good:?}");
        let sure = Trust::of(&trials(400, 0.2, &mut chance));
        assert!((sure.widening_by_mechanisms - 2.0).abs() < 0.3, "{sure:?}");
        let bad = Trust::of(&trials(400, 2.0, &mut chance));
        assert!(bad.mechanisms == 0.0 && bad.widening_by_mechanisms == WIDEST, "{bad:?}");
    }

    /// New errors are within intervals that were calibrated with 60 others in 90 % of the cases, to within what 400 × 60 draws tell.
    #[test]
    fn calibrated_intervals_hold_nine_of_ten() {
        let mut chance = SeededOrder::new(9);
        let (mut inside, mut asked) = (0_u32, 0_u32);
        for _ in 0..400 {
            let trust = Trust::of(&trials(60, 0.17, &mut chance));
            for trial in trials(60, 0.17, &mut chance) {
                let guess = both(trial.by_rates, trial.by_mechanisms, trust.mechanisms);
                let half = DEVIATIONS * guess.deviation * trust.widening;
                inside += u32::from((trial.truth - guess.log).abs() <= half);
                asked += 1;
            }
        }
        let coverage = f64::from(inside) / f64::from(asked);
        assert!((0.88..=0.92).contains(&coverage), "{coverage}");
    }

    #[test]
    fn few_errors_make_nothing_narrower() {
        assert_eq!(widening(Vec::new()), 1.0);
        assert_eq!(widening(vec![0.1; 5]), 1.0);
        assert_eq!(widening(vec![0.0; 50]), NARROWEST);
        // By hand: of nine the ninth.
        let nine: Vec<f64> = (1..=9).map(f64::from).collect();
        assert_eq!(widening(nine), WIDEST.min(9.0 / DEVIATIONS));
    }
}
