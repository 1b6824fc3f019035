//! `nestor trace`: recordings of the block layer.

pub mod analyze;
pub mod application;
pub mod correlate;
pub mod diff;
pub mod export;
pub mod hypervisor;
pub mod layout;
pub mod stamp_write;
pub mod summarize;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result};
use nestor_trace::{Method, RecordOptions, record};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::cli::{RecordMethod, TraceCommand};
use crate::output::print_json;
use analyze::text::metrics as render;

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
        TraceCommand::Analyze(arguments) => analyze::run(&arguments),
        TraceCommand::Diff(arguments) => diff::run(&arguments),
        TraceCommand::Application(arguments) => application::run(arguments),
        TraceCommand::Correlate(arguments) => correlate::run(&arguments),
        TraceCommand::Export(arguments) => export::run(&arguments),
        TraceCommand::Hypervisor(command) => hypervisor::run(command),
        TraceCommand::Layout(arguments) => layout::run(&arguments),
        TraceCommand::ThawWhenLeft(arguments) => layout::guard::run(&arguments),
        TraceCommand::StampWrite(arguments) => stamp_write::run(&arguments),
        TraceCommand::Summarize(arguments) => summarize::run(&arguments),
    }
}
