//! What the manager of a cloud said of an instance that it started.

use nestor_stack::ManagerKind;
use serde::{Deserialize, Serialize};

use crate::life::{InstanceLife, LifeState};

/// What makes the life of an instance that of a manager's: nothing but its states is counted, and these are known as well as the manager
/// tells them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManagedLife {
    /// Which manager.
    pub manager: ManagerKind,
    /// How it calls the instance.
    pub instance: String,
    /// How often it was asked, in nanoseconds.
    pub poll_ns: u64,
    /// The states that it tells from the one before. Of others nothing is known, and their time is in the one before.
    pub told_apart: Vec<LifeState>,
    /// The states that the instance went through, in the order of [`InstanceLife::states`].
    pub states: Vec<ManagedState>,
    /// By how much the end of the last state may be wrong.
    pub end_uncertain_ns: u64,
}

/// A state as a manager tells it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManagedState {
    /// Which.
    pub state: LifeState,
    /// How the manager calls its parts, in the order in which they were seen; none of one that began and ended between two requests and is
    /// known from the manager's records.
    pub names: Vec<String>,
    /// By how much its beginning may be wrong.
    pub uncertain_ns: u64,
    /// What it took by the manager's own records, which are in whole seconds; `None` if the manager does not record both its ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recorded_s: Option<u64>,
}

impl ManagedLife {
    /// By how much what a state took may be wrong: both its ends.
    pub fn uncertain_ns(&self, state: LifeState) -> Option<u64> {
        let at = self.states.iter().position(|of| of.state == state)?;
        let end_ns = self.states.get(at + 1).map_or(self.end_uncertain_ns, |next| next.uncertain_ns);
        Some(self.states[at].uncertain_ns.saturating_add(end_ns))
    }

    /// A state as the manager tells it, if the instance went through it.
    pub fn state(&self, state: LifeState) -> Option<&ManagedState> {
        self.states.iter().find(|of| of.state == state)
    }

    /// The states that the manager does not tell from the one before.
    pub fn not_told_apart(&self) -> impl Iterator<Item = LifeState> {
        LifeState::ALL.into_iter().filter(|state| !self.told_apart.contains(state))
    }
}

impl InstanceLife {
    /// Whether links, disks and processors were counted in its states: a manager does not count them.
    pub fn is_counted(&self) -> bool {
        self.managed.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn life() -> ManagedLife {
        let state =
            |state, uncertain_ns| ManagedState { state, names: Vec::new(), uncertain_ns, recorded_s: None };
        ManagedLife {
            manager: ManagerKind::Ec2,
            instance: "i-1".to_owned(),
            poll_ns: 10,
            told_apart: vec![LifeState::Pending, LifeState::Running, LifeState::Shutdown],
            states: vec![
                state(LifeState::Pending, 0),
                state(LifeState::Running, 10),
                state(LifeState::Shutdown, 0),
            ],
            end_uncertain_ns: 11,
        }
    }

    #[test]
    fn a_state_is_known_as_well_as_its_two_ends() {
        let uncertain = |state| life().uncertain_ns(state);
        assert_eq!(uncertain(LifeState::Pending), Some(10));
        assert_eq!(uncertain(LifeState::Running), Some(10));
        assert_eq!(uncertain(LifeState::Shutdown), Some(11));
        assert_eq!(uncertain(LifeState::Boot), None);
    }

    #[test]
    fn what_a_manager_does_not_tell_apart_is_named() {
        let not: Vec<_> = life().not_told_apart().collect();
        assert_eq!(not, [LifeState::Transfer, LifeState::Boot, LifeState::Cleanup]);
    }

    #[test]
    fn a_life_of_a_manager_is_read_back_and_others_are_stored_as_before() {
        let managed = InstanceLife { managed: Some(Box::new(life())), ..InstanceLife::default() };
        let text = serde_json::to_string(&managed).unwrap();
        assert_eq!(serde_json::from_str::<InstanceLife>(&text).unwrap(), managed);
        assert!(text.contains("\"manager\":\"ec2\""), "{text}");
        let built = serde_json::to_string(&InstanceLife::default()).unwrap();
        assert!(!built.contains("managed"), "{built}");
    }
}
