//! The null models of a question: what can be said with next to no effort.

use nestor_results::WrittenStack;
use nestor_statistics::geometric_mean;
use nestor_statistics::prediction::{NullModel, NullModelInput};
use nestor_statistics::surface::GridPoint;
use serde::Serializer;

use crate::evidence::{Evidence, Question};

/// Each null model with its number, if it has one.
pub fn predictions(question: &Question, evidence: &Evidence) -> Vec<(NullModel, Option<f64>)> {
    let input = input(question, evidence);
    NullModel::ALL.into_iter().map(|model| (model, model.predict(&input))).collect()
}

/// What a null model is called beside predictions.
pub fn label(model: NullModel) -> String {
    format!("{} {}", model.short_name(), model.name())
}

/// Null models and their numbers, as answers in JSON have them.
pub(crate) fn with_labels<S: Serializer>(
    nulls: &[(NullModel, Option<f64>)],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(nulls.iter().map(|(model, rate)| (label(*model), rate)))
}

fn input(question: &Question, evidence: &Evidence) -> NullModelInput {
    let ratios = point_ratios(question, evidence);
    let all: Vec<f64> = ratios.iter().map(|(_, ratio)| *ratio).collect();
    let model = |stack: &WrittenStack| {
        let model = question.model.as_ref()?;
        evidence.cell(stack, model).map(|cell| cell.operations_per_s)
    };
    let workers = f64::from(question.shape.customers());
    let there = model(&question.to);
    // A model with fewer workers than the load has other times.
    let timed = there.filter(|_| question.model_workers >= question.shape.customers());
    NullModelInput {
        reference: question.reference.rate,
        mean_ratio: geometric_mean(&all).or_else(|| load_ratio(question, evidence)),
        matching_ratio: matching(question, &ratios),
        model_rates: model(&question.from).zip(there),
        model_times: timed.map(|there| (workers / question.reference.requests_per_s, workers / there)),
    }
}

/// Target over reference at each point that was measured on both.
fn point_ratios(question: &Question, evidence: &Evidence) -> Vec<(GridPoint, f64)> {
    let (Some(from), Some(to)) = (evidence.points.get(&question.from), evidence.points.get(&question.to))
    else {
        return Vec::new();
    };
    let both = from.rates.iter().filter_map(|(point, here)| {
        let (_, there) = to.rates.iter().find(|(other, _)| other == point)?;
        Some((*point, there / here))
    });
    both.collect()
}

/// The same of other loads, where no surface was measured.
fn load_ratio(question: &Question, evidence: &Evidence) -> Option<f64> {
    let others =
        evidence.cells.iter().filter(|cell| cell.stack == question.from && cell.load != question.load);
    let ratios: Vec<f64> =
        others.filter_map(|here| Some(evidence.cell(&question.to, &here.load)?.rate / here.rate)).collect();
    geometric_mean(&ratios)
}

/// The ratio at the point most like the load.
fn matching(question: &Question, ratios: &[(GridPoint, f64)]) -> Option<f64> {
    let shape = &question.shape;
    let far = |point: &GridPoint| {
        let size = (f64::from(point.bytes) / shape.mean_bytes.max(1.0)).log2() / 4.0;
        let read = f64::from(point.read_percent) / 100.0 - shape.read_share;
        let random = f64::from(point.random_percent) / 100.0 - shape.random_share;
        let depth = (f64::from(point.depth) / shape.outstanding.max(1.0)).log2() / 8.0;
        size.powi(2) + read.powi(2) + random.powi(2) + depth.powi(2)
    };
    let nearest = ratios.iter().min_by(|(a, _), (b, _)| far(a).total_cmp(&far(b)));
    nearest.map(|(_, ratio)| *ratio)
}
