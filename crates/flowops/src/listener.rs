//! Who listens to a run.

use std::time::Duration;

use nestor_workload::flow_report::RunReport;

/// How often the end of a run and the user's wish to stop are looked for.
pub(crate) const LOOK: Duration = Duration::from_millis(20);

/// Who is told what happens, and who may stop it.
pub trait Listener: Sync {
    /// A line of the script's own (`echo`, `print`, `list`), or of what is being done.
    fn say(&self, line: &str);

    /// A line that a program of the script's (`system`) has written, with whatever is in it.
    fn output(&self, line: &str) {
        self.say(line);
    }

    /// How far something that takes long has come, from 0 to 1.
    fn progress(&self, what: &str, share: f64);

    /// Results so far (`psrun`).
    fn report(&self, so_far: &RunReport);

    /// Whether to stop.
    fn is_interrupted(&self) -> bool;

    /// All threads are ready and wait for this to return: several machines begin at once.
    ///
    /// # Errors
    /// When the machines cannot be kept together.
    fn wait_for_others(&self) -> Result<(), String> {
        Ok(())
    }
}
