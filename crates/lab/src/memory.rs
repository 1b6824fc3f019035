//! How much memory each machine of a stack gets.

use nestor_machine::{MachineSpec, UnderXen};
use nestor_stack::{Layer, MachineIndex, Stack};

/// A host's own need: kernel, page cache for its tools, traces in memory.
const HOST_BYTES: u64 = 1 << 30;

/// What Xen itself takes: its heap, and what it knows of each page.
const XEN_BYTES: u64 = 192 << 20;

/// The Xen below the host of a stack, if there is one; `host_bytes` is what the host has together with its guests.
pub fn under_xen(stack: &Stack, host_bytes: u64, hypervisor: String) -> Option<UnderXen> {
    let guests =
        stack.machines().inside(MachineIndex::OUTERMOST).map(|guest| guest_needs(stack, guest)).sum();
    let privileged_memory_bytes = host_bytes.saturating_sub(guests);
    stack.is_under_xen().then_some(UnderXen { hypervisor, privileged_memory_bytes })
}

/// What a machine must have so that a host has so much together with its guests.
pub fn with_xen(host_bytes: u64, xen: Option<&UnderXen>) -> u64 {
    host_bytes + if xen.is_some() { XEN_BYTES } else { 0 }
}

/// What a booted host has together with its guests.
pub fn of_host(spec: &MachineSpec) -> u64 {
    spec.memory_bytes - if spec.under_xen.is_some() { XEN_BYTES } else { 0 }
}

/// Memory of a guest of a stack, or of a machine beside another, in bytes ([`Stack::memory_of`]).
pub fn guest_needs(stack: &Stack, guest: MachineIndex) -> u64 {
    stack.memory_of(guest).unwrap_or_default().get()
}

/// Memory of the host of a stack: what its guest says of it, otherwise its own need and that of its guests.
pub fn host_needs(stack: &Stack) -> u64 {
    stated_host_memory(stack).unwrap_or_else(|| HOST_BYTES + inside_needs(stack, MachineIndex::OUTERMOST))
}

/// What instances of a stack's virtual machines cost its host together.
pub fn instances_need(stack: &Stack, instances: u32) -> u64 {
    u64::from(instances) * inside_needs(stack, MachineIndex::OUTERMOST)
}

/// What those beside the first cost it.
pub fn more_instances_need(stack: &Stack, instances: u32) -> u64 {
    instances_need(stack, instances.saturating_sub(1))
}

/// How much memory a stack says its outermost host has, neither more nor less, with its guests or, without any, its disk; `None` if it
/// says nothing.
pub fn stated_host_memory(stack: &Stack) -> Option<u64> {
    let by_disk = || Some(stack.layers().last()?.modelled_disk()?.host_memory?.get());
    stated_by_guests(stack, MachineIndex::OUTERMOST).or_else(by_disk)
}

/// The layer that makes a machine; `None` for the outermost.
fn crossing_layer(stack: &Stack, machine: MachineIndex) -> Option<&Layer> {
    let crossing = stack.machines().get(machine)?.crossing?;
    Some(stack.layer(crossing))
}

/// What the guests of a machine say of its memory (`host-memory`).
fn stated_by_guests(stack: &Stack, machine: MachineIndex) -> Option<u64> {
    let said = |guest| Some(crossing_layer(stack, guest)?.hypervisor()?.host_memory?.get());
    stack.machines().inside(machine).filter_map(said).max()
}

/// How many instances of one image a cell has at the same time, and on how many nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AtOnce {
    /// Instances, at least one.
    pub instances: u32,
    /// Nodes, at least one.
    pub nodes: u32,
}

impl AtOnce {
    /// A single instance.
    pub const ONE: Self = Self { instances: 1, nodes: 1 };

    /// The most instances that a node has.
    pub const fn on_a_node(self) -> u32 {
        self.instances.div_ceil(self.nodes)
    }
}

/// Memory in bytes for a cell of any of these stacks on the machine that runs Nestor: of the host and those beside it, and a third more for the
/// rest. Of stacks with a source, so many instances may run at the same time.
pub fn cell_needs(stacks: &[Stack], most: AtOnce) -> u64 {
    let together = |stack: &Stack| {
        let most = if stack.sourced_image().is_some() { most } else { AtOnce::ONE };
        let roots = roots_need(stack).into_iter().map(|(_, bytes)| bytes).sum::<u64>();
        let of_node = host_needs(stack) + more_instances_need(stack, most.on_a_node());
        roots - host_needs(stack) + u64::from(most.nodes) * of_node
    };
    stacks.iter().map(together).max().unwrap_or_default().max(3) / 3 * 4
}

