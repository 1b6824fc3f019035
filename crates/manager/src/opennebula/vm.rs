//! A virtual machine as `one.vm.info` describes it.

use roxmltree::Node;

use super::state_of;
use crate::xml::{at, beginning, children, parse, text};
use crate::{InstanceId, ManagedState, ManagerError, Phase, Recorded, Sight};

/// What is read of a virtual machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VmSeen {
    /// Its number.
    pub id: InstanceId,
    /// STATE.
    pub state: u32,
    /// LCM_STATE.
    pub lcm_state: u32,
    /// When what began.
    pub recorded: Recorded,
    /// What went wrong, in OpenNebula's words.
    pub error: Option<String>,
    /// Its node, and the ways by which images come to it.
    pub details: Vec<(&'static str, String)>,
}

/// What of the newest record of its history is kept.
const DETAILS: [(&str, &str); 4] = [
    ("node", "HOSTNAME"),
    ("virtual machines by", "VM_MAD"),
    ("images by", "TM_MAD"),
    ("datastore", "DS_ID"),
];

/// The virtual machine of such a document.
///
/// # Errors
/// It is none.
pub fn vm_of(body: &str) -> Result<VmSeen, ManagerError> {
    let document = parse(body)?;
    let vm = document.root_element();
    let missing = |what: &str| {
        ManagerError::NotUnderstood(format!("a virtual machine has no {what}: {}", beginning(body)))
    };
    let number = |name: &'static str| {
        text(vm, &[name]).and_then(|text| text.parse().ok()).ok_or_else(|| missing(name))
    };
    let id = text(vm, &["ID"]).and_then(InstanceId::read).ok_or_else(|| missing("ID"))?;
    let newest = at(vm, &["HISTORY_RECORDS"]).and_then(|records| children(records, "HISTORY").last());
    let detail = |(name, element): &(&'static str, &'static str)| {
        Some((*name, beginning(text(newest?, &[*element])?)))
    };
    Ok(VmSeen {
        id,
        state: number("STATE")?,
        lcm_state: number("LCM_STATE")?,
        recorded: recorded(vm, newest),
        error: text(vm, &["USER_TEMPLATE", "ERROR"]).map(beginning),
        details: DETAILS.iter().filter_map(detail).collect(),
    })
}

/// Times of the machine, and of its newest record: prolog (P), running (R) and epilog (E) with the start (STIME) and end (ETIME) of each.
/// A record's running begins with the boot, and its end is the end of the shutdown, so that neither the end of the boot nor the beginning
/// of the shutdown is recorded.
fn recorded(vm: Node<'_, '_>, newest: Option<Node<'_, '_>>) -> Recorded {
    let seconds = |of: Option<Node<'_, '_>>, name: &str| text_of(of?, name)?.parse().ok();
    let whole = Recorded::default().with(Phase::Pending, seconds(Some(vm), "STIME"));
    whole
        .with(Phase::Transfer, seconds(newest, "PSTIME"))
        .with(Phase::Boot, seconds(newest, "RSTIME"))
        .with(Phase::Cleanup, seconds(newest, "ESTIME"))
        .with(Phase::Done, seconds(newest, "EETIME"))
}

fn text_of(of: Node<'_, '_>, name: &str) -> Option<String> {
    text(of, &[name]).map(str::to_owned)
}

