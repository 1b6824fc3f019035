//! `nestor load …`: workloads on this machine's own directories and devices, without a lab.

mod check;
mod files;
mod list;
mod merge;
mod plain;
mod replay;
mod several;
mod table;
mod target;
mod timed;
mod wml;

use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;

use crate::arguments::JsonArguments;
pub use plain::run_in;

/// `nestor load …`
#[derive(Debug, Subcommand)]
pub enum LoadCommand {
    /// Run a script of Filebench's Workload Model Language, of either dialect
    #[command(
        after_help = "Examples:\n  nestor load wml workloads/fileserver.f --dir /srv/test --time 10\n  \
        nestor load wml mailserver --dir /srv/test --scale tiny\n  \
        nestor load wml webserver --dir /srv/test --memory-multiple 2 --json\n  \
        nestor load wml varmail.f --dir /srv/test --set nfiles=5000 --open-loop 200"
    )]
    Wml(Box<wml::WmlArguments>),
    /// Run fio, PostMark, Bonnie++, dbench or another workload on a directory or device
    #[command(after_help = "Examples:\n  nestor load run fio:rand-read:size=1G --dir /srv/test\n  \
        nestor load run postmark:small --dir /srv/test")]
    Run(plain::PlainArguments),
    /// Send the requests of a recorded block trace again
    Replay(replay::ReplayArguments),
    /// List the workloads of the published studies by name
    List(JsonArguments),
    /// Check that scripts parse and, with --dir, that they run
    #[command(
        after_help = "Examples:\n  nestor load check *.f\n  nestor load check --dir /srv/test --time 2"
    )]
    Check(check::CheckArguments),
    /// Merge the results of several machines (JSON of `nestor load wml`)
    #[command(after_help = "Example:\n  nestor load merge machine-1.json machine-2.json")]
    Merge(merge::MergeArguments),
    /// Run a program and write what time it took
    #[command(hide = true)]
    Timed(timed::TimedArguments),
}

/// Runs the command.
///
/// # Errors
/// As the command says.
pub fn run(command: &LoadCommand) -> Result<ExitCode> {
    match command {
        LoadCommand::Wml(arguments) => return wml::run(arguments),
        LoadCommand::Run(arguments) => plain::run(arguments)?,
        LoadCommand::Replay(arguments) => replay::run(arguments)?,
        LoadCommand::List(arguments) => list::run(arguments)?,
        LoadCommand::Check(arguments) => return check::run(arguments),
        LoadCommand::Merge(arguments) => merge::run(arguments)?,
        LoadCommand::Timed(arguments) => return timed::run(arguments),
    }
    Ok(ExitCode::SUCCESS)
}
