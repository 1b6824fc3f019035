//! `nestor report`

use std::path::Path;

use anyhow::{Context, Result, bail};
use nestor_report::{
    RunView, RunsView, StudyReport, render_matrix_svg, render_run, render_study, render_time_spent_svg,
    render_waterfalls_svg, run_text, runs_text, study_markdown, study_text,
};
use nestor_results::{MergeReport, RunFilter, Store, UnlikeRun};
use nestor_text::units::plural;

use crate::arguments::{ReportArguments, Subject};
use crate::commands::explain::explanation;
use crate::commands::study_report::write_report;
use crate::named_studies;
use crate::output::{columns, print_json, style};
use crate::paths;
use crate::results_file::{self, Access};
use crate::whole_file;

/// Runs that are listed unless all are asked for.
const NEWEST: usize = 50;

/// Writes the report of a run or a study, or lists what there is.
///
/// # Errors
/// When there is no such run or study, or the report cannot be written.
pub fn run(arguments: &ReportArguments) -> Result<()> {
    require_folders(arguments)?;
    let access = if arguments.merge.is_some() { Access::Adds } else { Access::Reads };
    let mut store = results_file::open(arguments.store.as_ref(), access)?;
    if let Some(other) = &arguments.merge {
        tell_of_merge(&store.merge(other)?);
    }
    match (&arguments.subject, &arguments.study) {
        (Some(Subject::Run(run)), _) => of_run(&store, *run, arguments),
        (Some(Subject::Study(name)), _) | (None, Some(name)) => of_study(&store, name, arguments),
        (None, None) => list(&store, arguments),
    }
}

/// Refuses files in folders that are not there, before any of them is written.
fn require_folders(arguments: &ReportArguments) -> Result<()> {
    let ReportArguments { output, picture, time_picture, csv, markdown, parquet, .. } = arguments;
    for file in [output, picture, time_picture, csv, markdown, parquet].into_iter().flatten() {
        whole_file::require_folder(file)
            .with_context(|| format!("{} could not be written", file.display()))?;
    }
    Ok(())
}

/// What another file added, and whether what was measured twice is the same.
fn tell_of_merge(merged: &MergeReport) {
    let MergeReport { added, known, repeated, unlike } = merged;
    errln!("{} imported, {known} known already", plural(*added, "run"));
    if *repeated > 0 {
        errln!(
            "{} measured here before, by the same program, images and seed: the same to the last bit",
            plural(*repeated, "run")
        );
    }
    for UnlikeRun { here, taken_over, differences } in unlike {
        errln!(
            "warning: run {taken_over} has the program, images and seed of run {here}, and other numbers, which virtual time does not \
             allow: {}\n  `nestor run … --verify` tells which machine does not repeat; please report it with both files",
            differences.join("; ")
        );
    }
}

fn of_run(store: &Store, number: i64, arguments: &ReportArguments) -> Result<()> {
    if arguments.csv.is_some() || arguments.markdown.is_some() || arguments.parquet.is_some() {
        bail!("--csv, --markdown and --parquet are of the cells of a study; of a run, there is --json");
    }
    let run = store.run(number)?;
    let mut view = RunView::of(&[&run]).context("the run has nothing to show")?;
    if run.record.measured().is_some_and(|measured| measured.correlation.is_some()) {
        view.explanation = Some(explanation(store, number, None)?);
    }
    let not_joined =
        || format!("run {number} has no picture: its requests were not joined; measure with `--trace full`");
    if let Some(picture) = &arguments.picture {
        write_report(picture, &render_waterfalls_svg(&view).with_context(not_joined)?)?;
    }
    if let Some(picture) = &arguments.time_picture {
        write_report(picture, &render_time_spent_svg(&view).with_context(not_joined)?)?;
    }
    if arguments.json {
        return print_json(&view);
    }
    let path = arguments.output.clone().unwrap_or_else(|| paths::default_report(&format!("run-{number}")));
    write_report(&path, &render_run(&view))?;
    out!("{}", run_text(&view, style()));
    outln!("report: {}", path.display());
    Ok(())
}

fn of_study(store: &Store, name: &str, arguments: &ReportArguments) -> Result<()> {
    if arguments.time_picture.is_some() {
        bail!("--time-picture is of one run: name its number, as `nestor report` lists it");
    }
    let record = named_studies::study(store, name)?;
    let report = StudyReport::from_store(store, &record)?;
    if let Some(picture) = &arguments.picture {
        write_report(picture, &render_matrix_svg(&report))?;
    }
    write_tables(&report, arguments)?;
    if arguments.json {
        return print_json(&report);
    }
    let path = arguments.output.clone().unwrap_or_else(|| paths::default_report(name));
    write_report(&path, &render_study(&report))?;
    out!("{}", study_text(&report, style()));
    outln!("report: {}", path.display());
    Ok(())
}

/// Writes the forms of a study that other programs read, to the files that were named.
fn write_tables(report: &StudyReport, arguments: &ReportArguments) -> Result<()> {
    let write = |path: &Path, bytes: &[u8]| {
        whole_file::write(path, bytes).with_context(|| format!("{} could not be written", path.display()))
    };
    let table = report.table();
    if let Some(path) = &arguments.csv {
        write(path, table.csv().as_bytes())?;
    }
    if let Some(path) = &arguments.parquet {
        let mut bytes = Vec::new();
        table.write_parquet(&mut bytes)?;
        write(path, &bytes)?;
    }
    if let Some(path) = &arguments.markdown {
        write(path, study_markdown(report).as_bytes())?;
    }
    Ok(())
}

fn list(store: &Store, arguments: &ReportArguments) -> Result<()> {
    let most = (!arguments.all).then_some(NEWEST);
    let runs = store.list_newest(&RunFilter::default(), most)?;
    let view = RunsView { total: store.count()?, runs };
    if arguments.json {
        return print_json(&view);
    }
    out!("{}", runs_text(&view, style(), columns()));
    Ok(())
}
