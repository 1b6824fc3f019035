//! The program as process 1: of a container it is the ordinary program, only of a lab machine its init.
//!
//! Always in a mount namespace of its own, so that whatever it mounts goes with it.

#![allow(clippy::print_stdout, clippy::print_stderr)] // For who runs it, not for who uses the program.

mod support;

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Output, Stdio};

use predicates::str::contains;
use serde_json::json;
use support::{Sandbox, binary, copy_program};

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
    copy_program(&binary(), &root.join("nestor"));
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
    // Killed with its namespace: from outside, what is left of it is not visible.
    let input = container.stdin.take();
    container.kill().unwrap();
    container.stdout.take().unwrap().read_to_end(&mut Vec::new()).unwrap();
    container.wait().unwrap();
    drop(input);
    sandbox.nestor(["doctor", "--clean"]).assert().success().stdout(contains("another container"));
    assert_eq!(work(), 1);
}

/// A shell in a mount namespace of its own that shares the pid namespace, as a container with the host's.
struct Shell {
    shell: Child,
    answers: BufReader<ChildStdout>,
}

impl Shell {
    fn new(sandbox: &Sandbox) -> Self {
        let mut unshare = Command::new("unshare");
        unshare.args(["--mount", "sh", "-eu"]).env("NESTOR_WORK", sandbox.path("")).env("NESTOR", binary());
        unshare.current_dir(sandbox.path("")).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut shell = unshare.spawn().unwrap();
        let answers = BufReader::new(shell.stdout.take().unwrap());
        Self { shell, answers }
    }

    /// Runs commands; what they print, with the end they come to.
    fn run(&mut self, commands: &str) -> String {
        let end = "-- end of the commands --";
        writeln!(self.shell.stdin.as_mut().unwrap(), "{{ {commands}; }} 2>&1\necho '{end}'").unwrap();
        let mut said = String::new();
        loop {
            let before = said.len();
            assert_ne!(self.answers.read_line(&mut said).unwrap(), 0, "{commands} failed: {said}");
            if said[before..].trim_end() == end {
                said.truncate(before);
                return said;
            }
        }
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        drop(self.shell.stdin.take());
        let _ = self.shell.wait();
    }
}

/// The kernel gives a dead container's numbers of namespaces, mounts and devices to the next one.
#[test]
fn what_another_container_mounted_where_a_dead_one_of_the_same_numbers_had_is_left_alone() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("not tried: this needs root, to mount");
        return;
    }
    let sandbox = Sandbox::new();
    let mut shell = Shell::new(&sandbox);
    shell.run(
        "mkfifo in out; \"$NESTOR\" agent <in >out & agent=$!; exec 3>in 4<out; head -c 1 <&4 >first; \
         kill -KILL $agent; wait $agent || true; exec 3>&- 4<&-",
    );
    let work = fs::read_dir(sandbox.path("nestor-0")).unwrap().next().unwrap().unwrap().path();
    let place = sandbox.path("place");
    let noted =
        shell.run("mkdir place; mount -t tmpfs tmpfs place; grep -F \" $PWD/place \" /proc/self/mountinfo");
    let device = fs::metadata(format!("/proc/{}/root{}", shell.shell.id(), place.display())).unwrap().dev();
    shell.run("umount place; mount -t tmpfs tmpfs place; echo another >place/notes");
    let fields: Vec<&str> = noted.split_whitespace().collect();
    let line = json!({
        "id": fields[0].parse::<u64>().unwrap(), "device": fields[2], "root": fields[3], "point": fields[4],
        "kind": "tmpfs", "source": "tmpfs"
    });
    let ledger = work.join("ledger.json");
    // What older versions wrote, while it was being mounted and after; and what this one writes.
    let entries = [
        json!({ "target": place, "device": null }),
        json!({ "target": place, "device": device }),
        json!({ "target": place, "mounted": null }),
        json!({ "target": place, "mounted": { "unique": 1, "line": line } }),
    ];
    for entry in entries {
        let mut found: serde_json::Value = serde_json::from_slice(&fs::read(&ledger).unwrap()).unwrap();
        found["entries"] = json!([[1, { "mount": entry }]]);
        fs::write(&ledger, found.to_string()).unwrap();
        let said = shell.run("\"$NESTOR\" doctor --clean || true");
        assert_eq!(shell.run("cat place/notes"), "another\n", "{entry}: {said}");
        let is_known = entry["mounted"].is_object();
        let left_alone = format!("what is mounted at {} was left alone", place.display());
        assert!(is_known || said.contains(&left_alone) && ledger.exists(), "{entry}: {said}");
    }
}
