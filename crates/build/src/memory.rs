//! How much memory each machine of a stack gets.

use nestor_stack::{Crossing, Stack};

/// A host's own need: kernel, page cache for its tools, traces in memory.
const HOST_BYTES: u64 = 1 << 30;

/// What a guest costs its host beyond its own memory: QEMU itself.
const QEMU_BYTES: u64 = 192 << 20;

/// What a guest that is a host itself needs beyond its guests.
const MIDDLE_BYTES: u64 = 512 << 20;

/// Memory of each guest of a stack, outermost first: what its layer says, and for one that boots further guests
/// at least enough for those.
pub fn guests_need(stack: &Stack) -> Vec<u64> {
    let mut inner = 0;
    let mut sizes = Vec::new();
    for layer in stack.layers().iter().filter(|layer| layer.crossing() == Crossing::Inside) {
        let written = layer.size("memory").map_or(256 << 20, nestor_stack::Bytes::get);
        let least = if inner == 0 { 0 } else { inner + QEMU_BYTES + MIDDLE_BYTES };
        let size = if layer.is_set("memory") { written } else { written.max(least) };
        sizes.push(size);
        inner = size;
    }
    sizes.reverse();
    sizes
}

/// Memory of the host of a stack.
pub fn host_needs(stack: &Stack) -> u64 {
    HOST_BYTES + guests_need(stack).first().map_or(0, |guest| guest + QEMU_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn needs(stack: &str) -> (u64, Vec<u64>) {
        let stack = Stack::parse(stack).unwrap();
        (host_needs(&stack) >> 20, guests_need(&stack).into_iter().map(|b| b >> 20).collect())
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
