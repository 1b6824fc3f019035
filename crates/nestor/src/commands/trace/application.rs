//! `nestor trace application`: fio's own record of its operations as requests.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use nestor_trace::application::{ApplicationOptions, summarize_application};

use crate::output::print_json;

/// Arguments of `nestor trace application`.
#[derive(Args, Debug)]
pub struct ApplicationArguments {
    /// fio's latency log, with an entry for every operation (--log_offset=1 --log_unix_epoch=1, no --log_avg_msec)
    #[arg(long, value_name = "FILE")]
    latency_log: PathBuf,
    /// fio's iolog (--write_iolog)
    #[arg(long, value_name = "FILE")]
    iolog: PathBuf,
    /// The layout of the file system that holds the files, made by `nestor trace layout`
    #[arg(long, value_name = "FILE")]
    layout: Option<PathBuf>,
    /// Write the requests here
    #[arg(long, value_name = "FILE")]
    requests: Option<PathBuf>,
    /// The machine, as the file of requests is to name it
    #[arg(long, default_value = "application")]
    machine: String,
}

/// Runs it.
///
/// # Errors
/// When a log cannot be read or the requests not be written.
pub fn run(arguments: ApplicationArguments) -> Result<()> {
    let options = ApplicationOptions {
        latency_log: arguments.latency_log,
        iolog: arguments.iolog,
        layout: arguments.layout,
        requests: arguments.requests,
        machine: arguments.machine,
    };
    print_json(&summarize_application(&options)?)
}
