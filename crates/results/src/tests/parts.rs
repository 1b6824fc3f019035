//! Studies of several parts and sizes, and comparisons that end early.

use nestor_statistics::sequential::{Decision, StopRule};

use crate::{CellSample, Decisions, NotedRecording, Saving, Study, TraceMode};

const FILE: &str = r#"
name = "parts"
title = "Parts"
stacks = ["ext3/kvm/{,raw/{xfs,jfs}/}hdd"]
baselines = "raw-disk"
workloads = ["fio:seq-{read,write}"]
scale = "small"

[[also]]
stacks = ["ext4/kvm/raw/xfs/hdd"]
workloads = ["fio:seq-write"]
replications = 3
trace = "full"
trace_cost = true

[stop]
looks = [3, 5]

[scales.small]
workloads = ["fio:seq-read"]
trace = "layers"
sentinels = ["ext3/kvm/hdd"]

[scales.large]
replications = 4
budget = "2h"
"#;

fn parse(text: &str, scale: Option<&str>) -> Result<Study, String> {
    Study::parse("studies/p.toml", text, scale).map_err(|complaint| complaint.to_string())
}

#[test]
fn a_scale_replaces_keys() {
    let small = parse(FILE, None).unwrap();
    assert_eq!(small.scale.as_deref(), Some("small"));
    assert_eq!(small.workloads, ["fio:seq-read", "fio:seq-write"], "the further part has its own");
    assert_eq!((small.trace, small.budget), (TraceMode::Layers, None));
    assert!(small.is_sentinel(&"ext3/kvm/hdd".into()) && !small.is_sentinel(&"ext4/kvm/hdd".into()));
    let large = parse(FILE, Some("large")).unwrap();
    assert_eq!((large.parts[0].replications, large.budget.map(|b| b.as_secs())), (4, Some(7200)));
    assert_ne!(small.hash(&"emulated".into()), large.replications.to_string());
}

#[test]
fn an_optional_part_that_is_left_out_asks_for_no_cells_and_changes_nothing_else() {
    let file = FILE.replace("trace_cost = true", "trace_cost = true\noptional = true");
    let whole = parse(&file, None).unwrap();
    assert!(whole.parts[1].optional && whole.parts[1].is_run() && !whole.parts[0].optional);
    let mut less = whole.clone();
    less.note_recording();
    let identity = less.hash(&"emulated".into());
    less.parts[1].left_out = Some("there is no ext4".to_owned());
    less.note_recording();
    assert_eq!(less.hash(&"emulated".into()), identity, "it can be gone on with where the part runs");
    let all = |study: &Study| study.all_cells(false, &Decisions::default());
    let (with, without) = (all(&whole), all(&less));
    let is_of_part = |stack: &str| stack.starts_with("ext4/");
    assert!(with.iter().any(|cell| is_of_part(cell.stack.as_str())));
    assert!(without.iter().all(|cell| !is_of_part(cell.stack.as_str()) && cell.workload == "fio:seq-read"));
    assert!(less.run_stacks().all(|stack| !is_of_part(stack.as_str())) && less.run_stacks().count() == 3);
    // What was measured elsewhere still counts, and the others are recorded as they were.
    let (ext4, write) = ("ext4/kvm/raw/xfs/hdd".into(), "fio:seq-write".into());
    assert!(less.holds(&ext4, &write) && !less.runs(&ext4, &write));
    let same = |cell: &&crate::CellKey| {
        whole.rule(&cell.stack, &cell.workload) == less.rule(&cell.stack, &cell.workload)
    };
    assert!(without.iter().all(|cell| same(&cell)));
    let kept: Study = serde_json::from_str(&serde_json::to_string(&less).unwrap()).unwrap();
    assert_eq!(kept.parts, less.parts);
}

#[test]
fn looks_count_also_when_fewer_blocks_are_asked_for_later() {
    let of_blocks = |blocks: u32| {
        let mut study = parse(FILE, None).unwrap();
        study.parts.iter_mut().for_each(|part| part.replications = blocks);
        study
    };
    let (few, more) = (of_blocks(3).confidence(), of_blocks(5).confidence());
    assert!(more > few, "one look, and two: {few} {more}");
    let shown_again = Study { looked_until: Some(5), ..of_blocks(3) };
    assert_eq!(shown_again.confidence(), more);
}

