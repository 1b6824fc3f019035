//! Lives of instances: their image comes from a repository, they boot, a load runs in them, and they end.

mod support;

use std::collections::HashSet;
use std::fs;
use std::io::Read as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::Command;

use rustix::process::Signal;
use serde_json::Value;
use support::{Sandbox, alone, json, signal};

const VIRTUAL: &str = "emulated:time=virtual";

/// Bytes of the images.
const IMAGE_BYTES: f64 = (64 << 20) as f64;

/// What each instance reads.
const LOAD: &str = "life:cycle:run=fio:rand-read:size=4M:runtime=off";

/// Bytes of that.
const READ_BYTES: f64 = (4 << 20) as f64;

/// A stack whose instance has its image in this way, from a link of this rate.
fn stack(way: &str, link: &str) -> String {
    format!("ext4/kvm:memory=256M/{way}/ext4/hdd:size=4G//{link}/raw:size=64M/ext4/hdd:size=4G")
}

/// A run of a stack, the first of a results file, so that all have the same seed.
fn lived(stack: &str, load: &str) -> Value {
    let sandbox = Sandbox::new();
    let store = sandbox.text("results.sqlite");
    let run =
        ["run", stack, load, "-n", "1", "--json", "--on", VIRTUAL, "--trace", "layers", "--store", &store];
    let output = sandbox.nestor(run).assert().success().get_output().stdout.clone();
    json(&String::from_utf8(output).expect("JSON is UTF-8"))[0].clone()
}

/// The state of its one instance.
fn state<'a>(run: &'a Value, name: &str) -> &'a Value {
    let states = run["lives"][0]["states"].as_array().expect("states");
    states.iter().find(|state| state["state"] == name).unwrap_or_else(|| panic!("no {name}: {run}"))
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("no number: {value}"))
}

fn seconds(run: &Value, name: &str) -> f64 {
    number(&state(run, name)["seconds"])
}

#[test]
#[ignore = "needs the pack of the lab image with programs that copy; part of `make test-long`"]
fn an_instance_goes_through_its_states_and_alike_each_time() {
    let copied = stack("copy:nbd", "link:rate=1gbit");
    let runs = [lived(&copied, LOAD), lived(&copied, LOAD)];
    assert_eq!(runs[0]["lives"], runs[1]["lives"], "one seed, one life");
    let run = &runs[0];
    let states = run["lives"][0]["states"].as_array().expect("states");
    let names: Vec<&str> = states.iter().filter_map(|state| state["state"].as_str()).collect();
    assert_eq!(names, ["pending", "transfer", "boot", "running", "shutdown", "cleanup"]);
    assert!(states.windows(2).all(|pair| pair[0]["end_s"] == pair[1]["begin_s"]), "{states:?}");
    // All of the image went over the link, in frames whose headers are less than a tenth.
    let over_link = number(&state(run, "transfer")["from_repository_bytes"]);
    assert!((IMAGE_BYTES..1.1 * IMAGE_BYTES).contains(&over_link), "{over_link}");
    assert_eq!(number(&state(run, "running")["from_repository_bytes"]), 0.0);
    let read = number(&state(run, "running")["node_disk"]["read_bytes"]);
    assert!(
        read >= READ_BYTES,
        "the load reads its data, which came with the image, from the node's disk: {read}"
    );
    assert!(seconds(run, "boot") > seconds(run, "shutdown") && seconds(run, "shutdown") > 0.0);
    // The load is what it would be without a life around it.
    assert_eq!(number(&run["summary"]["latency"]["read"]["count"]), READ_BYTES / 8192.0);
}

#[test]
#[ignore = "needs the pack of the lab image with programs that copy; part of `make test-long`"]
fn an_overlay_brings_what_is_read_and_with_prefetch_all() {
    let overlay = lived(&stack("overlay", "link:rate=1gbit"), LOAD);
    let by_nfs = lived(&stack("overlay:over=nfs", "link:rate=1gbit"), LOAD);
    for run in [&overlay, &by_nfs] {
        let brought = number(&state(run, "running")["from_repository_bytes"]);
        assert!((READ_BYTES..1.5 * READ_BYTES).contains(&brought), "{brought}");
        assert!(number(&state(run, "transfer")["from_repository_bytes"]) < IMAGE_BYTES / 100.0);
        let marks = run["honesty"]["marks"].to_string();
        assert!(!marks.contains("cached"), "what another machine's disk gave was no memory: {marks}");
    }
    let prefetched = lived(&stack("overlay:prefetch", "link:rate=1gbit"), LOAD);
    let brought: f64 = ["transfer", "boot", "running", "shutdown"]
        .iter()
        .map(|name| number(&state(&prefetched, name)["from_repository_bytes"]))
        .sum();
    assert!(brought > 0.9 * IMAGE_BYTES, "{brought}");
}

