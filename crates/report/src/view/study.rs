//! A whole study: `nestor study` and `nestor report`.

use std::collections::HashSet;

use nestor_model::Ratio;
use nestor_study::{
    CellKey, Comparison, CountedMark, Drift, NotRun, StoredRun, Study, StudyRecord, compare, duration_words,
};
use serde::Serialize;

use super::matrix::{Matrix, matrices};
use super::{RunView, honesty, workload_words};
use crate::units;

/// A kind of mark with its explanation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KnownMark {
    /// One word.
    pub name: &'static str,
    /// One letter.
    pub letter: char,
    /// What it means.
    pub meaning: &'static str,
}

/// One stack under one workload within a study.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CellReport {
    /// The stack.
    pub stack: String,
    /// The workload.
    pub workload: String,
    /// Whether others are compared with it.
    pub is_baseline: bool,
    /// Its numbers; `None` if it has not run.
    pub run: Option<RunView>,
    /// Against its baseline; `None` for a baseline and without runs of either.
    pub comparison: Option<Comparison>,
    /// Its replications that have not run, and why.
    pub not_run: Vec<NotRun>,
}

/// Everything that is said of a study.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StudyReport {
    /// Short name.
    pub name: String,
    /// One line for people.
    pub title: String,
    /// The answer in sentences.
    pub answer: Vec<String>,
    /// Where it ran and what that means for the numbers.
    pub honesty: Vec<String>,
    /// Marks that every measured cell has.
    pub common_marks: Vec<KnownMark>,
    /// Marks that only some cells have.
    pub other_marks: Vec<KnownMark>,
    /// How it was done: order, replications, seed, budget, drift.
    pub method: Vec<String>,
    /// Each stack against its baseline.
    pub matrices: Vec<Matrix>,
    /// The cells: per workload, in the study's order.
    pub cells: Vec<CellReport>,
    /// When the first run began: RFC 3339, UTC.
    pub first_started_at: Option<String>,
    /// The study as it was started.
    pub study: StudyRecord,
    /// Each workload with its parameters in words.
    pub workloads: Vec<(String, String)>,
}

impl StudyReport {
    /// Makes the report of a study from its runs (those of its hash, the latest of each cell).
    pub fn of(record: &StudyRecord, runs: &[StoredRun]) -> Self {
        let study = &record.study;
        let not_run = not_run(record, runs);
        let mut cells = Vec::new();
        for workload in &study.workloads {
            for stack in &study.stacks {
                cells.push(cell(study, stack, workload, runs, &not_run));
            }
        }
        let (common_marks, other_marks) = marks(&cells);
        let all: Vec<&StoredRun> = runs.iter().collect();
        Self {
            name: study.name.clone(),
            title: study.title.clone(),
            answer: answer(&cells),
            honesty: honesty(&all),
            method: method(record, &cells, runs, not_run.len()),
            matrices: matrices(study, &cells, &common_marks),
            common_marks,
            other_marks,
            first_started_at: runs.iter().map(|r| r.record.started_at.clone()).min(),
            study: record.clone(),
            workloads: study.workloads.iter().map(|w| (w.clone(), workload_words(w))).collect(),
            cells,
        }
    }

    /// The doubts of a comparison that are not those of every cell.
    pub fn particular_doubts<'a>(&self, comparison: &'a Comparison) -> Vec<&'a String> {
        let common =
            |doubt: &String| self.common_marks.iter().any(|m| doubt.contains(&format!(": {} in ", m.name)));
        comparison.doubts.iter().filter(|d| !common(d)).collect()
    }

    /// How many replications have not run, by reason.
    pub fn not_run_by_reason(&self) -> Vec<(String, usize)> {
        let mut reasons: Vec<(String, usize)> = Vec::new();
        for not_run in self.cells.iter().flat_map(|c| &c.not_run) {
            match reasons.iter_mut().find(|(reason, _)| *reason == not_run.reason) {
                Some((_, count)) => *count += 1,
                None => reasons.push((not_run.reason.clone(), 1)),
            }
        }
        reasons
    }
}

impl CellReport {
    /// The messages of failed runs, each once, with the numbers of the runs that ended with it.
    pub fn failures_by_reason(&self) -> Vec<(String, Vec<i64>)> {
        let mut reasons: Vec<(String, Vec<i64>)> = Vec::new();
        for failure in self.run.iter().flat_map(|r| &r.summary.failures) {
            match reasons.iter_mut().find(|(reason, _)| *reason == failure.reason) {
                Some((_, runs)) => runs.push(failure.run),
                None => reasons.push((failure.reason.clone(), vec![failure.run])),
            }
        }
        reasons
    }
}

fn not_run(record: &StudyRecord, runs: &[StoredRun]) -> Vec<NotRun> {
    let study = Study { sentinels: Some(record.sentinels), ..record.study.clone() };
    let done: HashSet<CellKey> = runs
        .iter()
        .map(|r| CellKey {
            stack: r.record.stack.clone(),
            workload: r.record.workload.clone(),
            block: r.record.block,
            repeat: r.record.repeat,
            untraced_twin: r.record.untraced_twin,
        })
        .collect();
    study.plan(None).not_run(&done, record.ended_early.as_deref().unwrap_or("not reached yet"))
}

fn cell(study: &Study, stack: &str, workload: &str, runs: &[StoredRun], not_run: &[NotRun]) -> CellReport {
    let of = |stack: &str| -> Vec<&StoredRun> {
        runs.iter().filter(|r| r.record.stack == stack && r.record.workload == workload).collect()
    };
    let is_baseline = study.is_baseline(stack);
    CellReport {
        stack: stack.to_owned(),
        workload: workload.to_owned(),
        is_baseline,
        run: RunView::of(&of(stack)),
        comparison: if is_baseline { None } else { compare(&of(study.baseline_of(stack)), &of(stack)) },
        not_run: not_run
            .iter()
            .filter(|n| n.key.stack == stack && n.key.workload == workload)
            .cloned()
            .collect(),
    }
}

