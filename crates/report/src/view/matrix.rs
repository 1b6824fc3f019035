//! The matrix of a study: each stack against its baseline, at a glance.

use std::collections::BTreeSet;

use nestor_results::{Study, WrittenStack, WrittenWorkload};
use nestor_statistics::{Mean, Ratio};
use nestor_workload::RateUnit;
use serde::Serialize;

use super::study::{CellReport, KnownMark};
use crate::labels::{
    Guest, ShortName, StackParts, UsualLayers, host_names, parts_of, without_common_machine,
    without_common_options,
};
use crate::units::{change, change_interval, listed, seconds_of};

/// What stands where a cell was measured without a load.
pub const WITHOUT_OPERATIONS: &str = "no operations";

/// What a cell of the matrix is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CellKind {
    /// What others are compared with.
    Baseline,
    /// Compared with its baseline.
    Compared,
    /// Measured, but its baseline has no numbers.
    Alone,
    /// It ran and has no numbers, or none that count.
    Failed,
    /// Measured without a load: instances lived, and there is no throughput.
    WithoutOperations,
    /// It has not run.
    NotRun,
    /// The study does not contain it.
    Absent,
}

/// One cell.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MatrixCell {
    /// What it is.
    pub kind: CellKind,
    /// The stack; empty for [`CellKind::Absent`].
    pub stack: WrittenStack,
    /// The workload.
    pub workload: WrittenWorkload,
    /// Throughput.
    pub throughput: Option<Mean>,
    /// What the throughput is in: operations per second, where no data is moved.
    pub unit: RateUnit,
    /// Over the baseline.
    pub ratio: Option<Ratio>,
    /// The whole life of its instances in seconds, where no load ran.
    pub life_s: Option<Mean>,
    /// The whole life over that on the baseline, where no load ran: above 1 it is longer.
    pub life_ratio: Option<Ratio>,
    /// Letters of the marks that not all cells have.
    pub letters: String,
    /// How many fresh stacks failed beside those that did not.
    pub failures: usize,
    /// How many have numbers that violate an identity, and so are left out.
    pub violations: usize,
    /// Whether the baseline drifted.
    pub drifted: bool,
    /// Place in [`StudyReport::cells`](super::StudyReport::cells), where there is one.
    pub cell: Option<usize>,
}

impl MatrixCell {
    /// What stands where no load ran: the change of the whole life, or that itself: `life -20.2 % [-20.4, -20.0]`, `life 11.9 ± 0.1 s`.
    pub fn life_words(&self) -> String {
        match (&self.life_ratio, &self.life_s) {
            (Some(ratio), _) => {
                let interval = change_interval(ratio).unwrap_or_else(|| "(1)".to_owned());
                format!("life {} {interval}", change(ratio))
            }
            (None, Some(mean)) => format!("life {} s", seconds_of(mean)),
            (None, None) => WITHOUT_OPERATIONS.to_owned(),
        }
    }

    /// What stands where a cell that ran has no number.
    pub fn without_number(&self) -> &'static str {
        if self.failures == 0 && self.violations > 0 { "left out" } else { "failed" }
    }
}

/// One matrix.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Matrix {
    /// What all its cells have in common.
    pub title: String,
    /// What its rows are.
    pub rows_are: &'static str,
    /// Names of the rows.
    pub rows: Vec<String>,
    /// Names of the columns.
    pub columns: Vec<String>,
    /// The cells, row by row.
    pub cells: Vec<Vec<MatrixCell>>,
}

/// The matrices of a study: one per workload with a row per guest, or, for a single guest, one with a row per workload.
pub(super) fn matrices(study: &Study, reports: &[CellReport], common: &[KnownMark]) -> Vec<Matrix> {
    let parts = parts_of(&study.stacks);
    let guests = distinct(parts.iter().map(|p| p.guest.clone()));
    let (workloads, common_options) =
        without_common_options(&study.workloads.iter().map(ToString::to_string).collect::<Vec<_>>());
    let columns = distinct_columns(&parts);
    let usual = UsualLayers::of(&study.stacks);
    let names = host_names(&columns, &usual);
    let cell = |guest: &Guest, column: &StackParts, workload: &WrittenWorkload| {
        let index = parts.iter().position(|p| p.guest == *guest && same_column(p, column));
        let stack = index.map(|i| &study.stacks[i]);
        let found = reports.iter().position(|r| Some(&r.stack) == stack && r.workload == *workload);
        found.map_or_else(|| absent(workload), |i| of_report(&reports[i], i, common))
    };
    let line = |guest: &Guest, workload: &WrittenWorkload| {
        columns.iter().map(|c| cell(guest, c, workload)).collect()
    };
    // Layers that no row or column writes out in full are written once.
    let title = |of: &str, others: &str, rows: &[ShortName]| {
        let said = usual.said(rows.iter().chain(&names));
        listed([of, others, said.as_str()].into_iter().filter(|t| !t.is_empty()))
    };
    let columns_named: Vec<String> = names.iter().map(|name| name.text.clone()).collect();
    if let [guest] = guests.as_slice() {
        let matrix = Matrix {
            title: title(&guest.to_string(), &common_options, &[]),
            rows_are: "workload",
            rows: workloads,
            columns: columns_named,
            cells: study.workloads.iter().map(|workload| line(guest, workload)).collect(),
        };
        return vec![matrix.without_empty_lines()];
    }
    let (rows, machine) = without_common_machine(&guests, &usual);
    let shown: Vec<ShortName> = rows.iter().chain(&machine).cloned().collect();
    let of_workload = |workload: &WrittenWorkload| {
        let within = match &machine {
            Some(machine) => format!("{workload}, in {}", machine.text),
            None => workload.to_string(),
        };
        Matrix {
            title: title(&within, "", &shown),
            rows_are: "guest",
            rows: rows.iter().map(|name| name.text.clone()).collect(),
            columns: columns_named.clone(),
            cells: guests.iter().map(|guest| line(guest, workload)).collect(),
        }
        .without_empty_lines()
    };
    study.workloads.iter().map(of_workload).collect()
}

