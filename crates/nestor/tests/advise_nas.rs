//! `nestor advise --nas` as a user meets it, where nothing is measured.

mod advise_store;
mod support;

use advise_store::MadeUp;
use serde_json::Value;
use support::{Sandbox, json, refused, said};

const NFS: &str = "nfs:vers=3/link/xfs/hdd";
const VM_NFS: &str = "ext2/kvm/raw/nfs:vers=3/link/xfs/hdd";
const VM_NFS_ASYNC: &str = "ext2/kvm/raw/nfs:vers=3:export=async/link/xfs/hdd";
const GUEST_NFS: &str = "nfs:vers=3/kvm/link/ext2/loop/raw/xfs/hdd";

/// What is asked in these tests: three placements and two exports.
const ASKED: [&str; 9] = [
    "advise",
    "fio:rand-write",
    "--nas",
    "--placement",
    "nfs,vm-nfs,guest-nfs",
    "--guest",
    "ext2",
    "--vers",
    "3",
];

fn asked<'a>(more: &[&'a str]) -> Vec<&'a str> {
    ASKED.iter().chain(more).copied().collect()
}

#[test]
fn the_plan_names_placements_and_mount_options() {
    let sandbox = Sandbox::new();
    let plan = json(&said(&sandbox, &asked(&["--plan", "--json", "--budget", "9h"])));
    assert_eq!((&plan["possible"], &plan["parameters"]), (&Value::from(6), &Value::from(4)), "{plan}");
    assert_eq!(plan["stacks"][0], NFS, "the first level of everything is yours: {plan}");
    let text =
        said(&sandbox, &asked(&["--plan", "--budget", "9h", "--link", "rate=100mbit", "--rsize", "64k"]));
    assert!(text.contains("nfs:vers=3:rsize=64k/link:rate=100mbit/xfs/hdd"), "{text}");
    assert!(text.contains("--rsize 64k, --wsize default, --actimeo default"), "{text}");
    let usual = json(&said(&sandbox, &["advise", "file", "--nas", "--plan", "--json", "--budget", "9h"]));
    assert!(usual["possible"].as_u64().is_some_and(|stacks| stacks >= 12), "{usual}");
}

#[test]
fn what_the_place_refuses_is_not_planned() {
    let sandbox = Sandbox::new();
    for more in [&["--nas"][..], &["--nas", "--plan"], &["--nas", "--placement", "nfs"], &[], &["--plan"]] {
        let asked: Vec<&str> = ["advise", "file", "--on", "this"].iter().chain(more).copied().collect();
        let said = refused(&sandbox, &asked);
        assert!(said.contains("a modelled disk needs the emulated host"), "{said}");
        assert!(said.contains("`--disk` says which medium"), "{said}");
    }
    let disk =
        ["advise", "file", "--nas", "--plan", "--json", "--budget", "9h", "--disk", "file:/srv/no-disk"];
    let planned =
        |place| json(&said(&sandbox, &disk.iter().chain(&["--on", place]).copied().collect::<Vec<_>>()));
    assert!(planned("this")["stacks"].to_string().contains("nbd"));
    let between = planned("ssh:no-client,ssh:no-server");
    assert!(!between["stacks"].to_string().contains("kvm"), "{between}");
}

#[test]
fn what_does_not_go_together_is_refused() {
    let sandbox = Sandbox::new();
    let said = refused(&sandbox, &["advise", "file", "--nas", "--placement", "nfs,cifs"]);
    assert!(said.contains("--placement takes nfs, vm-nfs, guest-nfs, nbd, not `cifs`"), "{said}");
    let said = refused(&sandbox, &["advise", "file", "--nas", "--vers", "2"]);
    assert!(said.contains("vers"), "{said}");
    let said = refused(&sandbox, &["advise", "file", "--nas", "--format", "qcow2"]);
    assert!(said.contains("cannot be used with"), "{said}");
    let said = refused(&sandbox, &["advise", "file", "--export", "async"]);
    assert!(said.contains("--nas"), "{said}");
}