#[test]
fn a_scale_that_does_not_exist() {
    insta::assert_snapshot!(parse(FILE, Some("huge")).unwrap_err(), @r#"
    studies/p.toml:19:2: the study has no scale `huge`
      19 | [scales.small]
         |  ^^^^^^
      its scales are large, small
    "#);
    insta::assert_snapshot!(parse(&FILE.replace("budget =", "budgets ="), None).unwrap_err(), @r#"
    studies/p.toml:26:1: a scale has no key `budgets`
      26 | budgets = "2h"
         | ^^^^^^^
      did you mean `budget`?
      its keys are stacks, baseline, baselines, workloads, replications, budget, sentinels, trace, trace_cost, stop, also
    "#);
    insta::assert_snapshot!(parse(&FILE.replace("[3, 5]", "[5, 3]"), None).unwrap_err(), @r#"
    studies/p.toml:17:13: `looks` is a list of numbers of pairs, each larger than the one before, from 2 on, such as [3, 4, 6, 8, 12]
      17 | looks = [5, 3]
         |             ^
    "#);
    insta::assert_snapshot!(parse(&FILE.replace("[\"ext3/kvm/hdd\"]\n\n[scales.large", "[\"jfs/hdd\"]\n\n[scales.large"), None).unwrap_err(), @r#"
    studies/p.toml:22:13: jfs/hdd is not a baseline of this study
      22 | sentinels = ["jfs/hdd"]
         |             ^^^^^^^^^^^
      its baselines are ext3/kvm/hdd, ext4/kvm/hdd
    "#);
}

#[test]
fn a_study_is_the_union_of_its_parts() {
    let study = parse(FILE, None).unwrap();
    assert!(
        study.holds(&"ext3/kvm/raw/xfs/hdd".into(), &"fio:seq-read".into())
            && !study.holds(&"ext3/kvm/raw/xfs/hdd".into(), &"fio:seq-write".into())
    );
    assert!(
        study.holds(&"ext4/kvm/hdd".into(), &"fio:seq-write".into()),
        "a baseline is there for what is compared with it"
    );
    assert!(!study.holds(&"ext4/kvm/raw/xfs/hdd".into(), &"fio:seq-read".into()));
    let rule = study.rule(&"ext4/kvm/raw/xfs/hdd".into(), &"fio:seq-write".into()).unwrap();
    assert_eq!((rule.replications, rule.trace, rule.untraced_twin), (3, TraceMode::Full, true));
    let baseline = study.rule(&"ext4/kvm/hdd".into(), &"fio:seq-write".into()).unwrap();
    assert_eq!((baseline.replications, baseline.trace, baseline.untraced_twin), (3, TraceMode::Full, false));
    assert_eq!(study.most_blocks(), 5, "as many as looks, where no number is given");
}

/// A study of one workload, and a part that has a baseline of its own.
const WITH_OWN_BASELINE: &str = r#"
name = "own"
title = "A baseline of its own"
baseline = "ext4/hdd"
stacks = ["ext4/hdd", "ext4/kvm/hdd"]
workloads = ["fio:seq-read"]

[[also]]
baseline = "xfs/hdd"
stacks = ["xfs/hdd", "xfs/kvm/hdd"]
workloads = ["fio:seq-write"]
"#;

#[test]
fn a_part_may_have_a_baseline_of_its_own() {
    let study = parse(WITH_OWN_BASELINE, None).unwrap();
    let baseline = |stack: &str| study.baseline_of(&stack.into()).to_string();
    assert_eq!(baseline("ext4/kvm/hdd"), "ext4/hdd");
    assert_eq!(baseline("xfs/kvm/hdd"), "xfs/hdd");
    assert!(study.holds(&"xfs/hdd".into(), &"fio:seq-write".into()));
    assert!(!study.holds(&"ext4/hdd".into(), &"fio:seq-write".into()), "nothing there is compared with it");
    let shared = parse(&WITH_OWN_BASELINE.replace("\"xfs/kvm/hdd\"", "\"ext4/kvm/hdd\""), None);
    insta::assert_snapshot!(shared.unwrap_err(), @r#"
    studies/p.toml:9:12: ext4/kvm/hdd is in another part as well, where it has another baseline
      9 | baseline = "xfs/hdd"
        |            ^^^^^^^^^
      a stack has one baseline in all parts; omit this one, or give the stacks of the part another option
    "#);
    let absent = parse(&WITH_OWN_BASELINE.replace("[\"xfs/hdd\", ", "["), None);
    insta::assert_snapshot!(absent.unwrap_err(), @r#"
    studies/p.toml:9:12: the baseline is not among the stacks
      9 | baseline = "xfs/hdd"
        |            ^^^^^^^^^
      add xfs/hdd to `stacks`, or use one of them, for example xfs/kvm/hdd
    "#);
}

/// Pairs of one cell whose ratio is `ratio`, more or less.
fn samples(study: &Study, stack: &str, blocks: u32, ratio: f64, noise: f64) -> Vec<CellSample> {
    let sample = |stack: &str, block: u32, throughput: f64| CellSample {
        in_virtual_time: false,
        stack: stack.into(),
        workload: "fio:seq-read".into(),
        block,
        repeat: 0,
        throughput,
        cell_s: 10.0,
    };
    let written = stack.into();
    let baseline = study.baseline_of(&written).clone();
    (0..blocks)
        .flat_map(|block| {
            let sign = if block % 2 == 0 { 1.0 } else { -1.0 };
            [sample(&baseline, block, 100.0), sample(stack, block, 100.0 * ratio * (1.0 + sign * noise))]
        })
        .collect()
}

#[test]
fn what_is_settled_leaves_the_later_blocks() {
    let study = parse(FILE, None).unwrap();
    let mut seen = samples(&study, "ext3/kvm/raw/xfs/hdd", 3, 0.5, 0.02);
    seen.extend(samples(&study, "ext3/kvm/raw/jfs/hdd", 3, 1.0, 0.2));
    let decisions = Decisions::of(&study, &seen, Some(3));
    assert!(matches!(
        decisions.get(&"ext3/kvm/raw/xfs/hdd".into(), &"fio:seq-read".into()),
        Some(Decision::SignSettled { .. })
    ));
    assert!(matches!(
        decisions.get(&"ext3/kvm/raw/jfs/hdd".into(), &"fio:seq-read".into()),
        Some(Decision::Continue { next_look: 5 })
    ));
    let left = study.block_cells(3, false, &decisions);
    let of = |stack: &str| left.iter().filter(|c| c.stack == stack).count();
    assert_eq!(
        (of("ext3/kvm/raw/xfs/hdd"), of("ext3/kvm/raw/jfs/hdd"), of("ext3/kvm/hdd")),
        (0, 1, 1),
        "{left:?}"
    );
    // A block under way does not change while it runs, so that a killed study goes on with the same cells.
    seen.extend(samples(&study, "ext3/kvm/raw/jfs/hdd", 5, 1.0, 0.001).split_off(6));
    assert_eq!(Decisions::of(&study, &seen, Some(3)), decisions);
}

#[test]
fn blocks_that_only_a_baseline_has_are_run_for_its_own_sake() {
    let own =
        "[[also]]\nstacks = [\"ext3/kvm/hdd\"]\nworkloads = [\"fio:seq-read\"]\nreplications = 6\n\n[stop]";
    let study = parse(&FILE.replace("[stop]", own), None).unwrap();
    let settled =
        ["ext3/kvm/raw/xfs/hdd", "ext3/kvm/raw/jfs/hdd"].map(|stack| samples(&study, stack, 3, 0.5, 0.01));
    let decisions = Decisions::of(&study, &settled.concat(), Some(3));
    let in_block = |block| {
        let cells = study.block_cells(block, false, &decisions);
        cells.iter().filter(|c| c.stack == "ext3/kvm/hdd" && c.workload == "fio:seq-read").count()
    };
    // Five blocks are those of its comparisons, which need no more of them than three.
    assert_eq!([2, 3, 4, 5, 6].map(in_block), [0, 0, 0, 1, 0]);
}

#[test]
fn blocks_of_a_scale_are_not_those_of_the_stopping_rule() {
    let text = FILE.replace("replications = 3\n", "");
    let blocks = |scale| {
        let study = parse(&text, Some(scale)).unwrap();
        study.parts.iter().map(|part| part.replications).collect::<Vec<_>>()
    };
    assert_eq!((blocks("small"), blocks("large")), (vec![5, 5], vec![4, 4]));
}

#[test]
fn without_a_rule_everything_runs() {
    let study = Study { stop: None, ..parse(FILE, None).unwrap() };
    let seen = samples(&study, "ext3/kvm/raw/xfs/hdd", 3, 0.5, 0.0);
    let decisions = Decisions::of(&study, &seen, None);
    assert_eq!(decisions, Decisions::default());
    assert!(decisions.is_open(&"ext3/kvm/raw/xfs/hdd".into(), &"fio:seq-read".into()));
    let rule = StopRule::default();
    assert_eq!(rule.looks, [3, 4, 6, 8, 12]);
}

#[test]
fn what_is_compared_is_recorded_alike() {
    let text = FILE.replace(
        "ext4/kvm/raw/xfs/hdd\"]\nworkloads = [\"fio:seq-write\"]",
        "ext3/kvm/raw/jfs/hdd\"]\nworkloads = [\"fio:seq-read\"]",
    );
    let study = parse(&text, None).unwrap();
    for stack in ["ext3/kvm/hdd", "ext3/kvm/raw/xfs/hdd", "ext3/kvm/raw/jfs/hdd"] {
        assert_eq!(
            study.rule(&stack.into(), &"fio:seq-read".into()).unwrap().trace,
            TraceMode::Full,
            "{stack}"
        );
    }
}

#[test]
fn what_a_rule_would_have_saved_is_told_from_all_blocks() {
    let study = parse(FILE, None).unwrap();
    let rule = study.stop.clone().unwrap();
    let mut seen = samples(&study, "ext3/kvm/raw/xfs/hdd", 5, 0.5, 0.01);
    let noisy = samples(&study, "ext3/kvm/raw/jfs/hdd", 5, 1.0, 0.2);
    seen.extend(noisy.into_iter().filter(|s| s.stack == "ext3/kvm/raw/jfs/hdd"));
    // One comparison ends after three of five blocks, the other and the baseline go on.
    let saving = Saving::of(&Study { stop: None, ..study.clone() }, &rule, false, &seen);
    assert_eq!((saving.cells, saving.all_cells, saving.same, saving.comparisons), (13, 15, 2, 2));
    insta::assert_snapshot!(saving.in_words(), @"the stopping rule would have needed 13 of 15 cells, 87 % of their time, and come to the same verdict in 2 of 2 comparisons");
}

/// The study with a part that is compared with nothing.
fn with_apart(stack: &str, workload: &str) -> Result<Study, String> {
    let apart = format!(
        "[[also]]\nstacks = [\"{stack}\"]\nworkloads = [\"{workload}\"]\nreplications = 2\ntrace = \"full\"\n\
         apart = true\n\n[stop]"
    );
    parse(&FILE.replace("[stop]", &apart), None)
}

#[test]
fn a_part_that_is_apart_runs_without_a_baseline_and_is_recorded_as_it_says() {
    let study = with_apart("ext3/kvm/raw/xfs/hdd", "fio:rand-read").unwrap();
    let (stack, workload) = ("ext3/kvm/raw/xfs/hdd".into(), "fio:rand-read".into());
    let rule = study.rule(&stack, &workload).unwrap();
    assert_eq!((rule.replications, rule.trace, rule.untraced_twin), (2, TraceMode::Full, false));
    assert!(!study.holds(&"ext3/kvm/hdd".into(), &workload), "nothing is compared with its baseline");
    assert_eq!(study.rule(&stack, &"fio:seq-read".into()).unwrap().trace, TraceMode::Layers);
    // Nothing decides that it has enough blocks.
    let seen = samples(&study, "ext3/kvm/raw/xfs/hdd", 3, 0.5, 0.01);
    let decisions = Decisions::of(&study, &seen, None);
    assert_eq!(decisions.get(&stack, &workload), None);
    let blocks: Vec<u32> = study
        .all_cells(false, &decisions)
        .into_iter()
        .filter(|c| c.workload == workload)
        .map(|c| c.block)
        .collect();
    assert_eq!(blocks, [0, 1]);
}

#[test]
fn a_cell_is_not_apart_and_compared() {
    insta::assert_snapshot!(with_apart("ext3/kvm/raw/xfs/hdd", "fio:seq-read").unwrap_err(), @r"
    studies/p.toml:16:1: ext3/kvm/raw/xfs/hdd fio:seq-read is apart from the others, and in another part as well
      16 | [[also]]
         | ^^^^^^^^
      give the workload of the part that is apart another option, such as another `runtime` or `scale`
    ");
}

#[test]
fn a_cell_is_not_apart_and_the_baseline_of_another_part() {
    // No part lists it: it runs because ext4/kvm/raw/xfs/hdd does.
    insta::assert_snapshot!(with_apart("ext4/kvm/hdd", "fio:seq-write").unwrap_err(), @r"
    studies/p.toml:16:1: ext4/kvm/hdd fio:seq-write is apart from the others, and another part compares ext4/kvm/raw/xfs/hdd with it
      16 | [[also]]
         | ^^^^^^^^
      give the workload of the part that is apart another option, such as another `runtime` or `scale`
    ");
    let study = with_apart("ext4/kvm/hdd", "fio:rand-read").unwrap();
    assert!(
        study.is_apart(&"ext4/kvm/hdd".into(), &"fio:rand-read".into()),
        "nothing is compared with it there"
    );
}

#[test]
fn no_baseline_runs_for_what_is_apart() {
    let study = with_apart("ext3/kvm/raw/ext4/hdd", "fio:seq-read").unwrap();
    let settled =
        ["ext3/kvm/raw/xfs/hdd", "ext3/kvm/raw/jfs/hdd"].map(|stack| samples(&study, stack, 3, 0.5, 0.01));
    let decisions = Decisions::of(&study, &settled.concat(), Some(3));
    let in_block = |stack: &str, block| {
        let cells = study.block_cells(block, false, &decisions);
        cells.iter().filter(|c| c.stack == stack && c.workload == "fio:seq-read").count()
    };
    assert_eq!([0, 1, 2].map(|block| in_block("ext3/kvm/raw/ext4/hdd", block)), [1, 1, 0]);
    assert_eq!(
        [0, 1, 2].map(|block| in_block("ext3/kvm/hdd", block)),
        [0, 0, 0],
        "all comparisons are settled"
    );
}

#[test]
fn a_study_that_records_other_cells_otherwise_is_another_one() {
    let noted = |text: &str| {
        let mut study = parse(text, None).unwrap();
        study.note_recording();
        study
    };
    let of = |stack: &str, workload: &str| {
        format!(
            "name = \"n\"\ntitle = \"t\"\nstacks = [\"ext3/kvm/{{,raw/{{xfs,jfs}}/}}hdd\"]\nbaselines = \"raw-disk\"\n\
             workloads = [\"fio:seq-{{read,write}}\"]\ntrace = \"layers\"\n\
             [[also]]\nstacks = [\"{stack}\"]\nworkloads = [\"{workload}\"]\ntrace = \"full\"\n"
        )
    };
    let study = noted(&of("ext3/kvm/raw/xfs/hdd", "fio:seq-read"));
    let moved = noted(&of("ext3/kvm/raw/xfs/hdd", "fio:seq-write"));
    assert_eq!((&study.stacks, &study.workloads), (&moved.stacks, &moved.workloads));
    assert_eq!(study.recording_of_parts(), moved.recording_of_parts());
    assert!(!moved.records_as(&study));
    assert_ne!(moved.hash(&"emulated".into()), study.hash(&"emulated".into()));
    // All that share a baseline under a workload are recorded alike: which of them asks for it does not matter.
    let same = noted(&of("ext3/kvm/raw/jfs/hdd", "fio:seq-read"));
    assert_eq!(same.hash(&"emulated".into()), study.hash(&"emulated".into()));
}

#[test]
fn what_is_noted_of_a_study_that_records_one_mode_is_what_it_was() {
    let mut study = parse(&FILE.replace("trace = \"full\"", "trace = \"layers\""), None).unwrap();
    study.note_recording();
    // The text that its hash is made of.
    assert_eq!(serde_json::to_string(&study.recording).unwrap(), r#"["layers","layers"]"#);
    let earlier = serde_json::to_string(&parse(FILE, None).unwrap().recording_of_parts()).unwrap();
    assert_eq!(
        earlier, r#"["layers","full"]"#,
        "read back from studies that were begun before cells were noted"
    );
    assert_eq!(
        serde_json::from_str::<Vec<NotedRecording>>(&earlier).unwrap(),
        parse(FILE, None).unwrap().recording_of_parts()
    );
}

#[test]
fn a_study_that_records_otherwise_is_another_one() {
    let noted = |text: &str| {
        let mut study = parse(text, None).unwrap();
        study.note_recording();
        study
    };
    let study = noted(FILE);
    let part = noted(&FILE.replace("trace = \"full\"", "trace = \"layers\""));
    let all = noted(&FILE.replace("trace = \"layers\"", "trace = \"none\""));
    for other in [&part, &all] {
        assert!(!other.records_as(&study));
        assert_ne!(other.hash(&"emulated".into()), study.hash(&"emulated".into()));
    }
    let earlier = parse(FILE, None).unwrap();
    assert!(earlier.records_as(&study), "what was not noted is in its record all the same");
    assert_ne!(earlier.hash(&"emulated".into()), study.hash(&"emulated".into()));
    let read_back: Study = serde_json::from_str(&serde_json::to_string(&study).unwrap()).unwrap();
    assert_eq!(read_back.hash(&"emulated".into()), study.hash(&"emulated".into()));
}
