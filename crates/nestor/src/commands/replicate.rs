//! `nestor replicate`: published studies as files, their claims judged by what is measured here.

use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use nestor_report::{scoreboard_text, tables_text};
use nestor_results::claims::answer_all;
use nestor_results::{ClaimResult, Figure, Store, Study, StudyRecord};
use serde::Serialize;

use crate::arguments::ReplicateArguments;
use crate::commands::study::{carry_out, prepare};
use crate::commands::study_results::write_results;
use crate::output::{print_json, style, table};
use crate::results_file::{Access, open_for};
use crate::studies::published;
use crate::whole_file::require_folder;

/// A published study, as it is listed.
#[derive(Serialize)]
struct Published {
    name: &'static str,
    /// Who found it, and where.
    source: &'static str,
}

/// Repeats a published study, or judges its claims by what was measured before.
///
/// # Errors
/// When there is no such study, or nothing could be measured.
pub fn run(arguments: &ReplicateArguments) -> Result<ExitCode> {
    let Some(name) = &arguments.paper else { return list(arguments.lab.json) };
    let Some(own) = published().find(|study| study.name == name) else {
        let names: Vec<&str> = published().map(|study| study.name).collect();
        bail!("there is no published study `{name}`\n  the published studies are: {}", names.join(", "));
    };
    if let Some(directory) = &arguments.results_to {
        require_folder(directory)
            .with_context(|| format!("cannot use --results-to {}", directory.display()))?;
    }
    let access = match (arguments.claims, arguments.how.plan) {
        (true, _) => Access::Reads,
        (false, true) => Access::Plans,
        (false, false) => Access::Adds,
    };
    let read = |scale: Option<&str>| Study::parse(own.file, own.text, scale);
    if arguments.claims {
        let store = open_for(&arguments.lab, access)?;
        let record = measured_before(&store, arguments, &read)?;
        return judged(&store, &record, arguments);
    }
    let study = read(arguments.how.scale.as_deref())?;
    let study = prepare(study, &arguments.how, &arguments.lab)?;
    let mut store = open_for(&arguments.lab, access)?;
    let carried_out = carry_out(study, &arguments.how, &arguments.lab, &mut store)?;
    let code = carried_out.print(&arguments.lab)?;
    let Some(report) = &carried_out.report else { return Ok(code) };
    if !arguments.lab.json {
        outln!();
        print_answers(&report.claims, &report.figures);
    }
    if let Some(directory) = &arguments.results_to {
        write_results(&store, &carried_out.record, directory)?;
    }
    Ok(code)
}

fn list(json: bool) -> Result<ExitCode> {
    let listed =
        published().map(|study| Published { name: study.name, source: study.source.unwrap_or_default() });
    if json {
        print_json(&listed.collect::<Vec<_>>())?;
    } else {
        let rows: Vec<[String; 2]> =
            listed.map(|study| [study.name, study.source].map(str::to_owned)).collect();
        out!("{}", table(&["study", "published as"], &rows));
    }
    Ok(ExitCode::SUCCESS)
}

/// The study as it is kept, in the size that is asked for or, of those that were begun, the one with the most runs. The
/// claims are those of this program, not those of the program that measured.
fn measured_before(
    store: &Store,
    arguments: &ReplicateArguments,
    read: &dyn Fn(Option<&str>) -> Result<Study, nestor_results::Complaints>,
) -> Result<StudyRecord> {
    let ground = arguments.lab.place_of_results(store)?.to_string();
    let scale = arguments.how.scale.as_deref();
    let published = read(scale)?;
    let mut best: Option<(usize, StudyRecord)> = None;
    for kept in store.studies()? {
        let asked_for = scale.is_none() || kept.study.scale.as_deref() == scale;
        if kept.study.name != published.name || kept.ground != ground || !asked_for {
            continue;
        }
        let runs = store.finished(&kept.hash)?.len();
        if runs > 0 && best.as_ref().is_none_or(|(most, _)| runs > *most) {
            let (claims, figures) = (published.claims.clone(), published.figures.clone());
            best = Some((runs, StudyRecord { study: Study { claims, figures, ..kept.study }, ..kept }));
        }
    }
    let (_, record) = best.with_context(|| {
        format!(
            "no results of `{}` yet in {}\n  measure it: nestor replicate {}",
            published.name,
            store.path().display(),
            published.name
        )
    })?;
    Ok(record)
}

#[derive(Serialize)]
struct Scoreboard<'a> {
    study: &'a str,
    scale: Option<&'a str>,
    claims: &'a [ClaimResult],
    figures: &'a [Figure],
}

/// The scoreboard, and below it the figures that are tables.
fn print_answers(claims: &[ClaimResult], figures: &[Figure]) {
    out!("{}", scoreboard_text(claims, style()));
    let tables = tables_text(figures, style());
    if !tables.trim().is_empty() {
        outln!();
        out!("{tables}");
    }
}

fn judged(store: &Store, record: &StudyRecord, arguments: &ReplicateArguments) -> Result<ExitCode> {
    let answers = answer_all(store, record)?;
    let (claims, figures) = (&answers.claims, &answers.figures);
    if let Some(directory) = &arguments.results_to {
        write_results(store, record, directory)?;
    }
    if arguments.lab.json {
        let scale = record.study.scale.as_deref();
        print_json(&Scoreboard { study: &record.study.name, scale, claims, figures })?;
    } else {
        print_answers(claims, figures);
    }
    Ok(ExitCode::SUCCESS)
}
