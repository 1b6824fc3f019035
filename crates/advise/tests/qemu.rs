//! The real QEMU takes the command lines: it opens the images, makes the devices, and is told to end before the guest's
//! first instruction. Where QEMU is not installed there is nothing to ask.

#![allow(clippy::print_stdout, clippy::print_stderr)] // For who runs it, not for who uses the program.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use nestor_advise::paste::qemu_command;
use nestor_stack::{LayerDefinition, Stack, parse_all};

const IMAGE_BYTES: u64 = 64 << 20;

fn is_installed(program: &str) -> bool {
    let found = Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success());
    if !found {
        eprintln!("{program} is not installed, so it is not asked");
    }
    found
}

/// Makes the image of a stack; its path.
fn image(stack: &Stack, directory: &Path) -> String {
    let layer = stack
        .layers()
        .iter()
        .find(|layer| matches!(layer.definition(), LayerDefinition::ImageFormat(_)))
        .expect("these stacks have an image");
    let LayerDefinition::ImageFormat(format) = layer.definition() else {
        unreachable!("it was just looked for")
    };
    let path = directory.join(format!("vm.{}", format.extension)).display().to_string();
    let command = (format.create)(layer, &path, IMAGE_BYTES);
    let made = Command::new(&command[0]).args(&command[1..]).output().expect("qemu-img runs");
    assert!(made.status.success(), "{command:?}: {}", String::from_utf8_lossy(&made.stderr));
    path
}

/// Starts QEMU with the command line's arguments, halted, and tells it to end.
fn start_and_end(stack: &Stack, path: &str) -> Output {
    let command = qemu_command(stack).expect("the stack can be written");
    let placeholder = format!("/srv/images/{}", path.rsplit('/').next().unwrap_or_default());
    let here = |argument: &String| match argument.as_str() {
        // Whether there is KVM says nothing about the command line.
        "kvm" => "tcg".to_owned(),
        other => other.replace(&placeholder, path),
    };
    let mut qemu = Command::new(&command.arguments[0])
        .args(command.arguments[1..].iter().map(here))
        .args(["-S", "-display", "none", "-nodefaults", "-no-user-config", "-qmp", "stdio"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("QEMU starts");
    let mut monitor = qemu.stdin.take().expect("its input is a pipe");
    // One that refused its arguments has ended and does not listen; what it said is looked at below.
    let _ = monitor.write_all(b"{\"execute\":\"qmp_capabilities\"}\n{\"execute\":\"quit\"}\n");
    drop(monitor);
    qemu.wait_with_output().expect("QEMU ends")
}

#[test]
fn qemu_accepts_what_is_pasted() {
    if !is_installed("qemu-system-x86_64") || !is_installed("qemu-img") {
        return;
    }
    // Not /tmp, which may be in memory, where images cannot be opened past the page cache.
    let directory = tempfile::tempdir_in("/var/tmp").expect("/var/tmp can be written to");
    let devices = "ext4/kvm:disk={virtio-blk,virtio-scsi,lsi,mptsas,pvscsi,ahci,ide,nvme}/raw/xfs/hdd";
    let modes = "ext4/kvm:cache={none,writeback,writethrough,directsync,unsafe}/qcow2:l2-cache=1M/xfs/hdd";
    let formats = "ext4/kvm:cache=writeback:discard=unmap/{vmdk,vdi,vhdx,qed}/xfs/hdd";
    let options = "ext4/kvm:disk={virtio-blk,virtio-scsi}:iothread:aio=native:memory=512M:cpus=2/raw/xfs/hdd";
    for stack in [devices, modes, formats, options].iter().flat_map(|text| parse_all(text).expect("stacks")) {
        let path = image(&stack, directory.path());
        let output = start_and_end(&stack, &path);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{stack}: {said}");
        std::fs::remove_file(path).expect("the image can be removed");
    }
}

#[test]
fn qemu_refuses_what_is_wrong() {
    if !is_installed("qemu-system-x86_64") || !is_installed("qemu-img") {
        return;
    }
    let directory = tempfile::tempdir_in("/var/tmp").expect("/var/tmp can be written to");
    let stack = Stack::parse("ext4/kvm/raw/xfs/hdd").expect("a stack");
    let missing = directory.path().join("missing.raw").display().to_string();
    assert!(!start_and_end(&stack, &missing).status.success(), "so that the test above can fail");
}
