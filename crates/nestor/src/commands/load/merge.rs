//! `nestor load merge`: results of several machines as one.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::Args;
use nestor_flowops::FlowReport;

use super::table::flow_text;
use crate::output::{print_json, say};

/// Arguments of `nestor load merge`.
#[derive(Args, Debug)]
pub struct MergeArguments {
    /// What `nestor load wml … --json` printed on each machine
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
}

/// The names of the flowops of each run.
fn flowops(report: &FlowReport) -> Vec<Vec<&str>> {
    report.runs.iter().map(|run| run.flowops.iter().map(|flowop| flowop.name.as_str()).collect()).collect()
}

/// Merges them: operations add up, histograms are put together, percentiles are read from the whole.
///
/// # Errors
/// When a file cannot be read or is of another script.
pub fn run(arguments: &MergeArguments) -> Result<()> {
    let mut merged: Option<FlowReport> = None;
    for file in &arguments.files {
        let text = std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
        let report: FlowReport = serde_json::from_slice(&text)
            .with_context(|| format!("{} is not JSON from nestor load wml", file.display()))?;
        match &mut merged {
            None => merged = Some(report),
            Some(all) if flowops(all) == flowops(&report) => all.merge(&report),
            Some(_) => bail!(
                "{} has different runs or flowops from the files before it: only results of the same script \
                 can be merged",
                file.display()
            ),
        }
    }
    let merged = merged.unwrap_or_default();
    if arguments.json {
        return print_json(&merged);
    }
    say(&flow_text(&format!("{} machines", arguments.files.len()), 1.0, &merged));
    Ok(())
}
