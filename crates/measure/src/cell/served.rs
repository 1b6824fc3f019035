//! What the back ends of virtual disks count while the workload runs, where they do.

use std::collections::BTreeMap;

use nestor_kernel::ServedRequests;
use nestor_lab::{BuiltStack, VirtualDisk};
use nestor_stack::LayerIndex;

/// Counts at the beginning, by the hypervisor's layer.
#[derive(Default)]
pub(super) struct ServedWatch(BTreeMap<LayerIndex, ServedRequests>);

impl ServedWatch {
    /// Reads all counts that there are.
    pub(super) fn start(built: &BuiltStack) -> Self {
        let counted = |disk: &VirtualDisk| Some((disk.layer, read(built, disk)?));
        Self(built.virtual_disks.iter().filter_map(counted).collect())
    }

    /// What was served since then.
    pub(super) fn finish(&self, built: &BuiltStack) -> BTreeMap<LayerIndex, ServedRequests> {
        let counted = |disk: &VirtualDisk| {
            let before = self.0.get(&disk.layer)?;
            Some((disk.layer, read(built, disk)?.since(before)))
        };
        built.virtual_disks.iter().filter_map(counted).collect()
    }
}

/// `None` of a hypervisor that does not count; a machine that is lost shows at the next request to it.
fn read(built: &BuiltStack, disk: &VirtualDisk) -> Option<ServedRequests> {
    built.machines[disk.machine].machine.served_requests(disk.guest).ok()
}
