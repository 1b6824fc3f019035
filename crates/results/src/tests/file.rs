//! Study files, right and wrong.

use std::time::Duration;

use crate::{Study, TraceMode};

const GOOD: &str = r#"
name = "quick"
title = "Nesting in five minutes"
stacks = ["ext3/kvm/{,raw/jfs/}hdd", "ext3/kvm/hdd"]
baseline = "ext3/kvm/hdd"
workloads = ["fio:seq-{read,write}"]
replications = 2
seed = 0x1f
budget = "5m"
"#;

fn parse(text: &str) -> Result<Study, String> {
    Study::parse("studies/s.toml", text, None).map_err(|complaint| complaint.to_string())
}

fn refused(change: impl Fn(String) -> String) -> String {
    parse(&change(GOOD.to_owned())).expect_err("this file is wrong")
}

#[test]
fn a_file_says_what_it_says() {
    let study = parse(GOOD).unwrap();
    assert_eq!(study.stacks, ["ext3/kvm/hdd", "ext3/kvm/raw/jfs/hdd"]);
    assert_eq!(study.workloads, ["fio:seq-read", "fio:seq-write"]);
    assert_eq!((study.replications, study.seed, study.budget), (2, 31, Some(Duration::from_secs(300))));
    assert_eq!(study.baseline_of(&"ext3/kvm/raw/jfs/hdd".into()), "ext3/kvm/hdd");
    assert_eq!(study.sentinels, None);
    assert_eq!((study.trace, study.trace_cost), (TraceMode::Full, false));
    let study = parse(&(GOOD.to_owned() + "trace = \"layers\"\ntrace_cost = true\n")).unwrap();
    assert_eq!((study.trace, study.trace_cost), (TraceMode::Layers, true));
}