#[test]
#[ignore = "needs the pack of the lab image with programs that copy; part of `make test-long`"]
fn a_link_that_is_cut_for_a_while_delays_the_image_and_no_byte_is_wrong() {
    let usual = lived(&stack("copy:nbd", "link:rate=1gbit"), "life:cycle");
    let cut = lived(&stack("copy:nbd", "link:rate=1gbit:cut-after=200ms:cut-for=2s"), "life:cycle");
    let later = seconds(&cut, "transfer") - seconds(&usual, "transfer");
    // TCP tries again after a time that doubles, so at most as long after the cut as that was long (RFC 6298, section 5.5).
    assert!((1.8..4.5).contains(&later), "{later}");
    assert!(
        cut["environment"]["settings"]["transfer"]
            .as_str()
            .is_some_and(|said| said.ends_with("SHA-256 equal"))
    );
}

/// Runs a life whose image takes minutes, ends a process of the run while it is on its way, and looks at what is said and what is left.
fn broken_on_the_way(what: &[&str], words: &str) {
    broken_for("life:cycle", "begins  host: nbdcopy", what, words);
}

/// The same of other lives, of which this is logged when the image is on its way.
fn broken_for(load: &str, on_its_way: &str, what: &[&str], words: &str) {
    let _alone = alone();
    let sandbox = Sandbox::new();
    let store = sandbox.text("results.sqlite");
    let slow = stack("copy:nbd", "link:rate=1mbit");
    let mut run = sandbox.start(&["run", &slow, load, "-n", "1", "--on", VIRTUAL, "--store", &store], &[]);
    run.wait_for_log(&[on_its_way]);
    let pid = run.wait_for_process(what);
    let killed = Command::new("kill").args(["-KILL", &pid.to_string()]).status().expect("kill runs");
    assert!(killed.success(), "process {pid} is there");
    let ended = run.end();
    assert!(!ended.succeeded, "{}", ended.stderr);
    for word in ["in the state transfer", words] {
        assert!(ended.stdout.contains(word), "{word:?} is not in what was said:\n{}", ended.stdout);
    }
    sandbox.assert_nothing_left();
}

#[test]
#[ignore = "needs the pack of the lab image with programs that copy; part of `make test-long`"]
fn a_link_that_is_cut_while_the_image_comes() {
    broken_on_the_way(&["link", "serve"], "the link `link:rate=1mbit` was cut");
}

#[test]
#[ignore = "needs the pack of the lab image with programs that copy; part of `make test-long`"]
fn a_repository_that_dies_while_the_image_comes() {
    broken_on_the_way(&["qemu-system", "-name client"], "the repository, which is at an end of the link");
}

#[test]
#[ignore = "needs the pack of the lab image with programs that copy; part of `make test-long`"]
fn a_program_that_copies_and_is_killed_fails_in_the_transfer() {
    let _alone = alone();
    let sandbox = Sandbox::new();
    let store = sandbox.text("results.sqlite");
    // Far longer than the program may take, whose time limit kills it.
    let cut = stack("copy:nbd", "link:rate=1gbit:cut-after=100ms:cut-for=3600s");
    let run = ["run", &cut, "life:cycle", "-n", "1", "--on", VIRTUAL, "--store", &store];
    let ended = sandbox.nestor(run).assert().failure().get_output().clone();
    let said = String::from_utf8_lossy(&ended.stdout).into_owned();
    for word in ["in the state transfer", "nbdcopy", "did not end within 300 s"] {
        assert!(said.contains(word), "{word:?} is not in what was said:\n{said}");
    }
    sandbox.assert_nothing_left();
}

/// Changes one byte of a file: the middle one of the blocks that another file has, too.
fn change_a_common_block(of: &Path, other: &Path) {
    const BLOCK: usize = 4096;
    let blocks = |path: &Path| {
        let mut file = fs::File::open(path).expect("the disk's data are there");
        let mut found = Vec::new();
        let mut block = vec![0; BLOCK];
        let mut at = 0_u64;
        while file.read_exact(&mut block).is_ok() {
            if block.iter().any(|byte| *byte != 0) {
                found.push((block.clone(), at));
            }
            at += BLOCK as u64;
        }
        found
    };
    let there: HashSet<Vec<u8>> = blocks(other).into_iter().map(|(block, _)| block).collect();
    let common: Vec<(Vec<u8>, u64)> =
        blocks(of).into_iter().filter(|(block, _)| there.contains(block)).collect();
    let (block, at) = &common[common.len() / 2];
    let file = fs::File::options().write(true).open(of).expect("the disk's data can be written");
    file.write_all_at(&[!block[0]], *at).expect("one byte is written");
}

