//! `nestor trace correlate` with files of a user's.

mod support;

use std::fs;

use serde_json::Value;
use support::Sandbox;
use support::made_traces::{HOUR_NS, recording, traces};

#[test]
fn two_traces_and_a_map_are_joined() {
    let sandbox = Sandbox::new();
    let [guest, host, map] = traces(&sandbox);
    let arguments = ["trace", "correlate", "--guest", &guest, "--host", &host, "--image", &map];
    let output = sandbox.nestor(arguments).output().expect("the program runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for part in ["guest > host", "clocks known to", "median read: 350 us", "unmatched: at most 0.00 %"] {
        assert!(text.contains(part), "{part}:\n{text}");
    }
    let output = sandbox.nestor(arguments).arg("--json").output().expect("the program runs");
    let json: Value = serde_json::from_slice(&output.stdout).expect("it prints JSON");
    let join = &json["joins"][0];
    assert_eq!(join["origins"]["parent"], 500);
    let off = join["clock_offset_ns"].as_i64().expect("a number") + HOUR_NS as i64;
    assert!(off.unsigned_abs() <= join["clock_bound_ns"].as_u64().expect("a number"), "{join}");
}

#[test]
fn what_does_not_belong_together_is_refused() {
    let sandbox = Sandbox::new();
    let [guest, host, map] = traces(&sandbox);
    let said = |arguments: &[&str]| {
        let assert = sandbox.nestor(["trace", "correlate"]).args(arguments).assert().failure().stdout("");
        String::from_utf8_lossy(&assert.get_output().stderr).into_owned()
    };
    let elsewhere = sandbox.text("elsewhere.csv");
    fs::write(&elsewhere, "0,9000000000,2097152\n").expect("the sandbox can be written to");
    let message = said(&["--guest", &guest, "--host", &host, "--image", &elsewhere]);
    assert!(message.contains("does not fit the trace: no request of host is where the map"), "{message}");
    fs::write(&elsewhere, "0,0,4096\n").expect("the sandbox can be written to");
    let message = said(&["--guest", &guest, "--host", &host, "--image", &elsewhere]);
    assert!(message.contains("use the map of the image at that time"), "{message}");
    fs::write(&elsewhere, "0,0,4096\n1,2,x\n").expect("the sandbox can be written to");
    let message = said(&["--guest", &guest, "--host", &host, "--image", &elsewhere]);
    assert!(message.contains("elsewhere.csv, line 2"), "{message}");
    let message = said(&["--guest", &map, "--host", &host, "--image", &map]);
    assert!(message.contains("map.csv"), "{message}");
}

#[test]
fn a_directory_of_recorded_traces_is_enough() {
    let sandbox = Sandbox::new();
    let directory = recording(&sandbox, "000-cell");
    let output =
        sandbox.nestor(["trace", "correlate", &directory, "--json"]).output().expect("the program runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let json: Value = serde_json::from_slice(&output.stdout).expect("it prints JSON");
    assert_eq!(json["joins"][0]["origins"]["parent"], 500);
    assert_eq!(
        (&json["levels"][0]["layer"], &json["levels"][1]["machine"]),
        (&"ext4".into(), &"host".into())
    );
    let csv = sandbox.text("all.csv");
    sandbox.nestor(["trace", "export", "--csv", &csv, &directory]).assert().success();
    let lines = fs::read_to_string(csv).expect("it was written");
    assert_eq!(lines.lines().filter(|line| line.starts_with("1,xfs,host block,host,")).count(), 500);

    let said = |arguments: &[&str]| {
        let assert = sandbox.nestor(["trace", "correlate"]).args(arguments).assert().failure().stdout("");
        String::from_utf8_lossy(&assert.get_output().stderr).into_owned()
    };
    let message = said(&[&directory, "--host", "sda"]);
    assert!(message.contains("cannot be used with"), "{message}");
    let message = said(&["--guest", "vda"]);
    assert!(message.contains("--host"), "{message}");
    let message = said(&[&sandbox.text("nowhere")]);
    assert!(message.contains("is not a directory that `nestor run --trace-to` made"), "{message}");
    recording(&sandbox, "001-cell");
    let message = said(&[&directory]);
    assert!(message.contains("holds 2 recordings; name one of them"), "{message}");
}
