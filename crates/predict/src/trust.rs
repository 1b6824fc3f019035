//! How far to trust what is learnt from cells: whole stacks and whole families are hidden, predicted from the rest, and the errors
//! held against what each way to learn said of itself.

use std::ops::Index;

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
/// Steps of a share.
const STEPS: u32 = 4;
/// What may count as no change: so many deviations.
const STILL: [f64; 4] = [0.0, 0.5, 1.0, 2.0];
/// An error that is as good as none, as a deviation of a logarithm.
const NEGLIGIBLE: f64 = 0.02;
/// None is taken for surer than this.
const SUREST: f64 = 0.02;
/// What a way that says nothing of its errors is off, before it was tried.
const UNTRIED: f64 = 0.25;

/// Ways to learn from the same cells. They err together, so they have one voice among the methods.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Learner {
    /// From demands.
    Mechanisms,
    /// From rates.
    Rates,
    /// The rate on the stack most like the target.
    Alike,
}

impl Learner {
    /// The one that is preferred among equals first.
    pub const ALL: [Self; 3] = [Self::Mechanisms, Self::Rates, Self::Alike];
}

/// One of each learner. Files have it as an array in the order of [`Learner::ALL`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ByLearner<T>(T, T, T);

impl<T> ByLearner<T> {
    pub(crate) fn of(one: impl Fn(Learner) -> T) -> Self {
        let [mechanisms, rates, alike] = Learner::ALL.map(one);
        Self(mechanisms, rates, alike)
    }
}

impl<T> Index<Learner> for ByLearner<T> {
    type Output = T;

    fn index(&self, learner: Learner) -> &T {
        match learner {
            Learner::Mechanisms => &self.0,
            Learner::Rates => &self.1,
            Learner::Alike => &self.2,
        }
    }
}

/// A logarithm with its deviation, as a model sees it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Guess {
    pub log: f64,
    pub deviation: f64,
}

/// Of each learner that has one.
pub(crate) type Guesses = ByLearner<Option<Guess>>;

/// A hidden cell: what was found, and what was guessed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Trial {
    pub truth: f64,
    pub guesses: Guesses,
}

/// How far to trust the learners.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trust {
    /// What each counts, 0 to 1, beside the precision that it claims; together 1.
    pub shares: ByLearner<f64>,
    /// By how much the deviation of each is to be wider, for its 90 % intervals to hold 90 % of what was hidden.
    pub widenings: ByLearner<f64>,
    /// The same of all together.
    pub widening: f64,
    /// Most layers change nothing for most loads: a difference to the most similar stack that is within so many deviations is taken for none.
    pub still: f64,
}

/// Shares of the preferred one alone.
const PREFERRED: ByLearner<f64> = ByLearner(1.0, 0.0, 0.0);

impl Default for Trust {
    fn default() -> Self {
        Self { shares: PREFERRED, widenings: ByLearner(1.0, 1.0, 1.0), widening: 1.0, still: 0.0 }
    }
}

/// Those that there are, each by its share and its precision. Deviations do not shrink: they look at the same cells.
fn joint(guesses: &Guesses, shares: &ByLearner<f64>) -> Option<Guess> {
    let present =
        || Learner::ALL.into_iter().filter_map(|learner| Some((guesses[learner]?, shares[learner])));
    let weight = |guess: &Guess, share: f64| share / guess.deviation.max(SUREST).powi(2);
    let all: f64 = present().map(|(guess, share)| weight(&guess, share)).sum();
    if all <= 0.0 {
        // None of those that count has a number: the preferred one of the others.
        return present().next().map(|(guess, _)| guess);
    }
    let mean = |value: fn(&Guess) -> f64| {
        present().map(|(guess, share)| value(&guess) * weight(&guess, share) / all).sum()
    };
    Some(Guess { log: mean(|guess| guess.log), deviation: mean(|guess| guess.deviation) })
}

/// The guess of the most similar stack, where `joint` differs from it by less than can be told: a spike at no effect. The normal
/// distribution of the others shrinks every effect and leaves none at zero.
fn unchanged(guesses: &Guesses, joint: Guess, still: f64) -> Option<Guess> {
    guesses[Learner::Alike].filter(|alike| (joint.log - alike.log).abs() < still * joint.deviation)
}

/// What all say, or what is on the most similar stack; always as sure as all are.
fn settled(guesses: &Guesses, shares: &ByLearner<f64>, still: f64) -> Option<Guess> {
    let joint = joint(guesses, shares)?;
    Some(unchanged(guesses, joint, still).map_or(joint, |alike| Guess { log: alike.log, ..joint }))
}

