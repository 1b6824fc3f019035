//! What becomes of a run over a network when a part of it fails: a clear error, nothing left, finished results kept.

mod support;

use std::process::Command;

use support::{Running, Sandbox, alone, can_run};

/// Minutes of virtual time: longer than it takes to break something.
const LOAD: &str = "fio:rand-write:size=16M:bs=4k:depth=1:engine=psync:fsync=1:runtime=10m";

/// Breaks a part of a running workload's network by ending a process of the run, and looks at what is said and what is left.
fn broken_while_it_runs(place: &str, what: &[&str], words: &[&str]) {
    if !can_run(false, true) {
        return;
    }
    let _alone = alone();
    let sandbox = Sandbox::new();
    let store = sandbox.text("results.sqlite");
    let stack = "nfs:vers=3/link:memory=512M/ext4/hdd";
    let mut run = sandbox.start(&["run", stack, LOAD, "-n", "1", "--on", place, "--store", &store], &[]);
    wait_for_load(&mut run);
    let pid = run.wait_for_process(what);
    let killed = Command::new("kill").args(["-KILL", &pid.to_string()]).status().expect("kill runs");
    assert!(killed.success(), "process {pid} is there");
    let ended = run.end();
    assert!(!ended.succeeded, "{}", ended.stderr);
    let said = format!("{}{}", ended.stdout, ended.stderr);
    let missing: Vec<_> = words.iter().filter(|word| !said.contains(**word)).collect();
    assert!(missing.is_empty(), "{missing:?} is not in what was said:\n{said}");
    sandbox.assert_nothing_left();
}

/// Waits until the workload's program is about to start: its machine's processor times are watched.
fn wait_for_load(run: &mut Running<'_>) {
    run.wait_for_log(&["client: nestor trace processors"]);
}

#[test]
fn a_link_that_is_cut_in_virtual_time() {
    broken_while_it_runs("emulated:time=virtual", &["link", "serve"], &["link"]);
}

#[test]
fn a_link_that_is_cut_in_real_time() {
    broken_while_it_runs("emulated:time=real", &["link", "serve"], &["link"]);
}

#[test]
fn a_server_that_dies_in_virtual_time() {
    broken_while_it_runs("emulated:time=virtual", &["qemu-system", "-name host"], &["host"]);
}

#[test]
fn a_server_that_dies_in_real_time() {
    broken_while_it_runs("emulated:time=real", &["qemu-system", "-name host"], &["host"]);
}
