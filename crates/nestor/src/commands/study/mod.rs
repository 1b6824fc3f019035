//! `nestor study`

mod carry_out;
mod next;
mod plan;
mod resume;
mod user_media;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow, bail};
use nestor_results::Study;
use serde::Serialize;

use crate::arguments::StudyArguments;
use crate::output::{print_json, table};
use crate::results_file::{Access, open_for};
use crate::studies::{OWN_STUDIES, study_called, title};

pub use carry_out::{carry_out, prepare};
pub use plan::time_rests_on;
pub use user_media::{WrittenMedium, plan_lines, written_media};

/// Runs a study from its file, or goes on with it, and writes its report.
///
/// # Errors
/// What is wrong with the file, or why nothing could be measured.
pub fn run(arguments: &StudyArguments) -> Result<ExitCode> {
    if arguments.list {
        return list(arguments.lab.json);
    }
    let named = |name: &PathBuf| {
        let study = study_called(name, arguments.how.scale.as_deref())?;
        prepare(study, &arguments.how, &arguments.lab).with_context(|| name.display().to_string())
    };
    // What is wrong with it leaves no results file behind.
    let named = arguments.study.as_ref().map(named).transpose()?;
    let access = if arguments.how.plan { Access::Plans } else { Access::Adds };
    let mut store = open_for(&arguments.lab, access)?;
    let study = match named {
        Some(study) => study,
        None => resume::begun_last(&store, &arguments.how, &arguments.lab)?,
    };
    let carried_out = carry_out(study, &arguments.how, &arguments.lab, &mut store)?;
    carried_out.print(&arguments.lab)
}

/// A study that comes with the program, as it is listed.
#[derive(Serialize)]
struct Listed {
    name: &'static str,
    title: String,
}

/// Lists the studies that come with the program.
fn list(json: bool) -> Result<ExitCode> {
    let listed = OWN_STUDIES.iter().map(|own| Ok(Listed { name: own.name, title: title(own)? }));
    let listed = listed.collect::<Result<Vec<_>>>()?;
    if json {
        print_json(&listed)?;
    } else {
        let rows: Vec<[String; 2]> = listed.into_iter().map(|l| [l.name.to_owned(), l.title]).collect();
        out!("{}", table(&["study", "title"], &rows));
    }
    Ok(ExitCode::SUCCESS)
}

/// Refuses stacks whose medium names a profile that does not exist, before anything is started.
pub fn check_profiles(study: &Study) -> Result<()> {
    for written in &study.stacks {
        let Some(stack) = written.value() else { bail!("this version does not know the stack {written}") };
        stack.require_buildable()?;
        nestor_results::check_profiles(stack).map_err(|e| anyhow!("{e}"))?;
    }
    Ok(())
}
