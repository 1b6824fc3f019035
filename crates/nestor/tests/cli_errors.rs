//! What is said of bad input before any machine is started: one message that says what to do, and a failure.

mod support;

use std::fs;

use predicates::prelude::*;
use predicates::str::contains;
use support::Sandbox;

/// Runs the program and returns what it says; it has to fail, print no result and leave nothing.
fn refused(sandbox: &Sandbox, arguments: &[&str]) -> String {
    let output = sandbox.nestor(arguments).assert().failure().stdout("").get_output().clone();
    assert_eq!(sandbox.left_behind(), Vec::<String>::new());
    let said = String::from_utf8(output.stderr).expect("messages are UTF-8");
    assert_eq!(said.matches("error:").count(), 1, "one message:\n{said}");
    said
}

fn run_refused(stack: &str, workload: &str) -> String {
    refused(&Sandbox::new(), &["run", stack, workload])
}

#[test]
fn a_comparison_needs_two_stacks_that_differ() {
    for (stacks, are) in [
        (&["ext4/kvm/hdd"][..], "this is one: `ext4/kvm/hdd`"),
        (&["ext4/kvm/{raw,raw}/xfs/hdd"], "this is one: `ext4/kvm/{raw,raw}/xfs/hdd`"),
        (&["ext4/kvm/hdd", "ext4/kvm/hdd"], "these are one and the same: `ext4/kvm/hdd`"),
    ] {
        let said = refused(&Sandbox::new(), &[&["compare"], stacks, &["fio:seq-write"]].concat());
        assert!(said.contains(are) && said.contains("several in braces"), "{said}");
    }
    // The last one is the workload.
    let said = refused(&Sandbox::new(), &["compare", "ext4/kvm/hdd", "ext4/kvm/raw/xfs/hdd"]);
    assert!(said.contains("ext4/kvm/raw/xfs/hdd"), "{said}");
}

#[test]
fn a_study_that_comes_with_the_program_is_named_where_one_is_meant() {
    let sandbox = Sandbox::new();
    let said = refused(&sandbox, &["study", "quik"]);
    assert!(said.contains("did you mean quick?"), "{said}");
    let said = refused(&sandbox, &["report", "quick"]);
    assert!(said.contains("it comes with Nestor, and `nestor study quick` runs it"), "{said}");
    let said = refused(&sandbox, &["report", "quik"]);
    assert!(!said.contains("nestor study quik"), "{said}");
}

#[test]
fn a_workload_in_the_place_of_a_stack_is_shown_in_its_own() {
    let sandbox = Sandbox::new();
    for (command, right) in [
        (&["run", "fio:seq-write", "ext4/kvm/hdd"][..], "write: nestor run ext4/kvm/hdd fio:seq-write"),
        (
            &["compare", "ext4/kvm/hdd", "fio:seq-write", "ext3/kvm/hdd"],
            "write: nestor compare ext4/kvm/hdd ext3/kvm/hdd fio:seq-write",
        ),
        (
            &["predict", "--workload", "ext4/hdd", "--to", "fio:seq-read"],
            "write: nestor predict --workload fio:seq-read --to ext4/hdd",
        ),
        (&["advise", "ext4/kvm/hdd"], "write: nestor advise WORKLOAD --yours ext4/kvm/hdd"),
        (&["run", "ext4/kvm/hdd", "seq-write"], "did you mean fio:seq-write"),
    ] {
        let said = refused(&sandbox, command);
        assert!(said.contains(right), "{command:?}:\n{said}");
    }
}

#[test]
fn a_stack_that_does_not_fit_together_is_shown_with_what_would() {
    let said = run_refused("ext4/kvm/jfs/hdd", "fio:seq-write");
    assert!(
        said.contains("^^^ kvm needs a block device or an image below it; jfs offers a directory"),
        "{said}"
    );
    assert!(said.contains("put an image between them: ext4/kvm/raw/jfs/hdd"), "{said}");
    let said = run_refused("raw/ext4/null", "fio:seq-write");
    assert!(
        said.contains("put a virtual machine and a file system on top: ext4/kvm/raw/ext4/null"),
        "{said}"
    );
    assert!(run_refused("", "fio:seq-write").contains("a stack is empty"));
}

