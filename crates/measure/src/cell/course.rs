//! The course of the lives of instances that go through their states together: one state after the other on the clock of their node, with what was
//! counted in each.

use nestor_kernel::DiskStatistics;
use nestor_kernel::processor_time::MachineTimes;
use nestor_lab::{BuiltStack, Instance, Lab};
use nestor_link::LinkStatistics;
use nestor_machine::{Machine, MachineError};
use nestor_processor::InstructionCounts;
use nestor_results::{DiskUse, InstanceLife, LifeState, StateRecord};
use nestor_stack::{LayerIndex, MachineIndex, MachineName, Place, Relation, Stack};

use super::CellError;

/// What a machine's processors did.
const PROCESSORS: &str = "/proc/stat";

/// What is known of a boot: until the first process, and until the agent answered.
pub(super) type Boot = (Option<u64>, u64);

/// A machine with the disk that is counted.
struct Counted {
    name: MachineName,
    machine: Machine,
    /// Its statistics file.
    disk: Option<String>,
}

/// What was counted until a moment.
#[derive(Clone, Default)]
struct Counters {
    link: LinkStatistics,
    disks: Vec<Option<DiskStatistics>>,
    processors: Vec<MachineTimes>,
    instructions: Option<InstructionCounts>,
}

/// The states that instances have gone through, and the one they are in.
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
    /// Those that have ended, as they were for all instances.
    states: Vec<StateRecord>,
    /// For each of them, when it ended for each instance, in nanoseconds since they were asked for; nothing where there is one instance.
    ends_ns: Vec<Vec<u64>>,
    /// The same of the state that is about to end.
    next_ends_ns: Vec<u64>,
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
            // What a directory of the user's is on need not be a device that the kernel counts.
            disk: disk.as_deref().map(DiskStatistics::path).filter(|path| machine.read_file(path).is_ok()),
        });
        let [_, node] = instance.machines();
        // How fast a wire of the user's is, is not known.
        let is_modelled = !matches!(lab.place(), Place::SshPair { .. });
        let link = instance.link().filter(|_| is_modelled);
        let rate = link.and_then(|link| Some(stack.layer(link).link()?.rate));
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
            ends_ns: Vec::new(),
            next_ends_ns: Vec::new(),
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
            let Some(disk) = &counted.disk else { return Ok(None) };
            let text = counted.machine.read_file(disk)?;
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

    /// The machine that the instances run on.
    pub(super) fn node(&self) -> &Machine {
        &self.node
    }

    /// The state has ended for each of several instances at a time of its own, on the node's clock, and it waits for the others. That of one
    /// instance ends when the state is closed.
    pub(super) fn note_ends(&mut self, ends_ns: Vec<u64>) {
        if ends_ns.len() > 1 {
            let asked_ns = self.asked_ns;
            self.next_ends_ns = ends_ns.into_iter().map(|end_ns| end_ns.saturating_sub(asked_ns)).collect();
        }
    }

    /// The lives of instances of which it is known how they booted.
    pub(super) fn into_lives(self, boots: Vec<Boot>) -> Vec<InstanceLife> {
        lives(self.image_bytes, &self.states, &self.ends_ns, boots)
    }

    /// In which state that has ended the instances were at a time of the node's clock, what the laboratory needed before it included; in the one
    /// that they are in at another time.
    pub(super) fn state_at(&self, at_ns: u64) -> LifeState {
        state_at(&self.states, at_ns.saturating_sub(self.asked_ns)).unwrap_or(self.state)
    }

    /// Ends the state that the instances are in; when, on the node's clock.
    pub(super) fn close(&mut self, lab: &Lab) -> Result<u64, MachineError> {
        let (now_ns, instructions) = self.clock(lab, self.state)?;
        let link = self.link_statistics(lab)?;
        let end = Counters { link, instructions, ..self.count(lab)? };
        self.states.push(self.record(now_ns, &end));
        self.ends_ns.push(std::mem::take(&mut self.next_ends_ns));
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
            waited_ns: 0,
            from_repository_bytes: sent.bytes,
            to_repository_bytes: end.link.from_upper.since(&self.begin.link.from_upper).bytes,
            link_busy: on_the_wire_s / (duration_ns.max(1) as f64 / 1e9),
            disks: disks.collect(),
            processors: processors.collect(),
            instructions: instructions.map(|(begin, end)| end.since(&begin)),
        }
    }

    /// What the instance's own clock says of its boot, which has just ended: until its first process, and until its agent answered.
    pub(super) fn of_boot(&self, built: &BuiltStack) -> Result<Boot, MachineError> {
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

fn state_at(states: &[StateRecord], since_asked_ns: u64) -> Option<LifeState> {
    let is_in = |state: &&StateRecord| (state.begin_ns..state.end_ns).contains(&since_asked_ns);
    states.iter().find(is_in).map(|state| state.state)
}

/// The lives of instances from the states of all of them, and from the ends of each state for each instance, if they differ.
fn lives(
    image_bytes: u64,
    states: &[StateRecord],
    ends_ns: &[Vec<u64>],
    boots: Vec<Boot>,
) -> Vec<InstanceLife> {
    let of_instance = |(number, (first_process_ns, hello_ns)): (usize, Boot)| {
        let states = states.iter().zip(ends_ns).map(|(state, ends_ns)| {
            let waited_ns = ends_ns.get(number).map_or(0, |end_ns| state.end_ns.saturating_sub(*end_ns));
            StateRecord { waited_ns: waited_ns.min(state.group_ns()), ..state.clone() }
        });
        InstanceLife { image_bytes, states: states.collect(), first_process_ns, hello_ns, managed: None }
    };
    boots.into_iter().enumerate().map(of_instance).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(state: LifeState, begin_ns: u64, end_ns: u64, own_ns: u64) -> StateRecord {
        StateRecord { own_ns, from_repository_bytes: 7, ..StateRecord::uncounted(state, begin_ns, end_ns) }
    }

    #[test]
    fn who_is_done_before_the_last_has_waited_for_the_rest() {
        let states = [state(LifeState::Transfer, 0, 900, 0), state(LifeState::Boot, 900, 2_000, 100)];
        let ends_ns = [vec![900, 600], vec![1_500, 1_990]];
        let lives = lives(1, &states, &ends_ns, vec![(None, 5), (Some(3), 6)]);
        let took = |life: &InstanceLife| life.states.iter().map(StateRecord::duration_ns).collect::<Vec<_>>();
        assert_eq!(took(&lives[0]), [900, 500]);
        assert_eq!(took(&lives[1]), [600, 990]);
        assert_eq!((lives[0].hello_ns, lives[1].first_process_ns), (5, Some(3)));
        for life in &lives {
            assert_eq!((life.whole_ns(), life.unaccounted_ns()), (life.in_states_ns(), 0));
            assert_eq!(life.states[0].from_repository_bytes, 7, "it is that of all of them");
        }
    }

    #[test]
    fn what_happened_at_a_time_happened_in_the_state_of_that_time() {
        let states = [state(LifeState::Boot, 100, 900, 50), state(LifeState::Running, 900, 2_000, 100)];
        assert_eq!(state_at(&states, 120), Some(LifeState::Boot));
        assert_eq!(state_at(&states, 900), Some(LifeState::Running));
        assert_eq!(state_at(&states, 2_000), None);
    }

    #[test]
    fn one_instance_waits_for_none() {
        let states = [state(LifeState::Transfer, 0, 900, 0)];
        let lives = lives(1, &states, &[Vec::new()], vec![(None, 5)]);
        assert_eq!(lives[0].states[0].duration_ns(), 900);
    }
}