/// Marks that all measured cells have, and those that only some have.
fn marks(cells: &[CellReport]) -> (Vec<KnownMark>, Vec<KnownMark>) {
    let measured: Vec<&Vec<CountedMark>> = cells
        .iter()
        .filter_map(|c| c.run.as_ref())
        .filter(|r| r.summary.bytes_per_second.is_some())
        .map(|r| &r.summary.marks)
        .collect();
    let mut common = Vec::new();
    let mut other: Vec<KnownMark> = Vec::new();
    for mark in measured.iter().flat_map(|marks| marks.iter()).map(|m| &m.mark) {
        let known = KnownMark { name: mark.name(), letter: mark.letter(), meaning: mark.meaning() };
        let everywhere = measured.iter().all(|marks| marks.iter().any(|m| m.mark.name() == mark.name()));
        let list = if everywhere { &mut common } else { &mut other };
        if !list.contains(&known) {
            list.push(known);
        }
    }
    (common, other)
}

/// A cell with its ratio.
type Compared<'a> = (&'a CellReport, Ratio);

fn answer(cells: &[CellReport]) -> Vec<String> {
    let compared: Vec<Compared<'_>> =
        cells.iter().filter_map(|c| Some((c, c.comparison.as_ref()?.ratio?))).collect();
    if compared.is_empty() {
        return vec![
            "Nothing can be compared yet: no cell has both its own numbers and its baseline's.".to_owned(),
        ];
    }
    let told = |slower: bool| {
        let differs = compared.iter().filter(|(_, r)| r.differs() == Some(true) && (r.value < 1.0) == slower);
        differs.count()
    };
    let without_interval = compared.iter().filter(|(_, r)| r.interval.is_none()).count();
    let (slower, faster) = (told(true), told(false));
    let open = compared.len() - slower - faster - without_interval;
    let mut parts = Vec::new();
    for (number, words) in [
        (slower, "slower than the baseline"),
        (faster, "faster"),
        (open, "not told apart from it"),
        (without_interval, "measured once, so without an interval"),
    ] {
        if number > 0 {
            parts.push(format!(
                "{number} {}",
                if parts.is_empty() && words == "faster" { "faster than the baseline" } else { words }
            ));
        }
    }
    let mut sentences =
        vec![format!("Of {}: {}.", units::plural(compared.len(), "comparison"), parts.join(", "))];
    // What is told apart comes first; an estimate that is not must say so.
    let told_apart: Vec<_> = compared.iter().filter(|(_, r)| r.differs() == Some(true)).collect();
    let candidates = if told_apart.is_empty() { compared.iter().collect() } else { told_apart };
    let by_ratio = |a: &&&Compared<'_>, b: &&&Compared<'_>| a.1.value.total_cmp(&b.1.value);
    if let Some(worst) = candidates.iter().min_by(by_ratio).filter(|(_, r)| r.value < 1.0) {
        sentences.push(extreme("Slowest", worst));
    }
    if let Some(best) = candidates.iter().max_by(by_ratio).filter(|(_, r)| r.value > 1.0) {
        sentences.push(extreme("Fastest", best));
    }
    sentences
}

fn extreme(word: &str, (cell, ratio): &Compared<'_>) -> String {
    let interval = units::change_interval(ratio).unwrap_or_else(|| "(one pair: no interval)".to_owned());
    let told = if ratio.differs() == Some(false) { ", not told apart from it" } else { "" };
    let doubted = cell.comparison.as_ref().is_some_and(|c| !c.doubts.is_empty());
    let doubt = if doubted { ", doubtful: see its marks" } else { "" };
    format!(
        "{word}: {} under {}, {} {interval}{told}{doubt}.",
        cell.stack,
        cell.workload,
        units::change(ratio)
    )
}

fn method(record: &StudyRecord, cells: &[CellReport], runs: &[StoredRun], not_run: usize) -> Vec<String> {
    let study = &record.study;
    let measured = runs.iter().filter(|r| r.record.measured().is_some()).count();
    let failed = runs.len() - measured;
    let blocks = units::plural(study.replications as usize, "block");
    let mut lines = vec![format!(
        "{measured} fresh stacks measured, {failed} failed, {not_run} not run; {blocks}, each with every cell in random order (seed {})",
        study.seed
    )];
    let ended = record.ended_early.as_ref().map(|reason| format!("; {reason}")).unwrap_or_default();
    if let Some(budget) = study.budget {
        lines.push(format!("time allowed {}{ended}", duration_words(budget)));
    } else if !ended.is_empty() {
        lines.push(ended.trim_start_matches("; ").to_owned());
    }
    lines.push(drift_words(cells, record.sentinels));
    lines
}

fn drift_words(cells: &[CellReport], sentinels: bool) -> String {
    let drifts = || cells.iter().filter_map(|c| c.comparison.as_ref()).map(|c| &c.drift);
    let seen = drifts().filter(|d| matches!(d, Drift::Seen { .. })).count();
    let tested = drifts().filter(|d| !matches!(d, Drift::NotTested)).count();
    match (tested, seen) {
        (0, _) if sentinels => "drift not tested: no block has its baseline at both ends yet".to_owned(),
        (0, _) => "drift not tested: the baseline ran once in each block".to_owned(),
        (_, 0) => "no drift of the baseline from the start to the end of the blocks".to_owned(),
        (tested, seen) => format!("the baseline drifted in {seen} of {tested} comparisons"),
    }
}
