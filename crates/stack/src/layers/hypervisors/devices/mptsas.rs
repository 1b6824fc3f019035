//! `mptsas`: LSI SAS 1068, a SAS controller.

use serde_json::{Value, json};

use super::{
    Attach, DeviceModelSpec, Disk, DiskInterface, LibvirtDisk, QueueDepth, pci_controller, scsi_disk,
};

pub(super) const MODEL: DeviceModelSpec = DeviceModelSpec {
    name: "mptsas",
    summary: "LSI SAS 1068, a SAS controller",
    controller: Some(|controller| pci_controller("mptsas1068", controller)),
    disk: device,
    attach: Attach::BeforeDriver,
    iothread: false,
    slots: 8,
    kernel_modules: &["mptsas", "sd_mod"],
    guest_sets_write_cache: false,
    interface: DiskInterface::Scsi,
    queue: QueueDepth::Narrow,
    second_disk: "sdb",
    libvirt: LibvirtDisk::scsi("lsisas1068"),
};

/// QEMU reports the disk's world wide name as its SAS address, and Linux's mptsas takes a device without a SAS
/// address for no end device: a disk without `wwn` is never seen (QEMU 7.2, Linux 6.1).
fn device(arguments: &Disk<'_>) -> Value {
    let mut device = scsi_disk(arguments);
    device["wwn"] = json!(world_wide_name(arguments.serial));
    device
}

/// A locally assigned name (NAA 3) from the serial number, so that two disks with two serials have two names:
/// 64-bit FNV-1a, its upper four bits replaced.
fn world_wide_name(serial: &str) -> u64 {
    let hash = serial.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    0x3 << 60 | hash >> 4
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_locally_assigned_and_distinct() {
        let names: std::collections::HashSet<_> =
            (0..1000).map(|i| world_wide_name(&format!("nestor-{i}"))).collect();
        assert_eq!(names.len(), 1000);
        assert!(names.iter().all(|name| name >> 60 == 3));
    }
}
