//! `nestor completions` and `nestor man`.

use anyhow::{Context, Result};
use clap::CommandFactory;

use crate::cli::Cli;

/// Prints the completions for a shell.
pub fn completions(shell: clap_complete::Shell) {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "nestor", &mut text);
    out!("{}", String::from_utf8_lossy(&text));
}

/// Prints the manual page.
///
/// # Errors
/// When it cannot be made.
pub fn manual() -> Result<()> {
    let mut text = Vec::new();
    clap_mangen::Man::new(Cli::command()).render(&mut text).context("the manual page could not be made")?;
    out!("{}", String::from_utf8_lossy(&text));
    Ok(())
}
