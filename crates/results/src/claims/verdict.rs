//! From an effect with its interval to a verdict. Pure.
//!
//! The rules are the acceptance rules of the published rows (§1 and §4): same direction beyond doubt and half to twice
//! the size is reproduced; same direction beyond doubt and another size is the same sign; what the interval leaves open
//! is not contradicted; a direction that the interval excludes is contradicted. Published effects of at most ten per
//! cent are at the noise floor of a disk: never reproduced, and of the same sign only where far more was found.

use nestor_statistics::equivalence::MARGIN;
use nestor_statistics::{Interval, Ratio, equivalent_by_interval};

use super::{Expected, Verdict};

/// A found effect of half to twice the published one is of its size.
const SIZE_FACTOR: f64 = 2.0;

/// The reason where only one pair was found.
const ONE_PAIR: &str = "one pair has no interval";

/// Judges a ratio by what is expected of it; `equivalent`: whether the two one-sided tests show that it is 1 within
/// ±10 %, if they were made. Gives the verdict and how it was reached.
pub(super) fn of_ratio(found: &Ratio, expected: Expected, equivalent: Option<bool>) -> (Verdict, String) {
    let Some(interval) = found.interval else { return (Verdict::NotTestable, ONE_PAIR.to_owned()) };
    let equivalent = equivalent.or_else(|| equivalent_by_interval(found, 1.0, MARGIN)).unwrap_or(false);
    match expected {
        Expected::Less => of_direction(interval, true),
        Expected::More => of_direction(interval, false),
        Expected::Alike => of_likeness(interval, equivalent, Verdict::Reproduced),
        Expected::NotLess => of_no_loss(interval, equivalent),
        Expected::Change { low, high } => of_change(found, interval, (low, high), equivalent),
        Expected::Within { .. } => {
            (Verdict::NotTestable, "a tolerance is for constants, not for ratios".to_owned())
        }
    }
}

fn of_direction(interval: Interval, less: bool) -> (Verdict, String) {
    let (right, wrong) = if less {
        (interval.high < 1.0, interval.low > 1.0)
    } else {
        (interval.low > 1.0, interval.high < 1.0)
    };
    let direction = if less { "less" } else { "more" };
    match (right, wrong) {
        (true, _) => (Verdict::Reproduced, format!("the interval says {direction}")),
        (_, true) => (Verdict::Contradicted, format!("the interval excludes {direction}")),
        _ => (Verdict::NotContradicted, "the interval includes both directions".to_owned()),
    }
}

fn of_likeness(interval: Interval, equivalent: bool, shown: Verdict) -> (Verdict, String) {
    if equivalent {
        return (shown, "equal within 10 % (two one-sided tests)".to_owned());
    }
    if interval.low > 1.0 + MARGIN || interval.high < 1.0 / (1.0 + MARGIN) {
        return (Verdict::Contradicted, "the interval excludes a difference below 10 %".to_owned());
    }
    (Verdict::NotContradicted, "a difference below 10 % is possible, but not shown".to_owned())
}

/// Only the lower of the two one-sided equivalence tests: an increase does not speak against the claim.
fn of_no_loss(interval: Interval, equivalent: bool) -> (Verdict, String) {
    let least = 1.0 / (1.0 + MARGIN);
    if equivalent || interval.low > least {
        return (Verdict::Reproduced, "the interval excludes a loss of more than 10 %".to_owned());
    }
    if interval.high < least {
        return (Verdict::Contradicted, "the interval says a loss of more than 10 %".to_owned());
    }
    (Verdict::NotContradicted, "a loss of more than 10 % is possible, but not shown".to_owned())
}

