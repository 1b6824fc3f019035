//! `nestor trace hypervisor`: what QEMU did for a guest's disk.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use nestor_capture::{HypervisorOptions, record_hypervisor};
use nestor_stack::image_format;
use nestor_stack::layers::hypervisors::devices::{DiskInterface, device_model};
use nestor_trace::hypervisor::{HypervisorMetrics, HypervisorOutput, summarize_hypervisor};
use nestor_trace::recording::Interface;

use super::render;
use crate::interrupt::stopped_by_signals;
use crate::output::{print_json, say};

/// `nestor trace hypervisor …`
#[derive(Debug, Subcommand)]
pub enum HypervisorCommand {
    /// Record what a running QEMU is asked for by its guest, until interrupted
    Record(RecordArguments),
    /// Condense such a recording to the numbers of the virtual disk and of the image file
    Summarize(SummarizeArguments),
}

/// Arguments of `nestor trace hypervisor record`.
#[derive(Args, Debug)]
pub struct RecordArguments {
    /// Socket of a QMP monitor that no other program uses
    #[arg(long, value_name = "SOCKET")]
    monitor: PathBuf,
    /// Directory for the recording, which QEMU has to be able to write to
    #[arg(long, value_name = "DIRECTORY")]
    output: PathBuf,
    /// The disk's device model, as in the option `disk` of the layer kvm
    #[arg(long = "device-model", alias = "disk", value_name = "MODEL", default_value = "virtio-blk")]
    disk: String,
    /// The image's format, unless it is raw
    #[arg(long)]
    format: Option<String>,
    /// Log file of QEMU while no recorder runs
    #[arg(long, value_name = "FILE")]
    event_log: Option<PathBuf>,
}

/// Arguments of `nestor trace hypervisor summarize`.
#[derive(Args, Debug)]
pub struct SummarizeArguments {
    /// The directory of the recording
    recording: PathBuf,
    /// Write the requests on the virtual disk here
    #[arg(long, value_name = "FILE")]
    requests: Option<PathBuf>,
    /// Write the requests on the image file here
    #[arg(long, value_name = "FILE")]
    file_requests: Option<PathBuf>,
    /// The layer the requests belong to, as the file of requests is to name it
    #[arg(long, default_value = "kvm")]
    layer: String,
    /// The machine the hypervisor runs on, as the file of requests is to name it
    #[arg(long, default_value = "host")]
    machine: String,
    /// Bytes of the virtual disk
    #[arg(long, default_value_t = 0)]
    disk_bytes: u64,
    /// Remove the recording afterwards: what was recorded, and the directory if nothing else is in it
    #[arg(long)]
    remove: bool,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
}

/// Runs it.
///
/// # Errors
/// When QEMU cannot be recorded, or a recording cannot be read.
pub fn run(command: HypervisorCommand) -> Result<()> {
    match command {
        HypervisorCommand::Record(arguments) => {
            let Some(model) = device_model(&arguments.disk) else {
                bail!("`{}` is not a device model; `nestor stack` lists them", arguments.disk);
            };
            let stop = stopped_by_signals()?;
            let options = HypervisorOptions {
                monitor: arguments.monitor,
                output: arguments.output,
                interface: traced(model.interface),
                format: arguments.format.filter(|format| !is_plain(format)).map(Into::into),
                event_log: arguments.event_log,
            };
            print_json(&record_hypervisor(&options, &stop)?)
        }
        HypervisorCommand::Summarize(arguments) => summarize(&arguments),
    }
}

/// Whether an image of a format has no tables, so that each of its requests is one of the virtual disk. QEMU has formats that are no layers here.
fn is_plain(format: &str) -> bool {
    image_format(format).is_some_and(|format| format.map.is_none())
}

/// The events that show the requests of an interface.
fn traced(interface: DiskInterface) -> Interface {
    match interface {
        DiskInterface::VirtioBlk => Interface::VirtioBlk,
        DiskInterface::Scsi => Interface::Scsi,
        DiskInterface::Ata => Interface::Ata,
        DiskInterface::Nvme => Interface::Nvme,
    }
}

fn summarize(arguments: &SummarizeArguments) -> Result<()> {
    let output = HypervisorOutput {
        disk_requests: arguments.requests.clone(),
        file_requests: arguments.file_requests.clone(),
        layer: arguments.layer.clone(),
        machine: arguments.machine.clone(),
        disk_bytes: arguments.disk_bytes,
    };
    let metrics = summarize_hypervisor(&arguments.recording, &output)?;
    if arguments.json {
        print_json(&metrics)?;
    } else {
        say(&text(&metrics));
    }
    if arguments.remove {
        super::remove(&arguments.recording)?;
    }
    Ok(())
}

fn text(metrics: &HypervisorMetrics) -> String {
    let mut text = format!("virtual disk\n{}", render(&metrics.disk));
    if let Some(file) = &metrics.file {
        let format = &metrics.format;
        text += &format!("\nimage file\n{}", render(file));
        text += &format!(
            "  tables read {}, written {}, made {}; allocations {}\n",
            format.table_reads, format.table_writes, format.tables_made, format.allocations
        );
    }
    text
}
