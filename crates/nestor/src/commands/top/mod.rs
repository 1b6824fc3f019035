//! `nestor top`: the layers of a running virtual machine on this machine, as they work.

mod find;
mod output;
mod watch;

use std::time::Duration;

use anyhow::Result;
use clap::Args;
use nestor_text::quantities::{TIME_FORM, parse_time};

/// Shorter intervals hold too few requests for a percentile, and longer ones are no look at what happens now.
const SHORTEST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(3600);

/// Arguments of `nestor top`.
#[derive(Args, Debug)]
pub struct TopArguments {
    /// The virtual machine of that name, as libvirt or QEMU's -name has it
    #[arg(long, value_name = "NAME", conflicts_with = "pid")]
    domain: Option<String>,
    /// The virtual machine that this process of QEMU runs, or any other process
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,
    /// What lies on this block device, or beside this image; needed where a virtual machine has images on several disks
    #[arg(long, value_name = "DEVICE")]
    device: Option<String>,
    /// How long each interval is, such as 1s, 0.5s or 1m
    #[arg(long, value_name = "TIME", value_parser = interval, default_value = "1s")]
    interval: Duration,
    /// Print a table for each of so many intervals and end, instead of a screen that is drawn anew
    #[arg(long, short = 'n', value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    intervals: Option<u32>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn interval(text: &str) -> Result<Duration, String> {
    let time = parse_time(text).ok_or_else(|| format!("write {TIME_FORM}"))?;
    match (SHORTEST..=LONGEST).contains(&time) {
        true => Ok(time),
        false => Err("an interval lasts from 0.1s to 1h".to_owned()),
    }
}

/// Runs it.
///
/// # Errors
/// When there is no virtual machine, it is not clear which is meant, or its layers cannot be watched.
pub fn run(arguments: &TopArguments) -> Result<()> {
    let found = find::find(&find::Wish {
        domain: arguments.domain.as_deref(),
        pid: arguments.pid,
        device: arguments.device.as_deref(),
    })?;
    let output = output::Kind::of(arguments.json, arguments.intervals.is_some());
    watch::watch(&found, output, arguments.interval, arguments.intervals)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_is_a_time_within_limits() {
        assert_eq!(interval("0.5s"), Ok(Duration::from_millis(500)));
        assert_eq!(interval("2"), Ok(Duration::from_secs(2)));
        assert!(interval("0").unwrap_err().contains("0.1s"));
        assert!(interval("2h").is_err() && interval("fast").is_err());
    }
}
