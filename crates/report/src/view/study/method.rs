//! How a study was done, in a few lines.

use nestor_results::{Drift, StudyRecord, duration_words};
use nestor_statistics::sequential::{Decision, StopRule};

use super::times::time_words;
use super::{CellReport, StoppedComparison, StudyTimes};
use crate::units;

/// Order, scale, time, stopping and drift.
pub(super) fn method(
    record: &StudyRecord,
    cells: &[CellReport],
    stopping: &[StoppedComparison],
    times: &StudyTimes,
) -> Vec<String> {
    let study = &record.study;
    let not_run: usize = cells.iter().map(|c| c.not_run.len()).sum();
    let blocks = units::plural(study.most_blocks() as usize, "block");
    let at_most = if study.stop.is_some() { "at most " } else { "" };
    let mut lines = vec![format!(
        "{} fresh stacks measured, {} failed, {not_run} not run; {at_most}{blocks}, each with every cell in random \
         order (seed {})",
        times.measured_runs, times.failed_runs, study.seed
    )];
    if let Some(scale) = &study.scale {
        lines.push(format!("scale {scale}: the sizes that the study declares under this name"));
    }
    lines.extend(study.stop.as_ref().map(|rule| stopping_words(rule, study.confidence(), stopping)));
    lines.extend(ended(record));
    lines.extend(time_words(times, &record.sessions));
    lines.push(drift_words(cells, record.sentinels));
    lines
}

fn ended(record: &StudyRecord) -> Option<String> {
    let ended = record.ended_early.as_ref();
    match (record.study.budget, ended) {
        (Some(budget), Some(reason)) => Some(format!("time allowed {}; {reason}", duration_words(budget))),
        (Some(budget), None) => Some(format!("time allowed {}", duration_words(budget))),
        (None, reason) => reason.cloned(),
    }
}

fn stopping_words(rule: &StopRule, confidence: f64, stopping: &[StoppedComparison]) -> String {
    let count = |kind: fn(&Decision) -> bool| stopping.iter().filter(|s| kind(&s.decision)).count();
    let counts = [
        (count(|d| matches!(d, Decision::Precise { .. })), "precise"),
        (count(|d| matches!(d, Decision::SignSettled { .. })), "with a settled sign"),
        (count(|d| matches!(d, Decision::Exhausted { .. })), "open after the last look"),
        (count(|d| matches!(d, Decision::Continue { .. })), "not decided yet"),
    ];
    let counts = counts.iter().filter(|(n, _)| *n > 0).map(|(n, words)| format!("{n} {words}"));
    format!(
        "a comparison ends when it is known to ±{}, or when it is faster or slower by over {}; intervals are of \
         {:.2} %, so that all looks together are wrong in at most {}; looks at {} pairs: {}",
        units::percent(rule.half_width),
        units::percent(rule.threshold),
        confidence * 100.0,
        units::percent(1.0 - rule.confidence),
        units::listed(&rule.looks),
        units::listed(counts)
    )
}

/// What a decision says, for tables: `precise after 5 pairs`.
pub(crate) fn decision_words(decision: &Decision) -> String {
    let pairs = |ratio: &nestor_statistics::Ratio| units::plural(ratio.pairs, "pair");
    match decision {
        Decision::Continue { next_look } => format!("not decided, next look at {next_look} pairs"),
        Decision::Precise { ratio } => format!("precise after {}", pairs(ratio)),
        Decision::SignSettled { ratio } => format!("sign settled after {}", pairs(ratio)),
        Decision::Exhausted { ratio: Some(ratio) } => format!("open after the last look, {}", pairs(ratio)),
        Decision::Exhausted { ratio: None } => "open after the last look, no pairs".to_owned(),
    }
}

fn drift_words(cells: &[CellReport], sentinels: bool) -> String {
    let drifts = || cells.iter().filter_map(|c| c.comparison.as_ref()).map(|c| &c.drift);
    let seen = drifts().filter(|d| d.is_seen()).count();
    let tested = drifts().filter(|d| !matches!(d, Drift::NotTested)).count();
    let impossible = drifts().filter(|d| matches!(d, Drift::Impossible)).count();
    match (tested, seen) {
        (tested, 0) if tested > 0 && tested == impossible => {
            "no drift in virtual time: no run depends on earlier runs".to_owned()
        }
        (0, _) if sentinels => "drift not tested: no block has its baseline at both ends yet".to_owned(),
        (0, _) => "drift not tested: the baseline ran once in each block".to_owned(),
        (_, 0) => "no drift of the baseline from the start to the end of the blocks".to_owned(),
        (tested, seen) => format!("the baseline drifted in {seen} of {tested} comparisons"),
    }
}