/// Runs whose rates are products: placement, and twice as fast with an export that does not wait. One is left out.
fn screened() -> MadeUp {
    let mut made_up = MadeUp::new("fio:rand-write");
    let rates = [
        (NFS, 50.0),
        ("nfs:vers=3:export=async/link/xfs/hdd", 101.0),
        (VM_NFS, 75.0),
        (GUEST_NFS, 40.4),
        ("nfs:vers=3:export=async/kvm/link/ext2/loop/raw/xfs/hdd", 79.6),
    ];
    for (stack, rate) in rates {
        made_up.run("advise-screen", 0, stack, rate);
    }
    made_up
}

#[test]
fn placements_are_ranked_and_each_failure_is_priced() {
    let sandbox = Sandbox::new();
    screened().keep(&sandbox.path("results.sqlite"));
    let store = sandbox.text("results.sqlite");
    let more = ["--from", "store", "--store", &store];
    let advice = json(&said(&sandbox, &[asked(&more), vec!["--json"]].concat()));
    let stacks = advice["recommendations"].as_array().expect("a list");
    assert_eq!((stacks.len(), &stacks[0]["stack"]), (6, &Value::from(VM_NFS_ASYNC)), "{advice}");
    assert_eq!(stacks[0]["measured"], false);
    let ratio = stacks[0]["vs_yours"]["value"].as_f64().expect("a number");
    let interval = &stacks[0]["vs_yours"]["interval"];
    assert!(
        (ratio / 3.0 - 1.0).abs() < 0.05 && interval["low"].as_f64().is_some_and(|low| low > 1.0),
        "{ratio}"
    );
    let lost = |stack: &str| -> Vec<(String, String)> {
        let found = stacks.iter().find(|one| one["stack"] == stack).expect("it is ranked");
        let word = |loss: &Value, key: &str| loss[key].as_str().expect("a word").to_owned();
        let losses = found["losses"].as_array().expect("three failures");
        losses.iter().map(|loss| (word(loss, "lost"), word(loss, "basis"))).collect()
    };
    let expected =
        |words: [(&str, &str); 3]| words.map(|(lost, basis)| (lost.to_owned(), basis.to_owned())).to_vec();
    assert_eq!(lost(NFS), expected([("open-files", "options"), ("nothing", "options"), ("nothing", "seen")]));
    assert_eq!(lost(VM_NFS)[2], ("nothing".to_owned(), "seen".to_owned()));
    assert_eq!(lost(GUEST_NFS)[0].0, "open-files");
    // Nothing of this promise was traced: what the options say holds.
    assert_eq!(
        lost(VM_NFS_ASYNC),
        expected([("unsynced", "options"), ("synced", "options"), ("synced", "options")])
    );
    let text = said(&sandbox, &asked(&more));
    // Where lines are broken depends on how wide they may be.
    let unbroken = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for line in [
        "what a power cut of the client loses",
        "what a crash of the server loses",
        "what a power cut of the server loses",
        "nothing that was acknowledged (seen: 66 flushes at the disk for 512 WRITEs and 64 COMMITs of the client)",
        "ext2 may be damaged, journal or not",
        "effect of each level alone",
        "placement",
    ] {
        assert!(unbroken.contains(line), "no {line:?} in\n{text}");
    }
    assert!(!text.contains("ready to paste"), "{text}");
}

#[test]
fn what_a_network_disk_and_a_loop_device_lose_is_said() {
    let sandbox = Sandbox::new();
    let mut made_up = MadeUp::new("fio:rand-write");
    for (stack, rate) in [("ext2/kvm/nbd/link/raw/xfs/hdd", 60.0), (GUEST_NFS, 40.0)] {
        made_up.run("advise-screen", 0, stack, rate);
    }
    made_up.keep(&sandbox.path("results.sqlite"));
    let store = sandbox.text("results.sqlite");
    let asked = ["advise", "fio:rand-write", "--nas", "--placement", "nbd,guest-nfs", "--guest", "ext2"];
    let more = ["--vers", "3", "--export", "sync", "--from", "store", "--store", &store];
    let text = said(&sandbox, &[asked.as_slice(), more.as_slice()].concat());
    let unbroken = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for line in [
        "the disk fails with its server",
        "its qemu-nbd bypasses the page cache, and passes flushes on to the disk",
        "what was made, renamed or removed and not synced, although the server acknowledged it, up to about 70 s old",
        "what is not flushed stays in the page cache of the file below the loop device",
    ] {
        assert!(unbroken.contains(line), "no {line:?} in\n{text}");
    }
}
