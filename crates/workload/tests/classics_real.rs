//! The commands run by the real programs. Without PostMark, Bonnie++ or dbench its test says so and tests nothing; fio must
//! be installed.

#![allow(clippy::print_stdout, clippy::print_stderr)] // For who runs it, not for who uses the program.

mod support;

use std::collections::BTreeMap;

use nestor_workload::{LoadError, Place, Target, Workload};
use support::{Bench, class, run};

/// Whether the program is there; says so if not.
fn installed(program: &str) -> bool {
    let path = std::env::var("PATH").unwrap_or_default();
    let there = path
        .split(':')
        .chain(["/usr/sbin"])
        .any(|folder| std::path::Path::new(folder).join(program).exists());
    if !there {
        println!("{program} is not installed: its test is left out");
    }
    there
}

#[test]
fn postmark_does_what_it_is_told_and_leaves_nothing() {
    if !installed("postmark") {
        return;
    }
    let bench = Bench::new();
    let (result, _) = bench.measure("postmark:xs:scale=0.002:subdirectories=3:bs=4k:buffering=off");
    assert_eq!(result.figures["created_alone_files"], 200.0);
    assert_eq!(class(&result, "create").operations, class(&result, "delete").operations);
    assert!(class(&result, "read").operations > 0 && class(&result, "read").bytes > 0);
    assert!(class(&result, "write").bytes > 100 * 200 && class(&result, "write").operations == 0);
    assert_eq!((result.engine.as_str(), result.scale_factor), ("postmark 1.51", 0.002));
    assert!(result.elapsed_ns > 0);
    assert_eq!(std::fs::read_dir(bench.top()).unwrap().count(), 0);
}

/// Row P-21, really run: 700 MB through the page cache.
#[test]
fn postmark_with_small_files_counts_the_published_bytes() {
    if !installed("postmark") {
        return;
    }
    let (result, _) = Bench::new().measure("postmark:small");
    assert_eq!(class(&result, "create").operations, 12_475);
    assert!((class(&result, "write").bytes as f64 / (1 << 20) as f64 - 586.29).abs() < 0.005);
}

#[test]
fn postmark_without_its_directory_is_an_error() {
    if !installed("postmark") {
        return;
    }
    let bench = Bench::new();
    let target = Target::Directory(format!("{}/none", bench.top().display()));
    let workload = Workload::parse("postmark:xs:scale=0.0002").unwrap();
    let step = workload.measure(&Place { target, ..bench.place() }, 1);
    let error = workload.parse_output(&run(&step)).unwrap_err();
    assert!(
        matches!(error, LoadError::OperationFailed { .. }) && error.to_string().contains("/none/1"),
        "{error}"
    );
}

#[test]
fn bonnie_measures_and_leaves_nothing() {
    if !installed("bonnie++") {
        return;
    }
    let bench = Bench::new();
    let workload = Workload::parse("bonnie:sequential:size=8M").unwrap();
    let output = run(&workload.measure(&bench.place(), 1));
    if output.stderr.contains("Can't set") {
        println!("Bonnie++ is run as root by its command: its test needs root and is left out");
        return;
    }
    // Tiny tests may all be too fast, which is an error of its own; single characters seldom are.
    match workload.parse_output(&output) {
        Ok(result) => {
            assert_eq!(result.engine, "bonnie++ 2.00a");
            for (name, class) in &result.operations {
                assert!(class.elapsed_ns.unwrap() >= 400_000_000 && class.cpu_percent.is_some(), "{name:?}");
            }
        }
        Err(error) => assert!(matches!(error, LoadError::NothingMeasured { .. }), "{error}"),
    }
    assert_eq!(std::fs::read_dir(bench.top()).unwrap().count(), 0);
}

#[test]
fn dbench_counts_every_kind_of_operation() {
    if !installed("dbench") {
        return;
    }
    let (result, _) = Bench::new().measure("dbench:fileserver:clients=2:runtime=2s");
    assert!(class(&result, "NTCreateX").operations > 0 && class(&result, "WriteX").max_latency_ns.is_some());
    assert!(class(&result, "read-and-write").bytes > 0);
    assert!(result.elapsed_ns >= 2_000_000_000);
    assert_eq!(result.engine, "dbench 4.00");
}

#[test]
fn dbench_without_its_directory_is_an_error() {
    if !installed("dbench") {
        return;
    }
    let bench = Bench::new();
    let target = Target::Directory(format!("{}/none", bench.top().display()));
    let workload = Workload::parse("dbench:fileserver:clients=1:runtime=2s").unwrap();
    let error =
        workload.parse_output(&run(&workload.measure(&Place { target, ..bench.place() }, 1))).unwrap_err();
    assert!(error.to_string().contains("No such file or directory"), "{error}");
}

