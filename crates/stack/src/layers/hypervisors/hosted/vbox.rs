//! `vbox`: a machine of the VirtualBox that is installed.

use super::super::options::HOST_MEMORY;
use super::options::{self, CACHE};
use super::{HostedController, HostedSpec, UnsuitedFeatures};
use crate::layers::hypervisors::CacheMode;
use crate::layers::hypervisors::devices::QueueDepth;
use crate::layers::options::{AVAILABLE, CPUS, MEMORY, MERGES, READAHEAD, SCHED};
use crate::{
    Accelerator, HypervisorKind, HypervisorSpec, LabPack, LayerDefinition, LayerSpec, OptionKind, OptionSpec,
};

/// The controllers of `VBoxManage storagectl` (VirtualBox's manual, "VBoxManage storagectl"). BusLogic is not among them: Linux's driver for it
/// gives up on machines with as little memory as guests have. NVMe needs VirtualBox's extension pack.
const CONTROLLERS: [HostedController; 5] = [
    controller("ahci", "sata", "IntelAHCI", &["ahci", "sd_mod"], true),
    controller("ide", "ide", "PIIX4", &["ata_piix", "sd_mod"], true),
    controller("lsi", "scsi", "LSILogic", &["mptspi", "sd_mod"], false),
    controller("mptsas", "sas", "LSILogicSAS", &["mptsas", "sd_mod"], false),
    HostedController {
        queue: QueueDepth::Deep,
        ..controller("virtio-scsi", "virtio", "VirtIO", &["virtio_pci", "virtio_scsi", "sd_mod"], false)
    },
];

const fn controller(
    name: &'static str,
    bus: &'static str,
    model: &'static str,
    kernel_modules: &'static [&'static str],
    may_ignore_flushes: bool,
) -> HostedController {
    HostedController { name, bus, model, kernel_modules, queue: QueueDepth::Narrow, may_ignore_flushes }
}

static HOSTED: HostedSpec = HostedSpec {
    product: "VirtualBox",
    source: "apt-get install virtualbox (Debian 12 does not have it: it is in Debian's unstable and fasttrack), or a package from \
             https://www.virtualbox.org/wiki/Linux_Downloads",
    lab_pack: Some(LabPack::VirtualBox),
    formats: &["vdi", "vmdk", "raw"],
    cache: CacheMode::None,
    controllers: &CONTROLLERS,
    unsuited: UNSUITED,
};

/// Its kernel module looks at page tables of the host's as if they had four levels, and loops for ever where they have five. It keeps shadow page
/// tables where a processor has no nested ones.
const UNSUITED: UnsuitedFeatures = UnsuitedFeatures { always: &["la57"], where_shadowed: &["npt"] };

static NAMES: [&str; CONTROLLERS.len()] = options::names(&CONTROLLERS);

pub(in crate::layers) static LAYER: LayerSpec = LayerSpec {
    name: "vbox",
    summary: "virtual machine of VirtualBox (7.0 to 7.2), told by VBoxManage: of the one that is installed with --on this, of a pack in an emulated host",
    options: &[
        options::disk(&NAMES),
        OptionSpec {
            name: CACHE,
            summary: "none bypasses the host's page cache (--hostiocache off) and passes flushes on; writeback uses it; unsafe also ignores \
                      flushes, as VirtualBox does by itself (disk=ahci and ide)",
            kind: OptionKind::Choice(&[
                CacheMode::None.name(),
                CacheMode::Writeback.name(),
                CacheMode::Unsafe.name(),
            ]),
            default: Some(CacheMode::None.name()),
        },
        MEMORY,
        AVAILABLE,
        HOST_MEMORY,
        CPUS,
        SCHED,
        READAHEAD,
        MERGES,
    ],
    definition: LayerDefinition::Hypervisor(HypervisorSpec {
        kind: HypervisorKind::VirtualBox,
        accelerator: Accelerator::VirtualBox,
        hosted: Some(&HOSTED),
    }),
    packages: &["virtualbox", "isolinux", "syslinux-common", "xorriso", "squashfs-tools"],
    check: options::check,
    not_buildable: None,
};
