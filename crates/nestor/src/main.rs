//! The command line of Nestor: wiring only.
//!
//! The same binary is the agent in every machine and, as the first process of a lab machine, its init.

#[macro_use]
extern crate nestor_terminal;

/// Prints to standard error, in lines that fit the terminal.
macro_rules! errln {
    ($($argument:tt)*) => { $crate::output::tell(&::std::format!($($argument)*)) };
}

mod output;

mod arguments;
mod at_manager;
mod cli;
mod command_groups;
mod commands;
mod expected;
mod gate;
mod interrupt;
mod json;
mod lab_image;
mod named;
mod named_studies;
#[cfg(test)]
mod option_names;
mod order;
mod paths;
mod place;
mod progress;
mod results_file;
mod scripts;
mod session;
mod signals;
mod slurm;
mod studies;
mod whole_file;

use std::backtrace::BacktraceStatus;
use std::process::ExitCode;

use anyhow::Result;
use clap::{CommandFactory as _, FromArgMatches as _};
use cli::{Cli, Command};
use nestor_text::complaint::ERROR;

fn main() -> ExitCode {
    if nestor_machine::init::is_first_process() {
        nestor_machine::init::run();
    }
    std::panic::set_hook(Box::new(|fault| {
        let place = std::backtrace::Backtrace::capture();
        errln!(
            "{fault}{}",
            if place.status() == BacktraceStatus::Captured { format!("\n{place}") } else { String::new() }
        );
    }));
    let parsed = command_groups::command_line().try_get_matches();
    let cli = match parsed.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        // It quotes the arguments, among which are names of files.
        Err(error) if error.use_stderr() => {
            err!("{}", output::fitted(&error.render().to_string(), output::columns_of_errors()));
            return gate::code_of_error(std::env::args_os()).unwrap_or(ExitCode::from(2));
        }
        Err(help) => help.exit(),
    };
    match run(cli) {
        Ok(code) => code,
        Err(error) => {
            errln!("{ERROR}{}", message(&error));
            gate::code_of_error(std::env::args_os()).unwrap_or(ExitCode::FAILURE)
        }
    }
}

/// An error with its causes, without those that a message already quotes.
fn message(error: &anyhow::Error) -> String {
    error.chain().skip(1).map(ToString::to_string).fold(error.to_string(), |text, cause| {
        if text.contains(&cause) { text } else { format!("{text}: {cause}") }
    })
}

fn run(cli: Cli) -> Result<ExitCode> {
    match cli.command {
        Command::Run(arguments) => return commands::run::run(&arguments),
        Command::Compare(arguments) => return commands::compare::run(&arguments),
        Command::Study(arguments) => return commands::study::run(&arguments),
        Command::Replicate(arguments) => return commands::replicate::run(&arguments),
        Command::Predict(arguments) => return commands::predict::run(&arguments),
        Command::Advise(arguments) => return commands::advise::run(&arguments),
        Command::Characterize(arguments) => commands::characterize::run(&arguments)?,
        Command::Top(arguments) => commands::top::run(&arguments)?,
        Command::Explain(arguments) => commands::explain::run(&arguments)?,
        Command::Report(arguments) => commands::report::run(&arguments)?,
        Command::Doctor(arguments) => commands::doctor::run(&arguments)?,
        Command::Disk(command) => commands::disk::run(command)?,
        Command::Link(command) => return commands::link::run(command),
        Command::Trace(command) => commands::trace::run(command)?,
        Command::Lab(command) => commands::lab::run(&command)?,
        Command::Stack(arguments) => commands::stack::run(&arguments)?,
        Command::Load(command) => return commands::load::run(&command),
        Command::Workloads(arguments) => commands::workloads::run(&arguments)?,
        Command::Completions { shell } => commands::shell::completions(shell, Cli::command()),
        Command::Man { pages: None } => commands::shell::manual(Cli::command())?,
        Command::Man { pages: Some(directory) } => commands::shell::manuals(Cli::command(), &directory)?,
        Command::Complete { words } => commands::complete::run(Cli::command(), &words),
        Command::Agent => commands::agent::run()?,
        Command::DomainAgent { domain } => commands::domain_agent::run(&domain)?,
        Command::SlurmTask { job } => return commands::slurm_task::run(&job),
    }
    Ok(ExitCode::SUCCESS)
}
