//! `nestor load check`: which scripts are understood, and which run.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, bail};
use clap::Args;
use nestor_flowops::{
    FlowOptions, FlowReport, Listener, RunReport, Scale, Source, make_places, relocate, run_script, scale,
};
use nestor_ownership::temporary_directory_in;
use nestor_ownership::{NotMade, open_above};
use serde::Serialize;

use super::wml::seconds;
use crate::interrupt::interrupted_by_signals;
use crate::output::{print_json, table};
use crate::scripts::load;

/// Arguments of `nestor load check`.
#[derive(Args, Debug)]
pub struct CheckArguments {
    /// Scripts, or names of those that come with this program; without any, all of these
    scripts: Vec<String>,
    /// Also run each here, with file sets of at most 64 MiB in all, and remove them
    #[arg(long, value_name = "DIRECTORY")]
    dir: Option<PathBuf>,
    /// Seconds for each
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = seconds)]
    time: f64,
    /// End each after this many operations, if its time is not over before
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    operations: Option<u64>,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
}

/// One script.
#[derive(Debug, Serialize)]
struct Checked {
    script: String,
    understood: bool,
    /// `None`: not tried.
    runs: Option<bool>,
    operations: Option<u64>,
    /// What is wrong, or worth knowing.
    note: String,
}

/// Checks them.
///
/// # Errors
/// When the directory cannot be used.
pub fn run(arguments: &CheckArguments) -> Result<ExitCode> {
    let names: Vec<String> = if arguments.scripts.is_empty() {
        nestor_workload::personality_names().iter().map(ToString::to_string).collect()
    } else {
        arguments.scripts.clone()
    };
    let interrupted = interrupted_by_signals()?;
    let mut checked = Vec::new();
    for name in &names {
        checked.push(check(name, arguments, &interrupted)?);
        if interrupted.load(Ordering::Relaxed) {
            bail!("stopped at {name}; its files were removed");
        }
    }
    let well = checked.iter().all(|c| c.understood && c.runs != Some(false));
    if arguments.json {
        print_json(&checked)?;
    } else {
        let yes = |yes: bool| if yes { "yes" } else { "NO" }.to_owned();
        let rows: Vec<[String; 5]> = checked
            .iter()
            .map(|c| {
                let operations = c.operations.map_or_else(|| "-".to_owned(), nestor_report::units::count);
                let runs = c.runs.map_or_else(|| "-".to_owned(), yes);
                [c.script.clone(), yes(c.understood), runs, operations, c.note.clone()]
            })
            .collect();
        out!("{}", table(&["script", "understood", "runs", "operations", ""], &rows));
    }
    Ok(if well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn check(name: &str, arguments: &CheckArguments, interrupted: &Arc<AtomicBool>) -> Result<Checked> {
    let script =
        PathBuf::from(name).file_name().map_or_else(|| name.to_owned(), |n| n.to_string_lossy().into_owned());
    let loaded = match load(name, &[]) {
        Ok(loaded) => loaded,
        Err(e) => {
            let note = format!("{e:#}").lines().map(str::trim).collect::<Vec<_>>().join(" | ");
            return Ok(Checked { script, understood: false, runs: None, operations: None, note });
        }
    };
    let Some(directory) = &arguments.dir else {
        let warnings = loaded.script.warnings.len();
        let note = if warnings > 0 { format!("{warnings} warnings") } else { String::new() };
        return Ok(Checked { script, understood: true, runs: None, operations: None, note });
    };
    let directory = real(directory).with_context(|| format!("cannot use {}", directory.display()))?;
    // With an unpredictable name; removed with its owner.
    let own = temporary_directory_in(&directory, "nestor-check-");
    let own = own.with_context(|| format!("cannot create a directory in {}", directory.display()))?;
    let scaled = scale(&loaded.script, Scale::Tiny);
    let places = relocate(&scaled.script, own.path());
    let source = Source { name: &loaded.name, text: &loaded.text };
    make_places(&scaled.script, source, &places, own.path())?;
    let options = FlowOptions {
        places,
        inside: Some(own.path().to_owned()),
        seed: 1,
        data_seed: 1,
        time_s: Some(arguments.time),
        operations: arguments.operations,
        no_system: true,
        remove: true,
        growth_limit_bytes: scaled.growth_limit_bytes,
        ..FlowOptions::default()
    };
    let quiet = Quiet(Arc::clone(interrupted));
    let ran = run_script(&scaled.script, source, &options, &quiet);
    let path = own.path().to_owned();
    own.close().with_context(|| format!("cannot remove {}", path.display()))?;
    Ok(judge(script, ran))
}

fn judge(script: String, ran: Result<FlowReport, nestor_flowops::FlowError>) -> Checked {
    match ran {
        Ok(report) => {
            let operations = report.runs.iter().map(RunReport::operations).sum();
            let ill = report.runs.iter().find(|run| !run.ended.is_well());
            let note = ill.map(|run| format!("{:?}", run.ended)).unwrap_or_default();
            let runs = ill.is_none() && !report.runs.is_empty() && operations > 0;
            Checked { script, understood: true, runs: Some(runs), operations: Some(operations), note }
        }
        Err(e) => {
            Checked { script, understood: true, runs: Some(false), operations: None, note: e.to_string() }
        }
    }
}

/// Where a directory really is, if it exists and no other user can redirect the path.
fn real(directory: &Path) -> Result<PathBuf, NotMade> {
    let inside = open_above(&directory.join("inside"))?.path;
    Ok(inside.parent().unwrap_or(Path::new("/")).to_owned())
}

/// Keeps to itself what a script says, and stops it when the user wants to.
struct Quiet(Arc<AtomicBool>);

impl Listener for Quiet {
    fn say(&self, _line: &str) {}

    fn progress(&self, _what: &str, _share: f64) {}

    fn report(&self, _so_far: &RunReport) {}

    fn is_interrupted(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Needs root, because only root can change an owner.
    #[test]
    fn a_directory_behind_another_users_link_is_not_used() {
        let folder = tempfile::tempdir().unwrap();
        let (place, link) = (folder.path().canonicalize().unwrap(), folder.path().join("link"));
        std::os::unix::fs::symlink(&place, &link).unwrap();
        assert_eq!(real(&link).unwrap(), place, "a link of one's own");
        assert!(real(&place.join("missing")).is_err() && !place.join("missing").exists());
        if std::os::unix::fs::lchown(&link, Some(4321), None).is_ok() {
            let refused = real(&link).unwrap_err().to_string();
            assert!(refused.contains("link is a link of user 4321"), "{refused}");
        }
    }
}
