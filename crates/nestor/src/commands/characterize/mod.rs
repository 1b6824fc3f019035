//! `nestor characterize`: a load in a few numbers, as a file that runs and that predictions start from.

mod check;
mod disks;
mod live;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use nestor_characterize::of_traces;
use nestor_text::units::ByteUnit;
use nestor_trace::event::Device;
use nestor_workload::Profile;

use crate::arguments::duration;
use crate::interrupt::interrupted_by_signals;
use crate::output::print_json;
use crate::whole_file;

/// Arguments of `nestor characterize`.
#[derive(Args, Debug)]
pub struct CharacterizeArguments {
    /// How long to watch, such as 60s or 5m; a number alone is in seconds
    #[arg(long = "for", value_name = "TIME", value_parser = duration, default_value = "60s")]
    time: Duration,
    /// The block device, such as /dev/sda; in traces its number, such as 8:0
    #[arg(long, value_name = "DEVICE")]
    device: Option<String>,
    /// Only the requests of this process and those it started
    #[arg(long, value_name = "PID", conflicts_with_all = ["cgroup", "trace"])]
    pid: Option<u32>,
    /// Only the requests of the processes in this control group, such as system.slice/mysql.service
    #[arg(long, value_name = "GROUP", conflicts_with = "trace")]
    cgroup: Option<PathBuf>,
    /// Watch nothing: read these traces, of any form that `nestor trace analyze` reads
    #[arg(long = "traces", alias = "trace", id = "trace", value_name = "FILE", num_args = 1.., conflicts_with = "time")]
    trace: Vec<PathBuf>,
    /// Write the profile into this file instead of printing it
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Its name [default: that of the file]
    #[arg(long)]
    name: Option<String>,
    /// The application's own rate during that time, per second: transactions, messages
    #[arg(long, value_name = "NUMBER")]
    application_rate: Option<f64>,
    /// Run a load of the profile in this directory, fit its think time until the rates agree, and say how close the two are
    #[arg(long = "check-in", alias = "check", id = "check", value_name = "DIRECTORY")]
    check: Option<PathBuf>,
    /// Bytes of the file that this load works on [default: the span of the requests]
    #[arg(long, value_name = "BYTES", requires = "check", value_parser = file_bytes)]
    size: Option<u64>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn file_bytes(text: &str) -> Result<u64, String> {
    text.parse().map(nestor_stack::Bytes::get).map_err(|e: nestor_stack::ParseBytesError| e.to_string())
}

/// Runs it.
///
/// # Errors
/// When nothing can be watched, or there was too little to characterise.
pub fn run(arguments: &CharacterizeArguments) -> Result<()> {
    can_end_well(arguments)?;
    let mut profile = if arguments.trace.is_empty() {
        let interrupted = interrupted_by_signals()?;
        live::observe(&live::Watch {
            time: arguments.time,
            device: arguments.device.as_deref(),
            who: live::who(arguments.pid, arguments.cgroup.as_deref())?,
            interrupted: &interrupted,
        })?
    } else {
        of_traces(&arguments.trace, arguments.device.as_deref().map(number).transpose()?)?
    };
    profile.name = name(arguments);
    profile.rates.application_per_s = arguments.application_rate;
    // What was seen cannot be seen again: it is kept before anything else can fail.
    keep(arguments, &profile)?;
    let closeness = match &arguments.check {
        Some(directory) => {
            let closeness = check::fit(&mut profile, directory, arguments.size).map_err(|error| {
                let kept = arguments.output.as_ref().map_or_else(
                    || format!("the profile, with the think time as counted:\n{}", profile.to_toml()),
                    |file| format!("the profile is in {}", file.display()),
                );
                error.context(kept)
            })?;
            keep(arguments, &profile)?;
            Some(closeness)
        }
        None => None,
    };
    if arguments.json {
        return print_json(&serde_json::json!({ "profile": profile, "closeness": closeness }));
    }
    match &arguments.output {
        None => out!("{}", profile.to_toml()),
        Some(file) => outln!("{}\n\n{}", summary(&profile), next(&file.display().to_string())),
    }
    match (&closeness, &arguments.output) {
        (Some(closeness), Some(_)) => out!("\n{}", check::closeness_text(closeness)),
        // What is printed may be going into a file.
        (Some(closeness), None) => err!("\n{}", check::closeness_text(closeness)),
        (None, _) => errln!(
            "note: how close a load with this profile comes is not known yet; --check-in DIRECTORY tries it, \
             best on the same disk"
        ),
    }
    Ok(())
}

/// Writes the profile where the user wants it.
fn keep(arguments: &CharacterizeArguments, profile: &Profile) -> Result<()> {
    let Some(file) = &arguments.output else { return Ok(()) };
    whole_file::write(file, profile.to_toml().as_bytes())
        .with_context(|| format!("cannot write {}", file.display()))
}

/// Says what would fail afterwards before the time is spent.
fn can_end_well(arguments: &CharacterizeArguments) -> Result<()> {
    if let Some(directory) = &arguments.check
        && !directory.is_dir()
    {
        bail!(
            "{} is not a directory; --check-in needs a directory in which to run a load",
            directory.display()
        );
    }
    if let Some(file) = &arguments.output {
        whole_file::require_folder(file).with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(())
}

fn name(arguments: &CharacterizeArguments) -> String {
    let of_file = |path: &PathBuf| path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let given = arguments.name.clone();
    given
        .or_else(|| arguments.output.as_ref().and_then(of_file))
        .or_else(|| arguments.trace.first().and_then(of_file))
        .unwrap_or_else(|| "load".to_owned())
}

/// One line.
fn summary(profile: &Profile) -> String {
    let (requests, who, rates) = (&profile.requests, &profile.concurrency, &profile.rates);
    format!(
        "{}: {:.0} requests/s, {:.0} % reads, {:.0} % random, {} on average, {} workers that think {:.1} ms, {:.2} ms response",
        profile.name,
        rates.requests_per_s,
        requests.read_share * 100.0,
        requests.random_share * 100.0,
        ByteUnit::KiB.rounded(requests.mean_bytes, 1),
        who.workers,
        who.think_ms,
        rates.response_ms,
    )
}

fn next(file: &str) -> String {
    format!(
        "nestor load run {file} --dir DIRECTORY        runs such a load\n\
         nestor predict --workload {file} --to STACK   predicts what it will reach elsewhere"
    )
}

/// Takes a device's number apart, as traces have it.
fn number(text: &str) -> Result<Device> {
    match crate::commands::trace::analyze::device(text) {
        Ok(device) => Ok(device),
        Err(why) => bail!(why),
    }
}
