//! The calls that define and start a machine: pure, from a [`Plan`]. VBoxManage 7.2.22 was asked what it says to each; 7.0 and 7.1, which are taken to have
//! the same words, were not asked.

use nestor_stack::layers::hypervisors::CacheMode;

use crate::hosted::{HostedDisk, Plan};

/// The first serial port, for the console, and the second, for the agent: where PCs have them.
const PORTS: [[&str; 2]; 2] = [["0x3f8", "4"], ["0x2f8", "3"]];

/// The controller with the disc and the root.
const BOOT: &str = "boot";

/// The controller of the layer's disk.
const DATA: &str = "data";

/// All of them, in order.
pub fn to_start(plan: &Plan<'_>) -> Vec<Vec<String>> {
    let uuid = plan.identity.uuid.as_str();
    let mut calls = vec![create(plan), settings(plan), serial_ports(plan)];
    calls.extend(boot_disks(plan, uuid));
    calls.extend(data_disk(plan, uuid));
    calls.push(words(&["startvm", uuid, "--type", "headless"]));
    calls
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn create(plan: &Plan<'_>) -> Vec<String> {
    let identity = plan.identity;
    let folder = identity.directory.display().to_string();
    words(&[
        "createvm",
        "--name",
        &identity.name,
        "--uuid",
        &identity.uuid,
        "--basefolder",
        &folder,
        "--ostype",
        "Linux26_64",
        "--register",
    ])
}

/// Nothing that a lab machine has no use for, and nothing of the network's.
fn settings(plan: &Plan<'_>) -> Vec<String> {
    let (memory, cpus) = (plan.memory_mib().to_string(), plan.spec.cpus.to_string());
    let mut call = words(&["modifyvm", &plan.identity.uuid, "--memory", &memory, "--cpus", &cpus]);
    let fixed = [
        ("--chipset", "piix3"),
        ("--firmware", "bios"),
        ("--acpi", "on"),
        ("--ioapic", "on"),
        ("--rtc-use-utc", "on"),
        ("--graphicscontroller", "vboxvga"),
        ("--vram", "8"),
        ("--nic1", "none"),
        ("--audio-enabled", "off"),
        ("--usb-ohci", "off"),
        ("--usb-ehci", "off"),
        ("--usb-xhci", "off"),
        ("--boot1", "dvd"),
        ("--boot2", "none"),
        ("--boot3", "none"),
        ("--boot4", "none"),
    ];
    call.extend(fixed.iter().flat_map(|(option, value)| [*option, *value].map(str::to_owned)));
    call
}

/// The machine connects to the agent's socket, at which this side already listens.
fn serial_ports(plan: &Plan<'_>) -> Vec<String> {
    let (console, socket) = (plan.console().display().to_string(), plan.agent_socket().display().to_string());
    let [[base1, irq1], [base2, irq2]] = PORTS;
    words(&[
        "modifyvm",
        &plan.identity.uuid,
        "--uart1",
        base1,
        irq1,
        "--uart-mode1",
        "file",
        &console,
        "--uart2",
        base2,
        irq2,
        "--uart-mode2",
        "client",
        &socket,
    ])
}

/// A machine has one controller of each kind, so these are on the kind that the layer's disk is not on.
fn boot_disks(plan: &Plan<'_>, uuid: &str) -> Vec<Vec<String>> {
    let (disc, root) = (plan.disc.display().to_string(), plan.root.display().to_string());
    let on_sata = plan.disk.bus != "sata";
    let (bus, model) = if on_sata { ("sata", "IntelAHCI") } else { ("ide", "PIIX4") };
    let mut controller = controller(uuid, BOOT, bus, model, CacheMode::Writeback);
    if on_sata {
        controller.extend(words(&["--portcount", "2"]));
    }
    controller.extend(words(&["--bootable", "on"]));
    let mut root = attach(uuid, BOOT, "1", "hdd", &root);
    // What is written goes into a file of the machine's own, and the lab image is only read.
    root.extend(words(&["--mtype", "immutable"]));
    vec![controller, attach(uuid, BOOT, "0", "dvddrive", &disc), root]
}

fn data_disk(plan: &Plan<'_>, uuid: &str) -> Vec<Vec<String>> {
    let HostedDisk { bus, model, cache, .. } = plan.disk;
    let medium = plan.medium.display().to_string();
    let mut controller = controller(uuid, DATA, bus, model, *cache);
    if bus == "sata" {
        controller.extend(words(&["--portcount", "1"]));
    }
    let mut calls = vec![controller, attach(uuid, DATA, "0", "hdd", &medium)];
    if let Some(device) = device(plan.disk) {
        let key = format!("VBoxInternal/Devices/{device}/0/LUN#0/Config/IgnoreFlush");
        calls.push(words(&["setextradata", uuid, &key, if cache.no_flush() { "1" } else { "0" }]));
    }
    calls
}

/// What VirtualBox calls the device in whose settings is said whether flushes are ignored, as they are unless that is said (the manual,
/// "Responding to Guest IDE/SATA Flush Requests").
fn device(disk: &HostedDisk) -> Option<&'static str> {
    disk.may_ignore_flushes.then_some(if disk.bus == "sata" { "ahci" } else { "piix3ide" })
}