impl Trust {
    /// From hidden cells.
    pub(crate) fn of(trials: &[Trial]) -> Self {
        let (shares, still) = best(trials);
        let off = |guess: Option<Guess>, truth: f64| {
            guess.map(|guess| (truth - guess.log).abs() / guess.deviation.max(1e-9))
        };
        let of_learner = |learner: Learner| {
            widening(trials.iter().filter_map(|trial| off(trial.guesses[learner], trial.truth)).collect())
        };
        let together =
            trials.iter().filter_map(|trial| off(settled(&trial.guesses, &shares, still), trial.truth));
        Self { shares, widenings: ByLearner::of(of_learner), widening: widening(together.collect()), still }
    }

    /// The learners' guess together, with the deviation that it deserves.
    pub(crate) fn together(&self, guesses: &Guesses) -> Option<Guess> {
        let guess = settled(guesses, &self.shares, self.still)?;
        Some(Guess { deviation: guess.deviation * self.widening, ..guess })
    }

    /// What each learner counts in that.
    pub(crate) fn counted(&self, guesses: &Guesses) -> ByLearner<f64> {
        match joint(guesses, &self.shares).and_then(|joint| unchanged(guesses, joint, self.still)) {
            Some(_) => ByLearner(0.0, 0.0, 1.0),
            None => self.shares,
        }
    }

    /// A learner's guess with the deviation that it deserves.
    pub(crate) fn alone(&self, learner: Learner, guess: Guess) -> Guess {
        Guess { deviation: guess.deviation * self.widenings[learner], ..guess }
    }

    /// The guess of the stack most like the target, which says nothing of its error itself.
    pub(crate) fn of_alike(rate: f64) -> Option<Guess> {
        (rate > 0.0).then(|| Guess { log: rate.ln(), deviation: UNTRIED })
    }
}