#[test]
#[ignore = "needs the pack of the lab image with programs that copy; part of `make test-long`"]
fn one_wrong_byte_on_the_nodes_disk_is_noticed() {
    let _alone = alone();
    let sandbox = Sandbox::new();
    let store = sandbox.text("results.sqlite");
    let stack = "kvm:memory=256M/copy:nbd/ext4/hdd:size=1G//link/raw:size=256M/ext4/hdd:size=1G";
    let run = ["run", stack, "life:cycle", "-n", "1", "--on", VIRTUAL, "--store", &store];
    let mut run = sandbox.start(&run, &[]);
    // The image has come, and its digest at the repository takes longer than it takes to stop what asks for that on the node.
    run.wait_for_log(&["begins  host: nbdcopy", "repository: stop a program"]);
    signal(run.pid(), Signal::STOP);
    let [node, repository] = ["disk", "disk-1"].map(|name| run.work_directory().join(name).join("data.img"));
    change_a_common_block(&node, &repository);
    signal(run.pid(), Signal::CONT);
    let ended = run.end();
    assert!(!ended.succeeded, "{}", ended.stderr);
    for word in ["in the state transfer", "what arrived is not what left"] {
        assert!(ended.stdout.contains(word), "{word:?} is not in what was said:\n{}", ended.stdout);
    }
    sandbox.assert_nothing_left();
}

#[test]
#[ignore = "needs the pack of the lab image with programs that copy; part of `make test-long`"]
fn several_instances_share_a_repository_and_each_has_its_image() {
    let load = "life:cycle:count=3:run=fio:rand-read:size=4M:runtime=off";
    let copied = stack("copy:nbd", "link:rate=1gbit");
    let runs = [lived(&copied, load), lived(&copied, load)];
    assert_eq!(runs[0]["lives"], runs[1]["lives"], "one seed, the same lives");
    let run = &runs[0];
    let lives = run["lives"].as_array().expect("lives");
    assert_eq!(lives.len(), 3);
    let each = |name: &str, of: &str| -> Vec<f64> {
        let states = lives.iter().flat_map(|life| life["states"].as_array().expect("states"));
        states.filter(|state| state["state"] == name).map(|state| number(&state[of])).collect()
    };
    for name in ["transfer", "boot", "running", "shutdown", "cleanup"] {
        let (took, waited) = (each(name, "seconds"), each(name, "waited_s"));
        assert!(took.iter().all(|seconds| *seconds > 0.0), "{name}: {took:?}");
        let together: Vec<f64> = took.iter().zip(&waited).map(|(took, waited)| took + waited).collect();
        assert!(together.iter().all(|ends| (ends - together[0]).abs() < 1e-6), "{name}: {together:?}");
    }
    // All of the image, three times.
    let over_link = each("transfer", "from_repository_bytes");
    assert!(
        over_link.iter().all(|bytes| (3.0 * IMAGE_BYTES..3.3 * IMAGE_BYTES).contains(bytes)),
        "{over_link:?}"
    );
    assert_eq!(number(&run["summary"]["latency"]["read"]["count"]), 3.0 * READ_BYTES / 8192.0);
    let alone = lived(&copied, LOAD);
    let last = each("transfer", "seconds").into_iter().fold(0.0, f64::max);
    assert!(last > 2.0 * seconds(&alone, "transfer"), "they share one link: {last}");
    assert!(
        each("boot", "seconds").iter().all(|boot| *boot > 1.5 * seconds(&alone, "boot")),
        "and one processor"
    );
    let left = lived(&stack("overlay", "link:rate=1gbit"), load);
    let brought = number(&left["lives"][0]["states"][3]["from_repository_bytes"]);
    assert!(
        (3.0 * READ_BYTES..4.5 * READ_BYTES).contains(&brought),
        "each reads from the repository: {brought}"
    );
}

