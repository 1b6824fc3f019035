//! When to stop repeating a comparison: looks at few fixed numbers of pairs, which share one error.
//!
//! Who looks after every pair and stops at the first interval that excludes "no difference" is wrong far more often
//! than in 5 % of the cases (Armitage, McPherson and Rowe, J. R. Statist. Soc. A 132, 1969). So the looks are fixed
//! beforehand and each spends an equal part of the error (Bonferroni). Pocock's (Biometrika 64, 1977) and O'Brien and
//! Fleming's (Biometrics 35, 1979) boundaries and the spending functions of Lan and DeMets (Biometrika 70, 1983) spend
//! it with less waste, but rest on tables for known variance and equally spaced looks; with three pairs and an estimated
//! variance the sum of the parts is the bound that holds without either.
//!
//! Precision is judged at the same confidence, although whether an interval is narrow says nothing of where it lies: a deviation that
//! came out small by chance stops sooner (Anscombe, J. R. Statist. Soc. B 15, 1953), and an interval of the whole confidence would
//! then miss the truth in up to 12 % of the studies. The interval of a look is a repeated confidence interval (Jennison and Turnbull,
//! J. R. Statist. Soc. B 51, 1989): at whichever look it is read, and whatever ended the comparison, it misses in at most 5 %.

use serde::{Deserialize, Serialize};

use crate::ratio::{Ratio, paired_ratio_at};
use crate::summary::CONFIDENCE;

/// When a comparison has been repeated often enough.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct StopRule {
    /// Numbers of pairs at which it is looked, ascending. After the last nothing more is measured.
    pub looks: Vec<u32>,
    /// Confidence of all looks together, 0 to 1.
    pub confidence: f64,
    /// Precise enough: half the width of the log-ratio's interval is at most ln(1 + this).
    pub half_width: f64,
    /// Practical threshold: a settled sign counts only for a log-ratio beyond ±ln(1 + this).
    pub threshold: f64,
}

impl Default for StopRule {
    /// 3, 4, 6, 8 and 12 pairs, 95 % over all, ±3 %, and 5 % as the smallest difference that matters.
    fn default() -> Self {
        Self { looks: vec![3, 4, 6, 8, 12], confidence: CONFIDENCE, half_width: 0.03, threshold: 0.05 }
    }
}

/// What a look at the pairs says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "decision")]
pub enum Decision {
    /// Nothing is decided yet.
    Continue {
        /// Number of pairs at which to look again.
        next_look: u32,
    },
    /// The ratio is known closely enough.
    Precise {
        /// With the interval of a look's confidence.
        ratio: Ratio,
    },
    /// Which side is faster is known, and by more than the practical threshold.
    SignSettled {
        /// With the interval of a look's confidence.
        ratio: Ratio,
    },
    /// The last look has passed without a decision.
    Exhausted {
        /// With the interval of a look's confidence; `None` where the pairs have no ratio.
        ratio: Option<Ratio>,
    },
}

impl Decision {
    /// Its name in results.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Continue { .. } => "continue",
            Self::Precise { .. } => "precise",
            Self::SignSettled { .. } => "sign-settled",
            Self::Exhausted { .. } => "exhausted",
        }
    }

    /// Whether no further pair is needed.
    pub fn stops(&self) -> bool {
        !matches!(self, Self::Continue { .. })
    }

    /// The ratio at the look that decided.
    pub fn ratio(&self) -> Option<Ratio> {
        match self {
            Self::Continue { .. } => None,
            Self::Precise { ratio } | Self::SignSettled { ratio } => Some(*ratio),
            Self::Exhausted { ratio } => *ratio,
        }
    }
}

/// How a rule would have dealt with pairs that are all there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Replay {
    /// Looks that were made.
    pub looks: u32,
    /// Pairs that would have been measured.
    pub pairs: usize,
    /// How it ended.
    pub decision: Decision,
}

impl StopRule {
    /// The confidence of one look, so that all together are wrong in at most `1 - confidence` of the studies: an equal
    /// part of the error each. 0.99 by default.
    pub fn confidence_at_a_look(&self) -> f64 {
        1.0 - (1.0 - self.confidence) / self.looks.len().max(1) as f64
    }

