//! What `nestor study` and `nestor replicate` say and judge without measuring anything: plans, refusals, claims of what was
//! measured before. Needs no lab and no root.

mod advise_store;
mod support;

use std::fs;

use advise_store::MadeUp;
use nestor_results::{SessionRecord, Store, Study, StudyRecord};
use serde_json::Value;
use support::{Sandbox, json, refused, said};

const STUDY: &str = r#"
name = "planned"
title = "A study that is only planned"
stacks = ["ext4/kvm/{,raw/{ext4,xfs}/}hdd"]
baselines = "raw-disk"
workloads = ["fio:{seq,rand}-write:runtime=20s"]
budget = "2h"
[stop]
looks = [3, 5]
"#;

/// Where a machine with KVM measures too, if it is asked for.
const IN_VIRTUAL_TIME: &str = "emulated:time=virtual";

fn sandbox_with(study: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    fs::write(sandbox.path("study.toml"), study).expect("the sandbox can be written to");
    sandbox
}

#[test]
fn a_plan_without_past_cells_is_a_guess() {
    let sandbox = sandbox_with(STUDY);
    // One at a time: how many fit side by side depends on the machine.
    let plan =
        ["study", "study.toml", "--plan", "--jobs", "1", "--store", "r.sqlite", "--on", IN_VIRTUAL_TIME];
    insta::assert_snapshot!(said(&sandbox, &plan), @"
    A study that is only planned  (planned)
    3 stacks, 2 workloads, up to 5 blocks in random order (seed 1), no baselines at the ends of blocks

                 at least  at most
      cells      18        30
      time       12 min    19 min
      measuring  54 %      55 %
      space                1.00 GiB

      on emulated:time=virtual, one cell at a time

      time allowed 2 h: cells that do not fit are left out

      nothing has been measured here yet: the time is a guess
    ");
}

#[test]
fn a_plan_for_a_cluster_says_node_hours_and_the_time_with_so_many_tasks() {
    let sandbox = sandbox_with(STUDY);
    let arguments = [
        "study",
        "study.toml",
        "--plan",
        "--store",
        "r.sqlite",
        "--slurm",
        "--slurm-tasks",
        "4",
        "--no-stop",
        "--on",
        IN_VIRTUAL_TIME,
    ];
    insta::assert_snapshot!(said(&sandbox, &arguments), @"
    A study that is only planned  (planned)
    3 stacks, 2 workloads, up to 5 blocks in random order (seed 1), no baselines at the ends of blocks

                  all
      cells       30
      time        6 min
      measuring   55 %
      node-hours  0.30
      space       1.00 GiB

      on emulated:time=virtual, on Slurm: 0.30 node-hours, up to 4 tasks at once, each with 1 core and 1963 MiB of memory

      time allowed 2 h: cells that do not fit are left out

      nothing has been measured here yet: the time is a guess
    ");
    let mut arguments = arguments.to_vec();
    arguments.extend([
        "--json",
        "--slurm-partition",
        "long",
        "--slurm-time",
        "2h",
        "--slurm-arg=--account=lab",
    ]);
    let plan = json(&said(&sandbox, &arguments));
    assert_eq!(plan["slurm"]["tasks_at_once"], 4);
    assert!(plan["slurm"]["most"]["node_hours"].as_f64().is_some_and(|hours| hours > 0.1), "{plan}");
}

#[test]
fn what_a_cluster_cannot_do_is_refused() {
    let sandbox = sandbox_with(STUDY);
    let on = |place: &str| {
        refused(
            &sandbox,
            &["study", "study.toml", "--store", "r.sqlite", "--slurm", "--slurm-tasks", "4", "--on", place],
        )
    };
    insta::assert_snapshot!(on("emulated:time=real"), @r"
    error: --slurm needs virtual time, but this is `--on emulated:time=real`: a study compares the cells of a block, and in real time cells on different machines cannot be compared
      omit --on, or run the study on one machine, without --slurm
    ");
    insta::assert_snapshot!(on("this"), @r"
    error: --slurm runs cells on emulated hosts, but this is `--on this`: devices and files of yours are those of one machine
      omit --on, or run the study without --slurm
    ");
    let nowhere = |more: &[&str]| {
        let arguments = [&["study", "study.toml", "--store", "r.sqlite", "--slurm"], more].concat();
        let output = sandbox.nestor(arguments).env("PATH", "/no/such/directory").assert().failure();
        String::from_utf8_lossy(&output.get_output().stderr).into_owned()
    };
    assert!(nowhere(&[]).contains("`sbatch` is not installed here"), "{}", nowhere(&[]));
    assert!(nowhere(&["--plan"]).contains("`sinfo` is not installed here"), "{}", nowhere(&["--plan"]));
    let without = refused(&sandbox, &["study", "study.toml", "--slurm-tasks", "4"]);
    assert!(without.contains("--slurm"), "{without}");
}

#[test]
fn a_plan_rests_on_cells_that_were_measured() {
    let sandbox = sandbox_with(STUDY);
    // 60 s a cell, of which 512 operations at 64 a second are 8 s.
    let mut made_up = MadeUp::new("fio:seq-write:runtime=20s");
    for stack in ["ext4/kvm/hdd", "ext4/kvm/raw/ext4/hdd"] {
        made_up.run("before", 0, stack, 64.0);
    }
    made_up.keep(&sandbox.path("r.sqlite"));
    // The made-up cells are of this place, which is not the usual one on every machine.
    let arguments = ["study", "study.toml", "--plan", "--store", "r.sqlite", "--on", "emulated:time=real"];
    insta::assert_snapshot!(said(&sandbox, &arguments), @"
    A study that is only planned  (planned)
    3 stacks, 2 workloads, up to 5 blocks in random order (seed 1), baselines at both ends of each block

                 at least  at most
      cells      24        40
      time       28 min    46 min
      measuring  22 %      23 %
      space                1.01 GiB

      on emulated:time=real, one cell at a time

      time allowed 2 h: cells that do not fit are left out

      15 of 40 cells were measured here before; the time is estimated from them
    ");
    let plan = json(&said(&sandbox, &[&arguments[..], &["--json"]].concat()));
    let effort = &plan["effort"];
    // Three stacks, and the baseline at both ends, under two workloads, in three to five blocks.
    assert_eq!((&effort["least"]["cells"], &effort["most"]["cells"]), (&Value::from(24), &Value::from(40)));
    assert_eq!(effort["results_bytes"], 40 * 150_000);
    assert_eq!(effort["disk_bytes"], 2 * (512_u64 << 20) + 40 * 150_000);
    assert_eq!(plan["first_block"].as_array().map(Vec::len), Some(8));
    // What is only planned is not begun.
    assert!(refused(&sandbox, &["study", "--resume", "--store", "r.sqlite"]).contains("no study was begun"));
}

#[test]
fn what_is_about_to_begin_is_said_and_refused_where_there_is_no_room() {
    let sandbox = sandbox_with(&STUDY.replace("runtime=20s", "runtime=20s:size=4096T:files=1"));
    let said = refused(
        &sandbox,
        &["study", "study.toml", "--jobs", "1", "--store", "r.sqlite", "--on", IN_VIRTUAL_TIME],
    );
    let (plan, refusal) = said.split_once("error: ").expect("a refusal");
    insta::assert_snapshot!(plan, @"
    plan of planned: 18 to 30 cells in about 12 min to 19 min
      on emulated:time=virtual, one cell at a time
      time allowed 2 h: cells that do not fit are left out
      nothing has been measured here yet: the time is a guess; space: up to 8.00 PiB for data, 4.29 MiB for results
    ");
    assert!(refusal.starts_with("the study may need 8.00 PiB for data of the modelled disk"), "{refusal}");
    assert!(refusal.contains("GiB are free\n") && refusal.contains(&sandbox.text("nestor-")), "{refusal}");
    assert!(refusal.contains("nothing was begun") && refusal.contains("NESTOR_WORK=DIRECTORY"), "{refusal}");
    assert_eq!(sandbox.left_behind(), Vec::<String>::new());
    assert!(refused(&sandbox, &["study", "--resume", "--store", "r.sqlite"]).contains("no study was begun"));
}

/// A study of a script, as it is kept when it was begun.
struct Begun {
    sandbox: Sandbox,
}

impl Begun {
    fn new(notes_files: bool) -> Self {
        let sandbox = Sandbox::new();
        let script = sandbox.text("x.f");
        fs::write(&script, "run 1\n").expect("the sandbox can be written to");
        let workload = format!("wml:script:file={script}");
        let text = format!(
            "name = \"s\"\ntitle = \"S\"\nstacks = [\"ext4/null\"]\nbaseline = \"ext4/null\"\nworkloads = [\"{workload}\"]\n"
        );
        fs::write(sandbox.path("study.toml"), text).expect("the sandbox can be written to");
        let mut study = Study::new("s", "S", vec!["ext4/null".into()], vec![workload.into()]);
        if notes_files {
            study.note_files().expect("the script can be read");
        }
        let session = SessionRecord {
            began_at: "2026-01-01T00:00:00Z".to_owned(),
            study_cells: Some(1),
            planned_cells: (1, 1),
            planned_s: (60.0, 60.0),
            cells: 0,
            elapsed_s: None,
            load_s: 0.0,
        };
        let record = StudyRecord {
            hash: study.hash(&"emulated".into()),
            ground: "emulated".into(),
            study,
            sentinels: false,
            ended_early: None,
            sessions: vec![session],
        };
        let mut store = Store::open(&sandbox.path("r.sqlite")).expect("a store can be made");
        store.save_study(&record).expect("a study can be kept");
        Self { sandbox }
    }

    fn change(&self) {
        fs::write(self.sandbox.path("x.f"), "run 2\n").expect("the sandbox can be written to");
    }

    /// What is said of going on, with and without the study's file; `None` where it would go on.
    fn refusals(&self) -> [Option<String>; 2] {
        [&["study.toml"][..], &[]].map(|file| {
            let arguments = [&["study", "--resume", "--plan", "--store", "r.sqlite"], file].concat();
            let output = self.sandbox.nestor(arguments).output().expect("the program runs");
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            (!output.status.success()).then(|| said.replace(&self.sandbox.text(""), ""))
        })
    }
}

#[test]
fn a_study_whose_script_was_changed_is_not_gone_on_with() {
    let begun = Begun::new(true);
    assert_eq!(begun.refusals(), [None, None], "nothing has changed");
    begun.change();
    let [with_file, without] = begun.refusals();
    assert_eq!(with_file, without);
    insta::assert_snapshot!(with_file.unwrap_or_default(), @r"
    error: the study `s` has changed since it was begun:
      contents of the file x.f
      its results are kept; to resume the earlier study, restore x.f; to begin the changed study, omit --resume
    ");
    // Begun anew, it is another study with all its cells.
    let plan =
        json(&said(&begun.sandbox, &["study", "study.toml", "--plan", "--json", "--store", "r.sqlite"]));
    assert_eq!(plan["effort"]["most"]["cells"], 1);
}

#[test]
fn a_study_of_a_version_that_did_not_look_at_scripts_goes_on_with_a_note() {
    let begun = Begun::new(false);
    begun.change();
    assert_eq!(begun.refusals(), [None, None]);
    let output = begun
        .sandbox
        .nestor(["study", "study.toml", "--resume", "--plan", "--store", "r.sqlite"])
        .output()
        .expect("the program runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("did not record the contents of") && said.contains("x.f: whether"), "{said}");
}

#[test]
fn a_published_study_is_planned_without_measuring() {
    let sandbox = Sandbox::new();
    // Without any pack of the lab image, whatever was made on this machine: what needs one and is optional is left out.
    let planned = |arguments: &[&str]| {
        let mut command = sandbox.nestor(arguments);
        let output =
            command.env("NESTOR_CACHE", sandbox.path("cache")).assert().success().get_output().clone();
        let text = |bytes| String::from_utf8(bytes).expect("text is UTF-8");
        (text(output.stdout), text(output.stderr))
    };
    let plan =
        ["replicate", "nested-fs", "--plan", "--jobs", "1", "--store", "r.sqlite", "--on", IN_VIRTUAL_TIME];
    let (text, notes) = planned(&plan);
    assert!(notes.contains("24 optional cells left out") && notes.contains("nestor lab pack xen"), "{notes}");
    insta::assert_snapshot!(text, @"
    Six guest file systems on six host file systems, as in FAST '12  (nested-fs, scale quick)
    14 stacks, 5 workloads, up to 3 blocks in random order (seed 2012), no baselines at the ends of blocks

                 all
      cells      63
      time       27 min
      measuring  39 %
      space      384 MiB

      on emulated:time=virtual, one cell at a time

      time allowed 32 min: cells that do not fit are left out

      nothing has been measured here yet: the time is a guess
    ");
    let larger =
        planned(&["replicate", "nested-fs", "--scale", "small", "--plan", "--json", "--store", "r.sqlite"]).0;
    let cells = |text: &str| json(text)["effort"]["most"]["cells"].as_u64().expect("a number");
    let quick = planned(&["replicate", "nested-fs", "--plan", "--json", "--store", "r.sqlite"]).0;
    assert!(cells(&larger) > cells(&quick), "{larger}");
    let networked = planned(&["replicate", "virtual-nas", "--plan", "--json", "--store", "r.sqlite"]).0;
    assert_eq!(cells(&networked), 68, "{networked}");
    let type_2 = planned(&["replicate", "type2-postmark", "--plan", "--json", "--store", "r.sqlite"]).0;
    assert_eq!(cells(&type_2), 90, "{type_2}");
    let paravirtual = planned(&["replicate", "paravirtual-io", "--plan", "--json", "--store", "r.sqlite"]).0;
    assert_eq!(cells(&paravirtual), 86, "{paravirtual}");
}

const GUEST: &str = "ext3/kvm:memory=256M:cache=writethrough:sched=mq-deadline";
const DISK: &str = "hdd:size=3G:sched=bfq";

/// The study of nested file systems as far as two of its loads go: xfs is as fast as the raw disk, jfs half as fast.
fn measured_before() -> Sandbox {
    let sandbox = Sandbox::new();
    let stack = |middle: &str| {
        nestor_stack::Stack::parse(&format!("{GUEST}/{middle}{DISK}")).expect("a stack").to_string()
    };
    let [raw, xfs, jfs] = ["", "raw:size=2G/xfs/", "raw:size=2G/jfs/"].map(stack);
    for workload in ["fio:seq-read:scale=0.015", "fio:seq-write:scale=0.015"] {
        let mut made_up = MadeUp::new(workload);
        made_up.keep_study("nested-fs", &[&raw, &xfs, &jfs]);
        for block in 0..3 {
            let wobble = 1.0 + 0.01 * f64::from(block);
            for (stack, rate) in [(&raw, 100.0), (&xfs, 100.5), (&jfs, 50.0)] {
                made_up.run("nested-fs", block, stack, rate * wobble);
            }
        }
        made_up.keep(&sandbox.path("r.sqlite"));
    }
    sandbox
}

#[test]
fn runs_of_different_workloads_are_explained_against_each_other_only_when_forced() {
    let sandbox = measured_before();
    // Nine runs of each workload, one after the other.
    let explain = ["explain", "10", "--against", "1", "--store", "r.sqlite"];
    let refusal = refused(&sandbox, &explain);
    assert!(
        refusal.contains("run 10 is of `fio:seq-write:scale=0.015` and run 1 of `fio:seq-read:scale=0.015`")
            && refusal.contains("add --force"),
        "{refusal}"
    );
    assert!(!said(&sandbox, &[explain.as_slice(), &["--force"]].concat()).is_empty());
    assert!(!said(&sandbox, &["explain", "2", "--against", "1", "--store", "r.sqlite"]).is_empty());
}

#[test]
fn claims_are_judged_by_what_was_measured_before() {
    let nothing = Sandbox::new();
    let claims_of_nothing = ["replicate", "nested-fs", "--claims", "--store", "r.sqlite"];
    assert!(refused(&nothing, &claims_of_nothing).contains("the results file r.sqlite does not exist"));
    drop(Store::open(&nothing.path("r.sqlite")).expect("a store can be made"));
    let said_of_nothing = refused(&nothing, &claims_of_nothing);
    assert!(
        said_of_nothing.contains("no results of `nested-fs` yet")
            && said_of_nothing.contains("measure it: nestor replicate nested-fs"),
        "{said_of_nothing}"
    );
    let sandbox = measured_before();
    let board =
        json(&said(&sandbox, &["replicate", "nested-fs", "--claims", "--json", "--store", "r.sqlite"]));
    let claims = board["claims"].as_array().expect("a list");
    let verdict = |claim: &Value| claim["verdict"].as_str().unwrap_or_default().to_owned();
    let judged: Vec<String> = claims
        .iter()
        .filter(|claim| verdict(claim) != "not-testable")
        .map(|claim| format!("{}: {}", claim["claim"]["id"].as_str().unwrap_or_default(), verdict(claim)))
        .collect();
    insta::assert_snapshot!(judged.join("\n"), @r"
    L-2: deviates
    L-4: deviates
    L-5: reproduced
    L-6: deviates
    L-7: deviates
    L-8: reproduced
    L-14: deviates
    L-26: deviates
    L-27: contradicted
    L-45: contradicted
    L-50: contradicted
    ");
    let text = said(&sandbox, &["replicate", "nested-fs", "--claims", "--store", "r.sqlite"]);
    // The counts may take several lines.
    let counts = text.trim_end().rsplit("\n\n").next().unwrap_or_default().replace("\n  ", " ");
    assert!(counts.contains("; arithmetic checked: ") && counts.contains("; configured: "), "{text}");
    // Another size was not measured.
    let other = ["replicate", "nested-fs", "--claims", "--scale", "paper", "--store", "r.sqlite"];
    assert!(refused(&sandbox, &other).contains("no results of `nested-fs` yet"));
    assert!(refused(&sandbox, &["replicate", "nested", "--claims"]).contains(
        "the published studies are: nested-fs, esx-disk, virtual-nas, type2-postmark, paravirtual-io, image-propagation"
    ));
}

#[test]
fn results_go_into_a_directory_that_is_not_somebody_elses() {
    let sandbox = measured_before();
    let arguments = |directory: &'static str| {
        ["replicate", "nested-fs", "--claims", "--results-to", directory, "--store", "r.sqlite"]
    };
    let board = said(&sandbox, &arguments("results"));
    let read = |name: &str| fs::read_to_string(sandbox.path("results").join(name)).expect(name);
    assert_eq!(read("scoreboard.txt"), board);
    assert!(read("README.md").contains("made by `nestor replicate`") && read("README.md").contains(&board));
    let begins: Vec<String> = read("README.md").lines().take(3).map(str::to_owned).collect();
    assert!(begins[0].starts_with("# ") && begins[2].starts_with("- Measured: "), "{begins:?}");
    assert!(read("matrix.txt").contains("xfs") && read("matrix.svg").starts_with("<svg"));
    assert!(read("environment.txt").starts_with("18 runs on `--on emulated:time=real`, seed 1\n"));
    assert!(json(&read("claims.json")).as_array().is_some_and(|claims| !claims.is_empty()));
    // Its own files are written over; those of others are not.
    said(&sandbox, &arguments("results"));
    fs::create_dir(sandbox.path("mine")).expect("the sandbox can be written to");
    fs::write(sandbox.path("mine/README.md"), "# Mine\n").expect("the sandbox can be written to");
    let refusal = refused(&sandbox, &arguments("mine"));
    assert!(refusal.contains("README.md is not a results file; nothing was written"), "{refusal}");
    assert_eq!(fs::read_dir(sandbox.path("mine")).expect("a directory").count(), 1);
}
