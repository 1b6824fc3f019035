//! Device models: the disk controllers a guest can see. One file each, and one line in [`MODELS`].

mod ahci;
mod ide;
mod lsi;
mod mptsas;
mod nvme;
mod pvscsi;
mod virtio_blk;
mod virtio_scsi;

use serde_json::{Value, json};

/// The registry: one line per device model, the default first.
const MODELS: [DeviceModelSpec; 8] = [
    virtio_blk::MODEL,
    virtio_scsi::MODEL,
    lsi::MODEL,
    mptsas::MODEL,
    pvscsi::MODEL,
    ahci::MODEL,
    ide::MODEL,
    nvme::MODEL,
];

static MODELS_IN_MEMORY: [DeviceModelSpec; MODELS.len()] = MODELS;

/// Their names, for the option `disk`.
pub(super) const NAMES: [&str; MODELS.len()] = {
    let mut names = [""; MODELS.len()];
    let mut i = 0;
    while i < names.len() {
        names[i] = MODELS[i].name;
        i += 1;
    }
    names
};

/// Every device model.
pub fn device_models() -> &'static [DeviceModelSpec] {
    &MODELS_IN_MEMORY
}

/// The device model of that name.
pub fn device_model(name: &str) -> Option<&'static DeviceModelSpec> {
    device_models().iter().find(|model| model.name == name)
}

/// A disk controller as QEMU emulates it.
#[derive(Debug)]
pub struct DeviceModelSpec {
    /// Name in the option `disk`.
    pub name: &'static str,
    /// One line: what it is.
    pub summary: &'static str,
    /// The argument of QMP's `device_add` (or of `-device`) for a controller that is a device of its own; `None` if
    /// each disk is its own controller.
    pub controller: Option<fn(&Controller<'_>) -> Value>,
    /// The argument of QMP's `device_add` (or of `-device`) for a disk.
    pub disk: fn(&Disk<'_>) -> Value,
    /// When a disk can be attached.
    pub attach: Attach,
    /// Whether the disk can be served by an iothread (the controller's or the disk's own).
    pub iothread: bool,
    /// How many disks one controller takes: [`Disk::slot`] is below this.
    pub slots: u32,
    /// Modules the guest's kernel needs, in the order in which to load them; any may be built in.
    pub kernel_modules: &'static [&'static str],
    /// Whether the guest may choose between write-back and write-through for its disk while it runs (`cache_type` of the
    /// block device; the device offers the feature as virtio-blk's `VIRTIO_BLK_F_CONFIG_WCE`).
    pub guest_sets_write_cache: bool,
    /// How it takes requests from the guest.
    pub interface: DiskInterface,
    /// How many requests it holds.
    pub queue: QueueDepth,
    /// The name that a Linux guest gives to its second disk.
    pub second_disk: &'static str,
    /// How libvirt writes it; `None` if it cannot.
    pub libvirt: Option<LibvirtDisk>,
}

/// How many requests a device model holds at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum QueueDepth {
    /// A queue for each processor, or one of more than a hundred requests.
    Deep,
    /// Fewer.
    Narrow,
}

/// How a disk takes requests from its guest; disks of one interface are traced in the same way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DiskInterface {
    /// Requests of virtio-blk.
    VirtioBlk,
    /// SCSI commands.
    Scsi,
    /// ATA commands.
    Ata,
    /// NVMe commands.
    Nvme,
}

/// How libvirt writes a disk of a device model
/// (<https://libvirt.org/formatdomain.html#hard-drives-floppy-disks-cdroms>).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LibvirtDisk {
    /// `bus` of `<target>`.
    pub bus: &'static str,
    /// `dev` of `<target>`.
    pub target: &'static str,
    /// `model` of the SCSI controller that the domain needs besides.
    pub controller: Option<&'static str>,
}

impl LibvirtDisk {
    const fn on(bus: &'static str, target: &'static str) -> Option<Self> {
        Some(Self { bus, target, controller: None })
    }

