//! `ahci`: a SATA controller.

use serde_json::{Value, json};

use super::{Attach, DeviceModelSpec, Disk, DiskInterface, LibvirtDisk, QueueDepth, disk, pci_controller};

pub(super) const MODEL: DeviceModelSpec = DeviceModelSpec {
    name: "ahci",
    summary: "ICH9, a SATA controller",
    controller: Some(|controller| pci_controller("ich9-ahci", controller)),
    disk: device,
    attach: Attach::AtStart,
    iothread: false,
    slots: 6,
    kernel_modules: &["ahci", "sd_mod"],
    guest_sets_write_cache: false,
    interface: DiskInterface::Ata,
    queue: QueueDepth::Narrow,
    second_disk: "sdb",
    libvirt: LibvirtDisk::on("sata", "sda"),
};

/// Each port is a bus of its own with one disk.
fn device(arguments: &Disk<'_>) -> Value {
    let bus = format!("{}.{}", arguments.controller, arguments.slot);
    let mut device = disk("ide-hd", arguments, Some(&bus));
    device["unit"] = json!(0);
    device
}
