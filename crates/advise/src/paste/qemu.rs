//! A QEMU command line with `-blockdev` and `-device`, made of the same nodes and devices that are measured.

use std::fmt;

use nestor_stack::Stack;
use nestor_stack::layers::hypervisors::HostTarget;
use nestor_stack::layers::hypervisors::devices::{Attach, Controller, Disk};
use nestor_text::shell_quoted as quoted;
use serde_json::Value;

use super::{Image, Parts, PasteError};

const FILE_NODE: &str = "disk-file";
const DISK_NODE: &str = "disk";
const CONTROLLER: &str = "controller";
const IOTHREAD: &str = "iothread-disk";

/// A command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QemuCommand {
    /// The program and its arguments.
    pub arguments: Vec<String>,
    /// What has to be known beside it: placeholders, settings in the guest.
    pub notes: Vec<String>,
}

/// The command line that opens a stack's disk as it was measured. It has no console, network or system disk: these are the
/// user's.
///
/// # Errors
/// When the stack is not of one virtual machine.
pub fn qemu_command(stack: &Stack) -> Result<QemuCommand, PasteError> {
    let parts = Parts::of(stack)?;
    let (machine, disk) = (&parts.machine, &parts.disk);
    // Disks that are attached at the start only are those of chip sets, and q35 has room for them on its root bus.
    let board = if disk.device.attach == Attach::AtStart { "q35" } else { "pc" };
    let mut arguments: Vec<String> =
        ["qemu-system-x86_64", "-machine", board, "-accel", machine.accelerator.name()]
            .map(str::to_owned)
            .into();
    let mut push = |option: &str, value: String| arguments.extend([option.to_owned(), value]);
    push("-m", format!("{}M", machine.memory.get() >> 20));
    push("-smp", machine.cpus.to_string());
    if disk.iothread {
        push("-object", format!("iothread,id={IOTHREAD}"));
    }
    let path = parts.disk_path();
    let (target, file_node) = match parts.image {
        Some(_) => (HostTarget::File(&path), FILE_NODE),
        None => (HostTarget::BlockDevice(&path), DISK_NODE),
    };
    push("-blockdev", key_values(&disk.block.file_node(file_node, target)));
    if let Some(Image { layer, format, .. }) = parts.image {
        push("-blockdev", key_values(&(format.blockdev)(layer, DISK_NODE, FILE_NODE, &disk.block)));
    }
    let iothread = disk.iothread.then_some(IOTHREAD);
    if let Some(controller) = disk.device.controller {
        push("-device", key_values(&controller(&Controller { id: CONTROLLER, pci_bus: None, iothread })));
    }
    let own_iothread = iothread.filter(|_| disk.device.controller.is_none());
    let disk = (disk.device.disk)(&Disk {
        id: "disk0",
        node: DISK_NODE,
        serial: "vm-disk",
        write_cache: disk.block.cache.write_cache(),
        controller: CONTROLLER,
        slot: 0,
        pci_bus: None,
        iothread: own_iothread,
    });
    push("-device", key_values(&disk));
    let mut notes = parts.placeholders();
    notes.push("add your system disk, network and console".to_owned());
    if let Some(scheduler) = machine.tuning.scheduler {
        notes.push(format!("in the guest: echo {scheduler} > /sys/block/THE-DISK/queue/scheduler"));
    }
    Ok(QemuCommand { arguments, notes })
}

/// QEMU's `key=value,key.key=value` of a JSON object, the driver first as it likes it.
fn key_values(object: &Value) -> String {
    let mut words = Vec::new();
    flatten("", object, &mut words);
    words.join(",")
}

fn flatten(prefix: &str, value: &Value, words: &mut Vec<String>) {
    let text = match value {
        Value::Object(members) => {
            for (key, member) in members {
                let key = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
                flatten(&key, member, words);
            }
            return;
        }
        Value::Bool(on) => if *on { "on" } else { "off" }.to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    // A comma within a value is written twice.
    words.push(format!("{prefix}={}", text.replace(',', ",,")));
}

impl fmt::Display for QemuCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for note in &self.notes {
            writeln!(f, "# {note}")?;
        }
        let mut options = self.arguments.iter().skip(1).peekable();
        f.write_str(self.arguments.first().map_or("", String::as_str))?;
        while let Some(option) = options.next() {
            write!(f, " \\\n  {option}")?;
            if let Some(value) = options.next_if(|next| !next.starts_with('-')) {
                write!(f, " {}", quoted(value))?;
            }
        }
        writeln!(f)
    }
}
