//! What can be predicted with next to no effort: nothing counts as a model that is not better than these.
//!
//! The acceptance table (§2) lists five, N0 to N4, with their errors on the ESX study's own five points.

use serde::{Deserialize, Serialize};

/// A prediction that needs no model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum NullModel {
    /// N0: on the target as on the reference.
    Same,
    /// N1: times the mean ratio of all points of a surface.
    MeanRatio,
    /// N2: times the ratio of the points of the surface that are like the load.
    MatchingRatio,
    /// N3: times the ratio of the rates that a model of the load reached.
    ModelRate,
    /// N4: times the ratio of the times of that model's transactions, without any correction.
    ModelTime,
}

/// What null models are made of; each makes do with what it needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NullModelInput {
    /// What the reference reached, in the unit of the answer.
    pub reference: f64,
    /// Target over reference, mean over all points of the surface.
    pub mean_ratio: Option<f64>,
    /// The same over the points that are like the load.
    pub matching_ratio: Option<f64>,
    /// Rate of the model load: on the reference, on the target.
    pub model_rates: Option<(f64, f64)>,
    /// Time of its transactions: on the reference, on the target.
    pub model_times: Option<(f64, f64)>,
}

impl NullModel {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Same, Self::MeanRatio, Self::MatchingRatio, Self::ModelRate, Self::ModelTime];

    /// As printed beside a prediction.
    pub fn name(self) -> &'static str {
        match self {
            Self::Same => "as on the reference",
            Self::MeanRatio => "mean surface ratio",
            Self::MatchingRatio => "matching-cell ratio",
            Self::ModelRate => "model-rate ratio",
            Self::ModelTime => "model-time ratio",
        }
    }

    /// Short name, as in the acceptance table.
    pub fn short_name(self) -> &'static str {
        match self {
            Self::Same => "N0",
            Self::MeanRatio => "N1",
            Self::MatchingRatio => "N2",
            Self::ModelRate => "N3",
            Self::ModelTime => "N4",
        }
    }

    /// What it predicts; `None` without what it needs.
    pub fn predict(self, input: &NullModelInput) -> Option<f64> {
        let ratio = match self {
            Self::Same => 1.0,
            Self::MeanRatio => input.mean_ratio?,
            Self::MatchingRatio => input.matching_ratio?,
            Self::ModelRate => input.model_rates.map(|(reference, target)| target / reference)?,
            Self::ModelTime => input.model_times.map(|(reference, target)| reference / target)?,
        };
        Some(input.reference * ratio).filter(|predicted| predicted.is_finite() && *predicted > 0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Per cent by which predictions are off.
    fn errors(input: &NullModelInput, actual: f64) -> Vec<Option<f64>> {
        let error = |model: NullModel| Some((model.predict(input)? / actual - 1.0) * 100.0);
        NullModel::ALL.into_iter().map(error).collect()
    }

    fn assert_errors(input: &NullModelInput, actual: f64, expected: [Option<f64>; 5]) {
        for (found, expected) in errors(input, actual).into_iter().zip(expected) {
            assert_eq!(found.is_some(), expected.is_some());
            if let (Some(found), Some(expected)) = (found, expected) {
                assert!((found - expected).abs() < 0.06, "{found} {expected}");
            }
        }
    }

    /// §2 of the acceptance table, dbench with 30, 40 and 50 clients; rows.
    #[test]
    fn dbench() {
        for (reference, actual, expected) in
            [(7.89, 6.85, [15.2, 9.4, 3.7]), (7.16, 6.40, [11.9, 6.3, 0.7]), (7.19, 6.06, [18.6, 12.7, 6.8])]
        {
            let input = NullModelInput {
                reference,
                mean_ratio: Some(0.95),
                matching_ratio: Some(0.9),
                ..NullModelInput::default()
            };
            let [same, mean, matching] = expected.map(Some);
            assert_errors(&input, actual, [same, mean, matching, None, None]);
        }
    }

    /// The mail server on Thar and on Atacama; row A-48.
    #[test]
    fn mail_server() {
        let thar = NullModelInput {
            reference: 7122.0,
            mean_ratio: Some(1.08),
            model_rates: Some((792.0, 690.0)),
            model_times: Some((63.1, 72.5)),
            ..NullModelInput::default()
        };
        assert_errors(&thar, 6123.0, [Some(16.3), Some(25.6), None, Some(1.3), Some(1.2)]);
        let atacama = NullModelInput {
            reference: 7122.0,
            model_rates: Some((792.0, 554.0)),
            model_times: Some((63.1, 90.3)),
            ..NullModelInput::default()
        };
        assert_errors(&atacama, 4921.0, [Some(44.7), None, None, Some(1.2), Some(1.1)]);
    }

    #[test]
    fn nonsense_predicts_nothing() {
        let input = NullModelInput { reference: 1.0, model_rates: Some((0.0, 5.0)), ..Default::default() };
        assert_eq!(NullModel::ModelRate.predict(&input), None);
    }
}
