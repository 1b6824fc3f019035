//! `lsi`: LSI 53C895A, a parallel SCSI controller.

use super::{Attach, DeviceModelSpec, pci_controller, scsi_disk, LibvirtDisk};

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
    second_disk: "sdb",
    libvirt: LibvirtDisk::scsi("lsilogic"),
};
