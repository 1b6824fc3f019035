//! The life of instances: their image comes, they boot, their workload runs, they end, and their images are removed, with the time of each.

use nestor_lab::{AtOnce, BootedInstance, BuildError, Instance, Lab, LabProblem};
use nestor_results::{Environment, FailureCause, InstanceLife, LifeState, TraceMode};
use nestor_workload::LifeCycle;

use super::course::{Boot, Course, Moments};
use super::several::{Beside, RanInAll};
use super::watched_run::WatchedRun;
use super::{
    CellError, CellRequest, Timed, environment, explained, lay_out, place_in, place_on, require_prefetch,
    with_ended_servers,
};

/// What is said of several instances where requests were to be recorded.
const NOT_RECORDED: &str = "requests are not recorded with several instances, and the layers below them are not told apart: their states say what \
                            link, disks and processors did";

/// Goes through the lives of instances on a stack that is not built yet.
pub(super) fn measure(
    lab: &mut Lab,
    request: &CellRequest<'_>,
    cycle: &LifeCycle,
    environment: &mut Environment,
    progress: &dyn Fn(&str),
) -> Result<Timed, CellError> {
    lab.set_seed(request.seed);
    // What runs in the only instance is measured as a workload always is; where nothing runs, nothing is recorded, and neither where one machine's
    // requests come from several instances.
    let is_recorded = cycle.run.is_some() && cycle.count == 1;
    let running = CellRequest {
        workload: cycle.run.as_ref().unwrap_or(request.workload),
        trace: if is_recorded { request.trace } else { TraceMode::None },
        ..request.clone()
    };
    let at_once = AtOnce { instances: cycle.count, nodes: cycle.nodes };
    let lived = go_through(lab, request, (at_once, &running), environment, progress);
    if lived.as_ref().is_err_and(|e| e.cause() == FailureCause::MachineLost) {
        progress("a machine of the stack is lost; starting it anew for the next cell");
        lab.give_up_guests();
    }
    let (mut timed, lives) = lived?;
    if cycle.run.is_none() {
        // Nothing ran of which it could be said.
        (timed.measured.host_cpu_busy, timed.measured.cpu_busy) = (0.0, Vec::new());
        timed.measured.trace_remarks.clear();
        timed.measured.load.elapsed_ns = lives.iter().map(InstanceLife::whole_ns).max().unwrap_or_default();
    } else if cycle.count > 1 && request.trace != TraceMode::None {
        timed.measured.trace_remarks.push(NOT_RECORDED.to_owned());
    }
    timed.measured.load.workload = request.workload.to_string();
    timed.measured.lives = lives;
    Ok(timed)
}

