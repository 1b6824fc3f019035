//! From an effect with its interval to a verdict. Pure.
//!
//! A verdict is of the whole interval and never of the estimate alone, so that noise passes for an effect as seldom as the interval
//! misses (5 %):
//!
//! - *Reproduced*: the interval lies within the band of the published effect, half to twice it or as the claim states. Twice a decrease
//!   is the decrease made twice: of -67 %, -89 %.
//! - *Smaller* or *larger, same sign*: the interval has the published sign and lies below or above the band.
//! - *Contradicted*: the interval has the other sign, or it excludes the band without having the published sign, or it shows that
//!   there is no effect that matters.
//! - *Undecided*: everything else.
//!
//! A direction (less, more) is shown by an effect that matters. Likeness is shown by two one-sided tests (Schuirmann 1987). How often each
//! rule errs without an effect and with the published one is simulated in `rules_under_noise` and stands in `docs/statistics.md`.

use nestor_statistics::equivalence::MARGIN;
use nestor_statistics::{Interval, Ratio, equivalent_by_interval};
use nestor_text::units::percent;

use super::{Expected, Verdict};

/// An effect of half to twice the published one is of its size (acceptance rules, §1).
const SIZE_FACTOR: f64 = 2.0;

/// The smallest effect that matters where a claim states none: of a direction, and against a change that was published as more.
const MATTERS: f64 = 0.05;

/// The reason where only one pair was found.
const ONE_PAIR: &str = "one pair has no interval";

/// What a claim states of its own rule.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Stated {
    /// The smallest difference that matters, as a share of the baseline: of a direction 5 %, of likeness 10 % if it is not stated.
    pub margin: Option<f64>,
    /// The band of a change as ratios, low end first; half to twice the published effect if it is not stated.
    pub band: Option<(f64, f64)>,
}

impl Stated {
    /// The margin of likeness.
    pub fn likeness(&self) -> f64 {
        self.margin.unwrap_or(MARGIN)
    }

    fn matters(&self) -> f64 {
        self.margin.unwrap_or(MATTERS)
    }
}

/// Judges a ratio by what is expected of it; `equivalent`: whether the two one-sided tests show that it is 1 within the margin of
/// likeness, if they were made. Gives the verdict and how it was reached.
pub(super) fn of_ratio(
    found: &Ratio,
    expected: Expected,
    stated: Stated,
    equivalent: Option<bool>,
) -> (Verdict, String) {
    let Some(interval) = found.interval else { return (Verdict::NotTestable, ONE_PAIR.to_owned()) };
    let margin = stated.likeness();
    let equivalent = equivalent.or_else(|| equivalent_by_interval(found, 1.0, margin)).unwrap_or(false);
    match expected {
        Expected::Less => of_direction(towards(interval, true), "less", stated.matters()),
        Expected::More => of_direction(towards(interval, false), "more", stated.matters()),
        Expected::Alike => of_likeness(interval, equivalent, margin),
        Expected::NotLess => of_no_loss(interval, equivalent, margin),
        Expected::Change { low, high } if low <= 1.0 && high >= 1.0 => {
            of_likeness(interval, equivalent, margin)
        }
        Expected::Change { low, high } => {
            let is_decrease = high < 1.0;
            let band = match stated.band {
                Some((low, high)) => towards(Interval { low, high }, is_decrease),
                None => {
                    let published = towards(Interval { low, high }, is_decrease);
                    // No rate falls by twice 67 %.
                    let twice =
                        if is_decrease { 1.0 - low.powf(SIZE_FACTOR) } else { published.high * SIZE_FACTOR };
                    Interval { low: published.low / SIZE_FACTOR, high: twice }
                }
            };
            of_change(towards(interval, is_decrease), band, stated.matters())
        }
        Expected::Within { .. } => {
            (Verdict::NotTestable, "a tolerance is for constants, not for ratios".to_owned())
        }
    }
}

