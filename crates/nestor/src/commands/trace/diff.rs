//! `nestor trace diff`: two traces beside each other.

#[cfg(test)]
mod tests;
mod text;

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;
use nestor_trace::AnalyzeOptions;
use nestor_trace::diff::ComparedTraces;
use nestor_trace::event::Device;

use super::analyze::{device, read};
use crate::output::{print_json, say};

/// Arguments of `nestor trace diff`.
#[derive(Args, Debug)]
pub struct DiffArguments {
    /// A trace (a file, a directory, or a name as `blkparse -i` takes it): what to compare with
    a: PathBuf,
    /// The other one
    b: PathBuf,
    /// Only this device, as MAJOR:MINOR
    #[arg(long, value_name = "DEVICE", value_parser = device)]
    device: Option<Device>,
    /// Print JSON instead of tables
    #[arg(long)]
    json: bool,
}

/// Runs it.
///
/// # Errors
/// When a trace cannot be read, or the two have no device in common.
pub fn run(arguments: &DiffArguments) -> Result<()> {
    let options = AnalyzeOptions { device: arguments.device, ..AnalyzeOptions::default() };
    let a = read(std::slice::from_ref(&arguments.a), &options)?;
    let b = read(std::slice::from_ref(&arguments.b), &options)?;
    let compared = ComparedTraces::of(&a, &b);
    if compared.layers.is_empty() {
        bail!(
            "the two traces have no device in common; traces with several devices must have the same \
               device numbers"
        );
    }
    if arguments.json {
        return print_json(&compared);
    }
    say(&text::compared(&compared));
    Ok(())
}
