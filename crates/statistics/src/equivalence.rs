//! Are two things as good as equal? Not seeing a difference does not show that there is none; this does.
//!
//! Two one-sided tests (Schuirmann, J. Pharmacokin. Biopharm. 15, 1987): equivalent within a margin if both "it is lower
//! by more than the margin" and "it is higher by more" can be rejected at 5 %. The same as that the 90 % interval lies
//! within the margins. Where 5 looks share an error of 5 %, each of the tests is made at 1 %.

use serde::{Deserialize, Serialize};

use crate::ratio::{Ratio, log_ratios, paired_ratio_at};
use crate::student;
use crate::summary::{mean, standard_error};

/// Equal within ±10 %: the noise floor of a disk's results (acceptance rules, §4).
pub const MARGIN: f64 = 0.10;

/// What the two tests say.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Equivalence {
    /// The ratio with the interval that belongs to the two tests: of 90 % at 5 % each.
    pub ratio: Ratio,
    /// The ratio it is held against: 1 for "no difference".
    pub reference: f64,
    /// Within `reference / (1 + margin)` to `reference · (1 + margin)` it counts as equal.
    pub margin: f64,
    /// The larger p-value of the two tests.
    pub p_value: f64,
    /// Whether both reject.
    pub equivalent: bool,
}

/// Whether the ratio of `(baseline, candidate)` pairs equals `reference` within `margin`, on the logarithms. Each of the two tests errs
/// in at most 1 − `confidence` of the cases.
///
/// `None` below two pairs, if a sample is not a positive number, or without a positive reference and margin.
pub fn equivalence(
    pairs: &[(f64, f64)],
    reference: f64,
    margin: f64,
    confidence: f64,
) -> Option<Equivalence> {
    let significance = 1.0 - confidence;
    let bounds = positive(reference) && positive(margin);
    let logarithms = log_ratios(pairs).filter(|_| bounds)?;
    let centre = mean(&logarithms)?.value;
    let (error, degrees) = standard_error(&logarithms, centre)?;
    let (distance, limit) = (centre - reference.ln(), margin.ln_1p());
    // How far the nearer margin is, in standard errors: the test of that side has the larger p-value.
    let room = limit - distance.abs();
    let p_value = match error {
        0.0 => f64::from(u8::from(room <= 0.0)),
        error => 1.0 - student::cumulative(room / error, degrees),
    };
    Some(Equivalence {
        ratio: paired_ratio_at(pairs, 1.0 - 2.0 * significance)?,
        reference,
        margin,
        p_value,
        equivalent: p_value <= significance,
    })
}

/// The same question to a ratio that is known only with its interval: whether that lies within the margins. With a 95 %
/// interval each test errs in at most 2.5 %. `None` without an interval.
pub fn equivalent_by_interval(ratio: &Ratio, reference: f64, margin: f64) -> Option<bool> {
    let (low, high) = (reference / (1.0 + margin), reference * (1.0 + margin));
    ratio.interval.map(|i| low <= i.low && i.high <= high)
}

/// How far apart two things can be at most, in whole per cent, where that is shown to be next to nothing: the interval contains "no
/// difference" and lies within [`MARGIN`]. An interval that is merely wide shows no equality.
pub fn equal_within_percent(ratio: &Ratio) -> Option<f64> {
    let change = ratio.change_interval_percent().filter(|_| ratio.differs() == Some(false))?;
    let is_narrow = equivalent_by_interval(ratio, 1.0, MARGIN) == Some(true);
    is_narrow.then(|| change.low.abs().max(change.high.abs()).ceil().max(1.0))
}

