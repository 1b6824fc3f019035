//! Recorded output of fio 3.33, and what is left of it when it is damaged.

use nestor_workload::{Ended, LoadError, LoadResult, OperationClass, StepOutput, Workload};
use proptest::prelude::*;

/// A run of 3 s limited to 300 operations per second, by `--rate_iops`.
const PACED: &str = include_str!("data/fio-rand-read-paced.json");
const PACED_LOG: &str = include_str!("data/fio-rand-read-paced_bw.log");
const PACED_WORKLOAD: &str = "fio:rand-read:size=16M:files=4:runtime=3s";
/// Two jobs, reads, writes and fsyncs.
const MIXED: &str = include_str!("data/fio-mixed-two-jobs.json");
const MIXED_WORKLOAD: &str =
    "fio:mixed:read=70:bs=4k:size=1M:files=4:numjobs=2:direct=off:engine=psync:fsync=16";
/// A run in a directory of 2 MiB, with its error output.
const FULL: &str = include_str!("data/fio-directory-full.json");
const FULL_STDERR: &str = include_str!("data/fio-directory-full.stderr");

fn output(stdout: &str) -> StepOutput {
    StepOutput { ended: Ended::Code(0), stdout: stdout.to_owned(), stderr: String::new(), files: Vec::new() }
}

fn parse(workload: &str, output: &StepOutput) -> Result<LoadResult, LoadError> {
    Workload::parse(workload).unwrap().parse_output(output)
}

fn error(workload: &str, output: &StepOutput) -> String {
    parse(workload, output).unwrap_err().to_string()
}

#[test]
fn a_run_ended_by_its_time_limit_has_a_row_of_seconds() {
    let mut output = output(PACED);
    output.files.push(("/run/nestor-fio_bw.log".to_owned(), PACED_LOG.to_owned()));
    let result = parse(PACED_WORKLOAD, &output).unwrap();
    let read = &result.operations[&OperationClass("read".to_owned())];
    assert_eq!(result.engine, "fio 3.33");
    assert_eq!(result.engine_output, PACED);
    assert_eq!(read.bytes, read.operations * 8192);
    assert_eq!(read.bytes_by_second.len(), 3);
    for bytes in &read.bytes_by_second {
        assert!(bytes.abs_diff(300 * 8192) < 3 * 8192, "{bytes}");
    }
    assert!((result.operations_per_second() - 300.0).abs() < 3.0);
}

#[test]
fn fsyncs_have_a_latency_only_where_fio_notes_when_they_begin() {
    // The report is the same but for the engine, of which the workload speaks.
    for (engine, is_timed) in [("psync", true), ("io_uring", true), ("libaio", false)] {
        let workload = MIXED_WORKLOAD.replace("psync", engine);
        let result = parse(&workload, &output(MIXED)).unwrap();
        let fsync = &result.operations[&OperationClass("fsync".to_owned())];
        assert!(fsync.operations > 0, "{engine}");
        assert_eq!(fsync.latency.count(), if is_timed { fsync.operations } else { 0 }, "{engine}");
        let says = result.remarks.iter().any(|remark| remark.contains("engine=io_uring"));
        assert_eq!(says, !is_timed, "{engine}: {:?}", result.remarks);
    }
}

#[test]
fn jobs_are_summed_and_their_histograms_merged() {
    let result = parse(MIXED_WORKLOAD, &output(MIXED)).unwrap();
    let json: serde_json::Value = serde_json::from_str(MIXED).unwrap();
    for name in ["read", "write"] {
        let jobs = json["jobs"].as_array().unwrap();
        let sum = |field: &str| jobs.iter().map(|job| job[name][field].as_u64().unwrap()).sum::<u64>();
        let class = &result.operations[&OperationClass(name.to_owned())];
        assert_eq!(class.operations, sum("total_ios"));
        assert_eq!(class.latency.count(), sum("total_ios"));
        assert_eq!(class.bytes, sum("io_bytes"));
        assert!(class.bytes_by_second.is_empty());
    }
    let runtime_ms = |job: &serde_json::Value| job["job_runtime"].as_f64().unwrap();
    let system_s: f64 = (json["jobs"].as_array().unwrap().iter())
        .map(|job| job["sys_cpu"].as_f64().unwrap() / 100.0 * runtime_ms(job) / 1000.0)
        .sum();
    assert!((result.cpu_system_s - system_s).abs() < 1e-9);
}

#[test]
fn notes_before_the_report_are_skipped() {
    let noted = format!("note: both iodepth >= 1 and synchronous I/O engine are selected\n{MIXED}\n");
    assert!(parse(MIXED_WORKLOAD, &output(&noted)).is_ok());
}

#[test]
fn a_full_directory_is_said_in_fios_words() {
    let full = StepOutput { ended: Ended::Code(1), stderr: FULL_STDERR.to_owned(), ..output(FULL) };
    let workload = Workload::parse("fio:seq-write:size=4M:files=4").unwrap();
    insta::assert_snapshot!(workload.parse_output(&full).unwrap_err(), @"the directory or device is full: io_u error on file /mnt/top/nestor.0.2: No space left on device: write offset=0, buflen=8192; use a smaller data set (size=, scale=) or a larger stack");
    assert_eq!(workload.check_preparation(&full), workload.parse_output(&full).map(|_| ()));
    let stderr =
        "fio: pid=0, err=28/file:filesetup.c:240, func=write, error=No space left on device\n".to_owned();
    let error = workload.check_preparation(&StepOutput { stderr, ..full }).unwrap_err().to_string();
    assert!(
        error.starts_with("the directory or device is full: No space left on device (write);"),
        "{error}"
    );
}

