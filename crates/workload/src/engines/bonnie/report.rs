//! Bonnie++'s line of values, read.

use std::collections::BTreeMap;

use super::{CHAR_BYTES, PROGRAM};
use crate::engine::{DataSet, StepOutput};
use crate::engines::options::{bytes, count};
use crate::error::LoadError;
use crate::notation::Workload;
use crate::result::{LoadResult, OperationClass, OperationResult, total};
use crate::timed::Timed;

const VERSIONS: &str = "2.00a with reports of the form 1.98";
/// The form of the line; it begins with it.
const FORM: &str = "1.98";
/// Values in a line of that form (its source, `DoReportIO`, `DoReportFile`).
const VALUES: usize = 50;

/// Where a test is in the line.
struct Test {
    class: &'static str,
    /// Index of its rate; its processor time is the next value.
    rate: usize,
    /// Index of its longest latency.
    latency: usize,
    /// Whether the rate is in KiB per second, not in operations.
    in_kib: bool,
}

/// Both values of a rate, then all latencies in the same order.
const TESTS: &[Test] = &[
    Test { class: "put-char", rate: 9, latency: 38, in_kib: true },
    Test { class: "put-block", rate: 11, latency: 39, in_kib: true },
    Test { class: "rewrite", rate: 13, latency: 40, in_kib: true },
    Test { class: "get-char", rate: 15, latency: 41, in_kib: true },
    Test { class: "get-block", rate: 17, latency: 42, in_kib: true },
    Test { class: "seek", rate: 19, latency: 43, in_kib: false },
    Test { class: "create-seq", rate: 26, latency: 44, in_kib: false },
    Test { class: "stat-seq", rate: 28, latency: 45, in_kib: false },
    Test { class: "delete-seq", rate: 30, latency: 46, in_kib: false },
    Test { class: "create-rand", rate: 32, latency: 47, in_kib: false },
    Test { class: "stat-rand", rate: 34, latency: 48, in_kib: false },
    Test { class: "delete-rand", rate: 36, latency: 49, in_kib: false },
];

/// Index of Bonnie++'s version, of the file size, of the number of seeks, and of the thousands (1024) of files.
const VERSION: usize = 1;
const SIZE: usize = 5;
const SEEKS: usize = 7;
const FILES: usize = 21;

/// The result of what a run left.
pub(super) fn into_result(
    workload: &Workload,
    data_set: DataSet,
    timed: Timed,
    output: &StepOutput,
) -> Result<LoadResult, LoadError> {
    let values = values(output)?;
    check_data(workload, &values)?;
    let mut operations = BTreeMap::new();
    let mut too_fast = Vec::new();
    for test in TESTS {
        match values[test.rate] {
            // Not asked for.
            "" => {}
            rate if rate.starts_with('+') => too_fast.push(test.class),
            rate => {
                let result = class_result(workload, test, rate, &values)?;
                operations.insert(OperationClass(test.class.to_owned()), result);
            }
        }
    }
    if operations.is_empty() {
        return Err(LoadError::NothingMeasured {
            program: PROGRAM,
            detail: "every test took less than half a second, and bonnie++ does not report such tests; make \
                     size= or files= larger"
                .to_owned(),
        });
    }
    let remark = (!too_fast.is_empty()).then(|| {
        format!(
            "bonnie++ gives no result for tests of less than half a second: {}; make size= or files= larger",
            too_fast.join(", ")
        )
    });
    Ok(LoadResult {
        engine: format!("bonnie++ {}", values[VERSION]),
        workload: workload.to_string(),
        // The tests follow one another, with pauses that are none of their time.
        elapsed_ns: total(operations.values().filter_map(|o| o.elapsed_ns)),
        operations,
        working_set_bytes: data_set.bytes,
        scale_factor: data_set.scale_factor,
        cpu_user_s: timed.user_s,
        cpu_system_s: timed.system_s,
        engine_output: output.stdout.clone(),
        figures: BTreeMap::from([("bonnie_total_s".to_owned(), timed.elapsed_ns as f64 / 1e9)]),
        remarks: remark.into_iter().collect(),
    })
}

