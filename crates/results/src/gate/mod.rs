//! Gates: limits of a change that a comparison is judged by, so that a program can go by the answer.
//!
//! A [`GateRule`] is written as `throughput<-5%`: the gate fails if the metric of the candidate is on that side of the limit, relative to the
//! baseline. [`judge`] compares both within blocks, as [`compare`](crate::compare()) does, and goes by the interval alone.

mod metric;
mod rule;

use nestor_statistics::{Limit, LimitVerdict, Ratio, confidence_of_each};
use nestor_workload::{Untimed, Workload};
use serde::Serialize;

use crate::WrittenWorkload;
use crate::compare::{ratio_by_block, violated};
use crate::store::StoredRun;

pub use metric::{GateMetric, LatencyFigure};
pub use rule::{GateRule, GateRuleError};

/// Pairs beyond which nobody is told to measure more.
const MOST_PAIRS: usize = 1_000;

/// What one rule says of a candidate.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GateAnswer {
    /// The rule.
    pub rule: GateRule,
    /// Candidate over baseline, with the interval that decided.
    pub ratio: Ratio,
    /// Of that interval, 0 to 1.
    pub confidence: f64,
    /// What follows.
    pub verdict: LimitVerdict,
    /// Of what is undecided: how many pairs would decide, if they vary as these did; `None` where that is not known, or over a thousand would
    /// be needed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pairs_needed: Option<usize>,
}

/// Why a rule cannot be applied to runs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GateError {
    /// No run of a side has the metric.
    #[error(
        "`{rule}` cannot be judged: no run of the {side} has this metric; what its runs have: {}",
        if .has.is_empty() { "no numbers".to_owned() } else { .has.join(", ") }
    )]
    NoMetric {
        /// The rule, as it is written.
        rule: String,
        /// Which one, in a word.
        side: &'static str,
        /// The metrics that its runs have.
        has: Vec<String>,
    },
    /// The workload does these operations, and its result has no latency of them.
    #[error("`{rule}` cannot be judged: the result of {workload} has no latency of {class}\n  add {option}")]
    Untimed {
        /// The rule, as it is written.
        rule: String,
        /// The workload.
        workload: WrittenWorkload,
        /// The class of operations.
        class: &'static str,
        /// What gives it one.
        option: &'static str,
    },
    /// A run of a side failed, or contradicts itself, so that an answer would be of the others.
    #[error("run {number} of the {side} does not count, so that the gate cannot say anything: {reason}")]
    RunDoesNotCount {
        /// The run's number in its results file.
        number: i64,
        /// Which one, in a word.
        side: &'static str,
        /// Why not.
        reason: String,
    },
}

/// Refuses, before anything is measured, rules about what no result of the workload will have.
///
/// # Errors
/// [`GateError::Untimed`].
pub fn check_rules(rules: &[GateRule], workload: &WrittenWorkload) -> Result<(), GateError> {
    let Some(Untimed { class, option }) = workload.value().and_then(Workload::untimed) else { return Ok(()) };
    let asks = |rule: &&GateRule| matches!(&rule.metric, GateMetric::Latency { class: Some(asked), .. } if asked == class);
    rules.iter().find(asks).map_or(Ok(()), |rule| {
        Err(GateError::Untimed { rule: rule.to_string(), workload: workload.clone(), class, option })
    })
}

/// Judges a candidate's runs by rules. `limits`: how many answers the gate gives in all, which share one error of 5 %.
///
/// # Errors
/// [`GateError`].
pub fn judge(
    rules: &[GateRule],
    baseline: &[&StoredRun],
    candidate: &[&StoredRun],
    limits: usize,
) -> Result<Vec<GateAnswer>, GateError> {
    for (runs, side) in [(baseline, "baseline"), (candidate, "candidate")] {
        require_all(runs, side)?;
    }
    let confidence = confidence_of_each(limits);
    rules.iter().map(|rule| answer(rule, baseline, candidate, confidence)).collect()
}

/// A stack that only sometimes works must not pass by the runs in which it did.
fn require_all(runs: &[&StoredRun], side: &'static str) -> Result<(), GateError> {
    let refused = |run: &&StoredRun| {
        let failed = run.record.failure().map(|failure| failure.message.clone());
        let reason = failed.or_else(|| violated(&run.record.marks))?;
        Some(GateError::RunDoesNotCount { number: run.number, side, reason })
    };
    runs.iter().find_map(refused).map_or(Ok(()), Err)
}

fn answer(
    rule: &GateRule,
    baseline: &[&StoredRun],
    candidate: &[&StoredRun],
    confidence: f64,
) -> Result<GateAnswer, GateError> {
    let values = |runs: &[&StoredRun], side| {
        let of_run = |run: &&StoredRun| Some((run.record.block, rule.metric.of(run.record.measured()?)?));
        let values: Vec<(u32, f64)> = runs.iter().filter_map(of_run).collect();
        if values.is_empty() { Err(no_metric(rule, runs, side)) } else { Ok(values) }
    };
    let (before, after) = (values(baseline, "baseline")?, values(candidate, "candidate")?);
    let ratio =
        ratio_by_block(&before, &after, confidence).ok_or_else(|| no_metric(rule, baseline, "baseline"))?;
    let limit = rule.limit();
    let verdict = limit.judge(&ratio);
    Ok(GateAnswer {
        rule: rule.clone(),
        ratio,
        confidence,
        verdict,
        pairs_needed: more_pairs(&limit, &ratio, verdict, confidence),
    })
}

fn more_pairs(limit: &Limit, ratio: &Ratio, verdict: LimitVerdict, confidence: f64) -> Option<usize> {
    (verdict == LimitVerdict::Undecided).then(|| limit.pairs_needed(ratio, confidence, MOST_PAIRS))?
}

fn no_metric(rule: &GateRule, runs: &[&StoredRun], side: &'static str) -> GateError {
    let measured = runs.iter().find_map(|run| run.record.measured());
    let has = measured.map(GateMetric::all_of).unwrap_or_default();
    let has = has.iter().map(ToString::to_string).collect();
    GateError::NoMetric { rule: rule.to_string(), side, has }
}

/// The answer of all: the worst.
pub fn worst<'a>(answers: impl IntoIterator<Item = &'a GateAnswer>) -> Option<LimitVerdict> {
    answers.into_iter().map(|answer| answer.verdict).max()
}

#[cfg(test)]
mod tests;
