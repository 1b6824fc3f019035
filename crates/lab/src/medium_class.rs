//! Which class of device a medium of the user's is, as its kernel says.
//!
//! Whether a number is plausible depends on its medium: 20 000 random reads a second are easy for flash and
//! impossible for platters. The kernel's flag alone is not enough: it says "rotational" of virtual disks, USB sticks
//! and volumes of RAID controllers too, because nothing corrects it. So a class is named only if the disk itself
//! answers on the link.

use nestor_machine::{Command, Finished, Machine};
use nestor_stack::{
    DeviceKind, Layer, Link, MEDIUM_CLASS, MEDIUM_WRITE_CACHE, MachineIndex, MediumClass, MediumKind,
    UserMedium,
};

use crate::progressing::Progressing;

/// The setting that lists the disks behind the medium.
const MEDIUM_DISKS: &str = "medium disks";

/// A hard disk that turns slower than this does not exist; the field has small numbers with other meanings (SBC-4,
/// 6.5.2: 0 not reported, 1 does not rotate).
const SLOWEST_RPM: u16 = 3_000;
/// Names of virtual disks. The devices behind them are not visible from here.
const VIRTUAL: [&str; 8] = ["qemu", "vbox", "virtual", "vmware", "msft", "msdisk", "amazon", "nvme_card"];

/// A disk as `lsblk` and the kernel tell of it.
#[derive(Clone, Debug, Default, PartialEq)]
struct Disk {
    name: String,
    rotational: bool,
    transport: String,
    /// Vendor and model.
    model: String,
    /// Medium rotation rate of the vital product data (SBC-4, 6.5.2), where the disk has that page.
    rotation_rate: Option<u16>,
}

impl Disk {
    fn kind(&self) -> DeviceKind {
        let model = self.model.to_lowercase();
        let is_virtual = VIRTUAL.iter().any(|word| model.contains(word))
            || self.transport == "virtio"
            || ["vd", "xvd"].iter().any(|prefix| self.name.starts_with(prefix));
        let link = match self.transport.as_str() {
            "sata" | "ata" => Some(Link::Sata),
            "sas" => Some(Link::Sas),
            "nvme" => Some(Link::Nvme),
            // Before version 2.36 `lsblk` did not know this link.
            "" if self.name.starts_with("nvme") => Some(Link::Nvme),
            _ => None,
        };
        match (link, self.rotation_rate) {
            _ if is_virtual => DeviceKind::Virtual,
            (_, Some(rpm)) if rpm >= SLOWEST_RPM => DeviceKind::HardDisk { rpm: Some(rpm) },
            (None, _) => DeviceKind::Unknown,
            (Some(link), _) if !self.rotational => DeviceKind::Flash(link),
            (Some(Link::Nvme), _) => DeviceKind::Unknown,
            (Some(_), _) => DeviceKind::HardDisk { rpm: None },
        }
    }
}

/// The class of what lies on these disks.
fn class_of(disks: &[Disk]) -> MediumClass {
    let Some(first) = disks.first() else { return MediumClass::UNKNOWN };
    let kind = first.kind();
    // A cache of flash before platters is neither.
    if disks.iter().any(|disk| disk.kind() != kind) {
        return MediumClass::UNKNOWN;
    }
    MediumClass { kind, disks: u32::try_from(disks.len()).unwrap_or(1) }
}

/// Notes the class of a medium of the user's, its disks, and whether it has a write cache. What cannot be found out is
/// "unknown"; the stack is built nevertheless.
pub(crate) fn note(progressing: &mut Progressing<'_>, on: MachineIndex, layer: &Layer, kind: MediumKind) {
    let machine = progressing.machine(on);
    let path = layer.path().map(|p| p.display().to_string()).unwrap_or_default();
    let device = match kind {
        MediumKind::File | MediumKind::Directory => device_of_file(&machine, &path),
        _ => Some(path),
    };
    let disks = device.map(|device| disks_below(&machine, &device).0).unwrap_or_default();
    let class = class_of(&disks);
    progressing.note(MEDIUM_CLASS, class.to_string());
    let names: Vec<String> = disks.iter().map(|disk| format!("{} ({})", disk.name, disk.model)).collect();
    if !names.is_empty() {
        progressing.note(MEDIUM_DISKS, names.join(", "));
    }
    let write_cache = write_cache(&machine, &disks);
    if let Some(cache) = write_cache {
        progressing.note(MEDIUM_WRITE_CACHE, if cache { "on" } else { "off" });
    }
    progressing.user_medium = Some(UserMedium { class, write_cache });
}

