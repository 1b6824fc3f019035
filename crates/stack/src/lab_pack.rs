//! What the machines of a stack need that not every lab image has.

use serde::{Deserialize, Serialize};

use crate::{LayerSpec, Stack};

/// An addition to the lab image, so that the image of most stacks stays small.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LabPack {
    /// The Xen hypervisor and its tools.
    Xen,
}

impl LabPack {
    /// All of them.
    pub const ALL: [Self; 1] = [Self::Xen];

    /// As people name it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Xen => "xen",
        }
    }
}

impl LayerSpec {
    /// What a machine that builds it needs besides what every lab image has.
    pub fn lab_pack(&self) -> Option<LabPack> {
        self.definition.is_under_xen().then_some(LabPack::Xen)
    }
}

impl Stack {
    /// What its machines need besides what every lab image has.
    pub fn lab_pack(&self) -> Option<LabPack> {
        self.layers().iter().find_map(|layer| layer.spec.lab_pack())
    }
}
