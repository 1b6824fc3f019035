//! Files and devices of the user's as media: what holds anything is not written to.
//!
//! Needs root, as `--on this` does.

#![allow(clippy::print_stdout, clippy::print_stderr)] // For who runs it, not for who uses the program.

mod support;

use std::fs;
use std::process::{Command as OsCommand, Stdio};

use predicates::prelude::*;
use predicates::str::contains;
use support::{Sandbox, can_run, has_program};

/// As little as fio writes.
const SMALL: &str = "fio:seq-write:scale=0.005";

/// SHA-256 of a file, its length and its blocks.
fn state(path: &str) -> String {
    let output = OsCommand::new("sha256sum").arg(path).output().expect("coreutils are there");
    let length = fs::metadata(path).expect("it is there").len();
    format!("{} {length}", String::from_utf8_lossy(&output.stdout))
}

fn succeeds(command: &mut OsCommand) {
    let status = command.stderr(Stdio::null()).stdout(Stdio::null()).status().expect("it starts");
    assert!(status.success(), "{command:?}");
}

/// Files as people have them, that `wipefs` finds no signature in.
fn files_of_others(sandbox: &Sandbox) -> Vec<(String, &'static str)> {
    const MIB: usize = 1 << 20;
    let text = sandbox.text("kept-notes.txt");
    fs::write(&text, "what was paid in March\n".repeat(64 * MIB / 23)).unwrap();
    let tar = sandbox.text("kept-all.tar");
    succeeds(OsCommand::new("tar").args(["-cf", &tar, &text]));
    let database = sandbox.text("kept-results.sqlite");
    drop(nestor_results::Store::open(std::path::Path::new(&database)).unwrap());
    let in_the_middle = sandbox.disk("kept-middle.img", 512 << 20);
    let file = fs::File::options().write(true).open(&in_the_middle).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, b"x", 300 << 20).unwrap();
    let mut files = vec![
        (text, "it begins like a text"),
        (tar, "it begins like a tar archive"),
        (database, "it begins like an SQLite database"),
        (in_the_middle, "the first byte that is not zero is at 314572800"),
    ];
    for (format, named) in [("qcow2", "a qcow2 image"), ("vmdk", "a VMDK image"), ("vhdx", "a VHDX image")] {
        if !has_program("qemu-img") || !has_program("qemu-io") {
            eprintln!("{format} is not tried: qemu-utils are not installed");
            continue;
        }
        let image = sandbox.text(&format!("kept-disk.{format}"));
        succeeds(OsCommand::new("qemu-img").args(["create", "-q", "-f", format, &image, "1G"]));
        succeeds(OsCommand::new("qemu-io").args(["-f", format, "-c", "write -P 7 0 64M", &image]));
        files.push((image, named));
    }
    files
}

#[test]
fn a_file_with_data_in_it_is_refused_and_stays_as_it_is() {
    if !can_run(true, false) {
        return;
    }
    let sandbox = Sandbox::new();
    for (file, named) in files_of_others(&sandbox) {
        let before = state(&file);
        let run = sandbox.nestor(["run", "--on", "this", &format!("ext4/file:{file}"), SMALL, "-n", "1"]);
        let said = { run }.output().unwrap();
        assert_eq!(state(&file), before, "{file} was written to");
        let stdout = String::from_utf8_lossy(&said.stdout).into_owned();
        assert!(!said.status.success() && stdout.contains(named), "{file}: {stdout}");
        assert!(stdout.contains(&format!("use `--overwrite {file}`")), "{stdout}");
    }
    assert_eq!(sandbox.left_behind(), Vec::<String>::new());
}

#[test]
fn an_image_that_another_program_has_open_is_refused_whatever_is_allowed() {
    if !can_run(true, false) || !has_program("sh") {
        return;
    }
    let sandbox = Sandbox::new();
    let disk = sandbox.disk("kept-disk.img", 512 << 20);
    let mut beside = OsCommand::new("sh")
        .args(["-c", "exec 3<>\"$1\"; echo ready; read -r end", "sh", &disk])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut ready = [0];
    std::io::Read::read_exact(beside.stdout.as_mut().unwrap(), &mut ready).unwrap();
    let before = state(&disk);
    let stack = format!("ext4/file:{disk}");
    let said = sandbox
        .nestor(["run", "--on", "this", &stack, SMALL, "-n", "1", "--overwrite", &disk])
        .output()
        .unwrap();
    beside.kill().unwrap();
    beside.wait().unwrap();
    let stdout = String::from_utf8_lossy(&said.stdout).into_owned();
    assert!(!said.status.success() && stdout.contains("it is open for writing in sh"), "{stdout}");
    assert_eq!(state(&disk), before);
}

