//! `kvm`: QEMU with hardware acceleration where it works.

use super::options;
use crate::{Accelerator, HypervisorKind, HypervisorSpec, LayerDefinition, LayerSpec};

pub(in crate::layers) static LAYER: LayerSpec = LayerSpec {
    name: "kvm",
    summary: "QEMU virtual machine, accelerated by KVM where a boot shows that it works",
    options: options::OPTIONS,
    definition: LayerDefinition::Hypervisor(HypervisorSpec {
        kind: HypervisorKind::Qemu,
        accelerator: Accelerator::Kvm,
        hosted: None,
    }),
    packages: options::PACKAGES,
    check: options::check,
    not_buildable: None,
};
