//! The whole way on an emulated host: modelled disk, host file system, image, guest under KVM, guest file system.

mod support;

use predicates::prelude::*;
use predicates::str::contains;
use rustix::process::Signal;
use serde_json::Value;
use support::{Sandbox, alone, can_run, failures, layer_bytes, marks, signal};

#[test]
fn nested_file_systems_are_measured_at_every_layer_and_an_image_that_does_not_fit_keeps_nobody_from_it() {
    if !can_run(false, true) {
        return;
    }
    let _alone = alone();
    let sandbox = Sandbox::new();
    let stacks = "{ext3/kvm/raw,ext4/kvm/raw:size=40G}/jfs/null";
    let output = sandbox
        .nestor(["run", stacks, "fio:seq-write:scale=0.01", "-n", "1", "--json"])
        .output()
        .expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    let views: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {said}"));

    let nested = &views[0];
    let written =
        ["application", "ext3", "jfs", "null"].map(|layer| layer_bytes(nested, layer).unwrap_or_default());
    assert!(written[0] >= 50 << 20, "the application wrote its data set: {written:?}");
    assert!(written.iter().all(|&bytes| bytes >= written[0]), "and it went through every layer: {written:?}");
    let machines = nested["environment"]["machines"].as_array().expect("a result says where it was made");
    assert_eq!(machines.len(), 2, "host and guest: {machines:?}");
    let emulated = machines.iter().any(|machine| machine["accelerator"] == "tcg");
    assert_eq!(marks(nested).contains(&"emulated-cpu".to_owned()), emulated, "{machines:?}");
    for machine in machines {
        assert!(machine["kernel"].as_str().is_some_and(|kernel| !kernel.is_empty()), "{machine}");
    }

    let too_large = failures(&views[1]);
    assert!(too_large.contains("an image of 40960 MiB does not fit"), "{too_large}");
    assert!(too_large.contains("MiB free; use a smaller `size=`"), "{too_large}");
    assert!(!output.status.success(), "a stack without a result is a failure");

    assert_eq!(sandbox.left_behind(), Vec::<String>::new());
    let kept = sandbox.nestor(["report", "--json"]).output().expect("it runs");
    let kept: Value = serde_json::from_slice(&kept.stdout).expect("a list of runs");
    assert_eq!(kept["total"], 2, "both are kept, the failure too");
}

#[test]
#[ignore = "boots an emulated host; part of `make test-long`"]
fn a_full_disk_under_the_modelled_disk_is_named() {
    if !can_run(true, true) {
        return;
    }
    let _alone = alone();
    let sandbox = Sandbox::new();
    let small = sandbox.text("small");
    std::fs::create_dir(&small).unwrap();
    let mount = ["-t", "tmpfs", "-o", "size=200M", "tmpfs", &small];
    assert!(std::process::Command::new("mount").args(mount).status().unwrap().success());
    let run = sandbox
        .nestor(["run", "ext4/null", "fio:seq-write:scale=0.1", "-n", "1"])
        .env("NESTOR_WORK", &small)
        .assert();
    let left: Vec<_> = std::fs::read_dir(format!("{small}/nestor-0")).unwrap().collect();
    assert!(std::process::Command::new("umount").arg(&small).status().unwrap().success());
    run.failure()
        .stdout(contains("which holds the data of the modelled disk, is full").and(contains("NESTOR_WORK")));
    assert!(left.is_empty(), "{left:?}");
}

#[test]
#[ignore = "boots an emulated host; part of `make test-long`"]
fn finished_results_outlive_an_interrupt() {
    if !can_run(false, true) {
        return;
    }
    let _alone = alone();
    let sandbox = Sandbox::new();
    let mut running = sandbox.start(&["run", "ext4/null", "fio:seq-write:scale=0.01", "-n", "20"], &[]);
    running.wait_for_log(&["run 1 "]);
    signal(running.pid(), Signal::INT);
    let ended = running.end();
    assert!(!ended.succeeded && ended.stderr.contains("everything was taken down, and"), "{}", ended.stderr);
    assert_eq!(sandbox.left_behind(), Vec::<String>::new());
    sandbox.nestor(["report", "1"]).assert().success();
}

#[test]
#[ignore = "boots an emulated host; part of `make test-long`"]
fn a_killed_controller_leaves_no_emulated_host() {
    if !can_run(false, true) {
        return;
    }
    let _alone = alone();
    let sandbox = Sandbox::new();
    let mut running = sandbox.start(&["run", "ext4/kvm/raw/ext4/null", "fio:seq-write:scale=0.1"], &[]);
    running.wait_for_log(&["guest: mount"]);
    signal(running.pid(), Signal::KILL);
    running.end();
    sandbox.assert_nothing_left();
}
