//! A whole study: `nestor study` and `nestor report`.

mod answer;
mod build;
mod from_store;
mod method;
mod table;
mod times;
mod why;

use nestor_results::claims::{Answers, Finding};
use nestor_results::{
    ClaimResult, Comparison, Figure, LivesCompared, NotRun, StudyRecord, WrittenStack, WrittenWorkload,
};
use nestor_statistics::sequential::Decision;
use serde::Serialize;

use super::RunView;
use super::matrix::Matrix;

pub(crate) use method::decision_words;
pub use why::LayersWhy;

/// A kind of mark with its explanation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KnownMark {
    /// One word.
    pub name: &'static str,
    /// Whether it says that the processor was emulated, which is said of the whole study elsewhere.
    #[serde(skip)]
    pub is_emulation: bool,
    /// One letter.
    pub letter: char,
    /// What it means.
    pub meaning: &'static str,
}

/// One stack under one workload within a study.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CellReport {
    /// The stack.
    pub stack: WrittenStack,
    /// The workload.
    pub workload: WrittenWorkload,
    /// Whether others are compared with it.
    pub is_baseline: bool,
    /// Whether it is compared with nothing, because its part of the study is apart.
    pub is_apart: bool,
    /// Its numbers; `None` if it has not run.
    pub run: Option<RunView>,
    /// Why it is as fast as it is, by the numbers of its layers: where requests were not joined, which explains more.
    pub by_layers: Option<LayersWhy>,
    /// Against its baseline; `None` for a baseline, for what is compared with nothing, and without runs of either.
    pub comparison: Option<Comparison>,
    /// What instances of a cloud took, beside its baseline; `None` unless both have lives, and where there is no comparison.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lives: Option<LivesCompared>,
    /// Its replications that have not run, and why.
    pub not_run: Vec<NotRun>,
}

/// What the study's rule decided of a comparison.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StoppedComparison {
    /// The stack that is compared with its baseline.
    pub stack: WrittenStack,
    /// The workload.
    pub workload: WrittenWorkload,
    /// Whether another block is needed.
    pub decision: Decision,
}

/// How many runs there are, and the time they took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct StudyTimes {
    /// Runs with numbers.
    pub measured_runs: usize,
    /// Runs without.
    pub failed_runs: usize,
    /// Seconds that all cells took, from building the stack to taking it down.
    pub cells_s: f64,
    /// Seconds of that in which loads ran.
    pub load_s: f64,
}

/// Whether the numbers of a study are physically possible.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StudyPhysical {
    /// `yes in 12 of 16 cells, no in 3, cannot tell in 1`.
    pub answer: String,
    /// What speaks against cells, of the first few.
    pub against: Vec<String>,
    /// Cells whose numbers are not the storage's.
    pub no: usize,
}

/// Everything that is said of a study.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StudyReport {
    /// Short name.
    pub name: String,
    /// One line for people.
    pub title: String,
    /// Which of the sizes that the study offers, if it offers any.
    pub scale: Option<String>,
    /// Whether the numbers are physically possible, which is said before them; `None` without numbers.
    pub physical: Option<StudyPhysical>,
    /// The answer in sentences.
    pub answer: Vec<String>,
    /// Where it ran and what that means for the numbers.
    pub honesty: Vec<String>,
    /// Marks that every measured cell has.
    pub common_marks: Vec<KnownMark>,
    /// Marks that only some cells have.
    pub other_marks: Vec<KnownMark>,
    /// How it was done: order, replications, seed, budget, stopping, time, drift.
    pub method: Vec<String>,
    /// Each stack against its baseline.
    pub matrices: Vec<Matrix>,
    /// What became of the study's claims.
    pub claims: Vec<ClaimResult>,
    /// What the study draws of its results.
    pub figures: Vec<Figure>,
    /// What the study found, in sentences.
    pub findings: Vec<Finding>,
    /// What the stopping rule decided of each comparison; empty without a rule.
    pub stopping: Vec<StoppedComparison>,
    /// Runs and the time they took.
    pub times: StudyTimes,
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
    /// The confidence of the intervals of changes, in words: `95 %`, or `99 %` of a study that stops early at five looks.
    pub fn confidence(&self) -> String {
        let percent = format!("{:.2}", self.study.study.confidence() * 100.0);
        format!("{} %", percent.trim_end_matches('0').trim_end_matches('.'))
    }

    /// The doubts of a comparison that are not those of every cell.
    pub fn particular_doubts<'a>(&self, comparison: &'a Comparison) -> Vec<&'a str> {
        let common: Vec<&str> = self.common_marks.iter().map(|mark| mark.name).collect();
        comparison.doubts_except_of(&common)
    }

    /// Adds what was asked of the results.
    #[must_use]
    pub fn with(mut self, answers: Answers) -> Self {
        self.claims = answers.claims;
        self.figures = answers.figures;
        self.findings = answers.findings;
        self
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
        let is_shown = |stack: &WrittenStack, workload: &WrittenWorkload| {
            self.cells.iter().any(|c| c.stack == *stack && c.workload == *workload)
        };
        for part in &self.study.study.parts {
            let Some(reason) = &part.left_out else { continue };
            let cells = part.cells().filter(|(stack, workload)| !is_shown(stack, workload)).count();
            reasons.push((reason.clone(), cells * part.replications as usize));
        }
        reasons
    }

    /// What the rule decided of a comparison.
    pub fn decision(&self, stack: &str, workload: &str) -> Option<&Decision> {
        self.stopping.iter().find(|s| s.stack == stack && s.workload == workload).map(|s| &s.decision)
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
