//! The answer: recommendations with their evidence, their mechanism and their price.

use nestor_results::{WrittenPlace, WrittenStack, WrittenWorkload};
use nestor_statistics::{Ratio, paired_ratio};
use nestor_workload::RateUnit;
use serde::{Deserialize, Serialize};

use crate::factors::HeldFixed;
use crate::nas::FailureLoss;
use crate::observation::Observation;
use crate::price::Price;
use crate::ranking::{Estimate, FactorEffect, FitSummary, Ranked, Ranking, pairs};

/// A stack to choose from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Recommendation {
    /// Its rank, starting at 1.
    pub place: usize,
    /// The stack.
    pub stack: WrittenStack,
    /// Whether it is the user's own stack.
    pub is_yours: bool,
    /// Whether it was measured; otherwise its rate is predicted from measured stacks.
    pub measured: bool,
    /// Its rate.
    pub rate: Estimate,
    /// Its rate divided by the rate of the user's stack.
    pub vs_yours: Option<Ratio>,
    /// Why its number is not physical, where that is so.
    pub not_physical: Option<String>,
    /// What makes it faster or slower than yours: from the requests where both were traced through all layers, else from
    /// what the layers of a run of each counted.
    pub mechanism: Option<String>,
    /// The runs it rests on.
    pub evidence: Vec<i64>,
    /// What a power cut loses.
    pub price: Price,
    /// Over a network, what each failure loses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub losses: Vec<FailureLoss>,
    /// The ratio of fresh paired runs, if they confirmed that it is faster than yours.
    pub confirmed: Option<Ratio>,
}

/// What became of the test of the best recommendation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "confirmation")]
pub enum Confirmation {
    /// Fresh pairs show that it is faster than yours: the interval excludes no difference.
    Confirmed {
        /// The stack.
        stack: WrittenStack,
        /// Of the fresh pairs alone.
        ratio: Ratio,
        /// Runs of these pairs.
        runs: Vec<i64>,
    },
    /// Fresh pairs do not show it.
    NotConfirmed {
        /// The stack.
        stack: WrittenStack,
        /// Of the fresh pairs alone; `None` if there were none with numbers on both sides.
        ratio: Option<Ratio>,
        /// Runs of these pairs.
        runs: Vec<i64>,
    },
    /// Fresh pairs show nothing: numbers of theirs are not physical.
    NotPhysical {
        /// The stack.
        stack: WrittenStack,
        /// Whose numbers, and why they are not.
        reason: String,
        /// Runs of these pairs.
        runs: Vec<i64>,
    },
    /// It was not tested.
    NotTried {
        /// Why.
        reason: String,
    },
}

impl Confirmation {
    /// What fresh runs of a stack and of yours say, in pairs of those that were measured in one block.
    pub fn of_observations(
        stack: &WrittenStack,
        yours: &WrittenStack,
        seen: &[Observation],
        runs: Vec<i64>,
    ) -> Self {
        let of = |stack: &WrittenStack| seen.iter().filter(|seen| seen.stack == *stack).collect::<Vec<_>>();
        Self::of(stack, paired_ratio(&pairs(&of(yours), &of(stack))), runs)
    }

    /// What fresh pairs say: confirmed is only what has an interval above no difference.
    pub(crate) fn of(stack: &WrittenStack, ratio: Option<Ratio>, runs: Vec<i64>) -> Self {
        let stack = stack.clone();
        match ratio {
            Some(ratio) if ratio.interval.is_some_and(|interval| interval.low > 1.0) => {
                Self::Confirmed { stack, ratio, runs }
            }
            ratio => Self::NotConfirmed { stack, ratio, runs },
        }
    }
}