/// The values of the last line that is of the known form.
fn values(output: &StepOutput) -> Result<Vec<&str>, LoadError> {
    let line = output.stdout.lines().rev().find(|line| line.contains(','));
    let Some(line) = line else {
        return Err(LoadError::NoOutput { program: PROGRAM, detail: output.stderr.trim().to_owned() });
    };
    let values: Vec<&str> = line.trim_end().split(',').collect();
    if values[0] != FORM {
        return Err(unreadable(format!("its values have the format {:?}, not {FORM}", values[0])));
    }
    if values.len() != VALUES {
        return Err(unreadable(format!("{} values instead of {VALUES}", values.len())));
    }
    Ok(values)
}

/// What was done must be what was asked for.
fn check_data(workload: &Workload, values: &[&str]) -> Result<(), LoadError> {
    let mut pairs = Vec::new();
    if super::with_data(workload) {
        let asked = bytes(workload, "size");
        pairs.push(("bytes in the file", size_bytes(values[SIZE])?, asked));
    }
    if super::with_files(workload) {
        let files: u64 = number(values[FILES])?;
        pairs.push(("files", files.saturating_mul(1024), count(workload, "files")));
    }
    for (what, done, asked) in pairs {
        if done != asked {
            let detail = format!("{done} {what}, but {asked} were requested");
            return Err(LoadError::Inconsistent { program: PROGRAM, detail });
        }
    }
    Ok(())
}

fn class_result(
    workload: &Workload,
    test: &Test,
    rate: &str,
    values: &[&str],
) -> Result<OperationResult, LoadError> {
    let (operations, moved) = match test.class {
        "put-char" | "get-char" => {
            let bytes = CHAR_BYTES.min(bytes(workload, "size"));
            (bytes, bytes)
        }
        "put-block" | "rewrite" | "get-block" => {
            let size = bytes(workload, "size");
            (size / bytes(workload, "bs"), size)
        }
        "seek" => (number(values[SEEKS])?, 0),
        _ => (count(workload, "files"), 0),
    };
    let per_second = finite(rate)?;
    let done = if test.in_kib { moved as f64 / 1024.0 } else { operations as f64 };
    // A rate below one is printed as zero, and tells no time.
    let elapsed_ns = (per_second > 0.0).then(|| (done / per_second * 1e9) as u64);
    Ok(OperationResult {
        operations,
        bytes: moved,
        elapsed_ns,
        cpu_percent: Some(finite(values[test.rate + 1])?),
        max_latency_ns: latency_ns(values[test.latency])?,
        ..OperationResult::default()
    })
}

/// `7381us`, `12ms`, `3s`; nothing if there was none.
fn latency_ns(text: &str) -> Result<Option<u64>, LoadError> {
    let ns_per_unit = match text.trim_start_matches(|c: char| c.is_ascii_digit()) {
        "" if text.is_empty() => return Ok(None),
        "us" => 1000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        _ => return Err(unreadable(format!("{text:?} is not a latency"))),
    };
    let digits: u64 = number(text.trim_end_matches(|c: char| c.is_ascii_alphabetic()))?;
    Ok(Some(digits.saturating_mul(ns_per_unit)))
}

/// `32M`, `4G`: Bonnie++ prints the largest unit that divides.
fn size_bytes(text: &str) -> Result<u64, LoadError> {
    let wrong = || unreadable(format!("{text:?} is not a size"));
    let shift = match text.chars().last() {
        Some('M') => 20,
        Some('G') => 30,
        _ => return Err(wrong()),
    };
    let digits: u64 = number(&text[..text.len() - 1])?;
    digits.checked_mul(1 << shift).ok_or_else(wrong)
}

fn number<N: std::str::FromStr>(text: &str) -> Result<N, LoadError> {
    text.parse().map_err(|_| unreadable(format!("{text:?} is not a number")))
}

/// Without the `nan` and `inf` that Rust also takes for numbers.
fn finite(text: &str) -> Result<f64, LoadError> {
    let value: f64 = number(text)?;
    if value.is_finite() { Ok(value) } else { Err(unreadable(format!("{text:?} is not a number"))) }
}

fn unreadable(detail: String) -> LoadError {
    LoadError::Unreadable { program: PROGRAM, detail, versions: VERSIONS }
}
