//! `nestor advise` as a user meets it, where nothing is measured.

mod advise_store;
mod support;

use advise_store::MadeUp;
use serde_json::Value;
use support::{Sandbox, json, refused, said};

#[test]
fn the_plan_names_a_few_of_many_stacks_and_is_repeatable() {
    let sandbox = Sandbox::new();
    let arguments = ["advise", "mail", "--plan", "--budget", "2h", "--host-fs", "{ext4,xfs}", "--json"];
    let plan = json(&said(&sandbox, &arguments));
    assert_eq!((&plan["possible"], &plan["parameters"]), (&Value::from(12), &Value::from(5)));
    let stacks = plan["stacks"].as_array().expect("a list");
    assert!((9..=10).contains(&stacks.len()), "{plan}");
    assert_eq!(stacks[0], "ext4/kvm/raw/ext4/hdd");
    assert_eq!(json(&said(&sandbox, &arguments)), plan);
    let text = said(&sandbox, &["advise", "mail", "--plan", "--budget", "2h"]);
    assert!(text.starts_with("plan: ") && text.contains("of 12 stacks under wml:mailserver"), "{text}");
}

#[test]
fn levels_may_be_words_that_the_shell_made_of_braces() {
    let sandbox = Sandbox::new();
    let plan = |arguments: &[&str]| {
        json(&said(
            &sandbox,
            &[&["advise", "fio:rand-write", "--plan", "--json", "--budget", "9h"], arguments].concat(),
        ))
    };
    assert_eq!(plan(&["--host-fs", "ext4", "xfs"]), plan(&["--host-fs", "ext4,xfs"]));
    let one = plan(&["--format", "device", "--cache", "none,directsync"]);
    assert_eq!(one["possible"], 2, "{one}");
}

#[test]
fn a_budget_that_is_too_short_is_refused_before_anything_starts() {
    let sandbox = Sandbox::new();
    let said = refused(&sandbox, &["advise", "mail", "--budget", "10s"]);
    assert!(said.contains("the budget allows 0 cells") && said.contains("--budget"), "{said}");
}

#[test]
fn an_empty_store_recommends_nothing() {
    let sandbox = Sandbox::new();
    let output =
        sandbox.nestor(["advise", "mail", "--from", "store"]).assert().failure().get_output().stdout.clone();
    let text = String::from_utf8(output).expect("text is UTF-8");
    assert!(text.contains("nothing is known about any of these stacks"), "{text}");
    let said = refused(&sandbox, &["advise", "mail", "--as", "qemu"]);
    assert!(said.contains("measure first: nestor advise mail"), "{said}");
}

#[test]
fn what_is_wrong_is_said_where_it_is() {
    let sandbox = Sandbox::new();
    let said = refused(&sandbox, &["advise", "mail", "--host-fs", "zsf"]);
    assert!(said.contains("zsf"), "{said}");
    let said = refused(&sandbox, &["advise", "mail", "--cache", "none,writeback", "--vm", "aio=native"]);
    assert!(said.contains("aio=native needs a cache mode"), "{said}");
    let said = refused(&sandbox, &["advise", "mail", "--disk", "hdd:no-such-disk"]);
    assert!(said.contains("no-such-disk"), "{said}");
    let said = refused(&sandbox, &["advise", "fio:{rand-read,rand-write}"]);
    assert!(said.contains("one workload"), "{said}");
    let said = refused(&sandbox, &["advise", "--settle", "K13"]);
    assert!(said.contains("`--settle` has no question `K13`"), "{said}");
    refused(&sandbox, &["advise"]);
}

#[test]
fn a_stack_is_written_for_others() {
    let sandbox = Sandbox::new();
    let written_for = |tool: &str| {
        said(&sandbox, &["advise", "--as", tool, "--stack", "ext4/kvm:cache=writeback/qcow2/xfs/hdd"])
    };
    assert!(written_for("libvirt").contains("<driver name='qemu' type='qcow2' cache='writeback'"));
    assert!(written_for("qemu").contains("-blockdev driver=qcow2,node-name=disk"));
    assert!(written_for("mkfs").contains("mkfs.xfs /dev/YOUR-DISK"));
    let printed = json(&said(&sandbox, &["advise", "--as", "mkfs", "--stack", "ext4/kvm/hdd", "--json"]));
    assert_eq!((&printed["stack"], &printed["tool"]), (&Value::from("ext4/kvm/hdd"), &Value::from("mkfs")));
}

