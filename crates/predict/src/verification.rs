//! A real run of what was asked, beside what was predicted.

use nestor_results::StoredRun;
use nestor_statistics::geometric_mean;
use serde::Serialize;

use crate::answer::Answer;
use crate::evidence::Question;
use crate::residual::{LayerResidual, Times, adding_up_to, by_layer, mean_times};

/// A run with what it reached, in the unit of the answer.
pub type RatedRun<'a> = (&'a StoredRun, f64);

/// What was found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verification {
    /// What it reached, geometric mean of the runs, in the unit of the answer.
    pub found: f64,
    /// The runs, by number.
    pub runs: Vec<i64>,
    /// Predicted over found, less 1; none where nothing was predicted.
    pub error: Option<f64>,
    /// Whether it is within the 90 % interval.
    pub within: Option<bool>,
    /// Milliseconds that a worker's operation took there.
    pub found_ms: f64,
    /// Milliseconds that were predicted, less those found; none where nothing was predicted.
    pub residual_ms: Option<f64>,
    /// Where a request's time went there beside where it was predicted to go; the differences add up to the residual.
    pub layers: Vec<LayerResidual>,
    /// Whether the predicted time is spread over the layers, as that of the runs like it was.
    #[serde(skip)]
    pub is_spread: bool,
}

impl Verification {
    /// From runs on the target, and from runs of the load on a stack like it, over whose layers the predicted time is spread. `None`
    /// without runs on the target.
    pub fn of(
        question: &Question,
        answer: &Answer,
        runs: &[RatedRun<'_>],
        like: &[RatedRun<'_>],
    ) -> Option<Self> {
        let found = geometric_mean(&runs.iter().map(|(_, rate)| *rate).collect::<Vec<_>>())?;
        let (found_ms, predicted_ms) =
            (question.pass_ms(found), answer.rate.map(|rate| question.pass_ms(rate)));
        let (there, like) = (times(question, runs), times(question, like));
        let spread = like.as_ref().zip(predicted_ms);
        let layers = there.map(|times| by_layer(&adding_up_to(times, found_ms), spread));
        Some(Self {
            found,
            runs: runs.iter().map(|(run, _)| run.number).collect(),
            error: answer.rate.map(|rate| rate / found - 1.0),
            within: answer.interval.map(|interval| interval.contains(found)),
            found_ms,
            residual_ms: predicted_ms.map(|predicted| predicted - found_ms),
            layers: layers.unwrap_or_default(),
            is_spread: spread.is_some(),
        })
    }
}

/// Where the time of the load's requests went.
fn times(question: &Question, runs: &[RatedRun<'_>]) -> Option<Times> {
    mean_times(runs.iter().filter_map(|(run, rate)| {
        let seconds = run.record.measured()?.load.elapsed_ns as f64 / 1e9;
        Some((*run, question.requests(*rate, seconds), question.pass_ms(*rate)))
    }))
}
