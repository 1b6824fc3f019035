//! Commands that remove or cut files: only what they made.

mod support;

use std::fs;
use std::path::Path;
use std::time::Duration;

use predicates::prelude::*;
use predicates::str::contains;
use support::Sandbox;

/// Ends a server that should have refused.
const REFUSED_WITHIN: Duration = Duration::from_secs(30);

#[test]
fn serving_a_disk_removes_no_file_and_cuts_none() {
    let sandbox = Sandbox::new();
    let [thesis, image, link] = ["thesis.odt", "image.raw", "link.raw"].map(|name| sandbox.text(name));
    let serve = |socket: &str, data: &str, more: &[&str]| {
        let mut arguments = vec!["disk", "serve", "null", "--socket", socket, "--data", data, "--size", "1M"];
        arguments.extend(more);
        let mut command = sandbox.nestor(arguments);
        command.timeout(REFUSED_WITHIN);
        command
    };
    fs::write(&thesis, "three years of work").unwrap();
    fs::write(&image, vec![7; 2 << 20]).unwrap();
    std::os::unix::fs::symlink(&thesis, &link).unwrap();
    let socket = sandbox.text("disk.sock");
    let new = sandbox.text("new.raw");
    serve(&thesis, &new, &[]).assert().failure().stderr(contains("is no socket and stays as it is"));
    serve(&socket, &new, &["--control", &thesis]).assert().failure().stderr(contains("is no socket"));
    serve(&socket, &image, &[]).assert().failure().stderr(contains("`--size 2097152` serves all of it"));
    serve(&socket, &link, &[]).assert().failure().stderr(contains("it is a link"));
    assert_eq!(fs::read_to_string(&thesis).unwrap(), "three years of work");
    assert_eq!(fs::read(&image).unwrap(), vec![7; 2 << 20]);
    assert!(!Path::new(&socket).exists(), "and what was made for it is gone");
}

#[test]
fn a_recording_is_removed_and_what_lies_beside_it_is_not() {
    let sandbox = Sandbox::new();
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../trace/tests/data");
    let recording = |name: &str| {
        let at = sandbox.path(name);
        fs::create_dir(&at).unwrap();
        for cpu in [0, 1] {
            fs::copy(
                data.join(format!("ext4-loop.blktrace.{cpu}")),
                at.join(format!("trace.blktrace.{cpu}")),
            )
            .unwrap();
        }
        let summary = serde_json::json!({
            "method": "blktrace", "why": "asked for", "device": {"major": 7, "minor": 0}, "partitions": [],
            "dropped_events": 0, "files": ["trace.blktrace.0", "trace.blktrace.1"], "started_monotonic_ns": 0,
            "started_realtime_ns": 0, "stopped_monotonic_ns": 0
        });
        fs::write(at.join("record.json"), summary.to_string()).unwrap();
        at
    };
    let alone = recording("alone");
    let summarize = |name: &str| sandbox.nestor(["trace", "summarize", name, "--remove"]);
    summarize("alone").assert().success().stderr(predicate::str::is_empty());
    assert!(!alone.exists());
    let shared = recording("shared");
    fs::create_dir_all(shared.join("letters")).unwrap();
    fs::write(shared.join("letters/1.txt"), "dear").unwrap();
    fs::write(shared.join("thesis.odt"), "three years of work").unwrap();
    summarize("shared").assert().success().stderr(contains(
        "left where it is, for it is no part of the recording: shared/letters, shared/thesis.odt",
    ));
    assert_eq!(fs::read_to_string(shared.join("letters/1.txt")).unwrap(), "dear");
    assert_eq!(fs::read_dir(&shared).unwrap().count(), 2, "the recording is gone");
}
