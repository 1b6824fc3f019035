//! VirtualBox itself in the laboratory, from its pack.

mod support;

use serde_json::Value;
use support::{Sandbox, alone, can_run, json};

/// With flushes, which VirtualBox ignores unless it is told otherwise.
const WORKLOAD: &str = "fio:rand-write:size=4M:runtime=1s:fsync=16";

/// The boot takes minutes where other programs need the processors too.
const BOOT_LIMIT_S: &str = "900";

/// What a run says, without the real time it took; nothing of it is left.
fn measured(sandbox: &Sandbox, place: &str, workload: &str) -> Value {
    let store = sandbox.text("results.sqlite");
    let run = ["run", "ext3/vbox/vdi/ext4/hdd:wd-re3", workload, "-n", "1", "--json"];
    let mut command = sandbox.nestor(run);
    let command = command.args(["--on", place, "--store", &store]).env("NESTOR_BOOT_LIMIT_S", BOOT_LIMIT_S);
    let output = command.assert().success().get_output().stdout.clone();
    let mut run = json(&String::from_utf8(output).expect("JSON is UTF-8"))[0].take();
    assert_eq!(run["summary"]["failures"].as_array().map(Vec::len), Some(0), "{run}");
    for real_time in ["cell_s", "load_s"] {
        run.as_object_mut().expect("a run").remove(real_time).expect("a real time of the cell");
    }
    sandbox.assert_nothing_left();
    run
}

fn assert_flushes_reach_the_disk(run: &Value) {
    let rows = run["layers"].as_array().expect("layers");
    let disk = rows.last().expect("the disk is a layer");
    assert!(disk["flushes"].as_u64().is_some_and(|flushes| flushes > 1), "{disk} of {run}");
}

#[test]
#[ignore = "boots VirtualBox, whose image takes minutes; part of `make test-long`"]
fn flushes_of_a_guest_of_virtualbox_reach_the_disk_and_nothing_is_left() {
    let run = measured(&Sandbox::new(), "emulated:time=real", WORKLOAD);
    assert_flushes_reach_the_disk(&run);
}

#[test]
#[ignore = "boots VirtualBox twice, whose image takes minutes; part of `make test-long`"]
fn in_virtual_time_a_guest_of_virtualbox_repeats_to_the_last_bit() {
    if !can_run(false, true) {
        return;
    }
    let _alone = alone();
    let first = measured(&Sandbox::new(), "emulated:time=virtual", WORKLOAD);
    assert_flushes_reach_the_disk(&first);
    let second = measured(&Sandbox::with_longer_path(), "emulated:time=virtual", WORKLOAD);
    assert_eq!(first, second);
}