/// The confidence at which one of so many parts contradicts its claim. Any part that does contradicts the whole, so each errs in its share of
/// the studies in which the claim may (Bonferroni). That a claim is reproduced needs all parts, which only makes it rarer.
pub(super) fn confidence_of_contradiction(confidence: f64, parts: usize) -> f64 {
    1.0 - (1.0 - confidence) / parts.max(1) as f64
}

/// An interval of ratios as distances from 1 in a direction: of a decrease 0.8 becomes 0.2.
fn towards(interval: Interval, is_decrease: bool) -> Interval {
    if is_decrease {
        Interval { low: 1.0 - interval.high, high: 1.0 - interval.low }
    } else {
        Interval { low: interval.low - 1.0, high: interval.high - 1.0 }
    }
}

/// `effect` and `band` are distances in the published direction.
fn of_change(effect: Interval, band: Interval, matters: f64) -> (Verdict, String) {
    if effect.high < 0.0 {
        return (Verdict::Contradicted, "the interval has the other sign".to_owned());
    }
    // Of a published effect that is no larger than what matters, the band decides alone.
    if effect.high < matters.min(band.low) {
        let reason =
            format!("the interval excludes an effect of {} and more", percent(matters.min(band.low)));
        return (Verdict::Contradicted, reason);
    }
    if effect.low <= 0.0 {
        return if effect.high < band.low {
            let reason =
                format!("the interval includes no effect and excludes {} and more", percent(band.low));
            (Verdict::Contradicted, reason)
        } else {
            (Verdict::Undecided, "the interval includes no effect".to_owned())
        };
    }
    if effect.high < band.low {
        (Verdict::Smaller, format!("the interval lies below {}", percent(band.low)))
    } else if effect.low > band.high {
        (Verdict::Larger, format!("the interval lies above {}", percent(band.high)))
    } else if effect.low >= band.low && effect.high <= band.high {
        let reason = format!("the interval lies within {} to {}", percent(band.low), percent(band.high));
        (Verdict::Reproduced, reason)
    } else {
        let reason = format!(
            "the sign is as published, the size may be {} to {} or not",
            percent(band.low),
            percent(band.high)
        );
        (Verdict::Undecided, reason)
    }
}

/// `effect` is the distance in the claimed direction.
fn of_direction(effect: Interval, direction: &str, matters: f64) -> (Verdict, String) {
    let enough = format!("{} {direction}", percent(matters));
    if effect.low >= matters {
        (Verdict::Reproduced, format!("the interval says at least {enough}"))
    } else if effect.high < 0.0 {
        (Verdict::Contradicted, format!("the interval excludes {direction}"))
    } else if effect.high >= matters {
        (Verdict::Undecided, format!("the interval includes {enough} and not as much"))
    } else if effect.low > 0.0 {
        (Verdict::Smaller, format!("{direction}, but the interval excludes {enough}"))
    } else {
        (Verdict::Contradicted, format!("the interval excludes {enough}"))
    }
}

fn of_likeness(interval: Interval, equivalent: bool, margin: f64) -> (Verdict, String) {
    let margin_words = percent(margin);
    if equivalent {
        return (Verdict::Reproduced, format!("equal within {margin_words} (two one-sided tests)"));
    }
    if interval.low > 1.0 + margin || interval.high < 1.0 / (1.0 + margin) {
        return (Verdict::Contradicted, format!("the interval excludes a difference below {margin_words}"));
    }
    (Verdict::Undecided, format!("a difference below {margin_words} is possible, but not shown"))
}

/// Only the lower of the two one-sided equivalence tests: an increase does not speak against the claim.
fn of_no_loss(interval: Interval, equivalent: bool, margin: f64) -> (Verdict, String) {
    let (least, margin_words) = (1.0 / (1.0 + margin), percent(margin));
    if equivalent || interval.low > least {
        return (Verdict::Reproduced, format!("the interval excludes a loss of more than {margin_words}"));
    }
    if interval.high < least {
        return (Verdict::Contradicted, format!("the interval says a loss of more than {margin_words}"));
    }
    (Verdict::Undecided, format!("a loss of more than {margin_words} is possible, but not shown"))
}

#[cfg(test)]
#[path = "verdict_tests.rs"]
mod tests;