#[test]
fn a_file_that_was_measured_on_is_as_empty_as_before() {
    if !can_run(true, false) {
        return;
    }
    let _alone = support::alone();
    let sandbox = Sandbox::new();
    let disk = sandbox.disk("disk.img", 1 << 30);
    let before = state(&disk);
    let stack = format!("ext4/file:{disk}");
    for _ in 0..2 {
        sandbox.nestor(["run", "--on", "this", &stack, SMALL, "-n", "2"]).assert().success();
        assert_eq!(state(&disk), before, "so that it can be measured on again");
    }
    assert_eq!(sandbox.left_behind(), Vec::<String>::new());
}

#[test]
fn a_device_is_measured_on_again_in_the_same_command_and_in_another_only_if_named() {
    if !can_run(true, false) {
        return;
    }
    let _alone = support::alone();
    let sandbox = Sandbox::new();
    let backing = sandbox.disk("kept-backing.img", 1 << 30);
    let made = OsCommand::new("losetup").args(["--find", "--show", &backing]).output().unwrap();
    let device = String::from_utf8_lossy(&made.stdout).trim().to_owned();
    let run = |more: &[&str]| {
        let stack = format!("ext4/dev:{device}");
        let arguments = [&["run", "--on", "this", &stack, SMALL, "-n", "2"], more].concat();
        let output = sandbox.nestor(arguments).output().unwrap();
        (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let ran = [run(&[]), run(&[]), run(&["--overwrite", &device])];
    succeeds(OsCommand::new("losetup").args(["--detach", &device]));
    let [first, again, named] = ran;
    assert!(first.0 && !first.1.contains("failed"), "{}", first.1);
    assert!(!again.0 && again.1.contains("holds data: the first byte"), "{}", again.1);
    assert!(named.0 && !named.1.contains("failed"), "{}", named.1);
}

#[test]
fn a_study_writes_only_to_what_the_command_line_allows() {
    let sandbox = Sandbox::new();
    let disk = sandbox.disk("kept-disk.img", 512 << 20);
    let other = sandbox.disk("kept-other.img", 512 << 20);
    let text = format!(
        "name = \"t\"\ntitle = \"t\"\nbaseline = \"ext4/file:{disk}\"\nstacks = [\"ext4/file:{disk}\", \"xfs/file:{disk}\", \"ext4/file:{other}\"]\n\
         workloads = [\"{SMALL}\"]\nreplications = 1\n"
    );
    fs::write(sandbox.path("s.toml"), text).unwrap();
    let study = |more: &[&str]| {
        let mut arguments = vec!["study", "s.toml", "--on", "this"];
        arguments.extend(more);
        sandbox.nestor(arguments)
    };
    study(&["--plan"]).assert().success().stdout(
        contains(format!("  writes to {disk}: destroys everything on it"))
            .and(contains(format!("  writes to {other}:"))),
    );
    let plan = study(&["--plan", "--json"]).output().unwrap();
    let plan: serde_json::Value = serde_json::from_slice(&plan.stdout).unwrap();
    assert_eq!(plan["writes_to"], serde_json::json!([disk, other]));
    let advised = ["advise", SMALL, "--disk", &format!("file:{other}"), "--on", "this", "--plan"];
    sandbox
        .nestor(advised)
        .assert()
        .success()
        .stdout(contains(format!("  writes to {other}: destroys everything on it")));
    study(&[]).assert().failure().stderr(contains(format!("--allow {disk} --allow {other}")));
    // Overwriting is another question, and another path is another path.
    let more = ["--allow", &disk, "--overwrite", &other, "--allow", "/dev/null"];
    study(&more).assert().failure().stderr(contains(format!("--allow {other}")).and(contains(&disk).not()));
    assert!(!sandbox.path("data").join("nestor/reports").exists(), "nothing was begun");
}
