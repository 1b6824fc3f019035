//! `nestor trace analyze`: what a trace says of each device in it.

mod histograms;
#[cfg(test)]
mod tests;
pub mod text;

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use nestor_layout::Layout;
use nestor_trace::event::Device;
use nestor_trace::{Analysis, AnalyzeOptions, Attribution, analyze, decode};

use crate::output::{print_json, say};

/// Arguments of `nestor trace analyze`.
#[derive(Args, Debug)]
pub struct AnalyzeArguments {
    /// Traces: files of blktrace (all CPUs), blkparse's output, tracefs, fio's logs, MSR's CSV, …; or - for standard
    /// input, a directory, a name as `blkparse -i` takes it
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Only this device, as MAJOR:MINOR
    #[arg(long, value_name = "DEVICE", value_parser = device)]
    device: Option<Device>,
    /// The layout of the file system on the device, made by `nestor trace layout`: says what requests were for
    #[arg(long, value_name = "FILE")]
    layout: Option<PathBuf>,
    /// Tell threads apart
    #[arg(long)]
    per_process: bool,
    /// Print JSON instead of tables
    #[arg(long)]
    json: bool,
}

/// Takes `8:16` apart.
pub fn device(text: &str) -> Result<Device, String> {
    Device::parse(text, ':')
        .ok_or_else(|| format!("{text:?} is not a device number; write it as lsblk does: 8:16"))
}

/// Reads a layout that `nestor trace layout` wrote.
///
/// # Errors
/// When it cannot be read or is none.
pub fn attribution(path: &Path) -> Result<Attribution> {
    let shown = path.display();
    let file = File::open(path).with_context(|| format!("the layout {shown} could not be opened"))?;
    let layout = Layout::read_from(&mut BufReader::new(file)).with_context(|| {
        format!("the layout {shown} could not be read; make it with `nestor trace layout`")
    })?;
    Ok(Attribution::new(layout, &[]))
}

/// Runs it.
///
/// # Errors
/// When a trace cannot be read or has nothing of the device.
pub fn run(arguments: &AnalyzeArguments) -> Result<()> {
    let attribution = arguments.layout.as_deref().map(attribution).transpose()?;
    let options = AnalyzeOptions {
        device: arguments.device,
        per_process: arguments.per_process,
        attribution: attribution.as_ref(),
    };
    let analyses = read(&arguments.files, &options)?;
    if arguments.json {
        return print_json(&analyses);
    }
    for analysis in &analyses {
        say(&text::analysis(analysis));
    }
    Ok(())
}

/// Analyses every trace among `files`.
///
/// # Errors
/// When one cannot be read.
pub fn read(files: &[PathBuf], options: &AnalyzeOptions<'_>) -> Result<Vec<Analysis>> {
    let mut analyses = Vec::new();
    for trace in decode::open(files)? {
        analyses.push(analyze(trace, options)?);
    }
    if analyses.is_empty() {
        bail!("none of the files is a trace");
    }
    Ok(analyses)
}
