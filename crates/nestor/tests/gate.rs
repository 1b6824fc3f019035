//! Gates: what `nestor compare --fail-if` answers by its exit code, saved baselines, and kernels and QEMUs as candidates.

#![allow(clippy::print_stderr)]

mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use support::{Sandbox, alone, can_run, json};

const VIRTUAL: &str = "emulated:time=virtual";
/// 256 random writes of 4 KiB, each with an fsync.
const FSYNCS: &str = "fio:rand-write:bs=4k:size=1M:filesize=1M:runtime=off:direct=off:engine=psync:fsync=1";

/// The exit code of a command in virtual time that records nothing, and what it prints.
fn ended(sandbox: &Sandbox, arguments: &[&str]) -> (Option<i32>, String, String) {
    let store = sandbox.text("results.sqlite");
    let common = ["--no-trace", "--on", VIRTUAL, "--store", &store];
    let output = sandbox.nestor(arguments.iter().copied().chain(common)).output().expect("it runs");
    let text = |bytes| String::from_utf8(bytes).expect("text is UTF-8");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn an_error_is_no_answer_of_the_gate() {
    let sandbox = Sandbox::new();
    let code = |arguments: &[&str]| sandbox.nestor(arguments).output().expect("it runs").status.code();
    let rule = "throughput<-5%";
    assert_eq!(code(&["compare", "ext4/hdd", "ext5/hdd", FSYNCS, "--fail-if", rule]), Some(3));
    assert_eq!(code(&["compare", "ext4/hdd", "xfs/hdd", FSYNCS, "--fail-if", "throughput<5%"]), Some(3));
    assert_eq!(code(&["compare", "ext4/hdd", "xfs/hdd", FSYNCS, "--fail-if=speed<-5%"]), Some(3));
    assert_eq!(code(&["compare", "ext4/hdd", "xfs/hdd", FSYNCS, "--fail-fi", rule]), Some(3), "misspelt");
    assert_eq!(code(&["compare", "ext4/hdd", "ext5/hdd", FSYNCS]), Some(1), "without a gate as ever");
    assert_eq!(code(&["compare", "--nothing"]), Some(2));
    let (code, _, said) =
        ended(&sandbox, &["compare", "--against", "main", "ext4/hdd", FSYNCS, "--fail-if", rule]);
    assert_eq!(code, Some(3), "{said}");
    assert!(
        said.contains("there is no baseline `main`: the results file ") && said.contains("does not exist"),
        "{said}"
    );
    assert!(!sandbox.path("results.sqlite").exists(), "a name that is not there leaves no file");
}

#[test]
fn a_baseline_that_was_never_saved_is_said_with_those_that_were() {
    let sandbox = Sandbox::new();
    drop(nestor_results::Store::open(&sandbox.path("results.sqlite")).expect("a store can be made"));
    let (code, _, said) = ended(&sandbox, &["compare", "--against", "main", "ext4/hdd", FSYNCS]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("has no baseline `main`; saved are: none"), "{said}");
}

#[test]
fn a_kernel_or_qemu_that_was_never_added_is_refused_before_anything_is_made() {
    let sandbox = Sandbox::new();
    let study = sandbox.text("own.toml");
    let text = "name = \"own\"\nstacks = [\"ext4:kernel=nowhere-added/hdd\"]\nworkloads = [\"fio:rand-write\"]\n\
                baseline = \"ext4:kernel=nowhere-added/hdd\"\n";
    std::fs::write(&study, text).expect("a study");
    for (arguments, command) in [
        (&["run", "ext4:kernel=nowhere-added/hdd", FSYNCS][..], "kernel"),
        (&["run", "ext4/kvm:qemu=nowhere-added/hdd", FSYNCS], "qemu"),
        (&["study", &study], "kernel"),
    ] {
        let (code, _, said) = ended(&sandbox, arguments);
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains(&format!("add it once: nestor lab {command} nowhere-added FILE")), "{said}");
        assert!(!said.contains("making the lab image"), "{said}");
        assert!(!sandbox.path("results.sqlite").exists(), "one mistyped name makes no results");
    }
}