fn controller(uuid: &str, name: &str, bus: &str, model: &str, cache: CacheMode) -> Vec<String> {
    let cached = if cache.direct() { "off" } else { "on" };
    words(&["storagectl", uuid, "--name", name, "--add", bus, "--controller", model, "--hostiocache", cached])
}

fn attach(uuid: &str, controller: &str, port: &str, kind: &str, medium: &str) -> Vec<String> {
    words(&[
        "storageattach",
        uuid,
        "--storagectl",
        controller,
        "--port",
        port,
        "--device",
        "0",
        "--type",
        kind,
        "--medium",
        medium,
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hosted::made_up::with_plan;

    fn calls(stack: &str) -> String {
        let calls = with_plan(stack, "/mnt/disk.vdi", to_start);
        let lines: Vec<String> = calls.iter().map(|call| call.join(" ")).collect();
        lines.join("\n").replace("0a1b2c3d-0000-4000-8000-000000000001", "UUID")
    }

    /// VBoxManage 7.2.22 of Debian was given these, but for the paths, and took all of them up to the last, which needs its kernel module.
    #[test]
    fn a_machine_is_defined_with_two_disks_and_two_ports_and_started() {
        assert_eq!(
            calls("vbox:cpus=2/vdi/ext4/file:/disk"),
            "createvm --name nestor-guest-0a1b2c3d --uuid UUID --basefolder /w/guest --ostype Linux26_64 --register\n\
             modifyvm UUID --memory 256 --cpus 2 --chipset piix3 --firmware bios --acpi on --ioapic on --rtc-use-utc on \
             --graphicscontroller vboxvga --vram 8 --nic1 none --audio-enabled off --usb-ohci off --usb-ehci off --usb-xhci off \
             --boot1 dvd --boot2 none --boot3 none --boot4 none\n\
             modifyvm UUID --uart1 0x3f8 4 --uart-mode1 file /w/guest/console.log --uart2 0x2f8 3 --uart-mode2 client \
             /w/guest/agent.sock\n\
             storagectl UUID --name boot --add ide --controller PIIX4 --hostiocache on --bootable on\n\
             storageattach UUID --storagectl boot --port 0 --device 0 --type dvddrive --medium /w/guest/boot.iso\n\
             storageattach UUID --storagectl boot --port 1 --device 0 --type hdd --medium /w/guest/root.vmdk --mtype immutable\n\
             storagectl UUID --name data --add sata --controller IntelAHCI --hostiocache off --portcount 1\n\
             storageattach UUID --storagectl data --port 0 --device 0 --type hdd --medium /mnt/disk.vdi\n\
             setextradata UUID VBoxInternal/Devices/ahci/0/LUN#0/Config/IgnoreFlush 0\n\
             startvm UUID --type headless"
        );
    }

    #[test]
    fn the_disk_of_the_layer_has_a_controller_of_its_own_and_its_cache() {
        let said = calls("vbox:disk=ide:cache=unsafe/vdi/ext4/file:/disk");
        assert!(
            said.contains("--name boot --add sata --controller IntelAHCI --hostiocache on --portcount 2"),
            "{said}"
        );
        assert!(said.contains("--name data --add ide --controller PIIX4 --hostiocache on\n"), "{said}");
        assert!(said.contains("VBoxInternal/Devices/piix3ide/0/LUN#0/Config/IgnoreFlush 1"), "{said}");
        let said = calls("vbox:disk=lsi:cache=writeback/vdi/ext4/file:/disk");
        assert!(said.contains("--name data --add scsi --controller LSILogic --hostiocache on\n"), "{said}");
        assert!(!said.contains("IgnoreFlush"), "{said}");
    }
}
