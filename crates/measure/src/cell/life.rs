//! The life of an instance: the states it goes through, one after the other, on the clock of its node.

use nestor_kernel::DiskStatistics;
use nestor_kernel::processor_time::MachineTimes;
use nestor_lab::{BuildError, BuiltStack, Instance, Lab, NetworkLoss};
use nestor_link::LinkStatistics;
use nestor_machine::{Loss, Machine, MachineError};
use nestor_processor::InstructionCounts;
use nestor_results::{DiskUse, Environment, InstanceLife, LifeState, StateRecord, TraceMode};
use nestor_stack::{LayerIndex, MachineIndex, MachineName};
use nestor_workload::LifeCycle;

use super::watched_run::WatchedRun;
use super::{CellError, CellRequest, Timed, environment, explained, lay_out, place_on};

/// What a machine's processors did.
const PROCESSORS: &str = "/proc/stat";

/// A machine with the disk that is counted.
struct Counted {
    name: MachineName,
    machine: Machine,
    /// Its statistics file.
    disk: String,
}

/// What was counted until a moment.
#[derive(Clone, Default)]
struct Counters {
    link: LinkStatistics,
    disks: Vec<DiskStatistics>,
    processors: Vec<MachineTimes>,
    instructions: Option<InstructionCounts>,
}

/// The states that an instance has gone through, and the one it is in.
struct Course {
    node: Machine,
    link: Option<LayerIndex>,
    link_bits_per_s: f64,
    counted: Vec<Counted>,
    is_virtual: bool,
    /// Length of the image's file at the repository, once it came.
    image_bytes: u64,
    /// When the instance was asked for.
    asked_ns: u64,
    states: Vec<StateRecord>,
    state: LifeState,
    begin_ns: u64,
    own_ns: u64,
    begin: Counters,
}

impl Course {
    /// The instance is asked for now.
    fn begin(lab: &Lab, request: &CellRequest<'_>, instance: &Instance<'_>) -> Result<Self, CellError> {
        let machines = request.stack.machines();
        let counted = instance.machine_indexes().into_iter().zip(instance.machines()).zip(instance.disks());
        let counted = counted.map(|((index, machine), disk)| Counted {
            name: machines[index].label.into(),
            machine: machine.clone(),
            disk: DiskStatistics::path(disk),
        });
        let [_, node] = instance.machines();
        let rate = instance.link().and_then(|link| Some(request.stack.layer(link).link()?.rate));
        let mut course = Self {
            node: node.clone(),
            link: instance.link(),
            link_bits_per_s: rate.map_or(f64::INFINITY, |rate| rate.get() as f64),
            counted: counted.collect(),
            is_virtual: lab.place().is_in_virtual_time(),
            image_bytes: 0,
            asked_ns: 0,
            states: Vec::new(),
            state: LifeState::Pending,
            begin_ns: 0,
            own_ns: 0,
            begin: Counters::default(),
        };
        course.asked_ns = course.node.read_clock(false)?;
        course.resume(lab, LifeState::Pending, course.asked_ns)?;
        Ok(course)
    }

    /// Whether the node's instructions are counted at the ends of a state. While the workload runs, its own recorders count them, by marks of
    /// which no other may be among theirs.
    fn counts_instructions(&self, state: LifeState) -> bool {
        self.is_virtual && state != LifeState::Running
    }

    fn count(&self, lab: &Lab, state: LifeState) -> Result<Counters, MachineError> {
        let link = self.link.map(|link| lab.link_statistics(link)).transpose()?.unwrap_or_default();
        let disk = |counted: &Counted| {
            let text = counted.machine.read_file(&counted.disk)?;
            Ok(DiskStatistics::parse(&String::from_utf8_lossy(&text)).unwrap_or_default())
        };
        let disks = self.counted.iter().map(disk).collect::<Result<_, MachineError>>()?;
        let processors = |counted: &Counted| {
            let text = counted.machine.read_file(PROCESSORS)?;
            Ok(MachineTimes::parse(&String::from_utf8_lossy(&text)))
        };
        let processors = self.counted.iter().map(processors).collect::<Result<_, MachineError>>()?;
        let instructions = match self.counts_instructions(state) {
            true => lab.take_instructions_of(MachineIndex::OUTERMOST)?.marks.last().copied(),
            false => None,
        };
        Ok(Counters { link, disks, processors, instructions })
    }

