//! `nestor study`

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow};
use nestor_report::{StudyReport, render_study, study_text};
use nestor_stack::{LayerDefinition, Stack, StackError};
use nestor_study::{RunFilter, Store, Study, StudyRecord, TraceCost, trace_costs};

use crate::cli::StudyArguments;
use crate::commands::compare::print_costs;
use crate::commands::run::{open_store, set_tracing};
use crate::notation::LabNotation;
use crate::output::{print_json, style};
use crate::{paths, session};

/// Runs a study from its file, or goes on with it, and writes its report.
///
/// # Errors
/// What is wrong with the file, or why nothing could be measured.
pub fn run(arguments: &StudyArguments) -> Result<ExitCode> {
    let mut study = Study::read(&arguments.file, &LabNotation)?;
    check_profiles(&study).with_context(|| arguments.file.display().to_string())?;
    set_tracing(&mut study, &arguments.lab)?;
    if arguments.again {
        // Results are kept under the study's identity; another seed is another one.
        study.seed =
            std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(1, |d| d.as_secs());
    }
    let mut store = open_store(&arguments.lab)?;
    let ground = arguments.lab.on.to_string();
    let hash = study.hash(&ground);
    let usual_cell = store.usual_cell_s(&ground)?.map(std::time::Duration::from_secs_f64);
    let mut record = StudyRecord {
        hash: hash.clone(),
        ground,
        sentinels: study.plan(usual_cell).sentinels,
        study,
        ended_early: None,
    };
    store.save_study(&record)?;
    let end = session::run(&record.study, &arguments.lab, true, &mut store)?;
    record.ended_early = end.not_run.first().map(|cell| cell.reason.clone());
    store.save_study(&record)?;
    if end.already_done > 0 {
        eprintln!(
            "{} cells had been measured before and were not measured again (--again does)",
            end.already_done
        );
    }
    let costs = costs_of(&store, &record)?;
    let report = report_of(&store, &record)?;
    let path = arguments.output.clone().unwrap_or_else(|| paths::default_report(&record.study.name));
    write_report(&path, &render_study(&report))?;
    if arguments.lab.json {
        let mut json = serde_json::to_value(&report)?;
        if !costs.is_empty() {
            json["trace_costs"] = serde_json::to_value(&costs)?;
        }
        print_json(&json)?;
    } else {
        out!("{}", study_text(&report, style()));
        print_costs(&costs);
        outln!("report: {}", path.display());
    }
    Ok(if report.cells.iter().any(|cell| cell.run.is_some()) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The report of a study from what is kept of it.
pub fn report_of(store: &Store, record: &StudyRecord) -> Result<StudyReport> {
    let mut runs = store.runs(&of_study(record))?;
    runs.retain(|r| !r.record.untraced_twin);
    // Its own lines tell what tracing cost; the untraced repeats are no cells of the report.
    let mut record = record.clone();
    record.study.trace_cost = false;
    Ok(StudyReport::of(&record, &runs))
}

/// What tracing cost in a study that measured it.
fn costs_of(store: &Store, record: &StudyRecord) -> Result<Vec<TraceCost>> {
    if !record.study.trace_cost {
        return Ok(Vec::new());
    }
    let runs = store.runs(&of_study(record))?;
    Ok(trace_costs(&runs.iter().collect::<Vec<_>>()))
}

fn of_study(record: &StudyRecord) -> RunFilter {
    RunFilter { study_hash: Some(record.hash.clone()), latest_only: true, ..RunFilter::default() }
}

/// Writes a report where the user finds it, making the directory if it is the program's own.
pub fn write_report(path: &Path, html: &str) -> Result<()> {
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent).with_context(|| format!("{} could not be made", parent.display()))?;
    }
    std::fs::write(path, html).with_context(|| format!("the report {} could not be written", path.display()))
}

/// Refuses stacks whose medium names a profile that does not exist, before anything is started.
pub fn check_profiles(study: &Study) -> Result<()> {
    for text in &study.stacks {
        let stack = Stack::parse(text)?;
        stack.require_buildable()?;
        let index = stack.layers().len() - 1;
        let medium = stack.medium();
        let LayerDefinition::Medium(kind) = medium.definition() else { continue };
        if !kind.is_modelled() {
            continue;
        }
        let refuse = |message: String| {
            let error =
                StackError::at_option(&stack, index, "profile", message, "`nestor disk list` shows them");
            Err(anyhow!("{error}"))
        };
        match nestor_disk::profile(nestor_build::profile_name(medium)) {
            Err(e) => return refuse(e.to_string()),
            Ok(profile) if profile.medium.kind() != medium.name() => {
                let (name, kind) = (profile.name, profile.medium.kind());
                return refuse(format!("{name} is a profile of {kind}, not of {}", medium.name()));
            }
            Ok(_) => {}
        }
    }
    Ok(())
}