impl Matrix {
    /// Leaves out rows and columns of which the study has no cell: stacks that run under other workloads only.
    fn without_empty_lines(mut self) -> Self {
        let is_there = |cell: &MatrixCell| cell.kind != CellKind::Absent;
        let columns: Vec<bool> =
            (0..self.columns.len()).map(|c| self.cells.iter().any(|row| is_there(&row[c]))).collect();
        let rows: Vec<bool> = self.cells.iter().map(|row| row.iter().any(is_there)).collect();
        keep(&mut self.rows, &rows);
        keep(&mut self.columns, &columns);
        keep(&mut self.cells, &rows);
        self.cells.iter_mut().for_each(|row| keep(row, &columns));
        self
    }
}

/// Keeps the elements for which the flag at the same place is set.
fn keep<T>(list: &mut Vec<T>, flags: &[bool]) {
    let mut flags = flags.iter();
    list.retain(|_| flags.next().copied().unwrap_or(true));
}

fn distinct(guests: impl Iterator<Item = Guest>) -> Vec<Guest> {
    let mut found: Vec<Guest> = Vec::new();
    guests.for_each(|guest| {
        if !found.contains(&guest) {
            found.push(guest);
        }
    });
    found
}

/// The hosts, raw disks first, otherwise in the study's order.
fn distinct_columns(parts: &[StackParts]) -> Vec<StackParts> {
    let mut found: Vec<StackParts> = Vec::new();
    for part in parts {
        if !found.iter().any(|f| same_column(f, part)) {
            found.push(part.clone());
        }
    }
    found.sort_by_key(|part| !part.host.is_raw_disk());
    found
}

fn same_column(a: &StackParts, b: &StackParts) -> bool {
    a.host == b.host && a.medium == b.medium && a.machine_note == b.machine_note
}

fn absent(workload: &WrittenWorkload) -> MatrixCell {
    MatrixCell {
        kind: CellKind::Absent,
        stack: WrittenStack::default(),
        workload: workload.clone(),
        throughput: None,
        unit: RateUnit::BytesPerSecond,
        ratio: None,
        life_s: None,
        life_ratio: None,
        letters: String::new(),
        failures: 0,
        violations: 0,
        drifted: false,
        cell: None,
    }
}

fn of_report(report: &CellReport, index: usize, common: &[KnownMark]) -> MatrixCell {
    let summary = report.run.as_ref().map(|r| &r.summary);
    let throughput = summary.and_then(|s| s.throughput());
    let ratio = report.comparison.as_ref().and_then(|c| c.ratio);
    let failures = summary.map_or(0, |s| s.failures.len());
    let violations = summary.map_or(0, |s| s.violations.len());
    let kind = match (throughput, report.is_baseline, ratio) {
        (Some(_), true, _) => CellKind::Baseline,
        (Some(_), false, Some(_)) => CellKind::Compared,
        (Some(_), false, None) => CellKind::Alone,
        (None, _, _) if summary.is_some_and(|s| s.is_without_operations()) => CellKind::WithoutOperations,
        (None, _, _) if failures + violations > 0 => CellKind::Failed,
        (None, _, _) => CellKind::NotRun,
    };
    let lived = || report.run.as_ref().filter(|r| r.summary.is_without_operations());
    let is_common = |name: &str| common.iter().any(|c| c.name == name);
    let marks = summary.into_iter().flat_map(|s| &s.marks).filter(|m| !is_common(m.mark.name()));
    MatrixCell {
        kind,
        stack: report.stack.clone(),
        workload: report.workload.clone(),
        throughput,
        unit: summary.map_or(RateUnit::BytesPerSecond, |s| s.rate_unit()),
        ratio,
        life_s: lived().and_then(|r| r.lives_summary.as_ref()).map(|lives| lives.whole_s),
        life_ratio: lived().and(report.lives.as_ref()).and_then(|lives| lives.ratio),
        letters: marks.map(|m| m.mark.letter()).collect::<BTreeSet<char>>().into_iter().collect(),
        failures,
        violations,
        drifted: report.comparison.as_ref().is_some_and(|c| c.drift.is_seen()),
        cell: Some(index),
    }
}
