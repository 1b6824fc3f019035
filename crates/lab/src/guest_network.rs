//! Gives a guest an interface of its own on the network of the machine around it: both are ports of a bridge there.

use nestor_machine::{Command, InterfaceAttachment, InterfaceBackend, Machine, MachineError, MachinePlace};
use nestor_stack::{LayerIndex, MachineIndex};

use crate::built::UndoStep;
use crate::link::bring_up;
use crate::progressing::{Progressing, Remote};
use crate::{Lab, link};

/// Modules of the machine around the guest.
pub const AROUND_MODULES: &[&str] = &["bridge", "tun"];

impl Lab {
    /// Moves the network of a link from the machine around a guest into the guest, which takes its address.
    ///
    /// # Errors
    /// A machine's reason.
    pub(crate) fn join_guest(
        &mut self,
        progressing: &mut Progressing<'_>,
        index: LayerIndex,
        (parent, on): (MachineIndex, MachineIndex),
        place: MachinePlace,
        remote: Remote,
    ) -> Result<Remote, MachineError> {
        let (around, guest) = (progressing.machine(parent), progressing.machine(on));
        let position = index.position();
        let (bridge, port) = (format!("nestor-br{position}"), format!("nestor-tap{position}"));
        self.load_modules(&around, AROUND_MODULES);
        let ip = |words: &[&str]| run_ip(&around, words);
        ip(&["link", "add", "name", &bridge, "type", "bridge"])?;
        progressing.note_undo(parent, UndoStep::RemoveInterface(bridge.clone()));
        ip(&["address", "flush", "dev", &remote.interface])?;
        ip(&["link", "set", "dev", &bridge, "mtu", &remote.mtu.to_string(), "up"])?;
        ip(&["link", "set", "dev", &remote.interface, "master", &bridge])?;
        let interface = InterfaceAttachment {
            name: format!("nestor-net-{position}"),
            backend: InterfaceBackend::Tap { interface: port.clone() },
            // A locally administered address, beside those of links.
            mac: format!("02:4e:45:54:{position:02x}:01"),
        };
        self.load_modules(&guest, link::MODULES);
        around.attach_interface(place, &interface)?;
        progressing.note_undo(on, UndoStep::DetachInterface(interface.clone()));
        ip(&["link", "set", "dev", &port, "mtu", &remote.mtu.to_string(), "master", &bridge, "up"])?;
        let own = bring_up(&guest, &interface.mac, &remote.client_address, remote.mtu)?;
        Ok(Remote { interface: own, ..remote })
    }
}

/// Removes an interface that was made with `ip link add`.
pub(crate) fn remove_interface(machine: &Machine, name: &str) -> Result<(), MachineError> {
    run_ip(machine, &["link", "delete", "dev", name])
}

fn run_ip(machine: &Machine, words: &[&str]) -> Result<(), MachineError> {
    machine.run_ok(Command::new([&["ip"], words].concat())).map(|_| ())
}
