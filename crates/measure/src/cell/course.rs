//! The course of the lives of instances that go through their states together: one state after the other on the clock of each one's node, with
//! what was counted in each.

use nestor_kernel::DiskStatistics;
use nestor_kernel::processor_time::MachineTimes;
use nestor_lab::{BuiltStack, Instance, Lab, LifeMachine, dealt};
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

impl Counted {
    fn of(of: &LifeMachine<'_>) -> Self {
        let LifeMachine { label, machine, disk, .. } = *of;
        // What a directory of the user's is on need not be a device that the kernel counts.
        let disk = disk.map(DiskStatistics::path).filter(|path| machine.read_file(path).is_ok());
        Self { name: label.into(), machine: machine.clone(), disk }
    }
}

/// What was counted until a moment.
#[derive(Clone, Default)]
struct Counters {
    link: LinkStatistics,
    /// Of the repository, then of the nodes.
    disks: Vec<Option<DiskStatistics>>,
    processors: Vec<MachineTimes>,
}

/// A node, and on its clock the states that its instances have gone through, and the one they are in.
struct Node {
    index: MachineIndex,
    machine: Machine,
    /// When the instances were asked for.
    asked_ns: u64,
    /// Those that have ended, as they were for all instances.
    states: Vec<StateRecord>,
    begin_ns: u64,
    own_ns: u64,
    /// What its processor had executed when the state went on.
    begun_with: Option<InstructionCounts>,
}

/// The same moment on the clock of each node, as nearly as they can be read one after the other.
pub(super) type Moments = Vec<u64>;

