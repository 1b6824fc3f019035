//! The life of an instance of a cloud: the states it goes through, and what each of them took.

use std::fmt;

use nestor_processor::InstructionCounts;
use nestor_stack::MachineName;
use serde::{Deserialize, Serialize};

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
}

impl fmt::Display for LifeState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What one instance went through, on the clock of its node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct InstanceLife {
    /// In the order of time, each once. A state begins when the one before it ends.
    pub states: Vec<StateRecord>,
    /// Of the boot, what passed until the first process of the virtual machine began; `None` if that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_process_ns: Option<u64>,
    /// Of the boot, what passed until its agent answered.
    pub hello_ns: u64,
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
    /// Bytes of the frames that the repository sent meanwhile.
    pub from_repository_bytes: u64,
    /// Bytes of the frames that it received.
    pub to_repository_bytes: u64,
    /// What the disks of the node and of the repository did meanwhile.
    pub disks: Vec<DiskUse>,
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
    /// What it took, without what the laboratory needed for itself.
    pub fn duration_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.begin_ns).saturating_sub(self.own_ns)
    }
}

impl InstanceLife {
    /// A state of it, if it went through it.
    pub fn state(&self, state: LifeState) -> Option<&StateRecord> {
        self.states.iter().find(|record| record.state == state)
    }

    /// From the request for the instance to the end of its last state, without what the laboratory needed for itself.
    pub fn whole_ns(&self) -> u64 {
        let (first, last) = (self.states.first(), self.states.last());
        let around = last.map_or(0, |last| last.end_ns) - first.map_or(0, |first| first.begin_ns);
        around.saturating_sub(self.states.iter().map(|state| state.own_ns).sum())
    }

    /// Nanoseconds by which the states together differ from the whole: there is time that no state has, or that two have.
    pub fn unaccounted_ns(&self) -> u64 {
        self.states.iter().map(StateRecord::duration_ns).sum::<u64>().abs_diff(self.whole_ns())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(state: LifeState, begin_ns: u64, end_ns: u64, own_ns: u64) -> StateRecord {
        let (from_repository_bytes, to_repository_bytes) = (0, 0);
        let (disks, instructions) = (Vec::new(), None);
        StateRecord {
            state,
            begin_ns,
            end_ns,
            own_ns,
            from_repository_bytes,
            to_repository_bytes,
            disks,
            instructions,
        }
    }

    #[test]
    fn states_without_gaps_are_the_whole() {
        let states = vec![
            state(LifeState::Pending, 0, 10, 0),
            state(LifeState::Transfer, 10, 500, 0),
            state(LifeState::Running, 500, 900, 100),
        ];
        let life = InstanceLife { states, first_process_ns: None, hello_ns: 0 };
        assert_eq!((life.whole_ns(), life.unaccounted_ns()), (800, 0));
        assert_eq!(life.state(LifeState::Running).unwrap().duration_ns(), 300);
    }

    #[test]
    fn time_between_states_is_unaccounted() {
        let states = vec![state(LifeState::Pending, 0, 10, 0), state(LifeState::Transfer, 15, 20, 0)];
        let life = InstanceLife { states, first_process_ns: None, hello_ns: 0 };
        assert_eq!((life.whole_ns(), life.unaccounted_ns()), (20, 5));
    }

    #[test]
    fn an_instance_without_states_took_nothing() {
        assert_eq!(InstanceLife::default().whole_ns(), 0);
    }
}