#[test]
fn what_is_misspelt_is_named_with_the_nearest_that_exists() {
    for (stack, workload, right) in [
        ("ext5/null", "fio:seq-write", "did you mean ext2?"),
        ("ext4/kvm:cach=none/null", "fio:seq-write", "did you mean cache?"),
        ("ext4/kvm:cache=nonee/null", "fio:seq-write", "did you mean none?"),
        ("ext4/hdd:wd-re4", "fio:seq-write", "`nestor disk list` shows them"),
        ("ext4/null", "fio:seq-wrte", "did you mean seq-write?"),
        ("ext4/null", "fios:seq-write", "did you mean fio?"),
        ("ext4/null", "fio:seq-write:sclae=0.1", "did you mean scale?"),
        ("ext4/null", "", "`nestor workloads` lists them"),
    ] {
        let said = run_refused(stack, workload);
        assert!(said.contains(right), "{stack} {workload}:\n{said}");
    }
}

#[test]
fn a_medium_that_does_not_fit_its_place_is_refused_before_anything_is_started() {
    let sandbox = Sandbox::new();
    let said = refused(&sandbox, &["run", "--on", "this", "ext4/null", "fio:seq-write"]);
    assert!(said.contains("a modelled disk needs the emulated host"), "{said}");
    let said = refused(&sandbox, &["run", "ext4/file:/srv/disk.img", "fio:seq-write"]);
    assert!(said.contains("add `--on this`"), "{said}");
    let said = refused(&sandbox, &["run", "--on", "nowhere", "ext4/null", "fio:seq-write"]);
    assert!(
        said.contains("the places are: emulated, emulated:time=virtual, emulated:time=real, this, ssh:HOST"),
        "{said}"
    );
}

#[test]
fn what_virtual_time_cannot_hold_together_is_refused_before_anything_is_started() {
    let sandbox = Sandbox::new();
    let on = ["--on", "emulated:time=virtual"];
    for (stack, words) in [
        ("nfs/link:cpus=2/xfs/hdd", "a machine in virtual time has one processor"),
        ("ext4/nbd/link/raw/nfs/link/xfs/hdd", "virtual time holds two machines together"),
        ("nfs/link/ext4/kvm/hdd", "the one below it is a guest"),
    ] {
        for command in [&["stack", stack][..], &["run", stack, "fio:seq-write"]] {
            let said = refused(&sandbox, &[command, &on].concat());
            assert!(said.contains(words) && said.contains('^'), "{said}");
        }
    }
    sandbox.nestor(["stack", "nfs/link:cpus=2/xfs/hdd", "--on", "emulated:time=real"]).assert().success();
}

#[test]
fn a_layer_alone_is_shown_with_its_options() {
    let sandbox = Sandbox::new();
    sandbox.nestor(["stack", "nfs"]).assert().success().stdout(contains("4.0, 4.1 or 4.2"));
    let said = refused(&sandbox, &["stack", "nsf"]);
    assert!(said.contains("did you mean nfs?"), "{said}");
    let said = refused(&sandbox, &["link", "serve", "--lower", "a", "--upper", "b", "--queue", "1"]);
    assert!(said.contains("queue takes a size from 2k"), "{said}");
}

