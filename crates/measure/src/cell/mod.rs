//! One cell: build the stack, lay out the data, measure with every trace point on, take it down.

mod asleep;
mod calls;
mod clocks;
mod condense;
mod course;
mod environment;
mod file_places;
mod frames;
mod image_layout;
mod joined;
mod kernel_log;
mod life;
mod names;
mod network;
mod observe;
mod processors;
mod recorder;
mod request;
mod request_files;
mod sample_pace;
mod scratch;
mod served;
mod several;
mod step;
mod trace_problem;
mod watched_run;

use std::io;

use nestor_lab::{
    BuildError, BuiltStack, FailedPrefetch, Lab, LabProblem, LinkProblem, Network, NetworkLoss, Seed, Top,
};
use nestor_machine::{Cause, Command, Loss, Machine, MachineError, ProgramEnd};
use nestor_workload::{LoadError, LoadResult, Place, Target};

use nestor_results::checks::{self, Expected};
use nestor_results::record::{CellRecord, Mark, Measured, Outcome};
use nestor_results::{CellFailure, FailureCause};
use nestor_results::{Environment, LifeState};
pub use processors::completed_requests;
pub(crate) use request::CellBegin;
pub use request::{CellEnd, CellRequest};
pub use sample_pace::SamplePace;
pub use step::run_step;
use trace_problem::TraceProblem;
use watched_run::WatchedRun;

