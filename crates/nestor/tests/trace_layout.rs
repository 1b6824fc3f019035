//! `nestor trace layout` on loop devices of this machine.

mod support;

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use nestor_layout::{Class, Layout};
use serde_json::Value;
use support::loop_mount::{LoopMount, tool};
use support::{Sandbox, can_run, has_program};

/// Makes, grows and deletes files as long as it is not told to stop.
fn keep_busy(root: &Path, stop: &AtomicBool) {
    let mut round = 0_u64;
    while !stop.load(Ordering::Relaxed) {
        let path = root.join(format!("busy-{}", round % 50));
        fs::write(&path, vec![1; 20_000 + round as usize % 7 * 5000]).unwrap();
        if round.is_multiple_of(3) {
            fs::remove_file(&path).unwrap();
        }
        round += 1;
    }
}

#[test]
fn the_layout_of_a_busy_file_system_is_whole_and_finds_the_image() {
    if !can_run(true, false) {
        return;
    }
    for file_system in ["ext4", "xfs"] {
        if !has_program(&format!("mkfs.{file_system}")) {
            eprintln!("skipped: there is no mkfs.{file_system}");
            continue;
        }
        let sandbox = Sandbox::new();
        let mounted = LoopMount::new(&sandbox, file_system);
        let image = format!("{}/disk.img", mounted.point);
        let contents: Vec<u8> = (0..3_000_000_u32).map(|number| (number / 1000) as u8).collect();
        fs::write(&image, &contents).unwrap();
        let output = sandbox.text("layout");
        let stop = AtomicBool::new(false);
        let printed = thread::scope(|scope| {
            scope.spawn(|| keep_busy(Path::new(&mounted.point), &stop));
            let device = ["--device", &mounted.device, "--mount", &mounted.point];
            let rest = ["--image", &image, "--output", &output, "--json"];
            let result = sandbox.nestor([&["trace", "layout"], &device[..], &rest].concat()).output();
            stop.store(true, Ordering::Relaxed);
            result.unwrap()
        });
        assert!(printed.status.success(), "{}", String::from_utf8_lossy(&printed.stderr));
        // Thawed, or the writer above would not have ended.
        let view: Value = serde_json::from_slice(&printed.stdout).unwrap();
        assert_eq!(view["file_system"], file_system);
        assert_eq!(view["remarks"], Value::Array(Vec::new()), "{view}");
        assert!(view["classes"]["image-data"].as_u64().unwrap() >= 3_000_000, "{view}");
        for class in ["journal", "inode", "superblock", "allocation-map", "file-data"] {
            assert!(view["classes"][class].as_u64().is_some_and(|bytes| bytes > 0), "{class}: {view}");
        }
        let layout = Layout::read_from(&mut &fs::read(&output).unwrap()[..]).unwrap();
        let inode = view["images"][0]["inode"].as_u64().unwrap();
        let device = File::open(sandbox.path(&format!("{file_system}.disk"))).unwrap();
        let mut found = vec![0; contents.len()];
        for (position, start, bytes) in layout.file(inode) {
            let length = (bytes as usize).min(found.len().saturating_sub(position as usize));
            device.read_exact_at(&mut found[position as usize..][..length], start).unwrap();
        }
        assert!(found == contents, "the image is not where the layout says");
        assert_eq!(layout.pieces(layout.file(inode)[0].1, 1).next().unwrap().class, Class::ImageData);
    }
}

#[test]
fn what_must_not_be_frozen_is_not() {
    if !can_run(true, false) || !has_program("mkfs.ext4") {
        return;
    }
    let sandbox = Sandbox::new();
    let mounted = LoopMount::new(&sandbox, "ext4");
    let inner = format!("{}/inner", mounted.point);
    fs::create_dir(&inner).unwrap();
    let on_it = format!("{}/layout", mounted.point);
    let elsewhere = sandbox.text("layout");
    let refused = |mount: &str, output: &str, expected: &str| {
        let arguments =
            ["trace", "layout", "--device", &mounted.device, "--mount", mount, "--output", output];
        let result = sandbox.nestor(arguments).output().unwrap();
        let errors = String::from_utf8_lossy(&result.stderr);
        assert!(!result.status.success() && errors.contains(expected), "{errors}");
        assert!(!Path::new(output).exists());
    };
    refused("/", &elsewhere, "is not mounted at /");
    refused(&inner, &elsewhere, "is not mounted at");
    refused(&mounted.point, &on_it, "must not be frozen: the layout would be written to it");
    let arguments = ["trace", "layout", "--device", &mounted.device, "--image", &sandbox.text("ext4.disk")];
    let result = sandbox.nestor(arguments).output().unwrap();
    assert!(String::from_utf8_lossy(&result.stderr).contains("is not on /dev/loop"));
    // Read without a freeze: it says so.
    let result = sandbox.nestor(["trace", "layout", "--device", &mounted.device]).output().unwrap();
    assert!(String::from_utf8_lossy(&result.stdout).contains("was not frozen while its layout was read"));
    tool(&["fsfreeze", "--freeze", &mounted.point]);
    refused(&mounted.point, &elsewhere, "could not be frozen");
}

#[test]
fn a_file_system_is_thawed_when_the_program_that_froze_it_is_killed() {
    if !can_run(true, false) || !has_program("mkfs.ext4") {
        return;
    }
    let sandbox = Sandbox::new();
    let mounted = LoopMount::new(&sandbox, "ext4");
    let thaws =
        || Command::new("fsfreeze").args(["--unfreeze", &mounted.point]).output().unwrap().status.success();
    // What the guard of a program does that has frozen it: once the program is gone, once it has done its work.
    for (told, is_thawed) in [(&b""[..], true), (&b"d"[..], false)] {
        let mut guard = sandbox.nestor_with_input(&["trace", "thaw-when-left", &mounted.point]);
        tool(&["fsfreeze", "--freeze", &mounted.point]);
        let mut input = guard.stdin.take().unwrap();
        input.write_all(told).unwrap();
        drop(input);
        assert!(guard.wait().unwrap().success());
        // What is not frozen cannot be thawed.
        assert_eq!(thaws(), !is_thawed);
    }
}

#[test]
fn a_file_without_a_file_system_is_refused_in_words() {
    let sandbox = Sandbox::new();
    let empty = sandbox.disk("empty", 1 << 20);
    let result = sandbox.nestor(["trace", "layout", "--device", &empty]).output().unwrap();
    let errors = String::from_utf8_lossy(&result.stderr);
    assert!(errors.contains("has no file system whose layout can be read"), "{errors}");
}
