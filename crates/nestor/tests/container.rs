//! The program as process 1: of a container it is the ordinary program, only of a lab machine its init.
//!
//! Always in a mount namespace of its own, so that whatever it mounts goes with it.

#![allow(clippy::print_stdout, clippy::print_stderr)] // For who runs it, not for who uses the program.

mod support;

use std::fs;
use std::io::Read as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use predicates::str::contains;
use support::{Sandbox, binary};

/// The program as process 1 of a new pid namespace; `None` where the kernel does not let this user make one.
fn as_process_1(more: &[&str], program: &Path, arguments: &[&str]) -> Option<Output> {
    let mut unshare = Command::new("unshare");
    unshare.args(["--pid", "--fork", "--mount"]);
    if !rustix::process::geteuid().is_root() {
        unshare.args(["--user", "--map-root-user"]);
    }
    let tried = Command::new("unshare").args(unshare.get_args()).arg("true").output();
    if !tried.is_ok_and(|output| output.status.success()) {
        eprintln!("not tried: namespaces cannot be made here");
        return None;
    }
    // What the kernel would hand to an init: a container's maker can say it as well.
    unshare.env("nestor_guest", "1").env("nestor.guest", "1");
    Some(unshare.args(more).arg(program).args(arguments).output().unwrap())
}

fn assert_is_the_ordinary_program(output: &Output) {
    let said = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    assert!(output.status.success(), "{}: {said:?}", output.status);
    assert_eq!(said[0].trim(), format!("nestor {}", env!("CARGO_PKG_VERSION")), "{said:?}");
    assert_eq!(said[1], "");
}

#[test]
fn process_1_of_a_container_is_the_ordinary_program() {
    let Some(output) = as_process_1(&["--mount-proc"], &binary(), &["--version"]) else { return };
    assert_is_the_ordinary_program(&output);
}

#[test]
fn process_1_of_a_container_mounts_nothing_to_find_out_that_it_is_no_guest() {
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let root = folder.path();
    // There is no /proc in it to ask.
    fs::copy(binary(), root.join("nestor")).unwrap();
    for directory in ["proc", "sys", "dev"] {
        fs::create_dir(root.join(directory)).unwrap();
    }
    // The shell is the first process of one namespace, the program of one in it.
    let script = r#"unshare --pid --fork chroot "$1" /nestor --version; end=$?
        grep -F " $1/" /proc/self/mountinfo >&2; exit $end"#;
    let shell = ["-c", script, "sh", root.to_str().unwrap()];
    let Some(output) = as_process_1(&[], Path::new("sh"), &shell) else { return };
    assert_is_the_ordinary_program(&output);
}

#[test]
fn an_agent_that_lives_in_another_container_is_not_cleaned_away() {
    let Some(tried) = as_process_1(&[], Path::new("true"), &[]) else { return };
    assert!(tried.status.success());
    if !rustix::process::geteuid().is_root() {
        eprintln!("not tried: this needs root, to be the same user inside and outside");
        return;
    }
    let sandbox = Sandbox::new();
    let mut container = Command::new("unshare");
    container
        .args(["--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", "\"$0\" agent; true"])
        .arg(binary());
    container.env("NESTOR_WORK", sandbox.path("")).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut container = container.spawn().unwrap();
    // Its greeting: from now on it may be told to make things.
    container.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
    let work = || sandbox.left_behind().into_iter().filter(|l| l.starts_with("work directory")).count();
    assert_eq!(work(), 1);
    let clean = sandbox.nestor(["doctor", "--clean"]).assert().success();
    assert_eq!(work(), 1, "{:?}", clean.get_output());
    // Killed with its namespace: now nobody out here can tell what of it is left where.
    let input = container.stdin.take();
    container.kill().unwrap();
    container.stdout.take().unwrap().read_to_end(&mut Vec::new()).unwrap();
    container.wait().unwrap();
    drop(input);
    sandbox.nestor(["doctor", "--clean"]).assert().success().stdout(contains("another container"));
    assert_eq!(work(), 1);
}
