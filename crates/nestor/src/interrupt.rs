//! The user's wish to stop.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result};
use nestor_stop::StopHandle;
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

/// Ends a task that waits when the user asks the program to stop.
///
/// # Errors
/// When signals cannot be caught.
pub fn stopped_by_signals() -> Result<StopHandle> {
    let stop = StopHandle::new().context("signals could not be caught")?;
    stop.stop_on_signals().context("signals could not be caught")?;
    Ok(stop)
}