#[test]
fn iozone_tests_go_through_the_file_once() {
    for (case, name) in [
        ("write", "write"),
        ("rewrite", "write"),
        ("read", "read"),
        ("rand-read", "read"),
        ("rand-write", "write"),
    ] {
        let (result, _) = Bench::new().measure(&format!("iozone:{case}:size=8M:bs=1M"));
        assert_eq!((class(&result, name).operations, class(&result, name).bytes), (8, 8 << 20), "{case}");
        assert_eq!(result.workload, format!("iozone:{case}:size=8M:bs=1M"));
        assert_eq!(class(&result, name).latency.count(), 8);
    }
}

#[test]
fn a_file_is_read_again_in_a_time_of_its_own() {
    let (result, report) = Bench::new().measure("iozone:reread:size=8M:bs=1M");
    assert_eq!(report["jobs"].as_array().unwrap().len(), 2);
    for name in ["read", "reread"] {
        assert_eq!(class(&result, name).bytes, 8 << 20);
        assert!(class(&result, name).elapsed_ns.is_some());
    }
    let sum = class(&result, "read").elapsed_ns.unwrap() + class(&result, "reread").elapsed_ns.unwrap();
    assert_eq!(result.elapsed_ns, sum);
}

/// What fio did, from its record of latencies: direction and offset of each operation of each worker, in order.
fn executed(scratch: &std::path::Path) -> BTreeMap<String, Vec<(bool, u64)>> {
    let logs = std::fs::read_dir(scratch).unwrap().map(|entry| entry.unwrap().path());
    let of_latency = logs.filter(|path| path.to_str().unwrap().contains("done_lat."));
    let number = |word: &str| word.trim().parse::<u64>().unwrap();
    of_latency
        .map(|path| {
            let text = std::fs::read_to_string(&path).unwrap();
            let lines = text.lines().map(|line| line.split(',').map(number).collect::<Vec<_>>());
            (path.display().to_string(), lines.map(|words| (words[2] == 0, words[4])).collect())
        })
        .collect()
}

fn drawn(log: &[u8]) -> Vec<(bool, u64)> {
    let text = std::str::from_utf8(log).unwrap();
    let words = text.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    words.filter(|w| w.len() == 4 && w[0] == "f").map(|w| (w[1] == "read", w[2].parse().unwrap())).collect()
}

#[test]
fn fio_does_what_was_drawn_for_each_worker() {
    let bench = Bench::new();
    let text = "iometer:grid:size=4M:read=60:random=40:operations=601:workers=2:depth=1:direct=off";
    let workload = Workload::parse(text).unwrap();
    bench.prepare(&workload, &bench.place());
    let mut step = workload.measure(&bench.place(), 3);
    let scratch = bench.0.path().join("scratch");
    step.argv.retain(|argument| {
        !["--write_bw_log", "--log_avg_msec", "--bwavgtime", "--per_job_logs"]
            .iter()
            .any(|start| argument.starts_with(start))
    });
    // Before the first job: for all.
    let recorded = format!("--write_lat_log={}/done", scratch.display());
    step.argv.splice(
        1..1,
        [recorded.as_str(), "--log_offset=1", "--disable_slat=1", "--disable_clat=1"].map(str::to_owned),
    );
    let result = workload.parse_output(&run(&step)).unwrap();
    assert_eq!(class(&result, "read").operations + class(&result, "write").operations, 601);
    let wanted: Vec<_> = step.input_files.iter().map(|(_, log)| drawn(log)).collect();
    assert_eq!((wanted[0].len(), wanted[1].len()), (301, 300));
    assert_ne!(wanted[0][..300], wanted[1][..]);
    let done: Vec<_> = executed(&scratch).into_values().collect();
    assert_eq!(done, wanted);
    // One file for all, of the size asked for.
    let file = std::fs::metadata(bench.top().join("nestor-iometer.tst")).unwrap();
    assert_eq!(file.len(), 4 << 20);
}

#[test]
fn every_outstanding_request_is_in_the_result() {
    let (result, _) = Bench::new().measure("iometer:grid:size=16M:operations=3000");
    assert_eq!(class(&result, "read").operations + class(&result, "write").operations, 3000);
    assert_eq!(result.bytes(), 3000 * 4096);
}

#[test]
fn workers_think_and_the_time_limit_ends_them() {
    let bench = Bench::new();
    let text = "iometer:mail:size=4M:workers=2:direct=off:runtime=2s:operations=2000";
    let (result, _) = bench.measure(text);
    // 50 ms after each request: two workers do no more than 20 a second each.
    let operations = class(&result, "read").operations + class(&result, "write").operations;
    assert!((2..=84).contains(&operations), "{operations}");
    assert_eq!(class(&result, "read").bytes, class(&result, "read").operations * 11_264);
    // The seconds are those of both workers: one alone would be half of the bytes.
    let by_second: u64 = result.operations.values().flat_map(|class| &class.bytes_by_second).sum();
    assert!(by_second <= result.bytes() && by_second > result.bytes() * 6 / 10, "{by_second}");
    // 4 MiB are 372 blocks of 11 KiB, all laid out, and a bit that is not used.
    assert_eq!(std::fs::metadata(bench.top().join("nestor-iometer.tst")).unwrap().len(), 372 * 11_264);
}
