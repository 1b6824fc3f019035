//! What is printed on terminals of several widths fits them.

use unicode_width::UnicodeWidthStr;

use super::fixture::*;
use super::study::{claims, full_report};
use super::traced::traced_runs;
use super::widths::{long_study, run_in_virtual_time};
use crate::{
    CompareView, RunView, StudyReport, Style, compare_text, link_table, run_text, scoreboard_text,
    study_text, trace_text,
};

/// The lines that could have been broken and are too wide.
fn too_wide(text: &str, width: usize) -> Vec<&str> {
    text.lines().filter(|line| line.width() > width && line.trim().contains(' ')).collect()
}

fn assert_fits(what: &str, text: impl Fn(Style) -> String) {
    for width in [200, 100, 80, 60, 40] {
        let text = text(Style::terminal(width, true));
        assert_eq!(too_wide(&text, width), [""; 0], "{what}, {width} columns");
    }
}

/// The same study without sentences of its own, which has more to say of its cells.
fn without_findings(report: StudyReport) -> StudyReport {
    StudyReport { findings: Vec::new(), ..report }
}

#[test]
fn studies_fit_their_columns() {
    for (what, report) in [
        ("a study with findings", full_report()),
        ("one without", without_findings(full_report())),
        ("one of disks", study_of_disks()),
        ("one of a long workload", long_study()),
    ] {
        assert_fits(what, |style| study_text(&report, style));
    }
    assert_fits("claims", |style| scoreboard_text(&claims(), style));
}

#[test]
fn runs_and_comparisons_fit_their_columns() {
    let (base, other) = (stored(runs(0, 1, 5)), stored(runs(2, 1, 5)));
    let compared = CompareView::of(&borrowed(&base), &borrowed(&other)).unwrap();
    assert_fits("a comparison", |style| compare_text(&compared, style));
    let lives = super::life::compared(true);
    assert_fits("a comparison of lives", |style| compare_text(&lives, style));
    let (base, other) = (super::instructions::counted(0, 1_000), super::instructions::counted(2, 4_000));
    let compared = CompareView::of(&borrowed(&base), &borrowed(&other)).unwrap();
    assert_fits("a comparison of instructions", |style| compare_text(&compared, style));
    let run = run_in_virtual_time();
    assert_fits("a run", |style| run_text(&run, style));
    let traced = traced_runs(1, 1);
    let trace = RunView::of(&borrowed(&traced)).unwrap().trace.unwrap();
    assert_fits("a trace", |style| trace_text(&trace, style));
    let link = super::network::over_a_link().links.remove(0);
    assert_fits("a link", |style| link_table(&link, style).join("\n"));
}

#[test]
fn a_terminal_that_does_not_say_its_width_is_usual_and_one_of_few_columns_is_laid_out_for() {
    let width = |columns| Style::terminal(columns, true).width;
    assert_eq!([0, 20, 60, 132].map(width), [80, 40, 60, 132]);
}
