//! All cells of a study as the rows of one table that can be sorted and filtered.

use nestor_results::{CellSummary, Mark};
use nestor_workload::RateUnit;
use serde::Serialize;

use super::heat::direction;
use super::typeset;
use crate::units;
use crate::view::{CellReport, StudyReport};

/// A row. Beside each text that is a number stands the number it is sorted by.
#[derive(Serialize)]
pub(super) struct CellRow {
    stack: String,
    workload: String,
    anchor: Option<String>,
    rate: Sorted,
    rate_interval: String,
    change: Sorted,
    change_interval: String,
    direction: &'static str,
    /// Class of operation whose latency stands there, if there are several.
    class: String,
    p50: Sorted,
    p99: Sorted,
    blocks: usize,
    marks: String,
}

/// A text and what it is sorted by; empty for what is not known, which comes last.
#[derive(Default, Serialize)]
struct Sorted {
    text: String,
    by: String,
}

impl Sorted {
    fn of(value: Option<f64>, text: impl Fn(f64) -> String) -> Self {
        value
            .filter(|v| v.is_finite())
            .map_or_else(Self::default, |value| Self { text: typeset(&text(value)), by: format!("{value}") })
    }
}

pub(super) fn cell_rows(report: &StudyReport) -> Vec<CellRow> {
    report.cells.iter().enumerate().map(|(i, cell)| row(cell, i)).collect()
}

fn row(cell: &CellReport, index: usize) -> CellRow {
    let summary = cell.run.as_ref().map(|r| &r.summary);
    let (mean, unit) =
        (summary.and_then(|s| s.throughput()), summary.map_or(RateUnit::BytesPerSecond, |s| s.rate_unit()));
    let lived = cell.run.as_ref().filter(|r| r.summary.is_without_operations());
    let whole_life_s = lived.and_then(|r| Some(r.lives_summary.as_ref()?.whole_s.value));
    let ratio = cell.comparison.as_ref().and_then(|c| c.ratio);
    let latency = summary.and_then(CellSummary::latency_of_longest);
    let several = summary.is_some_and(|s| s.latency.len() > 1);
    let time = |ns: f64| units::duration_ns(ns);
    let marks = summary.into_iter().flat_map(CellSummary::marks_by_name);
    let mut marks: Vec<String> =
        marks.filter(|mark| **mark != Mark::EmulatedCpu).map(|mark| mark.name().to_owned()).collect();
    if let Some(failed @ 1..) = summary.map(|s| s.failures.len()) {
        marks.insert(0, format!("{failed} failed"));
    }
    if let (count @ 1.., true) = (cell.not_run.len(), mean.is_none()) {
        marks.push(format!("{count} not run"));
    }
    CellRow {
        stack: cell.stack.to_string(),
        workload: cell.workload.to_string(),
        anchor: cell.run.is_some().then(|| format!("cell-{index}")),
        // The head of the column says MB/s; what moves no data says its unit itself.
        rate: match whole_life_s {
            Some(seconds) => Sorted::of(Some(seconds), |seconds| format!("life {seconds:.3} s")),
            None => Sorted::of(mean.map(|m| m.value / unit.scale()), |value| match unit {
                RateUnit::BytesPerSecond => units::digits(value),
                RateUnit::OperationsPerSecond => units::iops(value),
            }),
        },
        rate_interval: mean
            .and_then(|m| m.interval)
            .map(|i| typeset(&units::rate_interval(i, unit)))
            .unwrap_or_default(),
        change: if cell.is_baseline {
            Sorted { text: "baseline".to_owned(), by: "0".to_owned() }
        } else if cell.is_apart {
            Sorted { text: "apart".to_owned(), by: "0".to_owned() }
        } else {
            Sorted::of(ratio.map(|r| r.change_percent()), units::signed)
        },
        change_interval: ratio
            .and_then(|r| units::change_interval(&r))
            .map(|i| typeset(&i))
            .unwrap_or_default(),
        direction: ratio.map_or("", |r| direction(&r)),
        class: latency.filter(|_| several).map(|(class, _)| class.clone()).unwrap_or_default(),
        p50: Sorted::of(latency.map(|(_, l)| l.p50_ns as f64), time),
        p99: Sorted::of(latency.map(|(_, l)| l.p99_ns as f64), time),
        blocks: mean.map_or(0, |m| m.samples),
        marks: marks.join(", "),
    }
}