/// The best stack that is not yours, or why none is worth a test. What is not physical, for the reason that is given, is none.
///
/// # Errors
/// In words, why there is no candidate.
pub fn candidate(
    ranking: &Ranking,
    not_physical: impl Fn(&WrittenStack) -> Option<String>,
) -> Result<WrittenStack, String> {
    let yours = ranking.rows.iter().find(|row| row.is_yours);
    if let Some(reason) = yours.and_then(|row| not_physical(&row.stack)) {
        return Err(format!("the number of your stack is not plausible: {reason}"));
    }
    let physical: Vec<&Ranked> =
        ranking.rows.iter().filter(|row| not_physical(&row.stack).is_none()).collect();
    let of_these = if physical.len() < ranking.rows.len() { " with plausible numbers" } else { "" };
    let Some(best) = physical.first() else {
        return Err(match ranking.rows.is_empty() {
            true => "nothing is known about any stack".to_owned(),
            false => "none of the numbers is plausible".to_owned(),
        });
    };
    if best.is_yours && ranking.rows.len() == 1 {
        return Err("nothing is known about the others".to_owned());
    }
    if best.is_yours {
        return Err(format!("yours is the best of these stacks{of_these}"));
    }
    match best.vs_yours {
        Some(ratio) if ratio.value <= 1.0 => {
            Err(format!("none of these stacks{of_these} is faster than yours"))
        }
        _ => Ok(best.stack.clone()),
    }
}

/// Everything that is said to someone who asks which stack to take.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Advice {
    /// The workload.
    pub workload: WrittenWorkload,
    /// Where it was measured.
    pub ground: WrittenPlace,
    /// What is compared.
    pub unit: RateUnit,
    /// Whether the numbers are physical, in sentences; `None` if that was not looked into.
    pub physical: Option<Vec<String>>,
    /// The stack that the others are compared with.
    pub yours: WrittenStack,
    /// The recommendations, the best first; stacks whose numbers are not physical after all others, however fast.
    pub recommendations: Vec<Recommendation>,
    /// What each level of each factor does.
    pub effects: Vec<FactorEffect>,
    /// How well effects alone say what was measured.
    pub fit: Option<FitSummary>,
    /// What became of the test of the best.
    pub confirmation: Confirmation,
    /// Stacks that were not measured and might be the best.
    pub worth_measuring: Vec<WrittenStack>,
    /// Stacks of which nothing is known.
    pub unknown: Vec<WrittenStack>,
    /// What makes it less sure than it seems.
    pub doubts: Vec<String>,
    /// What all stacks have in common, and how to ask for more.
    #[serde(default)]
    pub held_fixed: Vec<HeldFixed>,
}

/// What is known of a stack besides its rate.
pub struct Known {
    /// What a power cut loses.
    pub price: Price,
    /// Over a network, what each failure loses.
    pub losses: Vec<FailureLoss>,
    /// What makes it faster or slower than yours.
    pub mechanism: Option<String>,
    /// Why its number is not physical, where that is so.
    pub not_physical: Option<String>,
}

impl Advice {
    /// Puts a ranking and what is known of its stacks together.
    pub fn of(
        question: Question,
        ranking: Ranking,
        confirmation: Confirmation,
        known: impl Fn(&WrittenStack) -> Known,
    ) -> Self {
        let confirmed = |stack: &WrittenStack| match &confirmation {
            Confirmation::Confirmed { stack: confirmed, ratio, .. } if confirmed == stack => Some(*ratio),
            _ => None,
        };
        let mut rows: Vec<(Known, Ranked)> =
            ranking.rows.into_iter().map(|row| (known(&row.stack), row)).collect();
        // The number of a cache is no reason to take a stack.
        rows.sort_by_key(|(known, _)| known.not_physical.is_some());
        let recommendations = rows.into_iter().zip(1..).map(|((known, row), place)| {
            let Known { price, losses, mechanism, not_physical } = known;
            Recommendation {
                place,
                confirmed: confirmed(&row.stack),
                stack: row.stack,
                is_yours: row.is_yours,
                measured: row.measured,
                rate: row.rate,
                vs_yours: row.vs_yours,
                not_physical,
                mechanism,
                evidence: row.runs,
                price,
                losses,
            }
        });
        Self {
            recommendations: recommendations.collect(),
            workload: question.workload,
            ground: question.ground,
            unit: question.unit,
            physical: question.physical,
            yours: question.yours,
            effects: ranking.effects,
            fit: ranking.fit,
            confirmation,
            worth_measuring: ranking.worth_measuring,
            unknown: ranking.unknown,
            doubts: question.doubts,
            held_fixed: question.held_fixed,
        }
    }
}

