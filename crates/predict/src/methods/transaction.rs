//! The transaction model (ESX study, §5): a worker computes, enters the system, waits for the disk; on the target computing takes
//! longer by what virtualisation costs, and the rest is what a model of the load takes there.

use nestor_statistics::prediction::{Rounding, Transaction, capacity};

use super::Predicted;
use crate::evidence::{Evidence, Question};
use crate::learnt_model::Knowledge;
use crate::missing::Missing;

/// Two runs of a model with 800 requests a second differ by so much.
const USUAL_DEVIATION: f64 = 0.03;

pub(super) fn predict(question: &Question, evidence: &Evidence, _: &Knowledge) -> Result<Predicted, Missing> {
    let model = question.model.as_ref().ok_or_else(|| Missing {
        what: "a model of the load: a profile of workers that think".to_owned(),
        command: Some("nestor characterize --for 60s --output PROFILE.toml".to_owned()),
    })?;
    let there = evidence.cell(&question.to, model).ok_or_else(|| Missing {
        what: format!("the load's model on {}", question.to),
        command: Some(evidence.command("run", &format!("'{}' '{model}'", question.to))),
    })?;
    let shape = &question.shape;
    if question.model_workers < shape.customers() {
        return Err(Missing {
            what: format!(
                "a model with {} workers; it has at most {}",
                shape.customers(),
                question.model_workers
            ),
            command: None,
        });
    }
    let no_times = || Missing { what: "times of the model's requests".to_owned(), command: None };
    let workers = f64::from(shape.customers());
    let compute_ms = shape.think_s * 1e3;
    let transaction = |rate: f64, response_s: f64| {
        Transaction::of_measured(workers, rate, compute_ms, response_s * 1e3, Rounding::Exact)
    };
    let reference =
        transaction(question.reference.requests_per_s, question.reference.response_s).ok_or_else(no_times)?;
    let target =
        transaction(there.operations_per_s, there.response_s.ok_or_else(no_times)?).ok_or_else(no_times)?;
    let machine = question.machine;
    let (before_ms, after_ms) = (reference.total_ms(), target.on(machine, Rounding::Exact));
    Ok(Predicted {
        rate: capacity(question.reference.rate, before_ms, after_ms, Rounding::Exact),
        deviation: USUAL_DEVIATION,
        steps: vec![
            format!(
                "a transaction takes {before_ms:.2} ms on {}: computing {:.2}, system {:.2}, disk {:.2}",
                question.from, reference.compute_ms, reference.system_ms, reference.disk_ms
            ),
            format!(
                "the model on {}: system {:.2}, disk {:.2}; computing x {:.3}: {after_ms:.2} ms",
                question.to,
                target.system_ms,
                target.disk_ms,
                (1.0 + machine.overhead_share) * machine.compute_scale
            ),
        ],
    })
}
