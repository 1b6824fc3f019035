//! From a recording on this machine to requests with classes: `nestor trace record`, `layout`, `summarize`.

mod support;

use std::fs::{self, File};
use std::path::Path;

use nestor_layout::Class;
use nestor_trace::{Operation, RequestReader};
use rustix::process::Signal;
use serde_json::Value;
use support::loop_mount::{LoopMount, tool};
use support::{Sandbox, can_run, has_program, signal};

const FILES: usize = 40;
const FILE_BYTES: usize = 120 << 10;

/// Files that are made, each made durable, and read again.
fn work_on(root: &str) {
    for number in 0..FILES {
        let directory = format!("{root}/{}", number % 4);
        fs::create_dir_all(&directory).unwrap();
        let path = format!("{directory}/{number}");
        fs::write(&path, vec![number as u8 + 1; FILE_BYTES]).unwrap();
        File::open(&path).unwrap().sync_all().unwrap();
    }
    tool(&["sync", "--file-system", root]);
    for number in 0..FILES {
        let path = format!("{root}/{}/{number}", number % 4);
        assert_eq!(fs::read(&path).unwrap().len(), FILE_BYTES);
    }
}

/// Bytes of a class in one direction.
fn bytes(metrics: &Value, class: &str, direction: &str) -> u64 {
    metrics["classes"][class][format!("{direction}_bytes")].as_u64().unwrap_or(0)
}

#[test]
fn what_a_file_system_writes_is_told_apart() {
    if !can_run(true, false) {
        return;
    }
    for file_system in ["ext2", "ext3", "ext4", "xfs", "btrfs"] {
        if !has_program(&format!("mkfs.{file_system}")) {
            eprintln!("skipped: there is no mkfs.{file_system}");
            continue;
        }
        let sandbox = Sandbox::new();
        let mounted = LoopMount::new(&sandbox, file_system);
        let (recording, layout, requests) =
            (sandbox.text("recording"), sandbox.text("layout"), sandbox.text("requests"));
        let arguments = ["trace", "record", "--device", &mounted.device, "--output", &recording];
        let mut recorder = sandbox.start(&arguments, &[]);
        recorder.wait_for_file(&Path::new(&recording).join("ready"));
        work_on(&mounted.point);
        signal(recorder.pid(), Signal::INT);
        let recorded = recorder.end();
        assert!(recorded.succeeded, "{file_system}: {}", recorded.stderr);

        let place = ["--device", &mounted.device, "--mount", &mounted.point, "--output", &layout];
        sandbox.nestor([&["trace", "layout"], &place[..]].concat()).assert().success();
        let outputs = ["--layout", &layout, "--requests", &requests, "--layer", file_system, "--json"];
        let output =
            sandbox.nestor([&["trace", "summarize", &recording], &outputs[..]].concat()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let metrics: Value = serde_json::from_slice(&output.stdout).unwrap();
        let classes = &metrics["classes"];

        let written = (FILES * FILE_BYTES) as u64;
        let data = bytes(&metrics, "file-data", "write");
        assert!(
            (written..written * 11 / 10).contains(&data),
            "{file_system}: {data} of {written}: {classes:#}"
        );
        // The others write theirs back when it suits them.
        let inodes = bytes(&metrics, "inode", "write");
        assert!(inodes > 0 || !file_system.starts_with("ext"), "{file_system}: {classes:#}");
        let journal = bytes(&metrics, "journal", "write");
        // The blocks of btrfs' log are something else again after the next commit.
        let journalled = ["ext3", "ext4", "xfs"].contains(&file_system);
        assert_eq!(journal > 0, journalled, "{file_system}: {classes:#}");
        let all: u64 = ["read", "write"]
            .iter()
            .map(|direction| {
                let classes = classes.as_object().unwrap().keys();
                classes.map(|class| bytes(&metrics, class, direction)).sum::<u64>()
            })
            .sum();
        let unknown = bytes(&metrics, "unknown", "read") + bytes(&metrics, "unknown", "write");
        assert!(unknown * 50 <= all, "{file_system}: {unknown} of {all} bytes have no class: {classes:#}");

        let reader = RequestReader::open(&requests).unwrap();
        assert_eq!(reader.header().layer, file_system);
        let of_data = reader
            .map(Result::unwrap)
            .filter(|request| request.operation == Operation::Write && request.class == Class::FileData);
        assert_eq!(of_data.map(|request| request.bytes).sum::<u64>(), data, "{file_system}");
    }
}
