//! `nestor trace stamp-write`: marked data for tests of joins; see [`nestor_correlate::stamps`].

use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::Args;
use nestor_correlate::stamps::{StampWriteOptions, fill, write_operations, write_stamped};

use crate::whole_file;

/// Arguments of `nestor trace stamp-write`.
#[derive(Args, Debug)]
pub struct StampWriteArguments {
    /// The block device, or a file; what it holds is lost
    #[arg(long, value_name = "DEVICE")]
    device: PathBuf,
    /// Where the operations go, one JSON object a line
    #[arg(long, value_name = "FILE", required_unless_present = "fill")]
    operations: Option<PathBuf>,
    /// Instead of operations: fill the device with data that carry no marks
    #[arg(long, conflicts_with = "operations")]
    fill: bool,
    /// Only so much of the device from its beginning [default: all of it]
    #[arg(long, value_name = "SIZE")]
    span: Option<nestor_stack::Bytes>,
    /// How many operations
    #[arg(long, default_value_t = 10_000)]
    requests: u64,
    /// Operations in flight
    #[arg(long, default_value_t = 16)]
    depth: usize,
    /// Size of each
    #[arg(long, value_name = "SIZE", default_value = "4K")]
    bytes: nestor_stack::Bytes,
    /// Share of reads
    #[arg(long, default_value_t = 0.3)]
    reads: f64,
    /// Share that follows the one before
    #[arg(long, default_value_t = 0.3)]
    sequential: f64,
    /// Decides places and order
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Runs it.
///
/// # Errors
/// When the device cannot be written or read past the caches.
pub fn run(arguments: &StampWriteArguments) -> Result<()> {
    let device = &arguments.device;
    if device.is_dir() {
        bail!(
            "{} is a directory: marked data go to a block device, so use a stack without a file system at \
             its top (kvm/raw/ext4/hdd, not ext4/kvm/raw/ext4/hdd)",
            device.display()
        );
    }
    let span_bytes = match arguments.span {
        Some(span) => span.get(),
        None => File::open(device)
            .and_then(|mut file| file.seek(SeekFrom::End(0)))
            .with_context(|| format!("cannot open {}", device.display()))?,
    };
    let Some(to) = &arguments.operations else {
        return fill(device, span_bytes).with_context(|| format!("cannot fill {}", device.display()));
    };
    let operations = write_stamped(&StampWriteOptions {
        device: device.clone(),
        span_bytes,
        requests: arguments.requests,
        depth: arguments.depth,
        bytes: arguments.bytes.get(),
        reads: arguments.reads,
        sequential: arguments.sequential,
        seed: arguments.seed,
    })
    .with_context(|| format!("cannot write marked data to {}", device.display()))?;
    let mut text = Vec::new();
    write_operations(&operations, &mut text)
        .and_then(|()| whole_file::write(to, &text))
        .with_context(|| format!("cannot write the operations to {}", to.display()))
}
