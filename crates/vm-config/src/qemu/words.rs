//! The words of a command line, each option with its value.

use std::collections::BTreeMap;

use crate::LeftOut;
use crate::properties::Properties;

/// Options without a value (QEMU's qemu-options.hx); all others have one.
const FLAGS: &[&str] = &[
    "h",
    "help",
    "version",
    "enable-kvm",
    "no-acpi",
    "no-hpet",
    "nodefaults",
    "nographic",
    "S",
    "s",
    "daemonize",
    "snapshot",
    "usb",
    "full-screen",
    "no-reboot",
    "no-shutdown",
    "no-fd-bootchk",
    "no-user-config",
    "nouserconfig",
    "singlestep",
    "one-insn-per-tb",
    "curses",
    "sdl",
    "preconfig",
    "mem-prealloc",
    "only-migratable",
    "win2k-hack",
    "no-quit",
    "ctrl-grab",
    "alt-grab",
    "enable-fips",
    "portrait",
    "semihosting",
    "old-param",
    "async-teardown",
    "xen-attach",
    "xen-domid-restrict",
    "prom-env-none",
    "enable-sync-profile",
    "no-kvm",
    "no-kvm-irqchip",
    "no-kvm-pit",
    "tdf",
    "no-frame",
    "balloon-none",
];

/// An argument of QEMU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Word<'a> {
    /// An option with its value.
    Option {
        /// Without hyphens.
        name: &'a str,
        /// Its value.
        value: &'a str,
    },
    /// An option that has none.
    Flag(&'a str),
    /// An image by its name alone: the first hard disk.
    Image(&'a str),
}

/// A command line, taken apart.
pub(super) struct CommandLine<'a> {
    /// Its words in order.
    pub words: Vec<Word<'a>>,
    /// Block nodes by their names.
    pub nodes: BTreeMap<String, Properties>,
    /// Drives, with the option that made each.
    pub drives: Vec<(String, Properties)>,
    /// Devices.
    pub devices: Vec<Properties>,
    /// What no stack has.
    pub left_out: Vec<LeftOut>,
}

impl<'a> CommandLine<'a> {
    pub(super) fn parse(arguments: &'a [String]) -> Result<Self, String> {
        let words = words(arguments)?;
        let mut line = Self {
            words,
            nodes: BTreeMap::new(),
            drives: Vec::new(),
            devices: Vec::new(),
            left_out: Vec::new(),
        };
        for word in line.words.clone() {
            match word {
                Word::Option { name, value } => line.take(name, value)?,
                Word::Image(path) => line.take_drive("", &drive_of("hda", path))?,
                Word::Flag("snapshot") => {
                    let why = "writes go to the image and not to a temporary file";
                    line.left_out.push(LeftOut::new("-snapshot", why));
                }
                Word::Flag(_) => {}
            }
        }
        Ok(line)
    }

    /// The value of an option's last occurrence.
    pub(super) fn last(&self, wanted: &str) -> Option<&'a str> {
        self.words.iter().rev().find_map(|word| match word {
            Word::Option { name, value } if *name == wanted => Some(*value),
            _ => None,
        })
    }

    fn take(&mut self, name: &str, value: &str) -> Result<(), String> {
        let parsed = |implied| Properties::parse(value, implied).map_err(|e| format!("-{name} {value}: {e}"));
        match name {
            "blockdev" => {
                let node = parsed("driver")?;
                let Some(id) = node.get("node-name") else {
                    return Err(format!("-blockdev {value}: it has no node-name"));
                };
                self.nodes.insert(id.to_owned(), node);
            }
            "drive" => self.drives.push((format!("-drive {value}"), parsed("")?)),
            "device" => self.devices.push(parsed("driver")?),
            "hda" | "hdb" | "hdc" | "hdd" | "cdrom" => self.take_drive(name, &drive_of(name, value))?,
            "readconfig" => self.leave_out(name, value, "this file of options is not read"),
            "global" if concerns_disks(value) => {
                self.leave_out(name, value, "stacks have devices with QEMU's own settings");
            }
            "icount" => self.leave_out(name, value, "the emulated processor has a clock of its own"),
            _ => {}
        }
        Ok(())
    }

    fn take_drive(&mut self, option: &str, text: &str) -> Result<(), String> {
        let drive = Properties::parse(text, "").map_err(|e| format!("-{option}: {e}"))?;
        let shown = drive.get("file").unwrap_or_default();
        let name = if option.is_empty() { shown.to_owned() } else { format!("-{option} {shown}") };
        self.drives.push((name, drive));
        Ok(())
    }

    fn leave_out(&mut self, option: &str, value: &str, why: &str) {
        self.left_out.push(LeftOut::new(format!("-{option} {value}"), why));
    }
}

/// The options of `-drive` for which these stand (softmmu/vl.c).
fn drive_of(option: &str, path: &str) -> String {
    let index = match option {
        "hdb" => "1",
        "hdc" | "cdrom" => "2",
        "hdd" => "3",
        _ => "0",
    };
    let media = if option == "cdrom" { "cdrom" } else { "disk" };
    format!("file={},index={index},media={media}", path.replace(',', ",,"))
}

fn concerns_disks(value: &str) -> bool {
    ["virtio-blk", "virtio-scsi", "scsi", "ide", "ahci", "nvme"].iter().any(|start| value.starts_with(start))
}

fn words(arguments: &[String]) -> Result<Vec<Word<'_>>, String> {
    let mut words = Vec::new();
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let Some(option) = argument.strip_prefix('-').filter(|option| !option.is_empty()) else {
            words.push(Word::Image(argument));
            continue;
        };
        let name = option.strip_prefix('-').unwrap_or(option);
        if FLAGS.contains(&name) {
            words.push(Word::Flag(name));
        } else if let Some(value) = rest.next() {
            words.push(Word::Option { name, value });
        } else {
            return Err(format!("-{name}: it has no value"));
        }
    }
    Ok(words)
}