/// The states that instances have gone through, and the one they are in.
pub(super) struct Course {
    nodes: Vec<Node>,
    link: Option<LayerIndex>,
    link_bits_per_s: f64,
    /// The repository, then the nodes.
    counted: Vec<Counted>,
    is_virtual: bool,
    /// Whether a workload runs in it.
    has_load: bool,
    /// Length of the image's file at the repository, once it came.
    pub(super) image_bytes: u64,
    /// For each state that has ended, when it ended for each instance, in nanoseconds since they were asked for; nothing where there is one
    /// instance.
    ends_ns: Vec<Vec<u64>>,
    /// The same of the state that is about to end.
    next_ends_ns: Vec<u64>,
    pub(super) state: LifeState,
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
        let nodes = instance.nodes();
        let counted = [instance.repository()].iter().chain(&nodes).map(Counted::of).collect();
        // How fast a wire of the user's is, is not known.
        let is_modelled = !matches!(lab.place(), Place::SshPair { .. });
        let link = instance.link().filter(|_| is_modelled);
        let rate = link.and_then(|link| Some(stack.layer(link).link()?.rate));
        let node = |LifeMachine { index, machine, .. }: &LifeMachine<'_>| {
            let asked_ns = machine.read_clock(false)?;
            let (index, machine) = (*index, (*machine).clone());
            let (states, begin_ns, own_ns, begun_with) = (Vec::new(), asked_ns, 0, None);
            Ok(Node { index, machine, asked_ns, states, begin_ns, own_ns, begun_with })
        };
        let nodes: Vec<Node> = nodes.iter().map(node).collect::<Result<_, MachineError>>()?;
        let asked_ns = nodes.iter().map(|node| node.asked_ns).collect();
        let mut course = Self {
            nodes,
            link: instance.link(),
            link_bits_per_s: rate.map_or(f64::INFINITY, |rate| rate.get() as f64),
            counted,
            is_virtual: lab.place().is_in_virtual_time(),
            has_load,
            image_bytes: 0,
            ends_ns: Vec::new(),
            next_ends_ns: Vec::new(),
            state: LifeState::Pending,
            begin: Counters::default(),
        };
        course.resume(lab, LifeState::Pending, asked_ns)?;
        Ok(course)
    }

    /// Whether the nodes' instructions are counted at the ends of a state. While the workload runs, its own recorders count them, by marks of
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
        Ok(Counters { link: self.link_statistics(lab)?, disks, processors })
    }

    fn link_statistics(&self, lab: &Lab) -> Result<LinkStatistics, MachineError> {
        Ok(self.link.map(|link| lab.link_statistics(link)).transpose()?.unwrap_or_default())
    }

    /// The clocks of the nodes, and what their processors had executed then. To ask for that takes no time of the machines.
    fn clocks(
        &self,
        lab: &Lab,
        state: LifeState,
    ) -> Result<Vec<(u64, Option<InstructionCounts>)>, MachineError> {
        let counts = self.counts_instructions(state);
        let clock = |node: &Node| {
            let now_ns = node.machine.read_clock(counts)?;
            let counted =
                if counts { lab.take_instructions_of(node.index)?.marks.last().copied() } else { None };
            Ok((now_ns, counted))
        };
        self.nodes.iter().map(clock).collect()
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

    /// The state that began when the last one ended goes on without the laboratory from here on: the clocks are what is read last.
    pub(super) fn resume(&mut self, lab: &Lab, state: LifeState, begin: Moments) -> Result<(), MachineError> {
        self.state = state;
        for (node, begin_ns) in self.nodes.iter_mut().zip(&begin) {
            node.begin_ns = *begin_ns;
        }
        let counters = self.count(lab)?;
        let clocks = self.clocks(lab, state)?;
        self.begin = Counters { link: self.link_statistics(lab)?, ..counters };
        for (node, (now_ns, instructions)) in self.nodes.iter_mut().zip(clocks) {
            node.own_ns = now_ns.saturating_sub(node.begin_ns);
            node.begun_with = instructions;
        }
        Ok(())
    }

    /// The machines that the instances run on, to which they are [dealt](dealt).
    pub(super) fn nodes(&self) -> Vec<&Machine> {
        self.nodes.iter().map(|node| &node.machine).collect()
    }

    /// The node of an instance.
    fn node_of(&self, instance: usize) -> &Node {
        &self.nodes[dealt::place(instance, self.nodes.len()).0]
    }

    /// The state has ended for each of several instances at a time of its own, on its node's clock, and it waits for the others. That of one
    /// instance ends when the state is closed.
    pub(super) fn note_ends(&mut self, ends_ns: Vec<u64>) {
        if ends_ns.len() > 1 {
            let since_asked =
                |(instance, end_ns): (usize, u64)| end_ns.saturating_sub(self.node_of(instance).asked_ns);
            self.next_ends_ns = ends_ns.into_iter().enumerate().map(since_asked).collect();
        }
    }

    /// The lives of instances of which it is known how they booted.
    pub(super) fn into_lives(self, boots: Vec<Boot>) -> Vec<InstanceLife> {
        let states: Vec<_> = self.nodes.into_iter().map(|node| node.states).collect();
        lives(self.image_bytes, &states, &self.ends_ns, boots)
    }

    /// In which state that has ended an instance was at a time of its node's clock, what the laboratory needed before it included; in the one
    /// that it is in at another time.
    pub(super) fn state_at(&self, instance: usize, at_ns: u64) -> LifeState {
        let node = self.node_of(instance);
        state_at(&node.states, at_ns.saturating_sub(node.asked_ns)).unwrap_or(self.state)
    }

    /// Ends the state that the instances are in; when.
    pub(super) fn close(&mut self, lab: &Lab) -> Result<Moments, MachineError> {
        let clocks = self.clocks(lab, self.state)?;
        let link = self.link_statistics(lab)?;
        let end = Counters { link, ..self.count(lab)? };
        let records: Vec<StateRecord> =
            clocks.iter().enumerate().map(|(node, clock)| self.record(node, *clock, &end)).collect();
        for (node, record) in self.nodes.iter_mut().zip(records) {
            node.states.push(record);
        }
        self.ends_ns.push(std::mem::take(&mut self.next_ends_ns));
        Ok(clocks.into_iter().map(|(now_ns, _)| now_ns).collect())
    }

    /// The state as it was on a node: what that and the repository did in it.
    fn record(
        &self,
        number: usize,
        (now_ns, instructions): (u64, Option<InstructionCounts>),
        end: &Counters,
    ) -> StateRecord {
        let Node { asked_ns, begin_ns, own_ns, begun_with, .. } = &self.nodes[number];
        let concerned = || [0, number + 1].into_iter();
        let disks = concerned().filter_map(|at| {
            let (begin, end) = (self.begin.disks.get(at)?.as_ref()?, end.disks.get(at)?.as_ref()?);
            let DiskStatistics { read_bytes, written_bytes, busy_ns } = end.since(begin);
            Some(DiskUse { machine: self.counted.get(at)?.name.clone(), read_bytes, written_bytes, busy_ns })
        });
        let processors = concerned().filter_map(|at| {
            let (begin, end) = (self.begin.processors.get(at)?, end.processors.get(at)?);
            Some((self.counted.get(at)?.name.clone(), begin.busy_share_until(end)))
        });
        let instructions = begun_with.zip(instructions);
        // The repository is at the lower end of its link.
        let sent = end.link.from_lower.since(&self.begin.link.from_lower);
        let duration_ns = now_ns.saturating_sub(*begin_ns).saturating_sub(*own_ns);
        let on_the_wire_s = sent.wire_bytes() as f64 * 8.0 / self.link_bits_per_s;
        StateRecord {
            state: self.state,
            begin_ns: begin_ns.saturating_sub(*asked_ns),
            end_ns: now_ns.saturating_sub(*asked_ns),
            own_ns: *own_ns,
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
    pub(super) fn of_boot(&self, instance: usize, built: &BuiltStack) -> Result<Boot, MachineError> {
        let node = self.node_of(instance);
        let boot = node.states.iter().find(|state| state.state == LifeState::Boot);
        let begun_ns = node.asked_ns + boot.map_or(0, |boot| boot.begin_ns + boot.own_ns);
        let guest = built.machines.indexed().find_map(|(index, machine)| {
            let is_inside = matches!(built.machines.relation(index), Some(Relation::Inside(_)));
            is_inside.then_some(machine)
        });
        let Some(guest) = guest else { return Ok((None, 0)) };
        let hello_ns = guest.greeted_ns.map_or(0, |greeted| greeted.saturating_sub(begun_ns));
        let (guest_ns, node_ns) = (guest.machine.read_clock(false)?, node.machine.read_clock(false)?);
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

/// The lives of instances from the states of all of them on each node, and from the ends of each state for each instance, if they differ.
fn lives(
    image_bytes: u64,
    states: &[Vec<StateRecord>],
    ends_ns: &[Vec<u64>],
    boots: Vec<Boot>,
) -> Vec<InstanceLife> {
    let of_instance = |(number, (first_process_ns, hello_ns)): (usize, Boot)| {
        let (node, _) = dealt::place(number, states.len());
        let states = states[node].iter().zip(ends_ns).map(|(state, ends_ns)| {
            let waited_ns = ends_ns.get(number).map_or(0, |end_ns| state.end_ns.saturating_sub(*end_ns));
            StateRecord { waited_ns: waited_ns.min(state.group_ns()), ..state.clone() }
        });
        let (node, states) = (u32::try_from(node).unwrap_or(u32::MAX), states.collect());
        InstanceLife { image_bytes, node, states, first_process_ns, hello_ns, managed: None }
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
        let lives = lives(1, &[states.to_vec()], &ends_ns, vec![(None, 5), (Some(3), 6)]);
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
    fn each_instance_has_the_times_of_its_node() {
        // The clock of the second node is read a little later, and its states are a little longer.
        let node = |late_ns: u64| vec![state(LifeState::Transfer, 0, 900 + late_ns, 0)];
        let lives = lives(1, &[node(0), node(30)], &[vec![500, 930, 900]], vec![(None, 5); 3]);
        let took: Vec<_> = lives.iter().map(|life| (life.node, life.states[0].duration_ns())).collect();
        assert_eq!(took, [(0, 500), (1, 930), (0, 900)]);
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
        let lives = lives(1, &[states.to_vec()], &[Vec::new()], vec![(None, 5)]);
        assert_eq!(lives[0].states[0].duration_ns(), 900);
    }
}
