//! Kernel modules that the machines of a stack need for its network. Machines that are kept have them loaded.

use std::collections::{BTreeMap, BTreeSet};

use nestor_stack::{LayerDefinition, MachineIndex, Stack};

use crate::{guest_network, link, network_disk, network_file_system};

/// By machine; empty for a stack without a link.
pub fn network_modules(stack: &Stack) -> BTreeMap<MachineIndex, BTreeSet<&'static str>> {
    let mut modules: BTreeMap<MachineIndex, BTreeSet<&'static str>> = BTreeMap::new();
    let mut needs = |machine, of: &[&'static str]| modules.entry(machine).or_default().extend(of);
    for (index, layer) in stack.indexed_layers() {
        let on = stack.machine_of(index);
        let server = stack.link_below(index).map(|(link, _)| stack.machine_of(link));
        match (layer.definition(), server) {
            (LayerDefinition::Link, _) => {
                needs(on, link::MODULES);
                if let Some(client) = stack.machine_across(index) {
                    needs(client, link::MODULES);
                }
            }
            (LayerDefinition::NetworkFileSystem, Some(server)) => {
                needs(server, network_file_system::SERVER_MODULES);
                needs(on, network_file_system::CLIENT_MODULES);
            }
            (LayerDefinition::NetworkDisk, Some(_)) => needs(on, network_disk::CLIENT_MODULES),
            (LayerDefinition::Hypervisor(_), Some(_)) if stack.is_joined_to_network(index) => {
                needs(on, guest_network::AROUND_MODULES);
                if let Some(guest) = stack.machine_across(index) {
                    needs(guest, link::MODULES);
                }
            }
            _ => {}
        }
    }
    if let Some(repository) = stack.repository() {
        needs(MachineIndex::OUTERMOST, link::MODULES);
        needs(repository, link::MODULES);
    }
    modules
}

#[cfg(test)]
mod tests {
    use super::*;

    fn modules(stack: &str) -> Vec<Vec<&'static str>> {
        let stack = Stack::parse(stack).unwrap();
        network_modules(&stack).into_values().map(|modules| modules.into_iter().collect()).collect()
    }

    const CLIENT: [&str; 4] = ["nfs", "nfsv3", "nfsv4", "virtio_net"];

    #[test]
    fn client_and_server_have_what_their_end_needs() {
        assert_eq!(modules("nfs/link/xfs/hdd"), [vec!["nfsd", "virtio_net"], CLIENT.to_vec()]);
        assert_eq!(modules("ext4/nbd/link/hdd"), [vec!["virtio_net"], vec!["nbd", "virtio_net"]]);
        let with_guest = "ext2/kvm/raw/nfs/link/xfs/hdd";
        assert_eq!(modules(with_guest), [vec!["nfsd", "virtio_net"], CLIENT.to_vec()], "the guest has none");
    }

    #[test]
    fn a_guest_on_the_network_has_the_client() {
        let found = modules("nfs/kvm/link/xfs/hdd");
        assert_eq!(found, [vec!["nfsd", "virtio_net"], vec!["bridge", "tun", "virtio_net"], CLIENT.to_vec()]);
    }

    #[test]
    fn a_stack_without_a_link_has_none() {
        assert!(modules("ext4/kvm/qcow2/xfs/hdd").is_empty());
    }
}
