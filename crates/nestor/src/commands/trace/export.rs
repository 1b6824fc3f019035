//! `nestor trace export`: traces in the formats of other programs.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::{ArgGroup, Args};
use nestor_export::{Format, TimeWindow, Written, export_to_file, open_inputs};
use nestor_report::units;
use nestor_text::quantities::{TIME_FORM, parse_time};
use serde::Serialize;

use crate::output::print_json;
use crate::paths::temporary_directory;
use crate::whole_file;

/// Arguments of `nestor trace export`.
#[derive(Args, Debug)]
#[command(
    group(ArgGroup::new("format").required(true).multiple(true).args(["perfetto", "parquet", "csv"])),
    after_help = "Examples:\n  \
        nestor run ext3/kvm/raw/jfs/hdd fio:seq-write --trace-to traces\n  \
        nestor trace export --perfetto run.perfetto-trace traces\n  \
        nestor trace export --csv requests.csv sda.blktrace.*\n\n\
        Open a .perfetto-trace in Perfetto's viewer: it has one track for each slot of a queue, and arrows \
        from each request to the requests that it caused below."
)]
pub struct ExportArguments {
    /// A directory made by `nestor run --trace-to`, or files of requests or traces, the topmost layer's first
    #[arg(required = true)]
    inputs: Vec<PathBuf>,
    /// Write a trace for Perfetto
    #[arg(long, value_name = "FILE")]
    perfetto: Option<PathBuf>,
    /// Write a Parquet file, one row per request
    #[arg(long, value_name = "FILE")]
    parquet: Option<PathBuf>,
    /// Write comma-separated values, one line per request
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Leave out requests that ended before this many seconds after the first
    #[arg(long = "since", alias = "from", value_name = "TIME", value_parser = seconds)]
    from: Option<u64>,
    /// Leave out requests that began after this many seconds after the first
    #[arg(long = "until", alias = "to", value_name = "TIME", value_parser = seconds)]
    to: Option<u64>,
    /// Replace files that are there
    #[arg(long)]
    force: bool,
    /// Print JSON: what was written, and remarks
    #[arg(long)]
    json: bool,
}

/// A file that was made.
#[derive(Debug, Serialize)]
struct Made<'a> {
    file: &'a Path,
    requests: u64,
    links: u64,
    bytes: u64,
}

/// Everything that is printed as JSON.
#[derive(Debug, Serialize)]
struct Printed<'a> {
    files: Vec<Made<'a>>,
    remarks: &'a [String],
}

/// Runs `nestor trace export`.
///
/// # Errors
/// When an input cannot be read, a file is there already, or one cannot be written.
pub fn run(arguments: &ExportArguments) -> Result<()> {
    // Traces of other programs become files of requests first; these are large, so not in /tmp, which may be memory.
    let scratch = temporary_directory("nestor-export-")?;
    let mut inputs = open_inputs(&arguments.inputs, scratch.path())?;
    if arguments.from.is_some() || arguments.to.is_some() {
        let (from_ns, to_ns) = (arguments.from.unwrap_or(0), arguments.to.unwrap_or(u64::MAX));
        inputs.trace.window = Some(TimeWindow { from_ns, to_ns });
    }
    let wanted = [
        (&arguments.perfetto, Format::Perfetto),
        (&arguments.parquet, Format::Parquet),
        (&arguments.csv, Format::Csv),
    ];
    let mut files = Vec::new();
    for (path, format) in wanted {
        let Some(path) = path else { continue };
        whole_file::check_way(path).with_context(|| format!("cannot write {}", path.display()))?;
        let Written { requests, links, bytes } =
            export_to_file(&inputs.trace, format, path, arguments.force)?;
        files.push(Made { file: path, requests, links, bytes });
    }
    if arguments.json {
        return print_json(&Printed { files, remarks: &inputs.remarks });
    }
    for made in &files {
        outln!(
            "  {}  {}, {}, {}",
            made.file.display(),
            units::plural_u64(made.requests, "request", "requests"),
            units::plural_u64(made.links, "link", "links"),
            units::bytes(made.bytes)
        );
    }
    for remark in &inputs.remarks {
        outln!("  {remark}");
    }
    Ok(())
}

/// Seconds as nanoseconds.
fn seconds(text: &str) -> Result<u64, String> {
    let time = parse_time(text).ok_or_else(|| format!("write {TIME_FORM}"))?;
    // What is beyond the largest number becomes that: later than any trace.
    Ok(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
}