/// The machines of a stack that are in no other, which are the host and those beside it, each with what it and its guests need.
pub fn roots_need(stack: &Stack) -> Vec<(MachineIndex, u64)> {
    let machines = stack.machines();
    let roots = machines.indexed().map(|(index, _)| index).filter(|index| machines.parent(*index).is_none());
    let need =
        |root| if root == MachineIndex::OUTERMOST { host_needs(stack) } else { guest_needs(stack, root) };
    roots.map(|root| (root, need(root))).collect()
}

/// What the guests of a machine cost it.
fn inside_needs(stack: &Stack, machine: MachineIndex) -> u64 {
    stack
        .machines()
        .inside(machine)
        .map(|guest| guest_needs(stack, guest) + Stack::HYPERVISOR_MEMORY.get())
        .sum()
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
    fn each_instance_costs_its_host_a_guest_and_a_hypervisor() {
        let stack = Stack::parse("ext4/kvm:memory=512M/copy:nbd/ext4/hdd//link/raw/ext4/hdd").unwrap();
        let needs = |instances| {
            (instances_need(&stack, instances) >> 20, more_instances_need(&stack, instances) >> 20)
        };
        assert_eq!(needs(1), (512 + 192, 0));
        assert_eq!(needs(3), (3 * (512 + 192), 2 * (512 + 192)));
    }

    #[test]
    fn each_node_costs_a_cell_a_host_with_its_instances() {
        let stack = Stack::parse("ext4/kvm:memory=512M/copy:nbd/ext4/hdd//link/raw/ext4/hdd").unwrap();
        let needs = |instances, nodes| cell_needs(std::slice::from_ref(&stack), AtOnce { instances, nodes });
        let (one, instance) =
            (roots_need(&stack).iter().map(|(_, bytes)| bytes >> 20).sum::<u64>(), 512 + 192);
        let cell = |mib: u64| (mib << 20) / 3 * 4;
        assert_eq!(needs(1, 1), cell(one));
        assert_eq!(needs(4, 1), cell(one + 3 * instance));
        assert_eq!(needs(4, 4), cell(one + 3 * (1024 + instance)));
        assert_eq!(needs(5, 2), cell(one + (1024 + instance) + 4 * instance), "both have room for three");
    }

    #[test]
    fn what_is_written_holds() {
        assert_eq!(needs("ext4/kvm:memory=512M/hdd").1, [512]);
        assert_eq!(needs("ext4/kvm/raw/ext4/kvm:memory=640M/hdd").1, [640, 256]);
    }

    #[test]
    fn a_client_needs_memory_beside_the_host_and_for_its_guest() {
        let roots = |text: &str| -> Vec<u64> {
            let stack = Stack::parse(text).unwrap();
            roots_need(&stack).into_iter().map(|(_, bytes)| bytes >> 20).collect()
        };
        assert_eq!(roots("ext4/kvm/hdd"), [1024 + 256 + 192]);
        assert_eq!(roots("nfs/link:memory=1G/ext4/hdd"), [1024, 1024]);
        let with_guest = "ext2/kvm:memory=512M/raw/nfs/link/ext4/hdd";
        assert_eq!(roots(with_guest), [1024, 512 + 192 + 512]);
        let stack = Stack::parse(with_guest).unwrap();
        assert_eq!(cell_needs(&[stack], AtOnce::ONE), ((1024 + 512 + 192 + 512) << 20) / 3 * 4);
    }

    #[test]
    fn a_guest_says_what_memory_its_host_has() {
        assert_eq!(needs("ext4/kvm:host-memory=1G/hdd"), (1024, vec![256]));
        assert_eq!(needs("ext4/hdd:host-memory=256M"), (256, vec![]));
        assert_eq!(needs("ext4/kvm:host-memory=4G/hdd"), (4096, vec![256]));
        let nested = "ext4/kvm:host-memory=800M/raw/ext4/kvm/hdd";
        assert_eq!(needs(nested), (1024 + 800 + 192, vec![800, 256]), "the middle machine is the host");
        assert_eq!(needs("ext4/kvm:host-memory=800M/raw/ext4/kvm:memory=900M/hdd").1, [900, 256]);
    }
}
