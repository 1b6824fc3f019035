//! The course of an instance's life: its states one after the other on the clock of its node, with what was counted in each.

use nestor_kernel::DiskStatistics;
use nestor_kernel::processor_time::MachineTimes;
use nestor_lab::{BuiltStack, Instance, Lab};
use nestor_link::LinkStatistics;
use nestor_machine::{Machine, MachineError};
use nestor_processor::InstructionCounts;
use nestor_results::{DiskUse, LifeState, StateRecord};
use nestor_stack::{LayerIndex, MachineIndex, MachineName, Relation, Stack};

use super::CellError;

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
    disks: Vec<Option<DiskStatistics>>,
    processors: Vec<MachineTimes>,
    instructions: Option<InstructionCounts>,
}

/// The states that an instance has gone through, and the one it is in.
pub(super) struct Course {
    node: Machine,
    link: Option<LayerIndex>,
    link_bits_per_s: f64,
    counted: Vec<Counted>,
    is_virtual: bool,
    /// Whether a workload runs in it.
    has_load: bool,
    /// Length of the image's file at the repository, once it came.
    pub(super) image_bytes: u64,
    /// When the instance was asked for.
    asked_ns: u64,
    pub(super) states: Vec<StateRecord>,
    pub(super) state: LifeState,
    begin_ns: u64,
    own_ns: u64,
    begin: Counters,
}

impl Course {
    /// The instance is asked for now.
    pub(super) fn begin(
        lab: &Lab,
        stack: &Stack,
        instance: &Instance<'_>,
        has_load: bool,
    ) -> Result<Self, CellError> {
        let machines = stack.machines();
        let counted = instance.machine_indexes().into_iter().zip(instance.machines()).zip(instance.disks());
        let counted = counted.map(|((index, machine), disk)| Counted {
            name: machines[index].label.into(),
            machine: machine.clone(),
            disk: DiskStatistics::path(disk),
        });
        let [_, node] = instance.machines();
        let rate = instance.link().and_then(|link| Some(stack.layer(link).link()?.rate));
        let mut course = Self {
            node: node.clone(),
            link: instance.link(),
            link_bits_per_s: rate.map_or(f64::INFINITY, |rate| rate.get() as f64),
            counted: counted.collect(),
            is_virtual: lab.place().is_in_virtual_time(),
            has_load,
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
        self.is_virtual && !(self.has_load && state == LifeState::Running)
    }

    /// What the machines and the link have done, without instructions.
    fn count(&self, lab: &Lab) -> Result<Counters, MachineError> {
        let disk = |counted: &Counted| {
            let text = counted.machine.read_file(&counted.disk)?;
            Ok(DiskStatistics::parse(&String::from_utf8_lossy(&text)))
        };
        let disks = self.counted.iter().map(disk).collect::<Result<_, MachineError>>()?;
        let processors = |counted: &Counted| {
            let text = counted.machine.read_file(PROCESSORS)?;
            Ok(MachineTimes::parse(&String::from_utf8_lossy(&text)))
        };
        let processors = self.counted.iter().map(processors).collect::<Result<_, MachineError>>()?;
        Ok(Counters { link: self.link_statistics(lab)?, disks, processors, instructions: None })
    }

    fn link_statistics(&self, lab: &Lab) -> Result<LinkStatistics, MachineError> {
        Ok(self.link.map(|link| lab.link_statistics(link)).transpose()?.unwrap_or_default())
    }

    /// The node's clock, and what its processor had executed then. To ask for that takes no time of the machines.
    fn clock(&self, lab: &Lab, state: LifeState) -> Result<(u64, Option<InstructionCounts>), MachineError> {
        let counts = self.counts_instructions(state);
        let now_ns = self.node.read_clock(counts)?;
        let counted = if counts {
            lab.take_instructions_of(MachineIndex::OUTERMOST)?.marks.last().copied()
        } else {
            None
        };
        Ok((now_ns, counted))
    }

    /// The state ends here, and the next one begins; but first the laboratory does something for itself.
    pub(super) fn pass_to<T, E>(
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

    /// The state that began when the last one ended goes on without the laboratory from here on: the clock is what is read last.
    pub(super) fn resume(&mut self, lab: &Lab, state: LifeState, begin_ns: u64) -> Result<(), MachineError> {
        (self.state, self.begin_ns) = (state, begin_ns);
        let counters = self.count(lab)?;
        let (now_ns, instructions) = self.clock(lab, state)?;
        self.begin = Counters { link: self.link_statistics(lab)?, instructions, ..counters };
        self.own_ns = now_ns.saturating_sub(begin_ns);
        Ok(())
    }

    /// Ends the state that the instance is in; when, on the node's clock.
    pub(super) fn close(&mut self, lab: &Lab) -> Result<u64, MachineError> {
        let (now_ns, instructions) = self.clock(lab, self.state)?;
        let link = self.link_statistics(lab)?;
        let end = Counters { link, instructions, ..self.count(lab)? };
        self.states.push(self.record(now_ns, &end));
        Ok(now_ns)
    }

    fn record(&self, now_ns: u64, end: &Counters) -> StateRecord {
        let disks = self.counted.iter().zip(self.begin.disks.iter().zip(&end.disks));
        let disks = disks.filter_map(|(counted, (begin, end))| {
            let DiskStatistics { read_bytes, written_bytes, busy_ns } = end.as_ref()?.since(begin.as_ref()?);
            Some(DiskUse { machine: counted.name.clone(), read_bytes, written_bytes, busy_ns })
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
    pub(super) fn of_boot(&self, built: &BuiltStack) -> Result<(Option<u64>, u64), MachineError> {
        let boot = self.states.iter().find(|state| state.state == LifeState::Boot);
        let begun_ns = self.asked_ns + boot.map_or(0, |boot| boot.begin_ns + boot.own_ns);
        let guest = built.machines.indexed().find_map(|(index, machine)| {
            let is_inside = matches!(built.machines.relation(index), Some(Relation::Inside(_)));
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
