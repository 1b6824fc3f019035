//! The states of a virtual machine of OpenNebula: STATE, and within ACTIVE the one of its life-cycle manager (LCM_STATE). Numbers and names
//! are those of OpenNebula's include/VirtualMachine.h and of "Virtual Machine States Reference" in its documentation.

use crate::{ManagedState, ManagerError, Phase};

/// STATE, by its number.
const STATES: [&str; 12] = [
    "INIT",
    "PENDING",
    "HOLD",
    "ACTIVE",
    "STOPPED",
    "SUSPENDED",
    "DONE",
    "FAILED",
    "POWEROFF",
    "UNDEPLOYED",
    "CLONING",
    "CLONING_FAILURE",
];

/// ACTIVE among them.
const ACTIVE: u32 = 3;

/// LCM_STATE, by its number. Numbers without a name are of old versions.
const LCM_STATES: [&str; 71] = [
    "LCM_INIT",
    "PROLOG",
    "BOOT",
    "RUNNING",
    "MIGRATE",
    "SAVE_STOP",
    "SAVE_SUSPEND",
    "SAVE_MIGRATE",
    "PROLOG_MIGRATE",
    "PROLOG_RESUME",
    "EPILOG_STOP",
    "EPILOG",
    "SHUTDOWN",
    "",
    "",
    "CLEANUP_RESUBMIT",
    "UNKNOWN",
    "HOTPLUG",
    "SHUTDOWN_POWEROFF",
    "BOOT_UNKNOWN",
    "BOOT_POWEROFF",
    "BOOT_SUSPENDED",
    "BOOT_STOPPED",
    "CLEANUP_DELETE",
    "HOTPLUG_SNAPSHOT",
    "HOTPLUG_NIC",
    "HOTPLUG_SAVEAS",
    "HOTPLUG_SAVEAS_POWEROFF",
    "HOTPLUG_SAVEAS_SUSPENDED",
    "SHUTDOWN_UNDEPLOY",
    "EPILOG_UNDEPLOY",
    "PROLOG_UNDEPLOY",
    "BOOT_UNDEPLOY",
    "HOTPLUG_PROLOG_POWEROFF",
    "HOTPLUG_EPILOG_POWEROFF",
    "BOOT_MIGRATE",
    "BOOT_FAILURE",
    "BOOT_MIGRATE_FAILURE",
    "PROLOG_MIGRATE_FAILURE",
    "PROLOG_FAILURE",
    "EPILOG_FAILURE",
    "EPILOG_STOP_FAILURE",
    "EPILOG_UNDEPLOY_FAILURE",
    "PROLOG_MIGRATE_POWEROFF",
    "PROLOG_MIGRATE_POWEROFF_FAILURE",
    "PROLOG_MIGRATE_SUSPEND",
    "PROLOG_MIGRATE_SUSPEND_FAILURE",
    "BOOT_UNDEPLOY_FAILURE",
    "BOOT_STOPPED_FAILURE",
    "PROLOG_RESUME_FAILURE",
    "PROLOG_UNDEPLOY_FAILURE",
    "DISK_SNAPSHOT_POWEROFF",
    "DISK_SNAPSHOT_REVERT_POWEROFF",
    "DISK_SNAPSHOT_DELETE_POWEROFF",
    "DISK_SNAPSHOT_SUSPENDED",
    "",
    "DISK_SNAPSHOT_DELETE_SUSPENDED",
    "DISK_SNAPSHOT",
    "",
    "DISK_SNAPSHOT_DELETE",
    "PROLOG_MIGRATE_UNKNOWN",
    "PROLOG_MIGRATE_UNKNOWN_FAILURE",
    "DISK_RESIZE",
    "DISK_RESIZE_POWEROFF",
    "DISK_RESIZE_UNDEPLOYED",
    "HOTPLUG_NIC_POWEROFF",
    "HOTPLUG_RESIZE",
    "HOTPLUG_SAVEAS_UNDEPLOYED",
    "HOTPLUG_SAVEAS_STOPPED",
    "BACKUP",
    "BACKUP_POWEROFF",
];

/// The states of a life that goes straight on, by the number of STATE.
const STRAIGHT: [(u32, Phase); 5] = [
    (0, Phase::Pending),
    (1, Phase::Pending),
    (2, Phase::Pending),
    // The images of the template are copied before it is pending.
    (10, Phase::Pending),
    (6, Phase::Done),
];

