//! Stacks over a network, on two emulated machines in virtual time.

mod support;

use serde_json::Value;
use support::study_outcomes::outcomes;
use support::{Sandbox, alone, can_run};

#[test]
fn nfs_over_a_modelled_link_repeats_and_both_ends_count_the_same_calls() {
    if !can_run(false, true) {
        return;
    }
    let _alone = alone();
    let sandbox = Sandbox::new();
    let stack = "nfs:vers=3/link:rate=100mbit/ext4/hdd";
    let store = sandbox.text("results.sqlite");
    let run = ["run", stack, "fio:seq-write:size=4M:runtime=1s", "-n", "1", "--verify", "--json"];
    let output = sandbox.nestor(run).args(["--store", &store]).assert().success();
    let said = String::from_utf8_lossy(&output.get_output().stderr);
    assert_eq!(said.matches("to the last bit").count(), 1, "{said}");
    let view: Value = serde_json::from_slice(&output.get_output().stdout).expect("JSON");
    let network = &view[0]["networks"][0];
    let number = |value: &Value| value.as_u64().unwrap_or_else(|| panic!("a number: {network}"));
    let procedures = network["procedures"].as_array().expect("what was called");
    assert!(procedures.iter().any(|row| row["procedure"] == "WRITE"), "{network}");
    for row in procedures {
        assert_eq!(number(&row["calls"]), number(&row["server_calls"]), "{row}");
    }
    let calls: u64 = procedures.iter().map(|row| number(&row["calls"])).sum();
    let call_bytes: u64 = procedures.iter().map(|row| number(&row["sent_bytes"])).sum();
    let [frames, bytes] = ["frames", "bytes"].map(|what| number(&network["to_server"][what]));
    assert!(frames >= calls, "each call is at least one frame: {network}");
    // Headers of Ethernet, IP and TCP with time stamps are 66 bytes a frame. A frame may be under way at either moment of counting.
    let expected = call_bytes + 66 * frames;
    assert!(bytes.abs_diff(expected) * 100 <= expected, "{expected}: {network}");
    assert_calls_are_joined(&view[0]["trace"]["joins"]);
    sandbox.assert_nothing_left();
}

/// The calls that carry what the application writes are levels of its path, though no image lies on the network file system.
fn assert_calls_are_joined(joins: &Value) {
    let joins = joins.as_array().expect("levels");
    let kinds: Vec<&str> = joins.iter().filter_map(|join| join["kind"].as_str()).collect();
    assert_eq!(kinds, ["application", "client calls", "host calls", "host block", "medium"]);
    let of_server = &joins[2];
    assert!(of_server["requests"].as_u64() > Some(0), "{of_server}");
    let of_client =
        of_server["origins"].as_array().expect("origins").iter().find(|row| row["origin"] == "parent");
    assert_eq!(
        of_client.map(|row| &row["requests"]),
        Some(&of_server["requests"]),
        "each comes from the client"
    );
    for join in &joins[1..] {
        let share = join["unmatched_share"].as_f64().unwrap_or_else(|| panic!("a share: {join}"));
        let origins = join["origins"].as_array().expect("origins");
        assert!(share <= 0.01 && origins.iter().all(|row| row["origin"] != "unknown"), "{join}");
    }
}

#[test]
fn a_network_disk_repeats_and_its_requests_are_joined_with_those_of_the_server() {
    if !can_run(false, true) {
        return;
    }
    let _alone = alone();
    let sandbox = Sandbox::new();
    let stack = "nbd/link:memory=1G/qcow2:size=1G/xfs/hdd";
    let store = sandbox.text("results.sqlite");
    let run = ["run", stack, "stamps:mixed:size=16M:operations=500", "-n", "1", "--verify", "--json"];
    let output = sandbox.nestor(run).args(["--store", &store]).assert().success();
    let said = String::from_utf8_lossy(&output.get_output().stderr);
    assert_eq!(said.matches("to the last bit").count(), 1, "{said}");
    let view: Value = serde_json::from_slice(&output.get_output().stdout).expect("JSON");
    let agreement = &view[0]["trace"]["agreement"];
    let number = |name: &str| agreement[name].as_u64().unwrap_or_else(|| panic!("{name}: {agreement}"));
    let checked = number("checked");
    assert!(checked > 0 && number("agreeing") * 100 >= checked * 99, "{agreement}");
    assert!(number("without_ancestor") * 100 <= checked, "{agreement}");
    let network = &view[0]["networks"][0];
    assert_eq!(network["calls"], 0, "{network}");
    // The marked operations and their replies, each in a frame of its own at least.
    for to in ["to_server", "to_client"] {
        assert!(network[to]["frames"].as_u64() >= Some(500), "{network}");
    }
    sandbox.assert_nothing_left();
}

