//! `nestor load replay` as a user meets it: on a directory, on a file, and what it refuses.

mod support;

use std::fs;

use serde_json::Value;
use support::Sandbox;

/// An iolog of fio: writes, reads, a flush and a discard in 40 ms.
fn trace(sandbox: &Sandbox) -> String {
    let mut log = "fio version 3 iolog\n0 disk add\n0 disk open\n".to_owned();
    for number in 0..40 {
        let (operation, offset) = (if number % 4 == 0 { "read" } else { "write" }, number * 8192);
        log += &format!("{} disk {operation} {offset} 4096\n", number * 1000);
    }
    log += "40000 disk sync\n40001 disk trim 0 4096\n40002 disk close\n";
    let path = sandbox.text("trace.log");
    fs::write(&path, log).expect("the sandbox can be written to");
    path
}

#[test]
fn a_trace_is_replayed_in_a_directory_and_what_was_made_is_removed() {
    let sandbox = Sandbox::new();
    let (trace, directory) = (trace(&sandbox), sandbox.text("target"));
    fs::create_dir(&directory).expect("a directory");
    let arguments = ["load", "replay", &trace, "--target", &directory, "--remove", "--json"];
    let output = sandbox.nestor(arguments).assert().success().get_output().stdout.clone();
    let report: Value = serde_json::from_slice(&output).expect("JSON");
    assert_eq!(report["achieved"]["requests"], 41);
    assert_eq!(report["achieved"]["bytes"], 40 * 4096);
    assert_eq!(
        (&report["flushes_sent"], &report["left_out"]["discards"]),
        (&Value::from(1), &Value::from(1))
    );
    assert_eq!(report["ordering"]["submitted_out_of_order"], 0);
    assert_eq!(fs::read_dir(&directory).expect("a directory").count(), 0);
}

#[test]
fn a_file_is_overwritten_only_where_it_is_named() {
    let sandbox = Sandbox::new();
    let (trace, disk) = (trace(&sandbox), sandbox.disk("disk.img", 1 << 20));
    let replay = ["load", "replay", &trace, "--target", &disk, "--speed", "max"];
    let refused = sandbox.nestor(replay).assert().failure().stdout("").get_output().stderr.clone();
    assert!(String::from_utf8_lossy(&refused).contains(&format!("`--overwrite {disk}`")));
    assert!(fs::read(&disk).expect("the file").iter().all(|byte| *byte == 0));
    sandbox.nestor(replay.into_iter().chain(["--overwrite", &disk])).assert().success();
    let written = fs::read(&disk).expect("the file");
    for (number, block) in written.chunks(8192).take(40).enumerate() {
        let (data, gap) = block.split_at(4096);
        assert_eq!(data.iter().any(|byte| *byte != 0), number % 4 != 0, "request {number}");
        assert!(gap.iter().all(|byte| *byte == 0));
    }
    let small = sandbox.disk("small.img", 8192);
    let replay = ["load", "replay", &trace, "--target", &small, "--overwrite", &small];
    let refused = sandbox.nestor(replay).assert().failure().get_output().stderr.clone();
    assert!(String::from_utf8_lossy(&refused).contains("`--wrap` places requests"));
}
