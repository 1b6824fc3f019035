//! `nestor trace`: recordings of the block layer.

pub mod analyze;
pub mod application;
pub mod calls;
pub mod classify;
pub mod correlate;
pub mod diff;
pub mod export;
pub mod handles;
pub mod hypervisor;
pub mod layout;
pub mod processors;
pub mod stamp_write;
pub mod summarize;

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::{Subcommand, ValueEnum};
use nestor_capture::{Method, RecordOptions, record};

use crate::interrupt::stopped_by_signals;
use crate::output::print_json;
use analyze::text::metrics as render;

/// Removes a recording and says what else is in its directory.
///
/// # Errors
/// When it is none, or cannot be removed.
fn remove(recording: &Path) -> Result<()> {
    let left = nestor_capture::remove_recording(recording)?;
    if !left.is_empty() {
        let left: Vec<String> = left.iter().map(|path| path.display().to_string()).collect();
        errln!("not removed, because it is not part of the recording: {}", left.join(", "));
    }
    Ok(())
}

/// `nestor trace …`
#[derive(Debug, Subcommand)]
pub enum TraceCommand {
    /// Record the block layer's events of a device until interrupted
    Record {
        /// The block device
        #[arg(long, value_name = "DEVICE")]
        device: PathBuf,
        /// Directory for the recording
        #[arg(long, value_name = "DIRECTORY")]
        output: PathBuf,
        /// How to record: blktrace's relay files, tracefs (if the kernel locks those), or whichever works
        #[arg(long, value_enum, default_value = "auto")]
        method: RecordMethod,
    },
    /// Convert fio's own log of its operations into requests
    Application(application::ApplicationArguments),
    /// Record the calls of NFS at one end until interrupted
    #[command(hide = true)]
    Calls(calls::CallsArguments),
    /// Say what the requests on a server's or host's disk are for from the layout in an image alone, and how often that is right
    Classify(classify::ClassifyArguments),
    /// Join the requests of a guest with those of its hypervisor, its host and the disk
    Correlate(correlate::CorrelateArguments),
    /// Say by which handles this machine's server of NFS knows the files of an exported directory
    #[command(hide = true)]
    Handles(handles::HandlesArguments),
    /// Record and summarise what QEMU does for a guest's disk
    #[command(subcommand)]
    Hypervisor(hypervisor::HypervisorCommand),
    /// Sample how busy this machine's processors are until interrupted
    #[command(hide = true)]
    Processors(processors::ProcessorsArguments),
    /// Write marked data to a device, for tests of joins
    #[command(hide = true)]
    StampWrite(stamp_write::StampWriteArguments),
    /// Thaw a file system if the process that froze it is killed
    #[command(hide = true)]
    ThawWhenLeft(layout::guard::GuardArguments),
    /// Read what each byte of a file system's device is used for
    Layout(layout::LayoutArguments),
    /// Write requests as a trace for Perfetto, as Parquet or as CSV
    Export(export::ExportArguments),
    /// Summarise a recording, or a modelled disk's log, as the numbers of one layer
    Summarize(summarize::SummarizeArguments),
    /// Summarise each device in a trace
    #[command(
        after_help = "Examples:\n  nestor trace analyze sda.blktrace.*\n  nestor trace analyze --device 8:0 --per-process sda\n  blkparse -i sda -d - -O -o /dev/null | nestor trace analyze -"
    )]
    Analyze(analyze::AnalyzeArguments),
    /// Compare two traces
    Diff(diff::DiffArguments),
}

/// Ways to record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RecordMethod {
    /// Whichever works.
    Auto,
    /// blktrace.
    Relay,
    /// tracefs.
    Tracefs,
}

/// Runs `nestor trace …`.
///
/// # Errors
/// When the device cannot be recorded, or a recording cannot be read.
pub fn run(command: TraceCommand) -> Result<()> {
    match command {
        TraceCommand::Record { device, output, method } => {
            let stop = stopped_by_signals()?;
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
        TraceCommand::Calls(arguments) => calls::run(arguments),
        TraceCommand::Classify(arguments) => classify::run(&arguments),
        TraceCommand::Correlate(arguments) => correlate::run(&arguments),
        TraceCommand::Export(arguments) => export::run(&arguments),
        TraceCommand::Handles(arguments) => handles::run(&arguments),
        TraceCommand::Hypervisor(command) => hypervisor::run(command),
        TraceCommand::Layout(arguments) => layout::run(&arguments),
        TraceCommand::ThawWhenLeft(arguments) => layout::guard::run(&arguments),
        TraceCommand::Processors(arguments) => processors::run(&arguments),
        TraceCommand::StampWrite(arguments) => stamp_write::run(&arguments),
        TraceCommand::Summarize(arguments) => summarize::run(&arguments),
    }
}
