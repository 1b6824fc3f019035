//! `nestor trace correlate` with files of a user's.

mod support;

use std::fs;

use nestor_trace::event::Flags;
use nestor_trace::{Operation, Request, RequestHeader, RequestWriter};
use serde_json::Value;
use support::Sandbox;

const HOUR_NS: u64 = 3_600_000_000_000;

fn request(id: u64, offset: u64, times: [u64; 3]) -> Request {
    let [queued_ns, issued_ns, completed_ns] = times;
    Request {
        id,
        operation: if id.is_multiple_of(3) { Operation::Write } else { Operation::Read },
        flags: Flags::default(),
        class: nestor_layout::Class::Unknown,
        offset,
        bytes: 4096,
        queued_ns,
        issued_ns,
        completed_ns,
        bios: 1,
        pid: 1,
    }
}

fn write(sandbox: &Sandbox, name: &str, requests: impl Iterator<Item = Request>) -> String {
    let header =
        RequestHeader { layer: name.to_owned(), machine: name.to_owned(), ..RequestHeader::default() };
    let mut writer =
        RequestWriter::create(sandbox.path(name), header).expect("the sandbox can be written to");
    requests.for_each(|request| writer.push(&request).expect("the sandbox can be written to"));
    writer.finish().expect("the sandbox can be written to");
    sandbox.text(name)
}

/// A guest whose disk lies in two halves on the host's, the second one first; the host's clock is an hour ahead.
fn traces(sandbox: &Sandbox) -> [String; 3] {
    let place = |index: u64| (index * 37) % 512 * 4096;
    let below = |offset: u64| if offset < 1 << 20 { offset + (5 << 20) } else { offset + (1 << 20) };
    let start = |index: u64| HOUR_NS + index * 100_000;
    let guest = (0..500).map(|i| request(i, place(i), [start(i), start(i) + 5_000, start(i) + 350_000]));
    let host = (0..500).map(|i| {
        let start = start(i) + HOUR_NS;
        request(i, below(place(i)), [start + 20_000, start + 22_000, start + 330_000])
    });
    let map = "image,device,bytes\n0,5242880,1048576\n1048576,2097152,1048576\n";
    fs::write(sandbox.path("map.csv"), map).expect("the sandbox can be written to");
    [write(sandbox, "guest", guest), write(sandbox, "host", host), sandbox.text("map.csv")]
}

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

/// What `nestor run --trace-to` leaves of the same two machines, one cell in it.
fn recording(sandbox: &Sandbox, cell: &str) -> String {
    let [guest, host, map] = traces(sandbox);
    let directory = sandbox.path("traces").join(cell);
    fs::create_dir_all(&directory).expect("the sandbox can be written to");
    for (from, name) in [(guest, "point-1.requests"), (host, "point-0.requests"), (map, "extents-1.csv")] {
        fs::rename(from, directory.join(name)).expect("the sandbox can be written to");
    }
    let manifest = r#"{ "stack": "ext4/kvm/raw/xfs/dev:/dev/sdb", "workload": "fio:rand-read", "levels": [
        { "layer": "ext4", "kind": "guest block", "machine": "guest", "file": "point-1.requests",
          "map": "identity", "cached_reads": "unknown", "cached_writes": "unknown" },
        { "layer": "xfs", "kind": "host block", "machine": "host", "file": "point-0.requests",
          "map": "extents", "extents": "extents-1.csv", "cached_reads": "never", "cached_writes": "never" } ] }"#;
    fs::write(directory.join("manifest.json"), manifest).expect("the sandbox can be written to");
    sandbox.text("traces")
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
