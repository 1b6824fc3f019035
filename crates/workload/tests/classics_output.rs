//! Recorded output of PostMark, Bonnie++ and dbench, and what is left of it when it is damaged.

use nestor_workload::{
    Ended, LoadError, LoadResult, OperationClass, OperationResult, StepOutput, Timed, Workload,
};
use proptest::prelude::*;

/// The published configurations on a local ext4.
const POSTMARK: [(&str, &str); 3] = [
    ("postmark:xs", include_str!("data/postmark-xs.txt")),
    ("postmark:small", include_str!("data/postmark-small.txt")),
    ("postmark:large", include_str!("data/postmark-large.txt")),
];
/// 2 GiB in a machine of 24 GiB, and 32 768 empty files.
const BONNIE: (&str, &str) = ("bonnie:all:size=2G:files=32768", include_str!("data/bonnie-all.csv"));
/// 32 MiB: only single characters take half a second.
const BONNIE_SMALL: (&str, &str) = ("bonnie:sequential:size=32M", include_str!("data/bonnie-small.csv"));
const BONNIE_TOO_FAST: (&str, &str) = ("bonnie:files:files=1024", include_str!("data/bonnie-too-fast.csv"));
const DBENCH: (&str, &str) =
    ("dbench:fileserver:clients=2:runtime=3s", include_str!("data/dbench-two-clients.txt"));
/// On a file system of 4 MiB.
const DBENCH_FULL: &str = include_str!("data/dbench-full.txt");

fn output(ended: Ended, stdout: &str, stderr: &str) -> StepOutput {
    let timed =
        Timed { ended, elapsed_ns: 7_637_000_000, user_s: 0.158, system_s: 7.322, max_rss_bytes: 1 << 20 };
    let file = ("/scratch/nestor-program.timed.json".to_owned(), serde_json::to_string(&timed).unwrap());
    StepOutput {
        ended: Ended::Code(0),
        stdout: stdout.to_owned(),
        stderr: stderr.to_owned(),
        files: vec![file],
    }
}

fn parse(workload: &str, output: &StepOutput) -> Result<LoadResult, LoadError> {
    Workload::parse(workload).unwrap().parse_output(output)
}

fn good(workload: &str, stdout: &str) -> LoadResult {
    parse(workload, &output(Ended::Code(0), stdout, "")).unwrap()
}

fn bad(workload: &str, stdout: &str) -> String {
    parse(workload, &output(Ended::Code(0), stdout, "")).unwrap_err().to_string()
}

fn class<'r>(result: &'r LoadResult, name: &str) -> &'r OperationResult {
    &result.operations[&OperationClass(name.to_owned())]
}