#[test]
fn disputes_are_listed_and_what_cannot_be_settled_says_why() {
    let sandbox = Sandbox::new();
    let all = json(&said(&sandbox, &["advise", "--settle", "list", "--json"]));
    assert_eq!(all.as_array().map(Vec::len), Some(17));
    assert!(said(&sandbox, &["advise", "--settle", "list"]).contains("K4   what do the cache modes mean?"));
    assert!(said(&sandbox, &["advise", "--settle", "K12"]).contains("cannot be settled here"));
    let plan = said(&sandbox, &["advise", "--settle", "k4", "--plan"]);
    assert!(plan.starts_with("plan: 5 stacks x 1 workloads x 1 = 5 cells"), "{plan}");
    let output = sandbox.nestor(["advise", "--settle", "K1", "--from", "store"]).assert().failure();
    let text = String::from_utf8(output.get_output().stdout.clone()).expect("text is UTF-8");
    assert!(text.contains("on this machine: not tested"), "{text}");
}

/// Nine of twelve stacks, then pairs of the best beside yours; xfs is 1.5, writethrough 0.5 times as fast.
fn screened() -> MadeUp {
    let rate = |stack: &str| {
        let with = |word: &str, ratio: f64| if stack.contains(word) { ratio } else { 1.0 };
        100.0 * with("/xfs/", 1.5) * with("qcow2", 0.8) * with("writethrough", 0.5)
    };
    let mut made_up = MadeUp::new("fio:rand-write");
    let without = ["raw/xfs/hdd", "cache=writeback/qcow2/xfs/hdd", "cache=writethrough/raw/ext4/hdd"];
    let wobble = [1.01, 0.99, 1.0, 1.01, 0.99, 1.0, 0.99, 1.01, 1.0];
    let alternatives = "ext4/kvm:cache={none,writeback,writethrough}/{raw,qcow2}/{ext4,xfs}/hdd";
    let all =
        nestor_stack::parse_all(alternatives).expect("stacks").into_iter().map(|stack| stack.to_string());
    let kept = all.filter(|stack| {
        !without.iter().any(|left_out| {
            stack.ends_with(left_out) && (stack.contains("cache=") == left_out.contains("cache="))
        })
    });
    for (stack, wobble) in kept.zip(wobble) {
        made_up.run("advise-screen", 0, &stack, rate(&stack) * wobble);
    }
    made_up
}

const YOURS: &str = "ext4/kvm/raw/ext4/hdd";
const BEST: &str = "ext4/kvm/raw/xfs/hdd";

#[test]
fn what_the_store_knows_is_ranked_and_the_rest_predicted() {
    let sandbox = Sandbox::new();
    screened().keep(&sandbox.path("results.sqlite"));
    let store = sandbox.text("results.sqlite");
    let advice =
        json(&said(&sandbox, &["advise", "fio:rand-write", "--from", "store", "--store", &store, "--json"]));
    let stacks = advice["recommendations"].as_array().expect("a list");
    assert_eq!(stacks.len(), 12);
    let best = stacks.iter().find(|one| one["stack"] == BEST).expect("it is predicted");
    assert_eq!((&best["measured"], &best["confirmed"]), (&Value::from(false), &Value::Null));
    let ratio = best["vs_yours"]["value"].as_f64().expect("a number");
    assert!((ratio / 1.5 - 1.0).abs() < 0.05, "{best}");
    assert_eq!(advice["confirmation"]["confirmation"], "not-tried");
    // The made-up runs flush 64 times, and the disk sees it unless the host is told to write through.
    let price = |stack: &str| {
        let found = stacks.iter().find(|one| one["stack"] == stack).expect("it is ranked");
        found["price"]["kind"].as_str().expect("a word").to_owned()
    };
    assert_eq!(price(YOURS), "nothing-flushed");
    assert_eq!(price("ext4/kvm:cache=writethrough/raw/xfs/hdd"), "nothing-written");
    // Nothing was joined, so the layers' own counts say why; of what is only predicted nothing does.
    let mechanism = |stack: &str| {
        let found = stacks.iter().find(|one| one["stack"] == stack).expect("it is ranked");
        found["mechanism"].as_str().map(str::to_owned)
    };
    for one in stacks.iter().filter(|one| one["stack"] != YOURS) {
        assert_eq!(one["mechanism"].is_string(), one["measured"] == true, "{one}");
    }
    assert_eq!((mechanism(YOURS), mechanism(BEST)), (None, None));
    let why = mechanism("ext4/kvm:cache=writethrough/raw/xfs/hdd").expect("it was measured beside yours");
    assert!(
        why.starts_with("by the layers of run ")
            && why.contains("1000 operations of the application: 1015.6 against 128.9"),
        "{why}"
    );
    let held: Vec<&str> = advice["held_fixed"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|one| one["option"].as_str())
        .collect();
    assert_eq!(held, ["--guest", "--device-model", "--scheduler", "--host-scheduler"]);
    let plan = json(&said(
        &sandbox,
        &[
            &["advise", "fio:rand-write", "--plan", "--json", "--budget", "9h", "--store", &store][..],
            // Of the place where it would be measured; the made-up runs are of this one.
            &["--on", "emulated:time=real"],
        ]
        .concat(),
    ));
    assert_eq!(plan["held_fixed"], advice["held_fixed"]);
    assert_eq!((&plan["known"], &plan["stacks"]), (&Value::from(9), &Value::from(Vec::<Value>::new())));
    let xml = said(&sandbox, &["advise", "fio:rand-write", "--as", "libvirt", "--store", &store]);
    assert!(xml.contains("/xfs/hdd, below <devices>"), "{xml}");
}

