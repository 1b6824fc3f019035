//! Stacks over a network, on two emulated machines in virtual time.

mod support;

use serde_json::Value;
use support::{Sandbox, alone, can_run};

/// Calls of each procedure at an end, as the results file has them.
fn calls<'a>(network: &'a Value, end: &str) -> Vec<(&'a str, u64)> {
    let counted = network[end].as_object().expect("counts by procedure").iter();
    counted.map(|(name, calls)| (name.as_str(), calls["calls"].as_u64().expect("a count"))).collect()
}

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
    let network = &view[0]["record"]["outcome"]["measured"]["networks"][0];
    let client = calls(network, "client");
    assert_eq!(client, calls(network, "server"));
    let written = client.iter().find(|(name, _)| *name == "WRITE").expect("it writes");
    assert!(written.1 > 0);
    // Each call and each reply is at least one frame.
    let frames = |way: &str| network[way]["frames"].as_u64().expect("a count");
    let sent = |way: &str| network[way]["bytes"].as_u64().expect("a count");
    let all: u64 = client.iter().map(|(_, calls)| calls).sum();
    assert!(frames("to_server") >= all && frames("to_client") > 0, "{network}");
    let rpc_bytes: u64 = network["client"]
        .as_object()
        .expect("counts")
        .values()
        .map(|of_one| of_one["sent_bytes"].as_u64().expect("bytes"))
        .sum();
    // Headers of Ethernet, IP and TCP with time stamps are 66 bytes a frame. A frame may be under way at either moment of counting.
    let expected = rpc_bytes + 66 * frames("to_server");
    assert!(sent("to_server").abs_diff(expected) * 100 <= expected, "{} {expected}", sent("to_server"));
    sandbox.assert_nothing_left();
}
