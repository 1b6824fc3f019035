//! Replaying a plan on a target.

use std::io;

use nestor_trace::Operation;

use crate::engine::{Engine, EngineChoice, Nothing, Threads, Uring};
use crate::error::ReplayError;
use crate::options::{ReplayOptions, USUAL_DEPTH};
use crate::pace::{Failed, Limits, Paced, run_paced};
use crate::plan::{PlannedRequest, ReplayPlan};
use crate::report::{ReplayReport, Setting, report};
use crate::speed::Speed;
use crate::target::{Target, TargetKind};
use crate::watcher::Watcher;

/// Sends the requests of a plan to a target at their times and says how exactly that was done.
///
/// Stopped by the watcher, it returns what was done until then.
///
/// # Errors
/// The plan does not fit the target (see [`ReplayPlan::fit`]) or has no times and is not to be replayed as fast as possible;
/// io_uring was asked for and is not to be had; a request failed.
pub fn replay(
    plan: &ReplayPlan,
    target: &Target,
    options: &ReplayOptions,
    watcher: &dyn Watcher,
) -> Result<ReplayReport, ReplayError> {
    plan.require_room(target.size_bytes())?;
    plan.require_times(options.speed)?;
    let wanted = wanted_depth(plan, options);
    let mut chosen = choose(target, options, wanted)?;
    let depth = wanted.min(chosen.engine.most_in_flight()).max(1);
    if depth < wanted && options.depth.is_some() {
        chosen.remarks.push(format!("at most {depth} requests in flight, the limit of this engine"));
    }
    let limits = Limits { speed: options.speed, depth, spin: options.spin };
    let paced = run_paced(&plan.requests, &mut *chosen.engine, &limits, watcher)
        .map_err(ReplayError::engine("submitting requests or waiting for them failed"))?;
    // Everything has ended, and its threads do not disturb what follows.
    drop(chosen.engine);
    if let Some(failed) = &paced.failed {
        return Err(request_failed(plan, &paced, failed));
    }
    let setting = Setting { options: *options, depth, engine: chosen.name, remarks: chosen.remarks };
    Ok(report(plan, target, setting, &paced))
}

/// As deep as was asked for. As fast as possible, the depth decides the result: the trace's own is the natural one.
fn wanted_depth(plan: &ReplayPlan, options: &ReplayOptions) -> usize {
    match (options.depth, options.speed) {
        (Some(depth), _) => depth.max(1),
        (None, Speed::Times(_)) => USUAL_DEPTH,
        (None, Speed::Max) => {
            let depth = plan.statistics().depth.map_or(USUAL_DEPTH as u64, |depth| depth.max);
            usize::try_from(depth).unwrap_or(USUAL_DEPTH).clamp(1, USUAL_DEPTH)
        }
    }
}

struct Chosen {
    engine: Box<dyn Engine>,
    name: String,
    remarks: Vec<String>,
}

fn choose(target: &Target, options: &ReplayOptions, depth: usize) -> Result<Chosen, ReplayError> {
    let mut remarks = Vec::new();
    let Some(file) = target.file() else {
        debug_assert_eq!(target.kind(), TargetKind::Nothing);
        return Ok(Chosen { engine: Box::new(Nothing::default()), name: "nothing".to_owned(), remarks });
    };
    let file = || file.try_clone().map_err(ReplayError::io("open again", target.path()));
    if options.engine != EngineChoice::Threads {
        match Uring::new(file()?, options.data, depth) {
            Ok(engine) => {
                if !engine.has_registered_buffers() {
                    remarks.push(
                        "the kernel did not register the buffers (`ulimit -l`), so each request costs a \
                         little more"
                            .to_owned(),
                    );
                }
                return Ok(Chosen { engine: Box::new(engine), name: "io_uring".to_owned(), remarks });
            }
            Err(error) if options.engine == EngineChoice::IoUring => {
                return Err(ReplayError::NoIoUring { why: why_no_ring(&error) });
            }
            Err(error) => remarks.push(format!(
                "sent by threads, which is less exact, because io_uring cannot be used: {}",
                why_no_ring(&error)
            )),
        }
    }
    let engine = Threads::new(file()?, options.data, depth)
        .map_err(ReplayError::engine("no thread could be started"))?;
    Ok(Chosen { name: "threads".to_owned(), engine: Box::new(engine), remarks })
}

fn why_no_ring(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::ENOSYS) => "this kernel does not have it".to_owned(),
        Some(libc::EPERM) => {
            "it is forbidden here (`sysctl kernel.io_uring_disabled`, or a container's rules)".to_owned()
        }
        Some(libc::ENOMEM) => "the limit for locked memory is too low (`ulimit -l`)".to_owned(),
        _ => error.to_string(),
    }
}

fn request_failed(plan: &ReplayPlan, paced: &Paced, failed: &Failed) -> ReplayError {
    let request: &PlannedRequest = &plan.requests[failed.number];
    ReplayError::Request {
        number: failed.number,
        operation: request.operation.word(),
        offset: request.offset(),
        bytes: request.bytes(),
        why: why_failed(request, failed.result),
        done: paced.done,
        all: plan.requests.len() as u64,
    }
}

/// What a result that is not the request's size means, and what to do.
fn why_failed(request: &PlannedRequest, result: i64) -> String {
    if result >= 0 {
        let verb = if request.operation == Operation::Read { "read" } else { "written" };
        return format!(
            "only {result} bytes were {verb}; the target has become smaller since the replay began"
        );
    }
    let errno = i32::try_from(-result).unwrap_or(libc::EIO);
    let said = io::Error::from_raw_os_error(errno);
    let advice = match errno {
        libc::EIO => "; the device gives no reason, but `dmesg` may",
        libc::ENOSPC => {
            "; the file system is full: fill the file beforehand, or replay on a file that is \
                         already filled"
        }
        libc::EINVAL => {
            "; the target may take direct I/O only in larger units: `--buffered` uses the page cache"
        }
        libc::EOPNOTSUPP if request.operation == Operation::Discard => {
            "; the target does not support discard: omit `--discard`"
        }
        libc::EOPNOTSUPP if request.is_fua() => "; the target cannot write through its cache",
        libc::EFBIG => "; the file system does not support files of that size",
        _ => "",
    };
    format!("{said}{advice}")
}