/// Within ACTIVE, by the number of LCM_STATE.
const STRAIGHT_ACTIVE: [(u32, Phase); 7] = [
    (0, Phase::Pending),
    (1, Phase::Transfer),
    (2, Phase::Boot),
    (3, Phase::Running),
    (12, Phase::Shutdown),
    (11, Phase::Cleanup),
    // What one.vm.recover deletes.
    (23, Phase::Cleanup),
];

/// The phase of a state by its name, as logs have it; `None` of ACTIVE, which is several, and of what is not on the straight way.
pub(super) fn phase_named(name: &str) -> Option<Phase> {
    let of = |names: &[&str], ways: &[(u32, Phase)]| {
        let number = names.iter().position(|known| *known == name)?;
        ways.iter().find(|(of, _)| usize::try_from(*of) == Ok(number)).map(|(_, phase)| *phase)
    };
    of(&LCM_STATES, &STRAIGHT_ACTIVE).or_else(|| of(&STATES, &STRAIGHT))
}

/// The state with its name, of both numbers. States that are not on the straight way from the request to the end are failures: OpenNebula
/// gave up, or somebody did something with the machine.
///
/// # Errors
/// There is no such state in the versions that are known.
pub fn state_of(state: u32, lcm_state: u32) -> Result<(ManagedState, String), ManagerError> {
    let named = |names: &[&'static str], number: u32| {
        let name = usize::try_from(number).ok().and_then(|at| names.get(at).copied());
        name.filter(|name| !name.is_empty())
    };
    let unknown = |what: &str, number: u32| {
        ManagerError::NotUnderstood(format!("{what} is {number}, which is no state of OpenNebula up to 6.10"))
    };
    let outer = named(&STATES, state).ok_or_else(|| unknown("STATE", state))?;
    let (ways, number, name) = match state {
        ACTIVE => {
            let inner = named(&LCM_STATES, lcm_state).ok_or_else(|| unknown("LCM_STATE", lcm_state))?;
            (&STRAIGHT_ACTIVE[..], lcm_state, format!("{outer}/{inner}"))
        }
        _ => (&STRAIGHT[..], state, outer.to_owned()),
    };
    let phase = ways.iter().find(|(of, _)| *of == number).map(|(_, phase)| *phase);
    let failed = || ManagedState::Failed { message: format!("it is in the state {name}") };
    Ok((phase.map_or_else(failed, ManagedState::In), name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_life_goes_straight_on() {
        let way = [(1, 0), (3, 0), (3, 1), (3, 2), (3, 3), (3, 12), (3, 11), (6, 0)];
        let seen: Vec<String> = way
            .into_iter()
            .map(|(state, lcm)| match state_of(state, lcm).unwrap() {
                (ManagedState::In(phase), name) => format!("{name}: {phase}"),
                (ManagedState::Failed { message }, _) => panic!("{message}"),
            })
            .collect();
        assert_eq!(
            seen,
            [
                "PENDING: pending",
                "ACTIVE/LCM_INIT: pending",
                "ACTIVE/PROLOG: transfer",
                "ACTIVE/BOOT: boot",
                "ACTIVE/RUNNING: running",
                "ACTIVE/SHUTDOWN: shutdown",
                "ACTIVE/EPILOG: cleanup",
                "DONE: done"
            ]
        );
    }

    #[test]
    fn names_are_at_their_numbers() {
        for (number, name) in [
            (15, "CLEANUP_RESUBMIT"),
            (23, "CLEANUP_DELETE"),
            (36, "BOOT_FAILURE"),
            (39, "PROLOG_FAILURE"),
            (51, "DISK_SNAPSHOT_POWEROFF"),
            (57, "DISK_SNAPSHOT"),
            (62, "DISK_RESIZE"),
            (70, "BACKUP_POWEROFF"),
        ] {
            assert_eq!(state_of(3, number).unwrap().1, format!("ACTIVE/{name}"));
        }
        assert_eq!(state_of(8, 0).unwrap().1, "POWEROFF");
    }

    #[test]
    fn what_is_not_on_the_way_is_a_failure_and_what_is_not_there_an_error() {
        for (state, lcm) in [(3, 39), (3, 36), (3, 16), (8, 0), (4, 0), (11, 0), (7, 0)] {
            assert!(matches!(state_of(state, lcm), Ok((ManagedState::Failed { .. }, _))), "{state} {lcm}");
        }
        for (state, lcm) in [(12, 0), (3, 13), (3, 71), (u32::MAX, 0), (3, u32::MAX)] {
            assert!(state_of(state, lcm).is_err(), "{state} {lcm}");
        }
    }
}
