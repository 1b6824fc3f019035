//! A study whose processes are killed goes on where it was: nothing finished is lost, nothing is counted twice, nothing is left.
//!
//! Needs root: the stacks are file systems of this machine's own kernel in a file. What is killed, and after which request
//! of the program to its agent, is drawn from a fixed seed; no test measures time.

#![allow(clippy::print_stdout, clippy::print_stderr)] // For who runs it, not for who uses the program.

mod support;

use std::collections::BTreeMap;
use std::fs;

use nestor_results::{RunFilter, Store};
use nestor_statistics::SeededOrder;
use rustix::process::{Pid, Signal};
use support::{Sandbox, alone, can_run};

const STUDY: &str = r#"
name = "killed"
title = "A study that is killed"
stacks = ["{ext4,ext2}/file:DISK"]
baseline = "ext4/file:DISK"
workloads = ["fio:{seq,rand}-write:scale=0.001:runtime=1s"]
replications = 2
sentinels = true
trace = "none"
"#;

/// The same with guests in an emulated host.
const IN_THE_LAB: &str = r#"
name = "killed"
title = "A study in the lab that is killed"
stacks = ["ext4/kvm/{,raw/ext4/}null"]
baselines = "raw-disk"
workloads = ["fio:{seq,rand}-write:scale=0.002:runtime=1s"]
sentinels = true
trace = "none"
"#;

/// Cells of the study by stack, workload, block and repeat, each with its runs: the digest of what came out where that has to be the
/// same however often the study was killed.
type Cells = BTreeMap<(String, String, u32, u32), Vec<Option<String>>>;

struct Killed {
    sandbox: Sandbox,
    disk: String,
    on: &'static str,
}

impl Killed {
    fn here() -> Self {
        Self::of(STUDY, "this")
    }

    fn in_the_lab() -> Self {
        Self::of(IN_THE_LAB, "emulated:time=virtual")
    }

    fn of(study: &str, on: &'static str) -> Self {
        let sandbox = Sandbox::new();
        let disk = sandbox.disk("disk.img", 1 << 30);
        fs::write(sandbox.path("study.toml"), study.replace("DISK", &disk))
            .expect("the sandbox can be written to");
        Self { sandbox, disk, on }
    }

    /// `nestor study`, which may overwrite what a killed run has left on its file.
    fn arguments<'a>(&'a self, more: &[&'a str]) -> Vec<&'a str> {
        let mut arguments = vec![
            "study",
            "--on",
            self.on,
            "--allow",
            &self.disk,
            "--overwrite",
            &self.disk,
            "--store",
            "r.sqlite",
        ];
        arguments.extend(more);
        arguments
    }

    fn measured(&self) -> Cells {
        let mut cells = Cells::new();
        let Ok(store) = Store::open_read_only(&self.sandbox.path("r.sqlite")) else { return cells };
        for run in store.runs(&RunFilter::default()).expect("results can be read") {
            if run.record.measured().is_some() {
                let record = run.record;
                let repeats = record.environment.is_in_virtual_time();
                let digest = repeats.then(|| record.outcome_digest().expect("a record has a digest"));
                // Each sandbox has its own path.
                let stack = record.stack.replace(&self.disk, "DISK");
                let key = (stack, record.workload.to_string(), record.block, record.repeat);
                cells.entry(key).or_default().push(digest);
            }
        }
        cells
    }

    /// Requests that an undisturbed study sends to its agent.
    fn requests(&self) -> usize {
        let running = self.sandbox.start(&self.arguments(&["study.toml"]), &[]);
        let ended = running.end();
        assert!(ended.succeeded, "{}{}", ended.stdout, ended.stderr);
        ended.stderr.lines().count()
    }

    /// Kills one of the study's processes after so many requests.
    fn kill_after(&self, requests: usize, random: &mut SeededOrder) -> String {
        let mut running = self.sandbox.start(&self.arguments(&["study.toml"]), &[]);
        let pid = running.pid();
        let victim = running.when_log_has_lines(requests).and_then(|()| {
            let processes = self.sandbox.process_ids();
            let chosen = *processes.get(random.below(processes.len().max(1)))?;
            kill(chosen).then_some(chosen)
        });
        running.end();
        match victim {
            Some(victim) if victim == pid => "the program".to_owned(),
            Some(_) => "another process".to_owned(),
            None => "nothing: it had ended".to_owned(),
        }
    }

    fn go_on(&self) {
        let output = self.sandbox.nestor(self.arguments(&["--resume"])).output().expect("the program runs");
        let said = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
        assert!(output.status.success(), "{}", said.concat());
    }
}

/// Whether the process was still there to be killed.
fn kill(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| rustix::process::kill_process(pid, Signal::KILL).is_ok())
}

