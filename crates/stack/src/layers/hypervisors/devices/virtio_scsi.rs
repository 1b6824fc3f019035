//! `virtio-scsi`: a paravirtual SCSI controller.

use super::{
    Attach, Controller, DeviceModelSpec, DiskInterface, LibvirtDisk, QueueDepth, pci_controller, scsi_disk,
    set,
};

pub(super) const MODEL: DeviceModelSpec = DeviceModelSpec {
    name: "virtio-scsi",
    summary: "paravirtual SCSI controller",
    controller: Some(controller),
    disk: scsi_disk,
    attach: Attach::Running,
    iothread: true,
    slots: 256,
    kernel_modules: &["virtio_pci", "virtio_scsi", "sd_mod"],
    guest_sets_write_cache: false,
    interface: DiskInterface::Scsi,
    queue: QueueDepth::Deep,
    second_disk: "sdb",
    libvirt: LibvirtDisk::scsi("virtio-scsi"),
};

fn controller(arguments: &Controller<'_>) -> serde_json::Value {
    let mut device = pci_controller("virtio-scsi-pci", arguments);
    set(&mut device, "iothread", arguments.iothread);
    device
}