#[test]
fn a_way_of_tracing_that_does_not_exist() {
    insta::assert_snapshot!(refused(|t| t + "trace = \"much\"\n"), @r#"
    studies/s.toml:10:9: `much` is not one of full, layers, none
      10 | trace = "much"
         |         ^^^^^^
      full: every request through all layers; layers: the numbers of each layer; none: nothing
    "#);
}

#[test]
fn each_guest_has_its_raw_disk() {
    let text = GOOD
        .replace("baseline = \"ext3/kvm/hdd\"", "baselines = \"raw-disk\"")
        .replace("ext3/kvm/{,raw/jfs/}hdd", "{jfs/kvm/raw/xfs,ext3/kvm/raw/jfs}/hdd");
    let study = parse(&text).unwrap();
    assert_eq!(study.stacks, ["jfs/kvm/raw/xfs/hdd", "ext3/kvm/raw/jfs/hdd", "ext3/kvm/hdd", "jfs/kvm/hdd"]);
    assert_eq!(study.baseline_of(&"jfs/kvm/raw/xfs/hdd".into()), "jfs/kvm/hdd");
    assert!(study.is_baseline(&"jfs/kvm/hdd".into()) && !study.is_baseline(&"jfs/kvm/raw/xfs/hdd".into()));
}

#[test]
fn the_hash_follows_what_makes_results_belong_together() {
    let study = parse(GOOD).unwrap();
    let more = parse(&GOOD.replace("replications = 2", "replications = 5").replace("5m", "1h")).unwrap();
    let other = parse(&GOOD.replace("fio:seq-", "fio:rand-")).unwrap();
    assert_eq!(study.hash(&"emulated".into()), more.hash(&"emulated".into()));
    assert_ne!(study.hash(&"emulated".into()), other.hash(&"emulated".into()));
    assert_ne!(study.hash(&"emulated".into()), study.hash(&"this".into()));
}

#[test]
fn a_misspelt_key() {
    insta::assert_snapshot!(refused(|t| t.replace("workloads", "workload")), @r#"
    studies/s.toml:6:1: a study has no key `workload`
      6 | workload = ["fio:seq-{read,write}"]
        | ^^^^^^^^
      did you mean `workloads`?
      its keys are name, title, stacks, baseline, baselines, workloads, replications, seed, budget, sentinels, trace, trace_cost, stop, also, scale, scales, claim, figure, finding
    "#);
}

#[test]
fn a_wrong_type() {
    insta::assert_snapshot!(refused(|t| t.replace("= 2", "= \"2\"")), @r#"
    studies/s.toml:7:16: a whole number from 1 to 1000 is needed here, but this is a string
      7 | replications = "2"
        |                ^^^
    "#);
    insta::assert_snapshot!(refused(|t| t.replace("[\"fio:seq-{read,write}\"]", "\"fio:seq-read\"")), @r#"
    studies/s.toml:6:13: a list of texts is needed here, but this is a string
      6 | workloads = "fio:seq-read"
        |             ^^^^^^^^^^^^^^
    "#);
    insta::assert_snapshot!(refused(|t| t.replace("[\"fio:seq-{", "[7, \"fio:seq-{")), @r#"
    studies/s.toml:6:14: a text in quotes is needed here, but this is an integer
      6 | workloads = [7, "fio:seq-{read,write}"]
        |              ^
    "#);
}

#[test]
fn numbers_and_times_out_of_range() {
    insta::assert_snapshot!(refused(|t| t.replace("= 2", "= 0")), @r#"
    studies/s.toml:7:16: `replications` is a whole number from 1 to 1000
      7 | replications = 0
        |                ^
    "#);
    insta::assert_snapshot!(refused(|t| t.replace("5m", "5 parsecs")), @r#"
    studies/s.toml:9:10: `5 parsecs` is not a time
      9 | budget = "5 parsecs"
        |          ^^^^^^^^^^^
      write hours, minutes and seconds: 90s, 5m, 1h30m; a number alone is in seconds
    "#);
}

#[test]
fn nothing_to_do() {
    insta::assert_snapshot!(refused(|t| t.replace("[\"fio:seq-{read,write}\"]", "[]")), @r#"
    studies/s.toml:6:13: `workloads` is empty
      6 | workloads = []
        |             ^^
      it is a list of workloads, such as ["fio:seq-read"]
    "#);
    insta::assert_snapshot!(parse("name = \"x\"").unwrap_err(), @r#"
    studies/s.toml:1:11: the study has no `stacks`
      1 | name = "x"
        |           ^
      `stacks` is a list of stacks, such as ["ext3/kvm/hdd"]
    studies/s.toml:1:11: the study has no `workloads`
      1 | name = "x"
        |           ^
      `workloads` is a list of workloads, such as ["fio:seq-read"]
    studies/s.toml:1:11: the study has no `baseline`
      1 | name = "x"
        |           ^
      `baseline` is the stack that the others are compared with (or write baselines = "raw-disk")
    "#);
}

#[test]
fn a_stack_that_is_none() {
    insta::assert_snapshot!(refused(|t| t.replace("raw/jfs", "jfs")), @r#"
    studies/s.toml:4:11: a stack does not fit together
      4 | stacks = ["ext3/kvm/{,jfs/}hdd", "ext3/kvm/hdd"]
        |           ^^^^^^^^^^^^^^^^^^^^^
        ext3/kvm/jfs/hdd
                 ^^^ kvm needs a block device or an image below it; jfs offers a directory
        put an image between them: ext3/kvm/raw/jfs/hdd
    "#);
}

#[test]
fn a_baseline_that_is_not_among_the_stacks() {
    insta::assert_snapshot!(refused(|t| t.replace("baseline = \"ext3", "baseline = \"ext4")), @r#"
    studies/s.toml:5:12: the baseline is not among the stacks
      5 | baseline = "ext4/kvm/hdd"
        |            ^^^^^^^^^^^^^^
      add ext4/kvm/hdd to `stacks`, or use one of them, for example ext3/kvm/hdd
    "#);
    insta::assert_snapshot!(refused(|t| t.replace("baseline = \"ext3/kvm/hdd", "baselines = \"raw")), @r#"
    studies/s.toml:5:13: `raw` is not a rule for baselines
      5 | baselines = "raw"
        |             ^^^^^
      the rules are "raw-disk": the same guest directly on the medium, and "native": its file system there without a virtual machine
      to name one stack for all, write baseline = "STACK"
    "#);
}

#[test]
fn a_baseline_is_asked_for_whatever_else_is_wrong() {
    let said = Study::parse("s.toml", "", None).unwrap_err().to_string();
    for key in ["name", "stacks", "workloads", "baseline"] {
        assert_eq!(said.matches(&format!("the study has no `{key}`")).count(), 1, "{said}");
    }
    let said =
        refused(|t| t.replace("baseline =", "# baseline =").replace("stacks = [\"ext3", "stacks = [\"ext33"));
    assert!(said.contains("`ext33`") && said.contains("the study has no `baseline`"), "{said}");
    let said = refused(|t| {
        t.replace("baseline = \"ext3/kvm", "baseline = \"ext3/kmv")
            .replace("stacks = [\"ext3", "stacks = [\"ext33")
    });
    assert!(said.contains("`ext33`") && said.contains("did you mean kvm?"), "{said}");
}

#[test]
fn not_even_toml() {
    insta::assert_snapshot!(refused(|t| t.replace("seed = 0x1f", "seed = = 1")), @r#"
    studies/s.toml:8:8: not valid TOML: extra `=`, expected nothing
      8 | seed = = 1
        |        ^
    "#);
}

#[test]
fn a_file_that_is_not_there() {
    let error = Study::read(std::path::Path::new("/no/such/study.toml"), None).unwrap_err();
    insta::assert_snapshot!(error, @r"
    cannot read the study file /no/such/study.toml: No such file or directory (os error 2)
      give the path of a study file, for example studies/quick.toml
    ");
}

#[test]
fn everything_that_is_wrong_is_said_at_once() {
    let text = GOOD.replace("raw/jfs", "jfs").replace("title = \"Nesting in five minutes\"\n", "");
    let text = text.replace("seq-{read", "seq-{reed").replace("= 2", "= 0");
    insta::assert_snapshot!(parse(&text).unwrap_err(), @r#"
    studies/s.toml:3:11: a stack does not fit together
      3 | stacks = ["ext3/kvm/{,jfs/}hdd", "ext3/kvm/hdd"]
        |           ^^^^^^^^^^^^^^^^^^^^^
        ext3/kvm/jfs/hdd
                 ^^^ kvm needs a block device or an image below it; jfs offers a directory
        put an image between them: ext3/kvm/raw/jfs/hdd
    studies/s.toml:5:14: a workload is not understood
      5 | workloads = ["fio:seq-{reed,write}"]
        |              ^^^^^^^^^^^^^^^^^^^^^^
        fio:seq-reed
            ^^^^^^^^ fio has no case "seq-reed"
        did you mean seq-read? it has seq-read, seq-write, rand-read, rand-write, mixed
    studies/s.toml:6:16: `replications` is a whole number from 1 to 1000
      6 | replications = 0
        |                ^
    "#);
}

#[test]
fn a_study_without_a_title_has_the_name_of_its_file() {
    let study = parse(&GOOD.replace("title = \"Nesting in five minutes\"\n", "")).unwrap();
    assert_eq!((study.name.as_str(), study.title.as_str()), ("quick", "s"));
}

proptest::proptest! {
    #[test]
    fn no_text_makes_the_reader_panic(text in "[a-z=\"\\[\\]\n .#0-9{},'ü!]*") {
        let _ = parse(&text);
    }

    #[test]
    fn no_change_of_a_good_file_makes_the_reader_panic(at in 0_usize..250, put in "\\PC{0,3}", cut in 0_usize..5) {
        let mut text: Vec<char> = GOOD.chars().collect();
        let at = at.min(text.len());
        let end = (at + cut).min(text.len());
        text.splice(at..end, put.chars());
        let _ = parse(&text.into_iter().collect::<String>());
    }
}
