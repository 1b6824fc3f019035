//! `nestor trace calls`: the calls of a network file system at one end, recorded until it is interrupted.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, ValueEnum};
use nestor_capture::{CallOptions, record_calls};
use nestor_trace::CallEnd;

use crate::interrupt::stopped_by_signals;
use crate::output::print_json;

/// Arguments of `nestor trace calls`.
#[derive(Args, Debug)]
pub struct CallsArguments {
    /// Which end this machine is
    #[arg(long, value_enum)]
    end: End,
    /// Directory for the recording
    #[arg(long, value_name = "DIRECTORY")]
    output: PathBuf,
}

/// Ends of calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum End {
    /// Where NFS is mounted.
    Client,
    /// Where it is served.
    Server,
}

/// Runs it.
///
/// # Errors
/// When calls cannot be recorded.
pub fn run(arguments: CallsArguments) -> Result<()> {
    let end = match arguments.end {
        End::Client => CallEnd::Client,
        End::Server => CallEnd::Server,
    };
    print_json(&record_calls(&CallOptions { end, output: arguments.output }, &stopped_by_signals()?)?)
}
