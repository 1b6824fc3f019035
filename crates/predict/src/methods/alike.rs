//! The rate on the stack most like the target: what is better than nothing, and where layers change little better than much else.

use super::Predicted;
use super::learnt;
use crate::evidence::{Evidence, Question};
use crate::learnt_model::Knowledge;
use crate::missing::Missing;
use crate::trust::{Learner, Trust};

pub(super) fn predict(
    question: &Question,
    evidence: &Evidence,
    knowledge: &Knowledge,
) -> Result<Predicted, Missing> {
    // Where nothing was learnt, nobody knows how far off it is.
    let trust = learnt::expected(question, evidence, knowledge)?.trust;
    let lacks = || Missing { what: format!("{} on any other stack", question.load), command: None };
    let stack = evidence.most_alike(&question.load, &question.to).ok_or_else(lacks)?;
    let cell = evidence.cell(stack, &question.load).ok_or_else(lacks)?;
    let guess = trust.alone(Learner::Alike, Trust::of_alike(cell.rate).ok_or_else(lacks)?);
    Ok(Predicted {
        rate: cell.rate,
        deviation: guess.deviation,
        steps: vec![format!("as on {stack}, which has most parts in common with the target")],
    })
}
