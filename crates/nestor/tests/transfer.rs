//! Images that are copied from a repository over a link, by real programs.

mod support;

use serde_json::Value;
use support::{Sandbox, json, refused};

/// A stack whose image is copied by a protocol.
fn stack(copy: &str) -> String {
    format!("ext4/kvm/{copy}/ext4/hdd:size=4G//link:rate=1gbit/raw:size=64M/ext4/hdd:size=4G")
}

/// The runs of stacks, each the first of a results file, so that all have the same seed.
fn measured(stacks: &[String]) -> Vec<Value> {
    let sandbox = Sandbox::new();
    let run = |(number, stack): (usize, &String)| {
        let store = sandbox.text(&format!("results-{number}.sqlite"));
        let place = ["--on", "emulated:time=virtual", "--trace", "none", "--store", &store];
        let run = ["run", stack, "fio:rand-read:size=16M:runtime=1s", "-n", "1", "--json"];
        let output = sandbox.nestor(run).args(place).assert().success().get_output().stdout.clone();
        let view = json(&String::from_utf8(output).expect("JSON is UTF-8"));
        assert_eq!(view[0]["summary"]["failures"].as_array().map(Vec::len), Some(0), "{view}");
        view[0].clone()
    };
    stacks.iter().enumerate().map(run).collect()
}

/// What a run says of its transfer.
fn transfer(run: &Value) -> &str {
    run["environment"]["settings"]["transfer"].as_str().unwrap_or_else(|| panic!("no transfer: {run}"))
}

#[test]
#[ignore = "needs the pack of the lab image with programs that copy; part of `make test-long`"]
fn every_program_brings_the_image_and_what_arrives_is_what_left() {
    let copies = [
        "copy:scp:cipher=aes128-gcm",
        "copy:gridftp",
        "copy:gridftp:streams=4",
        "copy:nbd",
        "copy:http",
        "copy:http:ranges=4",
        "copy:rsync",
        "copy:multicast",
    ];
    let stacks = copies.map(stack);
    for (copy, run) in copies.iter().zip(measured(&stacks)) {
        let said = transfer(&run);
        assert!(said.contains("64 MiB in ") && said.ends_with("SHA-256 equal"), "{copy}: {said}");
    }
}

#[test]
#[ignore = "needs the pack of the lab image with programs that copy; part of `make test-long`"]
fn a_transfer_takes_as_long_each_time_and_longer_over_a_slower_link() {
    let fast = stack("copy:nbd");
    let slow = fast.replace("1gbit", "100mbit");
    let runs = measured(&[fast.clone(), fast, slow]);
    let said: Vec<&str> = runs.iter().map(transfer).collect();
    assert_eq!(said[0], said[1]);
    let seconds = |said: &str| -> f64 {
        let (_, rest) = said.split_once(" in ").expect("how long it took");
        rest.split_once(' ').expect("seconds").0.parse().expect("a number")
    };
    // 64 MiB are 5.37 s at 100 Mbit/s without any header.
    assert!((5.3..7.0).contains(&seconds(said[2])), "{said:?}");
    assert!(seconds(said[0]) < seconds(said[2]) / 3.0, "{said:?}");
}

#[test]
fn stacks_whose_image_cannot_come_are_refused_in_words() {
    let sandbox = Sandbox::new();
    let cases = [
        ("ext4/kvm/copy:scp/ext4/hdd", "//link/raw/ext4/hdd"),
        ("ext4/kvm/raw/ext4/hdd//link/raw/ext4/hdd", "copy:scp"),
        ("ext4/kvm/copy/ext4/hdd//link/raw/ext4/hdd", "scp, gridftp"),
        ("ext4/kvm/copy:scp:streams=2/ext4/hdd//link/raw/ext4/hdd", "gridftp"),
        ("ext4/kvm/copy:scp/ext4/hdd//link/raw/ext4/hdd:no-such-disk", "no-such-disk"),
        ("ext4/xen/copy:scp/ext4/hdd//link/raw/ext4/hdd", "pack"),
    ];
    for (stack, word) in cases {
        let said = refused(&sandbox, &["run", stack, "fio:rand-read:size=8M", "-n", "1"]);
        assert!(said.contains('^') && said.contains(word), "{stack}: {said}");
    }
    let no_machine = ["run", "ext4/loop/overlay/ext4/hdd//link/raw/ext4/hdd", "life:cycle", "-n", "1"];
    assert!(refused(&sandbox, &no_machine).contains('^'));
    let no_source = ["run", "ext4/kvm/raw/ext4/hdd", "life:cycle", "-n", "1"];
    assert!(refused(&sandbox, &no_source).contains("//link/raw/ext4/hdd"));
    let elsewhere = ["run", &stack("copy:scp"), "fio:rand-read:size=8M", "-n", "1", "--on", "this"];
    let said = refused(&sandbox, &elsewhere);
    assert!(said.contains("--on this") && said.contains("a modelled disk needs the emulated host"), "{said}");
}
