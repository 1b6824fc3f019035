//! How good predictions are: what is known is hidden, asked for, and compared. By whole stacks and by whole families of loads,
//! never by single rows, which would leave the answer's neighbours in.

use std::collections::{BTreeMap, BTreeSet};

use nestor_results::{WrittenStack, WrittenWorkload};
use nestor_statistics::median;
use nestor_statistics::prediction::{NullModel, TargetMachine};
use serde::Serialize;

use crate::answer::answer;
use crate::calibration::{Tracks, tracks};
use crate::error_parts::CellError;
use crate::evidence::{Evidence, MeasuredLoad, Question, Reference, Shape};
use crate::hiding::{dealt, probes};
use crate::learnt_model::Knowledge;
use crate::noise::{Floor, HALF, Noise, rank_quantile};
use crate::nulls;
use crate::term_errors::{TermError, Told, term_errors};

/// Parts into which stacks or families are dealt.
const FOLDS: usize = 6;
/// The order in which they are dealt.
const SEED: u64 = 7;

/// Nine of ten of a normal distribution are within so many deviations.
const NINE_OF_TEN: f64 = 1.645;

/// What is hidden together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Held {
    /// All loads of a stack, but for so many that stay for calibration.
    Stacks {
        /// Loads of each held-out stack that are known.
        known_loads: usize,
    },
    /// All loads of a family, but one probe of each, on the most typical of its stacks.
    Families,
}

/// How one way to predict did.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Scores {
    /// Which.
    pub name: String,
    /// Questions.
    pub asked: usize,
    /// Questions that got a number.
    pub answered: usize,
    /// Mean of the errors, as a share; like the others `None` where nothing was answered.
    pub mape: Option<f64>,
    /// Median.
    pub median: Option<f64>,
    /// Nine of ten are below it.
    pub p90: Option<f64>,
    /// Mean of the errors with their signs.
    pub bias: Option<f64>,
    /// Share of the truths within the 90 % interval, where there is one.
    pub coverage: Option<f64>,
    /// The median without what the truths themselves are off, because they are means of few runs; `None` where no cell was repeated.
    pub median_without_noise: Option<f64>,
    /// The same of nine of ten.
    pub p90_without_noise: Option<f64>,
}

impl Scores {
    /// Share of the questions that got no number.
    pub fn abstained(&self) -> f64 {
        1.0 - self.answered as f64 / self.asked.max(1) as f64
    }
}

/// What cross-validation found.
#[derive(Clone, Debug, Serialize)]
pub struct Validation {
    /// What was hidden together.
    pub held: Held,
    /// Into how many parts it was dealt.
    pub folds: usize,
    /// The answer first, then the null models.
    pub scores: Vec<Scores>,
    /// The answer's errors, the largest first.
    pub errors: Vec<CellError>,
    /// What a perfect prediction would be off in the same cells; `None` where no cell was repeated.
    pub floor: Option<Floor>,
    /// Where the prediction from mechanisms is off, the term with the largest share first; empty where no demand is known.
    pub terms: Vec<TermError>,
}

/// One prediction with the truth.
struct Outcome {
    predicted: Option<f64>,
    inside: Option<bool>,
    truth: f64,
    /// Variance of the truth's logarithm: a mean of runs.
    noise: Option<f64>,
}

/// Hides, asks, compares. `None` with fewer than two stacks or families.
pub fn validate(evidence: &Evidence, held: Held) -> Option<Validation> {
    let parts = parts(evidence, held);
    if parts.len() < 2 {
        return None;
    }
    let noise = Noise::of(&evidence.cells);
    let mut found = Found::default();
    for hidden in &parts {
        let is_hidden = |cell: &MeasuredLoad| hidden.contains(&key(cell));
        let mut known = evidence.without(is_hidden);
        if held == (Held::Stacks { known_loads: 0 }) {
            // Nothing was ever run there, so there are no surfaces of them either.
            let stacks: BTreeSet<&WrittenStack> = hidden.iter().map(|(stack, _)| *stack).collect();
            known.points.retain(|stack, _| !stacks.contains(stack));
        }
        let asked: Vec<Key<'_>> = hidden.iter().copied().collect();
        let knowledge = Knowledge::fit(&known).ready(&known, &asked);
        let tracks = tracks(&known);
        for cell in evidence.cells.iter().filter(|cell| is_hidden(cell)) {
            found.ask(cell, &known, &knowledge, &tracks, &noise);
        }
    }
    let Found { of_answer, of_nulls, mut errors, told } = found;
    errors.sort_by(|a, b| b.error.abs().total_cmp(&a.error.abs()));
    let mut scores = vec![scored("prediction", &of_answer)];
    let with_answers = of_nulls.iter().filter(|(_, outcomes)| outcomes.iter().any(|o| o.predicted.is_some()));
    scores.extend(with_answers.map(|(model, outcomes)| scored(&nulls::label(*model), outcomes)));
    let answered: Vec<(&WrittenWorkload, usize)> =
        errors.iter().map(|error| (&error.load, error.runs)).collect();
    let floor = noise.floor(&answered);
    Some(Validation { held, folds: parts.len(), scores, errors, floor, terms: term_errors(&told) })
}

