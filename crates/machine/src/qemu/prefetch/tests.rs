#![allow(clippy::print_stderr)] // For who runs it.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use super::*;
use crate::qemu::QEMU;

const DISK: &str = "nestor-disk";
const NODE: &str = "nestor-disk-node";

/// Only ends what hangs.
const LIMIT: Duration = Duration::from_secs(120);

/// A server whose image is never read: each read takes an hour.
const NEVER: &str = "driver=null-co,size=64M,latency-ns=3600000000000";

/// The same with an image that is read at once.
const AT_ONCE: &str = "driver=null-co,size=64M";

/// A program that is killed at the end.
struct Process(Child);

impl Process {
    fn start(argv: &[&str]) -> Self {
        let mut command = Command::new(argv[0]);
        Self(command.args(&argv[1..]).stdin(Stdio::null()).spawn().expect("the program is there"))
    }

    fn kill(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A QEMU without a machine, which has an overlay over an image from a server.
struct Overlay {
    qmp: Qmp,
    server: Process,
    _qemu: Process,
    _directory: TempDir,
}

fn wait_for(path: &Path) {
    let deadline = Instant::now() + LIMIT;
    while !path.exists() {
        assert!(Instant::now() < deadline, "{} is not made", path.display());
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A socket is there before anything listens at it.
fn connect(monitor: &Path) -> Qmp {
    let deadline = Instant::now() + LIMIT;
    loop {
        match Qmp::connect(monitor, LIMIT) {
            Ok(qmp) => return qmp,
            Err(e) => assert!(Instant::now() < deadline, "QEMU has no monitor: {e}"),
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// `None` where a program is missing.
fn overlay(served: &str) -> Option<Overlay> {
    let programs = [QEMU, "qemu-nbd", "qemu-img"];
    let is_missing = |program: &&&str| Command::new(program).arg("--version").output().is_err();
    if let Some(missing) = programs.iter().find(is_missing) {
        eprintln!("not tried: there is no {missing}");
        return None;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| -> PathBuf { directory.path().join(name) };
    let text = |name: &str| path(name).display().to_string();
    let (socket, ready) = (text("nbd.sock"), text("nbd.pid"));
    let server = ["qemu-nbd", "--read-only", "--persistent", "--shared", "4", "--socket", &socket];
    let server = Process::start(&[&server[..], &["--pid-file", &ready, "--image-opts", served]].concat());
    wait_for(&path("nbd.pid"));
    let image = ["create", "-q", "-f", "qcow2", &text("disk.qcow2"), "64M"];
    assert!(Command::new("qemu-img").args(image).status().unwrap().success());
    let monitor = format!("unix:{},server=on,wait=off", text("qmp.sock"));
    let qemu =
        Process::start(&[QEMU, "-machine", "none", "-nodefaults", "-display", "none", "-qmp", &monitor]);
    let mut qmp = connect(&path("qmp.sock"));
    let nbd = json!({ "driver": "nbd", "node-name": "source", "read-only": true, "server": { "type": "unix", "path": socket } });
    let file = json!({ "driver": "file", "node-name": "file", "filename": text("disk.qcow2") });
    let node = json!({ "driver": "qcow2", "node-name": NODE, "file": "file", "backing": "source" });
    for arguments in [nbd, file, node] {
        qmp.execute("blockdev-add", &arguments).unwrap();
    }
    Some(Overlay { qmp, server, _qemu: qemu, _directory: directory })
}

impl Overlay {
    fn state(&mut self) -> Prefetch {
        state(&mut self.qmp, DISK).unwrap()
    }

    /// How it has ended.
    fn end(&mut self) -> Prefetch {
        let deadline = Instant::now() + LIMIT;
        loop {
            match self.state() {
                Prefetch::Running => assert!(Instant::now() < deadline, "it goes on"),
                ended => return ended,
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

#[test]
fn a_server_that_ends_before_all_is_there_is_noticed_with_the_time() {
    let Some(mut overlay) = overlay(NEVER) else { return };
    let begun_ns = monotonic_ns();
    begin(&mut overlay.qmp, DISK, NODE).unwrap();
    assert_eq!(overlay.state(), Prefetch::Running);
    overlay.server.kill();
    let Prefetch::Failed { cause, why, at_ns } = overlay.end() else { panic!("it has not failed") };
    assert_eq!((cause, why.as_str()), (Cause::Other, "QEMU says `Input/output error`"));
    // QEMU reads the clock in microseconds.
    let at_ns = at_ns.expect("QEMU has a clock") + 1000;
    assert!((begun_ns..=monotonic_ns() + 1000).contains(&at_ns), "{begun_ns} {at_ns}");
    assert!(matches!(overlay.state(), Prefetch::Failed { .. }), "it stays so");
}

#[test]
fn a_prefetch_of_all_is_complete_and_another_one_begins_anew() {
    let Some(mut overlay) = overlay(AT_ONCE) else { return };
    begin(&mut overlay.qmp, DISK, NODE).unwrap();
    assert_eq!(overlay.end(), Prefetch::Complete);
    let ended = EndedJob { job: job_of(DISK), error: Some("x".to_owned()), realtime_us: None };
    overlay.qmp.forget_job(&job_of(DISK));
    assert!(matches!(overlay.state(), Prefetch::Failed { at_ns: None, .. }), "nothing is known of it");
    assert!(matches!(of_end(&ended, (0, 0)), Prefetch::Failed { at_ns: None, .. }));
}

#[test]
fn a_node_that_is_full_is_told_from_a_server_that_is_gone() {
    let ended = |error: &str| EndedJob {
        job: job_of(DISK),
        error: Some(error.to_owned()),
        realtime_us: Some(1_000_000),
    };
    let failed = of_end(&ended("No space left on device"), (5_000_000_000, 3_000_000_000));
    let why = "QEMU says `No space left on device`".to_owned();
    assert_eq!(failed, Prefetch::Failed { cause: Cause::NoSpace, why, at_ns: Some(3_000_000_000) });
    let failed = of_end(&ended("Input/output error"), (0, 0));
    assert!(matches!(failed, Prefetch::Failed { cause: Cause::Other, .. }));
}
