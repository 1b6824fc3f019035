//! The user's wish to stop.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// Becomes true when the user asks the program to stop.
///
/// # Errors
/// When signals cannot be caught.
pub fn interrupted_by_signals() -> Result<Arc<AtomicBool>> {
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&interrupted))
            .context("signals could not be caught")?;
    }
    Ok(interrupted)
}
