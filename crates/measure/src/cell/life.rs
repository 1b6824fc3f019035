//! The life of an instance: its image comes, it boots, its workload runs, it ends, and its image is removed, with the time of each.

use nestor_lab::{BuildError, BuiltStack, Instance, Lab, NetworkLoss};
use nestor_machine::Loss;
use nestor_results::{Environment, FailureCause, InstanceLife, LifeState, TraceMode};
use nestor_workload::LifeCycle;

use super::course::Course;
use super::watched_run::WatchedRun;
use super::{CellError, CellRequest, Timed, environment, explained, lay_out, place_on};

/// What is known of a boot: until the first process, and until the agent answered.
type Boot = (Option<u64>, u64);

/// Goes through the life of one instance on a stack that is not built yet.
pub(super) fn measure(
    lab: &mut Lab,
    request: &CellRequest<'_>,
    cycle: &LifeCycle,
    environment: &mut Environment,
    progress: &dyn Fn(&str),
) -> Result<Timed, CellError> {
    lab.set_seed(request.seed);
    // What runs in the instance is measured as a workload always is; where nothing runs, nothing is recorded.
    let nothing = CellRequest { trace: TraceMode::None, ..request.clone() };
    let running = match &cycle.run {
        Some(run) => CellRequest { workload: run, ..request.clone() },
        None => nothing,
    };
    let lived = go_through(lab, request, &running, environment, progress);
    if lived.as_ref().is_err_and(|e| e.cause() == FailureCause::MachineLost) {
        progress("a machine of the stack is lost; starting it anew for the next cell");
        lab.give_up_guests();
    }
    let (mut timed, life) = lived?;
    if cycle.run.is_none() {
        // Nothing ran of which it could be said.
        (timed.measured.host_cpu_busy, timed.measured.cpu_busy) = (0.0, Vec::new());
        timed.measured.trace_remarks.clear();
        timed.measured.load.elapsed_ns = life.whole_ns();
    }
    timed.measured.load.workload = request.workload.to_string();
    timed.measured.lives = vec![life];
    Ok(timed)
}

/// Builds the stack around the instance, has it live, and takes it down.
fn go_through(
    lab: &mut Lab,
    request: &CellRequest<'_>,
    running: &CellRequest<'_>,
    environment: &mut Environment,
    progress: &dyn Fn(&str),
) -> Result<(Timed, InstanceLife), CellError> {
    let mut instance = match lab.prepare_instance(request.stack) {
        // Nothing is measured yet, so another attempt is valid.
        Err(e) if e.machine_is_lost() => {
            progress("a machine was lost while the stack was built; starting it anew");
            lab.give_up_guests();
            lab.prepare_instance(request.stack)?
        }
        prepared => prepared?,
    };
    let mut course = match bring(lab, running, &mut instance, progress) {
        Ok(course) => course,
        Err(e) => return Err(given_up(lab, instance, e)),
    };
    progress("booting the instance");
    let mut built = match lab.boot_instance(instance) {
        Ok(built) => built,
        Err(failed) => {
            let (e, instance) = *failed;
            let e = in_state(&course, e.into());
            return Err(given_up(lab, instance, e));
        }
    };
    let lived = live(lab, &mut course, &mut built, running, progress);
    let lived = lived.map_err(|e| in_state(&course, explained(e, lab, &built)));
    *environment = environment::of(lab, &built, request);
    progress("taking the stack down");
    let taken_down = lab.take_down(built);
    let (timed, (first_process_ns, hello_ns)) = lived?;
    taken_down?;
    let Course { image_bytes, states, .. } = course;
    Ok((timed, InstanceLife { image_bytes, states, first_process_ns, hello_ns, managed: None }))
}

/// Takes an instance down that was not booted; the error with what has ended on the network, if it comes from that.
fn given_up(lab: &mut Lab, instance: Instance<'_>, error: CellError) -> CellError {
    let told = lost(error, |loss| lab.network_loss(instance.network(), loss));
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
        let [repository, _] = instance.machines();
        let work_directory = repository.facts()?.work_directory;
        let place = place_on(repository, &work_directory, top)?;
        lay_out(repository, running, &place, progress)?;
    }
    lab.serve_instance(instance)?;
    let has_load = running.workload.life().is_none();
    let mut course = Course::begin(lab, running.stack, instance, has_load)?;
    progress("the instance's image is on its way");
    let nothing = |_: &mut Lab| Ok::<(), BuildError>(());
    let came = course.pass_to(lab, LifeState::Transfer, nothing).and_then(|()| {
        let transferred = lab.fetch_instance(instance)?;
        course.image_bytes = transferred.bytes.get();
        course.pass_to(lab, LifeState::Boot, |lab| lab.settle_instance(instance, transferred))
    });
    came.map_err(|e| in_state(&course, e))?;
    Ok(course)
}

/// From the end of the boot to the removal of the image: what the workload did, and two times within the boot.
fn live(
    lab: &mut Lab,
    course: &mut Course,
    built: &mut BuiltStack,
    running: &CellRequest<'_>,
    progress: &dyn Fn(&str),
) -> Result<(Timed, Boot), CellError> {
    let booted_ns = course.close(lab)?;
    let boot = course.of_boot(built)?;
    course.state = LifeState::Running;
    let timed = run(lab, course, built, running, booted_ns, progress)?;
    progress("shutting the instance down");
    lab.shut_down_instance(built)?;
    let nothing = |_: &mut Lab| Ok::<(), BuildError>(());
    course.pass_to(lab, LifeState::Cleanup, nothing)?;
    lab.remove_instance(built)?;
    course.close(lab)?;
    lab.set_timing(false)?;
    Ok((timed, boot))
}

/// The state in which the workload runs, until the instance is to end.
fn run(
    lab: &Lab,
    course: &mut Course,
    built: &BuiltStack,
    running: &CellRequest<'_>,
    booted_ns: u64,
    progress: &dyn Fn(&str),
) -> Result<Timed, CellError> {
    let top = built.top_machine();
    let place = place_on(&top.machine, &top.facts.work_directory, &built.top)?;
    let watched = WatchedRun::start(lab, built, running, &place, progress)?;
    let put = watched.put();
    let resumed = course.resume(lab, LifeState::Running, booted_ns);
    let ran = watched.run(put);
    let closed = course.close(lab);
    // In any case: recorders must not outlive the cell.
    let timed = watched.finish(ran, progress)?;
    resumed?;
    lab.set_timing(true)?;
    course.resume(lab, LifeState::Shutdown, closed?)?;
    Ok(timed)
}

/// The same with what has ended on the network, if it comes from that.
fn lost(error: CellError, of: impl Fn(Loss) -> NetworkLoss) -> CellError {
    match error {
        CellError::InLife { state, source } => {
            CellError::InLife { state, source: Box::new(lost(*source, of)) }
        }
        other => match other.loss() {
            Some(loss) => CellError::Network(of(loss)),
            None => other,
        },
    }
}

/// An error with the state in which the instance was.
fn in_state(course: &Course, error: CellError) -> CellError {
    CellError::InLife { state: course.state, source: Box::new(error) }
}
