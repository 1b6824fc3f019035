//! How good predictions are: what is known is hidden, asked for, and compared. By whole stacks and by whole families of loads,
//! never by single rows, which would leave the answer's neighbours in.

use std::collections::BTreeSet;

use nestor_model::SeededOrder;
use nestor_model::median;
use nestor_model::prediction::TargetMachine;
use serde::Serialize;

use crate::answer::answer;
use crate::calibration::Tracks;
use crate::evidence::{Evidence, MeasuredLoad, Question, Reference, Shape};
use crate::learnt_model::Knowledge;

/// Parts into which stacks or families are dealt.
const FOLDS: usize = 6;

/// What is hidden together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Held {
    /// All loads of a stack, but for so many that stay for calibration.
    Stacks {
        /// Loads of each held-out stack that are known.
        known_loads: usize,
    },
    /// All loads of a family, but on the stack where they run now.
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
    /// The largest errors: load, stack, error as a share with its sign.
    pub worst: Vec<(String, String, f64)>,
}

/// One prediction with the truth.
struct Outcome {
    predicted: Option<f64>,
    inside: Option<bool>,
    truth: f64,
}

/// Hides, asks, compares. `None` with fewer than two stacks or families.
pub fn validate(evidence: &Evidence, held: Held) -> Option<Validation> {
    let groups = dealt(evidence, held);
    if groups.len() < 2 {
        return None;
    }
    let reference = most_measured_stack(evidence)?;
    let mut of_answer: Vec<Outcome> = Vec::new();
    let mut of_nulls: Vec<(String, Vec<Outcome>)> = Vec::new();
    let mut errors: Vec<(String, String, f64)> = Vec::new();
    for group in &groups {
        let is_hidden = |cell: &MeasuredLoad| hidden(evidence, held, group, &reference, cell);
        let known = evidence.without(is_hidden);
        let knowledge = Knowledge::fit(&known);
        for cell in evidence.cells.iter().filter(|cell| is_hidden(cell)) {
            let Some(question) = question(evidence, &known, &reference, cell) else { continue };
            let found = answer(&question, &known, &knowledge, &Tracks::new());
            let inside = found.rate.and(found.interval).map(|interval| interval.contains(cell.rate));
            if let Some(rate) = found.rate {
                errors.push((cell.load.clone(), cell.stack.clone(), rate / cell.rate - 1.0));
            }
            of_answer.push(Outcome { predicted: found.rate, inside, truth: cell.rate });
            for (name, rate) in found.nulls {
                let outcome = Outcome { predicted: rate, inside: None, truth: cell.rate };
                match of_nulls.iter_mut().find(|(known, _)| *known == name) {
                    Some((_, outcomes)) => outcomes.push(outcome),
                    None => of_nulls.push((name, vec![outcome])),
                }
            }
        }
    }
    errors.sort_by(|a, b| b.2.abs().total_cmp(&a.2.abs()));
    errors.truncate(10);
    let mut scores = vec![scored("prediction", &of_answer)];
    let with_answers = of_nulls.iter().filter(|(_, outcomes)| outcomes.iter().any(|o| o.predicted.is_some()));
    scores.extend(with_answers.map(|(name, outcomes)| scored(name, outcomes)));
    Some(Validation { held, folds: groups.len(), scores, worst: errors })
}

/// Stacks or families, dealt into parts by chance.
fn dealt(evidence: &Evidence, held: Held) -> Vec<BTreeSet<String>> {
    let names: BTreeSet<String> = match held {
        Held::Stacks { .. } => evidence.cells.iter().map(|cell| cell.stack.clone()).collect(),
        Held::Families => {
            evidence.cells.iter().filter_map(|cell| evidence.families.get(&cell.load).cloned()).collect()
        }
    };
    let mut names: Vec<String> = names.into_iter().collect();
    SeededOrder::new(7).shuffle(&mut names);
    let folds = if held == Held::Families { names.len() } else { FOLDS.min(names.len()) };
    let mut groups = vec![BTreeSet::new(); folds];
    for (i, name) in names.into_iter().enumerate() {
        groups[i % folds].insert(name);
    }
    groups
}

