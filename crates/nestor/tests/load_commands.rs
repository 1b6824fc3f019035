//! The smaller commands of `nestor load`: lists, checks, merges, any workload on a directory, and timing.

mod support;

use std::fs;

use serde_json::Value;
use support::{Sandbox, has_program, json, refused};

/// Runs the program, which has to end with that code; what it prints.
fn ended(sandbox: &Sandbox, code: i32, arguments: &[&str]) -> String {
    let output = sandbox.nestor(arguments).assert().code(code).get_output().stdout.clone();
    String::from_utf8(output).expect("tables are UTF-8")
}

/// An empty directory in the sandbox.
fn directory(sandbox: &Sandbox) -> String {
    let path = sandbox.text("files");
    fs::create_dir_all(&path).expect("a directory");
    path
}

fn is_empty(directory: &str) -> bool {
    fs::read_dir(directory).expect("a directory").next().is_none()
}

const PERSONALITIES: [&str; 8] = [
    "fileserver",
    "webserver",
    "mailserver",
    "dbserver",
    "create-tree",
    "stat-tree",
    "nas-seq-write",
    "nas-rand-read",
];

#[test]
fn every_script_that_comes_along_is_understood_and_runs() {
    let sandbox = Sandbox::new();
    // In memory: a file system on a disk may take a minute for the hundred thousand files of one of them.
    let memory = tempfile::tempdir_in("/dev/shm").expect("there is a file system in memory");
    let directory = memory.path().display().to_string();
    // So many operations and not so much time: on a busy machine a short time may end before the first operation does.
    let check = ["load", "check", "--dir", &directory, "--operations", "20", "--time", "60", "--json"];
    let rows = json(&ended(&sandbox, 0, &check));
    let rows = rows.as_array().expect("a list");
    let names: Vec<&str> = rows.iter().filter_map(|row| row["script"].as_str()).collect();
    assert_eq!(names, PERSONALITIES);
    for row in rows {
        assert_eq!((&row["understood"], &row["runs"]), (&Value::from(true), &Value::from(true)), "{row}");
        assert!(row["operations"].as_u64().is_some_and(|number| number > 0), "{row}");
    }
    assert!(is_empty(&directory));
    let text = ended(&sandbox, 0, &["load", "check", "fileserver"]);
    insta::assert_snapshot!(text, @"
      script      understood  runs  operations
      fileserver  yes         -     -
    ");
}

#[test]
fn a_script_that_is_not_understood_fails_the_check_and_the_others_are_checked() {
    let sandbox = Sandbox::new();
    fs::write(sandbox.path("bad.f"), "define fileset name=a,path=/tmp,entreis=3\n").expect("a file");
    let rows = json(&ended(&sandbox, 1, &["load", "check", "bad.f", "webserver", "--json"]));
    assert_eq!((&rows[0]["understood"], &rows[1]["understood"]), (&Value::from(false), &Value::from(true)));
    let note = rows[0]["note"].as_str().expect("a note");
    assert!(note.contains("bad.f:1:") && note.contains("did you mean entries?"), "{note}");
}

#[test]
fn the_workloads_of_the_studies_are_listed() {
    let sandbox = Sandbox::new();
    let list = json(&ended(&sandbox, 0, &["load", "list", "--json"]));
    let list = list.as_array().expect("a list");
    let text = ended(&sandbox, 0, &["load", "list"]);
    for row in list {
        let workload = row["workload"].as_str().expect("a workload");
        let summary = row["summary"].as_str().expect("a summary");
        assert!(text.lines().any(|line| line.contains(workload) && line.ends_with(summary)), "{row}\n{text}");
    }
    for name in PERSONALITIES {
        assert!(list.iter().any(|row| row["workload"].as_str().is_some_and(|w| w.contains(name))), "{name}");
    }
    // The workloads themselves change with their options; each has its row, as the lines above say.
    let headings: Vec<&str> = text.lines().filter(|line| !line.starts_with("    ")).collect();
    insta::assert_snapshot!(headings.join("\n"), @r"
    L  nested file systems (Le, Huang, Wang, FAST '12)

    A  disk performance of ESX (Ahmad and others, WWC '03)

    D  image propagation and paravirtual I/O (CLOSER '11)

    H  virtualised NAS (Hildebrand and others, WIOV '11)

    P  file systems under type-2 hypervisors, with PostMark (Đorđević, Timčenko)

    nestor run STACK WORKLOAD runs one on a stack, nestor load run WORKLOAD --dir DIRECTORY on this machine;
    nestor workloads lists all options; scripts for nestor load wml: fileserver, webserver, mailserver, dbserver, create-tree, stat-tree, nas-seq-write, nas-rand-read
    ");
}

/// What `nestor load wml` measured of so many operations.
fn measured(sandbox: &Sandbox, name: &str, script: &str, operations: u64) -> String {
    let directory = directory(sandbox);
    let count = operations.to_string();
    let words = ["load", "wml", script, "--dir", &directory, "--scale", "tiny", "--remove", "--json"];
    let text = ended(sandbox, 0, &[&words[..], &["--operations", &count]].concat());
    fs::write(sandbox.path(name), text).expect("a file");
    sandbox.text(name)
}

#[test]
fn results_of_machines_become_one() {
    let sandbox = Sandbox::new();
    let one = measured(&sandbox, "one.json", "webserver", 400);
    let two = measured(&sandbox, "two.json", "webserver", 600);
    let merged = json(&ended(&sandbox, 0, &["load", "merge", &one, &two, "--json"]));
    let run = &merged["runs"][0];
    assert_eq!((&run["threads"], run["flowops"].as_array().map(Vec::len)), (&Value::from(200), Some(4)));
    let sum = |report: &Value, what: &str| -> u64 {
        let flowops = report["runs"][0]["flowops"].as_array().expect("flowops");
        flowops.iter().map(|flowop| flowop[what].as_u64().expect("a number")).sum()
    };
    assert_eq!(sum(&merged, "operations"), 1000);
    let parts = [&one, &two].map(|file| json(&fs::read_to_string(file).expect("a file")));
    assert_eq!(sum(&merged, "bytes"), parts.iter().map(|part| sum(part, "bytes")).sum::<u64>());
    let text = ended(&sandbox, 0, &["load", "merge", &one, &two]);
    assert!(
        text.contains("\n2 machines   ") && text.contains(" 1 000 operations by 200 threads in "),
        "{text}"
    );
}

#[test]
fn results_of_different_scripts_are_not_merged() {
    let sandbox = Sandbox::new();
    let one = measured(&sandbox, "one.json", "webserver", 400);
    let other = measured(&sandbox, "other.json", "nas-seq-write", 40);
    let said = refused(&sandbox, &["load", "merge", &one, &other]);
    assert!(said.contains("only results of the same script can be merged"), "{said}");
    fs::write(sandbox.path("notes.txt"), "nothing").expect("a file");
    let said = refused(&sandbox, &["load", "merge", &one, "notes.txt"]);
    assert!(said.contains("notes.txt is not JSON from nestor load wml"), "{said}");
}

#[test]
fn fio_runs_in_a_directory_and_leaves_it_as_it_was() {
    if !has_program("fio") {
        eprintln!("not tried: there is no fio");
        return;
    }
    let sandbox = Sandbox::new();
    let directory = directory(&sandbox);
    let run = ["load", "run", "fio:seq-write:size=4M:direct=off", "--dir", &directory];
    let result = json(&ended(&sandbox, 0, &[&run[..], &["--remove", "--json"]].concat()));
    assert_eq!(result["operations"]["write"]["operations"], 512);
    assert_eq!(result["operations"]["write"]["bytes"], 4 << 20);
    assert!(is_empty(&directory));
    let text = ended(&sandbox, 0, &run);
    assert!(text.contains("\n    write      512 "), "{text}");
    // What an earlier run left is the user's to remove.
    let said = refused(&sandbox, &run);
    assert!(said.contains(&format!("{directory}/nestor-load exists already, from an earlier run")), "{said}");
}

#[test]
fn postmark_runs_in_a_directory_with_the_counts_of_its_seed() {
    if !has_program("postmark") {
        eprintln!("not tried: there is no postmark");
        return;
    }
    let sandbox = Sandbox::new();
    let directory = directory(&sandbox);
    let run = ["load", "run", "postmark:xs:scale=0.01", "--dir", &directory, "--remove", "--json"];
    let result = json(&ended(&sandbox, 0, &run));
    let operations = |class: &str| result["operations"][class]["operations"].as_u64();
    // Of PostMark 1.51 with 1000 files, 500 transactions and seed 42.
    assert_eq!((operations("create"), operations("delete")), (Some(1246), Some(1246)));
    assert_eq!((operations("read"), operations("append")), (Some(258), Some(242)));
    assert!(is_empty(&directory));
}

#[test]
fn what_would_be_overwritten_has_to_be_named_twice() {
    let sandbox = Sandbox::new();
    // Nothing is behind it, and where it is missing that is said.
    let device = "/dev/loop7";
    if fs::metadata(device).is_ok() {
        let said = refused(&sandbox, &["load", "run", "fio:seq-write", "--device", device]);
        assert!(said.contains(&format!("add --overwrite {device}")), "{said}");
    }
    let disk = sandbox.disk("disk.img", 1 << 20);
    for more in [&[][..], &["--overwrite", &disk]] {
        let device = [&["load", "run", "fio:seq-write", "--device", &disk], more].concat();
        let said = refused(&sandbox, &device);
        assert!(
            said.contains("disk.img is a file and no block device") && said.contains("--dir DIRECTORY"),
            "{said}"
        );
    }
    let said = refused(&sandbox, &["load", "run", "fio:seq-write", "--device", "/dev/nope"]);
    assert!(said.contains("the device /dev/nope does not exist") && !said.contains("overwrit"), "{said}");
    let said = refused(&sandbox, &["load", "run", "fio:seq-wrte", "--dir", &directory(&sandbox)]);
    assert!(said.contains("did you mean seq-write?"), "{said}");
    let said = refused(&sandbox, &["load", "run", "fio:seq-write", "--dir", &sandbox.text("nowhere")]);
    assert!(said.contains("cannot use --dir") && said.contains("make it first: mkdir -p /"), "{said}");
    assert!(!sandbox.path("nowhere").exists());
    let said = refused(&sandbox, &["load", "run", "fio:seq-write"]);
    assert!(said.contains("--dir <DIRECTORY>|--device <DEVICE>"), "{said}");
    assert!(is_empty(&directory(&sandbox)));
}

#[test]
fn a_program_is_timed_and_its_end_is_passed_on() {
    let sandbox = Sandbox::new();
    let result = sandbox.text("times.json");
    let timed = |code: i32, program: &[&str]| {
        let words = ["load", "timed", "--result", &result, "--"];
        let said = ended(&sandbox, code, &[&words[..], program].concat());
        (said, json(&fs::read_to_string(&result).expect("the times are written")))
    };
    let (said, times) = timed(0, &["echo", "hello"]);
    assert_eq!((said.as_str(), &times["ended"]["code"]), ("hello\n", &Value::from(0)));
    assert!(times["elapsed_ns"].as_u64().is_some_and(|ns| ns > 0), "{times}");
    assert!(times["max_rss_bytes"].as_u64().is_some_and(|bytes| bytes > 0), "{times}");
    assert_eq!(timed(3, &["sh", "-c", "exit 3"]).1["ended"]["code"], 3);
    assert_eq!(timed(128 + 9, &["sh", "-c", "kill -KILL $$"]).1["ended"]["signal"], 9);
    assert_eq!(timed(127, &["/no/such/program"]).1["ended"], "no-program");
}
