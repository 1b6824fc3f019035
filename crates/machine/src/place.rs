//! The places of the lab's machines.

use std::fmt;

use nestor_stack::MachineIndex;
use serde::{Deserialize, Serialize};

/// The place of a machine that an agent boots: by it, the agent and its controller know the machine. Its text names the machine's process,
/// its directory and messages about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MachinePlace {
    /// In no other machine of the lab.
    Root(MachineIndex),
    /// In another machine of its stack.
    Guest(MachineIndex),
}

impl fmt::Display for MachinePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root(MachineIndex::OUTERMOST) => f.write_str("host"),
            Self::Root(index) if index.position() == 1 => f.write_str("client"),
            Self::Root(index) => write!(f, "client-{}", index.position()),
            Self::Guest(index) if index.position() <= 1 => f.write_str("guest"),
            Self::Guest(index) => write!(f, "guest-{}", index.position()),
        }
    }
}

#[cfg(test)]
mod tests {
    use nestor_stack::{Machines, Relation};

    use super::*;

    #[test]
    fn machines_are_named_by_their_places() {
        let mut machines = Machines::default();
        let host = machines.push(Relation::Outermost, ());
        let first = machines.push(Relation::Inside(host), ());
        let second = machines.push(Relation::Beside(first), ());
        let name = |place: MachinePlace| place.to_string();
        assert_eq!([host, second].map(|index| name(MachinePlace::Root(index))), ["host", "client-2"]);
        assert_eq!(name(MachinePlace::Root(first)), "client");
        let guests = [host, first, second].map(|index| name(MachinePlace::Guest(index)));
        assert_eq!(guests, ["guest", "guest", "guest-2"]);
    }
}