#[test]
fn what_is_no_qemu_is_not_added() {
    if !can_run(false, true) {
        return;
    }
    let sandbox = Sandbox::new();
    let said = |name: &str, file: &str| {
        let output = sandbox.nestor(["lab", "qemu", name, file]).output().expect("it runs");
        (output.status.code(), String::from_utf8(output.stderr).expect("text is UTF-8"))
    };
    let (code, text) = said("test-none", "/etc/passwd");
    assert_eq!(code, Some(1), "{text}");
    assert!(
        text.contains("/etc/passwd cannot be added to the lab as a QEMU: it is no program for x86-64"),
        "{text}"
    );
    // It answers `--version`, as another program.
    let (code, text) = said("test-none", "/bin/ls");
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("it does not say that it is a QEMU for whole machines"), "{text}");
    let (code, text) = said("test-none", "/nowhere/qemu-system-x86_64");
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("/nowhere/qemu-system-x86_64"), "{text}");
    assert_eq!(said("a/b", "/bin/ls").0, Some(2));
}

#[test]
fn the_exit_code_is_the_answer() {
    if !can_run(false, true) {
        return;
    }
    let _alone = alone();
    let sandbox = Sandbox::new();
    let judged = |arguments: &[&str]| ended(&sandbox, &[&["compare"], arguments].concat());
    let journal = ["ext4:journal=none/hdd", "ext4/hdd", FSYNCS];
    // A journal costs writes of its own: worse by far than the limit, and in the other order better.
    let (code, text, _) = judged(&[&journal[..], &["-n", "2", "--fail-if", "throughput<-5%"]].concat());
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("gate: worse"), "{text}");
    // Whether or not anyone reads the words: `nestor compare … | head -1` in a job must not pass. Words that are lost are an error.
    let store = sandbox.text("results.sqlite");
    let rule = ["-n", "2", "--fail-if", "throughput<-5%", "--no-trace", "--on", VIRTUAL, "--store", &store];
    let known = [&["compare"], &journal[..], &rule].concat();
    let (reader, writer) = std::io::pipe().expect("there are pipes");
    drop(reader);
    assert_eq!(sandbox.code_writing_to(writer, &known), Some(1));
    let full = fs::OpenOptions::new().write(true).open("/dev/full").expect("Linux has it");
    assert_eq!(sandbox.code_writing_to(full, &known), Some(3));
    let back = [journal[1], journal[0], journal[2], "-n", "2", "--fail-if", "throughput<-5%", "--json"];
    let (code, text, _) = judged(&back);
    assert_eq!(code, Some(0), "{text}");
    assert_eq!(json(&text)["gate"][0]["verdict"], "fine");
    // One pair has no interval.
    let (code, text, _) = judged(&[&journal[..], &["-n", "1", "--fail-if", "latency:fsync>+10%"]].concat());
    assert_eq!(code, Some(2), "{text}");

    // A saved baseline, and the same stack measured anew: equal to the last bit, so that not even a limit of nothing is passed.
    let (code, _, said) = ended(&sandbox, &["run", "ext4/hdd", FSYNCS, "-n", "2", "--save", "main"]);
    assert_eq!(code, Some(0), "{said}");
    let against = ["--against", "main", "ext4/hdd", FSYNCS, "-n", "2", "--again"];
    let rules = ["--fail-if", "throughput<0%", "--fail-if", "p99:fsync>0%"];
    let (code, text, said) = judged(&[&against[..], &rules].concat());
    assert_eq!(code, Some(0), "{text}{said}");
    assert!(text.contains("the baseline `main` was measured before"), "{text}");
    let other = ["--against", "main", "ext4/hdd", "fio:seq-write", "--fail-if", "throughput<0%"];
    let (code, _, said) = judged(&other);
    assert_eq!(code, Some(3), "{said}");
    sandbox.assert_nothing_left();
}

/// Kernels or QEMUs in a lab image under names of the test's own.
struct Added(Vec<PathBuf>);

impl Added {
    fn add(&mut self, sandbox: &Sandbox, what: &str, name: &str, file: &Path) -> serde_json::Value {
        let file = file.to_str().expect("its name is text");
        let output =
            sandbox.nestor(["lab", what, name, file, "--json"]).assert().success().get_output().clone();
        let added = json(&String::from_utf8(output.stdout).expect("JSON is UTF-8"));
        self.0.push(added["directory"].as_str().expect("a path").into());
        added[what].clone()
    }
}

