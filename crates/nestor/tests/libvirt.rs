//! libvirt in the laboratory: it runs the same machine as Nestor itself.

mod support;

use serde_json::Value;
use support::{Sandbox, json, refused};

/// Small requests with flushes: what the hypervisor costs shows in them.
const WORKLOAD: &str =
    "fio:rand-write:bs=4k:size=2M:filesize=2M:depth=1:engine=psync:direct=off:fsync=1:runtime=off";

/// The same stack but for who runs its machine.
const STACKS: [&str; 2] = ["ext3/kvm/raw/xfs/hdd:size=4G", "ext3/kvm:by=libvirt/raw/xfs/hdd:size=4G"];

/// The same under Xen.
const XENS_STACKS: [&str; 2] = ["ext3/xen/raw/ext3/hdd:size=4G", "ext3/xen:by=libvirt/raw/ext3/hdd:size=4G"];

/// How far the means of the two may be apart, as a share. Fresh stacks of one of them differ by some per cent, because the platters are elsewhere.
const NOISE: f64 = 0.03;

/// How far the instructions of a request in the hypervisor's program may be apart, as a share.
const INSTRUCTIONS: f64 = 0.05;

/// What a run of either says in JSON.
fn measured(stacks: [&str; 2]) -> [Value; 2] {
    let sandbox = Sandbox::new();
    let store = sandbox.text("results.sqlite");
    stacks.map(|stack| {
        let run = ["run", stack, WORKLOAD, "-n", "2", "--json"];
        let place = ["--on", "emulated:time=virtual", "--store", &store];
        let output = sandbox.nestor(run).args(place).assert().success().get_output().stdout.clone();
        let view = json(&String::from_utf8(output).expect("JSON is UTF-8"));
        assert_eq!(view[0]["summary"]["failures"].as_array().map(Vec::len), Some(0), "{view}");
        view[0].clone()
    })
}

fn is_within(share: f64, [own, other]: [f64; 2]) -> bool {
    (other / own - 1.0).abs() <= share
}

/// Mean throughput over the fresh stacks, bytes a second.
fn throughput(run: &Value) -> f64 {
    run["summary"]["bytes_per_second"]["value"].as_f64().expect("a throughput")
}

/// Instructions of QEMU for each request of the medium.
fn hypervisors_instructions(run: &Value) -> f64 {
    let parts = run["path"]["parts"].as_array().expect("instructions are counted");
    let part = parts.iter().find(|part| part["executor"] == "hypervisor");
    part.and_then(|part| part["instructions"].as_f64()).unwrap_or_else(|| panic!("{run}"))
}

#[test]
#[ignore = "boots guests through libvirt, whose image takes minutes; part of `make test-long`"]
fn libvirts_machine_is_the_one_that_nestor_runs() {
    let runs = measured(STACKS);
    assert_same(&runs);
    let both = runs.each_ref().map(hypervisors_instructions);
    assert!(is_within(INSTRUCTIONS, both), "instructions {both:?}");
}

#[test]
#[ignore = "boots Xen, whose image takes minutes; part of `make test-long`"]
fn libvirts_domain_of_xen_is_the_one_that_nestor_runs() {
    assert_same(&measured(XENS_STACKS));
}

/// The same is recorded at every layer, the same arrives there, and as fast.
fn assert_same(runs: &[Value; 2]) {
    let rows = runs.each_ref().map(|run| run["layers"].as_array().expect("layers"));
    assert_eq!(rows[0].len(), rows[1].len());
    for (own, other) in rows[0].iter().zip(rows[1]) {
        // Not what is read: beside these writes, that is a hundredth of the bytes, and which structures a guest's kernel has dropped by then.
        for number in ["issued", "bytes", "write_bytes", "flushes"] {
            let both = [&own[number], &other[number]].map(|n| n.as_f64().unwrap_or_default());
            assert!(both[0] == both[1] || is_within(NOISE, both), "{number} of {own} and {other}");
        }
    }
    let both = runs.each_ref().map(throughput);
    assert!(is_within(NOISE, both), "bytes a second {both:?}");
}

#[test]
fn stacks_that_libvirt_cannot_run_are_refused_in_words() {
    let sandbox = Sandbox::new();
    let cases = [
        ("ext3/kvm:by=libvirt:disk=nvme/raw/ext3/hdd", "nvme"),
        ("ext3/kvm:by=libvirt/vhdx/ext3/hdd", "vhdx"),
        ("nfs/kvm:by=libvirt/link/ext3/hdd", "network"),
        ("ext3/kvm:by=vmware/raw/ext3/hdd", "nestor, libvirt, ec2 or opennebula"),
    ];
    for (stack, word) in cases {
        let said = refused(&sandbox, &["run", stack, "fio:rand-read:size=8M", "-n", "1"]);
        assert!(said.contains('^') && said.contains(word), "{stack}: {said}");
    }
}

#[test]
fn a_domain_is_measured_only_on_a_disk_of_its_own_that_is_named() {
    let sandbox = Sandbox::new();
    let run = |stack: &str, more: &[&str]| {
        refused(&sandbox, &[&["run", stack, "fio:rand-read:size=8M", "-n", "1"], more].concat())
    };
    let said = run("ext4/hdd", &["--domain", "mail"]);
    assert!(
        said.contains("a modelled disk needs the emulated host, but this is `--on domain:mail`"),
        "{said}"
    );
    let said = run("nfs/link/ext4/dev:/dev/vdb", &["--domain", "mail"]);
    assert!(said.contains("a link joins two machines"), "{said}");
    let said = run("ext4/dev:/dev/vdb", &["--domain", "mail", "--on", "this"]);
    assert!(said.contains("cannot be used with"), "{said}");
    let said = run("ext4/dev:/dev/vdb", &["--domain=--all"]);
    assert!(said.contains("does not begin with a hyphen"), "{said}");
}

#[test]
fn a_libvirt_that_runs_no_machines_here_is_refused() {
    let sandbox = Sandbox::new();
    let store = sandbox.text("results.sqlite");
    let run = ["run", "ext4/dev:/dev/vdb", "fio:rand-read:size=8M", "--domain", "mail", "--store", &store];
    let output =
        sandbox.nestor(run).env("LIBVIRT_DEFAULT_URI", "esx://host").assert().failure().get_output().clone();
    let said = String::from_utf8(output.stderr).expect("messages are UTF-8");
    assert!(said.contains("it takes qemu:///system and qemu:///session"), "{said}");
}