/// Rows P-20, P-21 and P-23: counts, and read and written bytes in hundredths of a MiB.
#[test]
fn postmark_counts_the_published_constants() {
    let rows = [
        (125_075, 25_155, 24_808, 12.56, 65.21),
        (12_475, 2485, 2515, 112.81, 586.29),
        (347, 257, 243, 4312.52, 6145.65),
    ];
    for ((workload, text), (created, read, appended, read_mb, written_mb)) in POSTMARK.into_iter().zip(rows) {
        let result = good(workload, text);
        let operations = |name| class(&result, name).operations;
        assert_eq!(
            (operations("create"), operations("read"), operations("append")),
            (created, read, appended)
        );
        assert_eq!(operations("delete"), created);
        let mb = |name| class(&result, name).bytes as f64 / (1 << 20) as f64;
        assert!((mb("read") - read_mb).abs() < 1e-3 && (mb("write") - written_mb).abs() < 1e-3);
        assert_eq!(result.bytes(), class(&result, "read").bytes + class(&result, "write").bytes);
        assert_eq!((result.elapsed_ns, result.cpu_system_s), (7_637_000_000, 7.322));
    }
    insta::assert_debug_snapshot!(good(POSTMARK[0].0, POSTMARK[0].1).figures, @r#"
    {
        "created_alone_files": 100000.0,
        "created_with_transactions_files": 25075.0,
        "deleted_alone_files": 100150.0,
        "deleted_with_transactions_files": 24925.0,
        "postmark_total_s": 8.0,
        "postmark_transactions_per_s": 50000.0,
        "postmark_transactions_s": 1.0,
    }
    "#);
}

#[test]
fn postmark_that_counts_something_else_is_not_believed() {
    let (workload, text) = POSTMARK[1];
    insta::assert_snapshot!(bad(workload, &text.replace("586.29", "586.30")), @"the result of postmark contradicts itself: 614780108 bytes written, but this configuration with seed 42 always has 614769623 (row P-21): this postmark is not the published one");
    insta::assert_snapshot!(bad(workload, &text.replace("2485 read", "2486 read")), @"the result of postmark contradicts itself: 2486 files read, but this configuration with seed 42 always has 2485 (row P-21): this postmark is not the published one");
    insta::assert_snapshot!(bad(workload, &text.replace("10000 files", "10001 files")), @"the result of postmark contradicts itself: files created, and those alone and with transactions: 12475 and 12476");
    insta::assert_snapshot!(bad(workload, text.split("Data:").next().unwrap()), @r#"the output of postmark cannot be read: there is no line with "Data:" after the line with "Mixed with transactions:"; versions known to work: 1.53 of Debian, which prints v1.51"#);
    // Another seed has other counts, and nothing to compare them with.
    let other = text.replace("586.29", "586.30");
    assert!(parse("postmark:small:seed=7", &output(Ended::Code(0), &other, "")).is_ok());
    let error = parse("postmark:large", &output(Ended::Code(0), text, "")).unwrap_err();
    assert!(matches!(error, LoadError::Inconsistent { .. }), "{error}");
}

#[test]
fn bonnie_has_rates_processor_time_and_longest_latencies() {
    let result = good(BONNIE.0, BONNIE.1);
    assert_eq!((result.engine.as_str(), result.working_set_bytes), ("bonnie++ 2.00a", 2 << 30));
    let write = class(&result, "put-block");
    assert_eq!((write.bytes, write.operations, write.cpu_percent), (2 << 30, 262_144, Some(87.0)));
    // The rate is the printed one again: 304033 KiB/s.
    assert!((write.bytes_per_second(result.elapsed_ns) / 1024.0 - 304_033.0).abs() < 1.0);
    assert_eq!(write.max_latency_ns, Some(658_000));
    assert_eq!((class(&result, "put-char").operations, class(&result, "seek").operations), (3 << 20, 8192));
    let create = class(&result, "create-seq");
    assert!((create.operations_per_second(result.elapsed_ns) - 64_708.0).abs() < 1e-3);
    assert_eq!(result.elapsed_ns, result.operations.values().map(|o| o.elapsed_ns.unwrap()).sum::<u64>());
    insta::assert_snapshot!(result.remarks.join("\n"), @"bonnie++ gives no result for tests of less than half a second: stat-seq, delete-seq, create-rand, stat-rand, delete-rand; make size= or files= larger");
}

#[test]
fn bonnie_tests_that_are_too_fast_are_absent() {
    let result = good(BONNIE_SMALL.0, BONNIE_SMALL.1);
    let names: Vec<&str> = result.operations.keys().map(|class| class.0.as_str()).collect();
    assert_eq!(names, ["get-char", "put-char"]);
    insta::assert_snapshot!(bad(BONNIE_TOO_FAST.0, BONNIE_TOO_FAST.1), @"bonnie++ measured nothing: every test took less than half a second, and bonnie++ does not report such tests; make size= or files= larger");
}

#[test]
fn bonnie_without_single_characters_has_no_such_tests() {
    let printed = include_str!("data/bonnie-without-chars.csv");
    let result = good("bonnie:sequential:size=2G:chars=off", printed);
    let names: Vec<&str> = result.operations.keys().map(|class| class.0.as_str()).collect();
    assert_eq!(names, ["get-block", "put-block", "rewrite", "seek"]);
    assert_eq!(result.remarks, [""; 0], "what was not asked for is not missed");
}

#[test]
fn bonnie_that_did_something_else_is_not_believed() {
    insta::assert_snapshot!(bad("bonnie:all:files=32768", BONNIE.1), @"the result of bonnie++ contradicts itself: 2147483648 bytes in the file, but 536870912 were requested");
    insta::assert_snapshot!(bad("bonnie:all:size=2G", BONNIE.1), @"the result of bonnie++ contradicts itself: 32768 files, but 16384 were requested");
    insta::assert_snapshot!(bad(BONNIE.0, &BONNIE.1.replacen("1.98", "1.97", 1)), @r#"the output of bonnie++ cannot be read: its values have the format "1.97", not 1.98; versions known to work: 2.00a with reports of the form 1.98"#);
    insta::assert_snapshot!(bad(BONNIE.0, BONNIE.1.rsplit_once(',').unwrap().0), @"the output of bonnie++ cannot be read: 49 values instead of 50; versions known to work: 2.00a with reports of the form 1.98");
    insta::assert_snapshot!(bad(BONNIE.0, ""), @"bonnie++ ended without printing a result");
}

#[test]
fn dbench_has_a_class_for_every_kind_of_operation() {
    let result = good(DBENCH.0, DBENCH.1);
    assert_eq!((result.engine.as_str(), result.elapsed_ns), ("dbench 4.00", 3_000_000_000));
    let rows = result.operations.iter().map(|(name, o)| {
        let us = |ns: Option<u64>| ns.map_or("-".to_owned(), |ns| format!("{} us", ns / 1000));
        format!("{} {} {} {}", name.0, o.operations, us(o.mean_latency_ns), us(o.max_latency_ns))
    });
    insta::assert_snapshot!(rows.collect::<Vec<_>>().join("\n"), @r"
    Close 58988 1 us 4909 us
    Deltree 2 13 us 13 us
    Find 28054 19 us 2152 us
    Flush 5641 323 us 11442 us
    LockX 260 3 us 26 us
    Mkdir 2 61 us 118 us
    NTCreateX 80237 14 us 2511 us
    Qfileinfo 12797 1 us 48 us
    Qfsinfo 13322 2 us 404 us
    Qpathinfo 72617 5 us 4027 us
    ReadX 125561 2 us 279 us
    Rename 3398 23 us 1057 us
    Sfileinfo 6559 5 us 296 us
    Unlink 16156 39 us 3551 us
    UnlockX 260 1 us 26 us
    WriteX 40372 10 us 463 us
    read-and-write 0 - -
    ");
    let megabytes_per_s = result.figures["dbench_megabytes_per_s"];
    assert!((result.bytes_per_second() / 1e6 - megabytes_per_s).abs() < 1e-3);
}

#[test]
fn dbench_that_did_something_else_is_not_believed() {
    insta::assert_snapshot!(bad("dbench:fileserver:clients=3:runtime=3s", DBENCH.1), @"the result of dbench contradicts itself: 2 clients, but 3 were requested");
    insta::assert_snapshot!(bad(DBENCH.0, &DBENCH.1.replace("Throughput", "Input")), @"the output of dbench cannot be read: the line with the throughput is missing; versions known to work: 4.00");
}

#[test]
fn what_went_wrong_is_said() {
    let error = |workload: &str, ended, stdout: &str, stderr: &str| {
        parse(workload, &output(ended, stdout, stderr)).unwrap_err()
    };
    let full = error("dbench:fileserver", Ended::Code(1), DBENCH_FULL, "");
    assert_eq!(
        full,
        LoadError::Full { detail: "write failed on handle 9942 (No space left on device)".to_owned() }
    );
    let full = error(
        "bonnie:all",
        Ended::Code(1),
        "",
        "Can't write block.: No space left on device\nCan't write block 512.\n",
    );
    assert!(matches!(full, LoadError::Full { .. }), "{full}");
    let stale = error("bonnie:all", Ended::Code(1), "", "Can't write block.: Stale file handle\n");
    assert!(matches!(stale, LoadError::Stale { .. }), "{stale}");
    let failed =
        error("postmark:xs", Ended::Code(0), "", "Error: cannot open '/mnt/1' for writing\nError: 2\n");
    assert_eq!(failed.to_string(), "postmark got an error from the stack: cannot open '/mnt/1' for writing");
    for workload in ["postmark:xs", "bonnie:all", "dbench:fileserver"] {
        assert!(matches!(error(workload, Ended::NoProgram, "", ""), LoadError::NoProgram { .. }));
        assert!(matches!(error(workload, Ended::Signal(9), "", ""), LoadError::Killed { signal: 9, .. }));
        assert!(matches!(error(workload, Ended::Code(3), "", "no"), LoadError::Refused { code: 3, .. }));
        assert!(matches!(error(workload, Ended::Code(0), "", ""), LoadError::NoOutput { .. }));
        // Without the file of times the step itself must say what happened.
        let mut hung = output(Ended::Code(0), "", "");
        hung.ended = Ended::TimedOut;
        hung.files.clear();
        assert!(matches!(parse(workload, &hung), Err(LoadError::TimedOut { .. })));
    }
}

proptest! {
    /// Reports with a piece cut out, or a byte changed: a result or an error, never a panic.
    #[test]
    fn damaged_reports_are_answered(which in 0usize..6, from in 0usize..3000, length in 0usize..200, by in "[0-9a-z,+. ]{0,3}") {
        let recorded =
            [POSTMARK[0], POSTMARK[1], BONNIE, BONNIE_SMALL, DBENCH, ("dbench:fileserver", DBENCH_FULL)];
        let (workload, text) = recorded[which];
        let from = from.min(text.len());
        let to = (from + length).min(text.len());
        let damaged = format!("{}{by}{}", &text[..from], &text[to..]);
        let _ = parse(workload, &output(Ended::Code(0), &damaged, ""));
    }
}
