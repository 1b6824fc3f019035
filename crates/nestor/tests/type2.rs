//! Hypervisors that the user has installed, with `--on this`: VirtualBox and VMware, simulated by scripts that keep to what the real tools say
//! (`simulated/`) and boot what they are told with QEMU.
//!
//! Needs root, the lab image, and xorriso and ISOLINUX. No test measures time: a call that hangs, hangs for ever.

#![allow(clippy::print_stderr)] // For who runs it, not for who uses the program.

mod support;

use std::fs;
use std::path::Path;

use rustix::process::Signal;
use serde_json::Value;
use support::simulated::Simulated;
use support::{Sandbox, alone, can_run, failures, has_program, layer_bytes, refused, signal};

const MIB: u64 = 1 << 20;

/// 5 MiB of data.
const SMALL: &str = "fio:seq-write:scale=0.001";

/// A measurement that lasts some seconds, to be disturbed.
const LONG: &str = "fio:rand-write:scale=0.1";

/// The seconds that a call has which is to be given up on. Those that answer do so at once.
const HANGS: (&str, &str) = ("NESTOR_CALL_LIMIT_S", "30");

/// The calls of a machine of VirtualBox from its definition to its start.
const VBOX_START: [&str; 11] = [
    "--version",
    "createvm",
    "modifyvm",
    "modifyvm",
    "storagectl",
    "storageattach",
    "storageattach",
    "storagectl",
    "storageattach",
    "setextradata",
    "startvm",
];

/// Those that end it.
const VBOX_END: [&str; 2] = ["controlvm", "unregistervm"];

fn can_run_here() -> bool {
    if !can_run(true, true) {
        return false;
    }
    let parts = ["/usr/lib/ISOLINUX/isolinux.bin", "/usr/lib/syslinux/modules/bios/ldlinux.c32"];
    let has_parts = has_program("xorriso")
        && has_program("unsquashfs")
        && parts.iter().all(|part| Path::new(part).exists());
    if !has_parts {
        eprintln!("not tried: xorriso, isolinux, syslinux-common or squashfs-tools is not installed");
    }
    has_parts
}

/// A sandbox with the tools, and the stack of a layer above a file of the user's.
struct Place {
    sandbox: Sandbox,
    tools: Simulated,
    stack: String,
}

impl Place {
    fn new(layers: &str) -> Self {
        let sandbox = Sandbox::new();
        let tools = Simulated::install(&sandbox);
        let stack = format!("{layers}/file:{}", sandbox.disk("disk.img", 2048 * MIB));
        Self { sandbox, tools, stack }
    }

    /// `nestor run --on this … -n 1 --json`: whether it succeeded, the result, and what it said.
    fn run(&self, variables: &[(&str, &str)]) -> (bool, Value, String) {
        let output = self
            .sandbox
            .nestor(["run", "--on", "this", &self.stack, SMALL, "-n", "1", "--json"])
            .env("PATH", self.tools.path())
            .envs(variables.iter().copied())
            .output()
            .expect("the program runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.success(), serde_json::from_slice(&output.stdout).unwrap_or(Value::Null), said)
    }

    /// Runs it, which has to fail with these words, and leaves nothing.
    fn fails(&self, variables: &[(&str, &str)], words: &[&str]) {
        let (succeeded, views, said) = self.run(variables);
        let failure = format!("{}{said}", failures(&views[0]));
        assert!(!succeeded, "{views}");
        for word in words {
            assert!(failure.contains(word), "{word}: {failure}");
        }
        self.assert_nothing_left();
    }

    fn assert_nothing_left(&self) {
        self.sandbox.assert_nothing_left();
        assert_eq!(services(), Vec::<String>::new());
    }
}

/// Sockets of services of VirtualBox that Nestor named.
fn services() -> Vec<String> {
    let entries = fs::read_dir("/tmp").into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.starts_with(".vbox-nestor-")).collect()
}

/// The guest has counted at least what the application wrote; what is below it, something: the host may keep the rest in memory.
fn assert_measured(view: &Value, guest: &str, host: &str) {
    let application = layer_bytes(view, "application").expect("the engine counts bytes");
    let [guest, host] = [guest, host].map(|layer| layer_bytes(view, layer).expect("the layer is traced"));
    assert!(application > 0 && guest >= application && host > 0, "{application} {guest} {host}: {view}");
}

