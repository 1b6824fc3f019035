//! Colour of the matrix: blue is faster, orange is slower, grey is alike; the pair that most colour-blind
//! people tell apart; its strength is the size of the change, and hatching says that the change is not told apart from none.
//! The value is printed in every cell, so colour only guides the eye.

use nestor_statistics::Ratio;
use serde::Serialize;

use super::typeset;
use crate::units;
use crate::view::{CellKind, Matrix, MatrixCell, StudyReport};

/// A change by this factor, up or down, has the full colour.
const FULL_COLOUR: f64 = 2.0;
/// Share of colour in a cell of full colour; more would drown the text.
const STRONGEST: f64 = 0.82;
/// Ends of the interval strip: a quarter to four times.
const STRIP_FACTOR: f64 = 4.0;

/// Which way a ratio points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Slower,
    Faster,
    Alike,
}

/// A cell as the page shows it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct HeatCell {
    /// `baseline`, `slower`, `faster`, `alike`, `failed`, `not-run` or `absent`.
    pub class: &'static str,
    /// Whether its ratio is not told apart from "no difference": it is hatched.
    pub is_unsure: bool,
    /// Which way its ratio points, if it has one.
    #[serde(skip)]
    pub direction: Option<Direction>,
    /// Whether the study has no such cell.
    pub is_absent: bool,
    /// Share of colour in per cent.
    pub mix: u32,
    /// What stands in the cell.
    pub value: String,
    /// The interval beneath it, or why there is none.
    pub interval: String,
    /// The interval as a line: left end, right end and estimate, in per cent of the width.
    pub strip: Option<[f64; 3]>,
    /// Letters of marks.
    pub letters: String,
    /// What is shown on hover.
    pub tip: Vec<String>,
    /// The cell's place on the page.
    pub anchor: Option<String>,
}

/// A matrix as the page shows it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct HeatMap {
    pub title: String,
    pub rows_are: &'static str,
    pub columns: Vec<String>,
    pub rows: Vec<HeatRow>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct HeatRow {
    pub name: String,
    pub cells: Vec<HeatCell>,
}

pub(super) fn heat_maps(report: &StudyReport) -> Vec<HeatMap> {
    report.matrices.iter().map(|matrix| heat_map(report, matrix)).collect()
}

fn heat_map(report: &StudyReport, matrix: &Matrix) -> HeatMap {
    let row = |(name, cells): (&String, &Vec<MatrixCell>)| HeatRow {
        name: name.clone(),
        cells: cells.iter().map(|c| heat_cell(report, c)).collect(),
    };
    HeatMap {
        title: matrix.title.clone(),
        rows_are: matrix.rows_are,
        columns: matrix.columns.clone(),
        rows: matrix.rows.iter().zip(&matrix.cells).map(row).collect(),
    }
}

pub(super) fn heat_cell(report: &StudyReport, cell: &MatrixCell) -> HeatCell {
    let mean_interval =
        || cell.throughput.and_then(|m| m.interval).map(|i| units::rate_interval(i, cell.unit));
    let (class, value, interval) = match (cell.kind, &cell.ratio, &cell.throughput) {
        (CellKind::Compared, Some(ratio), _) => {
            let interval = units::change_interval(ratio).unwrap_or_else(|| "1 pair".to_owned());
            (direction(ratio), units::change(ratio), interval)
        }
        (CellKind::Baseline | CellKind::Alone, _, Some(mean)) => (
            "baseline",
            cell.unit.words(mean.value),
            mean_interval().unwrap_or_else(|| units::plural(mean.samples, "run")),
        ),
        (CellKind::Failed, ..) => ("failed", cell.without_number().to_owned(), String::new()),
        (CellKind::WithoutOperations, ..) => ("baseline", cell.life_words(), String::new()),
        (CellKind::Absent, ..) => ("absent", String::new(), String::new()),
        _ => ("not-run", "not run".to_owned(), String::new()),
    };
    let ratio = cell.ratio.filter(|_| cell.kind == CellKind::Compared);
    HeatCell {
        class,
        direction: ratio.as_ref().map(Direction::of),
        is_unsure: ratio.is_some_and(|r| r.differs() != Some(true)),
        is_absent: cell.kind == CellKind::Absent,
        mix: ratio.map_or(0, |r| (mix(&r) * 100.0).round() as u32),
        value: typeset(&value),
        interval: typeset(&interval),
        strip: ratio.and_then(|r| strip(&r)),
        letters: cell.letters.clone(),
        tip: tip(report, cell),
        anchor: cell.cell.filter(|_| cell.kind != CellKind::NotRun).map(|i| format!("cell-{i}")),
    }
}

