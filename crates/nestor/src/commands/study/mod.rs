//! `nestor study`

mod carry_out;
mod next;
mod plan;
mod resume;
mod user_media;

use std::process::ExitCode;

use anyhow::{Context, Result, anyhow, bail};
use nestor_results::Study;

use crate::arguments::StudyArguments;
use crate::results_file::{Access, open_for};

pub use carry_out::{carry_out, prepare};
pub use user_media::{plan_lines, written_paths};

/// Runs a study from its file, or goes on with it, and writes its report.
///
/// # Errors
/// What is wrong with the file, or why nothing could be measured.
pub fn run(arguments: &StudyArguments) -> Result<ExitCode> {
    let access = if arguments.how.plan { Access::Plans } else { Access::Adds };
    let mut store = open_for(&arguments.lab, access)?;
    let read = |path| Study::read(path, arguments.how.scale.as_deref());
    let study = match &arguments.file {
        Some(path) => prepare(read(path)?, &arguments.how, &arguments.lab)
            .with_context(|| path.display().to_string())?,
        None => resume::begun_last(&store, &arguments.how, &arguments.lab)?,
    };
    let carried_out = carry_out(study, &arguments.how, &arguments.lab, &mut store)?;
    carried_out.print(&arguments.lab)
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