fn of_change(found: &Ratio, interval: Interval, paper: (f64, f64), equivalent: bool) -> (Verdict, String) {
    let (low, high) = paper;
    let middle = (low + high) / 2.0 - 1.0;
    let below_noise = middle.abs() <= MARGIN + 1e-9;
    if low <= 1.0 && high >= 1.0 {
        let (verdict, how) = of_likeness(interval, equivalent, Verdict::NotContradicted);
        return (verdict, how);
    }
    // Everything below is about distances from 1 in the published direction.
    let towards = |ratio: f64| if high < 1.0 { 1.0 - ratio } else { ratio - 1.0 };
    let (nearest, farthest) =
        if high < 1.0 { (interval.high, interval.low) } else { (interval.low, interval.high) };
    let (least, most) = (towards(low).min(towards(high)), towards(low).max(towards(high)));
    if towards(farthest) < 0.0 {
        if below_noise && equivalent {
            return (Verdict::NotContradicted, "equal within 10 %, as published".to_owned());
        }
        return (Verdict::Contradicted, "the interval excludes the published sign".to_owned());
    }
    if below_noise {
        // Beyond twice the published effect, and beyond it by more than the noise.
        return if towards(nearest) > (most * SIZE_FACTOR).max(most + MARGIN) {
            (Verdict::SameSign, "the interval says more than twice the published effect".to_owned())
        } else {
            let how = "the published effect is at the noise floor of 10 %: nothing more can be concluded";
            (Verdict::NotContradicted, how.to_owned())
        };
    }
    if towards(nearest) <= 0.0 {
        return if equivalent {
            (Verdict::Contradicted, "equal within 10 % (two one-sided tests): no such effect here".to_owned())
        } else {
            (Verdict::NotContradicted, "the interval includes no effect".to_owned())
        };
    }
    let effect = towards(found.value);
    if effect < least / SIZE_FACTOR {
        (Verdict::SameSign, "less than half the published effect".to_owned())
    } else if effect > most * SIZE_FACTOR {
        (Verdict::SameSign, "more than twice the published effect".to_owned())
    } else {
        (Verdict::Reproduced, "half to twice the published effect".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn found(value: f64, low: f64, high: f64) -> Ratio {
        Ratio { value, interval: Some(Interval { low, high }), pairs: 5 }
    }

    fn change(percent: f64) -> Expected {
        Expected::Change { low: 1.0 + percent / 100.0, high: 1.0 + percent / 100.0 }
    }

    fn judged(found: Ratio, expected: Expected) -> &'static str {
        of_ratio(&found, expected, None).0.words()
    }

    /// The rows of the sketch of the scoreboard.
    #[test]
    fn the_sketched_rows_get_their_verdicts() {
        assert_eq!(judged(found(1.21, 1.14, 1.29), change(34.0)), "reproduced");
        assert_eq!(judged(found(0.81, 0.75, 0.88), change(-40.0)), "same sign");
        assert_eq!(judged(found(1.02, 0.95, 1.09), change(-67.0)), "contradicted");
    }

    #[test]
    fn every_verdict_of_a_change_has_its_case() {
        assert_eq!(judged(found(0.6, 0.5, 0.7), change(-40.0)), "reproduced");
        assert_eq!(judged(found(0.1, 0.05, 0.2), change(-40.0)), "same sign");
        assert_eq!(judged(found(0.7, 0.4, 1.2), change(-40.0)), "not contradicted");
        assert_eq!(judged(found(1.3, 1.1, 1.5), change(-40.0)), "contradicted");
        assert_eq!(judged(found(0.7, 0.4, 1.2), change(19.0)), "not contradicted");
        let one = Ratio { value: 0.6, interval: None, pairs: 1 };
        assert_eq!(of_ratio(&one, change(-40.0), None), (Verdict::NotTestable, ONE_PAIR.to_owned()));
    }

    #[test]
    fn what_is_at_the_noise_floor_is_never_reproduced() {
        assert_eq!(judged(found(0.6, 0.5, 0.7), change(-10.0)), "same sign");
        assert_eq!(judged(found(0.75, 0.65, 0.85), change(-10.0)), "not contradicted");
        assert_eq!(judged(found(1.09, 1.085, 1.095), change(4.0)), "not contradicted");
        assert_eq!(judged(found(1.3, 1.2, 1.4), change(4.0)), "same sign");
        assert_eq!(judged(found(0.9, 0.85, 0.95), change(-10.0)), "not contradicted");
        assert_eq!(judged(found(1.02, 1.01, 1.03), change(-10.0)), "not contradicted");
        assert_eq!(judged(found(1.5, 1.3, 1.7), change(-10.0)), "contradicted");
        assert_eq!(judged(found(1.0, 0.98, 1.02), change(0.0)), "not contradicted");
        assert_eq!(judged(found(0.5, 0.4, 0.6), change(0.0)), "contradicted");
        assert_eq!(judged(found(0.95, 0.8, 1.2), change(0.0)), "not contradicted");
    }

    #[test]
    fn directions_and_likeness() {
        assert_eq!(judged(found(0.9, 0.85, 0.95), Expected::Less), "reproduced");
        assert_eq!(judged(found(0.9, 0.85, 0.95), Expected::More), "contradicted");
        assert_eq!(judged(found(0.9, 0.85, 1.05), Expected::More), "not contradicted");
        assert_eq!(judged(found(1.0, 0.95, 1.05), Expected::Alike), "reproduced");
        assert_eq!(judged(found(1.0, 0.8, 1.25), Expected::Alike), "not contradicted");
        assert_eq!(judged(found(2.0, 1.8, 2.25), Expected::Alike), "contradicted");
        assert_eq!(judged(found(2.0, 1.8, 2.25), Expected::NotLess), "reproduced");
        assert_eq!(judged(found(0.95, 0.92, 0.98), Expected::NotLess), "reproduced");
        assert_eq!(judged(found(0.95, 0.8, 1.1), Expected::NotLess), "not contradicted");
        assert_eq!(judged(found(0.8, 0.75, 0.9), Expected::NotLess), "contradicted");
    }

    proptest! {
        /// The sharper the interval, the less is left open: a verdict never flips between its two decided sides.
        #[test]
        fn a_narrower_interval_never_turns_reproduced_into_contradicted(
            value in 0.05_f64..5.0, wide in 0.0_f64..1.0, share in 0.0_f64..1.0, percent in -80.0_f64..200.0,
        ) {
            let at = |width: f64| found(value, value * (-width).exp(), value * width.exp());
            let verdict = |width| of_ratio(&at(width), change(percent), None).0;
            if verdict(wide) == Verdict::Reproduced {
                prop_assert_eq!(verdict(wide * share), Verdict::Reproduced);
            }
        }

        #[test]
        fn less_and_more_are_mirror_images(value in 0.05_f64..5.0, width in 0.0_f64..1.0) {
            let (low, high) = (value * (-width).exp(), value * width.exp());
            let forth = of_ratio(&found(value, low, high), Expected::Less, None).0;
            let back = of_ratio(&found(1.0 / value, 1.0 / high, 1.0 / low), Expected::More, None).0;
            prop_assert_eq!(forth, back);
        }
    }
}
