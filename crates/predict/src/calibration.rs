//! How far off a method has been where the truth is known: every load that was measured on two stacks is a question with its
//! answer, once the answer is hidden.

use std::collections::BTreeMap;

use nestor_results::WrittenWorkload;
use nestor_statistics::SeededOrder;
use serde::{Deserialize, Serialize};

use crate::evidence::{Evidence, MeasuredLoad, Question, Reference};
use crate::learnt_model::Knowledge;
use crate::methods::{METHODS, MethodId};

/// Questions that are tried; more take longer and tell little more.
const MOST_QUESTIONS: usize = 60;
/// Fewer truths tell no error.
pub(crate) const FEWEST_TRUTHS: usize = 4;
/// The error of a method that was never held against a truth: the better half of published predictions are within it (later
/// work lists 4 to 30 %).
const UNTRIED: f64 = 0.25;

/// Whether a method is one that learns from every cell. It says itself how sure it is: what it says was held against hidden cells.
pub(crate) fn is_self_calibrated(method: MethodId) -> bool {
    method.learner().is_some()
}

/// What is known of a method's errors.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Track {
    /// Questions with known answers.
    pub truths: usize,
    /// Root of the mean square of the logarithm of predicted over found.
    pub error: f64,
}

/// Of all methods.
pub type Tracks = BTreeMap<MethodId, Track>;

/// Tries every method on what is known, but those that are self-calibrated.
pub fn tracks(evidence: &Evidence) -> Tracks {
    let nothing = Knowledge::default();
    let mut questions = known_questions(evidence);
    if questions.len() > MOST_QUESTIONS {
        SeededOrder::new(1).shuffle(&mut questions);
        questions.truncate(MOST_QUESTIONS);
    }
    let mut errors: BTreeMap<MethodId, Vec<f64>> = BTreeMap::new();
    for (question, truth) in &questions {
        let hidden = evidence.without(|cell| cell.stack == question.to && cell.load == question.load);
        for method in METHODS.iter().filter(|method| !is_self_calibrated(method.id)) {
            if let Ok(predicted) = (method.predict)(question, &hidden, &nothing) {
                errors.entry(method.id).or_default().push((predicted.rate / truth).ln());
            }
        }
    }
    let track = |errors: Vec<f64>| {
        let squares: f64 = errors.iter().map(|error| error * error).sum();
        Track { truths: errors.len(), error: (squares / errors.len().max(1) as f64).sqrt() }
    };
    errors.into_iter().map(|(method, errors)| (method, track(errors))).collect()
}

/// The deviation that a method's prediction deserves.
pub(crate) fn deviation(method: MethodId, own: f64, tracks: &Tracks) -> f64 {
    if is_self_calibrated(method) {
        return own;
    }
    match tracks.get(&method) {
        // Few truths tell an error only roughly.
        Some(track) if track.truths >= FEWEST_TRUTHS => {
            own.max(track.error * (1.0 + 1.0 / track.truths as f64))
        }
        Some(track) => own.hypot(track.error.max(UNTRIED)),
        None => own.hypot(UNTRIED),
    }
}

/// Loads that were measured on two stacks of which surfaces are known, each way, with what was found.
fn known_questions(evidence: &Evidence) -> Vec<(Question, f64)> {
    let mut by_load: BTreeMap<&WrittenWorkload, Vec<&MeasuredLoad>> = BTreeMap::new();
    for cell in evidence.cells.iter().filter(|cell| evidence.points.contains_key(&cell.stack)) {
        by_load.entry(&cell.load).or_default().push(cell);
    }
    let mut questions = Vec::new();
    for (load, cells) in by_load {
        let Some(shape) = evidence.shapes.get(load) else { continue };
        for here in &cells {
            for there in cells.iter().filter(|there| there.stack != here.stack) {
                let question = Question {
                    load: load.clone(),
                    shape: shape.clone(),
                    // The model of a load that is known is the load itself: that would be no question.
                    model: None,
                    model_workers: 0,
                    from: here.stack.clone(),
                    reference: Reference::of(here),
                    to: there.stack.clone(),
                    processors: 0,
                    machine: nestor_statistics::prediction::TargetMachine::SAME,
                };
                questions.push((question, there.rate));
            }
        }
    }
    questions
}