    /// The rule for at most so many pairs: later looks are dropped, and the last look is at the last pair. All looks together keep
    /// their confidence.
    #[must_use]
    pub fn up_to(&self, pairs: u32) -> Self {
        let mut rule = self.clone();
        rule.looks.retain(|look| *look < pairs);
        rule.looks.push(pairs);
        rule
    }

    /// The same looks, each at this confidence.
    #[must_use]
    pub fn at_each_look(self, confidence: f64) -> Self {
        let looks = self.looks.len().max(1) as f64;
        Self { confidence: 1.0 - (1.0 - confidence) * looks, ..self }
    }

    /// What is wrong with the rule, as a message for its author; `None` if nothing is.
    pub fn problem(&self) -> Option<String> {
        if self.looks.is_empty() {
            return Some("looks are missing: give the numbers of pairs, e.g. [3, 4, 6, 8, 12]".to_owned());
        }
        // Two pairs have an interval, but one degree of freedom makes it useless at 99 % (factor 64).
        if self.looks[0] < 2 || self.looks.windows(2).any(|w| w[0] >= w[1]) {
            return Some(
                "looks must increase and begin at 2 pairs or more, e.g. [3, 4, 6, 8, 12]".to_owned(),
            );
        }
        if !(self.confidence > 0.5 && self.confidence < 1.0) {
            return Some(format!("a confidence must be between 0.5 and 1, not {}", self.confidence));
        }
        let share = |value: f64| value.is_finite() && (0.0..1.0).contains(&value);
        (!share(self.half_width) || !share(self.threshold))
            .then(|| "half width and threshold must be at least 0 and less than 100 %".to_owned())
    }

    /// Whether the `(baseline, candidate)` pairs so far are enough, in the order in which they were measured.
    ///
    /// Only the prefixes of the looks are judged, the shortest first, so that more pairs never revoke a decision and a
    /// study that is resumed decides as it did before.
    pub fn decide(&self, pairs: &[(f64, f64)]) -> Decision {
        replay(self, pairs).decision
    }

    /// One look at exactly these pairs; `None` if it settles nothing.
    fn look(&self, pairs: &[(f64, f64)]) -> Option<Decision> {
        let ratio = paired_ratio_at(pairs, self.confidence_at_a_look())?;
        let interval = ratio.interval?;
        if (interval.high.ln() - interval.low.ln()) / 2.0 <= self.half_width.ln_1p() {
            return Some(Decision::Precise { ratio });
        }
        let matters = ratio.value.ln().abs() > self.threshold.ln_1p();
        (matters && !interval.contains(1.0)).then_some(Decision::SignSettled { ratio })
    }
}