/// The shares, and what counts as no change, with the smallest errors; of equal ones those that prefer the preferred. The mean is of the
/// logarithms of errors, so that half of an error counts as much where it is 4 % as where it is 400 %.
fn best(trials: &[Trial]) -> (ByLearner<f64>, f64) {
    let steps = || (0..=STEPS).rev();
    let shares = steps().flat_map(|first| {
        steps().filter(move |second| first + second <= STEPS).map(move |second| {
            let share = |steps: u32| f64::from(steps) / f64::from(STEPS);
            ByLearner(share(first), share(second), share(STEPS - first - second))
        })
    });
    let all = shares.flat_map(|shares| STILL.map(|still| (shares, still)));
    let error = |(shares, still): &(ByLearner<f64>, f64)| -> f64 {
        let off = |trial: &Trial| Some((settled(&trial.guesses, shares, *still)?.log - trial.truth).abs());
        trials.iter().filter_map(off).map(|off| (off + NEGLIGIBLE).ln()).sum()
    };
    all.min_by(|a, b| error(a).total_cmp(&error(b))).unwrap_or((PREFERRED, 0.0))
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

    /// Cells of which mechanisms are off by `wrong` and say 0.1, rates by 0.3 as they say, and the alike stack by 0.6.
    fn trials(count: usize, wrong: f64, chance: &mut SeededOrder) -> Vec<Trial> {
        let mut off = |truth: f64, by: f64, deviation: f64| {
            Some(Guess { log: truth + by * chance.normal(), deviation })
        };
        (0..count)
            .map(|place| {
                let truth = (place as f64).sin();
                Trial {
                    truth,
                    guesses: ByLearner(
                        off(truth, wrong, 0.1),
                        off(truth, 0.3, 0.3),
                        off(truth, 0.6, UNTRIED),
                    ),
                }
            })
            .collect()
    }

    #[test]
    fn the_best_is_trusted_and_one_that_is_too_sure_is_widened() {
        let mut chance = SeededOrder::new(4);
        let good = Trust::of(&trials(400, 0.1, &mut chance));
        let told = |trial: &Trial| (good.together(&trial.guesses).unwrap().log - trial.truth).abs();
        let off = trials(400, 0.1, &mut chance).iter().map(told).sum::<f64>() / 400.0;
        // The mean of the absolute values of a normal distribution is 0.8 deviations.
        assert!(off < 0.085 && good.shares[Learner::Mechanisms] > 0.0, "{off} {good:?}");
        assert!(
            (good.widenings[Learner::Mechanisms] - 1.0).abs() < 0.15
                && (good.widenings[Learner::Alike] - 2.4).abs() < 0.3,
            "{good:?}"
        );
        let sure = Trust::of(&trials(400, 0.2, &mut chance));
        assert!((sure.widenings[Learner::Mechanisms] - 2.0).abs() < 0.3, "{sure:?}");
        let bad = Trust::of(&trials(400, 2.0, &mut chance));
        assert!(
            bad.shares[Learner::Mechanisms] == 0.0 && bad.widenings[Learner::Mechanisms] == WIDEST,
            "{bad:?}"
        );
    }

    /// New errors are within intervals that were calibrated with 60 others in 90 % of the cases, to within what 400 × 60 draws tell.
    #[test]
    fn calibrated_intervals_hold_nine_of_ten() {
        let mut chance = SeededOrder::new(9);
        let (mut inside, mut asked) = (0_u32, 0_u32);
        for _ in 0..400 {
            let trust = Trust::of(&trials(60, 0.17, &mut chance));
            for trial in trials(60, 0.17, &mut chance) {
                let guess = trust.together(&trial.guesses).unwrap();
                inside += u32::from((trial.truth - guess.log).abs() <= DEVIATIONS * guess.deviation);
                asked += 1;
            }
        }
        let coverage = f64::from(inside) / f64::from(asked);
        assert!((0.88..=0.92).contains(&coverage), "{coverage}");
    }

    /// Three of four layers change nothing, which the model cannot tell from a little; the others change a lot.
    fn sparse(count: usize, chance: &mut SeededOrder) -> Vec<Trial> {
        (0..count)
            .map(|place| {
                let effect = if place % 4 == 0 { 2.0 } else { 0.0 };
                let alike = (place as f64).sin();
                let truth = alike + effect + 0.005 * chance.normal();
                let told = Some(Guess { log: truth + 0.1 * chance.normal(), deviation: 0.1 });
                Trial { truth, guesses: ByLearner(told, None, Trust::of_alike(alike.exp())) }
            })
            .collect()
    }

    #[test]
    fn where_layers_change_nothing_it_is_as_on_the_most_similar_stack_and_elsewhere_as_told() {
        let mut chance = SeededOrder::new(6);
        let trust = Trust::of(&sparse(200, &mut chance));
        let asked = sparse(200, &mut chance);
        let off = |trial: &Trial| (trust.together(&trial.guesses).unwrap().log - trial.truth).abs();
        let mut errors: Vec<f64> = asked.iter().map(off).collect();
        errors.sort_by(f64::total_cmp);
        // As exact as the similar stack where that is right, and not off by 2 where it is wrong.
        assert!(errors[100] < 0.01 && errors[199] < 0.5, "{} {} {trust:?}", errors[100], errors[199]);
        let counted = |place: usize| trust.counted(&asked[place].guesses)[Learner::Alike];
        assert_eq!(counted(0), 0.0, "{trust:?}");
        let unchanged =
            asked.iter().filter(|trial| trust.counted(&trial.guesses)[Learner::Alike] == 1.0).count();
        assert!((100..=150).contains(&unchanged), "{unchanged}");
    }

    #[test]
    fn who_has_no_number_is_replaced_by_the_others() {
        let guess = |log: f64| Some(Guess { log, deviation: 0.1 });
        let shares = ByLearner(0.5, 0.0, 0.5);
        assert_eq!(joint(&ByLearner(guess(1.0), guess(9.0), guess(3.0)), &shares).unwrap().log, 2.0);
        assert_eq!(joint(&ByLearner(None, guess(9.0), guess(3.0)), &shares).unwrap().log, 3.0);
        assert_eq!(joint(&ByLearner(None, guess(9.0), None), &shares).unwrap().log, 9.0);
        assert_eq!(joint(&ByLearner(None, None, None), &shares), None);
    }

    #[test]
    fn files_have_learners_in_their_order() {
        let shares = ByLearner::of(|learner| if learner == Learner::Rates { 0.75 } else { 0.0 });
        let text = "[0.0,0.75,0.0]";
        assert_eq!(serde_json::to_string(&shares).unwrap(), text);
        assert_eq!(serde_json::from_str::<ByLearner<f64>>(text).unwrap(), shares);
    }

    #[test]
    fn few_errors_make_nothing_narrower() {
        assert_eq!(widening(Vec::new()), 1.0);
        assert_eq!(widening(vec![0.1; 5]), 1.0);
        assert_eq!(widening(vec![0.0; 50]), NARROWEST);
        // By hand: of nine the ninth.
        let nine: Vec<f64> = (1..=9).map(f64::from).map(|off| off / 3.0).collect();
        assert_eq!(widening(nine), 3.0 / DEVIATIONS);
    }
}