/// What a file or block device is on.
#[derive(Clone, Debug, PartialEq)]
pub struct DiskBelow {
    /// Kind of the file system, of a file, as the kernel has it.
    pub file_system: Option<String>,
    /// Class of the disks at the bottom.
    pub class: MediumClass,
    /// Kinds of devices above the disks, as `lsblk` calls them (`lvm`, `crypt`, `raid1`), but for partitions.
    pub between: Vec<String>,
}

/// Looks at what a file or block device of a machine is on. What cannot be found out is unknown.
pub fn disk_below(machine: &Machine, path: &str, is_device: bool) -> DiskBelow {
    let file_system = (!is_device).then(|| of_mount(machine, "FSTYPE", path)).flatten();
    let device = if is_device { Some(path.to_owned()) } else { device_of_file(machine, path) };
    let (disks, between) = device.map(|device| disks_below(machine, &device)).unwrap_or_default();
    DiskBelow { file_system, class: class_of(&disks), between }
}

/// What `findmnt` says of the mount that a file is in.
fn of_mount(machine: &Machine, column: &str, path: &str) -> Option<String> {
    let command = Command::new(["findmnt", "--noheadings", "--output", column, "--target", path]);
    let found = machine.run(command).ok().filter(Finished::succeeded)?;
    found.stdout_text().lines().next().map(|line| line.trim().to_owned())
}

/// The block device that a file lies on.
pub(crate) fn device_of_file(machine: &Machine, path: &str) -> Option<String> {
    device_of_source(&of_mount(machine, "SOURCE", path)?)
}

/// `/dev/sda2` of `/dev/sda2[/subvolume]`; `None` if the source is not a device.
fn device_of_source(source: &str) -> Option<String> {
    let device = source.lines().next()?.trim().split('[').next()?;
    device.starts_with("/dev/").then(|| device.to_owned())
}

/// The disks below a device, be it a disk, a partition or a volume, and the kinds of devices above them.
fn disks_below(machine: &Machine, device: &str) -> (Vec<Disk>, Vec<String>) {
    let columns = "NAME,TYPE,ROTA,TRAN,VENDOR,MODEL";
    let command = Command::new(["lsblk", "--inverse", "--pairs", "--output", columns, "--", device]);
    let Some(listing) = machine.run(command).ok().filter(Finished::succeeded) else {
        return Default::default();
    };
    let listing = listing.stdout_text();
    let mut disks = read_disks(&listing);
    for disk in &mut disks {
        let page = machine.read_file(&format!("/sys/class/block/{}/device/vpd_pgb1", disk.name));
        disk.rotation_rate = page.ok().as_deref().and_then(rotation_rate);
    }
    (disks, read_between(&listing))
}

/// The disks in a listing of `lsblk --pairs`, each once.
fn read_disks(listing: &str) -> Vec<Disk> {
    let mut disks: Vec<Disk> = Vec::new();
    for line in listing.lines() {
        let text_of = |column: &str| column_of(line, column).unwrap_or_default();
        if text_of("TYPE") != "disk" || disks.iter().any(|disk| disk.name == text_of("NAME")) {
            continue;
        }
        disks.push(Disk {
            name: text_of("NAME"),
            rotational: text_of("ROTA") == "1",
            transport: text_of("TRAN"),
            model: format!("{} {}", text_of("VENDOR"), text_of("MODEL")).trim().to_owned(),
            rotation_rate: None,
        });
    }
    disks
}