/// Why a cell has no numbers.
#[derive(Debug, thiserror::Error)]
enum CellError {
    #[error("{0}")]
    Build(#[from] BuildError),
    #[error("{0}")]
    Machine(#[from] MachineError),
    #[error("{0}")]
    Load(#[from] LoadError),
    #[error("{0}")]
    Trace(#[from] TraceProblem),
    #[error(transparent)]
    Network(NetworkLoss),
    #[error(transparent)]
    Recorder(Box<recorder::FailedRecorder>),
    #[error(transparent)]
    Prefetch(Box<FailedPrefetch>),
    #[error("{0}\n{1}")]
    Full(String, String),
    #[error("{0}\n{1}")]
    ServerEnded(String, String),
    #[error("{0}\n{1}")]
    Withdrawn(String, String),
    #[error("in the state {state}: {source}")]
    InLife { state: LifeState, source: Box<CellError> },
}

/// Runs one cell.
pub fn run_cell(lab: &mut Lab, request: &CellRequest<'_>, progress: &dyn Fn(&str)) -> CellEnd {
    let began = CellBegin::now();
    let mut environment = environment::before_building(lab);
    let mut marks = Vec::new();
    let mut refused = false;
    let mut load_s = None;
    let measured = match request.workload.life() {
        Some(cycle) => life::measure(lab, request, &cycle, &mut environment, progress),
        None => measure_on_fresh_stack(lab, request, &mut environment, progress),
    };
    let outcome = match measured {
        Ok(Timed { measured, load_s: ran_s, asleep_s }) => {
            load_s = Some(ran_s);
            environment.remarks.extend(measured.load.remarks.iter().cloned());
            let expected = Expected::of(request.stack, request.workload);
            marks = checks::marks(&measured, &environment, &expected);
            // A machine in virtual time does not notice.
            let asleep_s = asleep_s.filter(|_| !lab.place().is_in_virtual_time());
            marks.extend(asleep_s.map(|seconds| Mark::Suspended { seconds }));
            Outcome::Measured(measured)
        }
        Err(e) => {
            refused = e.ends_alike();
            Outcome::Failed(CellFailure::new(e.cause(), e.to_string()))
        }
    };
    if environment.machines.iter().any(|m| m.accelerator.is_emulation())
        && !marks.contains(&Mark::EmulatedCpu)
    {
        marks.insert(0, Mark::EmulatedCpu);
    }
    let record = CellRecord { load_s, ..request.record(&began, outcome, marks, environment) };
    CellEnd { record, refused }
}

fn measure_on_fresh_stack(
    lab: &mut Lab,
    request: &CellRequest<'_>,
    environment: &mut Environment,
    progress: &dyn Fn(&str),
) -> Result<Timed, CellError> {
    let mut lost = None;
    lab.set_seed(request.seed);
    let built = match lab.build(request.stack) {
        // Nothing is measured yet, so another attempt is valid: emulated machines within emulated ones reset themselves
        // now and then.
        Err(e) if e.machine_is_lost() => {
            progress("a machine was lost while the stack was built; starting it anew");
            lab.give_up_guests();
            lost = Some(e.to_string());
            lab.build(request.stack)?
        }
        built => built?,
    };
    *environment = environment::of(lab, &built, request);
    if let Some(why) = lost {
        environment.settings.insert("built at the second attempt".to_owned(), why);
    }
    let measured = measure_on(lab, &built, request, progress).and_then(|timed| {
        require_prefetch(lab, &built)?;
        Ok(timed)
    });
    let measured = measured.map_err(|e| explained(e, lab, &built));
    if measured.as_ref().is_err_and(|e| e.cause() == FailureCause::MachineLost) {
        progress("a machine of the stack is lost; starting it anew for the next cell");
        lab.give_up_guests();
    }
    let measured = measured.and_then(|timed| with_all_written(timed, lab, &built));
    progress("taking the stack down");
    let taken_down = lab.take_down(built);
    let measured = measured?;
    taken_down?;
    Ok(measured)
}

/// Refuses what was measured while an image no longer came that was to be copied behind the guest's back.
fn require_prefetch(lab: &Lab, built: &BuiltStack) -> Result<(), CellError> {
    let failed = lab.failed_prefetch(built)?;
    failed.map_or(Ok(()), |failed| Err(CellError::Prefetch(Box::new(failed))))
}

/// Refuses a load that was told nothing of writes that a full server had refused: a client reports an error that comes between two calls of an
/// application only to its next fsync (`nfs_file_write` and `nfs_file_flush` in fs/nfs/file.c). Other errors may have been tried again.
fn with_all_written(mut timed: Timed, lab: &Lab, built: &BuiltStack) -> Result<Timed, CellError> {
    let refused: Vec<String> = timed.measured.networks.iter().filter_map(network::refused_writes).collect();
    if refused.is_empty() {
        return Ok(timed);
    }
    let full = lab.full_file_systems(built);
    if !full.is_empty() {
        return Err(CellError::Full(refused.join("\n"), full.join("\n")));
    }
    timed.measured.trace_remarks.extend(refused);
    Ok(timed)
}

/// The same with what the stack says of why it happened, while it still stands.
fn explained(error: CellError, lab: &Lab, built: &BuiltStack) -> CellError {
    if let Some(loss) = error.loss() {
        return CellError::Network(lab.network_loss(built.network(), loss));
    }
    if error.cause() == FailureCause::MachineLost {
        return error;
    }
    let error = with_ended_servers(error, lab, built.network());
    if matches!(error, CellError::ServerEnded(..)) {
        return error;
    }
    let withdrawn = match &error {
        CellError::Load(LoadError::Stale { .. }) => lab.stale_exports(built),
        CellError::Load(_) => lab.withdrawn_exports(built),
        _ => Vec::new(),
    };
    if !withdrawn.is_empty() {
        return CellError::Withdrawn(error.to_string(), withdrawn.join("\n"));
    }
    let full = match &error {
        CellError::Load(_) | CellError::Prefetch(_) => lab.full_file_systems(built),
        _ => Vec::new(),
    };
    if full.is_empty() { error } else { CellError::Full(error.to_string(), full.join("\n")) }
}

/// An error with what the servers said that have ended on a network, if any has.
fn with_ended_servers(error: CellError, lab: &Lab, of: Network<'_>) -> CellError {
    let ended = lab.ended_servers(of);
    if ended.is_empty() {
        return error;
    }
    CellError::ServerEnded(error.to_string(), ended.join("\n"))
}

impl CellError {
    /// Whether another attempt would end in the same way.
    fn ends_alike(&self) -> bool {
        use BuildError::{NoRoom, Refused, Stack};
        if let Self::InLife { source, .. } = self {
            return source.ends_alike();
        }
        matches!(self, Self::Build(Refused { .. } | NoRoom { .. } | Stack(_)))
            || self.cause() == FailureCause::NotInstalled
    }

    /// What has ended on the stack's network, so that one of its machines was given up.
    fn loss(&self) -> Option<Loss> {
        match self {
            Self::InLife { source, .. } => source.loss(),
            Self::Machine(e) | Self::Build(BuildError::Machine(e) | BuildError::Layer { source: e, .. }) => {
                match e.cause() {
                    Cause::GivenUp { loss } => Some(*loss),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    fn cause(&self) -> FailureCause {
        match self {
            Self::InLife { source, .. } => source.cause(),
            Self::Network(_) => FailureCause::MachineLost,
            Self::Build(BuildError::Stack(_) | BuildError::Refused { .. }) => FailureCause::NotPossible,
            Self::Build(BuildError::Layer { source, .. }) => cause_of_layer(source),
            Self::Build(BuildError::Machine(e)) | Self::Machine(e) => cause_of(e),
            Self::Prefetch(failed) if failed.cause == Cause::NoSpace => FailureCause::NoSpace,
            Self::Prefetch(_) | Self::Build(BuildError::ServerEnded { .. }) => FailureCause::Other,
            Self::Build(BuildError::OtherBytes { .. }) => FailureCause::Other,
            Self::Build(BuildError::NoRoom { .. }) => FailureCause::NoSpace,
            Self::Build(BuildError::Lab(problem)) => cause_of_lab(problem),
            Self::Trace(problem) => problem.cause(),
            Self::Load(LoadError::Full { .. }) | Self::Full(..) => FailureCause::NoSpace,
            Self::Load(LoadError::NoProgram { .. }) => FailureCause::NotInstalled,
            Self::Load(LoadError::OutOfMemory { .. }) => FailureCause::NoMemory,
            Self::Recorder(failed) if failed.ended.is_some() => FailureCause::NoMemory,
            Self::Recorder(_) | Self::ServerEnded(..) | Self::Withdrawn(..) => FailureCause::Other,
            Self::Load(_) => FailureCause::Workload,
        }
    }
}

/// What was measured, with this machine's own time for it.
struct Timed {
    measured: Measured,
    /// Seconds in which the load ran.
    load_s: f64,
    /// How many of them this machine was asleep.
    asleep_s: Option<f64>,
}

/// Lays out the data set, and brings the stack into the state in which every measurement begins.
fn prepare(
    lab: &Lab,
    built: &BuiltStack,
    request: &CellRequest<'_>,
    place: &Place,
    progress: &dyn Fn(&str),
) -> Result<(), CellError> {
    let machine = &built.top_machine().machine;
    lay_out(machine, request, place, progress)?;
    progress("emptying the caches");
    built.end_preparation()?;
    built.empty_caches()?;
    lab.set_timing(true)?;
    Ok(wait_for_start(machine, built, request.seed)?)
}

/// Makes the data set of a workload.
fn lay_out(
    machine: &Machine,
    request: &CellRequest<'_>,
    place: &Place,
    progress: &dyn Fn(&str),
) -> Result<(), CellError> {
    for step in request.workload.prepare(place, request.seed) {
        progress(&step.title);
        let output = run_step(machine, &step)?;
        request.workload.check_preparation(&output)?;
    }
    Ok(())
}

/// Where a workload works on a machine, with a directory for its own files there.
fn place_on(machine: &Machine, work_directory: &str, top: &Top) -> Result<Place, MachineError> {
    let scratch = format!("{work_directory}/load");
    machine.make_directory(&scratch)?;
    let target = match top {
        Top::Directory(path) => Target::Directory(path.clone()),
        Top::Device(path) => Target::Device(path.clone()),
    };
    Ok(Place { target, scratch })
}

/// Where a workload works on a stack.
fn place_in(built: &BuiltStack) -> Result<Place, MachineError> {
    let top = built.top_machine();
    place_on(&top.machine, &top.facts.work_directory, &built.top)
}

fn measure_on(
    lab: &Lab,
    built: &BuiltStack,
    request: &CellRequest<'_>,
    progress: &dyn Fn(&str),
) -> Result<Timed, CellError> {
    let place = place_in(built)?;
    prepare(lab, built, request, &place, progress)?;
    let watched = WatchedRun::start(lab, built, request, &place, progress)?;
    let ran = watched.run(watched.put());
    watched.finish(ran, progress)
}

/// Waits for a time that the seed decides, so that the periodic work of the kernels meets the workload at another point.
///
/// In real time that point is unpredictable anyway.
fn wait_for_start(machine: &Machine, built: &BuiltStack, seed: u64) -> Result<(), MachineError> {
    if built.time.is_virtual() {
        let after = Seed(seed).start_after();
        machine.run_ok(Command::new(["sleep".to_owned(), format!("{:.6}", after.as_secs_f64())]))?;
    }
    Ok(())
}

/// Of a paravirtualised domain.
const TOLD_TOGETHER: &str = "the instructions of the paravirtualised domain are among those of the machine around it: both run without the \
                             processor's mode for guests, which would tell them apart";

fn assemble(
    built: &BuiltStack,
    load: LoadResult,
    mut joined: joined::Joined,
    mut recorded: observe::Recorded,
) -> Measured {
    let path_length = match recorded.path_length {
        Some(Err(why_not)) => {
            joined.remarks.push(format!("instructions are not counted: {why_not}"));
            None
        }
        Some(Ok(path_length)) => {
            let mut layers = built.stack.layers().iter();
            if layers.any(|layer| layer.is_hypervisor() && !layer.uses_guest_mode()) {
                joined.remarks.push(TOLD_TOGETHER.to_owned());
            }
            Some(path_length)
        }
        None => None,
    };
    joined.remarks.extend(recorded.networks.remarks);
    for network in &mut recorded.networks.records {
        network.calls = joined.calls.remove(&network.position).map(Box::new);
    }
    let host_cpu_busy = joined.cpu_busy.first().map_or(0.0, |(_, busy)| *busy);
    Measured {
        load,
        layers: joined.layers,
        host_cpu_busy,
        cpu_busy: joined.cpu_busy,
        images: joined.images,
        correlation: joined.correlation,
        trace_remarks: joined.remarks,
        path_length,
        networks: recorded.networks.records,
        lives: Vec::new(),
    }
}

/// The cause of a machine's failure, without its context.
fn cause_of(error: &MachineError) -> FailureCause {
    match error.cause() {
        Cause::NotMounted | Cause::NotSupported => FailureCause::NotPossible,
        Cause::NotInstalled { .. } => FailureCause::NotInstalled,
        Cause::MachineLost
        | Cause::GivenUp { .. }
        | Cause::MachineSilent
        | Cause::NotStarted
        | Cause::NotStartedInTime
        | Cause::NotLoaded => FailureCause::MachineLost,
        Cause::NoSpace => FailureCause::NoSpace,
        Cause::NoMemory => FailureCause::NoMemory,
        Cause::ProgramFailed { .. }
        | Cause::NotPermitted
        | Cause::NotThere
        | Cause::OfAnotherKind { .. }
        | Cause::InUse
        | Cause::NoDisk
        | Cause::NoVirtualTime
        | Cause::NotUndone { .. }
        | Cause::TimedOut
        | Cause::TakenDown
        | Cause::Other => FailureCause::Other,
    }
}

/// The cause where a layer could not be made. A program that ends by itself with an error, and a kernel that does not permit it,
/// refuse the layer; one that was killed or took too long says nothing of it.
fn cause_of_layer(error: &MachineError) -> FailureCause {
    match error.cause() {
        Cause::ProgramFailed { ended: ProgramEnd::Code(_), .. } | Cause::NotPermitted => {
            FailureCause::NotPossible
        }
        _ => cause_of(error),
    }
}

/// The cause where the laboratory itself was not ready.
fn cause_of_lab(problem: &LabProblem) -> FailureCause {
    match problem {
        LabProblem::NotRoot { .. }
        | LabProblem::NoGround { .. }
        | LabProblem::HostMemoryIsGiven { .. }
        | LabProblem::Link(LinkProblem::KernelLacks { .. } | LinkProblem::NoVersion { .. }) => {
            FailureCause::NotPossible
        }
        LabProblem::Link(LinkProblem::NoServer { source, .. }) => cause_of_layer(source),
        LabProblem::NoHypervisor
        | LabProblem::NoPack { .. }
        | LabProblem::NoPrograms { .. }
        | LabProblem::NoKernel { .. }
        | LabProblem::NoQemu { .. }
        | LabProblem::QemuChanged { .. } => FailureCause::NotInstalled,
        LabProblem::TooMuchMemory { .. } | LabProblem::TooManyInstances { .. } => FailureCause::NoMemory,
        LabProblem::MachineEnded => FailureCause::MachineLost,
        LabProblem::RootNotServed { source } => cause_of(source),
        LabProblem::CannotKeep { source, .. } => cause_of_system(source),
        LabProblem::SilentHypervisor { .. }
        | LabProblem::UnknownImage
        | LabProblem::NotUndone { .. }
        | LabProblem::Link(
            LinkProblem::ServiceRuns { .. }
            | LinkProblem::NoRoute { .. }
            | LinkProblem::NotExported { .. }
            | LinkProblem::Exported { .. }
            | LinkProblem::NetworkInUse { .. }
            | LinkProblem::DeviceInUse { .. },
        )
        | LabProblem::KeptHostRemoved { .. } => FailureCause::Other,
    }
}

/// The cause where the operating system refused something on this machine.
fn cause_of_system(error: &io::Error) -> FailureCause {
    match Cause::of_io(error) {
        Cause::NoSpace => FailureCause::NoSpace,
        Cause::NoMemory => FailureCause::NoMemory,
        _ => FailureCause::Other,
    }
}

#[cfg(test)]
mod tests;
