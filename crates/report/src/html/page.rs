//! What the templates of whole pages are given.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use nestor_results::Tally;
use nestor_results::claims::Finding;
use serde::Serialize;

use super::cell_page::CellPage;
use super::figure::FigurePage;
use super::heat::{HeatMap, heat_maps};
use super::measured::{CommonPlace, MeasuredPage};
use super::scoreboard::ScoreboardPage;
use super::table::{CellRow, cell_rows};
use super::trace::Pictures;
use crate::units;
use crate::view::{CellReport, KnownMark, RunView, StudyReport};

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
    /// The cells as CSV, in base64.
    csv: String,
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
        let measured = MeasuredPage::of(report);
        let pictures_left_out = report.cells.len() > CELLS_WITH_EVERY_PICTURE;
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
            csv: BASE64_STANDARD.encode(report.table().csv()),
            scoreboard: ScoreboardPage::of(&report.claims),
            figures: report.figures.iter().enumerate().map(|(i, f)| FigurePage::of(f, i)).collect(),
            failures: failures(report),
            not_run: report.not_run_by_reason(),
            nestor: report
                .cells
                .iter()
                .find_map(|c| Some(c.run.as_ref()?.environment.nestor.clone()))
                .unwrap_or_default(),
            cells: cell_pages(report, &measured.common, pictures_left_out),
            pictures_left_out,
            measured,
        }
    }
}

/// The cells that were measured. Strips of samples share their scale within a workload, so that cells can be compared by eye.
fn cell_pages(report: &StudyReport, common: &CommonPlace, few_pictures: bool) -> Vec<CellPage> {
    let mut scales: BTreeMap<&str, f64> = BTreeMap::new();
    for cell in &report.cells {
        let samples = cell.run.iter().flat_map(|r| r.summary.rates());
        let highest = scales.entry(&cell.workload).or_default();
        *highest = samples.fold(*highest, f64::max);
    }
    let pictures = if few_pictures { Pictures::Requests } else { Pictures::All };
    let page = |(i, cell): (usize, &CellReport)| {
        let run = cell.run.as_ref()?;
        let highest = scales[cell.workload.as_str()];
        let mut page = CellPage::of(format!("cell-{i}"), run, Some(cell), highest, pictures);
        page.in_study(common);
        Some(page)
    };
    report.cells.iter().enumerate().filter_map(page).collect()
}

/// Stack, workload, runs and reason of the failed runs.
fn failures(report: &StudyReport) -> Vec<(String, String, String, String)> {
    let of_cell = |c: &CellReport| {
        let row = |(reason, runs): (String, Vec<i64>)| {
            (c.stack.to_string(), c.workload.to_string(), units::listed(runs), reason)
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
        let highest = view.summary.rates().into_iter().fold(0.0, f64::max);
        Self {
            title: format!("{} under {}", view.stack, view.workload),
            honesty: view.honesty.clone(),
            cell: CellPage::of("cell-0".to_owned(), view, None, highest, Pictures::All),
            nestor: view.environment.nestor.clone(),
        }
    }
}
