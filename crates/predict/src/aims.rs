//! What predictions are to reach, and by how much they miss it.

use std::fmt;

use nestor_results::WrittenWorkload;
use nestor_text::units::share;
use serde::Serialize;

use crate::matrix::CompletionScore;
use crate::validation::{Held, Scores, Validation};

/// On stacks that were held out, half of the errors are to be below this: the best published median is 4.36 %.
const MEDIAN: f64 = 0.044;
/// And nine of ten below this: the best published is 29.17 %.
const NINE_OF_TEN: f64 = 0.15;
/// Truths within the 90 % interval.
const COVERAGE: std::ops::RangeInclusive<f64> = 0.88..=0.92;
/// Questions without an answer, at most.
const ABSTAINED: f64 = 0.10;
/// On families of loads that were seen on one stack only, half of the errors.
const FAMILIES_MEDIAN: f64 = 0.15;
/// Half of the errors of a matrix from twelve cells.
const MATRIX_MEDIAN: f64 = 0.10;

/// An aim and what was reached.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Aim {
    /// What is aimed at.
    pub aim: String,
    /// What was reached, as a share; `None` where nothing was answered.
    pub reached: Option<f64>,
    /// By how much it is missed, as a share; `None` where it is met.
    pub missed_by: Option<f64>,
}

impl Aim {
    fn at_most(aim: &str, limit: f64, reached: Option<f64>) -> Self {
        let aim = format!("{aim} should be at most {}", share(limit));
        Self { aim, reached, missed_by: reached.map(|reached| reached - limit).filter(|over| *over > 0.0) }
    }
}

/// Of what was hidden. Errors are held against the aims without what the truths themselves are off, if that is known.
pub fn of_hidden(validation: &Validation) -> Vec<Aim> {
    let Some((ours, nulls)) = validation.scores.split_first() else { return Vec::new() };
    let (low, high) = (*COVERAGE.start(), *COVERAGE.end());
    let outside = |share: f64| (low - share).max(share - high);
    let median = ours.median_without_noise.or(ours.median);
    let mut aims = match validation.held {
        Held::Stacks { .. } => vec![
            Aim::at_most("median error", MEDIAN, median),
            Aim::at_most(
                "error of nine in ten predictions",
                NINE_OF_TEN,
                ours.p90_without_noise.or(ours.p90),
            ),
            Aim {
                aim: format!(
                    "share of measured values in the 90 % interval should be {} to {}",
                    share(low),
                    share(high)
                ),
                reached: ours.coverage,
                missed_by: ours.coverage.map(outside).filter(|outside| *outside > 0.0),
            },
            Aim::at_most("share of questions without an answer", ABSTAINED, Some(ours.abstained())),
        ],
        Held::Families => vec![Aim::at_most("median error", FAMILIES_MEDIAN, median)],
    };
    // Both with the noise: null models are held against the same truths.
    let best = nulls.iter().filter(|null| null.median.is_some());
    let best: Option<&Scores> =
        best.min_by(|a, b| a.median.unwrap_or(1.0).total_cmp(&b.median.unwrap_or(1.0)));
    if let Some(limit) = best.and_then(|null| null.median) {
        aims.push(Aim::at_most("median error, as of the best simple rule (null model),", limit, ours.median));
    }
    aims
}

/// Of matrices from a few cells: the worst load counts.
pub fn of_matrices(matrices: &[(WrittenWorkload, CompletionScore)]) -> Vec<Aim> {
    let worst = matrices.iter().max_by(|a, b| a.1.median.total_cmp(&b.1.median));
    let aim = |(load, score): &(WrittenWorkload, CompletionScore)| {
        Aim::at_most(&format!("median error of the worst matrix, {load}"), MATRIX_MEDIAN, Some(score.median))
    };
    worst.map(aim).into_iter().collect()
}

impl fmt::Display for Aim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; ", self.aim)?;
        match (self.reached, self.missed_by) {
            (None, _) => write!(f, "not known here, because nothing was answered"),
            (Some(reached), None) => write!(f, "here {}, as it should be", share(reached)),
            (Some(reached), Some(by)) => {
                write!(f, "here {}, which is off by {:.1} percentage points", share(reached), by * 100.0)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scores(name: &str, median: f64, p90: f64, coverage: f64) -> Scores {
        Scores {
            name: name.to_owned(),
            asked: 20,
            answered: 19,
            mape: Some(median),
            median: Some(median),
            p90: Some(p90),
            bias: Some(0.0),
            coverage: Some(coverage),
            median_without_noise: Some(median - 0.01),
            p90_without_noise: None,
        }
    }

    #[test]
    fn what_is_missed_is_said_with_how_much() {
        let validation = Validation {
            held: Held::Stacks { known_loads: 0 },
            folds: 6,
            scores: vec![scores("prediction", 0.06, 0.12, 0.80), scores("N0", 0.25, 0.5, 0.0)],
            errors: Vec::new(),
            floor: None,
            terms: Vec::new(),
        };
        let lines: Vec<String> = of_hidden(&validation).iter().map(ToString::to_string).collect();
        insta::assert_snapshot!(lines.join("\n"), @r"
        median error should be at most 4.4 %; here 5.0 %, which is off by 0.6 percentage points
        error of nine in ten predictions should be at most 15.0 %; here 12.0 %, as it should be
        share of measured values in the 90 % interval should be 88.0 % to 92.0 %; here 80.0 %, which is off by 8.0 percentage points
        share of questions without an answer should be at most 10.0 %; here 5.0 %, as it should be
        median error, as of the best simple rule (null model), should be at most 25.0 %; here 6.0 %, as it should be
        ");
        assert_eq!(of_matrices(&[]), []);
    }
}