#[test]
fn every_way_to_end_without_a_result_has_its_message() {
    let with = |ended: Ended| StepOutput { ended, ..output("") };
    insta::assert_snapshot!(error(PACED_WORKLOAD, &with(Ended::NoProgram)), @"fio is not installed on the machine that runs the workload: install the package fio there");
    insta::assert_snapshot!(error(PACED_WORKLOAD, &with(Ended::Signal(9))), @"fio was ended by signal 9 before it had finished; usually because the machine ran out of memory: check its kernel log, or give it more memory");
    insta::assert_snapshot!(error(PACED_WORKLOAD, &with(Ended::OutOfMemory { resident_bytes: 52_203_520 })), @"the machine ran out of memory, and its kernel ended fio, which had 49 MiB: give the machine more (`kvm:memory=512M`), or take a workload with fewer threads or smaller requests");
    insta::assert_snapshot!(error(PACED_WORKLOAD, &with(Ended::TimedOut)), @"fio did not finish in time and was killed: the stack below it hangs, or is far slower than expected; check the machine's kernel log, or make the data set smaller (size=, scale=)");
    insta::assert_snapshot!(error(PACED_WORKLOAD, &with(Ended::Code(0))), @"fio ended without printing a result");
    insta::assert_snapshot!(error(PACED_WORKLOAD, &with(Ended::Code(1))), @"fio refused the workload (exit code 1): it gave no reason");
    let stderr = "fio: engine foo not loadable\nfio: failed to load engine\n".to_owned();
    insta::assert_snapshot!(error(PACED_WORKLOAD, &StepOutput { stderr, ..with(Ended::Code(1)) }), @"fio refused the workload (exit code 1): engine foo not loadable");
    let stderr = "\nfio: terminating on signal 15\n".to_owned();
    insta::assert_snapshot!(error(PACED_WORKLOAD, &StepOutput { stderr, ended: Ended::Code(128), ..output(PACED) }), @"fio was ended by signal 15 before it had finished; another process or a user stopped it: run it again");
    let half = output(&PACED[..PACED.len() / 2]);
    assert!(matches!(parse(PACED_WORKLOAD, &half), Err(LoadError::Unreadable { .. })));
}

#[test]
fn a_report_that_contradicts_itself_or_the_workload_is_refused() {
    let edited = |from: &str, to: &str| {
        assert!(PACED.contains(from), "{from}");
        output(&PACED.replacen(from, to, 1))
    };
    let json: serde_json::Value = serde_json::from_str(PACED).unwrap();
    let read = &json["jobs"][0]["read"];
    let field = |name: &str, value: &str| format!("\"{name}\" : {value}");
    let ios = read["total_ios"].as_u64().unwrap();
    let one_more = edited(&field("total_ios", &ios.to_string()), &field("total_ios", &(ios + 1).to_string()));
    assert!(error(PACED_WORKLOAD, &one_more).contains("operations of 8192 bytes"));
    assert!(
        error("fio:rand-read:size=16M:files=4:runtime=9s", &output(PACED)).contains("before its time limit")
    );
    assert!(
        error("fio:rand-read:size=1M:files=4:runtime=3s", &output(PACED))
            .contains("bytes moved instead of 1048576")
    );
    assert!(
        error("fio:rand-read:size=16M:files=4:runtime=3s:bs=4k", &output(PACED))
            .contains("contradicts itself")
    );
    assert!(error("fio:rand-read:size=16M:files=4:runtime=3s:numjobs=2", &output(PACED)).contains("1 jobs"));
    let no_bins = edited("\"bins\"", "\"other\"");
    assert!(error(PACED_WORKLOAD, &no_bins).contains("latency histogram"));
}

/// Cuts at the nearest character at or before `at`.
fn prefix(text: &str, at: usize) -> &str {
    let at = (0..=at.min(text.len())).rev().find(|i| text.is_char_boundary(*i)).unwrap_or(0);
    &text[..at]
}

proptest! {
    #[test]
    fn truncated_reports_are_errors(at in 0usize..PACED.trim_end().len()) {
        prop_assert!(parse(PACED_WORKLOAD, &output(prefix(PACED, at))).is_err());
    }

    #[test]
    fn damaged_reports_never_panic(
        at in 0usize..PACED.len(), length in 0usize..40, garbage in "[\\x00-\\x7f]{0,20}|[0-9]{1,25}",
        log in "([0-9]{1,21}, [0-9]{1,21}, [0-2], 0, 0\n){0,6}|\\PC{0,60}",
    ) {
        let tail = PACED.get(at + length..).unwrap_or_default();
        let mut damaged = output(&format!("{}{garbage}{tail}", prefix(PACED, at)));
        damaged.files.push(("x_bw.log".to_owned(), log));
        let _ = parse(PACED_WORKLOAD, &damaged);
    }

    #[test]
    fn garbage_never_panics(stdout in "\\PC{0,200}|\\{\"fio version\" : \"x\", \"jobs\" : \\PC{0,30}\\}", code in -3i32..200) {
        let garbage = StepOutput { ended: Ended::Code(code), ..output(&stdout) };
        prop_assert!(parse(PACED_WORKLOAD, &garbage).is_err());
    }
}