    const fn scsi(controller: &'static str) -> Option<Self> {
        Some(Self { bus: "scsi", target: "sda", controller: Some(controller) })
    }
}

/// When a disk can be attached to a machine, and what its kernel needs for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Attach {
    /// Any time; the guest notices.
    Running,
    /// Any time, but a guest whose driver has already scanned must scan again: write `- - -` to
    /// `/sys/class/scsi_host/host*/scan`. Before the disk is detached, the guest must release it: write `1` to
    /// `/sys/block/*/device/delete`.
    RunningThenScan,
    /// Any time, if the controller is attached with it and before the guest's driver is loaded or bound to the
    /// controller: the driver looks for disks only then, a scan finds nothing. Detached as with `RunningThenScan`.
    BeforeDriver,
    /// Only when the machine is started.
    AtStart,
}

/// What a controller is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Controller<'a> {
    /// Its QEMU id.
    pub id: &'a str,
    /// The PCI bus to put it on; `None`: QEMU's choice. Attaching to a running q35 machine needs the id of a free
    /// `pcie-root-port`.
    pub pci_bus: Option<&'a str>,
    /// QEMU id of the iothread that serves it; only where [`DeviceModelSpec::iothread`].
    pub iothread: Option<&'a str>,
}

/// What a disk is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Disk<'a> {
    /// Its QEMU id.
    pub id: &'a str,
    /// Name of the block node with its data.
    pub node: &'a str,
    /// Serial number the guest can find it by; at most 20 bytes, which virtio-blk, ATA and NVMe all pass on whole.
    pub serial: &'a str,
    /// Whether the guest sees a write cache: [`CacheMode::write_cache`](super::CacheMode::write_cache).
    pub write_cache: bool,
    /// QEMU id of its controller, for models that have one.
    pub controller: &'a str,
    /// Which place on the controller, from 0.
    pub slot: u32,
    /// The PCI bus, for models without a controller: see [`Controller::pci_bus`].
    pub pci_bus: Option<&'a str>,
    /// QEMU id of the iothread that serves it, for models without a controller and with [`DeviceModelSpec::iothread`].
    pub iothread: Option<&'a str>,
}

/// A controller on the PCI bus.
fn pci_controller(driver: &str, controller: &Controller<'_>) -> Value {
    let mut device = json!({ "driver": driver, "id": controller.id });
    set(&mut device, "bus", controller.pci_bus);
    device
}

/// A disk on `bus`, or on QEMU's choice of a bus. A failed request is the guest's to handle, as on a real disk; by
/// default QEMU would stop the whole guest when the host's file system is full.
fn disk(driver: &str, disk: &Disk<'_>, bus: Option<&str>) -> Value {
    let mut device = json!({
        "driver": driver,
        "id": disk.id,
        "drive": disk.node,
        "serial": disk.serial,
        // `device_add` takes this property as a word, not as a boolean.
        "write-cache": if disk.write_cache { "on" } else { "off" },
    });
    if driver != REPORTS_ERRORS_ALWAYS {
        device["rerror"] = json!("report");
        device["werror"] = json!("report");
    }
    set(&mut device, "bus", bus);
    device
}

/// QEMU's NVMe disk has no choice of what to do about errors: it reports them.
const REPORTS_ERRORS_ALWAYS: &str = "nvme";

/// A SCSI disk on its controller's bus; the slot is the target.
fn scsi_disk(arguments: &Disk<'_>) -> Value {
    let mut device = disk("scsi-hd", arguments, Some(&format!("{}.0", arguments.controller)));
    device["channel"] = json!(0);
    device["scsi-id"] = json!(arguments.slot);
    device["lun"] = json!(0);
    device
}

fn set(device: &mut Value, key: &str, value: Option<&str>) {
    if let Some(value) = value {
        device[key] = json!(value);
    }
}
