//! Whether a change is on the wrong side of a limit: worse, fine, or not known yet.
//!
//! A limit is judged by the interval of a ratio alone. The gate says "worse" only where the whole interval is beyond the limit and "fine"
//! only where none of it is, so each of the two is wrong in at most half of what the interval leaves open (2.5 % at 95 %), whatever the
//! true change is. Several limits that are judged together share that error in equal parts (Bonferroni), as several looks at one
//! comparison do ([`crate::sequential`]).

use serde::{Deserialize, Serialize};

use crate::ratio::Ratio;
use crate::student;
use crate::summary::{CONFIDENCE, Interval};

/// Which side of a limit is the wrong one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WrongSide {
    /// Below it, as of a throughput.
    Below,
    /// Above it, as of a latency.
    Above,
}

/// A ratio of candidate to baseline that must not be passed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Limit {
    /// Candidate over baseline at the limit, above zero: 0.95 is 5 % less.
    pub ratio: f64,
    /// Where it is too much.
    pub wrong_side: WrongSide,
}

/// What an interval says of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LimitVerdict {
    /// No part of the interval is beyond the limit.
    Fine,
    /// The limit is within the interval, or there is none.
    Undecided,
    /// The whole interval is beyond the limit.
    Worse,
}

/// The confidence of each of so many limits, so that all of them together keep 95 %.
pub fn confidence_of_each(limits: usize) -> f64 {
    1.0 - (1.0 - CONFIDENCE) / limits.max(1) as f64
}

impl Limit {
    /// What a ratio says of the limit by its interval.
    pub fn judge(&self, ratio: &Ratio) -> LimitVerdict {
        let Some(Interval { low, high }) = ratio.interval else { return LimitVerdict::Undecided };
        let (all_beyond, all_within) = match self.wrong_side {
            WrongSide::Below => (high < self.ratio, low >= self.ratio),
            WrongSide::Above => (low > self.ratio, high <= self.ratio),
        };
        match (all_beyond, all_within) {
            (true, _) => LimitVerdict::Worse,
            (_, true) => LimitVerdict::Fine,
            _ => LimitVerdict::Undecided,
        }
    }

