//! The disks that a machine has: devices with a block node, and drives that QEMU gives a device.

use super::backend::Backend;
use super::board::{Board, Controller, controller, has_mapping};
use super::words::CommandLine;
use crate::properties::Properties;
use crate::{Disk, LeftOut};

/// What a device driver of a disk is.
enum Kind {
    VirtioBlk,
    Nvme,
    Scsi,
    Ata,
    /// A disk that stacks have not.
    Unlike,
    /// A drive for discs, or a floppy disk.
    Removable,
}

fn kind(driver: &str) -> Option<Kind> {
    Some(match driver {
        "virtio-blk"
        | "virtio-blk-pci"
        | "virtio-blk-pci-transitional"
        | "virtio-blk-pci-non-transitional"
        | "virtio-blk-device"
        | "virtio-blk-ccw" => Kind::VirtioBlk,
        "nvme" | "nvme-ns" => Kind::Nvme,
        "scsi-hd" | "scsi-disk" | "scsi-block" | "scsi-generic" => Kind::Scsi,
        "ide-hd" | "ide-drive" => Kind::Ata,
        "usb-storage"
        | "usb-uas"
        | "sd-card"
        | "vhost-user-blk-pci"
        | "vhost-user-scsi-pci"
        | "vhost-scsi-pci"
        | "vhost-vdpa-device-pci"
        | "vfio-pci" => Kind::Unlike,
        "scsi-cd" | "ide-cd" | "floppy" => Kind::Removable,
        _ => return None,
    })
}

/// All hard disks. What is no hard disk is left out.
pub(super) fn disks(line: &CommandLine<'_>, left_out: &mut Vec<LeftOut>) -> Result<Vec<Disk>, String> {
    let board = Board::of(line)?;
    let mut disks = Vec::new();
    let mut used = Vec::new();
    for device in &line.devices {
        let driver = device.get("driver").unwrap_or_default();
        let Some(kind) = kind(driver) else { continue };
        let drive = device.get("drive");
        used.extend(drive.map(str::to_owned));
        let id = device.get("id").or(drive).unwrap_or(driver).to_owned();
        match (kind, drive) {
            (Kind::Removable, _) => left_out.push(LeftOut::new(id, "it is no hard disk")),
            // A controller whose name spaces are devices.
            (Kind::Nvme, None) => {}
            (_, None) => left_out.push(LeftOut::new(format!("{id} ({driver})"), "stacks have no such disk")),
            (kind, Some(drive)) => {
                let found =
                    backend(line, drive).map_err(|e| format!("-device {driver},drive={drive}: {e}"))?;
                disks.push(of_device(line, board, device, &kind, named(id, found)));
            }
        }
    }
    for (option, drive) in &line.drives {
        if !drive.get("id").is_some_and(|id| used.iter().any(|used| used == id)) {
            disks.extend(of_drive(line, board, option, drive, left_out)?);
        }
    }
    Ok(disks)
}

fn backend(line: &CommandLine<'_>, name: &str) -> Result<Backend, String> {
    if let Some(found) = Backend::of_node(line, name)? {
        return Ok(found);
    }
    let drive = line.drives.iter().find(|(_, drive)| drive.get("id") == Some(name));
    match drive {
        Some((_, drive)) => Backend::of_drive(line, drive),
        None => Err(format!("there is neither a -blockdev nor a -drive of the name {name}")),
    }
}

/// A disk with what is behind it, on no controller yet.
fn named(name: String, backend: Backend) -> Disk {
    let left_out =
        backend.left_out.into_iter().map(|one| LeftOut::new(format!("{name}: {}", one.what), one.why));
    Disk {
        left_out: left_out.collect(),
        name,
        line: None,
        controller: None,
        store: backend.store,
        format: backend.format,
        cache: backend.cache,
        aio: backend.aio,
        iothread: false,
        discard: backend.discard,
        l2_cache: backend.l2_cache,
        backing: None,
    }
}

fn of_device(line: &CommandLine<'_>, board: Board, device: &Properties, kind: &Kind, mut disk: Disk) -> Disk {
    let bus = device.get("bus");
    let own = |name| Controller {
        driver: device.get("driver").unwrap_or_default().to_owned(),
        name,
        iothread: device.get("iothread").is_some() || has_mapping(device),
    };
    let on = match kind {
        Kind::VirtioBlk => own(Some("virtio-blk")),
        Kind::Nvme => own(Some("nvme")),
        Kind::Scsi => controller(line, board, bus, true),
        Kind::Ata => controller(line, board, bus, false),
        Kind::Unlike | Kind::Removable => own(None),
    };
    put_on(&mut disk, &on);
    disk.cache.write_cache = device.switch("write-cache").unwrap_or(disk.cache.write_cache);
    if has_mapping(device) {
        disk.left_out.push(LeftOut::new(format!("{}: several iothreads", disk.name), "the stack has one"));
    }
    if let Some(queues) = device.get("num-queues") {
        let what = format!("{}: num-queues={queues}", disk.name);
        disk.left_out.push(LeftOut::new(what, "the stack has QEMU's own number, one for each processor"));
    }
    if matches!(device.get("driver"), Some("scsi-block" | "scsi-generic")) {
        let what = format!("{}: SCSI commands passed on to the device", disk.name);
        disk.left_out.push(LeftOut::new(what, "the stack has a disk that QEMU emulates"));
    }
    disk
}

fn put_on(disk: &mut Disk, controller: &Controller) {
    disk.controller = controller.name;
    disk.iothread = controller.iothread;
    if controller.name.is_none() {
        let what = format!("{}: controller {}", disk.name, controller.driver);
        disk.left_out.push(LeftOut::new(what, "stacks have none like it; the stack has virtio-blk"));
    }
}

/// A drive without a device: QEMU gives it one by its `if`.
fn of_drive(
    line: &CommandLine<'_>,
    board: Board,
    option: &str,
    drive: &Properties,
    left_out: &mut Vec<LeftOut>,
) -> Result<Option<Disk>, String> {
    let interface = drive.get("if").unwrap_or(match board {
        Board::Pc | Board::Q35 => "ide",
        Board::Other => "virtio",
    });
    let name = drive.get("id").map_or_else(
        || drive.get("file").or_else(|| drive.get("file.filename")).unwrap_or(option).to_owned(),
        str::to_owned,
    );
    let is_disc = drive.get("media") == Some("cdrom");
    if is_disc || matches!(interface, "floppy" | "pflash" | "mtd" | "sd") {
        let why = if interface == "pflash" { "it is the firmware" } else { "it is no hard disk" };
        left_out.push(LeftOut::new(name, why));
        return Ok(None);
    }
    if interface == "none" {
        left_out.push(LeftOut::new(name, "no device has it"));
        return Ok(None);
    }
    let found = Backend::of_drive(line, drive).map_err(|e| format!("{option}: {e}"))?;
    let on = match interface {
        "virtio" => Controller { driver: "virtio-blk".to_owned(), name: Some("virtio-blk"), iothread: false },
        "ide" => controller(line, board, None, false),
        // QEMU adds this one by itself where there is none (`-drive if=scsi`, before QEMU 2.12 on any board).
        "scsi" => Controller { driver: "lsi53c895a".to_owned(), name: Some("lsi"), iothread: false },
        other => return Err(format!("{option}: if={other} is no interface")),
    };
    let mut disk = named(name, found);
    put_on(&mut disk, &on);
    Ok(Some(disk))
}
