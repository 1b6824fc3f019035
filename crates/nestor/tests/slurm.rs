//! `nestor study --slurm` on a real Slurm of two nodes on this machine, which the test starts: a node is killed in the middle, and
//! everything is measured once, as without Slurm.

#![allow(clippy::print_stdout, clippy::print_stderr)] // For who runs it, not for who uses the program.

mod support;

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use nestor_slurm::{TaskFiles, TaskStatus};
use rustix::process::Signal;
use support::slurm_cluster::{SlurmCluster, has_slurm};
use support::study_outcomes::outcomes;
use support::{LIMIT, Sandbox, alone, can_run, signal};

/// Cells that take a second or two: without a guest and without the time of a disk.
const STUDY: &str = r#"
name = "spread"
title = "A study that is spread over a cluster"
stacks = ["{ext4,ext2}/null"]
baseline = "ext4/null"
workloads = ["fio:seq-write:scale=0.001:runtime=1s"]
replications = 3
sentinels = false
trace = "none"
"#;

/// Cells of the study.
const CELLS: usize = 6;

/// What a study may take: the first one takes eight minutes on two processors.
const LONGEST: Duration = Duration::from_secs(3600);

/// What a task on a node says, once it has measured something and measures another cell.
fn task_in_the_middle(sandbox: &Sandbox, node: &str) -> Option<(TaskFiles, TaskStatus)> {
    let studies = fs::read_dir(sandbox.path("shared")).ok()?.flatten();
    let array: PathBuf = studies.map(|study| study.path().join("array-1")).find(|array| array.exists())?;
    (0..2).map(|task| TaskFiles::of(&array, task)).find_map(|files| {
        let status = files.status()?;
        let is_in_the_middle = status.node == node && status.under_way.is_some_and(|cell| cell > 0);
        (is_in_the_middle && files.store().exists()).then_some((files, status))
    })
}

#[test]
fn a_study_on_a_cluster_survives_the_death_of_a_node() {
    if can_run(false, true) && has_slurm() {
        survives_the_death_of_a_node(STUDY, CELLS);
    }
}

#[test]
#[ignore = "measures the first study twice, a quarter of an hour: part of make test-long"]
fn the_first_study_on_a_cluster_survives_the_death_of_a_node() {
    if can_run(false, true) && has_slurm() {
        survives_the_death_of_a_node(include_str!("../../../studies/quick.toml"), 28);
    }
}

fn survives_the_death_of_a_node(study: &str, cells: usize) {
    let _alone = alone();
    let mut spread = Spread::of(study);
    let Spread { sandbox, cluster } = &mut spread;
    let (name, value) = cluster.variable();
    let mut running = sandbox.start(&ARGUMENTS, &[(name, &value)]);
    let (files, _) = wait_for(&mut running, || task_in_the_middle(sandbox, "n2"));
    cluster.kill("n2");
    let had_ended = files.status().is_some_and(|status| status.ended);
    let ended = running.end_within(LONGEST);
    assert!(ended.succeeded, "{}{}", ended.stdout, ended.stderr);
    assert!(had_ended || ended.stderr.contains("was lost on n2"), "{}", ended.stderr);
    let spread_outcomes = outcomes(sandbox, "r.sqlite");
    assert_eq!(spread_outcomes.len(), cells, "{}", ended.stderr);
    let left: Vec<_> = fs::read_dir(sandbox.path("shared")).expect("it is there").collect();
    assert!(left.is_empty(), "{left:?}");
    eprintln!("{}{}", ended.stderr, ended.stdout);

    // Without Slurm, the same comes out, to the last bit.
    let arguments = ["study", "study.toml", "--on", "emulated:time=virtual", "--store", "alone.sqlite"];
    let ended = sandbox.start(&arguments, &[]).end_within(LONGEST);
    assert!(ended.succeeded, "{}{}", ended.stdout, ended.stderr);
    assert_eq!(outcomes(sandbox, "alone.sqlite"), spread_outcomes);
    spread.assert_nothing_left();
}

#[test]
#[ignore = "a minute or two: part of make test-long"]
fn an_interrupted_study_leaves_nothing_on_the_cluster_and_goes_on() {
    if !can_run(false, true) || !has_slurm() {
        return;
    }
    let _alone = alone();
    let spread = Spread::of(STUDY);
    let Spread { sandbox, cluster } = &spread;
    let (name, value) = cluster.variable();
    let variables = [(name, value.as_str())];
    let start = |more: &[&'static str]| sandbox.start(&[&ARGUMENTS[..], more].concat(), &variables);

    // What Slurm refuses is said in its own words.
    let refused = start(&["--slurm-partition", "nowhere"]).end();
    assert!(!refused.succeeded);
    assert!(refused.stderr.contains("invalid partition specified: nowhere"), "{}", refused.stderr);
    assert!(outcomes(sandbox, "r.sqlite").is_empty());

    let mut running = start(&[]);
    wait_for(&mut running, || task_in_the_middle(sandbox, "n1"));
    signal(running.pid(), Signal::INT);
    let interrupted = running.end();
    assert!(!interrupted.succeeded && interrupted.stderr.contains("interrupted"), "{}", interrupted.stderr);
    cluster.wait_until_idle();
    let kept = outcomes(sandbox, "r.sqlite");
    assert!(!kept.is_empty() && kept.len() < CELLS, "{kept:?}");

    // A controller that is killed leaves its array job, which the next one ends; what it has measured is taken.
    fs::remove_dir_all(sandbox.path("shared")).expect("it is there");
    let mut running = start(&["-n", "6"]);
    wait_for(&mut running, || task_in_the_middle(sandbox, "n1"));
    signal(running.pid(), Signal::KILL);
    running.end();
    let ended = start(&["-n", "6"]).end();
    assert!(ended.succeeded, "{}{}", ended.stdout, ended.stderr);
    let all = outcomes(sandbox, "r.sqlite");
    assert_eq!(all.len(), 2 * CELLS);
    assert!(kept.iter().all(|(cell, outcome)| all.get(cell) == Some(outcome)), "what was kept stays");
    spread.assert_nothing_left();
}

/// A cluster, and a study for it.
struct Spread {
    sandbox: Sandbox,
    cluster: SlurmCluster,
}

/// `nestor study` with what the tests need.
const ARGUMENTS: [&str; 11] = [
    "study",
    "study.toml",
    "--on",
    "emulated:time=virtual",
    "--store",
    "r.sqlite",
    "--slurm",
    "--slurm-tasks",
    "2",
    "--slurm-dir",
    "shared",
];

impl Spread {
    fn of(study: &str) -> Self {
        let sandbox = Sandbox::new();
        fs::write(sandbox.path("study.toml"), study).expect("the sandbox can be written to");
        let cluster = SlurmCluster::start(sandbox.path("slurm"));
        Self { sandbox, cluster }
    }

    fn assert_nothing_left(self) {
        self.cluster.wait_until_idle();
        drop(self.cluster);
        self.sandbox.assert_nothing_left();
    }
}

/// Waits for something that happens while the program runs.
fn wait_for<T>(running: &mut support::Running<'_>, look: impl Fn() -> Option<T>) -> T {
    let deadline = Instant::now() + LIMIT;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(running.is_running(), "it ended before");
        assert!(Instant::now() < deadline, "it never happened");
        std::thread::sleep(Duration::from_millis(5));
    }
}