/// Applies a rule to pairs that are all there: what it would have decided, and after how many of them.
pub fn replay(rule: &StopRule, pairs: &[(f64, f64)]) -> Replay {
    let mut looks = 0;
    for look in &rule.looks {
        let Some(seen) = pairs.get(..*look as usize) else {
            return Replay { looks, pairs: pairs.len(), decision: Decision::Continue { next_look: *look } };
        };
        looks += 1;
        if let Some(decision) = rule.look(seen) {
            return Replay { looks, pairs: seen.len(), decision };
        }
    }
    let last = rule.looks.last().map_or(0, |l| *l as usize).min(pairs.len());
    let ratio = paired_ratio_at(&pairs[..last], rule.confidence_at_a_look());
    Replay { looks, pairs: last, decision: Decision::Exhausted { ratio } }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SeededOrder;

    /// Pairs whose log-ratio is normal with a deviation of 10 %.
    fn study(random: &mut SeededOrder, effect: f64, pairs: usize) -> Vec<(f64, f64)> {
        study_with(random, effect, 0.10, pairs)
    }

    fn study_with(random: &mut SeededOrder, effect: f64, deviation: f64, pairs: usize) -> Vec<(f64, f64)> {
        (0..pairs).map(|_| (100.0, 100.0 * (1.0 + effect) * (deviation * random.normal()).exp())).collect()
    }

    /// Of so many studies, how many settle the sign as faster and how many as slower.
    fn settled(rule: &StopRule, effect: f64, studies: u32) -> (u32, u32) {
        let mut random = SeededOrder::new(20_120_214);
        let (mut faster, mut slower) = (0, 0);
        for _ in 0..studies {
            if let Decision::SignSettled { ratio } = rule.decide(&study(&mut random, effect, 12)) {
                if ratio.value > 1.0 { faster += 1 } else { slower += 1 }
            }
        }
        (faster, slower)
    }

    /// Without a half width and a threshold only the sign decides, which is the hardest case for the error.
    fn sign_only() -> StopRule {
        StopRule { half_width: 0.0, threshold: 0.0, ..StopRule::default() }
    }

    #[test]
    fn without_an_effect_at_most_one_study_in_twenty_settles_a_sign() {
        let (faster, slower) = settled(&sign_only(), 0.0, 4_000);
        // The bound is not so loose that it never errs.
        assert!((120..=200).contains(&(faster + slower)), "{faster} + {slower} of 4000");
        let (faster, slower) = settled(&StopRule::default(), 0.0, 1_000);
        assert!(faster + slower <= 50, "{faster} + {slower} of 1000");
    }

    #[test]
    fn without_spending_the_error_is_more_than_twice_as_large() {
        // Five looks at 1 % each become five at 5 % each.
        let greedy = StopRule { confidence: 0.75, ..sign_only() };
        assert!((greedy.confidence_at_a_look() - 0.95).abs() < 1e-12);
        let (faster, slower) = settled(&greedy, 0.0, 1_000);
        assert!(faster + slower > 100, "{faster} + {slower} of 1000");
    }

    #[test]
    fn a_true_effect_is_found_with_its_own_sign() {
        let (faster, slower) = settled(&StopRule::default(), -0.30, 1_000);
        assert!(faster == 0 && slower > 950, "{faster}, {slower}");
    }

    const STUDIES: u32 = 4_000;

    /// The share of intervals that miss the effect, of all comparisons that ended and of those that ended because the interval was
    /// narrow (none if these are few). docs/statistics.md has the table.
    fn missed(rule: &StopRule, effect: f64, deviation: f64) -> (f64, Option<f64>) {
        let mut random = SeededOrder::new(20_120_215);
        let (mut all, mut precise, mut missed_when_precise) = (0_u32, 0_u32, 0_u32);
        for _ in 0..STUDIES {
            let decision = rule.decide(&study_with(&mut random, effect, deviation, 12));
            let misses = u32::from(!decision.ratio().unwrap().interval.unwrap().contains(1.0 + effect));
            all += misses;
            if matches!(decision, Decision::Precise { .. }) {
                precise += 1;
                missed_when_precise += misses;
            }
        }
        let share = |missed: u32, of: u32| f64::from(missed) / f64::from(of);
        (share(all, STUDIES), (precise > STUDIES / 4).then(|| share(missed_when_precise, precise)))
    }

    #[test]
    fn an_interval_misses_the_truth_in_at_most_one_comparison_in_twenty_whatever_ended_it() {
        for effect in [0.0, -0.08, 0.3] {
            for deviation in [0.005, 0.01, 0.02, 0.03, 0.04, 0.10] {
                let (all, precise) = missed(&StopRule::default(), effect, deviation);
                println!(
                    "effect {effect}, deviation {deviation}: {all:.3} miss it, of precise ones {precise:.3?}"
                );
                assert!(all <= 0.05, "{effect}, {deviation}: {all}");
                // Of those alone whose deviation came out small by chance, more; with intervals of the whole confidence 12 %.
                assert!(precise.is_none_or(|share| share < 0.08), "{effect}, {deviation}: {precise:?}");
            }
        }
    }

    /// A claim takes the pairs of several comparisons together, each of which ended at a look of its own.
    #[test]
    fn pairs_of_comparisons_that_ended_apart_miss_the_truth_no_more_often() {
        let rule = StopRule::default();
        for comparisons in [2, 6] {
            for deviation in [0.01, 0.02, 0.04, 0.10] {
                let mut random = SeededOrder::new(20_120_216);
                let mut missed = 0_u32;
                for _ in 0..STUDIES / 4 {
                    let pooled: Vec<(f64, f64)> = (0..comparisons)
                        .flat_map(|_| {
                            let all = study_with(&mut random, 0.0, deviation, 12);
                            all[..replay(&rule, &all).pairs].to_vec()
                        })
                        .collect();
                    let ratio = paired_ratio_at(&pooled, rule.confidence_at_a_look()).unwrap();
                    missed += u32::from(!ratio.interval.unwrap().contains(1.0));
                }
                let share = f64::from(missed) / f64::from(STUDIES / 4);
                println!("{comparisons} comparisons, deviation {deviation}: {share:.3} miss the truth");
                assert!(share <= 0.05, "{comparisons}, {deviation}: {share}");
            }
        }
    }

    #[test]
    fn a_rule_for_fewer_pairs_looks_at_the_last_of_them() {
        let rule = StopRule::default().up_to(5);
        assert_eq!((rule.looks.as_slice(), rule.confidence), ([3, 4, 5].as_slice(), 0.95));
        assert_eq!(StopRule::default().up_to(20).looks, [3, 4, 6, 8, 12, 20]);
        assert!((rule.at_each_look(0.99).confidence_at_a_look() - 0.99).abs() < 1e-12);
    }

    #[test]
    fn a_worked_example_of_three_looks() {
        let rule = StopRule { looks: vec![2, 3], confidence: 0.90, ..StopRule::default() };
        assert!((rule.confidence_at_a_look() - 0.95).abs() < 1e-12);
        // Ratios 0.8, 0.9, 1.0 have the 95 % interval [0.679, 1.183]: neither narrow nor settled.
        let pairs = [(10.0, 8.0), (20.0, 18.0), (5.0, 5.0)];
        assert_eq!(rule.decide(&pairs[..1]), Decision::Continue { next_look: 2 });
        assert_eq!(rule.decide(&pairs[..2]), Decision::Continue { next_look: 3 });
        let Decision::Exhausted { ratio: Some(ratio) } = rule.decide(&pairs) else { panic!("settled") };
        assert!((ratio.interval.unwrap().low - 0.679_2).abs() < 1e-3);
    }

    #[test]
    fn equal_pairs_are_precise_at_the_first_look() {
        let pairs = [(10.0, 9.0); 12];
        let found = replay(&StopRule::default(), &pairs);
        assert_eq!((found.looks, found.pairs), (1, 3));
        assert!(matches!(found.decision, Decision::Precise { .. }), "{found:?}");
        assert_eq!(StopRule::default().decide(&pairs[..2]), Decision::Continue { next_look: 3 });
    }

    #[test]
    fn a_difference_below_the_threshold_settles_no_sign() {
        // About +4 % with little noise: the interval excludes 0 long before it is narrow.
        let rule = StopRule { half_width: 0.0, ..StopRule::default() };
        let pairs: Vec<_> = (0..12).map(|i| (100.0, if i % 2 == 0 { 103.0 } else { 105.0 })).collect();
        assert!(
            matches!(rule.decide(&pairs), Decision::Exhausted { ratio: Some(r) } if r.differs() == Some(true))
        );
    }

    #[test]
    fn decisions_have_a_json_form_that_reads_back() {
        let decision = StopRule::default().decide(&[(1.0, 2.0), (1.0, 2.5), (1.0, 2.2)]);
        assert!(matches!(decision, Decision::SignSettled { .. }), "{decision:?}");
        let json = serde_json::to_string(&decision).unwrap();
        assert!(json.starts_with(r#"{"decision":"sign-settled""#), "{json}");
        assert_eq!(serde_json::from_str::<Decision>(&json).unwrap(), decision);
    }

    #[test]
    fn a_rule_that_cannot_be_followed_is_refused_in_words() {
        let with = |looks: &[u32]| StopRule { looks: looks.to_vec(), ..StopRule::default() };
        assert_eq!(StopRule::default().problem(), None);
        for wrong in [with(&[]), with(&[1, 2]), with(&[3, 3]), with(&[5, 3])] {
            assert!(wrong.problem().is_some(), "{wrong:?}");
            // It still ends.
            assert!(wrong.decide(&[(1.0, 1.0); 12]).stops());
        }
        assert!(StopRule { confidence: 1.0, ..StopRule::default() }.problem().is_some());
        assert!(StopRule { half_width: f64::NAN, ..StopRule::default() }.problem().is_some());
    }

    proptest::proptest! {
        #[test]
        fn more_pairs_never_revoke_a_decision(
            pairs in proptest::collection::vec((1.0_f64..2.0, 1.0_f64..2.0), 0..16)
        ) {
            let rule = StopRule::default();
            let mut settled = None;
            for upto in 0..=pairs.len() {
                let decision = rule.decide(&pairs[..upto]);
                if let Some(before) = &settled {
                    proptest::prop_assert_eq!(before, &decision);
                } else if decision.stops() {
                    settled = Some(decision);
                }
            }
        }
    }
}
