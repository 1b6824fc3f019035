//! `nestor doctor`

use anyhow::{Result, bail};
use nestor_capture::remove_stale_instances;
use nestor_lab::doctor::{DoctorPlaces, Finding, State, examine};
use nestor_lab::remove_partial_kept_hosts;
use nestor_machine::Ground;
use nestor_machine::agent::{ledger, work_root};

use crate::arguments::DoctorArguments;
use crate::lab_image;
use crate::output::{columns, print_json, table_within};
use crate::paths;

/// Says what this machine can do, or removes what killed runs left.
///
/// # Errors
/// When something could not be removed, or the local agent does not start.
pub fn run(arguments: &DoctorArguments) -> Result<()> {
    if arguments.clean {
        return clean();
    }
    let facts = Ground::here()?.machine().facts()?;
    let places = DoctorPlaces {
        cache_directory: paths::cache_directory(),
        work_root: work_root(),
        lab_image: lab_image::state(),
    };
    let findings = examine(&facts, &places);
    if arguments.json {
        return print_json(&findings);
    }
    out!("{}", render(&findings, columns()));
    Ok(())
}

fn render(findings: &[Finding], columns: Option<usize>) -> String {
    let rows: Vec<[String; 4]> = findings
        .iter()
        .map(|f| {
            let sign = match f.state {
                State::Ok => "ok",
                State::Limited => "limited",
                State::Missing => "MISSING",
            };
            [sign.to_owned(), f.subject.clone(), f.found.clone(), f.advice.clone()]
        })
        .collect();
    table_within(columns, &["", "what", "found", "advice"], &rows)
}

fn clean() -> Result<()> {
    let found = ledger::leftovers(&work_root())?;
    let mut removed = remove_stale_instances();
    removed.extend(remove_partial_kept_hosts(&paths::cache_directory()));
    for path in &removed {
        outln!("removed {}", path.display());
    }
    for left in &found.left_alone {
        outln!("left alone: {}\n  {}", left.directory.display(), left.reason);
    }
    if found.dead.is_empty() && removed.is_empty() {
        outln!(
            "killed runs left nothing behind{}",
            if found.left_alone.is_empty() { "" } else { " of this machine" }
        );
        return Ok(());
    }
    let mut problems = Vec::new();
    for leftover in &found.dead {
        match leftover.clean() {
            Ok(()) => {
                let what = if leftover.restarted {
                    "the machine has been restarted since; nothing else was left".to_owned()
                } else {
                    format!("{} things", leftover.resources.len())
                };
                outln!("removed {} ({what})", leftover.directory.display());
                for path in leftover.written_media() {
                    outln!("  {path} still holds data of that run; `--overwrite {path}` allows its reuse");
                }
            }
            Err(left) => problems.extend(left),
        }
    }
    if problems.is_empty() {
        return Ok(());
    }
    bail!(
        "not everything could be removed:\n  {}",
        problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n  ")
    )
}
