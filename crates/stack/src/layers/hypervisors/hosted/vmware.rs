//! `vmware`: a machine of the VMware Workstation that is installed.

use super::{HostedController, HostedSpec, UnsuitedFeatures, options};
use crate::layers::hypervisors::CacheMode;
use crate::layers::hypervisors::devices::QueueDepth;
use crate::layers::options::{AVAILABLE, CPUS, MEMORY, MERGES, READAHEAD, SCHED};
use crate::{Accelerator, HypervisorKind, HypervisorSpec, LayerDefinition, LayerSpec};

/// The controllers of a description of a machine (`scsi0.virtualDev` and its like).
const CONTROLLERS: [HostedController; 6] = [
    controller("lsi", "scsi", "lsilogic", &["mptspi", "sd_mod"]),
    controller("mptsas", "scsi", "lsisas1068", &["mptsas", "sd_mod"]),
    controller("pvscsi", "scsi", "pvscsi", &["vmw_pvscsi", "sd_mod"]),
    controller("ahci", "sata", "", &["ahci", "sd_mod"]),
    controller("ide", "ide", "", &["ata_piix", "sd_mod"]),
    HostedController { queue: QueueDepth::Deep, ..controller("nvme", "nvme", "", &["nvme"]) },
];

const fn controller(
    name: &'static str,
    bus: &'static str,
    model: &'static str,
    kernel_modules: &'static [&'static str],
) -> HostedController {
    HostedController {
        name,
        bus,
        model,
        kernel_modules,
        queue: QueueDepth::Narrow,
        may_ignore_flushes: false,
    }
}

static HOSTED: HostedSpec = HostedSpec {
    product: "VMware",
    source: "VMware Workstation from https://www.vmware.com/products/desktop-hypervisor/workstation-and-fusion, which Debian does not have",
    lab_pack: None,
    formats: &["vmdk", "raw"],
    // Through the page cache, unless its own settings say otherwise.
    cache: CacheMode::Writeback,
    controllers: &CONTROLLERS,
    unsuited: UnsuitedFeatures::NONE,
};

static NAMES: [&str; CONTROLLERS.len()] = options::names(&CONTROLLERS);

pub(in crate::layers) static LAYER: LayerSpec = LayerSpec {
    name: "vmware",
    summary: "virtual machine of the VMware Workstation that is installed, told by vmrun (1.15 to 1.17); with --on this",
    options: &[options::disk(&NAMES), MEMORY, AVAILABLE, CPUS, SCHED, READAHEAD, MERGES],
    definition: LayerDefinition::Hypervisor(HypervisorSpec {
        kind: HypervisorKind::Vmware,
        accelerator: Accelerator::Vmware,
        hosted: Some(&HOSTED),
    }),
    packages: &["isolinux", "syslinux-common", "xorriso", "squashfs-tools"],
    check: options::check,
    not_buildable: None,
};
