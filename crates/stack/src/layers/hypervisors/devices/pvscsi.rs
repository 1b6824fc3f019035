//! `pvscsi`: VMware's paravirtual SCSI controller.

use super::{Attach, DeviceModelSpec, DiskInterface, LibvirtDisk, QueueDepth, pci_controller, scsi_disk};

pub(super) const MODEL: DeviceModelSpec = DeviceModelSpec {
    name: "pvscsi",
    summary: "VMware's paravirtual SCSI controller",
    controller: Some(|controller| pci_controller("pvscsi", controller)),
    disk: scsi_disk,
    attach: Attach::Running,
    iothread: false,
    slots: 64,
    kernel_modules: &["vmw_pvscsi", "sd_mod"],
    guest_sets_write_cache: false,
    interface: DiskInterface::Scsi,
    queue: QueueDepth::Narrow,
    second_disk: "sdb",
    libvirt: LibvirtDisk::scsi("vmpvscsi"),
};
