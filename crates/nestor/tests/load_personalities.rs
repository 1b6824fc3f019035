//! The scripts in `workloads/` have the numbers of the papers that they follow.

mod support;

use std::fs;

use nestor_wml::{Action, FileSet, Flowop, FlowopKind, QuitMode, Run, RunTime, Value};
use serde_json::Value as Json;
use support::Sandbox;

const KIB: u64 = 1 << 10;
const GIB: u64 = 1 << 30;

/// The one run of a script that comes with the program, with variables set on the command line.
fn run_of(name: &str, set: &[(&str, &str)]) -> Run {
    let text = nestor_workload::personality(name).expect("it comes with the program");
    let set: Vec<_> = set.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let script = nestor_wml::parse(&nestor_wml::Source::new(name, text), &set);
    let script = script.unwrap_or_else(|e| panic!("{name}: {e}"));
    assert_eq!(script.warnings, [], "{name}");
    match &script.actions[..] {
        [Action::Run(run)] => run.clone(),
        other => panic!("{name} is one run: {other:?}"),
    }
}

fn mean(value: &Value) -> f64 {
    match value {
        Value::Fixed(number) => *number as f64,
        Value::Drawn(variable) => variable.mean(),
    }
}

fn fixed(value: &Value) -> u64 {
    match value {
        Value::Fixed(number) => *number,
        Value::Drawn(variable) => panic!("{variable:?} is not fixed"),
    }
}

fn set<'r>(run: &'r Run, name: &str) -> &'r FileSet {
    run.file_sets.iter().find(|set| set.name == name).unwrap_or_else(|| panic!("there is no {name}"))
}

/// Threads of the processes of that name.
fn threads(run: &Run, process: &str) -> u64 {
    let processes = run.processes.iter().filter(|p| p.name == process);
    processes.map(|p| p.instances * p.threads.iter().map(|t| t.instances).sum::<u64>()).sum()
}

fn flowops(run: &Run) -> impl Iterator<Item = &Flowop> {
    run.processes.iter().flat_map(|p| &p.threads).flat_map(|t| &t.flowops)
}

/// Smallest and largest operation that moves data.
fn operation_bytes(run: &Run) -> (u64, u64) {
    use FlowopKind::{AppendFileRandom, Read, ReadWholeFile, Write, WriteWholeFile};
    let data = flowops(run)
        .filter(|f| matches!(f.kind, AppendFileRandom | Read | ReadWholeFile | Write | WriteWholeFile));
    let sizes: Vec<u64> = data.map(|flowop| fixed(&flowop.io_bytes)).collect();
    (*sizes.iter().min().expect("there are some"), *sizes.iter().max().expect("there are some"))
}

/// FAST '12, table 3: number of files, threads, size of a file, size of an operation.
#[test]
fn the_four_servers_are_those_of_table_3() {
    let run = run_of("fileserver", &[]);
    let files = set(&run, "fileserver");
    assert_eq!((files.entries, threads(&run, "fileserver")), (50_000, 50));
    assert_eq!((mean(&files.file_bytes), operation_bytes(&run)), (128.0 * 1024.0, (16 * KIB, 1024 * KIB)));
    // §3.2: create, delete, append, read, write, attribute.
    use FlowopKind::{AppendFileRandom, CreateFile, DeleteFile, ReadWholeFile, StatFile, WriteWholeFile};
    for kind in [CreateFile, DeleteFile, AppendFileRandom, ReadWholeFile, WriteWholeFile, StatFile] {
        assert_eq!(flowops(&run).filter(|f| f.kind == kind).count(), 1, "{kind:?}");
    }

    let run = run_of("webserver", &[]);
    let files = set(&run, "webserver");
    assert_eq!((files.entries, threads(&run, "webserver")), (50_000, 100));
    assert_eq!((mean(&files.file_bytes), operation_bytes(&run).1), (16.0 * 1024.0, 512 * KIB));
    // §3.2: one append operation per open.
    let count = |kind: FlowopKind| flowops(&run).filter(|f| f.kind == kind).count();
    assert_eq!((count(FlowopKind::OpenFile), count(AppendFileRandom)), (1, 1));

    let run = run_of("mailserver", &[]);
    let files = set(&run, "mailserver");
    assert_eq!((files.entries, threads(&run, "mailserver")), (50_000, 16));
    let Value::Drawn(sizes) = &files.file_bytes else { panic!("sizes are drawn") };
    let from_8_to_16_kb = nestor_wml::Distribution::Uniform { lower: 8192.0, upper: 16384.0 };
    assert_eq!((&sizes.distribution, operation_bytes(&run)), (&from_8_to_16_kb, (16 * KIB, 16 * KIB)));
    assert!(mean(&files.directory_width) >= files.entries as f64, "§3.2: within a single directory");

    let run = run_of("dbserver", &[]);
    let files = set(&run, "tables");
    assert_eq!((files.entries, threads(&run, "reader")), (8, 200));
    assert_eq!((fixed(&files.file_bytes), operation_bytes(&run)), (GIB, (2 * KIB, 2 * KIB)));
    // §3.2: "a stream of synchronous writes is used" for the log.
    let log = flowops(&run).find(|f| f.file_set == run.file_sets.iter().position(|s| s.name == "log"));
    assert!(log.is_some_and(|flowop| flowop.synchronous && flowop.kind == FlowopKind::AioWrite));

    for server in ["fileserver", "webserver", "mailserver", "dbserver"] {
        assert_eq!(run_of(server, &[]).time, RunTime::Seconds(60.0), "{server}");
    }
}