#[test]
fn a_study_file_with_a_typo_is_shown_with_line_and_column() {
    let sandbox = Sandbox::new();
    let study = |text: &str| {
        fs::write(sandbox.path("s.toml"), text).unwrap();
        refused(&sandbox, &["study", "s.toml"])
    };
    let good = "name = \"x\"\ntitle = \"t\"\nstacks = [\"ext4/null\"]\nworkloads = [\"fio:seq-write\"]\n";
    let said = study(&good.replace("stacks", "stack"));
    assert!(
        said.contains("s.toml:3:1: a study has no key `stack`") && said.contains("did you mean `stacks`?"),
        "{said}"
    );
    let said = study(&good.replace("ext4/null", "ext4/kvmm/null"));
    assert!(said.contains("s.toml:3:") && said.contains("did you mean kvm? ext4/kvm/null"), "{said}");
    assert!(study("name = \"x").contains("s.toml:1:"));
    let said = refused(&sandbox, &["study", "none.toml"]);
    assert_eq!(said.matches("No such file").count(), 1, "the cause is said once:\n{said}");
}

#[test]
fn a_path_that_was_mistyped_makes_no_folder() {
    let sandbox = Sandbox::new();
    let run = ["run", "ext4/null", "fio:seq-write", "--store", "tpyo/a.sqlite"];
    let said = refused(&sandbox, &run);
    assert!(said.contains("the folder tpyo does not exist"), "{said}");
    drop(nestor_results::Store::open(&sandbox.path("r.sqlite")).expect("a store can be made"));
    for option in ["--csv", "--parquet", "--markdown", "--output", "--picture", "--time-picture"] {
        let said = refused(&sandbox, &["report", "quick", option, "tpyo/file", "--store", "r.sqlite"]);
        assert!(said.contains("the folder tpyo does not exist"), "{option}: {said}");
    }
    let said = refused(&sandbox, &["study", "quick", "--output", "tpyo/quick.html", "--store", "r.sqlite"]);
    assert!(said.contains("the folder tpyo does not exist"), "{said}");
    assert!(!sandbox.path("tpyo").exists());
}

#[test]
fn traces_that_cannot_be_kept_are_refused_before_anything_is_measured() {
    let sandbox = Sandbox::new();
    fs::write(sandbox.path("file"), "mine").unwrap();
    for (directory, words) in [
        ("file", "file: it is not a directory"),
        ("/proc/none/traces", "the folder /proc/none does not exist"),
        ("/proc/traces", "nothing can be made in /proc"),
    ] {
        let run = ["run", "ext4/null", "fio:seq-write", "--trace-to", directory, "--store", "r.sqlite"];
        let said = refused(&sandbox, &run);
        assert!(said.contains("cannot use --trace-to") && said.contains(words), "{said}");
        assert!(!sandbox.path("r.sqlite").exists());
    }
}

#[test]
fn a_study_that_cannot_run_here_is_refused_before_it_leaves_results_and_by_its_plan() {
    let sandbox = Sandbox::new();
    let study = |stack: &str, more: &[&str]| {
        let text = format!(
            "name = \"s\"\nstacks = [\"{stack}\"]\nbaseline = \"{stack}\"\nworkloads = [\"fio:seq-write\"]\n"
        );
        fs::write(sandbox.path("s.toml"), text).unwrap();
        let said = refused(&sandbox, &[&["study", "s.toml", "--store", "r.sqlite"], more].concat());
        assert!(!sandbox.path("r.sqlite").exists(), "{said}");
        said
    };
    let said = study("ext4/dev:/dev/nope", &["--on", "this"]);
    assert!(said.contains("the device /dev/nope does not exist") && !said.contains("--allow"), "{said}");
    fs::write(sandbox.path("disk.img"), "").unwrap();
    let said = study(&format!("ext4/file:{}", sandbox.text("disk.img")), &["--on", "this"]);
    assert!(said.contains("add --allow"), "{said}");
    for more in [&[][..], &["--plan"]] {
        let said = study("ext4/kvm:memory=900G/hdd", more);
        assert!(said.contains("the stack's machines need 901 GiB of memory"), "{more:?}: {said}");
    }
}

