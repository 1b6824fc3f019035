//! dbench's report, read.

use std::collections::BTreeMap;

use super::PROGRAM;
use crate::engine::{DataSet, StepOutput};
use crate::engines::options::count;
use crate::error::LoadError;
use crate::notation::Workload;
use crate::result::{LoadResult, OperationClass, OperationResult};
use crate::timed::Timed;

const VERSIONS: &str = "4.00";

/// Bytes in dbench's megabyte (its source: `1.0e-6 * total_bytes`).
const MB: f64 = 1e6;

/// The last line: `Throughput 681.376 MB/sec  2 clients  2 procs  max_latency=22.829 ms`.
struct Summary {
    mb_per_s: f64,
    clients: u64,
    max_latency_ms: f64,
}

/// The result of what a run left.
pub(super) fn into_result(
    workload: &Workload,
    data_set: DataSet,
    timed: Timed,
    output: &StepOutput,
) -> Result<LoadResult, LoadError> {
    let version = output.stdout.lines().find_map(|line| line.strip_prefix("dbench version "));
    let Some(version) = version.and_then(|rest| rest.split_whitespace().next()) else {
        return Err(LoadError::NoOutput { program: PROGRAM, detail: output.stderr.trim().to_owned() });
    };
    let summary = summary(&output.stdout)?;
    let clients = count(workload, "clients");
    if summary.clients != clients {
        return Err(inconsistent(format!("{} clients, but {clients} were requested", summary.clients)));
    }
    let elapsed_s = measured_s(&output.stdout, super::runtime_s(workload))?;
    let mut operations = classes(&output.stdout)?;
    if operations.is_empty() {
        return Err(LoadError::NothingMeasured {
            program: PROGRAM,
            detail: "no operation ended in the measured time; use a longer runtime= or fewer clients="
                .to_owned(),
        });
    }
    let data =
        OperationResult { bytes: (summary.mb_per_s * MB * elapsed_s as f64) as u64, ..Default::default() };
    operations.insert(OperationClass("read-and-write".to_owned()), data);
    Ok(LoadResult {
        engine: format!("dbench {version}"),
        workload: workload.to_string(),
        elapsed_ns: elapsed_s * 1_000_000_000,
        operations,
        working_set_bytes: data_set.bytes,
        scale_factor: data_set.scale_factor,
        cpu_user_s: timed.user_s,
        cpu_system_s: timed.system_s,
        engine_output: output.stdout.clone(),
        figures: BTreeMap::from([
            ("dbench_megabytes_per_s".to_owned(), summary.mb_per_s),
            ("dbench_max_latency_ms".to_owned(), summary.max_latency_ms),
            ("dbench_total_s".to_owned(), timed.elapsed_ns as f64 / 1e9),
        ]),
        remarks: Vec::new(),
    })
}

fn summary(stdout: &str) -> Result<Summary, LoadError> {
    let line = stdout.lines().rev().find_map(|line| line.strip_prefix("Throughput "));
    let line = line.ok_or_else(|| unreadable("the line with the throughput is missing".to_owned()))?;
    let before = |mark: &str| {
        let word = line.split(mark).next().and_then(|text| text.split_whitespace().last());
        word.filter(|_| line.contains(mark)).ok_or_else(|| unreadable(format!("{line:?} has no {mark:?}")))
    };
    let (_, latency) = line
        .split_once("max_latency=")
        .ok_or_else(|| unreadable(format!("{line:?} does not have the longest latency")))?;
    Ok(Summary {
        mb_per_s: number(before(" MB/sec")?)?,
        clients: count_of(before(" clients ")?)?,
        max_latency_ms: number(latency.trim_end_matches(" ms"))?,
    })
}

/// Seconds of the measurement: it ends where the first line of cleaning up says.
fn measured_s(stdout: &str, asked_s: u64) -> Result<u64, LoadError> {
    let first = stdout.lines().find_map(|line| line.trim_end().strip_suffix(" sec")?.split_once(" cleanup "));
    match first {
        Some((_, seconds)) => count_of(seconds.trim()).map(|seconds| seconds.max(asked_s)),
        None => Ok(asked_s),
    }
}

/// The table: ` NTCreateX      64624     0.035     5.054`, latencies in milliseconds.
fn classes(stdout: &str) -> Result<BTreeMap<OperationClass, OperationResult>, LoadError> {
    let mut rows = stdout.lines().skip_while(|line| !line.trim_start().starts_with("Operation "));
    rows.next().ok_or_else(|| unreadable("the table of operations is missing".to_owned()))?;
    let mut classes = BTreeMap::new();
    for row in rows.skip(1).take_while(|row| !row.trim().is_empty()) {
        let words: Vec<&str> = row.split_whitespace().collect();
        let &[name, operations, mean_ms, max_ms] = &words[..] else {
            return Err(unreadable(format!("{row:?} is not a row of the table of operations")));
        };
        let nanoseconds = |text: &str| number(text).map(|ms| Some((ms * 1e6).round() as u64));
        let result = OperationResult {
            operations: count_of(operations)?,
            mean_latency_ns: nanoseconds(mean_ms)?,
            max_latency_ns: nanoseconds(max_ms)?,
            ..Default::default()
        };
        if classes.insert(OperationClass(name.to_owned()), result).is_some() {
            return Err(unreadable(format!("{name} is twice in the table of operations")));
        }
    }
    Ok(classes)
}

fn count_of(text: &str) -> Result<u64, LoadError> {
    text.parse().map_err(|_| unreadable(format!("{text:?} is not a whole number")))
}

fn number(text: &str) -> Result<f64, LoadError> {
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() && number >= 0.0 => Ok(number),
        _ => Err(unreadable(format!("{text:?} is not a number"))),
    }
}

fn unreadable(detail: String) -> LoadError {
    LoadError::Unreadable { program: PROGRAM, detail, versions: VERSIONS }
}

fn inconsistent(detail: String) -> LoadError {
    LoadError::Inconsistent { program: PROGRAM, detail }
}
