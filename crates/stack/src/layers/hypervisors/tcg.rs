//! `tcg`: QEMU with an emulated CPU.

use super::options;
use crate::{Accelerator, HypervisorKind, HypervisorSpec, LayerDefinition, LayerSpec};

pub(in crate::layers) static LAYER: LayerSpec = LayerSpec {
    name: "tcg",
    summary: "QEMU virtual machine with an emulated CPU",
    options: options::OPTIONS,
    definition: LayerDefinition::Hypervisor(HypervisorSpec {
        kind: HypervisorKind::Qemu,
        accelerator: Accelerator::Tcg,
        hosted: None,
    }),
    packages: options::PACKAGES,
    check: options::check,
    not_buildable: None,
};
