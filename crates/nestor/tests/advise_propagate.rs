//! `nestor advise --propagate` as a user meets it, with a store of made-up lives.

mod advise_store;
mod support;

use advise_store::{MadeUp, REPOSITORY_DISK_SHARE};
use nestor_results::Store;
use serde_json::Value;
use support::{Sandbox, json, refused, said};

const MIB: u64 = 1 << 20;

fn stack(way: &str, link: &str, mib: u64) -> String {
    let text = format!("ext4/kvm/{way}/ext4/hdd//{link}/raw:size={mib}M/ext4/hdd");
    nestor_stack::Stack::parse(&text).expect("a stack").to_string()
}

/// Over 1 Gbit/s, `copy:nbd` takes 200 ms and 10 ms for each MiB, and `copy:scp` three times as long; an overlay is open in 200 ms. Each MiB
/// that an instance reads takes 2 ms of a copy, and 300 ms of an overlay. The overlay was measured over 100 Mbit/s, too.
fn kept(sandbox: &Sandbox) -> String {
    let mut made_up = MadeUp::new("life:cycle");
    for (mib, wobble) in [(48, 1.001), (144, 0.998), (240, 1.002), (336, 0.999)] {
        let seconds = wobble * (0.2 + 0.01 * mib as f64);
        for (way, seconds) in [("copy:nbd", seconds), ("copy:scp", 3.0 * seconds), ("overlay", 0.2 * wobble)]
        {
            made_up.life(&stack(way, "link", mib), "life:cycle", mib * MIB, seconds, 10.0);
        }
    }
    for (mib, wobble) in [(2, 1.001), (8, 0.999), (32, 1.0)] {
        let workload = format!("life:cycle:run=fio:rand-read:depth=1:runtime=off:size={mib}M");
        for (way, transfer_s, mib_s) in [("copy:nbd", 1.8, 0.002), ("overlay", 0.2, 0.3)] {
            let rest_s = 10.0 * wobble + mib_s * mib as f64;
            made_up.life(&stack(way, "link", 160), &workload, 160 * MIB, transfer_s * wobble, rest_s);
        }
    }
    made_up.life(&stack("overlay", "link:rate=100mbit", 144), "life:cycle", 144 * MIB, 0.3, 10.0);
    made_up.keep(&sandbox.path("results.sqlite"));
    sandbox.text("results.sqlite")
}

fn asked<'a>(store: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    ["advise", "--store", store, "--propagate"].iter().chain(more).copied().collect()
}

#[test]
fn the_ways_are_told_with_bounds_and_what_they_lose() {
    let sandbox = Sandbox::new();
    let store = kept(&sandbox);
    let advice = json(&said(&sandbox, &asked(&store, &["336M", "--instances", "4", "--json"])));
    assert_eq!(advice["choice"]["way"]["layer"], "copy:nbd", "{advice}");
    assert_eq!(advice["choice"]["by"], "transfers-of-copies");
    assert_eq!(advice["question"]["link_rate"], "1gbit");
    let ways = advice["ways"].as_array().expect("a list");
    let of = |way: &str| ways.iter().find(|one| one["layer"] == way).expect("it was measured");
    let number = |value: &Value| value.as_f64().expect("a number");
    let nbd = &of("copy:nbd")["transfer"];
    let seconds = number(&nbd["one"]["seconds"]);
    assert!((seconds - 3.56).abs() < 0.02, "{nbd}");
    assert!(number(&nbd["all_s"]["high"]) >= 4.0 * seconds, "{nbd}");
    assert!(number(&nbd["all_s"]["low"]) <= 4.0 * REPOSITORY_DISK_SHARE * seconds, "{nbd}");
    assert_eq!(nbd["bottleneck"]["resource"]["disk"], "repository");
    assert_eq!(
        (&of("copy:nbd")["loss"]["loses"], &of("overlay")["loss"]["loses"]),
        (&Value::from("new-instances"), &Value::from("unwritten-parts"))
    );
    let crossed = &advice["cross_overs"][0];
    assert_eq!(crossed["earlier"], "overlay-below", "{crossed}");
    assert!((number(&crossed["bytes"]) / MIB as f64 - 3.36 / 0.298).abs() < 0.5, "{crossed}");
    let text = said(&sandbox, &asked(&store, &["336M", "--instances", "4"]));
    assert!(text.starts_with("image of 336 MiB, 4 instances over a link of 1gbit  on emulated\n"), "{text}");
    assert!(text.contains("take copy:nbd: of the copies, it has the shortest upper bound"), "{text}");
    assert!(text.contains("4 at once are bounds, not estimates"), "{text}");
}

