//! The board, and what controllers there are.

use crate::properties::Properties;

use super::words::CommandLine;

/// The boards of which Nestor knows what disks they have by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Board {
    /// `pc`: its own disks are on parallel ATA.
    Pc,
    /// `q35`: its own disks are on AHCI.
    Q35,
    /// `microvm`, and boards of other processors.
    Other,
}

impl Board {
    pub(super) fn of(line: &CommandLine<'_>) -> Result<Self, String> {
        let Some(value) = line.last("machine").or_else(|| line.last("M")) else { return Ok(Self::Pc) };
        let machine = Properties::parse(value, "type")?;
        Ok(match machine.get("type") {
            None | Some("pc") => Self::Pc,
            Some(kind) if kind.contains("q35") => Self::Q35,
            Some(kind) if kind.starts_with("pc-") || kind.starts_with("isapc") => Self::Pc,
            Some(_) => Self::Other,
        })
    }

    /// The controller of its own disks.
    pub(super) fn own(self) -> &'static str {
        match self {
            Self::Pc => "ide",
            Self::Q35 => "ahci",
            Self::Other => "virtio-blk",
        }
    }
}

/// What a SCSI or ATA controller is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Controller {
    /// As QEMU calls it.
    pub driver: String,
    /// As stacks call it; `None` if they have none like it.
    pub name: Option<&'static str>,
    /// Whether a thread of its own serves its disks.
    pub iothread: bool,
}

/// Controllers that are devices of their own: QEMU's names, those of stacks, and whether they are SCSI's.
const CONTROLLERS: &[(&str, Option<&str>, bool)] = &[
    ("virtio-scsi-pci", Some("virtio-scsi"), true),
    ("virtio-scsi-pci-transitional", Some("virtio-scsi"), true),
    ("virtio-scsi-pci-non-transitional", Some("virtio-scsi"), true),
    ("virtio-scsi-device", Some("virtio-scsi"), true),
    ("virtio-scsi-ccw", Some("virtio-scsi"), true),
    ("virtio-scsi", Some("virtio-scsi"), true),
    ("lsi", Some("lsi"), true),
    ("lsi53c895a", Some("lsi"), true),
    ("lsi53c810", None, true),
    ("mptsas1068", Some("mptsas"), true),
    ("pvscsi", Some("pvscsi"), true),
    ("megasas", None, true),
    ("megasas-gen2", None, true),
    ("am53c974", None, true),
    ("dc390", None, true),
    ("ahci", Some("ahci"), false),
    ("ich9-ahci", Some("ahci"), false),
    ("piix3-ide", Some("ide"), false),
    ("piix4-ide", Some("ide"), false),
];

/// The name in stacks of a SCSI controller that is called so by QEMU.
pub(crate) fn scsi_controller(driver: &str) -> Option<&'static str> {
    CONTROLLERS.iter().find(|(known, _, is_scsi)| *known == driver && *is_scsi).and_then(|(_, name, _)| *name)
}

/// The controller of a disk on a bus (`scsi0.0`); without one, the first SCSI controller, or the board's own of ATA.
pub(super) fn controller(
    line: &CommandLine<'_>,
    board: Board,
    bus: Option<&str>,
    is_scsi: bool,
) -> Controller {
    let known = |device: &Properties| {
        let driver = device.get("driver")?;
        let (_, name, of_scsi) = CONTROLLERS.iter().find(|(known, ..)| *known == driver)?;
        let iothread = device.get("iothread").is_some() || has_mapping(device);
        (*of_scsi == is_scsi).then(|| Controller { driver: driver.to_owned(), name: *name, iothread })
    };
    let id = bus.and_then(|bus| bus.rsplit_once('.')).map(|(id, _)| id);
    let named = line.devices.iter().find(|device| id.is_some() && device.get("id") == id);
    if let Some(found) = named.and_then(known) {
        return found;
    }
    let first = line.devices.iter().find_map(known);
    match first.filter(|_| is_scsi) {
        Some(first) => first,
        None if is_scsi => Controller { driver: "scsi".to_owned(), name: None, iothread: false },
        None => Controller { driver: board.own().to_owned(), name: Some(board.own()), iothread: false },
    }
}

/// Whether several threads serve the queues of a disk (since QEMU 9.0).
pub(super) fn has_mapping(device: &Properties) -> bool {
    device.get("iothread-vq-mapping").is_some() || !device.below("iothread-vq-mapping").is_empty()
}
