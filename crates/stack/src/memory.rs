//! How much memory the machines of a stack have: what their layers say of it, and what their guests need.

use crate::{AVAILABLE_OPTION, Bytes, Conflict, Crossing, HOST_MEMORY_OPTION, Layer, MachineIndex, Stack};

/// Option of hypervisors and links that says what memory the machine above has.
const MEMORY_OPTION: &str = "memory";

/// What the kernel of a host, its tools and the process of the hypervisor need beside the guest's memory.
pub(crate) const LEAST_BESIDE_GUEST: Bytes = Bytes::mib(384);

/// What a machine of which nothing is said has beside its guests and their hypervisors.
const USUAL_BESIDE_GUEST: Bytes = Bytes::mib(512);

impl Stack {
    /// What the process that runs a guest takes of its host's memory, in addition to the guest's own.
    pub const HYPERVISOR_MEMORY: Bytes = Bytes::mib(192);

    /// Memory of a guest or of a machine beside another: what its layer says, otherwise what a guest inside it says of its host, and if
    /// it runs guests itself at least enough for those. `None` of the outermost machine.
    pub fn memory_of(&self, machine: MachineIndex) -> Option<Bytes> {
        let crossing = self.machines().get(machine)?.crossing?;
        if crossing > self.medium_index() {
            // A repository runs no guests.
            return self.layer(crossing).size(MEMORY_OPTION);
        }
        Some(memory_above(self.layers(), crossing.position()))
    }
}

/// The position of the hypervisor of the guest that the machine above a layer runs, if it runs one.
fn guest_above(layers: &[Layer], at: usize) -> Option<usize> {
    let next = layers[..at].iter().rposition(|layer| layer.crossing() != Crossing::None)?;
    (layers[next].crossing() == Crossing::Inside).then_some(next)
}

/// Memory of the machine that begins above the layer at a position.
fn memory_above(layers: &[Layer], at: usize) -> Bytes {
    let layer = &layers[at];
    let said = layer.size(MEMORY_OPTION).unwrap_or_default();
    let Some(guest) = guest_above(layers, at).filter(|_| !layer.is_set(MEMORY_OPTION)) else { return said };
    let least = || {
        let beside = Stack::HYPERVISOR_MEMORY.get() + USUAL_BESIDE_GUEST.get();
        said.max(Bytes(memory_above(layers, guest).get().saturating_add(beside)))
    };
    layers[guest].size(HOST_MEMORY_OPTION).unwrap_or_else(least)
}

/// Refuses a machine of which too little memory is said for the guest that it runs.
pub(crate) fn check_room_for_guests(layers: &[Layer]) -> Result<(), (&Layer, Conflict)> {
    let guests = layers.iter().enumerate().filter(|(_, layer)| layer.crossing() == Crossing::Inside);
    for (at, guest) in guests {
        let memory = memory_above(layers, at);
        let least = Bytes(memory.get().saturating_add(LEAST_BESIDE_GUEST.get()));
        let around = layers[at + 1..].iter().find(|layer| layer.crossing() != Crossing::None);
        let stated = around.filter(|layer| layer.is_set(MEMORY_OPTION)).map(|layer| (layer, MEMORY_OPTION));
        let (layer, option) = stated.unwrap_or((guest, HOST_MEMORY_OPTION));
        if layer.size(option).is_some_and(|size| size < least) {
            return Err((layer, too_little(guest, [memory, least], (layer, option))));
        }
    }
    Ok(())
}

fn too_little(
    guest: &Layer,
    [memory, least]: [Bytes; 2],
    (layer, option): (&Layer, &'static str),
) -> Conflict {
    let (name, host) = (guest.name(), layer.name());
    Conflict {
        option: Some(option),
        message: format!(
            "the machine around {name} has to hold a guest with {memory}, and needs {LEAST_BESIDE_GUEST} itself: together at \
             least {least}"
        ),
        help: format!("use {option}={least} or more for {host}, or a smaller {MEMORY_OPTION} of the guest"),
    }
}

/// A machine that runs virtual machines needs memory for them later than when it is taken up.
pub(crate) fn check_available(layers: &[Layer]) -> Result<(), (&Layer, Conflict)> {
    let links =
        layers.iter().enumerate().filter(|(_, layer)| layer.link().is_some_and(|l| l.available.is_some()));
    for (at, link) in links {
        let Some(guest) = guest_above(layers, at) else { continue };
        let name = layers[guest].name();
        return Err((
            link,
            Conflict {
                option: Some(AVAILABLE_OPTION),
                message: format!("the machine beside runs {name}, which needs memory of it later"),
                help: format!(
                    "omit it, or say how much the guest has available: {name}:{AVAILABLE_OPTION}=…"
                ),
            },
        ));
    }
    Ok(())
}
