//! Scripts as options, and reports as results.

use super::*;
use crate::engine::{Ended, Target};
use crate::flow_report::{Ended as RunEnded, FileSetReport, FlowopReport, RunReport};
use nestor_statistics::LatencyHistogram;

fn place() -> Place {
    Place { target: Target::Directory("/mnt/top".to_owned()), scratch: "/run/nestor/".to_owned() }
}

#[test]
fn files_are_made_first_and_found_again() {
    let workload = Workload::parse("wml:fileserver:scale=0.01:threads=8").unwrap();
    let prepare = &workload.prepare(&place(), 7)[0];
    insta::assert_snapshot!(prepare.argv.join("\n"), @r"
        {nestor}
        load
        wml
        /run/nestor/nestor-fileserver.f
        --dir
        /mnt/top
        --result
        /run/nestor/nestor-wml-prepare.json
        --set=nfiles=500
        --set=nthreads=8
        --prepare
        --seed=7
        ");
    assert!(prepare.input_files[0].1.starts_with(b"# File server"));
    let measure = workload.measure(&place(), 7);
    insta::assert_snapshot!(measure.argv[8..].join("\n"), @r"
        --set=nfiles=500
        --set=nthreads=8
        --prepared
        --cached
        --seed=7
        --time=10
        ");
    assert_eq!(measure.output_files, ["/run/nestor/nestor-wml-measure.json"]);
}

#[test]
fn files_become_smaller_by_their_size_too() {
    let workload = Workload::parse("wml:mailserver:scale=1:filescale=0.25").unwrap();
    let set = workload.data_set();
    assert_eq!((set.files, set.file_bytes, set.scale_factor), (50_000, 3 << 10, 0.25));
    let argv = workload.measure(&place(), 1).argv;
    assert!(
        argv.contains(&"--set=nfiles=50000".to_owned()) && argv.contains(&"--file-scale=0.25".to_owned())
    );
    let both = Workload::parse("wml:dbserver:scale=0.5:filescale=0.25").unwrap().data_set();
    assert_eq!((both.files, both.file_bytes, both.scale_factor), (8, 128 << 20, 0.125));
    assert!(Workload::parse("wml:webserver:filescale=0.00001").is_err(), "no file is left");
    assert!(Workload::parse("wml:stat-tree:filescale=0.5").is_err(), "its files are empty");
}

#[test]
fn a_script_of_the_users_is_copied() {
    let workload = Workload::parse("wml:script:file=a/b.f:runtime=off:scale=0.5").unwrap();
    let step = workload.measure(&place(), 1);
    assert_eq!(step.copied_files, [("/run/nestor/nestor-script.f".to_owned(), "a/b.f".to_owned())]);
    assert!(
        step.argv.contains(&"--scale=0.5".to_owned()) && !step.argv.iter().any(|a| a.starts_with("--time"))
    );
}

#[test]
fn what_paper_h_varies_reaches_the_script() {
    let set = |text: &str| {
        let workload = Workload::parse(text).unwrap();
        let argv = workload.measure(&place(), 1).argv;
        argv.into_iter().filter(|a| a.starts_with("--set=")).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(set("wml:create-tree:scale=1:width=1000000"), "--set=nfiles=100000 --set=dirwidth=1000000");
    assert_eq!(
        set("wml:nas-rand-read:scale=1:iosize=128k"),
        "--set=filesize=4294967296 --set=bytes=2147483648 --set=iosize=131072"
    );
    assert_eq!(
        set("wml:nas-seq-write:scale=0.5:allocated=on"),
        "--set=filesize=2147483648 --set=initial=2147483648 --set=iosize=2048"
    );
}

fn row(name: &str, kind: &str, is_io: bool, ns: u64) -> FlowopReport {
    let mut latency = LatencyHistogram::default();
    latency.record_ns(ns);
    FlowopReport {
        name: name.to_owned(),
        kind: kind.to_owned(),
        is_io,
        operations: 1,
        bytes: 10,
        latency,
        mean_ns: ns as f64,
        bytes_by_second: vec![10],
    }
}

#[test]
fn flowops_become_classes_by_what_they_do() {
    let run = RunReport {
        ended: RunEnded::Time,
        elapsed_ns: 1_000_000_000,
        threads: 1,
        cpu_user_s: 0.5,
        cpu_system_s: 0.25,
        flowops: vec![
            row("read1", "readwholefile", true, 100),
            row("read2", "readwholefile", true, 900),
            row("wait", "eventlimit", false, 5),
        ],
        passes: vec![row("worker", "pass", false, 1000)],
        pace: None,
        remarks: vec!["tiny".to_owned()],
    };
    let set = FileSetReport {
        name: "s".to_owned(),
        path: "/x".to_owned(),
        files: 1,
        preallocated: 1,
        directories: 1,
        leaf_directories: 0,
        bytes: 4096,
    };
    let report = FlowReport { runs: vec![run], file_sets: vec![set], prepare_s: 0.0 };
    let text = serde_json::to_string(&report).unwrap();
    let output = |ended, stderr: &str| StepOutput {
        ended,
        stdout: String::new(),
        stderr: stderr.to_owned(),
        files: vec![("result".to_owned(), text.clone())],
    };
    let workload = Workload::parse("wml:webserver").unwrap();
    let result = workload.parse_output(&output(Ended::Code(0), "")).unwrap();
    let (class, done) = result.operations.iter().next().unwrap();
    assert_eq!((class.0.as_str(), done.operations, done.bytes), ("readwholefile", 2, 20));
    assert_eq!((done.latency.count(), done.bytes_by_second.as_slice()), (2, [20].as_slice()));
    assert_eq!(result.operations.len(), 1);
    assert_eq!((result.working_set_bytes, result.scale_factor), (4096, 0.1));
    assert_eq!(result.figures["passes_of_worker"], 1.0);
    let full = "error: cannot write /mnt/top/x: no space left on device: the file system is full; make";
    let ended = |failure: FlowFailure| Ended::Code(failure.exit_code().into());
    let error = workload.parse_output(&output(ended(FlowFailure::Full), full)).unwrap_err();
    assert!(matches!(error, LoadError::Full { .. }), "{error:?}");
    let stale = "error: cannot write /mnt/top/x: stale file handle";
    let error = workload.parse_output(&output(ended(FlowFailure::Stale), stale)).unwrap_err();
    assert!(matches!(error, LoadError::Stale { .. }), "{error:?}");
    let starved = "warning: a\nerror: flowop create (line 22) found no file";
    let error = workload.parse_output(&output(ended(FlowFailure::Operation), starved)).unwrap_err();
    assert!(matches!(error, LoadError::OperationFailed { .. }), "{error:?}");
    let error = error.to_string();
    assert!(error.contains("flowop create (line 22)") && !error.contains("warning"), "{error}");
    let error = workload.parse_output(&output(Ended::Code(1), full)).unwrap_err();
    assert!(matches!(error, LoadError::Refused { code: 1, .. }), "the words decide nothing: {error:?}");
}

#[test]
fn servers_are_the_table_s() {
    for case in ["fileserver", "webserver", "mailserver", "dbserver"] {
        assert!(published(case).is_some() && personality(case).is_some(), "{case}");
    }
    let files = |text: &str| Workload::parse(text).unwrap().data_set();
    assert_eq!(files("wml:fileserver:scale=1").files, 50_000);
    assert_eq!(files("wml:dbserver:scale=1").bytes, 8 << 30);
    assert!(
        Workload::parse("wml:fileserver:scale=0.000001").unwrap_err().to_string().contains("no file is left")
    );
}

#[test]
fn threads_are_workers_and_those_of_the_script_if_none_are_given() {
    let of = |text: &str| Workload::parse(text).unwrap().demand();
    assert_eq!(of("wml:webserver:threads=7"), Demand { workers: Some(7), ..Demand::default() });
    assert_eq!(of("wml:webserver"), Demand { workers: Some(100), ..Demand::default() });
    assert!(of("wml:nas-seq-write").in_order);
}
