//! `nestor trace`: recordings of the block layer.

pub mod application;
pub mod correlate;
pub mod hypervisor;
pub mod layout;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result};
use nestor_layout::Layout;
use nestor_trace::attribute::Attribution;
use nestor_trace::summarize::{SummarizeOptions, summarize_recording_with};
use nestor_trace::{LayerMetrics, Method, RecordOptions, record, summarize_disk_log};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::cli::{RecordMethod, TraceCommand};
use crate::output::{print_json, table};

/// Runs `nestor trace …`.
///
/// # Errors
/// When the device cannot be recorded, or a recording cannot be read.
pub fn run(command: TraceCommand) -> Result<()> {
    match command {
        TraceCommand::Record { device, output, method } => {
            let stop = Arc::new(AtomicBool::new(false));
            for signal in [SIGINT, SIGTERM, SIGHUP] {
                signal_hook::flag::register(signal, Arc::clone(&stop))
                    .context("signals could not be caught")?;
            }
            let method = match method {
                RecordMethod::Auto => Method::Auto,
                RecordMethod::Relay => Method::Relay,
                RecordMethod::Tracefs => Method::Tracefs,
            };
            print_json(&record(&RecordOptions { device, output, method }, &stop)?)
        }
        TraceCommand::Application(arguments) => application::run(arguments),
        TraceCommand::Correlate(arguments) => correlate::run(&arguments),
        TraceCommand::Hypervisor(command) => hypervisor::run(command),
        TraceCommand::Layout(arguments) => layout::run(&arguments),
        TraceCommand::Summarize { recording, remove, layout, requests, disk_log, json } => {
            let recorded = recording.clone();
            let metrics = match (recording, disk_log) {
                (_, Some(log)) => summarize_disk_log(&log)?,
                (directory, None) => {
                    let directory = directory.unwrap_or_else(|| ".".into());
                    let attribution = layout.as_deref().map(attribution).transpose()?;
                    let options = SummarizeOptions {
                        attribution: attribution.as_ref(),
                        requests,
                        ..SummarizeOptions::default()
                    };
                    summarize_recording_with(&directory, &options)?
                }
            };
            if json {
                print_json(&metrics)?;
            } else {
                out!("{}", render(&metrics));
            }
            match recorded.filter(|_| remove) {
                Some(directory) => std::fs::remove_dir_all(&directory)
                    .with_context(|| format!("the recording {} could not be removed", directory.display())),
                None => Ok(()),
            }
        }
    }
}

/// What the bytes of a device are for, from a layout that was written before. Images are marked in it.
fn attribution(layout: &Path) -> Result<Attribution> {
    let file = std::fs::File::open(layout)
        .with_context(|| format!("the layout {} could not be opened", layout.display()))?;
    let read = Layout::read_from(&mut std::io::BufReader::new(file))
        .with_context(|| format!("the layout {} could not be read", layout.display()))?;
    Ok(Attribution::new(read, &[]))
}

fn render(metrics: &LayerMetrics) -> String {
    let directions = [("read", &metrics.read), ("write", &metrics.write), ("discard", &metrics.discard)];
    let counts: Vec<[String; 7]> = directions
        .iter()
        .map(|(name, d)| {
            [
                (*name).to_owned(),
                d.queued.to_string(),
                d.back_merges.to_string(),
                d.front_merges.to_string(),
                d.issued.to_string(),
                d.completed.to_string(),
                format!("{} KiB", d.issued_bytes >> 10),
            ]
        })
        .collect();
    let mut text =
        table(&["", "queued", "back merges", "front merges", "issued", "completed", "bytes"], &counts);
    text += &format!("  flushes {}   FUA writes {}\n\n", metrics.flushes, metrics.fua_writes);
    let phases = [("Q2I", &metrics.q2i), ("I2D", &metrics.i2d), ("D2C", &metrics.d2c), ("Q2C", &metrics.q2c)];
    let microseconds = |ns: f64| format!("{:.1} us", ns / 1e3);
    let rows: Vec<[String; 7]> = phases
        .iter()
        .filter_map(|(name, histogram)| {
            let s = histogram.as_ref()?.summary()?;
            let quantiles =
                [s.min_ns, s.p50_ns, s.p90_ns, s.p99_ns, s.max_ns].map(|ns| microseconds(ns as f64));
            let [min, p50, p90, p99, max] = quantiles;
            Some([(*name).to_owned(), microseconds(s.mean_ns), min, p50, p90, p99, max])
        })
        .collect();
    text += &table(&["", "mean", "min", "p50", "p90", "p99", "max"], &rows);
    for remark in &metrics.remarks {
        text += &format!("  {remark}\n");
    }
    text
}