    /// The state ends here, and the next one begins; but first the laboratory does something for itself.
    fn pass_to<T, E>(
        &mut self,
        lab: &mut Lab,
        next: LifeState,
        own: impl FnOnce(&mut Lab) -> Result<T, E>,
    ) -> Result<T, CellError>
    where
        CellError: From<E>,
    {
        let now_ns = self.close(lab)?;
        let done = own(lab)?;
        self.resume(lab, next, now_ns)?;
        Ok(done)
    }

    /// The state that began when the last one ended goes on without the laboratory from here on.
    fn resume(&mut self, lab: &Lab, state: LifeState, begin_ns: u64) -> Result<(), MachineError> {
        // Instructions are counted where the clock was read.
        self.node.read_clock(self.counts_instructions(state))?;
        (self.state, self.begin_ns, self.begin) = (state, begin_ns, self.count(lab, state)?);
        self.own_ns = self.node.read_clock(false)?.saturating_sub(begin_ns);
        Ok(())
    }

    /// Ends the state that the instance is in; when, on the node's clock.
    fn close(&mut self, lab: &Lab) -> Result<u64, MachineError> {
        let now_ns = self.node.read_clock(self.counts_instructions(self.state))?;
        let end = self.count(lab, self.state)?;
        self.states.push(self.record(now_ns, &end));
        Ok(now_ns)
    }

    fn record(&self, now_ns: u64, end: &Counters) -> StateRecord {
        let disks = self.counted.iter().zip(self.begin.disks.iter().zip(&end.disks));
        let disks = disks.map(|(counted, (begin, end))| {
            let DiskStatistics { read_bytes, written_bytes, busy_ns } = end.since(begin);
            DiskUse { machine: counted.name.clone(), read_bytes, written_bytes, busy_ns }
        });
        let times = self.begin.processors.iter().zip(&end.processors);
        let processors = self
            .counted
            .iter()
            .zip(times)
            .map(|(counted, (begin, end))| (counted.name.clone(), begin.busy_share_until(end)));
        let instructions = self.begin.instructions.zip(end.instructions);
        // The repository is at the lower end of its link.
        let sent = end.link.from_lower.since(&self.begin.link.from_lower);
        let duration_ns = now_ns.saturating_sub(self.begin_ns).saturating_sub(self.own_ns);
        let on_the_wire_s = sent.wire_bytes() as f64 * 8.0 / self.link_bits_per_s;
        StateRecord {
            state: self.state,
            begin_ns: self.begin_ns.saturating_sub(self.asked_ns),
            end_ns: now_ns.saturating_sub(self.asked_ns),
            own_ns: self.own_ns,
            from_repository_bytes: sent.bytes,
            to_repository_bytes: end.link.from_upper.since(&self.begin.link.from_upper).bytes,
            link_busy: on_the_wire_s / (duration_ns.max(1) as f64 / 1e9),
            disks: disks.collect(),
            processors: processors.collect(),
            instructions: instructions.map(|(begin, end)| end.since(&begin)),
        }
    }

