//! `nestor completions` and `nestor man`.

use anyhow::{Context, Result};
use clap::Command;

/// Prints the completions for a shell.
pub fn completions(shell: clap_complete::Shell, mut of: Command) {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut of, "nestor", &mut text);
    out!("{}", String::from_utf8_lossy(&text));
}

/// Prints the manual page.
///
/// # Errors
/// When it cannot be made.
pub fn manual(of: Command) -> Result<()> {
    let mut text = Vec::new();
    clap_mangen::Man::new(of).render(&mut text).context("the manual page could not be made")?;
    out!("{}", String::from_utf8_lossy(&text));
    Ok(())
}
