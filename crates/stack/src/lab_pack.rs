//! What the machines of a stack need that not every lab image has.

use serde::{Deserialize, Serialize};

use crate::layers::hypervisors::RunBy;
use crate::{Layer, LayerSpec, Stack};

/// An addition to the lab image, so that the image of most stacks stays small.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LabPack {
    /// The Xen hypervisor and its tools, and libvirt for it.
    Xen,
    /// libvirt and its tool `virsh`.
    Libvirt,
    /// The programs that copy images from machine to machine.
    Transfer,
    /// VirtualBox without its windows, and its kernel module.
    VirtualBox,
}

impl LabPack {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Xen, Self::Libvirt, Self::Transfer, Self::VirtualBox];

    /// As people name it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Xen => "xen",
            Self::Libvirt => "libvirt",
            Self::Transfer => "transfer",
            Self::VirtualBox => "virtualbox",
        }
    }
}

impl LayerSpec {
    /// What a machine that builds it needs besides what every lab image has.
    pub fn lab_pack(&self) -> Option<LabPack> {
        match self.propagation() {
            Some(_) => Some(LabPack::Transfer),
            None if self.definition.is_under_xen() => Some(LabPack::Xen),
            None => self.hosted()?.lab_pack,
        }
    }
}

impl Layer {
    /// What a machine that builds it with its options needs besides what every lab image has.
    pub fn lab_pack(&self) -> Option<LabPack> {
        self.spec.lab_pack().or_else(|| RunBy::of(self)?.lab_pack())
    }
}

impl Stack {
    /// What its machines need besides what every lab image has.
    pub fn lab_pack(&self) -> Option<LabPack> {
        self.layers().iter().find_map(Layer::lab_pack)
    }

    /// Two layers that need different things besides what every lab image has.
    pub(crate) fn needs_two_packs(&self) -> Option<(&Layer, &Layer)> {
        let mut needing = self.layers().iter().filter_map(|layer| Some((layer, layer.lab_pack()?)));
        let (first, pack) = needing.next()?;
        needing.find(|(_, other)| *other != pack).map(|(other, _)| (first, other))
    }

    /// What its guests themselves need besides what every lab image has, whatever machine is around them: domains of Xen find their disks by
    /// a driver of their own.
    pub fn lab_pack_of_guests(&self) -> Option<LabPack> {
        let is_xens = |layer: &Layer| layer.hypervisor().is_some_and(|of| of.disk.xen_guest().is_some());
        self.layers().iter().any(is_xens).then_some(LabPack::Xen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guests_need_less_than_what_runs_them() {
        let packs = |text: &str| {
            let stack = Stack::parse(text).unwrap();
            (stack.lab_pack(), stack.lab_pack_of_guests())
        };
        let xen = Some(LabPack::Xen);
        assert_eq!(packs("ext3/xen/raw/ext4/hdd"), (xen, xen));
        assert_eq!(packs("ext3/xen:by=libvirt/raw/ext4/hdd"), (xen, xen));
        assert_eq!(packs("ext3/dom0/hdd"), (xen, None));
        assert_eq!(packs("ext3/kvm:by=libvirt/hdd"), (Some(LabPack::Libvirt), None));
        assert_eq!(packs("ext3/kvm/hdd"), (None, None));
        assert_eq!(packs("ext3/vbox/vdi/ext4/hdd"), (Some(LabPack::VirtualBox), None));
        assert_eq!(packs("ext3/vmware/hdd"), (None, None));
        let source = "//link/raw/ext4/hdd";
        let copied = |hypervisor: &str| format!("ext3/{hypervisor}/copy:scp/ext4/hdd{source}");
        assert_eq!(packs(&copied("kvm")), (Some(LabPack::Transfer), None));
        let refused = |hypervisor: &str| Stack::parse(&copied(hypervisor)).unwrap().require_buildable();
        assert!(refused("kvm").is_ok() && refused("xen").is_err() && refused("kvm:by=libvirt").is_err());
    }
}
