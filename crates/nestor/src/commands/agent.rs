//! `nestor agent`: obeys requests on standard input and output until they end.

use std::sync::Arc;

use anyhow::{Context, Result, bail};
use nestor_machine::agent::{Agent, decline, work_root};
use nestor_text::complaint::WARNING;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// Serves until standard input ends or a signal comes; either way everything is taken down.
///
/// # Errors
/// When the work directory cannot be made, or something could not be taken down.
#[expect(clippy::disallowed_methods, reason = "the agent writes frames, not text for a terminal")]
pub fn run() -> Result<()> {
    let root = work_root();
    let agent = match Agent::new(&root) {
        Ok(agent) => Arc::new(agent),
        Err(e) => {
            decline(std::io::stdout(), &e.to_string());
            std::process::exit(1);
        }
    };
    let mut signals = Signals::new([SIGINT, SIGTERM]).context("signals could not be caught")?;
    let for_signals = Arc::clone(&agent);
    std::thread::spawn(move || {
        if signals.forever().next().is_some() {
            let problems = for_signals.finish();
            problems.iter().for_each(|problem| errln!("{WARNING}{problem}"));
            std::process::exit(i32::from(!problems.is_empty()));
        }
    });
    let problems = agent.serve(std::io::stdin().lock(), std::io::stdout());
    if problems.is_empty() {
        return Ok(());
    }
    bail!(
        "not everything could be taken down:\n  {}\n  `nestor doctor --clean` tries again",
        problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n  ")
    )
}
