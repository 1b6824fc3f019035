//! VirtualBox itself in the laboratory, from its pack.

mod support;

use support::{Sandbox, json};

/// With flushes, which VirtualBox ignores unless it is told otherwise.
const WORKLOAD: &str = "fio:rand-write:size=4M:runtime=1s:fsync=16";

/// The boot takes minutes where other programs need the processors too.
const BOOT_LIMIT_S: &str = "900";

#[test]
#[ignore = "boots VirtualBox, whose image takes minutes; part of `make test-long`"]
fn flushes_of_a_guest_of_virtualbox_reach_the_disk_and_nothing_is_left() {
    let sandbox = Sandbox::new();
    let store = sandbox.text("results.sqlite");
    let run = ["run", "ext3/vbox/vdi/ext4/hdd:wd-re3", WORKLOAD, "-n", "1", "--json"];
    let place = ["--on", "emulated:time=real", "--store", &store];
    let mut command = sandbox.nestor(run);
    let command = command.args(place).env("NESTOR_BOOT_LIMIT_S", BOOT_LIMIT_S);
    let output = command.assert().success().get_output().stdout.clone();
    let view = json(&String::from_utf8(output).expect("JSON is UTF-8"));
    let run = &view[0];
    assert_eq!(run["summary"]["failures"].as_array().map(Vec::len), Some(0), "{run}");
    let rows = run["layers"].as_array().expect("layers");
    let disk = rows.last().expect("the disk is a layer");
    assert!(disk["flushes"].as_u64().is_some_and(|flushes| flushes > 1), "{disk} of {run}");
    assert_eq!(sandbox.left_behind(), Vec::<String>::new());
}