#[test]
fn a_machine_of_virtualbox_is_made_measured_and_forgotten() {
    if !can_run_here() {
        return;
    }
    let _alone = alone();
    let place = Place::new("ext2/vbox/vdi/ext4");
    let (succeeded, views, said) = place.run(&[]);
    assert!(succeeded, "{said}{views}{}", place.tools.lines());
    assert_measured(&views[0], "ext2", "ext4");
    assert_eq!(place.tools.calls(), [&VBOX_START[..], &VBOX_END].concat());
    let lines = place.tools.lines();
    assert!(lines.contains("--add sata --controller IntelAHCI --hostiocache off"), "{lines}");
    assert!(lines.contains("VBoxInternal/Devices/ahci/0/LUN#0/Config/IgnoreFlush 0"), "{lines}");
    place.assert_nothing_left();
}

#[test]
fn a_machine_of_vmware_is_made_measured_and_forgotten() {
    if !can_run_here() {
        return;
    }
    let _alone = alone();
    let place = Place::new("ext2/vmware:disk=pvscsi/raw/ext4");
    let (succeeded, views, said) = place.run(&[]);
    assert!(succeeded, "{said}{views}{}", place.tools.lines());
    assert_measured(&views[0], "ext2", "ext4");
    assert_eq!(place.tools.calls(), ["", "start", "stop"]);
    place.assert_nothing_left();
}

#[test]
fn a_version_whose_words_are_not_known_is_refused() {
    if !can_run_here() {
        return;
    }
    let _alone = alone();
    for (layer, version, words) in [
        (
            "vbox",
            "6.1.50r161033",
            "VBoxManage is of VirtualBox 6.1 (6.1.50r161033), and Nestor knows the words of 7.0 to 7.2 only",
        ),
        ("vbox", "nonsense", "says no version"),
        (
            "vmware",
            "2.0.0 build-1",
            "vmrun is of VMware 2.0 (2.0.0 build-1), and Nestor knows the words of 1.15 to 1.17 only",
        ),
    ] {
        let place = Place::new(&format!("ext2/{layer}"));
        place.tools.spoil("version", version);
        place.fails(&[], &[words]);
        assert_eq!(place.tools.calls().len(), 1, "nothing is made: {}", place.tools.lines());
    }
}

#[test]
fn a_question_of_the_tool_is_shown_and_not_answered() {
    if !can_run_here() {
        return;
    }
    let _alone = alone();
    for (layer, call, question) in [
        ("vbox", "createvm", "Do you agree to these license terms and conditions (y/n)?"),
        ("vmware", "start", "Do you agree? (yes/no):"),
    ] {
        let place = Place::new(&format!("ext2/{layer}:disk=ahci/raw/ext4"));
        place.tools.spoil("ask", call);
        place.fails(&[], &["which Nestor does not answer for you", question]);
    }
}

#[test]
fn a_tool_that_is_not_installed_is_named() {
    if !can_run_here() {
        return;
    }
    let _alone = alone();
    for (layer, tool) in [("vbox", "VBoxManage"), ("vmware", "vmrun")] {
        let place = Place::new(&format!("ext2/{layer}"));
        let missing = place.sandbox.path("tools").join(tool);
        fs::remove_file(missing).unwrap();
        place.fails(
            &[],
            &[&format!("`{tool}` is not installed on this machine; `nestor doctor` names the package")],
        );
    }
}

#[test]
fn a_machine_that_does_not_start_leaves_nothing() {
    if !can_run_here() {
        return;
    }
    let _alone = alone();
    let place = Place::new("ext2/vbox/raw/ext4");
    place.tools.spoil("fail", "startvm");
    place.fails(&[], &["startvm", "The simulation was told to fail"]);
    assert_eq!(
        place.tools.calls().iter().rev().take(2).rev().collect::<Vec<_>>(),
        ["controlvm", "unregistervm"]
    );
}

#[test]
fn a_start_that_never_ends_is_given_up_on() {
    if !can_run_here() {
        return;
    }
    let _alone = alone();
    let place = Place::new("ext2/vbox/raw/ext4");
    place.tools.spoil("hang", "startvm");
    place.fails(&[HANGS], &["startvm", "did not end within 30 s: VirtualBox hangs"]);
}

