//! Virtual machines as other tools describe them.

use nestor_vm_config::{HostFacts, VirtualMachine, image_facts, libvirt, proxmox, qemu, twins};

/// What is read is made into stacks that Nestor builds.
fn stacks(machine: &VirtualMachine, facts: &HostFacts) {
    let made = twins(machine, |_| facts.clone()).expect("a plain stack is one");
    assert!(made.iter().all(|twin| twin.stack.require_buildable().is_ok()));
}

/// Each line is an argument.
pub fn qemu_command_line(text: &str) {
    let arguments: Vec<String> = text.lines().map(str::to_owned).collect();
    if let Ok(machine) = qemu::read("fuzz", &arguments, None) {
        stacks(&machine, &HostFacts::default());
    }
}

/// The storages come first, up to a line of hyphens.
pub fn proxmox(text: &str) {
    let (storages, config) = text.split_once("\n---\n").unwrap_or(("", text));
    let storages = proxmox::Storages::parse("fuzz", storages).ok();
    if let Ok(machine) = proxmox::read("fuzz", config, storages.as_ref()) {
        stacks(&machine, &HostFacts::default());
    }
}

pub fn domain(text: &str) {
    if let Ok(machine) = libvirt::read("fuzz", text) {
        stacks(&machine, &HostFacts::default());
    }
}

pub fn image(text: &str) {
    let Ok(image) = image_facts(text) else { return };
    let arguments = ["-hda", "/a"].map(str::to_owned);
    let machine = qemu::read("fuzz", &arguments, None).expect("a command line of QEMU's");
    stacks(&machine, &HostFacts { image: Some(image), ..HostFacts::default() });
}
