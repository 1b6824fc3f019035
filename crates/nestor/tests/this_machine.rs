//! `--on this`: the machine's own kernel, with files as disks, and everything that can go wrong there.
//!
//! Needs root. No test measures time; what is killed is killed when the program has reached a state, not after a while.

mod support;

use std::fs;
use std::path::Path;
use std::process::Command as OsCommand;

use predicates::prelude::*;
use predicates::str::contains;
use rustix::process::Signal;
use serde_json::Value;
use support::{Sandbox, alone, can_run, failures, has_program, layer_bytes, marks, signal};

const MIB: u64 = 1 << 20;

/// 25 MiB of data: enough for every layer to show.
const SMALL: &str = "fio:seq-write:scale=0.005";

/// A measurement that lasts some seconds, to be disturbed.
const LONG: &str = "fio:rand-write:scale=0.1";

/// Runs a tool of the system's that has to succeed.
fn tool(argv: &[&str]) -> String {
    let output =
        OsCommand::new(argv[0]).args(&argv[1..]).output().unwrap_or_else(|e| panic!("{argv:?}: {e}"));
    assert!(output.status.success(), "{argv:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

fn signatures(path: &str) -> String {
    tool(&["wipefs", "--no-act", "--noheadings", path])
}

/// `nestor run --on this … -n 1 --json`.
fn run(sandbox: &Sandbox, stack: &str, workload: &str, more: &[&str]) -> (bool, Value, String) {
    let output = sandbox
        .nestor(["run", "--on", "this", stack, workload, "-n", "1", "--json"])
        .args(more)
        .output()
        .expect("the program runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let views = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
    (output.status.success(), views, said)
}

/// A loop device that is not Nestor's, of a file whose name says so.
struct LoopDevice(String);

impl LoopDevice {
    fn of(file: &str) -> Self {
        Self(tool(&["losetup", "--find", "--show", file]))
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        let _ = OsCommand::new("losetup").args(["--detach", &self.0]).output();
    }
}

/// A mount that is not Nestor's.
struct Mounted(String);

impl Mounted {
    fn at(arguments: &[&str], target: &str) -> Self {
        fs::create_dir_all(target).expect("the sandbox can be written to");
        tool(&[&["mount"], arguments, &[target]].concat());
        Self(target.to_owned())
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = OsCommand::new("umount").arg(&self.0).output();
    }
}

#[test]
fn each_file_system_of_this_kernel_is_built_measured_and_removed() {
    if !can_run(true, false) {
        return;
    }
    let _alone = alone();
    let sandbox = Sandbox::new();
    let disk = sandbox.disk("disk.img", 2048 * MIB);
    let known = fs::read_to_string("/proc/filesystems").unwrap();
    for file_system in ["ext2", "ext3", "ext4", "xfs", "btrfs"] {
        if !known.split_whitespace().any(|word| word == file_system)
            || !has_program(&format!("mkfs.{file_system}"))
        {
            eprintln!("{file_system} is not tried: this machine does not have it");
            continue;
        }
        let (succeeded, views, said) = run(&sandbox, &format!("{file_system}/file:{disk}"), SMALL, &[]);
        assert!(succeeded, "{file_system}: {said}{views}");
        let view = &views[0];
        let application = layer_bytes(view, "application").expect("the engine counts bytes");
        let traced = layer_bytes(view, file_system).expect("the file system's requests are traced");
        assert!(traced >= application, "{file_system}: {traced} bytes below {application}");
        assert!(!marks(view).contains(&"emulated-cpu".to_owned()), "nothing was emulated: {view}");
        let class = view["environment"]["settings"][nestor_stack::MEDIUM_CLASS].as_str();
        let class = class.expect("a result says on which class of disk it was made");
        assert!(nestor_stack::MediumClass::parse(class).is_some(), "{class}");
        assert_eq!(signatures(&disk), "", "{file_system} is erased from the medium");
        assert_eq!(sandbox.left_behind(), Vec::<String>::new());
    }
}

#[test]
fn media_that_are_not_there_or_of_another_kind_are_refused() {
    if !can_run(true, false) {
        return;
    }
    let sandbox = Sandbox::new();
    let disk = sandbox.disk("disk.img", 64 * MIB);
    let [none, directory] = [sandbox.text("none.img"), sandbox.text("")];
    let directory = directory.trim_end_matches('/');
    for (stack, advice) in [
        (format!("ext4/file:{none}"), format!("make it with `truncate --size 16G {none}`")),
        (format!("ext4/file:{directory}"), format!("`truncate --size 16G {directory}/disk.img` makes")),
        (format!("ext4/dev:{disk}"), format!("write `file:{disk}`")),
        ("ext4/dev:/dev/none".to_owned(), "`lsblk` lists the devices".to_owned()),
        (
            "ext4/dev:/dev/null".to_owned(),
            "media are block devices, regular files and directories".to_owned(),
        ),
    ] {
        let run = sandbox.nestor(["run", "--on", "this", &stack, SMALL]).assert().failure();
        run.stdout("").stderr(contains(advice).count(1));
    }
    assert!(!sandbox.path("data/nestor/results.sqlite").exists(), "nothing is saved");
    assert_eq!(sandbox.left_behind(), Vec::<String>::new());
}

#[test]
fn a_medium_in_use_or_with_a_signature_is_not_written_to() {
    if !can_run(true, false) {
        return;
    }
    let sandbox = Sandbox::new();
    let file = sandbox.disk("kept-disk.img", 512 * MIB);
    tool(&["mkfs.ext4", "-q", &file]);
    let before = tool(&["sha256sum", &file]);
    let refused = |stack: &str, more: &[&str], why: &str| {
        let run = sandbox.nestor(["run", "--on", "this", stack, SMALL]).args(more).assert().failure();
        run.stdout(contains(why).count(1));
    };
    let stack = format!("xfs/file:{file}");
    refused(&stack, &[], &format!("use `--overwrite {file}`"));
    // Another path does not allow it.
    refused(&stack, &["--overwrite", "/dev/null"], "carries a signature");

    let device = LoopDevice::of(&file);
    let device_stack = format!("xfs/dev:{}", device.0);
    refused(&stack, &["--overwrite", &file], "is in use as the loop device");
    refused(&device_stack, &[], &format!("use `--overwrite {}`", device.0));
    {
        let _mounted = Mounted::at(&["-o", "ro,noload", &device.0], &sandbox.text("mounted"));
        refused(&device_stack, &["--overwrite", &device.0], "it is mounted on");
    }
    drop(device);
    {
        // Another run of nestor, or another program, has it locked.
        let lock = fs::File::open(&file).unwrap();
        rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
        refused(&stack, &["--overwrite", &file], "perhaps another run of nestor");
    }
    assert_eq!(tool(&["sha256sum", &file]), before, "not a byte was written");
    assert_eq!(sandbox.left_behind(), Vec::<String>::new());

    let device = LoopDevice::of(&file);
    let (succeeded, views, said) =
        run(&sandbox, &format!("ext4/dev:{}", device.0), SMALL, &["--overwrite", &device.0]);
    assert!(succeeded, "named exactly, it is used: {said}{views}");
    assert_eq!(signatures(&file), "");
}

#[test]
fn two_runs_at_once_share_a_file_of_results() {
    if !can_run(true, false) {
        return;
    }
    let _alone = alone();
    let sandbox = Sandbox::new();
    let stacks = ["a.img", "b.img"].map(|name| format!("ext4/file:{}", sandbox.disk(name, 1024 * MIB)));
    let runs =
        stacks.each_ref().map(|stack| sandbox.nestor_in_background(&["run", "--on", "this", stack, SMALL]));
    for output in runs.map(|child| child.wait_with_output().unwrap()) {
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let listed = sandbox.nestor(["report", "--json"]).output().unwrap();
    let listed: Value = serde_json::from_slice(&listed.stdout).unwrap();
    assert_eq!(listed["total"], 6, "three runs of each: {listed}");
    assert_eq!(sandbox.left_behind(), Vec::<String>::new());
}

#[test]
fn whatever_ends_a_run_its_agent_takes_everything_down() {
    if !can_run(true, false) {
        return;
    }
    let _alone = alone();
    let sandbox = Sandbox::new();
    let disk = sandbox.disk("disk.img", 2048 * MIB);
    let stack = format!("ext4/file:{disk}");
    for end in [Signal::INT, Signal::TERM, Signal::HUP, Signal::KILL] {
        let mut running = sandbox.start(&["run", "--on", "this", &stack, LONG], &[]);
        running.wait_for_process(&["fio", "--rw="]);
        signal(running.pid(), end);
        let ended = running.end();
        assert!(!ended.succeeded);
        if end != Signal::KILL {
            assert!(
                ended.stderr.contains("error: interrupted; everything was taken down"),
                "{}",
                ended.stderr
            );
            assert_eq!(sandbox.left_behind(), Vec::<String>::new(), "after {end:?}");
        }
        sandbox.assert_nothing_left();
        assert_eq!(signatures(&disk), "", "after {end:?}");
    }
}

#[test]
fn after_the_agent_was_killed_too_doctor_removes_what_is_left() {
    if !can_run(true, false) {
        return;
    }
    let _alone = alone();
    let sandbox = Sandbox::new();
    let disk = sandbox.disk("disk.img", 2048 * MIB);
    let mut running = sandbox.start(&["run", "--on", "this", &format!("ext4/file:{disk}"), LONG], &[]);
    let agent = running.wait_for_process(&["/proc/self/exe agent"]);
    running.wait_for_process(&["fio", "--rw="]);
    // Stopped first, so that it cannot notice the death of its controller.
    signal(agent, Signal::STOP);
    signal(running.pid(), Signal::KILL);
    signal(agent, Signal::KILL);
    running.end();
    let left = sandbox.left_behind().join("\n");
    assert!(
        left.contains("mount ") && left.contains("loop device ") && left.contains("work directory "),
        "{left}"
    );
    sandbox.nestor(["doctor"]).assert().success().stdout(contains("nestor doctor --clean"));
    let clean = sandbox.nestor(["doctor", "--clean"]).assert().success();
    // It may be in other use since then, so it is named and not erased.
    clean.stdout(contains(format!("`--overwrite {disk}`")));
    sandbox.assert_nothing_left();
    assert_ne!(signatures(&disk), "");
    sandbox.nestor(["doctor", "--clean"]).assert().success();
}

#[test]
fn a_full_disk_under_a_sparse_file_is_named() {
    if !can_run(true, false) {
        return;
    }
    let _alone = alone();
    let sandbox = Sandbox::new();
    let small = sandbox.text("small");
    let _mounted = Mounted::at(&["-t", "tmpfs", "-o", "size=100M", "tmpfs"], &small);
    let disk = sandbox.disk("small/disk.img", 2048 * MIB);
    let (succeeded, views, said) = run(&sandbox, &format!("ext4/file:{disk}"), LONG, &[]);
    assert!(!succeeded);
    let failure = failures(&views[0]);
    assert!(
        failure.contains(&format!("the file system of {small}, which holds the medium, is full")),
        "{failure}{said}"
    );
    assert_eq!(sandbox.left_behind(), Vec::<String>::new());
}

#[test]
fn a_guest_is_traced_on_both_sides_and_says_that_it_was_emulated() {
    if !can_run(true, true) {
        return;
    }
    let _alone = alone();
    let sandbox = Sandbox::new();
    let disk = sandbox.disk("disk.img", 2048 * MIB);
    let (succeeded, views, said) = run(&sandbox, &format!("ext2/tcg/raw/ext4/file:{disk}"), SMALL, &[]);
    assert!(succeeded, "{said}{views}");
    let view = &views[0];
    let bytes = ["application", "ext2", "ext4"].map(|layer| layer_bytes(view, layer).unwrap_or_default());
    assert!(bytes[0] > 0 && bytes[1] >= bytes[0] && bytes[2] >= bytes[0], "{bytes:?}");
    assert!(marks(view).contains(&"emulated-cpu".to_owned()), "{view}");
    assert_eq!(sandbox.left_behind(), Vec::<String>::new());
    assert_eq!(signatures(&disk), "");
}

#[test]
fn a_guest_that_dies_in_the_middle_is_a_failed_run_and_nothing_else() {
    if !can_run(true, true) {
        return;
    }
    let _alone = alone();
    let sandbox = Sandbox::new();
    let disk = sandbox.disk("disk.img", 2048 * MIB);
    let stack = format!("ext4/tcg/raw/ext4/file:{disk}");
    let mut running = sandbox.start(&["run", "--on", "this", &stack, LONG, "-n", "1"], &[]);
    let qemu = running.wait_for_process(&["qemu-system", "-name guest"]);
    // The data set is laid out: one that is lost earlier is started anew.
    running.wait_for_log(&["guest: fio"]);
    signal(qemu, Signal::KILL);
    let ended = running.end();
    assert!(!ended.succeeded, "{}", ended.stdout);
    assert!(ended.stdout.contains("the machine `guest` is lost"), "{}", ended.stdout);
    assert_eq!(sandbox.left_behind(), Vec::<String>::new());
    assert_eq!(signatures(&disk), "");
}

#[test]
fn a_guest_that_hangs_at_boot_is_given_up_on() {
    if !can_run(true, true) {
        return;
    }
    let _alone = alone();
    let sandbox = Sandbox::new();
    let stack = format!("ext4/tcg/raw/ext4/file:{}", sandbox.disk("disk.img", 2048 * MIB));
    let arguments = ["run", "--on", "this", &stack, SMALL, "-n", "1"];
    let mut running = sandbox.start(&arguments, &[("NESTOR_BOOT_LIMIT_S", "3")]);
    signal(running.wait_for_process(&["qemu-system", "-name guest"]), Signal::STOP);
    let ended = running.end();
    assert!(!ended.succeeded);
    assert!(
        ended.stdout.contains("within its 3 s; NESTOR_BOOT_LIMIT_S gives it more time"),
        "{}",
        ended.stdout
    );
    assert_eq!(sandbox.left_behind(), Vec::<String>::new());
}

#[test]
fn a_guest_that_cannot_boot_shows_its_last_words() {
    if !can_run(true, true) {
        return;
    }
    let _alone = alone();
    let sandbox = Sandbox::new();
    // A lab image whose root is empty: the guest's first process gives up, as after any other panic.
    let shown = sandbox.nestor(["lab", "show", "--json"]).output().unwrap();
    let image: Value = serde_json::from_slice(&shown.stdout).unwrap();
    let directory = Path::new(image["directory"].as_str().unwrap());
    let broken = sandbox.path("cache/lab").join(directory.file_name().unwrap());
    fs::create_dir_all(&broken).unwrap();
    for entry in fs::read_dir(directory).unwrap().flatten() {
        if entry.path().extension().is_some_and(|e| e == "squashfs") {
            fs::File::create(broken.join(entry.file_name())).unwrap().set_len(MIB).unwrap();
        } else if entry.file_name() != "SHA256SUMS" {
            // Without the record it is an image of an older version, and taken as it is.
            fs::copy(entry.path(), broken.join(entry.file_name())).unwrap();
        }
    }
    let stack = format!("ext4/tcg/raw/ext4/file:{}", sandbox.disk("disk.img", 2048 * MIB));
    let run = sandbox
        .nestor(["run", "--on", "this", &stack, SMALL, "-n", "1"])
        .env("NESTOR_CACHE", sandbox.path("cache"))
        .assert()
        .failure();
    run.stdout(
        contains("it died while booting").and(contains("its console ends:")).and(contains("nestor init: ")),
    );
    assert_eq!(sandbox.left_behind(), Vec::<String>::new());
}

#[test]
fn an_interrupt_while_a_guest_boots_ends_it() {
    if !can_run(true, true) {
        return;
    }
    let _alone = alone();
    let sandbox = Sandbox::new();
    let disk = sandbox.disk("disk.img", 2048 * MIB);
    let mut running =
        sandbox.start(&["run", "--on", "this", &format!("ext4/tcg/raw/ext4/file:{disk}"), SMALL], &[]);
    running.wait_for_process(&["qemu-system", "-name guest"]);
    signal(running.pid(), Signal::INT);
    let ended = running.end();
    assert!(!ended.succeeded && ended.stderr.contains("0 finished results were kept"), "{}", ended.stderr);
    assert_eq!(sandbox.left_behind(), Vec::<String>::new());
    assert_eq!(signatures(&disk), "");
}
