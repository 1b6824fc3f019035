//! The life of an instance of a cloud: the states it goes through, and what each of them took.

use std::fmt;

use nestor_processor::InstructionCounts;
use nestor_stack::{MachineLabel, MachineName};
use nestor_text::units::percent;
use serde::{Deserialize, Serialize};

use crate::managed::ManagedLife;

/// A state of an instance, in the order in which it goes through them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LifeState {
    /// It was asked for, and nothing is done for it yet.
    Pending,
    /// Its image comes to the node, or is opened where it is.
    Transfer,
    /// From the start of its virtual machine until its file systems are mounted.
    Boot,
    /// Its workload runs.
    Running,
    /// From the request to end until its virtual machine has ended, its file systems written out.
    Shutdown,
    /// Its image is removed from the node.
    Cleanup,
}

impl LifeState {
    /// All of them, in their order.
    pub const ALL: [Self; 6] =
        [Self::Pending, Self::Transfer, Self::Boot, Self::Running, Self::Shutdown, Self::Cleanup];

    /// As it is written in results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Transfer => "transfer",
            Self::Boot => "boot",
            Self::Running => "running",
            Self::Shutdown => "shutdown",
            Self::Cleanup => "cleanup",
        }
    }

    /// The state that is [written](Self::name) so; `None` if this version has none.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.name() == name)
    }
}

impl fmt::Display for LifeState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What one instance went through, on the clock of its node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct InstanceLife {
    /// Length of the image's file at the repository.
    #[serde(default)]
    pub image_bytes: u64,
    /// Which of the nodes it was on, from 0.
    #[serde(default, skip_serializing_if = "is_first")]
    pub node: u32,
    /// In the order of time, each once. A state begins when the one before it ends.
    pub states: Vec<StateRecord>,
    /// Of the boot, what passed until the first process of the virtual machine began; `None` if that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_process_ns: Option<u64>,
    /// Of the boot, what passed until its agent answered.
    pub hello_ns: u64,
    /// What its manager said of it, if one started it: then nothing but its states is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub managed: Option<Box<ManagedLife>>,
}

/// One state of an instance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StateRecord {
    /// Which.
    pub state: LifeState,
    /// When it began, in nanoseconds since the instance was asked for.
    pub begin_ns: u64,
    /// When it ended.
    pub end_ns: u64,
    /// Of that time, what the laboratory needed for itself (starting and stopping its recorders). It is no part of the instance's life.
    pub own_ns: u64,
    /// Of that time, how long the instance waited at the state's end for others, which enter the next one together with it. It is no part
    /// of the instance's life.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub waited_ns: u64,
    /// Bytes of the frames that the repository sent meanwhile. What machines did in a state, they did for all instances that were in it.
    pub from_repository_bytes: u64,
    /// Bytes of the frames that it received.
    pub to_repository_bytes: u64,
    /// Share (0 to 1) of the time that the frames of the repository were on the wire.
    #[serde(default)]
    pub link_busy: f64,
    /// What the disks of the node and of the repository did meanwhile.
    pub disks: Vec<DiskUse>,
    /// Busy share (0 to 1) of the processors of the node, its guests included, and of the repository.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub processors: Vec<(MachineName, f64)>,
    /// What the node's processor executed meanwhile, its guests included; in virtual time only. Of a running workload its recorders count them
    /// ([`Measured::path_length`](crate::Measured::path_length)).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<InstructionCounts>,
}

/// What the disk of a machine did in a state, as its kernel counts it (`/proc/diskstats`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskUse {
    /// The machine.
    pub machine: MachineName,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Time in which requests were in flight.
    pub busy_ns: u64,
}

impl StateRecord {
    /// One of which nothing but its time is known.
    pub const fn uncounted(state: LifeState, begin_ns: u64, end_ns: u64) -> Self {
        Self {
            state,
            begin_ns,
            end_ns,
            own_ns: 0,
            waited_ns: 0,
            from_repository_bytes: 0,
            to_repository_bytes: 0,
            link_busy: 0.0,
            disks: Vec::new(),
            processors: Vec::new(),
            instructions: None,
        }
    }

    /// What it took the instance, without what the laboratory needed for itself and without waiting for other instances.
    pub fn duration_ns(&self) -> u64 {
        self.group_ns().saturating_sub(self.waited_ns)
    }

