//! `virtio-blk`: a paravirtual disk, each its own PCI device.

use super::{Attach, DeviceModelSpec, Disk, DiskInterface, LibvirtDisk, QueueDepth, disk, set};

pub(super) const MODEL: DeviceModelSpec = DeviceModelSpec {
    name: "virtio-blk",
    summary: "paravirtual disk",
    controller: None,
    disk: device,
    attach: Attach::Running,
    iothread: true,
    slots: 1,
    kernel_modules: &["virtio_pci", "virtio_blk"],
    guest_sets_write_cache: true,
    interface: DiskInterface::VirtioBlk,
    queue: QueueDepth::Deep,
    second_disk: "vdb",
    libvirt: LibvirtDisk::on("virtio", "vda"),
};

fn device(arguments: &Disk<'_>) -> serde_json::Value {
    let mut device = disk("virtio-blk-pci", arguments, arguments.pci_bus);
    set(&mut device, "iothread", arguments.iothread);
    device
}
