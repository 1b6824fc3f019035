//! What the templates of whole pages are given.

use nestor_results::WrittenWorkload;
use nestor_results::claims::Finding;
use serde::Serialize;

use super::cell_page::CellPage;
use super::figure::FigurePage;
use super::heat::{HeatMap, heat_maps};
use super::measured::MeasuredPage;
use super::scoreboard::ScoreboardPage;
use super::table::{CellRow, cell_rows};
use crate::view::CellReport;
use crate::view::{KnownMark, RunView, StudyReport};
use nestor_results::Tally;

/// Above so many cells the pictures of what happened when are left to the reports of single runs, which have them all.
const CELLS_WITH_EVERY_PICTURE: usize = 60;

#[derive(Serialize)]
pub(super) struct StudyPage {
    title: String,
    name: String,
    /// `95 %`: of the intervals of changes.
    confidence: String,
    scale: Option<String>,
    began: String,
    physical: Vec<String>,
    tally: String,
    honesty: Vec<String>,
    common_marks: Vec<KnownMark>,
    other_marks: Vec<KnownMark>,
    answer: Vec<String>,
    findings: Vec<Finding>,
    workloads: Vec<(String, String)>,
    maps: Vec<HeatMap>,
    rows: Vec<CellRow>,
    scoreboard: Option<ScoreboardPage>,
    figures: Vec<FigurePage>,
    failures: Vec<(String, String, String, String)>,
    not_run: Vec<(String, usize)>,
    measured: MeasuredPage,
    cells: Vec<CellPage>,
    pictures_left_out: bool,
    nestor: String,
}

impl StudyPage {
    pub(super) fn of(report: &StudyReport) -> Self {
        // Strips of samples share their scale within a workload, so that cells can be compared by eye.
        let highest = |workload: &str| {
            let cells = report.cells.iter().filter(|c| c.workload == workload);
            let samples = cells.filter_map(|c| c.run.as_ref()).flat_map(|r| &r.summary.samples);
            samples.map(|s| s.bytes_per_second).fold(0.0, f64::max)
        };
        let scales: Vec<(&WrittenWorkload, f64)> =
            report.study.study.workloads.iter().map(|w| (w, highest(w))).collect();
        let measured = MeasuredPage::of(report);
        let pictures_left_out = report.cells.len() > CELLS_WITH_EVERY_PICTURE;
        let cells = report.cells.iter().enumerate().filter_map(|(i, cell)| {
            let run = cell.run.as_ref()?;
            let scale =
                scales.iter().find(|(w, _)| **w == cell.workload).map_or(0.0, |(_, highest)| *highest);
            let mut page = CellPage::of(format!("cell-{i}"), run, Some(cell), scale);
            page.in_study(&measured.common, pictures_left_out);
            Some(page)
        });
        Self {
            title: report.title.clone(),
            name: report.name.clone(),
            confidence: super::typeset(&report.confidence()),
            scale: report.scale.clone(),
            began: report.first_started_at.clone().unwrap_or_default().replace('T', " ").replace('Z', " UTC"),
            physical: report
                .physical
                .iter()
                .flat_map(|p| std::iter::once(&p.answer).chain(&p.against).cloned())
                .collect(),
            tally: if report.claims.is_empty() {
                String::new()
            } else {
                Tally::of(&report.claims).in_words()
            },
            honesty: report.honesty.clone(),
            common_marks: report.common_marks.iter().filter(|m| !m.is_emulation).cloned().collect(),
            other_marks: report.other_marks.clone(),
            answer: report.answer.clone(),
            findings: report.findings.clone(),
            workloads: report.workloads.clone(),
            maps: heat_maps(report),
            rows: cell_rows(report),
            scoreboard: ScoreboardPage::of(&report.claims),
            figures: report.figures.iter().enumerate().map(|(i, f)| FigurePage::of(f, i)).collect(),
            failures: failures(report),
            not_run: report.not_run_by_reason(),
            nestor: report
                .cells
                .iter()
                .find_map(|c| Some(c.run.as_ref()?.environment.nestor.clone()))
                .unwrap_or_default(),
            cells: cells.collect(),
            pictures_left_out,
            measured,
        }
    }
}

/// Stack, workload, runs and reason of the failed runs.
fn failures(report: &StudyReport) -> Vec<(String, String, String, String)> {
    let of_cell = |c: &CellReport| {
        let row = |(reason, runs): (String, Vec<i64>)| {
            let runs: Vec<String> = runs.iter().map(ToString::to_string).collect();
            (c.stack.to_string(), c.workload.to_string(), runs.join(", "), reason)
        };
        c.failures_by_reason().into_iter().map(row).collect::<Vec<_>>()
    };
    report.cells.iter().flat_map(of_cell).collect()
}

#[derive(Serialize)]
pub(super) struct RunPage {
    title: String,
    honesty: Vec<String>,
    cell: CellPage,
    nestor: String,
}

impl RunPage {
    pub(super) fn of(view: &RunView) -> Self {
        let highest = view.summary.samples.iter().map(|s| s.bytes_per_second).fold(0.0, f64::max);
        Self {
            title: format!("{} under {}", view.stack, view.workload),
            honesty: view.honesty.clone(),
            cell: CellPage::of("cell-0".to_owned(), view, None, highest),
            nestor: view.environment.nestor.clone(),
        }
    }
}