/// WIOV '11: §3.1 with tables 1 and 2, §3.2 with table 3.
#[test]
fn the_trees_and_files_are_those_of_the_nas_study() {
    for width in ["20", "100", "1000", "10000", "1000000"] {
        for name in ["create-tree", "stat-tree"] {
            let run = run_of(name, &[("dirwidth", width)]);
            let tree = set(&run, "tree");
            assert_eq!((tree.entries, fixed(&tree.file_bytes)), (100_000, 0), "empty files");
            assert_eq!(mean(&tree.directory_width).to_string(), width);
        }
    }
    let run = run_of("create-tree", &[]);
    assert_eq!((run.quit, set(&run, "tree").preallocated_percent), (QuitMode::FirstDone, 0.0));
    let run = run_of("stat-tree", &[]);
    assert_eq!((run.time, set(&run, "tree").preallocated_percent), (RunTime::Seconds(120.0), 100.0));

    for (word, bytes) in [("2k", 2 * KIB), ("4k", 4 * KIB), ("128k", 128 * KIB), ("4m", 4096 * KIB)] {
        let run = run_of("nas-seq-write", &[("iosize", word)]);
        assert_eq!((threads(&run, "writer"), operation_bytes(&run)), (1, (bytes, bytes)));
        // It ends with the write that passes this.
        let end = flowops(&run).find(|f| f.kind == FlowopKind::FinishOnBytes).expect("it ends by bytes");
        assert_eq!(fixed(&end.value), 4 * GIB - 1);
        assert!(flowops(&run).all(|f| !f.random));
    }
    for (word, bytes) in [("2k", 2 * KIB), ("128k", 128 * KIB)] {
        let run = run_of("nas-rand-read", &[("iosize", word)]);
        assert_eq!((threads(&run, "reader"), operation_bytes(&run)), (20, (bytes, bytes)));
        assert_eq!(fixed(&set(&run, "bigfile").file_bytes), 4 * GIB);
        let end = flowops(&run).find(|f| f.kind == FlowopKind::FinishOnBytes).expect("it ends by bytes");
        assert_eq!(fixed(&end.value), 2 * GIB - 1);
        assert!(flowops(&run).filter(|f| f.kind == FlowopKind::Read).all(|f| f.random));
    }
}

/// The report of a run for real, which leaves nothing.
fn measured(name: &str, options: &[&str]) -> Json {
    let sandbox = Sandbox::new();
    let directory = sandbox.text("files");
    fs::create_dir(&directory).expect("a directory");
    let words = ["load", "wml", name, "--dir", &directory, "--json"];
    let words = words.iter().chain(options);
    let output = sandbox.nestor(words).assert().success().get_output().stdout.clone();
    serde_json::from_slice(&output).expect("JSON")
}

#[test]
fn the_tree_of_the_nas_study_has_its_directories() {
    // §3.1: 100 000 files, an average of 20 entries in each directory.
    let directories = |width: &str| {
        let report = measured("create-tree", &["--prepare", "--set", &format!("dirwidth={width}")]);
        report["file_sets"][0]["directories"].as_u64().expect("a number")
    };
    // The paper has 5105, of the same mean.
    assert!((5000..5500).contains(&directories("20")));
    assert_eq!(directories("1000000"), 1);
}

#[test]
fn a_run_that_ends_by_bytes_moves_these() {
    let smaller = ["--cached", "--remove", "--set", "filesize=8m", "--set", "iosize=64k"];
    let report = measured("nas-seq-write", &smaller);
    let write = &report["runs"][0]["flowops"][0];
    assert_eq!((&write["operations"], &write["bytes"]), (&Json::from(128), &Json::from(8 << 20)));
    assert_eq!(report["runs"][0]["ended"], "done");
    let report = measured("nas-rand-read", &[&smaller[..], &["--set", "bytes=4m"]].concat());
    let operations = report["runs"][0]["flowops"][0]["operations"].as_u64().expect("a number");
    // Reads of the other threads that were under way count too.
    assert!((64..64 + 20).contains(&operations), "{operations}");
}
