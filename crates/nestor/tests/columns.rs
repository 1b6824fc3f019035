//! What is printed fits the columns of who reads it; what is piped stays whole.

mod predict_store;
mod support;

use predict_store::{LOAD, followed, keep, load, matrix, surface};
use support::Sandbox;
use support::made_traces::traces;

/// Prints with so many columns.
fn printed(sandbox: &Sandbox, arguments: &[&str], columns: usize) -> String {
    let command = sandbox.nestor(arguments).env("COLUMNS", columns.to_string()).assert();
    String::from_utf8(command.get_output().stdout.clone()).expect("text is UTF-8")
}

fn assert_fits(sandbox: &Sandbox, arguments: &[&str]) {
    for columns in [200, 80, 60] {
        let text = printed(sandbox, arguments, columns);
        assert!(!text.is_empty(), "{arguments:?}");
        // What has no blank cannot be broken, nor may a command that is to be copied.
        let breaks = |line: &&str| {
            let words = line.trim_start();
            line.chars().count() > columns && words.contains([' ', '|']) && !is_command(words)
        };
        let wide: Vec<&str> = text.lines().filter(breaks).collect();
        assert!(wide.is_empty(), "{columns} columns, {arguments:?}:\n{}", wide.join("\n"));
    }
    // On a screen that is too narrow for anything nothing is promised but that there is an answer.
    assert!(!printed(sandbox, arguments, 20).is_empty(), "{arguments:?}");
}

/// Whether a line is a command of this program.
fn is_command(line: &str) -> bool {
    line.starts_with("nestor ") || line.contains("  nestor ")
}

#[test]
fn lists_and_tables_fit_eighty_columns() {
    let sandbox = Sandbox::new();
    let old = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/old_results/results.sqlite");
    let store = sandbox.text("results.sqlite");
    std::fs::copy(old, &store).expect("a copy");
    let study = concat!(env!("CARGO_MANIFEST_DIR"), "/../../studies/quick.toml");
    for arguments in [
        &["workloads"][..],
        &["stack"],
        &["stack", "ext4/kvm/raw/xfs/hdd"],
        &["disk", "list"],
        &["disk", "check", "wd-re3"],
        &["load", "list"],
        &["replicate"],
        &["advise", "--settle", "list"],
        &["advise", "fio:rand-write", "--plan", "--store", &store],
        &["study", study, "--plan", "--store", &store],
        &["report", "--store", &store],
        &["predict", "--validate", "--store", &store],
        &["--help"],
        &["doctor"],
    ] {
        assert_fits(&sandbox, arguments);
    }
    let piped = support::said(&sandbox, &["workloads"]);
    assert!(piped.lines().any(|line| line.chars().count() > 80), "{piped}");
}

#[test]
fn what_traces_say_fits_eighty_columns() {
    let sandbox = Sandbox::new();
    let recorded = |name: &str| format!("{}/../trace/tests/data/{name}", env!("CARGO_MANIFEST_DIR"));
    let [blktrace, other] = ["ext4-loop.blktrace.0", "ext4-loop.blktrace.1"].map(recorded);
    let [tracefs, blkparse, fio, iolog] =
        ["ext4-loop.tracefs.txt", "ext4-loop.blkparse.txt", "fio_lat.log", "fio-v3.iolog"].map(recorded);
    let [guest, host, map] = traces(&sandbox);
    for arguments in [
        &["trace", "analyze", "--per-process", &blktrace, &other][..],
        &["trace", "analyze", &tracefs],
        &["trace", "analyze", &fio],
        &["trace", "analyze", &iolog],
        &["trace", "diff", &tracefs, &blkparse],
        &["trace", "diff", &tracefs, &fio],
        &["trace", "correlate", "--guest", &guest, "--host", &host, "--image", &map],
    ] {
        assert_fits(&sandbox, arguments);
    }
}

#[test]
fn what_results_say_fits_eighty_columns() {
    let sandbox = Sandbox::new();
    let mut records = matrix();
    records.extend((0..3).map(|block| load("ext4/hdd", block)));
    records.extend([1, 8, 64].map(|depth| surface("ext4/hdd", depth)));
    records.extend([1, 8, 64].map(|depth| surface("ext4/kvm/hdd", depth)));
    records.push(followed());
    let store = keep(&sandbox, &records);
    let last = records.len().to_string();
    let page = sandbox.text("page.html");
    let place = ["--on", "emulated:time=real", "--store", &store];
    for arguments in [
        &["predict", "--workload", "fio:seq-write", "--matrix"][..],
        &["predict", "--workload", LOAD, "--from", "ext4/hdd", "--to", "ext4/kvm/hdd"],
        &["predict", "--validate"],
    ] {
        assert_fits(&sandbox, &[arguments, &place].concat());
    }
    for arguments in [
        &["explain", &last][..],
        &["explain", &last, "--equations"],
        &["explain", "1"],
        &["report"],
        &["report", "--all"],
        &["report", "1", "--output", &page],
        &["report", &last, "--output", &page],
    ] {
        assert_fits(&sandbox, &[arguments, &["--store", &store]].concat());
    }
}
