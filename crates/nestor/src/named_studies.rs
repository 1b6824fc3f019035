//! Studies, and runs of them, as the command line names them.

use std::collections::BTreeSet;

use anyhow::{Result, bail};
use nestor_results::{RunFilter, Store, StoredRun, StudyRecord};
use nestor_text::units::listed;

use crate::arguments::Subject;
use crate::studies::OWN_STUDIES;

/// Runs of a study that are named where one of them is to be chosen.
const NAMED: usize = 12;

/// The study of a name.
///
/// # Errors
/// There is none; the message names those that there are.
pub fn study(store: &Store, name: &str) -> Result<StudyRecord> {
    if let Some(record) = store.study_named(name)? {
        return Ok(record);
    }
    let studies = store.studies()?;
    let known: BTreeSet<&str> = studies.iter().map(|s| s.study.name.as_str()).collect();
    let known = match known.is_empty() {
        true => "it has no studies yet".to_owned(),
        false => format!("it has: {}", listed(known)),
    };
    let runs_it = match OWN_STUDIES.iter().any(|own| own.name == name) {
        true => format!("\n  it comes with Nestor, and `nestor study {name}` runs it"),
        false => String::new(),
    };
    bail!("there is no study `{name}` in {}; {known}{runs_it}", store.path().display())
}

/// The number of the run that is meant: the one that is named, or that of a study which has numbers of one cell only.
///
/// # Errors
/// There is no such study, or it has several cells; the message names a run of each.
pub fn run_number(store: &Store, subject: &Subject, command: &str) -> Result<i64> {
    let name = match subject {
        Subject::Run(number) => return Ok(*number),
        Subject::Study(name) => name,
    };
    let study_hash = Some(study(store, name)?.hash);
    let runs = store.runs(&RunFilter { study_hash, latest_only: true, ..RunFilter::default() })?;
    let mut cells: Vec<&StoredRun> = Vec::new();
    for run in runs.iter().filter(|run| run.record.measured().is_some() && !run.record.untraced_twin) {
        let is_same = |known: &&StoredRun| {
            known.record.stack == run.record.stack && known.record.workload == run.record.workload
        };
        if !cells.iter().any(is_same) {
            cells.push(run);
        }
    }
    match cells.as_slice() {
        [] => bail!("study `{name}` has no run with numbers; `nestor report {name}` shows what happened"),
        [only] => Ok(only.number),
        several => bail!("{}", choice(name, command, several)),
    }
}

fn choice(name: &str, command: &str, cells: &[&StoredRun]) -> String {
    let mut said = format!("study `{name}` has {} cells; name a run of one of them", cells.len());
    for run in cells.iter().take(NAMED) {
        // A line of its own, to be copied.
        said += &format!(
            "\n  {} {}:\n    nestor {command} {}",
            run.record.stack, run.record.workload, run.number
        );
    }
    if cells.len() > NAMED {
        said += &format!("\n  and {} more; `nestor report {name}` shows all", cells.len() - NAMED);
    }
    said
}