fn hidden(
    evidence: &Evidence,
    held: Held,
    group: &BTreeSet<String>,
    reference: &str,
    cell: &MeasuredLoad,
) -> bool {
    match held {
        Held::Stacks { known_loads } => {
            // The stack where loads run now is no target.
            cell.stack != reference
                && group.contains(&cell.stack)
                && !calibrating(evidence, known_loads).contains(cell.load.as_str())
        }
        Held::Families => {
            cell.stack != reference
                && evidence.families.get(&cell.load).is_some_and(|family| group.contains(family))
        }
    }
}

/// The loads that everybody would run first: those that were measured on most stacks, the most different ones.
fn calibrating(evidence: &Evidence, count: usize) -> BTreeSet<&str> {
    let mut chosen: Vec<(&str, &Shape)> = Vec::new();
    while chosen.len() < count {
        let far = |shape: &Shape| {
            let features = shape.features();
            let distance = |other: &Shape| -> f64 {
                features.iter().zip(other.features()).map(|(a, b)| (a - b).powi(2)).sum()
            };
            chosen.iter().map(|(_, other)| distance(other)).fold(f64::INFINITY, f64::min)
        };
        let left = evidence.shapes.iter().filter(|(load, _)| !chosen.iter().any(|(c, _)| c == load));
        let Some(next) = left.max_by(|a, b| far(a.1).total_cmp(&far(b.1))) else { break };
        chosen.push((next.0, next.1));
    }
    chosen.into_iter().map(|(load, _)| load).collect()
}

/// Where most loads were measured.
fn most_measured_stack(evidence: &Evidence) -> Option<String> {
    let stacks: BTreeSet<&str> = evidence.cells.iter().map(|cell| cell.stack.as_str()).collect();
    let loads = |stack: &str| evidence.cells.iter().filter(|cell| cell.stack == stack).count();
    let runs = |stack: &str| {
        evidence.cells.iter().filter(|cell| cell.stack == stack).map(|cell| cell.runs.len()).sum::<usize>()
    };
    let best = stacks.into_iter().max_by_key(|stack| (loads(stack), runs(stack)));
    best.map(str::to_owned)
}

fn question(evidence: &Evidence, known: &Evidence, reference: &str, cell: &MeasuredLoad) -> Option<Question> {
    let here = known.cell(reference, &cell.load)?;
    Some(Question {
        load: cell.load.clone(),
        shape: evidence.shapes.get(&cell.load)?.clone(),
        model: None,
        from: reference.to_owned(),
        reference: Reference {
            rate: here.rate,
            requests_per_s: here.operations_per_s,
            response_s: here.response_s.unwrap_or_default(),
            processors_busy: here.processors_busy,
        },
        to: cell.stack.clone(),
        machine: TargetMachine::SAME,
    })
}

fn scored(name: &str, outcomes: &[Outcome]) -> Scores {
    let answered: Vec<f64> =
        outcomes.iter().filter_map(|o| o.predicted.map(|predicted| predicted / o.truth - 1.0)).collect();
    let mut sizes: Vec<f64> = answered.iter().map(|error| error.abs()).collect();
    sizes.sort_by(f64::total_cmp);
    let mean =
        |values: &[f64]| (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64);
    let told: Vec<bool> = outcomes.iter().filter_map(|o| o.inside).collect();
    Scores {
        name: name.to_owned(),
        asked: outcomes.len(),
        answered: sizes.len(),
        mape: mean(&sizes),
        median: median(&sizes),
        p90: sizes.get((sizes.len() * 9 / 10).min(sizes.len().saturating_sub(1))).copied(),
        bias: mean(&answered),
        coverage: (!told.is_empty())
            .then(|| told.iter().filter(|inside| **inside).count() as f64 / told.len() as f64),
    }
}
