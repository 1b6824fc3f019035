//! `nestor trace`: recordings of the block layer.

pub mod analyze;
pub mod application;
pub mod correlate;
pub mod diff;
pub mod export;
pub mod hypervisor;
pub mod layout;
pub mod processors;
pub mod stamp_write;
pub mod summarize;

use std::path::Path;

use anyhow::Result;
use nestor_trace::{Method, RecordOptions, record};

use crate::cli::{RecordMethod, TraceCommand};
use crate::interrupt::interrupted_by_signals;
use crate::output::print_json;
use analyze::text::metrics as render;

/// Removes a recording and says what else is in its directory.
///
/// # Errors
/// When it is none, or cannot be removed.
fn remove(recording: &Path) -> Result<()> {
    let left = nestor_trace::capture::remove_recording(recording)?;
    if !left.is_empty() {
        let left: Vec<String> = left.iter().map(|path| path.display().to_string()).collect();
        errln!("not removed, because it is not part of the recording: {}", left.join(", "));
    }
    Ok(())
}

/// Runs `nestor trace …`.
///
/// # Errors
/// When the device cannot be recorded, or a recording cannot be read.
pub fn run(command: TraceCommand) -> Result<()> {
    match command {
        TraceCommand::Record { device, output, method } => {
            let stop = interrupted_by_signals()?;
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
        TraceCommand::Processors(arguments) => processors::run(&arguments),
        TraceCommand::StampWrite(arguments) => stamp_write::run(&arguments),
        TraceCommand::Summarize(arguments) => summarize::run(&arguments),
    }
}