#[test]
#[ignore = "boots a guest in a client, about 2 minutes; part of `make test-long`"]
fn a_guest_that_mounts_a_file_system_in_an_image_calls_the_server_itself() {
    if !can_run(false, true) {
        return;
    }
    let _alone = alone();
    let sandbox = Sandbox::new();
    let stack = "nfs:vers=3/kvm:memory=512M/link:memory=1G/ext2/loop/raw:size=1G/xfs/hdd";
    let run = ["run", stack, "wml:create-tree:scale=0.002:runtime=off", "-n", "1", "--json"];
    let output = sandbox.nestor(run).args(["--store", &sandbox.text("results.sqlite")]).assert().success();
    let view: Value = serde_json::from_slice(&output.get_output().stdout).expect("JSON");
    let network = &view[0]["networks"][0];
    let procedures = network["procedures"].as_array().unwrap_or_else(|| panic!("calls: {network}"));
    for row in procedures {
        assert_eq!(row["calls"], row["server_calls"], "{row}");
    }
    // Each of the 200 files is created once, and the report of the load itself.
    let created = procedures.iter().find(|row| row["procedure"] == "CREATE").map(|row| &row["calls"]);
    assert!(created.and_then(Value::as_u64) >= Some(200), "{network}");
    sandbox.assert_nothing_left();
}

#[test]
#[ignore = "builds two stacks on two machines, about 4 minutes; part of `make test-long`"]
fn a_server_judges_what_requests_of_a_guest_are_for_in_a_partition_too() {
    if !can_run(false, true) {
        return;
    }
    let _alone = alone();
    for partition in ["", "part:start=63s/"] {
        let sandbox = Sandbox::new();
        let stack = format!("ext2/{partition}kvm:memory=512M/raw:size=1G/nfs:vers=3/link:memory=1G/xfs/hdd");
        let traces = sandbox.text("traces");
        let load = "wml:mailserver:scale=0.05:runtime=4s";
        sandbox.nestor(["run", &stack, load, "-n", "1", "--trace-to", &traces]).assert().success();
        let output = sandbox.nestor(["trace", "classify", &traces, "--json"]).assert().success();
        let judged: Value = serde_json::from_slice(&output.get_output().stdout).expect("JSON");
        let number = |name: &str| judged[name].as_f64().unwrap_or_else(|| panic!("{name}: {judged}"));
        assert_eq!((&judged["file_system"], &judged["layer"]), (&"ext2".into(), &"xfs".into()), "{judged}");
        let (requests, right) = (number("requests"), number("right"));
        assert!(requests >= 100.0 && right >= 0.95 * requests, "{stack}: {judged}");
        sandbox.assert_nothing_left();
    }
}

/// The three ways to a server's disk, with what is written and what is called there.
const STUDY: &str = r#"
name = "nas"
title = "A study over a link"
stacks = [
    "nfs:vers=3/link:rate=100mbit:memory=512M/xfs/hdd",
    "ext2/kvm:memory=512M/raw:size=1G/nfs:vers=3/link:rate=100mbit:memory=1G/xfs/hdd",
    "nfs:vers=4.2/kvm:memory=512M/link:rate=100mbit/ext2/loop/raw:size=1G/xfs/hdd",
]
baseline = "nfs:vers=3/link:rate=100mbit:memory=512M/xfs/hdd"
workloads = ["fio:rand-write:size=16M:bs=4k:runtime=1s", "wml:create-tree:scale=0.002"]
replications = 1
sentinels = false
trace = "layers"
"#;

#[test]
#[ignore = "measures six cells twice, about 8 minutes; part of `make test-long`"]
fn the_same_study_over_a_link_twice_gives_the_same_numbers() {
    if !can_run(false, true) {
        return;
    }
    let _alone = alone();
    let sandbox = Sandbox::new();
    std::fs::write(sandbox.path("study.toml"), STUDY).expect("a file");
    let measured = ["once.sqlite", "again.sqlite"].map(|store| {
        let arguments = ["study", "study.toml", "--on", "emulated:time=virtual", "--store", store];
        let ended = sandbox.start(&arguments, &[]).end();
        assert!(ended.succeeded, "{}{}", ended.stdout, ended.stderr);
        outcomes(&sandbox, store)
    });
    assert_eq!(measured[0].len(), 6, "{measured:?}");
    assert_eq!(measured[0], measured[1]);
    sandbox.assert_nothing_left();
}
