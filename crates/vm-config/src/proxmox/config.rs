//! The file of one machine: `key: value` lines, then sections of snapshots.

use nestor_stack::Bytes;

use super::Storages;
use super::drive::{Drive, switch};
use crate::qemu::scsi_controller;
use crate::{Accelerated, ConfigError, LeftOut, VirtualMachine};

/// The buses of drives (PVE/QemuServer/Drive.pm).
const BUSES: &[&str] = &["scsi", "virtio", "sata", "ide"];

/// Keys that say nothing of what a stack has.
const OF_NO_ACCOUNT: &[&str] = &[
    "acpi",
    "agent",
    "arch",
    "audio0",
    "autostart",
    "bios",
    "boot",
    "bootdisk",
    "cdrom",
    "cicustom",
    "cipassword",
    "ciupgrade",
    "citype",
    "ciuser",
    "description",
    "freeze",
    "hookscript",
    "keyboard",
    "localtime",
    "lock",
    "machine",
    "meta",
    "migrate_downtime",
    "migrate_speed",
    "name",
    "nameserver",
    "onboot",
    "ostype",
    "parent",
    "protection",
    "reboot",
    "rng0",
    "scsihw",
    "searchdomain",
    "smbios1",
    "spice_enhancements",
    "sshkeys",
    "startdate",
    "startup",
    "tablet",
    "tags",
    "tdf",
    "template",
    "vga",
    "vmgenid",
    "vmstate",
    "vmstatestorage",
    "watchdog",
    "cores",
    "sockets",
    "vcpus",
    "smp",
    "memory",
    "kvm",
    "cpu",
    "running-nets-host-mtu",
    "runningmachine",
    "runningcpu",
    "snaptime",
];
/// Beginnings of further ones, before a number.
const NUMBERED: &[&str] = &["net", "usb", "serial", "parallel", "ipconfig", "unused"];

const HELP: &str =
    "Nestor reads /etc/pve/qemu-server/VMID.conf as Proxmox VE writes it, and what `qm config VMID` prints";

/// A line of the machine as it is now, not of a snapshot.
struct Entry<'a> {
    number: usize,
    key: &'a str,
    value: &'a str,
}

struct Config<'a> {
    source_name: &'a str,
    entries: Vec<Entry<'a>>,
}

pub(super) fn read(
    source_name: &str,
    text: &str,
    storages: Option<&Storages>,
) -> Result<VirtualMachine, ConfigError> {
    let config = Config { source_name, entries: entries(source_name, text)? };
    let mut left_out = Vec::new();
    let mut disks = Vec::new();
    for entry in &config.entries {
        let wrong = |message| config.wrong(entry, message);
        let Some(bus) = bus_of(entry.key) else {
            left_out.extend(left_out_of(entry));
            continue;
        };
        let drive = Drive::parse(entry.key, entry.value).map_err(wrong)?;
        if drive.is_disc() {
            left_out.push(LeftOut::new(entry.key, "it is no hard disk"));
            continue;
        }
        let controller = config.controller(bus, &mut left_out);
        disks.push(drive.disk(entry.number, controller, storages).map_err(wrong)?);
    }
    if text.lines().any(|line| line.trim() == "[PENDING]") {
        left_out.push(LeftOut::new("changes that are pending", "the machine has them after its next start"));
    }
    Ok(VirtualMachine {
        name: config.value("name").map(|entry| entry.value.to_owned()),
        accelerated: config.accelerated()?,
        memory: Some(config.memory()?),
        cpus: Some(config.cpus()?),
        disks,
        left_out,
    })
}

fn entries<'a>(source_name: &str, text: &'a str) -> Result<Vec<Entry<'a>>, ConfigError> {
    let mut entries: Vec<Entry<'a>> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let number = index + 1;
        let wrong = |message| ConfigError::new(source_name, Some(number), message, HELP);
        let line = line.trim();
        if line.starts_with('[') {
            // Snapshots and pending changes follow, to the end of the file.
            break;
        }
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let is_key = |key: &&str| {
            !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
        };
        let Some((key, value)) = line.split_once(':').filter(|(key, _)| is_key(key)) else {
            return Err(wrong(format!("`{line}` is no `key: value`")));
        };
        if let Some(first) = entries.iter().find(|entry| entry.key == key) {
            return Err(wrong(format!("`{key}` is already in line {}", first.number)));
        }
        entries.push(Entry { number, key, value: value.trim() });
    }
    Ok(entries)
}

