//! The time of an operation from what it asks of each layer: the processor's work, the disk's time and its flushes, as workers wait for
//! them; and what the Gaussian process learnt of the rest.

use super::{Predicted, learnt, measure_many};
use crate::evidence::{Evidence, Question};
use crate::learnt_model::Knowledge;
use crate::mechanism::Mechanical;
use crate::missing::Missing;
use crate::trust::Learner;

pub(super) fn predict(
    question: &Question,
    evidence: &Evidence,
    knowledge: &Knowledge,
) -> Result<Predicted, Missing> {
    let expected = learnt::expected(question, evidence, knowledge)?;
    let lacks = || {
        let is_known = evidence.cells.iter().any(|cell| cell.load == question.load && cell.demand.is_some());
        let traced = || {
            evidence.command("run", &format!("'{}' '{}' --trace layers -n 1", question.from, question.load))
        };
        Missing {
            what: "runs in virtual time with recorded layers, of which instructions and the disk's time are known"
                .to_owned(),
            command: Some(if is_known { measure_many(evidence) } else { traced() }),
        }
    };
    let found = expected.mechanisms.as_ref().ok_or_else(lacks)?;
    let guess = expected.alone(Learner::Mechanisms).ok_or_else(lacks)?;
    Ok(Predicted {
        rate: guess.log.exp(),
        deviation: guess.deviation.hypot(learnt::of_amounts(question, evidence)),
        steps: steps(found),
    })
}

fn steps(found: &Mechanical) -> Vec<String> {
    let (demand, time) = (&found.demand, &found.time);
    let ms = |seconds: f64| seconds * 1e3;
    vec![
        format!(
            "an operation takes {:.4} ms of the processor and {:.4} ms of the disk ({:.2} requests, {:.4} ms; {:.2} flushes, \
             {:.4} ms)",
            ms(demand.processor_s()),
            ms(demand.disk_s()),
            demand.disk_requests,
            ms(demand.data_s),
            demand.disk_flushes,
            ms(demand.flush_s)
        ),
        format!(
            "as the workers wait for both, {:.4} ms: one per cent more of the processor's time makes it {:.2} % longer, one of the \
             disk's {:.2} %",
            ms(time.seconds),
            time.by_processor,
            time.by_disk
        ),
    ]
}
