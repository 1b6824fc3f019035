//! What QEMU records of itself: its trace events, switched through a monitor of their own.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::json;

use super::arguments::MachineFiles;
use super::qmp::Qmp;
use crate::place::MachinePlace;
use crate::refusal::{Cause, Refusal};

/// How long the monitor may take to greet.
const GREETING_LIMIT: Duration = Duration::from_secs(10);

/// Arguments for the recorder of a machine's disk: the monitor for recorders, and the path of the event log while no recorder
/// runs.
pub(super) fn recorder_arguments(work_directory: &Path, machine: MachinePlace) -> Vec<String> {
    let files = MachineFiles { directory: work_directory.join(machine.to_string()) };
    let path = |path: PathBuf| path.display().to_string();
    vec!["--monitor".into(), path(files.trace_monitor()), "--event-log".into(), path(files.event_log())]
}

/// Switches what a QEMU records of itself.
pub struct TraceSwitch(Qmp);

impl TraceSwitch {
    /// Takes over a monitor that no other program uses.
    ///
    /// # Errors
    /// It does not answer.
    pub fn connect(monitor: &Path) -> std::io::Result<Self> {
        Qmp::connect(monitor, GREETING_LIMIT).map(Self)
    }

    /// Switches an event on or off.
    ///
    /// # Errors
    /// QEMU's reason: this version may not have it.
    pub fn set_event(&mut self, event: &str, enable: bool) -> Result<(), Refusal> {
        self.0.execute("trace-event-set-state", &json!({ "name": event, "enable": enable }))?;
        Ok(())
    }

    /// Writes events into another file from now on.
    ///
    /// # Errors
    /// QEMU's reason.
    pub fn log_to(&mut self, path: &Path) -> Result<(), Refusal> {
        // Only the monitor for people can do it, whose answer is empty when it did.
        let line = format!("logfile {}", path.display());
        let answer = self.0.execute("human-monitor-command", &json!({ "command-line": line }))?;
        match answer.as_str().map(str::trim) {
            Some("") | None => Ok(()),
            Some(complaint) => {
                let message = format!("QEMU does not log to {}: {complaint}", path.display());
                Err(Refusal::new(Cause::Other, message))
            }
        }
    }
}