#[test]
fn a_test_beside_yours_confirms_and_only_that() {
    let sandbox = Sandbox::new();
    let store = sandbox.text("results.sqlite");
    let mut made_up = screened();
    for block in 0..4 {
        let slow = 1.0 + 0.1 * f64::from(block);
        made_up.run("advise-confirm", block, YOURS, 100.0 * slow);
        made_up.run("advise-confirm", block, BEST, 152.0 * slow + f64::from(block % 2));
    }
    made_up.keep_study("advise-confirm", &[YOURS, BEST]);
    made_up.keep(&sandbox.path("results.sqlite"));
    let text = said(&sandbox, &["advise", "fio:rand-write", "--from", "store", "--store", &store]);
    assert!(text.contains(&format!("confirmed by 4 pairs of fresh runs: {BEST} +52.")), "{text}");
    assert!(text.contains("(runs 10 to 17)"), "{text}");
    let first = text.lines().find(|line| line.starts_with("  1  ")).expect("a first place");
    assert!(first.contains(BEST) && first.contains("4 runs"), "{text}");
}

#[test]
fn a_number_of_memory_is_never_the_best() {
    let sandbox = Sandbox::new();
    let store = sandbox.text("results.sqlite");
    let mut made_up = screened();
    let cached = "ext4/kvm:cache=writeback/qcow2/xfs/hdd";
    made_up.run_from_memory("advise-screen", 0, cached, 9_000.0);
    made_up.keep(&sandbox.path("results.sqlite"));
    let arguments = ["advise", "fio:rand-write", "--from", "store", "--store", &store];
    let advice = json(&said(&sandbox, &[&arguments[..], &["--json"]].concat()));
    let stacks = advice["recommendations"].as_array().expect("a list");
    let last = stacks.last().expect("a last place");
    assert_eq!(last["stack"], cached);
    let reason = last["not_physical"].as_str().expect("a reason");
    assert!(reason.contains("0 % of the 4.00 MiB written reached the"), "{reason}");
    assert!(stacks[..11].iter().all(|one| one["not_physical"].is_null()), "{advice}");
    let text = said(&sandbox, &arguments);
    assert!(
        text.contains("not plausible, so not recommended, however fast\n   12  0 % of the 4.00 MiB"),
        "{text}"
    );
    let pasted = said(&sandbox, &["advise", "fio:rand-write", "--as", "mkfs", "--store", &store]);
    assert!(!pasted.contains(cached), "{pasted}");
}

#[test]
fn where_no_number_is_physical_nothing_is_the_best() {
    let sandbox = Sandbox::new();
    let store = sandbox.text("results.sqlite");
    let mut made_up = MadeUp::new("fio:rand-write");
    made_up.run_from_memory("advise-screen", 0, YOURS, 8_000.0);
    made_up.run_from_memory("advise-screen", 0, BEST, 9_000.0);
    made_up.keep(&sandbox.path("results.sqlite"));
    let text = said(&sandbox, &["advise", "fio:rand-write", "--from", "store", "--store", &store]);
    assert!(text.contains("none of these numbers is plausible, so nothing is recommended"), "{text}");
    assert!(text.contains("not confirmed: the number of your stack is not plausible: 0 % of"), "{text}");
    let said = refused(&sandbox, &["advise", "fio:rand-write", "--as", "qemu", "--store", &store]);
    assert!(said.contains("is plausible, so none is the best") && said.contains(BEST), "{said}");
}

#[test]
fn a_dispute_is_settled_by_what_the_store_has() {
    let sandbox = Sandbox::new();
    let store = sandbox.text("results.sqlite");
    let mut made_up = MadeUp::new("fio:rand-write:size=4M:files=1:engine=psync:fsync=8");
    for mode in ["none", "writeback", "writethrough", "directsync", "unsafe"] {
        let stack =
            nestor_stack::Stack::parse(&format!("ext4/kvm:cache={mode}/raw/ext4/hdd")).expect("a stack");
        made_up.run("settle-k4", 0, &stack.to_string(), 100.0);
    }
    made_up.keep(&sandbox.path("results.sqlite"));
    let arguments = ["advise", "--settle", "K4", "--from", "store", "--store", &store, "--json"];
    let settled = json(&said(&sandbox, &arguments));
    let outcomes: Vec<&Value> =
        settled["sides"].as_array().expect("a list").iter().map(|s| &s["outcome"]).collect();
    assert_eq!(outcomes, ["holds", "does-not-hold"]);
    assert_eq!(settled["semantics"].as_array().map(Vec::len), Some(5));
}