    /// What it took all instances that were in it together, until the last one, without what the laboratory needed for itself.
    pub fn group_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.begin_ns).saturating_sub(self.own_ns)
    }

    /// What the disk of the repository did, if it was counted.
    pub fn repository_disk(&self) -> Option<&DiskUse> {
        self.disks.iter().find(|disk| is_repository(&disk.machine))
    }

    /// What the disk of the instance's node did, if it was counted.
    pub fn node_disk(&self) -> Option<&DiskUse> {
        self.disks.iter().find(|disk| !is_repository(&disk.machine))
    }

    /// Busy share (0 to 1) of the processors of the repository, if it was counted.
    pub fn repository_processors(&self) -> Option<f64> {
        self.processors.iter().find(|(machine, _)| is_repository(machine)).map(|(_, busy)| *busy)
    }

    /// Busy share (0 to 1) of the processors of the instance's node, its guests included, if it was counted.
    pub fn node_processors(&self) -> Option<f64> {
        self.processors.iter().find(|(machine, _)| !is_repository(machine)).map(|(_, busy)| *busy)
    }

    /// All instructions, whoever's they are, where they were counted.
    pub fn all_instructions(&self) -> Option<u64> {
        let counts = self.instructions?;
        let parts = [counts.host_user, counts.host_kernel, counts.guest_user, counts.guest_kernel];
        Some(parts.into_iter().fold(0, u64::saturating_add))
    }
}

fn is_first(node: &u32) -> bool {
    *node == 0
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

fn is_repository(machine: &MachineName) -> bool {
    *machine == MachineName::Of(MachineLabel::Repository)
}

/// Something of which a state needs a share of its time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Resource {
    /// The link from the repository.
    Link,
    /// The disk of a machine.
    Disk(MachineName),
    /// The processors of a machine.
    Processors(MachineName),
}

/// What a state waited for most.
#[derive(Clone, Debug, PartialEq)]
pub struct BusiestResource {
    /// Which.
    pub resource: Resource,
    /// The share of the state's time in which it was busy, 0 to 1.
    pub share: f64,
}

/// What is busy for a larger share of a state than this sets its pace: the rest of the time is its own start and end.
pub const LIMIT_FROM: f64 = 0.90;

impl BusiestResource {
    /// Whether it alone sets the pace. Otherwise several take turns, and none would make the state much shorter by itself.
    pub fn is_limit(&self) -> bool {
        self.share >= LIMIT_FROM
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Link => f.write_str("the link"),
            Self::Disk(machine) => write!(f, "the disk of the {machine}"),
            Self::Processors(machine) => write!(f, "the processors of the {machine}"),
        }
    }
}

impl fmt::Display for BusiestResource {
    /// `the link sets the pace, busy 97 %`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (resource, share) = (&self.resource, percent(self.share));
        let (sets, is) = match resource {
            Resource::Processors(_) => ("set", "are"),
            Resource::Link | Resource::Disk(_) => ("sets", "is"),
        };
        match self.is_limit() {
            true => write!(f, "{resource} {sets} the pace, busy {share} of the time"),
            false => write!(f, "nothing sets the pace alone: {resource} {is} busiest, {share} of the time"),
        }
    }
}

impl StateRecord {
    /// The shares (0 to 1) of its time, that of all instances in it, in which resources were busy; nothing where it took no time.
    pub fn busy_shares(&self) -> impl Iterator<Item = (Resource, f64)> {
        let duration_ns = self.group_ns() as f64;
        let disks = self
            .disks
            .iter()
            .map(move |disk| (Resource::Disk(disk.machine.clone()), disk.busy_ns as f64 / duration_ns));
        let processors =
            self.processors.iter().map(|(machine, busy)| (Resource::Processors(machine.clone()), *busy));
        let all = [(Resource::Link, self.link_busy)].into_iter().chain(disks).chain(processors);
        // The kernel counts disks in milliseconds and processors in ticks.
        all.filter(move |_| duration_ns > 0.0).map(|(resource, share)| (resource, share.min(1.0)))
    }

    /// What was busy for the largest share of it; `None` where it took no time.
    pub fn busiest(&self) -> Option<BusiestResource> {
        let (resource, share) = self.busy_shares().max_by(|a, b| a.1.total_cmp(&b.1))?;
        Some(BusiestResource { resource, share })
    }
}

