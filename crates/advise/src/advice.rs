//! The answer: recommendations with their evidence, their mechanism and their price.

use nestor_model::Ratio;
use serde::{Deserialize, Serialize};

use crate::observation::Unit;
use crate::price::Price;
use crate::ranking::{Estimate, FactorEffect, FitSummary, Ranking};

/// One stack that could be taken.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Recommendation {
    /// Its place, from 1.
    pub place: usize,
    /// The stack.
    pub stack: String,
    /// Whether it is the user's.
    pub is_yours: bool,
    /// Whether it was measured; otherwise it is predicted from others.
    pub measured: bool,
    /// Its rate.
    pub rate: Estimate,
    /// Its rate over that of yours.
    pub vs_yours: Option<Ratio>,
    /// Why its number is not physical, where that is so.
    pub not_physical: Option<String>,
    /// What makes it faster or slower than yours, where both were traced through all layers.
    pub mechanism: Option<String>,
    /// The runs it rests on.
    pub evidence: Vec<i64>,
    /// What a power cut takes.
    pub price: Price,
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
        stack: String,
        /// Of the fresh pairs alone.
        ratio: Ratio,
        /// Runs of these pairs.
        runs: Vec<i64>,
    },
    /// Fresh pairs do not show it.
    NotConfirmed {
        /// The stack.
        stack: String,
        /// Of the fresh pairs alone; `None` if there were none with numbers on both sides.
        ratio: Option<Ratio>,
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
    /// What fresh pairs say: confirmed is only what has an interval above no difference.
    pub fn of(stack: &str, ratio: Option<Ratio>, runs: Vec<i64>) -> Self {
        let stack = stack.to_owned();
        match ratio {
            Some(ratio) if ratio.interval.is_some_and(|interval| interval.low > 1.0) => {
                Self::Confirmed { stack, ratio, runs }
            }
            ratio => Self::NotConfirmed { stack, ratio, runs },
        }
    }
}

/// Everything that is said to someone who asks which stack to take.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Advice {
    /// The workload.
    pub workload: String,
    /// Where it was measured.
    pub ground: String,
    /// What is compared.
    pub unit: Unit,
    /// Whether the numbers are physical, in sentences; `None` if that was not looked into.
    pub physical: Option<Vec<String>>,
    /// The stack that the others are compared with.
    pub yours: String,
    /// The recommendations, the best first.
    pub recommendations: Vec<Recommendation>,
    /// What each level of each factor does.
    pub effects: Vec<FactorEffect>,
    /// How well effects alone say what was measured.
    pub fit: Option<FitSummary>,
    /// What became of the test of the best.
    pub confirmation: Confirmation,
    /// Stacks that were not measured and might be the best.
    pub worth_measuring: Vec<String>,
    /// Stacks of which nothing is known.
    pub unknown: Vec<String>,
    /// What makes it less sure than it seems.
    pub doubts: Vec<String>,
}

/// What is known of a stack besides its rate.
pub struct Known {
    /// What a power cut takes.
    pub price: Price,
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
        known: impl Fn(&str) -> Known,
    ) -> Self {
        let confirmed = |stack: &str| match &confirmation {
            Confirmation::Confirmed { stack: confirmed, ratio, .. } if confirmed == stack => Some(*ratio),
            _ => None,
        };
        let recommendations = ranking.rows.into_iter().zip(1..).map(|(row, place)| {
            let Known { price, mechanism, not_physical } = known(&row.stack);
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
        }
    }
}

/// What was asked, and how far the numbers can be trusted.
pub struct Question {
    /// The workload.
    pub workload: String,
    /// Where it was measured.
    pub ground: String,
    /// What is compared.
    pub unit: Unit,
    /// The stack that the others are compared with.
    pub yours: String,
    /// See [`Advice::physical`].
    pub physical: Option<Vec<String>>,
    /// See [`Advice::doubts`].
    pub doubts: Vec<String>,
}

#[cfg(test)]
mod tests {
    use nestor_model::Interval;

    use super::*;

    fn ratio(low: f64, value: f64, high: f64) -> Option<Ratio> {
        Some(Ratio { value, interval: Some(Interval { low, high }), pairs: 6 })
    }

    #[test]
    fn only_an_interval_above_no_difference_confirms() {
        let is_confirmed =
            |ratio| matches!(Confirmation::of("s", ratio, Vec::new()), Confirmation::Confirmed { .. });
        assert!(is_confirmed(ratio(1.51, 1.58, 1.66)));
        assert!(!is_confirmed(ratio(0.99, 1.58, 2.5)));
        assert!(!is_confirmed(ratio(0.5, 0.6, 0.7)));
        assert!(!is_confirmed(Some(Ratio { value: 2.0, interval: None, pairs: 1 })));
        assert!(!is_confirmed(None));
    }
}