impl VmSeen {
    /// The same as any manager's.
    ///
    /// # Errors
    /// A state that there is not.
    pub fn sight(self) -> Result<Sight, ManagerError> {
        let (state, name) = state_of(self.state, self.lcm_state)?;
        let state = match (state, &self.error) {
            (ManagedState::Failed { message }, Some(error)) => {
                ManagedState::Failed { message: format!("{message}: {error}") }
            }
            (state, _) => state,
        };
        Ok(Sight { state, name, reason: self.error, recorded: self.recorded, details: self.details })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::xml::tests::mangled;

    /// In the form that `VirtualMachine::to_xml` and `History::to_xml` of OpenNebula 6.6 write.
    const RUNNING: &str = include_str!("../../tests/data/opennebula-running.xml");

    #[test]
    fn a_running_machine_is_told_with_its_node_and_the_times_that_are_recorded() {
        let sight = vm_of(RUNNING).unwrap().sight().unwrap();
        assert_eq!((sight.state, sight.name.as_str()), (ManagedState::In(Phase::Running), "ACTIVE/RUNNING"));
        let began = |phase| sight.recorded.begin_s(phase).map(|s| s - 1_795_932_000);
        assert_eq!([Phase::Pending, Phase::Transfer, Phase::Boot].map(began), [Some(0), Some(14), Some(21)]);
        assert_eq!([Phase::Running, Phase::Shutdown, Phase::Cleanup, Phase::Done].map(began), [None; 4]);
        assert!(sight.details.contains(&("node", "node1".to_owned())), "{:?}", sight.details);
    }

    #[test]
    fn what_opennebula_said_of_a_machine_that_has_ended_is_understood() {
        // Of 6.6.3; the machine of the log beside it.
        let sight = vm_of(include_str!("../../tests/data/opennebula-done.xml")).unwrap().sight().unwrap();
        assert_eq!((sight.state, sight.name.as_str()), (ManagedState::In(Phase::Done), "DONE"));
        let began = |phase| sight.recorded.begin_s(phase).map(|s| s - 1_795_978_731);
        let recorded = [Phase::Transfer, Phase::Boot, Phase::Cleanup, Phase::Done].map(began);
        assert_eq!(recorded, [0, 3, 8, 11].map(Some));
        assert!(sight.details.contains(&("images by", "ssh".to_owned())), "{:?}", sight.details);
    }

    #[test]
    fn the_newest_record_of_its_history_counts() {
        let older =
            "<HISTORY_RECORDS><HISTORY><SEQ>0</SEQ><HOSTNAME>old</HOSTNAME><PSTIME>5</PSTIME></HISTORY>";
        let body = RUNNING.replace("<HISTORY_RECORDS>", older);
        let vm = vm_of(&body).unwrap();
        assert_eq!(vm.recorded.begin_s(Phase::Transfer), Some(1_795_932_014));
        assert!(vm.details.contains(&("node", "node1".to_owned())));
    }

    #[test]
    fn what_went_wrong_is_said() {
        let error =
            "<USER_TEMPLATE><ERROR><![CDATA[DRIVER ERROR: cannot\n copy disk.0]]></ERROR></USER_TEMPLATE>";
        let body = RUNNING
            .replace("<LCM_STATE>3</LCM_STATE>", "<LCM_STATE>39</LCM_STATE>")
            .replace("<USER_TEMPLATE/>", error);
        let message = "it is in the state ACTIVE/PROLOG_FAILURE: DRIVER ERROR: cannot copy disk.0".to_owned();
        assert_eq!(vm_of(&body).unwrap().sight().unwrap().state, ManagedState::Failed { message });
    }

    #[test]
    fn what_is_no_machine_is_not_understood() {
        for body in [
            "",
            "<VM/>",
            "<VM><ID>1</ID></VM>",
            "<VM><ID>a b</ID><STATE>3</STATE><LCM_STATE>3</LCM_STATE></VM>",
        ] {
            assert!(vm_of(body).is_err(), "{body}");
        }
    }

    proptest! {
        #[test]
        fn no_answer_makes_it_panic(at in 0..RUNNING.len(), byte in any::<u8>(), cut in 0..RUNNING.len()) {
            for text in mangled(RUNNING, at, byte, cut) {
                let _ = vm_of(&text).and_then(VmSeen::sight);
                let _ = super::super::template_named(&text, "x");
                let _ = super::super::vms_named(&text, "x");
            }
        }
    }
}