/// What was found of hidden cells.
#[derive(Default)]
struct Found {
    of_answer: Vec<Outcome>,
    of_nulls: BTreeMap<NullModel, Vec<Outcome>>,
    errors: Vec<CellError>,
    told: Vec<Told>,
}

impl Found {
    /// Asks for a hidden cell.
    fn ask(
        &mut self,
        cell: &MeasuredLoad,
        known: &Evidence,
        knowledge: &Knowledge,
        tracks: &Tracks,
        noise: &Noise,
    ) {
        let of_truth = noise.variance(&cell.load).map(|variance| variance / cell.runs.len().max(1) as f64);
        let outcome = |predicted: Option<f64>, inside: Option<bool>| Outcome {
            predicted,
            inside,
            truth: cell.rate,
            noise: of_truth,
        };
        let Some(question) = question(known, cell) else {
            // Where it was measured nowhere else there is nothing to predict from: that is an abstention as well.
            self.of_answer.push(outcome(None, None));
            return;
        };
        let found = answer(&question, known, knowledge, tracks);
        let inside = found.rate.and(found.interval).map(|interval| interval.contains(cell.rate));
        if let Some(rate) = found.rate {
            self.errors.push(CellError {
                load: cell.load.clone(),
                stack: cell.stack.clone(),
                error: rate / cell.rate - 1.0,
                runs: cell.runs.len(),
            });
        }
        self.of_answer.push(outcome(found.rate, inside));
        let is_answered = found.rate.is_some();
        for (model, rate) in found.nulls {
            // On the same questions: who answers only the easy ones is not better for it.
            let rate = rate.filter(|_| is_answered);
            self.of_nulls.entry(model).or_default().push(outcome(rate, None));
        }
        let expected = knowledge.expected(known, &question.to, &question.load, &question.shape);
        if let (Some(mechanical), Some(demand)) =
            (expected.and_then(|expected| expected.mechanisms), &cell.demand)
        {
            self.told.extend(Told::of(mechanical, demand, &question.shape, cell.rate));
        }
    }
}

/// What tells a cell from others.
type Key<'a> = (&'a WrittenStack, &'a WrittenWorkload);

fn key(cell: &MeasuredLoad) -> Key<'_> {
    (&cell.stack, &cell.load)
}

/// The cells that are hidden together: those of stacks or of families, which are dealt into parts by chance.
fn parts(evidence: &Evidence, held: Held) -> Vec<BTreeSet<Key<'_>>> {
    match held {
        Held::Stacks { known_loads } => {
            let stacks: BTreeSet<&WrittenStack> = evidence.cells.iter().map(|cell| &cell.stack).collect();
            let folds = FOLDS.min(stacks.len());
            let parts = dealt(stacks, folds, SEED).into_iter();
            parts.map(|stacks| of_stacks(evidence, &stacks, known_loads)).collect()
        }
        Held::Families => {
            let family = |cell: &MeasuredLoad| evidence.families.get(&cell.load);
            let families: BTreeSet<&String> = evidence.cells.iter().filter_map(family).collect();
            let folds = families.len();
            // Each load stays on one stack: its probe.
            let probes = probes(evidence.cells.iter().map(key), |a, b| evidence.shared_parts(a, b));
            let of_families = |families: BTreeSet<&String>| {
                let cells = evidence.cells.iter();
                let cells = cells.filter(|cell| family(cell).is_some_and(|family| families.contains(family)));
                cells.map(key).filter(|(stack, load)| probes.get(load) != Some(stack)).collect()
            };
            dealt(families, folds, SEED).into_iter().map(of_families).collect()
        }
    }
}

