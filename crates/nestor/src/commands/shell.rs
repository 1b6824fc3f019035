//! `nestor completions` and `nestor man`.

use anyhow::{Context, Result};
use clap::CommandFactory;

use crate::cli::Cli;

/// Prints the completions for a shell.
pub fn completions(shell: clap_complete::Shell) {
    clap_complete::generate(shell, &mut Cli::command(), "nestor", &mut std::io::stdout());
}

/// Prints the manual page.
///
/// # Errors
/// When standard output cannot be written.
pub fn manual() -> Result<()> {
    clap_mangen::Man::new(Cli::command())
        .render(&mut std::io::stdout())
        .context("the manual page could not be written")
}
