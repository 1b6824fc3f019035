//! How much memory each machine of a stack gets.

use nestor_stack::{MachineIndex, Stack};

/// A host's own need: kernel, page cache for its tools, traces in memory.
const HOST_BYTES: u64 = 1 << 30;

/// Memory of the process that runs a guest, in addition to the guest's own.
const HYPERVISOR_BYTES: u64 = 192 << 20;

/// Memory of a guest that is itself a host, in addition to that of its guests.
const MIDDLE_BYTES: u64 = 512 << 20;

/// Memory of a guest of a stack: what its layer says, and if it runs guests itself at least enough for those.
pub fn guest_needs(stack: &Stack, guest: MachineIndex) -> u64 {
    let machines = stack.machines();
    let layer = machines.get(guest).and_then(|machine| machine.crossing).map(|at| stack.layer(at));
    let written = layer.and_then(|layer| layer.size("memory")).map_or(256 << 20, nestor_stack::Bytes::get);
    let inside = inside_needs(stack, guest);
    let least = if inside == 0 { 0 } else { inside + MIDDLE_BYTES };
    if layer.is_some_and(|layer| layer.is_set("memory")) { written } else { written.max(least) }
}

/// Memory of the host of a stack.
pub fn host_needs(stack: &Stack) -> u64 {
    HOST_BYTES + inside_needs(stack, MachineIndex::OUTERMOST)
}

/// What the guests of a machine cost it.
fn inside_needs(stack: &Stack, machine: MachineIndex) -> u64 {
    stack.machines().inside(machine).map(|guest| guest_needs(stack, guest) + HYPERVISOR_BYTES).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn needs(stack: &str) -> (u64, Vec<u64>) {
        let stack = Stack::parse(stack).unwrap();
        let guests =
            stack.machines().indexed().skip(1).map(|(at, _)| guest_needs(&stack, at) >> 20).collect();
        (host_needs(&stack) >> 20, guests)
    }

    #[test]
    fn a_machine_has_room_for_those_inside_it() {
        assert_eq!(needs("ext4/hdd"), (1024, vec![]));
        assert_eq!(needs("ext4/kvm/hdd"), (1024 + 256 + 192, vec![256]));
        let middle = 256 + 192 + 512;
        assert_eq!(needs("ext4/kvm/qcow2/xfs/kvm/raw/ext4/null"), (1024 + middle + 192, vec![middle, 256]));
    }

    #[test]
    fn what_is_written_holds() {
        assert_eq!(needs("ext4/kvm:memory=512M/hdd").1, [512]);
        assert_eq!(needs("ext4/kvm/raw/ext4/kvm:memory=640M/hdd").1, [640, 256]);
    }
}