/// Builds the stack around the instances, has them live, and takes it down.
fn go_through(
    lab: &mut Lab,
    request: &CellRequest<'_>,
    (at_once, running): (AtOnce, &CellRequest<'_>),
    environment: &mut Environment,
    progress: &dyn Fn(&str),
) -> Result<(Timed, Vec<InstanceLife>), CellError> {
    let mut instance = match lab.prepare_instances(request.stack, at_once) {
        // Nothing is measured yet, so another attempt is valid.
        Err(e) if e.machine_is_lost() => {
            progress("a machine was lost while the stack was built; starting it anew");
            lab.give_up_guests();
            lab.prepare_instances(request.stack, at_once)?
        }
        prepared => prepared?,
    };
    let mut course = match bring(lab, running, &mut instance, progress) {
        Ok(course) => course,
        Err(e) => return Err(given_up(lab, instance, e)),
    };
    progress(if at_once.instances > 1 { "booting the instances" } else { "booting the instance" });
    let booted = match lab.boot_instances(instance) {
        Ok(booted) => booted,
        Err(failed) => {
            let (e, instance) = *failed;
            let e = in_state(&course, e.into());
            return Err(given_up(lab, instance, e));
        }
    };
    let lived = live(lab, &mut course, &booted, running, progress);
    if let Some(first) = booted.first() {
        *environment = environment::of(lab, &first.built, request);
    }
    let lived = lived.map_err(|e| in_state(&course, explained_of(e, lab, &booted)));
    progress("taking the stack down");
    let taken_down = lab.take_down_instances(booted);
    let (timed, boots) = lived?;
    taken_down?;
    Ok((timed, course.into_lives(boots)))
}

/// The same with what the stack says of why it happened.
fn explained_of(error: CellError, lab: &Lab, booted: &[BootedInstance]) -> CellError {
    match booted.first() {
        Some(first) => explained(error, lab, &first.built),
        None => error,
    }
}

/// Takes instances down that were not booted; the error with what has ended on the network, if it comes from that.
fn given_up(lab: &mut Lab, instance: Instance<'_>, error: CellError) -> CellError {
    let told = within_state(error, |error| match error.loss() {
        Some(loss) => CellError::Network(lab.network_loss(instance.network(), loss)),
        None if error.cause() == FailureCause::MachineLost => error,
        None => with_ended_servers(error, lab, instance.network()),
    });
    lab.give_up_instance(instance);
    told
}

/// Until the image is on its node.
fn bring(
    lab: &mut Lab,
    running: &CellRequest<'_>,
    instance: &mut Instance<'_>,
    progress: &dyn Fn(&str),
) -> Result<Course, CellError> {
    if let Some(top) = instance.top_at_repository() {
        let repository = instance.repository().machine;
        let work_directory = repository.facts()?.work_directory;
        let place = place_on(repository, &work_directory, top)?;
        lay_out(repository, running, &place, progress)?;
    }
    lab.serve_instances(instance)?;
    let has_load = running.workload.life().is_none();
    let mut course = Course::begin(lab, running.stack, instance, has_load)?;
    progress("the image is on its way");
    let nothing = |_: &mut Lab| Ok::<(), BuildError>(());
    let came = course.pass_to(lab, LifeState::Transfer, nothing).and_then(|()| {
        let transferred = lab.fetch_instances(instance)?;
        course.image_bytes = transferred.bytes.get();
        course.note_ends(transferred.spans.iter().map(|span| span.end_ns).collect());
        course.pass_to(lab, LifeState::Boot, |lab| lab.settle_instances(instance, transferred))
    });
    came.map_err(|e| in_state(&course, e))?;
    Ok(course)
}

/// From the end of the boot to the removal of the image: what the workload did, and two times within each boot.
fn live(
    lab: &mut Lab,
    course: &mut Course,
    booted: &[BootedInstance],
    running: &CellRequest<'_>,
    progress: &dyn Fn(&str),
) -> Result<(Timed, Vec<Boot>), CellError> {
    course.note_ends(booted.iter().map(|instance| instance.booted_ns).collect());
    let booted_at = course.close(lab)?;
    let boots = booted.iter().enumerate().map(|(number, instance)| course.of_boot(number, &instance.built));
    let boots = boots.collect::<Result<Vec<_>, _>>()?;
    course.state = LifeState::Running;
    let timed = run(lab, course, booted, running, booted_at, progress)?;
    progress(if booted.len() > 1 { "shutting the instances down" } else { "shutting the instance down" });
    let ended = lab.shut_down_instances(booted)?;
    course.note_ends(ended.iter().map(|span| span.end_ns).collect());
    let nothing = |_: &mut Lab| Ok::<(), BuildError>(());
    course.pass_to(lab, LifeState::Cleanup, nothing)?;
    let removed = lab.remove_instances(booted)?;
    course.note_ends(removed.iter().map(|span| span.end_ns).collect());
    course.close(lab)?;
    lab.set_timing(false)?;
    Ok((timed, boots))
}

/// The state in which the workload runs, until the instances are to end.
fn run(
    lab: &Lab,
    course: &mut Course,
    booted: &[BootedInstance],
    running: &CellRequest<'_>,
    booted_at: Moments,
    progress: &dyn Fn(&str),
) -> Result<Timed, CellError> {
    let (first, others) = booted.split_first().ok_or(BuildError::Lab(LabProblem::MachineEnded))?;
    let place = place_in(&first.built)?;
    let watched = WatchedRun::start(lab, &first.built, running, &place, progress)?;
    let put = watched.put();
    let beside = Beside::prepare(first, others, running);
    let resumed = course.resume(lab, LifeState::Running, booted_at);
    let RanInAll { first, others, ends_ns } = beside?.run(&course.nodes(), &watched, put);
    course.note_ends(ends_ns);
    let closed = course.close(lab);
    // In any case: recorders must not outlive the cell.
    let timed = watched.finish(first, progress);
    let timed = others.finish(running, timed?)?;
    resumed?;
    require_prefetches(lab, course, booted)?;
    lab.set_timing(true)?;
    course.resume(lab, LifeState::Shutdown, closed?)?;
    Ok(timed)
}

/// Refuses lives of which an image no longer came that was to be copied behind the guest's back. They are in the state then in which it ended.
fn require_prefetches(lab: &Lab, course: &mut Course, booted: &[BootedInstance]) -> Result<(), CellError> {
    for (number, instance) in booted.iter().enumerate() {
        if let Err(e) = require_prefetch(lab, &instance.built) {
            if let CellError::Prefetch(failed) = &e {
                course.state = failed.at_ns.map_or(course.state, |at_ns| course.state_at(number, at_ns));
            }
            return Err(e);
        }
    }
    Ok(())
}

/// The same with something made of the error within its state.
fn within_state(error: CellError, make: impl Fn(CellError) -> CellError) -> CellError {
    match error {
        CellError::InLife { state, source } => {
            CellError::InLife { state, source: Box::new(within_state(*source, make)) }
        }
        other => make(other),
    }
}

/// An error with the state in which the instance was.
fn in_state(course: &Course, error: CellError) -> CellError {
    CellError::InLife { state: course.state, source: Box::new(error) }
}