#[test]
#[ignore = "needs the pack of the lab image with programs that copy; part of `make test-long`"]
fn instances_on_several_nodes_share_the_repository_alone_and_multicast_sends_to_all_at_once() {
    let load = |nodes| format!("life:cycle:count=2:nodes={nodes}:run=fio:rand-read:size=4M:runtime=off");
    let copied = stack("copy:nbd", "link:rate=100mbit");
    let runs = [lived(&copied, &load(2)), lived(&copied, &load(2))];
    assert_eq!(runs[0]["lives"], runs[1]["lives"], "one seed, the same lives");
    let each = |run: &Value, name: &str, of: &str| -> Vec<f64> {
        let lives = run["lives"].as_array().expect("lives");
        let states = lives.iter().flat_map(|life| life["states"].as_array().expect("states"));
        states.filter(|state| state["state"] == name).map(|state| number(&state[of])).collect()
    };
    let most = |of: Vec<f64>| of.into_iter().fold(0.0, f64::max);
    let apart = &runs[0];
    let nodes: Vec<_> = apart["lives"].as_array().expect("lives").iter().map(|life| &life["node"]).collect();
    assert_eq!(nodes, [0, 1]);
    // The repository's wire carries all of the image for each, at 100 Mbit/s.
    let over_link = each(apart, "transfer", "from_repository_bytes");
    assert!(
        over_link.iter().all(|bytes| (2.0 * IMAGE_BYTES..2.2 * IMAGE_BYTES).contains(bytes)),
        "{over_link:?}"
    );
    assert!(most(each(apart, "transfer", "seconds")) > 2.0 * IMAGE_BYTES * 8.0 / 100e6);
    // Each has a disk of its own, with one image but for its zeros, and a processor of its own.
    for disk in lives_disks(apart, "transfer") {
        assert!((0.7 * IMAGE_BYTES..1.2 * IMAGE_BYTES).contains(&disk), "{disk}");
    }
    let together = lived(&copied, &load(1));
    assert!(most(each(apart, "boot", "seconds")) < 0.7 * most(each(&together, "boot", "seconds")));
    assert_eq!(number(&apart["summary"]["latency"]["read"]["count"]), 2.0 * READ_BYTES / 8192.0);
    let multicast = lived(&stack("copy:multicast", "link:rate=100mbit"), &load(2));
    let sent = each(&multicast, "transfer", "from_repository_bytes");
    assert!(
        sent.iter().all(|bytes| (IMAGE_BYTES..1.3 * IMAGE_BYTES).contains(bytes)),
        "one stream for both: {sent:?}"
    );
}

/// Bytes that were written to the disk of each instance's node in a state.
fn lives_disks(run: &Value, name: &str) -> Vec<f64> {
    let lives = run["lives"].as_array().expect("lives");
    let states = lives.iter().flat_map(|life| life["states"].as_array().expect("states"));
    let disks = states.filter(|state| state["state"] == name).map(|state| &state["node_disk"]);
    disks.map(|disk| number(&disk["written_bytes"])).collect()
}

#[test]
#[ignore = "needs the pack of the lab image with programs that copy; part of `make test-long`"]
fn a_node_beside_the_first_that_dies_is_named_with_the_state() {
    let on_its_way = "begins  host 2: nbdcopy";
    let words = "the host 2, which is at an end of the link";
    broken_for("life:cycle:count=2:nodes=2", on_its_way, &["qemu-system", "-name client-3"], words);
}

#[test]
#[ignore = "needs the pack of the lab image with programs that copy; part of `make test-long`"]
fn instances_for_which_the_node_has_no_memory_are_refused_before_they_boot() {
    let sandbox = Sandbox::new();
    let small = "ext4/kvm:memory=256M:host-memory=700M/copy:nbd/ext4/hdd//link/raw:size=16M/ext4/hdd";
    let run = [
        "run",
        small,
        "life:cycle:count=2",
        "-n",
        "1",
        "--on",
        VIRTUAL,
        "--store",
        &sandbox.text("r.sqlite"),
    ];
    let output = sandbox.nestor(run).assert().failure().get_output().clone();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let words = "2 instances need 896 MiB of memory on their node, which the stack says has 700 MiB";
    assert!(
        said.replace("\n", " ").split_whitespace().collect::<Vec<_>>().join(" ").contains(words),
        "{said}"
    );
}

#[test]
#[ignore = "needs the pack of the lab image with programs that copy; part of `make test-long`"]
fn an_image_that_the_node_has_no_room_for_fails_in_its_transfer_and_finished_instances_stay() {
    let _alone = alone();
    let sandbox = Sandbox::new();
    let store = sandbox.text("results.sqlite");
    let run = |size: &str| {
        let stack =
            format!("kvm:memory=256M/copy:nbd/ext4/hdd:size=256M//link/raw:size={size}/ext4/hdd:size=4G");
        let arguments = ["run", &stack, "life:cycle", "-n", "1", "--on", VIRTUAL, "--store", &store];
        sandbox.nestor(arguments).assert().get_output().clone()
    };
    assert!(run("16M").status.success());
    let full = run("512M");
    let said = String::from_utf8_lossy(&full.stdout).into_owned();
    assert!(!full.status.success(), "{said}");
    for word in ["in the state transfer", "o space left on device"] {
        assert!(said.contains(word), "{word:?} is not in what was said:\n{said}");
    }
    let kept = support::said(&sandbox, &["report", "--all", "--store", &store]);
    assert!(kept.contains("raw:size=16M"), "{kept}");
    sandbox.assert_nothing_left();
}