/// The bus of a drive's key: `scsi` of `scsi0`; not of `scsihw`.
fn bus_of(key: &str) -> Option<&'static str> {
    let is_number = |rest: &str| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit());
    BUSES.iter().find(|bus| key.strip_prefix(**bus).is_some_and(is_number)).copied()
}

fn left_out_of(entry: &Entry<'_>) -> Option<LeftOut> {
    let key = entry.key;
    let name = key.trim_end_matches(|letter: char| letter.is_ascii_digit());
    if OF_NO_ACCOUNT.contains(&key) || (name != key && NUMBERED.contains(&name)) {
        return None;
    }
    let why = match name {
        "efidisk" | "tpmstate" => {
            return Some(LeftOut::new(key, "it has the firmware's data and no guest's"));
        }
        "args" => "arguments for QEMU itself are not read",
        "virtiofs" => "stacks have no directories of the host in the guest",
        "hostpci" => "stacks have no devices that are passed on",
        "balloon" if entry.value == "0" => return None,
        "balloon" => "the stack's guest has all of its memory",
        "cpulimit" | "cpuunits" | "affinity" => "stacks share processors equally",
        "hugepages" | "keephugepages" | "numa" if entry.value == "0" => return None,
        "hugepages" | "keephugepages" | "numa" | "shares" | "allow-ksm" => {
            "stacks have memory as their host's kernel gives it"
        }
        "hotplug" => return None,
        "ivshmem" | "amd-sev" | "intel-tdx" => "stacks have no such memory",
        _ => "not known to Nestor",
    };
    Some(LeftOut::new(format!("{key}: {}", entry.value), why))
}

impl Config<'_> {
    fn value(&self, key: &str) -> Option<&Entry<'_>> {
        self.entries.iter().find(|entry| entry.key == key)
    }

    fn wrong(&self, entry: &Entry<'_>, message: String) -> ConfigError {
        ConfigError::new(self.source_name, Some(entry.number), message, HELP)
    }

    /// The controller of a bus as stacks call it. What Proxmox VE takes unless it is told: LSI 53C895A.
    fn controller(&self, bus: &str, left_out: &mut Vec<LeftOut>) -> Option<&'static str> {
        match bus {
            "virtio" => return Some("virtio-blk"),
            "sata" => return Some("ahci"),
            "ide" => return Some("ide"),
            _ => {}
        }
        let hardware = self.value("scsihw").map_or("lsi", |entry| entry.value);
        // One controller for each disk; it is the same device.
        let driver = if hardware == "virtio-scsi-single" { "virtio-scsi-pci" } else { hardware };
        let known = scsi_controller(driver);
        let what = format!("scsihw: {hardware}");
        if known.is_none() && !left_out.iter().any(|one| one.what == what) {
            left_out.push(LeftOut::new(what, "stacks have none like it; the stack has virtio-blk"));
        }
        known
    }

    fn accelerated(&self) -> Result<Accelerated, ConfigError> {
        let Some(entry) = self.value("kvm") else { return Ok(Accelerated::Kvm) };
        match switch(entry.value) {
            Some(true) => Ok(Accelerated::Kvm),
            Some(false) => Ok(Accelerated::Emulated),
            None => Err(self.wrong(entry, format!("kvm: `{}` is neither 0 nor 1", entry.value))),
        }
    }

    fn number(&self, key: &str) -> Result<Option<u64>, ConfigError> {
        let Some(entry) = self.value(key) else { return Ok(None) };
        match entry.value.parse::<u64>() {
            Ok(number) if number > 0 => Ok(Some(number)),
            _ => Err(self.wrong(entry, format!("{key}: `{}` is no number above 0", entry.value))),
        }
    }

    /// Processors that are plugged in at the start, or all.
    fn cpus(&self) -> Result<u64, ConfigError> {
        if let Some(cpus) = self.number("vcpus")? {
            return Ok(cpus);
        }
        let sockets = self.number("sockets")?.or(self.number("smp")?).unwrap_or(1);
        Ok(sockets.saturating_mul(self.number("cores")?.unwrap_or(1)))
    }

    /// In MiB; since version 8 of Proxmox VE as `current=NUMBER` too. 512 MiB where nothing is said.
    fn memory(&self) -> Result<Bytes, ConfigError> {
        let Some(entry) = self.value("memory") else { return Ok(Bytes::mib(512)) };
        let current = entry.value.split(',').find_map(|item| item.strip_prefix("current="));
        let text = current.unwrap_or(entry.value);
        match text.parse::<u64>() {
            Ok(mib) if mib > 0 => Ok(Bytes::mib(mib)),
            _ => Err(self.wrong(entry, format!("memory: `{text}` is no number of MiB"))),
        }
    }
}
