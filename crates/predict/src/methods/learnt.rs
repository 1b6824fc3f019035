//! What stacks do to loads, learnt from every cell of the store.

use nestor_text::units::ByteUnit;

use super::{Predicted, measure_many};
use crate::evidence::{Evidence, Question};
use crate::learnt_model::{Expected, FEWEST_CELLS, Knowledge};
use crate::missing::Missing;
use crate::trust::Learner;

/// What twice or half of an amount, such as memory, may change where it was not measured: a guess on the safe side.
const OCTAVE: f64 = 0.1;

pub(super) fn predict(
    question: &Question,
    evidence: &Evidence,
    knowledge: &Knowledge,
) -> Result<Predicted, Missing> {
    let there = expected(question, evidence, knowledge)?;
    let known = evidence.cells.iter().filter(|cell| cell.load == question.load).count();
    let on_target = evidence.cells.iter().filter(|cell| cell.stack == question.to).count();
    let mut steps = vec![format!(
        "{} cells, {known} of them of this load, {on_target} on the target",
        evidence.cells.len()
    )];
    for (part, nearest, octaves) in &evidence.amounts_apart(&question.to) {
        steps.push(format!(
            "no stack with this {part} was measured: {}, {octaves:.1} doublings away, is used instead",
            ByteUnit::MiB.rounded(*nearest, 0)
        ));
    }
    let deviation = there.alone(Learner::Rates).map_or(f64::INFINITY, |guess| guess.deviation);
    Ok(Predicted {
        rate: there.rates.rate,
        deviation: deviation.hypot(of_amounts(question, evidence)),
        steps,
    })
}

/// The deviation that amounts which no measured stack has add.
pub(crate) fn of_amounts(question: &Question, evidence: &Evidence) -> f64 {
    let apart = evidence.amounts_apart(&question.to);
    OCTAVE * apart.iter().map(|(_, _, octaves)| octaves).sum::<f64>()
}

/// What the model of the store's cells says, or what it lacks.
pub(crate) fn expected(
    question: &Question,
    evidence: &Evidence,
    knowledge: &Knowledge,
) -> Result<Expected, Missing> {
    let new = evidence.never_measured(&question.to);
    if let Some((part, value)) = new.first() {
        let value = if value.is_empty() { "none" } else { value };
        return Err(Missing {
            what: format!("a stack with {part} {value} in the store: its effect is unknown"),
            command: Some(evidence.command("run", &format!("'{}' fio:rand-read", question.to))),
        });
    }
    knowledge.expected(evidence, &question.to, &question.load, &question.shape).ok_or_else(|| {
        let is_known = evidence.cells.iter().any(|cell| cell.load == question.load);
        let what = if is_known {
            format!("at least {FEWEST_CELLS} cells in the store")
        } else {
            format!("{} on a stack whose layers are known (--from)", question.load)
        };
        Missing { what, command: is_known.then(|| measure_many(evidence)) }
    })
}
