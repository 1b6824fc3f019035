//! From the files of a trace to a plan.

use std::path::PathBuf;

use nestor_trace::decode::{self, EventSource, Source, Trace};

use super::requests::plan_of_requests;
use super::{PlanBuilder, PlanOptions, ReplayPlan};
use crate::error::ReplayError;

/// What `nestor trace record` calls the events that it took from tracefs.
const RECORDED_EVENTS: &str = "trace.txt";

/// Events read at a time.
const BATCH: usize = 1024;

/// Opens the files of one trace, whatever its form, and makes a plan of it. A directory is a recording of `nestor trace
/// record`, or one with files of blktrace.
///
/// # Errors
/// A file cannot be read; there are several traces; as [`read_trace`].
pub fn read_plan(files: &[PathBuf], options: &PlanOptions) -> Result<ReplayPlan, ReplayError> {
    let recorded = |path: &PathBuf| match path.join(RECORDED_EVENTS) {
        events if events.is_file() => events,
        _ => path.clone(),
    };
    let mut traces = decode::open(&files.iter().map(recorded).collect::<Vec<_>>())?;
    if traces.len() > 1 {
        let names = traces.iter().map(Trace::description).collect::<Vec<_>>().join("; ");
        return Err(ReplayError::SeveralTraces { names });
    }
    match traces.pop() {
        Some(trace) => read_trace(trace, options),
        None => Err(ReplayError::NothingToReplay {
            trace: "these files".to_owned(),
            why: "none of them is a trace".to_owned(),
        }),
    }
}

/// Reads a trace to its end.
///
/// # Errors
/// The trace cannot be read; it holds no requests, or those of several devices and none is named.
pub fn read_trace(trace: Trace, options: &PlanOptions) -> Result<ReplayPlan, ReplayError> {
    let name = trace.description();
    let refuse = |why: &str| ReplayError::NothingToReplay { trace: name.clone(), why: why.to_owned() };
    let mut plan = match trace.source {
        Source::BlockEvents(source) => plan_of_events(source, &name, options)?,
        Source::Requests(source) => plan_of_requests(source, &name, options)?,
        Source::Histograms(_) => {
            return Err(refuse("it has distributions but no requests; record the commands themselves"));
        }
        Source::Qemu(_) => {
            return Err(refuse(
                "it has QEMU's own events; `nestor trace hypervisor summarize --requests FILE` turns them \
                 into requests that can be replayed",
            ));
        }
    };
    plan.remarks.extend(trace.remarks);
    Ok(plan)
}

fn plan_of_events(
    mut source: Box<dyn EventSource>,
    trace: &str,
    options: &PlanOptions,
) -> Result<ReplayPlan, ReplayError> {
    let mut builder = PlanBuilder::new(options.clone());
    let mut events = Vec::with_capacity(BATCH);
    while source.next_events(BATCH, &mut events)? {
        events.iter().for_each(|event| builder.push(event));
    }
    let mut plan = builder.finish(trace)?;
    plan.remarks.extend(source.warnings().remarks());
    match source.lost_events() {
        0 => {}
        lost => plan.remarks.push(format!(
            "the recorder lost {lost} events: requests are missing from the replay, and some have no \
             original latency"
        )),
    }
    Ok(plan)
}
