//! A machine's state in a file: written where the machine stopped, and loaded by another machine of the same specification.

use std::fs::File;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::json;

use super::qmp::Qmp;
use crate::refusal::{Cause, Refusal};

/// The name of the file among those that QEMU was handed.
const NAME: &str = "state";

/// Bytes a second: no limit.
const NO_LIMIT: u64 = 1 << 50;

/// How often QEMU is asked how far it is.
const ASK_AGAIN: Duration = Duration::from_millis(20);

/// Writes the state of a stopped machine into a new file.
///
/// # Errors
/// QEMU's reason, or that the file cannot be made.
pub fn keep(qmp: &mut Qmp, path: &Path, limit: Duration) -> Result<(), Refusal> {
    let deadline = Instant::now() + limit;
    qmp.wait_event("STOP", limit, |_| true)?;
    let file = nestor_ownership::new_file(path, 0o600).map_err(|e| {
        Refusal::of_io(&format!("the machine's state cannot be kept in {}", path.display()), &e)
    })?;
    qmp.give_file(NAME, &file)?;
    qmp.execute("migrate-set-parameters", &json!({ "max-bandwidth": NO_LIMIT }))?;
    qmp.execute("migrate", &json!({ "uri": format!("fd:{NAME}") }))?;
    wait_until_complete(qmp, "keep", deadline, "the disk that holds Nestor's cache may be too slow")
}

/// Loads a state into a machine that waits for one and then continues from it.
///
/// # Errors
/// QEMU's reason, or that the file cannot be read.
pub fn load(qmp: &mut Qmp, path: &Path, deadline: Instant) -> Result<(), Refusal> {
    let file = File::open(path).map_err(|e| {
        Refusal::of_io(&format!("the machine's kept state {} cannot be read", path.display()), &e)
    })?;
    qmp.give_file(NAME, &file)?;
    qmp.execute("migrate-incoming", &json!({ "uri": format!("fd:{NAME}") }))?;
    wait_until_complete(qmp, "load", deadline, "NESTOR_BOOT_LIMIT_S gives it more time")?;
    // It is as it was kept, and that was stopped.
    qmp.execute("cont", &json!({}))?;
    Ok(())
}

fn wait_until_complete(qmp: &mut Qmp, what: &str, deadline: Instant, advice: &str) -> Result<(), Refusal> {
    loop {
        let progress = qmp.execute("query-migrate", &json!({}))?;
        match progress["status"].as_str() {
            Some("completed") => return Ok(()),
            Some("failed" | "cancelled") => {
                let reason = progress["error-desc"].as_str().unwrap_or("it gives no reason");
                let message = format!("QEMU could not {what} the machine's state: {reason}");
                return Err(Refusal::new(Cause::Other, message));
            }
            _ if Instant::now() > deadline => {
                let message = format!("QEMU did not {what} the machine's state in time; {advice}");
                return Err(Refusal::new(Cause::MachineSilent, message));
            }
            _ => std::thread::sleep(ASK_AGAIN),
        }
    }
}