fn survives(moments: usize, cells: usize, study: fn() -> Killed) {
    let _alone = alone();
    let undisturbed = study();
    let requests = undisturbed.requests();
    let expected = undisturbed.measured();
    assert_eq!(expected.len(), cells, "{expected:?}");
    let mut random = SeededOrder::new(2012);
    let mut killed: BTreeMap<String, usize> = BTreeMap::new();
    for moment in 0..moments {
        let study = study();
        let after = random.below(requests);
        let victim = study.kill_after(after, &mut random);
        let before = study.measured();
        study.go_on();
        let cells = study.measured();
        assert_eq!(cells, expected, "moment {moment}: {victim} was killed after request {after}");
        let lost = before.iter().find(|(cell, runs)| cells.get(cell) != Some(runs));
        assert_eq!(lost, None, "moment {moment}: {victim} was killed after request {after}");
        study.sandbox.assert_nothing_left();
        *killed.entry(victim).or_default() += 1;
    }
    eprintln!("killed: {killed:?}");
    assert!(killed.len() >= 2 || moments < 10, "the program and others: {killed:?}");
}

#[test]
fn a_study_survives_kills_at_a_few_moments() {
    if can_run(true, false) {
        // 8 cells and 4 closing runs.
        survives(4, 12, Killed::here);
    }
}

#[test]
#[ignore = "minutes: part of make test-long"]
fn a_study_survives_kills_at_fifty_moments() {
    if can_run(true, false) {
        survives(50, 12, Killed::here);
    }
}

#[test]
#[ignore = "minutes: part of make test-long"]
fn a_study_survives_kills_of_machines_in_the_lab() {
    if can_run(false, true) {
        // 4 cells and 2 closing runs.
        survives(6, 6, Killed::in_the_lab);
    }
}

#[test]
fn a_study_that_was_changed_is_not_gone_on_with() {
    if !can_run(true, false) {
        return;
    }
    let _alone = alone();
    let study = Killed::here();
    let path = study.sandbox.path("study.toml");
    let resume = || {
        study.sandbox.nestor(study.arguments(&["study.toml", "--resume"])).output().expect("the program runs")
    };
    let said = |output: &std::process::Output| String::from_utf8_lossy(&output.stderr).into_owned();
    let nothing = resume();
    assert!(
        !nothing.status.success() && said(&nothing).contains("there is nothing to resume"),
        "{}",
        said(&nothing)
    );
    let mut random = SeededOrder::new(1);
    study.kill_after(20, &mut random);
    let text = fs::read_to_string(&path).expect("the study is there");
    fs::write(&path, text.replace("{seq,rand}", "seq")).expect("the sandbox can be written to");
    let changed = resume();
    assert!(!changed.status.success());
    assert!(said(&changed).contains("removed workload: fio:rand-write"), "{}", said(&changed));
    // As it was it goes on, and takes down what the killed one had built.
    fs::write(&path, text).expect("the sandbox can be written to");
    study.go_on();
    study.sandbox.assert_nothing_left();
}

#[test]
fn a_full_disk_under_the_results_loses_nothing_that_was_finished() {
    if !can_run(true, false) {
        return;
    }
    let _alone = alone();
    let study = Killed::here();
    let small = study.sandbox.text("small");
    fs::create_dir_all(&small).expect("the sandbox can be written to");
    // Room for what is planned, or it would not begin.
    let _mounted = Mounted::tmpfs(&small, "50M");
    let path = study.sandbox.path("small/r.sqlite");
    let store = path.display().to_string();
    let arguments = |more: &[&'static str]| {
        let arguments =
            ["study", "--on", "this", "--allow", &study.disk, "--overwrite", &study.disk, "--store", &store];
        arguments.iter().chain(more).map(ToString::to_string).collect::<Vec<_>>()
    };
    let count =
        || Store::open_read_only(&path).and_then(|s| s.numbers(&RunFilter::default())).map_or(0, |n| n.len());
    let more = arguments(&["study.toml", "-n", "20"]);
    let mut running = study.sandbox.start(&more.iter().map(String::as_str).collect::<Vec<_>>(), &[]);
    while count() == 0 && running.is_running() {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    // Something else takes the room.
    Mounted::resize(&small, "1500k");
    let full = running.end();
    assert!(!full.succeeded);
    assert!(full.stderr.contains("no space is left to write to the results file"), "{}", full.stderr);
    let before = count();
    assert!(before > 0, "some were kept");
    let refused = study.sandbox.nestor(arguments(&["study.toml", "-n", "20", "--resume"])).output();
    let said = String::from_utf8_lossy(&refused.expect("the program runs").stderr).into_owned();
    assert!(said.contains("the study may need") && said.contains(" for results ("), "{said}");
    Mounted::resize(&small, "50M");
    let resumed = study.sandbox.nestor(arguments(&["study.toml", "-n", "20", "--resume"])).output();
    let resumed = resumed.expect("the program runs");
    assert!(resumed.status.success(), "{}", String::from_utf8_lossy(&resumed.stderr));
    assert_eq!(count(), 20 * 6, "8 cells and 4 closing runs in two blocks");
    study.sandbox.assert_nothing_left();
}

/// A small file system of the test's own.
struct Mounted(String);

impl Mounted {
    fn tmpfs(target: &str, size: &str) -> Self {
        Self::mount(&["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs", target]);
        Self(target.to_owned())
    }

    fn resize(target: &str, size: &str) {
        Self::mount(&["-o", &format!("remount,size={size}"), target]);
    }

    fn mount(arguments: &[&str]) {
        let mounted = std::process::Command::new("mount").args(arguments).status();
        assert!(mounted.is_ok_and(|status| status.success()), "mount {arguments:?}");
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg(&self.0).output();
    }
}
