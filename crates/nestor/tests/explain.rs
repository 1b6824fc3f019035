//! `nestor explain` on made-up runs: which of them are samples of the cell, and what equations say of them.

mod predict_store;
mod support;

use nestor_results::{CellRecord, Store, Study, StudyRecord};
use predict_store::{followed, keep, load};
use support::{Sandbox, json, refused, said};

#[test]
fn a_run_counts_once_where_others_repeat_it_or_a_study_has_its_numbers() {
    let sandbox = Sandbox::new();
    let depends_on = |block: u32, digest: &str| {
        let mut run = load("ext4/hdd", block);
        run.environment.depends_on = Some(digest.to_owned());
        run
    };
    let in_study = CellRecord {
        study: Some("s".to_owned()),
        study_hash: Some("0123456789abcdef".to_owned()),
        ..depends_on(3, "seed 1")
    };
    let runs = [depends_on(0, "seed 1"), depends_on(1, "seed 2"), depends_on(2, "seed 1"), in_study];
    let store = keep(&sandbox, &runs);
    let explained = |run: &str| {
        let explanation = json(&said(&sandbox, &["explain", run, "--json", "--store", &store]));
        let mut runs: Vec<i64> =
            explanation["runs"].as_array().unwrap().iter().filter_map(serde_json::Value::as_i64).collect();
        runs.sort_unstable();
        runs
    };
    assert_eq!(explained("1"), [1, 2]);
    assert_eq!(explained("3"), [2, 3]);
    assert_eq!(explained("4"), [4]);
}

#[test]
fn the_name_of_a_study_does_where_a_run_is_named() {
    let sandbox = Sandbox::new();
    let stacks = ["ext4/hdd", "xfs/hdd"];
    let study = Study::new("two", "t", stacks.map(Into::into).into(), vec![predict_store::LOAD.into()]);
    let hash = study.hash(&"emulated".into());
    let in_study = |stack: &&str| CellRecord {
        study: Some("two".to_owned()),
        study_hash: Some(hash.clone()),
        ..load(stack, 0)
    };
    let store = keep(&sandbox, &stacks.iter().map(in_study).collect::<Vec<_>>());
    let (ground, sessions) = ("emulated".into(), Vec::new());
    let kept =
        StudyRecord { hash: hash.clone(), ground, study, sentinels: false, ended_early: None, sessions };
    Store::open(&sandbox.path("results.sqlite")).unwrap().save_study(&kept).unwrap();
    assert!(said(&sandbox, &["report", "two", "--store", &store]).contains("two.html"));
    let choice = refused(&sandbox, &["explain", "two", "--store", &store]);
    assert!(
        choice.contains("study `two` has 2 cells")
            && choice.contains("\n  xfs/hdd ")
            && choice.contains(":\n    nestor explain 2\n"),
        "{choice}"
    );
    for command in ["report", "explain"] {
        let unknown = refused(&sandbox, &[command, "three", "--store", &store]);
        assert!(
            unknown.contains("there is no study `three`") && unknown.contains("it has: two"),
            "{unknown}"
        );
    }
}

#[test]
fn equations_of_a_run_are_said_or_why_they_are_not() {
    let sandbox = Sandbox::new();
    let store = keep(&sandbox, &[load("ext4/hdd", 0), followed()]);
    let asked = |run: &str, more: &[&str]| {
        let arguments = [&["explain", run, "--equations", "--store", &store], more].concat();
        said(&sandbox, &arguments)
    };
    let untraced = asked("1", &[]);
    assert!(untraced.contains("--trace layers, which follows no request"), "{untraced}");
    assert!(untraced.contains("to know it: nestor run ext4/hdd"), "{untraced}");
    let known = asked("2", &[]);
    for words in ["journal", "40.0 %", "block driver", "1.50 ms", "in virtual time only"] {
        assert!(known.contains(words), "{words}\n{known}");
    }
    let value = json(&asked("2", &["--json"]));
    assert_eq!(value["workload_time"]["known"]["busy_ns"], 10_000_000, "{value}");
    assert_eq!(value["request_time"]["known"]["operations"][0]["sides"]["disk"]["ns"], 11_000_000, "{value}");
    assert_eq!(value["processor_time"]["not-known"]["why"], "not-counted", "{value}");
    let both = refused(&sandbox, &["explain", "2", "--equations", "--against", "1", "--store", &store]);
    assert!(both.contains("--against"), "{both}");
}

#[test]
fn two_runs_of_one_cell_have_no_difference_to_explain() {
    let sandbox = Sandbox::new();
    let store = keep(&sandbox, &[load("ext4/hdd", 0), load("ext4/hdd", 1), load("xfs/hdd", 0)]);
    for force in [&[][..], &["--force"]] {
        let one =
            refused(&sandbox, &[&["explain", "2", "--against", "1", "--store", &store][..], force].concat());
        assert!(one.contains("runs 2 and 1 are both of ext4/hdd under"), "{one}");
        assert!(one.contains("name a run of another stack, or omit --against"), "{one}");
    }
    said(&sandbox, &["explain", "3", "--against", "1", "--store", &store]);
}