/// The kinds of devices above disks in the same listing, each once, the highest first.
fn read_between(listing: &str) -> Vec<String> {
    let mut kinds: Vec<String> = Vec::new();
    for kind in listing.lines().filter_map(|line| column_of(line, "TYPE")) {
        if !["disk", "part", "loop", "rom"].contains(&kind.as_str()) && !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    kinds
}

fn column_of(line: &str, column: &str) -> Option<String> {
    let found = line.split_once(&format!("{column}=\""))?.1.split('"').next()?;
    Some(found.trim().to_owned())
}

/// The rotation rate in page B1h, "block device characteristics": bytes 4 and 5.
fn rotation_rate(page: &[u8]) -> Option<u16> {
    match page {
        [_, 0xb1, _, _, high, low, ..] => Some(u16::from_be_bytes([*high, *low])),
        _ => None,
    }
}

/// Whether any of the disks answers writes from a cache; `None` if the kernel does not say.
fn write_cache(machine: &Machine, disks: &[Disk]) -> Option<bool> {
    let caches: Vec<bool> = disks
        .iter()
        .filter_map(|disk| {
            let text =
                machine.read_file(&format!("/sys/class/block/{}/queue/write_cache", disk.name)).ok()?;
            Some(String::from_utf8_lossy(&text).trim() == "write back")
        })
        .collect();
    (!caches.is_empty() && caches.len() == disks.len()).then(|| caches.contains(&true))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(listing: &str) -> String {
        class_of(&read_disks(listing)).to_string()
    }

    fn disk(name: &str, rotational: u8, transport: &str, vendor: &str, model: &str) -> String {
        format!(
            "NAME=\"{name}\" TYPE=\"disk\" ROTA=\"{rotational}\" TRAN=\"{transport}\" VENDOR=\"{vendor}\" MODEL=\"{model}\"\n"
        )
    }

    #[test]
    fn a_class_is_named_where_the_disk_itself_answers() {
        let partition = "NAME=\"sda1\" TYPE=\"part\" ROTA=\"1\" TRAN=\"\" VENDOR=\"\" MODEL=\"\"\n";
        let hard_disk = disk("sda", 1, "sata", "ATA     ", "WDC_WD10EZEX-08WN4A0");
        assert_eq!(class(&format!("{partition}{hard_disk}")), "hard disk");
        assert_eq!(class(&disk("sda", 0, "sata", "ATA     ", "Samsung_SSD_860")), "SATA flash disk");
        assert_eq!(class(&disk("sdb", 0, "sas", "KIOXIA", "KPM71RUG")), "SAS flash disk");
        assert_eq!(class(&disk("nvme0n1", 0, "nvme", "", "KIOXIA-EXCERIA")), "NVMe flash disk");
        assert_eq!(class(&disk("nvme0n1", 0, "", "", "KIOXIA-EXCERIA")), "NVMe flash disk");
        assert_eq!(class(&disk("nvme0n1", 0, "nvme", "", "Amazon Elastic Block Store")), "virtual disk");
        // The kernel calls these "rotational" by default.
        assert_eq!(class(&disk("vda", 1, "virtio", "0x1af4", "")), "virtual disk");
        assert_eq!(class(&disk("vda", 1, "", "", "")), "virtual disk");
        assert_eq!(class(&disk("sda", 1, "sata", "ATA     ", "QEMU HARDDISK")), "virtual disk");
        assert_eq!(class(&disk("sdc", 1, "usb", "SanDisk ", "Ultra")), "unknown");
        assert_eq!(class(&disk("sda", 1, "", "DELL", "PERC H730")), "unknown");
        assert_eq!(class(""), "unknown");
    }

    #[test]
    fn volumes_on_several_disks_count_them_and_mixtures_are_unknown() {
        let (one, two) = (disk("sda", 1, "sas", "HGST", "A"), disk("sdb", 1, "sas", "HGST", "A"));
        assert_eq!(class(&format!("{one}{two}{one}")), "2 x hard disk");
        let flash = disk("nvme0n1", 0, "nvme", "", "B");
        assert_eq!(class(&format!("{one}{flash}")), "unknown");
    }

    #[test]
    fn volumes_between_are_named_and_partitions_are_not() {
        let kind = |name: &str, kind: &str| {
            format!("NAME=\"{name}\" TYPE=\"{kind}\" ROTA=\"0\" TRAN=\"\" VENDOR=\"\" MODEL=\"\"\n")
        };
        let listing =
            [kind("a", "lvm"), kind("b", "crypt"), kind("sda1", "part"), disk("sda", 0, "sata", "", "")];
        assert_eq!(read_between(&listing.concat()), ["lvm", "crypt"]);
    }

    #[test]
    fn a_disk_may_say_how_fast_it_turns() {
        let page = |rate: u16| [&[0, 0xb1, 0, 0x3c][..], &rate.to_be_bytes(), &[0, 0]].concat();
        let kind = |rate: u16, transport: &str| {
            let mut disk = read_disks(&disk("sda", 1, transport, "ATA", "WDC")).remove(0);
            disk.rotation_rate = rotation_rate(&page(rate));
            disk.kind()
        };
        assert_eq!(kind(7_200, "sata"), DeviceKind::HardDisk { rpm: Some(7_200) });
        assert_eq!(kind(5_400, "usb"), DeviceKind::HardDisk { rpm: Some(5_400) });
        assert_eq!(kind(0, "sata"), DeviceKind::HardDisk { rpm: None });
        assert_eq!(kind(0, "usb"), DeviceKind::Unknown);
        assert_eq!(rotation_rate(&[0, 0x83, 0, 4, 28, 32]), None);
    }

    #[test]
    fn a_file_lies_on_the_device_of_its_file_system() {
        assert_eq!(device_of_source("/dev/sda2[/@home]\n").as_deref(), Some("/dev/sda2"));
        assert_eq!(device_of_source("/dev/mapper/vg-data\n").as_deref(), Some("/dev/mapper/vg-data"));
        assert_eq!(device_of_source("overlay\n"), None);
    }
}
