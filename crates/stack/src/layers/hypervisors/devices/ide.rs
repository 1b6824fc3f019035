//! `ide`: a parallel ATA controller.

use serde_json::{Value, json};

use super::{Attach, DeviceModelSpec, Disk, DiskInterface, LibvirtDisk, QueueDepth, disk, pci_controller};

pub(super) const MODEL: DeviceModelSpec = DeviceModelSpec {
    name: "ide",
    summary: "PIIX3, a parallel ATA controller",
    // q35 has no parallel ATA of its own; as a further device on its root bus this one sits at the legacy ports.
    controller: Some(|controller| pci_controller("piix3-ide", controller)),
    disk: device,
    attach: Attach::AtStart,
    iothread: false,
    slots: 4,
    kernel_modules: &["ata_piix", "sd_mod"],
    guest_sets_write_cache: false,
    interface: DiskInterface::Ata,
    queue: QueueDepth::Narrow,
    second_disk: "sdb",
    libvirt: LibvirtDisk::on("ide", "hda"),
};

/// Two channels with two units each.
fn device(arguments: &Disk<'_>) -> Value {
    let bus = format!("{}.{}", arguments.controller, arguments.slot / 2);
    let mut device = disk("ide-hd", arguments, Some(&bus));
    device["unit"] = json!(arguments.slot % 2);
    device
}
