//! Commands that remove or cut files: only what they made.

mod support;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

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
    serve(&thesis, &new, &[]).assert().failure().stderr(contains("is not a socket and was not changed"));
    serve(&socket, &new, &["--control", &thesis]).assert().failure().stderr(contains("is not a socket"));
    serve(&socket, &image, &[]).assert().failure().stderr(contains("`--size 2097152` serves all of it"));
    serve(&socket, &thesis, &[])
        .assert()
        .failure()
        .stderr(contains("it holds 19 bytes, fewer than the disk's"));
    for option in ["--log", "--stamps"] {
        for (file, reason) in [(&thesis, "it holds something else"), (&link, "it is a link")] {
            serve(&socket, &new, &[option, file]).assert().failure().stderr(contains(reason));
        }
    }
    serve(&socket, &link, &[]).assert().failure().stderr(contains("it is a link"));
    assert_eq!(fs::read_to_string(&thesis).unwrap(), "three years of work");
    assert_eq!(fs::read(&image).unwrap(), vec![7; 2 << 20]);
    assert!(!Path::new(&socket).exists(), "and what was made for it is gone");
}

/// Ends a server however the test ends.
struct Served(Child);

impl Drop for Served {
    fn drop(&mut self) {
        let _ = rustix::process::kill_process(
            rustix::process::Pid::from_child(&self.0),
            rustix::process::Signal::TERM,
        );
        let _ = self.0.wait();
    }
}

#[test]
fn a_disk_served_without_a_umask_keeps_its_sockets_to_its_user_and_its_data_have_no_name() {
    let sandbox = Sandbox::new();
    let [socket, control] = ["disk.sock", "control.sock"].map(|name| sandbox.path(name));
    let mut command = Command::new("sh");
    command
        .args(["-c", "umask 000; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_nestor")])
        .args(["disk", "serve", "null", "--size", "1M", "--socket"])
        .arg(&socket)
        .arg("--control")
        .arg(&control)
        .env("NESTOR_WORK", sandbox.path(""));
    let served = Served(command.spawn().unwrap());
    // The sockets are there a moment before the data file is open.
    let open_data = || {
        let open = fs::read_dir(format!("/proc/{}/fd", served.0.id())).unwrap().flatten();
        let mut files = open.filter_map(|fd| fs::read_link(fd.path()).ok());
        files
            .find(|path| path.starts_with(sandbox.path("")) && path.to_string_lossy().ends_with(" (deleted)"))
    };
    let deadline = Instant::now() + REFUSED_WITHIN;
    while open_data().filter(|_| socket.exists() && control.exists()).is_none() {
        assert!(Instant::now() < deadline, "no disk is served");
        std::thread::sleep(Duration::from_millis(10));
    }
    let mode = |path: &Path| path.symlink_metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!([mode(&socket), mode(&control)], [0o600; 2]);
    // Whoever kills it leaves its sockets and nothing else.
    let entries = fs::read_dir(sandbox.path("")).unwrap().flatten().map(|entry| entry.path());
    assert_eq!(entries.collect::<BTreeSet<_>>(), BTreeSet::from([socket, control]));
}

/// The sources of a directory that are no tests.
fn sources(directory: &Path, into: &mut Vec<PathBuf>) {
    for path in fs::read_dir(directory).unwrap().flatten().map(|entry| entry.path()) {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        if name == "tests" {
            continue;
        }
        if path.is_dir() {
            sources(&path, into);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            into.push(path);
        }
    }
}

#[test]
fn every_temporary_directory_is_made_by_the_function_that_makes_it_private() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut files = Vec::new();
    for one in fs::read_dir(crates).unwrap().flatten() {
        sources(&one.path().join("src"), &mut files);
    }
    assert!(files.len() > 300, "{}", files.len());
    let makes = ["tempdir()", "tempdir_in(", "TempDir::new", "TempDir::with_"];
    let made_in = files.iter().filter(|path| {
        let text = fs::read_to_string(path).unwrap();
        let program = text.split("#[cfg(test)]\nmod ").next().unwrap();
        makes.iter().any(|call| program.contains(call))
    });
    let made_in: Vec<_> = made_in.map(|path| path.file_name().unwrap().to_str().unwrap()).collect();
    assert_eq!(made_in, ["temporary.rs"], "the others do not set a mode");
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
    let thesis = sandbox.text("thesis.odt");
    fs::write(&thesis, "three years of work").unwrap();
    let onto = ["trace", "summarize", "alone", "--requests", &thesis, "--remove"];
    sandbox.nestor(onto).assert().failure().stderr(contains("it holds something else"));
    assert_eq!(fs::read_to_string(&thesis).unwrap(), "three years of work");
    let summarize = |name: &str| sandbox.nestor(["trace", "summarize", name, "--remove"]);
    summarize("alone").assert().success().stderr(predicate::str::is_empty());
    assert!(!alone.exists());
    let shared = recording("shared");
    fs::create_dir_all(shared.join("letters")).unwrap();
    fs::write(shared.join("letters/1.txt"), "dear").unwrap();
    fs::write(shared.join("thesis.odt"), "three years of work").unwrap();
    summarize("shared").assert().success().stderr(contains(
        "not removed, because it is not part of the recording: shared/letters, shared/thesis.odt",
    ));
    assert_eq!(fs::read_to_string(shared.join("letters/1.txt")).unwrap(), "dear");
    assert_eq!(fs::read_dir(&shared).unwrap().count(), 2, "the recording is gone");
}