impl Drop for Added {
    fn drop(&mut self) {
        self.0.iter().for_each(|directory| drop(fs::remove_dir_all(directory)));
    }
}

#[test]
#[ignore = "downloads two kernels of Debian (180 MB) and boots hosts with them, some minutes; part of `make test-long`"]
fn two_kernels_of_debian_are_compared_on_work_with_many_fsyncs() {
    if !can_run(false, true) {
        return;
    }
    let _alone = alone();
    let sandbox = Sandbox::new();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/fetch-kernels");
    let fetched = Command::new(script).arg(sandbox.path("")).output().expect("the script is there");
    if !fetched.status.success() {
        eprintln!("not tried: {}", String::from_utf8_lossy(&fetched.stderr));
        return;
    }
    let mut kernels = Added(Vec::new());
    let older = kernels.add(&sandbox, "kernel", "test-older", &sandbox.path("older.deb"));
    let newer = kernels.add(&sandbox, "kernel", "test-newer", &sandbox.path("newer.deb"));
    assert_ne!(older["release"], newer["release"]);

    let rule = ["-n", "2", "--json", "--fail-if", "throughput<-20%"];
    let stacks = ["compare", "ext4:kernel=test-older/hdd", "ext4:kernel=test-newer/hdd", FSYNCS];
    let (code, text, said) = ended(&sandbox, &[&stacks[..], &rule].concat());
    assert!(matches!(code, Some(0..=2)), "{said}");
    let comparison = json(&text);
    let kernel_of = |side: &str| comparison[side]["environment"]["machines"][0]["kernel"].clone();
    assert_eq!(kernel_of("baseline"), older["release"], "{text}");
    assert_eq!(kernel_of("candidate"), newer["release"]);

    // The guest's alone: the host keeps the lab's.
    let (code, text, said) = ended(
        &sandbox,
        &["run", "ext4:kernel=test-newer/kvm:memory=512M/raw/xfs/hdd", FSYNCS, "-n", "1", "--json"],
    );
    assert_eq!(code, Some(0), "{said}");
    let machines = json(&text)[0]["environment"]["machines"].clone();
    assert_ne!(machines[0]["kernel"], newer["release"]);
    assert_eq!(machines[1]["kernel"], newer["release"]);
    sandbox.assert_nothing_left();
}

#[test]
#[ignore = "boots two emulated hosts with a guest each, some minutes; part of `make test-long`"]
fn a_guest_runs_in_a_qemu_that_was_added() {
    let installed = Path::new("/usr/bin/qemu-system-x86_64");
    if !can_run(false, true) || !installed.exists() {
        return;
    }
    let _alone = alone();
    let sandbox = Sandbox::new();
    let mut qemus = Added(Vec::new());
    let about = qemus.add(&sandbox, "qemu", "test-own", installed);
    let sums =
        |qemus: &Added| fs::read_to_string(qemus.0[0].join("SHA256SUMS")).expect("an image has its hashes");
    let first = sums(&qemus);
    assert_eq!(about, qemus.add(&sandbox, "qemu", "test-own", installed));
    assert_eq!(first, sums(&qemus), "the same QEMU makes the same image");
    let stacks = ["compare", "ext4/kvm/raw/xfs/hdd", "ext4/kvm:qemu=test-own/raw/xfs/hdd", FSYNCS];
    let (code, text, said) = ended(&sandbox, &[&stacks[..], &["-n", "1", "--json"]].concat());
    assert_eq!(code, Some(0), "{said}");
    let settings = |side: &str| json(&text)[side]["environment"]["settings"]["guest QEMU"].clone();
    assert!(settings("baseline").is_null(), "{text}");
    let named = settings("candidate").as_str().expect("it is named").to_owned();
    for part in ["test-own: QEMU ", about["version"].as_str().unwrap(), about["contents"].as_str().unwrap()] {
        assert!(named.contains(part), "{part} in {named}");
    }
    sandbox.assert_nothing_left();
}
