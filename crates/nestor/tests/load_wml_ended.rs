//! Runs of `nestor load wml` that something ends: an interrupt, files that vanish, a file system that is full.

mod support;

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use support::load_wml::{READER, entries, refused, script, text};
use support::loop_mount::tool;
use support::{LIMIT, Sandbox, can_run, signal};

/// A file every 10 ms, in a directory that is never full: the first one shows that the measurement has begun.
const SLOW: &str = "\
define fileset name=slow,path=/tmp,entries=1000000,size=0,dirwidth=2000000,dirgamma=0
eventgen rate=100
define process name=maker {
  thread name=maker {
    flowop createfile name=create,filesetname=slow,fd=1
    flowop closefile name=close,fd=1
    flowop eventlimit name=limit
  }
}
run 3600
";

/// Waits until a file is in each of the directories, and tells the program to stop; how it ended.
fn interrupted(mut running: std::process::Child, directories: &[String]) -> std::process::Output {
    let begun = |directory: &String| {
        let first = ["find", directory, "-type", "f", "-name", "0*", "-print", "-quit"];
        Path::new(directory).exists() && !tool(&first).is_empty()
    };
    let deadline = Instant::now() + LIMIT;
    while !directories.iter().all(begun) {
        assert!(Instant::now() < deadline, "it never begins");
        assert!(running.try_wait().expect("it can be waited for").is_none(), "it ended by itself");
        std::thread::sleep(Duration::from_millis(10));
    }
    signal(running.id(), Signal::INT);
    running.wait_with_output().expect("it can be waited for")
}

#[test]
fn an_interrupt_ends_the_run_with_what_was_measured_until_then() {
    let sandbox = Sandbox::new();
    let (script, directory) = script(&sandbox, SLOW);
    let arguments = ["load", "wml", &script, "--dir", &directory, "--remove"];
    let ended = interrupted(sandbox.nestor_in_background(&arguments), std::slice::from_ref(&directory));
    let said = String::from_utf8_lossy(&ended.stdout);
    assert_eq!(ended.status.code(), Some(130), "{said}");
    assert!(said.contains("  stopped before its end\n") && said.contains("\n    create "), "{said}");
    assert_eq!(entries(&directory), Vec::<String>::new());
}

#[test]
fn an_interrupt_ends_all_machines_and_leaves_nothing() {
    let sandbox = Sandbox::new();
    let (script, directory) = script(&sandbox, SLOW);
    let arguments = ["load", "wml", &script, "--dir", &directory, "--remove", "--machines", "this,this"];
    let running = sandbox.nestor_in_background(&arguments);
    let ended = interrupted(running, &[1, 2].map(|number| format!("{directory}/machine-{number}/slow")));
    let said = String::from_utf8_lossy(&ended.stdout);
    assert_eq!(ended.status.code(), Some(130), "{said}");
    assert!(said.contains("  stopped before its end\n"), "{said}");
    assert_eq!(entries(&directory), Vec::<String>::new());
    sandbox.assert_nothing_left();
}

#[test]
fn files_that_vanish_end_the_run_with_the_reason() {
    let sandbox = Sandbox::new();
    let (script, directory) = script(&sandbox, READER);
    let prepare = ["load", "wml", &script, "--dir", &directory];
    sandbox.nestor(prepare.iter().chain(&["--prepare"])).assert().success();
    let words: Vec<&str> = prepare.iter().chain(&["--prepared", "--cached"]).copied().collect();
    let running = sandbox.start(&words, &[]);
    // Written as soon as the workload takes the files that were prepared.
    let memory = format!("{directory}/.nestor-filesets.json");
    let taken = || fs::read_to_string(&memory).is_ok_and(|text| text.contains("\"used\": true"));
    let mut looks = 0;
    while !taken() {
        looks += 1;
        assert!(looks < 6000, "the files are never taken");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    fs::remove_dir_all(format!("{directory}/docs")).expect("the files are there");
    let ended = running.end();
    assert!(!ended.succeeded, "{}", ended.stdout);
    assert!(ended.stderr.contains("something else removed it while the workload ran"), "{}", ended.stderr);
}

/// A file system in memory, mounted for one test.
struct Small(String);

impl Small {
    fn new(sandbox: &Sandbox, size: &str) -> Self {
        let point = sandbox.text("small");
        fs::create_dir(&point).expect("a directory");
        tool(&["mount", "-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs", &point]);
        Self(point)
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg(&self.0).output();
    }
}

#[test]
fn a_file_system_that_becomes_full_ends_the_run_with_what_was_measured_until_then() {
    if !can_run(true, false) {
        return;
    }
    let sandbox = Sandbox::new();
    let small = Small::new(&sandbox, "4m");
    let grows = "\
        define fileset name=log,path=/tmp,entries=1,size=4k,dirwidth=5,prealloc\n\
        define process name=writer {\n  thread name=writer {\n    \
        flowop appendfile name=append,filesetname=log,iosize=64k,fd=1\n  }\n}\nrun 3600\n";
    let (script, _) = script(&sandbox, grows);
    let run = ["load", "wml", &script, "--dir", &small.0, "--cached", "--remove"];
    let output = sandbox.nestor(run).assert().code(3).get_output().clone();
    let (said, warned) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("  ended early: ") && said.contains("\n    append "), "{said}");
    assert!(warned.contains("no space left on device: the file system is full"), "{warned}");
    assert_eq!(entries(&small.0), Vec::<String>::new());
}

#[test]
fn file_sets_that_could_not_be_made_are_replaced_by_the_next_run() {
    if !can_run(true, false) {
        return;
    }
    let sandbox = Sandbox::new();
    let small = Small::new(&sandbox, "4m");
    let (script, _) = script(&sandbox, READER);
    let large = [script.as_str(), "--dir", &small.0, "--prepare", "--set", "nfiles=2000"];
    let said = refused(&sandbox, &large);
    assert_eq!(said.matches("o space left on device").count(), 1, "it is said once:\n{said}");
    assert!(said.contains("make the file sets smaller (--scale, --set)"), "{said}");
    text(&sandbox, &[script.as_str(), "--dir", &small.0, "--cached", "--operations", "30"]);
    refused(&sandbox, &[&large[..], &["--remove"]].concat());
    assert_eq!(entries(&small.0), Vec::<String>::new());
}
