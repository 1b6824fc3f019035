//! Runs in virtual time: the same seed gives the same numbers, to the last bit.

mod support;

use serde_json::Value;
use support::{Sandbox, alone, can_run, json, refused};

/// What a run says in JSON, without the real time it took.
fn measured(sandbox: &Sandbox, stack: &str, workload: &str) -> Value {
    let arguments = ["run", stack, workload, "-n", "1", "--json", "--on", "emulated:time=virtual"];
    let store = sandbox.text("results.sqlite");
    let output =
        sandbox.nestor(arguments).args(["--store", &store]).assert().success().get_output().stdout.clone();
    let mut view = json(&String::from_utf8(output).expect("JSON is UTF-8"));
    let run = &mut view[0];
    assert_eq!(run["summary"]["failures"].as_array().map(Vec::len), Some(0), "{run}");
    assert!(run["summary"]["bytes_per_second"]["value"].as_f64().is_some_and(|value| value > 0.0), "{run}");
    run.as_object_mut().expect("a run").remove("cell_s").expect("the real time of the cell");
    view
}

fn repeats(stack: &str, workload: &str) {
    if !can_run(false, true) {
        return;
    }
    let _alone = alone();
    // Each in a directory of its own, by a process of its own.
    let [first, second] = [Sandbox::new(), Sandbox::new()].map(|sandbox| {
        let view = measured(&sandbox, stack, workload);
        sandbox.assert_nothing_left();
        view
    });
    assert!(first == second, "{}", what_differs(&first, &second, ""));
}

/// The first few values that are not the same.
fn what_differs(first: &Value, second: &Value, place: &str) -> String {
    let children: Vec<String> = match (first, second) {
        (Value::Object(a), Value::Object(b)) => a
            .iter()
            .map(|(key, value)| {
                what_differs(value, b.get(key).unwrap_or(&Value::Null), &format!("{place}/{key}"))
            })
            .collect(),
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            a.iter().zip(b).zip(0..).map(|((a, b), n)| what_differs(a, b, &format!("{place}/{n}"))).collect()
        }
        _ if first == second => Vec::new(),
        _ => vec![format!("{place}: {first} and {second}")],
    };
    children.into_iter().filter(|child| !child.is_empty()).take(5).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_run_on_a_modelled_disk_repeats_to_the_last_bit() {
    repeats("ext4/hdd", "fio:rand-read:scale=0.00625:runtime=3s");
}

#[test]
#[ignore = "minutes: part of make test-long"]
fn runs_of_nested_stacks_repeat_to_the_last_bit() {
    repeats("ext3/kvm/raw/jfs/hdd", "fio:rand-read:depth=4:scale=0.00625:runtime=6s");
    repeats("ext4/kvm/qcow2/xfs/ssd", "fio:seq-write:scale=0.00625:runtime=3s");
}

/// The library finds itself in a shell, the script's, in which none of QEMU's functions are.
#[test]
fn a_program_without_qemus_functions_is_named_with_what_works() {
    use std::os::unix::fs::PermissionsExt as _;
    if !can_run(false, true) {
        return;
    }
    let sandbox = Sandbox::new();
    let programs = sandbox.path("programs");
    std::fs::create_dir(&programs).expect("a directory");
    let script = programs.join("qemu-system-x86_64");
    std::fs::write(&script, "#!/bin/sh\nunset LD_PRELOAD NESTOR_VTIME_CONTROL\nPATH=/usr/bin:/bin exec qemu-system-x86_64 \"$@\"\n")
        .expect("a file");
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).expect("its mode");
    let path = format!("{}:/usr/sbin:/usr/bin:/sbin:/bin", programs.display());
    let mut command =
        sandbox.nestor(["run", "ext4/hdd", "fio:rand-read:scale=0.00625:runtime=1s", "-n", "1"]);
    command.args(["--on", "emulated:time=virtual", "--store", &sandbox.text("results.sqlite")]);
    let output = command.env("PATH", path).env("NESTOR_BOOT_LIMIT_S", "3").output().expect("it runs");
    let said =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("cannot be joined to virtual time: not all of its functions"), "{said}");
    assert!(said.contains("--on emulated:time=real"), "{said}");
    sandbox.assert_nothing_left();
}

#[test]
fn a_place_that_is_none_is_refused() {
    let said = refused(&Sandbox::new(), &["run", "ext4/hdd", "fio:rand-read", "--on", "emulated:time=dream"]);
    assert!(said.contains("emulated:time=virtual"), "{said}");
}
