//! `mptsas`: LSI SAS 1068, a SAS controller.

use super::{Attach, DeviceModelSpec, pci_controller, scsi_disk};

pub(super) const MODEL: DeviceModelSpec = DeviceModelSpec {
    name: "mptsas",
    summary: "LSI SAS 1068, a SAS controller",
    controller: Some(|controller| pci_controller("mptsas1068", controller)),
    disk: scsi_disk,
    attach: Attach::BeforeDriver,
    iothread: false,
    slots: 8,
    kernel_modules: &["mptsas", "sd_mod"],
};
