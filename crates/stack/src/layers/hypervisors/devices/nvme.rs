//! `nvme`: an NVMe disk, each its own controller with one name space.

use super::{Attach, DeviceModelSpec, disk};

pub(super) const MODEL: DeviceModelSpec = DeviceModelSpec {
    name: "nvme",
    summary: "NVMe disk",
    controller: None,
    disk: |arguments| disk("nvme", arguments, arguments.pci_bus),
    attach: Attach::Running,
    iothread: false,
    slots: 1,
    kernel_modules: &["nvme"],
};
