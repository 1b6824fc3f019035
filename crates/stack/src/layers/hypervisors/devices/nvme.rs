//! `nvme`: an NVMe disk, each its own controller with one name space.
//!
//! QEMU's controller always says that it has a volatile write cache, so the guest flushes also where `write-cache` is
//! off; QEMU then makes every write durable by itself and the guest's flushes have no effect.

use super::{Attach, DeviceModelSpec, DiskInterface, QueueDepth, disk};

pub(super) const MODEL: DeviceModelSpec = DeviceModelSpec {
    name: "nvme",
    summary: "NVMe disk",
    controller: None,
    disk: |arguments| disk("nvme", arguments, arguments.pci_bus),
    attach: Attach::Running,
    iothread: false,
    slots: 1,
    kernel_modules: &["nvme"],
    guest_sets_write_cache: false,
    interface: DiskInterface::Nvme,
    queue: QueueDepth::Deep,
    second_disk: "nvme1n1",
    libvirt: None,
};