#[test]
fn what_is_read_decides_between_a_copy_and_an_overlay() {
    let sandbox = Sandbox::new();
    let store = kept(&sandbox);
    let chosen = |reads: &str| {
        let advice = json(&said(&sandbox, &asked(&store, &["160M", "--reads", reads, "--json"])));
        assert_eq!(advice["choice"]["by"], "lives", "{advice}");
        advice["choice"]["way"]["layer"].as_str().expect("a way").to_owned()
    };
    assert_eq!((chosen("1M"), chosen("30M")), ("overlay".to_owned(), "copy:nbd".to_owned()));
}

#[test]
fn a_file_is_as_long_as_it_is() {
    let sandbox = Sandbox::new();
    let store = kept(&sandbox);
    let image = sandbox.path("image.raw");
    std::fs::File::create(&image).expect("a file").set_len(144 * MIB).expect("it has a length");
    let image = sandbox.text("image.raw");
    let advice = json(&said(&sandbox, &asked(&store, &[&image, "--json"])));
    assert_eq!(advice["question"]["image_bytes"], 144 * MIB);
}

#[test]
fn nothing_follows_from_one_rate_to_another() {
    let sandbox = Sandbox::new();
    let store = kept(&sandbox);
    let said = refused(&sandbox, &asked(&store, &["336M", "--link", "10gbit"]));
    assert!(
        said.contains("no image was brought over a link of 10gbit on emulated, only of 100mbit, 1gbit"),
        "{said}"
    );
    assert!(
        said.contains("//link:rate=10gbit/raw:size={84M,168M,336M}/ext4/hdd' life:cycle --trace layers"),
        "{said}"
    );
    assert!(said.contains(&format!("--store {store}")), "{said}");
    // The overlay alone is no advice, and what it is to be compared with has a command.
    let output = sandbox.nestor(asked(&store, &["144M", "--link", "100mbit"])).assert().failure();
    let text = String::from_utf8(output.get_output().stdout.clone()).expect("text is UTF-8");
    assert!(
        text.contains("no way is chosen") && text.contains("copy:scp, copy:gridftp, copy:nbd: not measured"),
        "{text}"
    );
}

#[test]
fn what_is_wrong_is_said_where_it_is() {
    let sandbox = Sandbox::new();
    let missing = sandbox.text("missing.sqlite");
    let said = refused(&sandbox, &asked(&missing, &["8G"]));
    assert!(
        said.contains("missing.sqlite does not exist") && !sandbox.path("missing.sqlite").exists(),
        "{said}"
    );
    let empty = sandbox.text("empty.sqlite");
    drop(Store::open(&sandbox.path("empty.sqlite")).expect("a store can be made"));
    let said = refused(&sandbox, &asked(&empty, &["8G"]));
    assert!(
        said.contains("no life of an instance was measured on")
            && said.contains("measure some first: nestor run "),
        "{said}"
    );
    let said = refused(&sandbox, &asked(&empty, &["0"]));
    assert!(said.contains("an image of 0 bytes"), "{said}");
    let said = refused(&sandbox, &asked(&empty, &["no-such-image"]));
    assert!(said.contains("no-such-image") && said.contains("it is no file"), "{said}");
    let directory = sandbox.text("");
    let said = refused(&sandbox, &asked(&empty, &[&directory]));
    assert!(said.contains("is not a regular file"), "{said}");
    let said = refused(&sandbox, &asked(&empty, &["8G", "--link", "rate=1gbit"]));
    assert!(said.contains("`rate=1gbit` is no rate of a link"), "{said}");
    let said = refused(&sandbox, &asked(&empty, &["8G", "--reads", "0"]));
    assert!(said.contains("reads nothing of its image"), "{said}");
    for other in [&["--nas"][..], &["--disk", "ssd"], &["--plan"], &["--settle", "K4"], &["--as", "qemu"]] {
        let said = refused(&sandbox, &[&asked(&empty, &["8G"])[..], other].concat());
        assert!(said.contains("cannot be used with"), "{other:?}: {said}");
    }
    let said = refused(&sandbox, &["advise", "mail", "--propagate", "8G"]);
    assert!(said.contains("cannot be used with"), "{said}");
    for more in [["--instances", "2"], ["--reads", "1M"]] {
        let said = refused(&sandbox, &[&["advise", "mail", "--plan"][..], &more].concat());
        assert!(said.contains("cannot be used with"), "{said}");
        let said = refused(&sandbox, &[&["advise"][..], &more].concat());
        assert!(said.contains("--propagate"), "{said}");
    }
    let said = refused(&sandbox, &["advise", "mail", "--plan", "--link", "1gbit"]);
    assert!(said.contains("--nas") && said.contains("--propagate"), "{said}");
}