/// The cells of stacks but for so many loads of each that stay.
fn of_stacks<'a>(
    evidence: &'a Evidence,
    stacks: &BTreeSet<&WrittenStack>,
    known_loads: usize,
) -> BTreeSet<Key<'a>> {
    let of_stack = |stack: &&WrittenStack| {
        let there: Vec<&MeasuredLoad> = evidence.cells.iter().filter(|cell| cell.stack == **stack).collect();
        let stay = calibrating(evidence, &there, known_loads);
        // A stack with nothing left to ask is no question.
        there.into_iter().map(key).filter(move |(_, load)| !stay.contains(load))
    };
    stacks.iter().flat_map(of_stack).collect()
}

/// So many of the loads on a stack that everybody would run first: the one that was measured on most stacks, then the ones most
/// unlike those.
fn calibrating<'a>(
    evidence: &'a Evidence,
    there: &[&'a MeasuredLoad],
    count: usize,
) -> BTreeSet<&'a WrittenWorkload> {
    let everywhere = |load: &WrittenWorkload| evidence.cells.iter().filter(|cell| cell.load == *load).count();
    let known = there.iter().filter_map(|cell| Some((&cell.load, evidence.shapes.get(&cell.load)?)));
    let mut left: Vec<(&WrittenWorkload, &Shape)> =
        known.filter(|(_, shape)| shape.mean_bytes > 0.0).collect();
    let mut chosen: Vec<(&WrittenWorkload, &Shape)> = Vec::new();
    while chosen.len() < count {
        let far = |shape: &Shape| {
            let features = shape.features();
            let distance = |other: &Shape| -> f64 {
                features.iter().zip(other.features()).map(|(a, b)| (a - b).powi(2)).sum()
            };
            chosen.iter().map(|(_, other)| distance(other)).fold(1e9, f64::min)
        };
        let better = |a: &(&WrittenWorkload, &Shape), b: &(&WrittenWorkload, &Shape)| {
            far(a.1).total_cmp(&far(b.1)).then(everywhere(a.0).cmp(&everywhere(b.0))).then(b.0.cmp(a.0))
        };
        let Some(next) = left.iter().copied().max_by(better) else { break };
        left.retain(|(load, _)| *load != next.0);
        chosen.push(next);
    }
    chosen.into_iter().map(|(load, _)| load).collect()
}

/// What would be asked of a hidden cell: from the known stack most like its own, as `nestor predict` does.
fn question(known: &Evidence, cell: &MeasuredLoad) -> Option<Question> {
    let from = known.most_alike(&cell.load, &cell.stack)?;
    Some(Question {
        load: cell.load.clone(),
        shape: known.shapes.get(&cell.load)?.clone(),
        model: None,
        model_workers: 0,
        from: from.clone(),
        reference: Reference::of(known.cell(from, &cell.load)?),
        to: cell.stack.clone(),
        processors: 0,
        machine: TargetMachine::SAME,
    })
}

fn scored(name: &str, outcomes: &[Outcome]) -> Scores {
    let told: Vec<(f64, &Outcome)> = outcomes
        .iter()
        .filter_map(|outcome| Some((outcome.predicted? / outcome.truth - 1.0, outcome)))
        .collect();
    let mut sizes: Vec<f64> = told.iter().map(|(error, _)| error.abs()).collect();
    sizes.sort_by(f64::total_cmp);
    let mean =
        |values: &[f64]| (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64);
    let inside: Vec<bool> = outcomes.iter().filter_map(|o| o.inside).collect();
    let noises: Option<Vec<f64>> = told.iter().map(|(_, outcome)| outcome.noise).collect();
    let noise = noises.as_deref().and_then(median);
    let without = |size: Option<f64>, deviations: f64| {
        Some((size?.powi(2) - deviations.powi(2) * noise?).max(0.0).sqrt())
    };
    let (median, p90) = (median(&sizes), rank_quantile(&sizes, 0.9));
    Scores {
        name: name.to_owned(),
        asked: outcomes.len(),
        answered: sizes.len(),
        mape: mean(&sizes),
        median,
        p90,
        bias: mean(&told.iter().map(|(error, _)| *error).collect::<Vec<_>>()),
        coverage: (!inside.is_empty())
            .then(|| inside.iter().filter(|inside| **inside).count() as f64 / inside.len() as f64),
        median_without_noise: without(median, HALF),
        p90_without_noise: without(p90, NINE_OF_TEN),
    }
}