#[test]
#[ignore = "waits for the time limit of every call; part of `make test-long`"]
fn whichever_call_never_ends_it_is_given_up_on() {
    if !can_run_here() {
        return;
    }
    let _alone = alone();
    let calls = ["--version", "createvm", "modifyvm", "storagectl", "storageattach", "setextradata"];
    for call in calls {
        let place = Place::new("ext2/vbox/raw/ext4");
        place.tools.spoil("hang", call);
        place.fails(&[HANGS], &[call, "did not end within 30 s: VirtualBox hangs"]);
    }
    let place = Place::new("ext2/vmware:disk=ahci");
    place.tools.spoil("hang", "start");
    place.fails(&[HANGS], &["start", "did not end within 30 s: VMware hangs"]);
    // One that does not end a machine keeps none alive.
    for (layer, call) in [("vbox", "controlvm"), ("vbox", "unregistervm"), ("vmware", "stop")] {
        let place = Place::new(&format!("ext2/{layer}:disk=ahci"));
        place.tools.spoil("hang", call);
        let (succeeded, views, said) = place.run(&[HANGS]);
        assert!(succeeded, "{call}: {said}{views}");
        place.assert_nothing_left();
    }
}

#[test]
#[ignore = "boots two machines; part of `make test-long`"]
fn a_machine_whose_agent_was_killed_is_ended_by_doctor() {
    if !can_run_here() {
        return;
    }
    let _alone = alone();
    for (layer, ends) in [("vbox", &VBOX_END[..]), ("vmware", &["stop"])] {
        let place = Place::new(&format!("ext2/{layer}:disk=ahci/raw/ext4"));
        let path = place.tools.path();
        let arguments = ["run", "--on", "this", &place.stack, LONG, "-n", "1"];
        let mut running = place.sandbox.start(&arguments, &[("PATH", &path)]);
        let agent = running.wait_for_process(&["/proc/self/exe agent"]);
        running.wait_for_log(&["guest: fio"]);
        let before = place.tools.calls().len();
        // Stopped first, so that it cannot notice the death of its controller.
        signal(agent, Signal::STOP);
        signal(running.pid(), Signal::KILL);
        signal(agent, Signal::KILL);
        running.end();
        let left = place.sandbox.left_behind().join("\n");
        assert!(left.contains("qemu-system-x86_64 -name nestor-guest-"), "it outlives the agent: {left}");
        let clean = place.sandbox.nestor(["doctor", "--clean"]).env("PATH", &path).assert().success();
        drop(clean);
        assert_eq!(
            place.tools.calls()[before..].iter().filter(|call| ends.contains(&call.as_str())).count(),
            ends.len()
        );
        place.assert_nothing_left();
    }
}

#[test]
#[ignore = "boots a machine for each controller; part of `make test-long`"]
fn disks_are_found_on_every_controller_that_the_simulation_has() {
    if !can_run_here() {
        return;
    }
    let _alone = alone();
    for layers in [
        "ext2/vbox:disk=ide:cache=unsafe/vmdk/ext4",
        "ext2/vbox:disk=mptsas:cache=writeback/raw/ext4",
        "ext2/vbox:disk=virtio-scsi",
        "ext2/vmware:disk=ide/vmdk:subformat=twoGbMaxExtentSparse/ext4",
    ] {
        let place = Place::new(layers);
        let (succeeded, views, said) = place.run(&[]);
        assert!(succeeded, "{layers}: {said}{views}{}", place.tools.lines());
        place.assert_nothing_left();
    }
}

#[test]
fn elsewhere_than_on_this_machine_they_are_refused_before_anything_is_started() {
    let sandbox = Sandbox::new();
    for (arguments, word) in [
        (["ext4/vmware/vmdk/ext4/hdd", "--on", "emulated"], "no machine of the lab has VMware"),
        (
            ["ext4/vbox/vdi/ext4/file:/d", "--on", "domain:mail"],
            "Nestor runs VirtualBox with `--on this` and `--on ssh:HOST`",
        ),
        (["ext4/vbox/vdi/ext4/kvm/file:/d", "--on", "this"], "none of those has VirtualBox"),
        (
            ["ext4/vbox/vdi/ext4/kvm/hdd", "--on", "emulated:time=real"],
            "leave out the virtual machine or link below it",
        ),
        (
            ["ext4/vbox/vdi/ext4/kvm/hdd", "--on", "emulated:time=virtual"],
            "leave out the virtual machine or link below it",
        ),
        (
            ["ext4/vbox/qcow2/ext4/file:/d", "--on", "this"],
            "VirtualBox does not open images of the format qcow2",
        ),
    ] {
        let said = refused(&sandbox, &[&["run"], &arguments[..], &["fio:rand-read:size=8M"]].concat());
        assert!(said.contains(word) && said.contains('^'), "{said}");
    }
    assert_eq!(sandbox.left_behind(), Vec::<String>::new());
}
