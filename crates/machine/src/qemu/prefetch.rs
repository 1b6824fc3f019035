//! The job that copies what is in the backing file of a disk into it while the machine runs.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use nestor_stop::lock;
use serde_json::{Value, json};

use super::qmp::{EndedJob, Qmp, QmpError, Reason, UndoCommand};
use crate::prefetch::Prefetch;
use crate::refusal::{Cause, Refusal};
use crate::ticks::{monotonic_ns, realtime_ns};

/// What is said of a job of which QEMU does not say how it ended.
const NO_END: &str = "its job is no longer there, and QEMU did not say how it ended";

fn job_of(disk: &str) -> String {
    format!("{disk}-prefetch")
}

/// Starts it for a disk, from the backing file of a node; the command that ends it.
pub(super) fn begin(qmp: &mut Qmp, disk: &str, node: &str) -> Result<UndoCommand, QmpError> {
    let job = job_of(disk);
    qmp.forget_job(&job);
    qmp.execute("block-stream", &json!({ "job-id": job, "device": node }))?;
    Ok(("block-job-cancel", json!({ "device": job })))
}

/// How far it is.
pub(super) fn state(qmp: &mut Qmp, disk: &str) -> Result<Prefetch, QmpError> {
    let job = job_of(disk);
    // An end is told before the job is gone, so it has been read with this answer.
    let jobs = qmp.execute("query-block-jobs", &json!({}))?;
    let is_it = |running: &Value| running["device"].as_str() == Some(&job);
    if jobs.as_array().is_some_and(|jobs| jobs.iter().any(is_it)) {
        return Ok(Prefetch::Running);
    }
    let clocks = (monotonic_ns(), realtime_ns());
    Ok(qmp.ended_job(&job).map_or_else(
        || Prefetch::Failed { cause: Cause::Other, why: NO_END.to_owned(), at_ns: None },
        |ended| of_end(ended, clocks),
    ))
}

/// What an end means where the monotonic and the real-time clock have these values, ns.
fn of_end(ended: &EndedJob, (monotonic_ns, realtime_ns): (u64, u64)) -> Prefetch {
    let Some(error) = &ended.error else { return Prefetch::Complete };
    let ago_ns = ended.realtime_us.map(|us| realtime_ns.saturating_sub(us.saturating_mul(1000)));
    Prefetch::Failed {
        cause: Cause::Other.after_words(error),
        why: format!("QEMU says `{error}`"),
        at_ns: ago_ns.map(|ago_ns| monotonic_ns.saturating_sub(ago_ns)),
    }
}

/// Ends it, which has ended by itself once all is copied, and waits for that.
pub(super) fn end(qmp: &Mutex<Qmp>, disk: &str) -> Result<(), Refusal> {
    let job = json!({ "device": job_of(disk) });
    let cancelled = lock(qmp).execute("block-job-cancel", &job);
    match cancelled {
        Ok(_) => await_no_jobs(qmp),
        Err(QmpError::Refused { reason: Reason::NotFound, .. }) => Ok(()),
        Err(e) => Err(e.into()),
    }
}

/// Waits until no job copies any more.
fn await_no_jobs(qmp: &Mutex<Qmp>) -> Result<(), Refusal> {
    let deadline = Instant::now() + Duration::from_secs(5);
    loop {
        let jobs = lock(qmp).execute("query-block-jobs", &json!({}))?;
        if jobs.as_array().is_none_or(Vec::is_empty) {
            return Ok(());
        }
        if Instant::now() >= deadline {
            let message = "QEMU does not end the job that copies an image's backing file";
            return Err(Refusal::new(Cause::MachineSilent, message));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[cfg(test)]
mod tests;