#[test]
fn a_comparison_takes_options_between_its_stacks_and_says_that_its_workload_is_missing() {
    let sandbox = Sandbox::new();
    let said = refused(&sandbox, &["compare", "ext4/hdd", "xfs/hdd"]);
    assert!(said.contains("the workload is missing: `xfs/hdd` is a stack"), "{said}");
    let said = refused(&sandbox, &["compare", "ext4/hdd"]);
    assert!(said.contains("needs stacks and, last, a workload"), "{said}");
    let said = refused(&sandbox, &["compare", "ext4/hdd", "-n", "2", "xfs/hdd", "--quiet", "fio:randwrite"]);
    assert!(said.contains("did you mean rand-write?"), "{said}");
}

#[test]
fn results_that_cannot_be_kept_are_refused_before_anything_is_measured() {
    let sandbox = Sandbox::new();
    fs::write(sandbox.path("notes.txt"), "not results").unwrap();
    let said = refused(&sandbox, &["run", "ext4/null", "fio:seq-write", "--store", "notes.txt"]);
    assert!(said.contains("is not a results file of Nestor"), "{said}");
    assert_eq!(fs::read_to_string(sandbox.path("notes.txt")).unwrap(), "not results");
    let said = refused(&sandbox, &["run", "ext4/null", "fio:seq-write", "--store", "/proc/none/r.sqlite"]);
    assert!(said.contains("/proc/none/r.sqlite"), "{said}");
}

#[test]
fn a_lab_image_that_cannot_be_made_says_what_is_missing() {
    let sandbox = Sandbox::new();
    let arguments = ["run", "ext4/null", "fio:seq-write"];
    sandbox
        .nestor(arguments)
        .env("NESTOR_CACHE", sandbox.path("cache"))
        .env("NESTOR_DEBIAN_MIRROR", "http://127.0.0.1:9")
        .assert()
        .failure()
        // Where the programs to build it, or the right to, are missing, that is said instead.
        .stderr(
            contains("set NESTOR_DEBIAN_MIRROR")
                .or(contains("install what is missing: apt-get install"))
                .or(contains("as root"))
                .or(contains("free some space")),
        );
    let said = sandbox.nestor(arguments).env("NESTOR_CACHE", "/proc/none").assert().failure();
    said.stderr(contains("/proc/none").and(contains("No such file or directory").count(1)));
    assert_eq!(sandbox.left_behind(), Vec::<String>::new());
}

#[test]
fn without_a_work_directory_the_variable_for_another_is_named() {
    let sandbox = Sandbox::new();
    let output =
        sandbox.nestor(["doctor"]).env("NESTOR_WORK", "/proc/none").assert().failure().get_output().clone();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("set NESTOR_WORK to a directory"), "{said}");
    assert_eq!(said.matches("error:").count(), 1, "one message:\n{said}");
}

#[test]
fn without_qemu_its_package_is_named() {
    let sandbox = Sandbox::new();
    if !support::can_run(false, true) {
        return;
    }
    fs::create_dir(sandbox.path("empty")).unwrap();
    let run =
        sandbox.nestor(["run", "ext4/null", "fio:seq-write"]).env("PATH", sandbox.path("empty")).assert();
    run.failure()
        .stdout("")
        .stderr(contains("`apt-get install qemu-system-x86`").and(contains("error:").count(1)));
    assert_eq!(sandbox.left_behind(), Vec::<String>::new());
}

#[test]
fn what_is_not_there_to_report_is_said_with_what_is() {
    let sandbox = Sandbox::new();
    assert!(refused(&sandbox, &["report", "7"]).contains("no run 7"));
    assert!(refused(&sandbox, &["report", "--study", "none"]).contains("it has no studies yet"));
}

#[test]
fn a_seed_that_is_none_is_refused() {
    for seed in ["-1", "1.5", "0x10", "any", "", "18446744073709551616"] {
        let said = refused(&Sandbox::new(), &["run", "ext4/hdd", "fio:seq-write", "--seed", seed]);
        assert!(said.contains("a seed is a whole number from 0 to 18446744073709551615"), "{seed}: {said}");
    }
}
