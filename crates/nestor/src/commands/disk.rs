//! `nestor disk`: modelled media.

use std::io::Write as _;

use anyhow::{Context, Result, anyhow, bail};
use nestor_disk_server::control::{ControlRequest, ControlResponse};
use nestor_disk_server::{ControlClient, DiskTime, ServeOptions};
use nestor_text::units::ByteUnit;
use serde_json::json;

use crate::arguments::{DiskCommand, DiskTimeArgument, ServeArguments, Switch};
use crate::interrupt::stopped_by_signals;
use crate::output::{print_json, say, table};

/// Runs `nestor disk …`.
///
/// # Errors
/// An unknown profile, or a server that does not answer.
pub fn run(command: DiskCommand) -> Result<()> {
    match command {
        DiskCommand::List(arguments) => list(arguments.json),
        DiskCommand::Check { profile, json } => check(&profile, json),
        DiskCommand::Serve(arguments) => serve(&arguments),
        DiskCommand::Library { file } => {
            let made = nestor_ownership::new_file(&file, 0o666);
            made.and_then(|mut library| library.write_all(nestor_vtime::LIBRARY))
                .with_context(|| format!("the library could not be written to {}", file.display()))
        }
        DiskCommand::Control { control, words } => {
            let request = control_request(&words)?;
            match ControlClient::connect(&control)?.request(&request)? {
                ControlResponse::Failed { reason } => Err(anyhow!("the disk refused: {reason}")),
                answer => print_json(&answer),
            }
        }
    }
}

fn list(as_json: bool) -> Result<()> {
    let profiles = nestor_disk::profiles::PROFILES;
    if as_json {
        let rows: Vec<_> = profiles
            .iter()
            .map(|p| json!({ "profile": p.name, "kind": p.medium.kind(), "capacity_bytes": p.capacity_bytes, "title": p.title }))
            .collect();
        return print_json(&rows);
    }
    let rows: Vec<[String; 4]> = profiles
        .iter()
        .map(|p| {
            let gigabytes = ByteUnit::GB.rounded(p.capacity_bytes as f64, 0);
            [p.name.to_owned(), p.medium.kind().to_owned(), gigabytes, p.title.to_owned()]
        })
        .collect();
    out!("{}", table(&["profile", "kind", "capacity", ""], &rows));
    Ok(())
}

fn check(profile: &str, as_json: bool) -> Result<()> {
    let profiles = match profile {
        "all" => nestor_disk::profiles::PROFILES.to_vec(),
        name => vec![nestor_disk::profile(name)?],
    };
    let reports = profiles.into_iter().map(nestor_disk::check).collect::<Result<Vec<_>, _>>()?;
    if as_json {
        return print_json(&reports);
    }
    for (index, report) in reports.iter().enumerate() {
        if index > 0 {
            outln!();
        }
        say(&report.to_text());
    }
    Ok(())
}

fn serve(arguments: &ServeArguments) -> Result<()> {
    let stop = stopped_by_signals()?;
    nestor_disk_server::serve(ServeOptions {
        profile: arguments.profile.clone(),
        size_bytes: arguments.size.get(),
        offset_bytes: arguments.at.get(),
        socket: arguments.socket.clone(),
        data: arguments.data.clone(),
        control: arguments.control.clone(),
        log: arguments.log.clone(),
        stamps: arguments.stamps.clone(),
        write_cache: arguments.write_cache.map(|switch| switch == Switch::On),
        turned: arguments.turned,
        timing: arguments.timing == Switch::On,
        durable: arguments.durable,
        serial: arguments.serial.clone(),
        once: false,
        end_with_parent: false,
        time: match arguments.time {
            DiskTimeArgument::Real => DiskTime::Real,
            DiskTimeArgument::Virtual => DiskTime::Virtual,
        },
        read_only: arguments.read_only,
        stop,
    })?;
    Ok(())
}

fn control_request(words: &[String]) -> Result<ControlRequest> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    Ok(match words.as_slice() {
        ["timing", state @ ("on" | "off")] => ControlRequest::Timing { on: *state == "on" },
        ["start-log", path] => ControlRequest::StartLog { path: std::path::absolute(path)? },
        ["stop-log"] => ControlRequest::StopLog,
        ["start-stamps", path] => ControlRequest::StartStamps { path: std::path::absolute(path)? },
        ["stop-stamps"] => ControlRequest::StopStamps,
        ["reset"] => ControlRequest::Reset,
        ["statistics"] => ControlRequest::Statistics,
        ["quit"] => ControlRequest::Quit,
        other => bail!(
            "`{}` is not a command of a disk; the commands are: timing on|off, start-log FILE, stop-log, \
             reset, statistics, quit",
            other.join(" ")
        ),
    })
}