impl Direction {
    fn of(ratio: &Ratio) -> Self {
        match ratio.value {
            r if r < 0.995 => Self::Slower,
            r if r > 1.005 => Self::Faster,
            _ => Self::Alike,
        }
    }
}

/// Which way a ratio points, as a class of the style sheet.
pub(super) fn direction(ratio: &Ratio) -> &'static str {
    match Direction::of(ratio) {
        Direction::Slower => "slower",
        Direction::Faster => "faster",
        Direction::Alike => "alike",
    }
}

/// Share of colour, 0 to [`STRONGEST`].
pub(super) fn mix(ratio: &Ratio) -> f64 {
    let strength = (ratio.value.ln().abs() / FULL_COLOUR.ln()).min(1.0);
    // The square root keeps small changes visible.
    strength.sqrt() * STRONGEST
}

fn strip(ratio: &Ratio) -> Option<[f64; 3]> {
    let place = |r: f64| ((r.ln() / STRIP_FACTOR.ln()).clamp(-1.0, 1.0) + 1.0) * 50.0;
    ratio.interval.map(|i| [place(i.low), place(i.high), place(ratio.value)])
}

fn tip(report: &StudyReport, cell: &MatrixCell) -> Vec<String> {
    if cell.kind == CellKind::Absent {
        return Vec::new();
    }
    let mut lines = vec![cell.stack.to_string(), cell.workload.to_string()];
    if let Some(mean) = &cell.throughput {
        let interval = mean.interval.map(|i| format!(" {}", units::rate_interval(i, cell.unit)));
        let (rate, interval) = (cell.unit.words(mean.value), interval.unwrap_or_default());
        lines.push(format!("{rate}{interval}, {}", units::fresh_stacks(mean.samples)));
    }
    if let (Some(ratio), CellKind::Compared) = (&cell.ratio, cell.kind) {
        let told = match ratio.differs() {
            Some(true) => "differs from the baseline",
            Some(false) => "not told apart from the baseline",
            None => "one pair: no interval",
        };
        lines.push(format!(
            "{} {}: {told}",
            units::change(ratio),
            units::change_interval(ratio).unwrap_or_default()
        ));
    }
    let report_cell = cell.cell.and_then(|i| report.cells.get(i));
    if let Some(comparison) = report_cell.and_then(|c| c.comparison.as_ref()) {
        lines.extend(report.particular_doubts(comparison).into_iter().map(str::to_owned));
    }
    for (reason, runs) in report_cell.map(|c| c.failures_by_reason()).unwrap_or_default() {
        lines.push(format!(
            "{} failed: {}",
            units::plural(runs.len(), "run"),
            reason.lines().next().unwrap_or_default()
        ));
    }
    let violations = report_cell.and_then(|c| c.run.as_ref()).map(|r| r.summary.violations.as_slice());
    for violation in violations.unwrap_or_default().iter().take(3) {
        lines.push(format!("run {} is left out: {}", violation.run, violation.identity));
    }
    if let Some(missing) = report_cell.and_then(|c| c.not_run.first()) {
        let count = report_cell.map_or(0, |c| c.not_run.len());
        lines.push(format!("{} not run: {}", units::plural(count, "replication"), missing.reason));
    }
    lines
}