impl InstanceLife {
    /// A state of it, if it went through it.
    pub fn state(&self, state: LifeState) -> Option<&StateRecord> {
        self.states.iter().find(|record| record.state == state)
    }

    /// From the request for the instance to the end of its last state, without what the laboratory needed for itself and without waiting for
    /// other instances.
    pub fn whole_ns(&self) -> u64 {
        let (first, last) = (self.states.first(), self.states.last());
        let around =
            last.map_or(0, |last| last.end_ns).saturating_sub(first.map_or(0, |first| first.begin_ns));
        let is_no_part = |state: &StateRecord| state.own_ns.saturating_add(state.waited_ns);
        around.saturating_sub(sum(self.states.iter().map(is_no_part)))
    }

    /// Nanoseconds by which the states together differ from the whole: there is time that no state has, or that two have.
    pub fn unaccounted_ns(&self) -> u64 {
        self.in_states_ns().abs_diff(self.whole_ns())
    }

    /// What its states took together.
    pub fn in_states_ns(&self) -> u64 {
        sum(self.states.iter().map(StateRecord::duration_ns))
    }
}

/// Of numbers of a record that may be somebody else's.
fn sum(numbers: impl Iterator<Item = u64>) -> u64 {
    numbers.fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(state: LifeState, begin_ns: u64, end_ns: u64, own_ns: u64) -> StateRecord {
        StateRecord { own_ns, ..StateRecord::uncounted(state, begin_ns, end_ns) }
    }

    fn life(states: Vec<StateRecord>) -> InstanceLife {
        InstanceLife { image_bytes: 0, node: 0, states, first_process_ns: None, hello_ns: 0, managed: None }
    }

    #[test]
    fn states_without_gaps_are_the_whole() {
        let states = vec![
            state(LifeState::Pending, 0, 10, 0),
            state(LifeState::Transfer, 10, 500, 0),
            state(LifeState::Running, 500, 900, 100),
        ];
        let life = life(states);
        assert_eq!((life.whole_ns(), life.unaccounted_ns()), (800, 0));
        assert_eq!(life.state(LifeState::Running).unwrap().duration_ns(), 300);
    }

    #[test]
    fn the_busiest_resource_is_the_limit_where_little_is_left_of_the_time() {
        let mut transfer = state(LifeState::Transfer, 0, 1_000, 0);
        transfer.link_busy = 0.5;
        transfer.disks =
            vec![DiskUse { machine: "repository".into(), read_bytes: 1, written_bytes: 0, busy_ns: 970 }];
        transfer.processors = vec![("host".into(), 0.2)];
        let busiest = transfer.busiest().unwrap();
        assert_eq!(busiest.to_string(), "the disk of the repository sets the pace, busy 97 % of the time");
        transfer.processors[0].1 = 0.99;
        let busiest = transfer.busiest().unwrap();
        assert_eq!(busiest.to_string(), "the processors of the host set the pace, busy 99 % of the time");
        transfer.processors[0].1 = 0.2;
        transfer.disks.clear();
        let busiest = transfer.busiest().unwrap();
        assert_eq!(busiest.to_string(), "nothing sets the pace alone: the link is busiest, 50 % of the time");
        assert_eq!(state(LifeState::Pending, 5, 5, 0).busiest(), None);
    }

    #[test]
    fn waiting_for_other_instances_is_no_part_of_a_life() {
        let mut transfer = StateRecord { waited_ns: 300, ..state(LifeState::Transfer, 10, 510, 0) };
        transfer.link_busy = 0.95;
        assert_eq!((transfer.duration_ns(), transfer.group_ns()), (200, 500));
        assert_eq!(transfer.busiest().unwrap().share, 0.95, "the share of the time of all");
        let states = vec![transfer, state(LifeState::Boot, 510, 610, 0)];
        let life = life(states);
        assert_eq!((life.whole_ns(), life.unaccounted_ns()), (300, 0));
    }

    #[test]
    fn time_between_states_is_unaccounted() {
        let states = vec![state(LifeState::Pending, 0, 10, 0), state(LifeState::Transfer, 15, 20, 0)];
        let life = life(states);
        assert_eq!((life.whole_ns(), life.unaccounted_ns()), (20, 5));
    }

    #[test]
    fn an_instance_without_states_took_nothing() {
        assert_eq!(InstanceLife::default().whole_ns(), 0);
    }
}
