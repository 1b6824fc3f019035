//! `lsi`: LSI 53C895A, a parallel SCSI controller.

use super::{Attach, DeviceModelSpec, DiskInterface, LibvirtDisk, QueueDepth, pci_controller, scsi_disk};

pub(super) const MODEL: DeviceModelSpec = DeviceModelSpec {
    name: "lsi",
    summary: "LSI 53C895A, a parallel SCSI controller",
    controller: Some(|controller| pci_controller("lsi53c895a", controller)),
    disk: scsi_disk,
    attach: Attach::RunningThenScan,
    iothread: false,
    slots: 7,
    kernel_modules: &["sym53c8xx", "sd_mod"],
    guest_sets_write_cache: false,
    interface: DiskInterface::Scsi,
    queue: QueueDepth::Narrow,
    second_disk: "sdb",
    libvirt: LibvirtDisk::scsi("lsilogic"),
};
