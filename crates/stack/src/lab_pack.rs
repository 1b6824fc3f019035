//! What the machines of a stack need that not every lab image has.

use serde::{Deserialize, Serialize};

use crate::layers::hypervisors::RunBy;
use crate::{Layer, LayerSpec, Stack};

/// An addition to the lab image, so that the image of most stacks stays small.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LabPack {
    /// The Xen hypervisor and its tools.
    Xen,
    /// libvirt and its tool `virsh`.
    Libvirt,
}

impl LabPack {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Xen, Self::Libvirt];

    /// As people name it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Xen => "xen",
            Self::Libvirt => "libvirt",
        }
    }
}

impl LayerSpec {
    /// What a machine that builds it needs besides what every lab image has.
    pub fn lab_pack(&self) -> Option<LabPack> {
        self.definition.is_under_xen().then_some(LabPack::Xen)
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
}
