//! Labs that end on a signal.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};
use nestor_lab::Lab;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// After a signal every request under way ends, so whatever labs are used for comes to its end and takes everything down.
/// Holds as long as this is kept.
pub struct EndOnSignals {
    handle: signal_hook::iterator::Handle,
    interrupted: Arc<AtomicBool>,
}

/// Ends what is under way, and is told why.
pub type Interrupter = Box<dyn Fn(&str) + Send>;

impl EndOnSignals {
    /// Listens from now on.
    ///
    /// # Errors
    /// Signals cannot be caught.
    pub fn of(labs: &[Lab]) -> Result<Self> {
        let interrupter = |lab: &Lab| -> Interrupter { Box::new(lab.interrupter()) };
        Self::telling(labs.iter().map(interrupter).collect())
    }

    /// The same of anything that ends when it is told to.
    ///
    /// # Errors
    /// Signals cannot be caught.
    pub fn telling(interrupters: Vec<Interrupter>) -> Result<Self> {
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).context("signals could not be caught")?;
        let (handle, interrupted) = (signals.handle(), Arc::new(AtomicBool::new(false)));
        let flag = Arc::clone(&interrupted);
        std::thread::spawn(move || {
            for _ in signals.forever() {
                if flag.swap(true, Ordering::Relaxed) {
                    errln!("still taking everything down; this takes at most a minute");
                } else {
                    errln!("interrupted; taking everything down");
                    interrupters.iter().for_each(|interrupt| interrupt("interrupted"));
                }
            }
        });
        Ok(Self { handle, interrupted })
    }

    /// Whether there was a signal; set from then on.
    pub fn interrupted(&self) -> &AtomicBool {
        &self.interrupted
    }
}

impl Drop for EndOnSignals {
    fn drop(&mut self) {
        self.handle.close();
    }
}
