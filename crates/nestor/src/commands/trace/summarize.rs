//! `nestor trace summarize`: a recording condensed to the numbers of one layer.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;
use nestor_report::{LinkView, Style, link_table};
use nestor_trace::{LinkMetrics, SummarizeOptions, summarize_disk_log, summarize_recording_with};

use super::analyze::{attribution, text};
use crate::output::{print_json, say};

/// Arguments of `nestor trace summarize`.
#[derive(Args, Debug)]
pub struct SummarizeArguments {
    /// A directory made by `nestor trace record`
    #[arg(required_unless_present_any = ["disk_log", "link_log"])]
    recording: Option<PathBuf>,
    /// Remove the recording afterwards: what `nestor trace record` made, and the directory if nothing else is in it
    #[arg(long, requires = "recording")]
    remove: bool,
    /// A modelled disk's log instead
    #[arg(long, value_name = "FILE", conflicts_with = "recording")]
    disk_log: Option<PathBuf>,
    /// A modelled link's log instead
    #[arg(long, value_name = "FILE", conflicts_with_all = ["recording", "disk_log"])]
    link_log: Option<PathBuf>,
    /// The layout of the file system on the device, made by `nestor trace layout`: says what requests were for
    #[arg(long, value_name = "FILE", requires = "recording")]
    layout: Option<PathBuf>,
    /// Where that file system begins on the device, in bytes: of a partition on its disk
    #[arg(long, value_name = "BYTES", requires = "layout", default_value_t = 0)]
    layout_start: u64,
    /// Write the requests here, in the order of completion
    #[arg(long, value_name = "FILE", requires = "recording")]
    requests: Option<PathBuf>,
    /// The layer that made the requests, as the file of requests is to name it
    #[arg(long, default_value = "")]
    layer: String,
    /// The machine, likewise
    #[arg(long, default_value = "")]
    machine: String,
    /// What kind of trace point it is, likewise: `guest block`, `host block`
    #[arg(long, default_value = "block")]
    kind: String,
    /// Bytes of the device, likewise
    #[arg(long, default_value_t = 0)]
    disk_bytes: u64,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
}

/// Runs it.
///
/// # Errors
/// When the recording cannot be read, or the file of requests cannot be written.
pub fn run(arguments: &SummarizeArguments) -> Result<()> {
    if let Some(log) = &arguments.link_log {
        let metrics = LinkMetrics::of_log(log)?;
        return if arguments.json { print_json(&metrics) } else { print_link(&metrics) };
    }
    let attribution = arguments.layout.as_deref().map(attribution).transpose()?;
    let attribution = attribution.map(|known| known.starting_at(arguments.layout_start));
    let metrics = if let Some(log) = &arguments.disk_log {
        summarize_disk_log(log)?
    } else {
        let options = SummarizeOptions {
            attribution: attribution.as_ref(),
            requests: arguments.requests.clone(),
            layer: arguments.layer.clone(),
            machine: arguments.machine.clone(),
            kind: arguments.kind.clone(),
            device_bytes: arguments.disk_bytes,
        };
        summarize_recording_with(arguments.recording.as_deref().unwrap_or(Path::new(".")), &options)?
    };
    if arguments.json {
        print_json(&metrics)?;
    } else {
        say(&text::metrics(&metrics));
    }
    match arguments.recording.as_ref().filter(|_| arguments.remove) {
        Some(directory) => super::remove(directory),
        None => Ok(()),
    }
}

/// A link's numbers as `nestor run` shows them.
fn print_link(metrics: &LinkMetrics) -> Result<()> {
    for line in link_table(&LinkView::of("the link", metrics), Style::plain()) {
        outln!("{line}");
    }
    Ok(())
}
