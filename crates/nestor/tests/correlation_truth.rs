//! The joins of real stacks held against the truth: every write carries a mark, and the modelled disk notes which marks
//! arrive with which of its requests.

#![allow(clippy::print_stdout, clippy::print_stderr)] // For who runs it, not for who uses the program.

mod support;

use serde_json::Value;
use support::{Sandbox, alone, can_run, failures};

/// Runs the marked workload and gives what the joins of a stack agree with.
fn agreement(stack: &str, workload: &str) -> (f64, Value) {
    let sandbox = Sandbox::new();
    let output = sandbox.nestor(["run", stack, workload, "-n", "1", "--json"]).output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    let views: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {said}"));
    let view = &views[0];
    let trace = &view["trace"];
    let agreement = trace["agreement"].clone();
    let number = |name: &str| agreement[name].as_f64().unwrap_or_default();
    assert!(number("checked") > 0.0, "nothing was checked: {}; {trace:#}", failures(view));
    println!("{stack} {workload}: {}", trace["certainty"]);
    (number("agreeing") / number("checked"), agreement)
}

#[test]
#[ignore = "boots an emulated host; part of `make test-long`"]
fn requests_are_joined_with_those_that_the_marks_tell_of() {
    if !can_run(false, true) {
        return;
    }
    let _alone = alone();
    let (share, agreement) = agreement("kvm/raw/ext4/hdd", "stamps:mixed");
    assert!(share >= 0.99, "{agreement:#}");
    let number = |name: &str| agreement[name].as_f64().unwrap_or_default();
    assert!(number("without_ancestor") <= 0.01 * number("checked"), "{agreement:#}");
}

#[test]
#[ignore = "builds eight stacks, about 9 minutes; part of `make test-long`"]
fn through_other_layers_too() {
    if !can_run(false, true) {
        return;
    }
    let _alone = alone();
    let stacks = [
        // Splits and an image in pieces.
        ("kvm/raw:alloc=scattered:size=1G/ext4/hdd", "stamps:mixed:bs=64k:operations=1000", 0.99),
        ("kvm/raw/jfs/ssd-sata", "stamps:mixed:depth=64:operations=4000", 0.99),
        ("kvm/qcow2/xfs/hdd", "stamps:mixed", 0.99),
        // Places in partitions are others on their disks, in the guest and in the host.
        ("part:start=63s/kvm/raw/xfs/part:start=63s/hdd", "stamps:mixed", 0.99),
        // What waits in the host's page cache is joined by place and order.
        ("kvm:disk=lsi:cache=writethrough/vmdk/ext4/hdd", "stamps:mixed", 0.99),
        // An image on another machine.
        ("kvm:memory=512M/raw/nfs/link:memory=2G/xfs/hdd", "stamps:mixed", 0.99),
        // Neighbouring writes are merged in the host.
        ("kvm:disk=virtio-scsi/raw/xfs/hdd:sched=mq-deadline", "stamps:mixed:sequential=90:depth=32", 0.99),
        // Many for the same few places at once.
        ("kvm/raw/ext4/ssd-sata", "stamps:mixed:size=1M:depth=64:operations=4000", 0.95),
    ];
    for (stack, workload, least) in stacks {
        let (share, agreement) = agreement(stack, workload);
        assert!(share >= least, "{stack}: {agreement:#}");
    }
}