    /// What the instance's own clock says of its boot, which has just ended: until its first process, and until its agent answered.
    fn of_boot(&self, built: &BuiltStack) -> Result<(Option<u64>, u64), MachineError> {
        let boot = self.states.iter().find(|state| state.state == LifeState::Boot);
        let begun_ns = self.asked_ns + boot.map_or(0, |boot| boot.begin_ns + boot.own_ns);
        let guest = built.machines.indexed().find_map(|(index, machine)| {
            let is_inside = matches!(built.machines.relation(index), Some(nestor_stack::Relation::Inside(_)));
            is_inside.then_some(machine)
        });
        let Some(guest) = guest else { return Ok((None, 0)) };
        let hello_ns = guest.greeted_ns.map_or(0, |greeted| greeted.saturating_sub(begun_ns));
        let (guest_ns, node_ns) = (guest.machine.read_clock(false)?, self.node.read_clock(false)?);
        // Both clocks go equally fast.
        let age_ns = guest_ns.checked_sub(guest.facts.begun_ns);
        let first = age_ns.and_then(|age| node_ns.checked_sub(age)?.checked_sub(begun_ns));
        Ok((first.filter(|first| *first <= hello_ns), hello_ns))
    }
}

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
    let mut instance = lab.prepare_instance(request.stack)?;
    let came = bring(lab, &running, &mut instance, progress);
    let mut course = match came {
        Ok(course) => course,
        Err(e) => {
            let told = lost(e, |loss| lab.network_loss(instance.network(), loss));
            lab.give_up_instance(instance);
            return Err(told);
        }
    };
    progress("booting the instance");
    let mut built = lab.boot_instance(instance).map_err(|e| in_state(&course, e.into()))?;
    *environment = environment::of(lab, &built, request);
    let lived = live(lab, &mut course, &mut built, &running, progress);
    if lived.as_ref().is_err_and(|e| e.cause() == nestor_results::FailureCause::MachineLost) {
        lab.give_up_guests();
    }
    progress("taking the stack down");
    let taken_down = lab.take_down(built);
    let (mut timed, first_process_ns, hello_ns) = lived?;
    taken_down?;
    if cycle.run.is_none() {
        // Nothing ran of which it could be said.
        (timed.measured.host_cpu_busy, timed.measured.cpu_busy) = (0.0, Vec::new());
        timed.measured.trace_remarks.clear();
    }
    let life =
        InstanceLife { image_bytes: course.image_bytes, states: course.states, first_process_ns, hello_ns };
    if cycle.run.is_none() {
        timed.measured.load.elapsed_ns = life.whole_ns();
    }
    timed.measured.load.workload = request.workload.to_string();
    timed.measured.lives = vec![life];
    Ok(timed)
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
    let mut course = Course::begin(lab, running, instance)?;
    progress("the instance's image is on its way");
    let nothing = |_: &mut Lab| Ok::<(), BuildError>(());
    course.pass_to(lab, LifeState::Transfer, nothing)?;
    let came = lab.fetch_instance(instance).map_err(CellError::from).and_then(|transferred| {
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
) -> Result<(Timed, Option<u64>, u64), CellError> {
    let timed = run(lab, course, built, running, progress);
    let (timed, boot) = timed.map_err(|e| in_state(course, explained(e, lab, built)))?;
    progress("shutting the instance down");
    let ended = lab.shut_down_instance(built).map_err(CellError::from);
    let nothing = |_: &mut Lab| Ok::<(), BuildError>(());
    let removed = ended.and_then(|()| course.pass_to(lab, LifeState::Cleanup, nothing)).and_then(|()| {
        lab.remove_instance(built)?;
        course.close(lab)?;
        Ok(lab.set_timing(false)?)
    });
    removed.map_err(|e| in_state(course, e))?;
    Ok((timed, boot.0, boot.1))
}

/// The state in which the workload runs.
fn run(
    lab: &mut Lab,
    course: &mut Course,
    built: &mut BuiltStack,
    running: &CellRequest<'_>,
    progress: &dyn Fn(&str),
) -> Result<(Timed, (Option<u64>, u64)), CellError> {
    let top = built.top_machine().clone();
    let place = place_on(&top.machine, &top.facts.work_directory, &built.top)?;
    let now_ns = course.close(lab)?;
    let boot = course.of_boot(built)?;
    let watched = WatchedRun::start(lab, built, running, &place, progress)?;
    course.resume(lab, LifeState::Running, now_ns)?;
    let ran = watched.run();
    let now_ns = course.close(lab)?;
    let timed = watched.finish(ran, progress)?;
    lab.set_timing(true)?;
    course.resume(lab, LifeState::Shutdown, now_ns)?;
    Ok((timed, boot))
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