    /// The number of pairs, at most `most`, with which an interval of this confidence around the same ratio no longer reaches the limit,
    /// if pairs go on to vary as they did. `None` without an interval, or where so many are not enough: the ratio is at the limit.
    pub fn pairs_needed(&self, ratio: &Ratio, confidence: f64, most: usize) -> Option<usize> {
        let Interval { low, high } = ratio.interval?;
        let half_width = (high.ln() - low.ln()) / 2.0;
        let factor = |pairs: usize| student::two_sided_factor(confidence, pairs.checked_sub(1)? as f64);
        let deviation = half_width * (ratio.pairs as f64).sqrt() / factor(ratio.pairs)?;
        let distance = (ratio.value.ln() - self.ratio.ln()).abs();
        let is_enough =
            |pairs: usize| factor(pairs).is_some_and(|t| t * deviation / (pairs as f64).sqrt() < distance);
        // The more pairs, the narrower the interval.
        let (mut too_few, mut enough) = (ratio.pairs.saturating_sub(1), most);
        if !is_enough(enough) {
            return None;
        }
        while enough - too_few > 1 {
            let middle = too_few.midpoint(enough);
            if is_enough(middle) { enough = middle } else { too_few = middle }
        }
        Some(enough)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::random::SeededOrder;
    use crate::ratio::paired_ratio_at;

    const FIVE_LESS: Limit = Limit { ratio: 0.95, wrong_side: WrongSide::Below };
    const FIVE_MORE: Limit = Limit { ratio: 1.05, wrong_side: WrongSide::Above };

    fn ratio(low: f64, high: f64) -> Ratio {
        let value = (low * high).sqrt();
        Ratio { value, interval: Some(Interval { low, high }), pairs: 3 }
    }

    #[test]
    fn the_whole_interval_decides() {
        use LimitVerdict::{Fine, Undecided, Worse};
        let of = |low, high| (FIVE_LESS.judge(&ratio(low, high)), FIVE_MORE.judge(&ratio(low, high)));
        assert_eq!(of(0.80, 0.94), (Worse, Fine));
        assert_eq!(of(0.94, 0.96), (Undecided, Fine));
        assert_eq!(of(0.96, 1.04), (Fine, Fine));
        assert_eq!(of(1.04, 1.06), (Fine, Undecided));
        assert_eq!(of(1.06, 1.20), (Fine, Worse));
        assert_eq!(of(0.90, 1.10), (Undecided, Undecided));
        let one_pair = Ratio { interval: None, ..ratio(0.5, 0.5) };
        assert_eq!(FIVE_LESS.judge(&one_pair), Undecided);
    }

    #[test]
    fn pairs_that_are_all_equal_are_fine_even_where_nothing_may_change() {
        let same = paired_ratio_at(&[(3.0, 3.0), (7.0, 7.0)], 0.95).unwrap();
        for wrong_side in [WrongSide::Below, WrongSide::Above] {
            assert_eq!(Limit { ratio: 1.0, wrong_side }.judge(&same), LimitVerdict::Fine);
        }
    }

    /// Of so many gates of three limits each, how many are worse, fine and neither.
    fn simulated(effect: f64, deviation: f64, limit: Limit, pairs: usize) -> [u32; 3] {
        let mut random = SeededOrder::new(20_120_214);
        let confidence = confidence_of_each(3);
        let mut counts = [0; 3];
        for _ in 0..4_000 {
            let one = |random: &mut SeededOrder| {
                let draw =
                    |random: &mut SeededOrder| (1.0, (1.0 + effect) * (deviation * random.normal()).exp());
                let pairs: Vec<_> = (0..pairs).map(|_| draw(random)).collect();
                limit.judge(&paired_ratio_at(&pairs, confidence).unwrap())
            };
            let worst = (0..3).map(|_| one(&mut random)).max().unwrap();
            counts[match worst {
                LimitVerdict::Worse => 0,
                LimitVerdict::Fine => 1,
                LimitVerdict::Undecided => 2,
            }] += 1;
        }
        counts
    }

    #[test]
    fn without_an_effect_at_most_one_gate_in_forty_fails() {
        // The hardest case: whatever is slower at all is too much.
        let [worse, ..] = simulated(0.0, 0.03, Limit { ratio: 1.0, wrong_side: WrongSide::Below }, 4);
        assert!((60..=115).contains(&worse), "{worse} of 4000");
        // A limit at a distance of the noise is never passed by it.
        let [worse, fine, undecided] = simulated(0.0, 0.01, FIVE_LESS, 4);
        assert_eq!((worse, undecided < 400), (0, true), "{fine} fine");
    }

    #[test]
    fn an_effect_of_the_limit_itself_passes_in_at_most_one_of_forty() {
        let [worse, fine, _] = simulated(-0.05, 0.03, FIVE_LESS, 4);
        assert!(worse <= 115 && fine <= 115, "{worse} worse, {fine} fine");
        let [worse, fine, _] = simulated(-0.15, 0.03, FIVE_LESS, 6);
        assert!(worse > 3_600 && fine == 0, "{worse} worse");
    }

    #[test]
    fn a_worked_example_of_the_pairs_that_are_missing() {
        // Deviation of 4 % around no change, limit at -5 %: t(n-1) * 0.04 / sqrt(n) < 0.0513 first holds for n = 5 (2.776 * 0.0179).
        let pairs: Vec<_> = [-0.04_f64, 0.0, 0.04].map(|change| (1.0, change.exp())).into();
        let found = paired_ratio_at(&pairs, 0.95).unwrap();
        assert_eq!(FIVE_LESS.judge(&found), LimitVerdict::Undecided);
        assert_eq!(FIVE_LESS.pairs_needed(&found, 0.95, 100), Some(5));
        let at_the_limit = Limit { ratio: found.value, wrong_side: WrongSide::Below };
        assert_eq!(at_the_limit.pairs_needed(&found, 0.95, 100), None);
    }

    proptest! {
        #[test]
        fn a_verdict_and_its_opposite_are_never_both_certain(
            low in 0.1_f64..3.0, width in 1.0_f64..3.0, limit in 0.1_f64..3.0
        ) {
            let ratio = ratio(low, low * width);
            let of = |wrong_side| Limit { ratio: limit, wrong_side }.judge(&ratio);
            let (below, above) = (of(WrongSide::Below), of(WrongSide::Above));
            prop_assert!(below != LimitVerdict::Worse || above == LimitVerdict::Fine);
            prop_assert!(above != LimitVerdict::Worse || below == LimitVerdict::Fine);
        }

        #[test]
        fn what_needs_more_pairs_is_undecided(
            pairs in prop::collection::vec((0.5_f64..2.0, 0.5_f64..2.0), 2..8), limit in 0.5_f64..2.0
        ) {
            let ratio = paired_ratio_at(&pairs, 0.95).unwrap();
            let limit = Limit { ratio: limit, wrong_side: WrongSide::Above };
            if let Some(needed) = limit.pairs_needed(&ratio, 0.95, 1000) {
                prop_assert_eq!(needed > pairs.len(), limit.judge(&ratio) == LimitVerdict::Undecided);
            }
        }
    }
}
