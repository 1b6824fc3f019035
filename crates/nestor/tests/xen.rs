//! Xen in the laboratory: its privileged domain, and domains of both kinds in it.

mod support;

use serde_json::Value;
use support::{Sandbox, json, refused};

/// With flushes, which blkback counts too.
const WORKLOAD: &str = "fio:rand-write:size=8M:runtime=1s:fsync=64";

/// What a run says in JSON.
fn measured(stack: &str) -> Value {
    let sandbox = Sandbox::new();
    let store = sandbox.text("results.sqlite");
    let place = ["--on", "emulated:time=virtual", "--store", &store];
    let run = ["run", stack, WORKLOAD, "-n", "1", "--json"];
    let output = sandbox.nestor(run).args(place).assert().success().get_output().stdout.clone();
    let view = json(&String::from_utf8(output).expect("JSON is UTF-8"));
    assert_eq!(view[0]["summary"]["failures"].as_array().map(Vec::len), Some(0), "{view}");
    view[0].clone()
}

/// The rows of the layers of a run, application first.
fn rows(run: &Value) -> &[Value] {
    run["layers"].as_array().expect("layers")
}

/// Whatever is sent, requests, bytes and flushes arrive.
fn assert_served_is_sent(run: &Value) {
    let rows = rows(run);
    let at = rows.iter().position(|row| row["trace_point"] == "back end's counts").expect("blkback counts");
    let (sent, served) = (&rows[at - 1], &rows[at]);
    for number in ["issued", "read_bytes", "write_bytes", "flushes"] {
        assert_eq!(sent[number], served[number], "{number} of {run}");
    }
    assert!(served["issued"].as_u64().is_some_and(|requests| requests > 100), "{served}");
    assert!(served["flushes"].as_u64().is_some_and(|flushes| flushes > 1), "{served}");
}

#[test]
#[ignore = "boots Xen, whose image takes minutes; part of `make test-long`"]
fn the_kernel_of_the_privileged_domain_is_no_application() {
    let run = measured("ext3/dom0/hdd:wd-re3");
    let parts = run["path"]["parts"].as_array().expect("instructions are counted");
    let of = |executor: &str| {
        let part = parts.iter().find(|part| part["executor"] == executor);
        part.and_then(|part| part["instructions"].as_f64()).unwrap_or_else(|| panic!("{executor}: {run}"))
    };
    // Though it runs without privilege.
    assert!(of("host-kernel") > of("application"), "{run}");
}

#[test]
#[ignore = "boots Xen, whose image takes minutes; part of `make test-long`"]
fn blkback_counts_what_the_traces_of_domains_of_both_kinds_count() {
    for options in ["guest=pv", "guest=pvh", "guest=pv:by=libvirt", "guest=pvh:by=libvirt"] {
        assert_served_is_sent(&measured(&format!("ext3/xen:{options}/raw/ext3/hdd:wd-re3")));
    }
}

#[test]
#[ignore = "boots Xen, whose image takes minutes; part of `make test-long`"]
fn the_same_seed_gives_the_same_numbers() {
    let sandbox = Sandbox::new();
    for stack in ["ext3/dom0/hdd:wd-re3", "ext3/xen:guest={pv,pvh}:by={nestor,libvirt}/raw/ext3/hdd:wd-re3"] {
        let store = sandbox.text("results.sqlite");
        let place = ["--on", "emulated:time=virtual", "--store", &store, "--verify"];
        sandbox.nestor(["run", stack, WORKLOAD, "-n", "2"]).args(place).assert().success();
    }
}

#[test]
fn stacks_that_xen_cannot_run_are_refused_in_words() {
    let sandbox = Sandbox::new();
    let cases = [
        ("ext3/kvm/raw/ext3/dom0/hdd", "dom0"),
        ("ext3/xen/qcow2/ext3/hdd", "raw"),
        ("ext3/xen:by=libvirt/qcow2/ext3/hdd", "raw"),
        ("ext3/xen:by=vmware/raw/ext3/hdd", "nestor, libvirt, ec2 or opennebula"),
        ("ext3/xen/raw/ext3/kvm/raw/ext3/hdd", "xen"),
        ("nfs/link/ext3/dom0/hdd", "dom0"),
    ];
    for (stack, word) in cases {
        let said = refused(&sandbox, &["run", stack, "fio:rand-read:size=8M", "-n", "1"]);
        assert!(said.contains('^') && said.contains(word), "{stack}: {said}");
    }
    let said =
        refused(&sandbox, &["run", "ext3/dom0/hdd", "fio:rand-read:size=8M", "-n", "1", "--on", "this"]);
    assert!(said.contains("dom0"), "{said}");
}