fn positive(number: f64) -> bool {
    number > 0.0 && number.is_finite()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::CONFIDENCE;
    use crate::summary::Interval;

    #[test]
    fn only_a_narrow_interval_around_no_difference_shows_equality() {
        let within = |low, high| {
            let ratio = Ratio { value: 1.0, interval: Some(Interval { low, high }), pairs: 3 };
            equal_within_percent(&ratio)
        };
        assert_eq!(within(0.985, 1.021), Some(3.0));
        assert_eq!(within(1.0, 1.0), Some(1.0));
        assert_eq!(within(0.80, 1.02), None, "wide");
        assert_eq!(within(1.001, 1.002), None, "told apart, however little");
        assert_eq!(equal_within_percent(&Ratio { value: 1.0, interval: None, pairs: 1 }), None);
    }

    /// Pairs with these log-ratios.
    fn pairs(logarithms: &[f64]) -> Vec<(f64, f64)> {
        logarithms.iter().map(|l| (100.0, 100.0 * l.exp())).collect()
    }

    /// The t distribution with three degrees of freedom has a closed form, so this needs none of our own functions.
    fn cumulative_of_three(t: f64) -> f64 {
        let x = t / 3.0_f64.sqrt();
        0.5 + (x / (1.0 + x * x) + x.atan()) / std::f64::consts::PI
    }

    #[test]
    fn a_worked_example_of_four_pairs() {
        // Log-ratios 0.01, 0.03, -0.02, 0.02: mean 0.01, standard error √(0.0014/3/4) = 0.010801. The nearer margin is
        // ln 1.1 = 0.09531: t = 0.08531/0.010801 = 7.898, p = 0.00211. 90 %: 0.01 ± 2.3534 · 0.010801.
        let found = equivalence(&pairs(&[0.01, 0.03, -0.02, 0.02]), 1.0, MARGIN, CONFIDENCE).unwrap();
        let t = (1.1_f64.ln() - 0.01) / (0.0014_f64 / 12.0).sqrt();
        assert!((t - 7.898).abs() < 0.001);
        assert!((found.p_value - (1.0 - cumulative_of_three(t))).abs() < 1e-9, "{found:?}");
        assert!((found.p_value - 0.002_11).abs() < 1e-5, "{found:?}");
        assert!(found.equivalent);
        let interval = found.ratio.interval.unwrap();
        assert!((interval.low.ln() - (0.01 - 2.353_363 * 0.010_801_2)).abs() < 1e-6, "{interval:?}");
    }

    #[test]
    fn too_few_or_too_scattered_pairs_show_nothing() {
        let scattered = equivalence(&pairs(&[0.2, -0.2, 0.1]), 1.0, MARGIN, CONFIDENCE).unwrap();
        assert!(!scattered.equivalent && scattered.ratio.differs() == Some(false), "{scattered:?}");
        assert_eq!(equivalence(&pairs(&[0.0]), 1.0, MARGIN, CONFIDENCE), None);
        assert_eq!(equivalence(&pairs(&[0.0, 0.0]), 0.0, MARGIN, CONFIDENCE), None);
        assert!(equivalence(&pairs(&[0.0, 0.0]), 1.0, MARGIN, CONFIDENCE).unwrap().equivalent);
        assert!(!equivalence(&pairs(&[0.2, 0.2]), 1.0, MARGIN, CONFIDENCE).unwrap().equivalent);
    }

    #[test]
    fn a_published_effect_can_be_the_reference() {
        let measured = pairs(&[-0.40, -0.42, -0.41, -0.39]);
        assert!(equivalence(&measured, 0.67, MARGIN, CONFIDENCE).unwrap().equivalent);
        assert!(!equivalence(&measured, 1.0, MARGIN, CONFIDENCE).unwrap().equivalent);
    }

    proptest::proptest! {
        #[test]
        fn the_tests_agree_with_their_interval(
            logarithms in proptest::collection::vec(-0.1_f64..0.1, 2..12)
        ) {
            let found = equivalence(&pairs(&logarithms), 1.0, MARGIN, CONFIDENCE).unwrap();
            let inside = equivalent_by_interval(&found.ratio, 1.0, MARGIN).unwrap();
            proptest::prop_assert_eq!(found.equivalent, inside, "{:?}", found);
        }
    }
}