/// What was asked, and how far the numbers can be trusted.
pub struct Question {
    /// The workload.
    pub workload: WrittenWorkload,
    /// Where it was measured.
    pub ground: WrittenPlace,
    /// What is compared.
    pub unit: RateUnit,
    /// The stack that the others are compared with.
    pub yours: WrittenStack,
    /// See [`Advice::physical`].
    pub physical: Option<Vec<String>>,
    /// See [`Advice::doubts`].
    pub doubts: Vec<String>,
    /// See [`Advice::held_fixed`].
    pub held_fixed: Vec<HeldFixed>,
}

#[cfg(test)]
mod tests {
    use nestor_statistics::Interval;

    use super::*;

    fn ratio(low: f64, value: f64, high: f64) -> Option<Ratio> {
        Some(Ratio { value, interval: Some(Interval { low, high }), pairs: 6 })
    }

    #[test]
    fn only_an_interval_above_no_difference_confirms() {
        let is_confirmed = |ratio| {
            matches!(Confirmation::of(&"s".into(), ratio, Vec::new()), Confirmation::Confirmed { .. })
        };
        assert!(is_confirmed(ratio(1.51, 1.58, 1.66)));
        assert!(!is_confirmed(ratio(0.99, 1.58, 2.5)));
        assert!(!is_confirmed(ratio(0.5, 0.6, 0.7)));
        assert!(!is_confirmed(Some(Ratio { value: 2.0, interval: None, pairs: 1 })));
        assert!(!is_confirmed(None));
    }

    fn row(stack: &str, rate: f64) -> Ranked {
        Ranked {
            stack: stack.into(),
            measured: true,
            is_yours: stack == "yours",
            rate: Estimate { value: rate, interval: None },
            vs_yours: (stack != "yours").then_some(Ratio { value: rate / 100.0, interval: None, pairs: 1 }),
            runs: vec![1],
        }
    }

    fn ranking() -> Ranking {
        Ranking {
            rows: vec![row("cached", 9_000.0), row("fast", 150.0), row("yours", 100.0)],
            effects: Vec::new(),
            fit: None,
            unknown: Vec::new(),
            worth_measuring: Vec::new(),
        }
    }

    fn only(names: &'static [&'static str]) -> impl Fn(&WrittenStack) -> Option<String> {
        move |stack| names.contains(&stack.as_str()).then(|| "from host memory".to_owned())
    }

    #[test]
    fn what_is_not_physical_is_never_tested_as_the_best() {
        assert_eq!(candidate(&ranking(), only(&[])), Ok("cached".into()));
        assert_eq!(candidate(&ranking(), only(&["cached"])), Ok("fast".into()));
        let why = |names| candidate(&ranking(), only(names)).unwrap_err();
        assert_eq!(why(&["cached", "fast"]), "yours is the best of these stacks with plausible numbers");
        assert_eq!(why(&["yours"]), "the number of your stack is not plausible: from host memory");
        let mut without_yours = ranking();
        without_yours.rows.pop();
        let found = candidate(&without_yours, only(&["cached", "fast"]));
        assert_eq!(found.unwrap_err(), "none of the numbers is plausible");
    }

    #[test]
    fn what_is_not_physical_comes_after_all_others() {
        let question = Question {
            workload: "fio:rand-write".into(),
            ground: "emulated".into(),
            unit: RateUnit::OperationsPerSecond,
            yours: "yours".into(),
            physical: None,
            doubts: Vec::new(),
            held_fixed: Vec::new(),
        };
        let confirmation = Confirmation::NotTried { reason: String::new() };
        let not_physical = only(&["cached"]);
        let advice = Advice::of(question, ranking(), confirmation, |stack| Known {
            price: crate::price::price(stack, &[]),
            losses: Vec::new(),
            mechanism: None,
            not_physical: not_physical(stack),
        });
        let order: Vec<(usize, &str)> =
            advice.recommendations.iter().map(|one| (one.place, one.stack.as_str())).collect();
        assert_eq!(order, [(1, "fast"), (2, "yours"), (3, "cached")]);
    }
}
