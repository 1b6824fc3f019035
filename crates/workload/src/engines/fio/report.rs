//! fio's JSON+ report, read and checked.

use std::collections::BTreeMap;

use nestor_statistics::LatencyHistogram;
use serde::Deserialize;

use super::super::ended::{exit_code, killed, refused};
use super::bandwidth_log;
use crate::engine::{DataSet, StepOutput};
use crate::errno::remedy;
use crate::error::LoadError;
use crate::notation::Workload;
use crate::result::{LoadResult, OperationClass, OperationResult};

const PROGRAM: &str = "fio";
const VERSIONS: &str = "3.33";

/// The exit code of fio after it was asked to stop by SIGINT or SIGTERM (seen with 3.33).
const STOPPED_BY_SIGNAL: i32 = 128;

/// How much earlier than its time limit a run may end: fio looks at the clock once per operation.
const CLOCK_SLACK_MS: u64 = 100;

/// What a report must agree with.
#[derive(Clone, Copy, Debug)]
pub(in crate::engines) struct Expected {
    /// Number of jobs.
    pub(in crate::engines) jobs: u64,
    /// Bytes of each operation; `None` if they differ.
    pub(in crate::engines) block_bytes: Option<u64>,
    /// Bytes moved by all of them, unless the time limit ends the run; at most, where sizes differ.
    pub(in crate::engines) bytes: u64,
    /// The time limit.
    pub(in crate::engines) time_limit_s: Option<u64>,
    /// What they work on.
    pub(in crate::engines) data_set: DataSet,
    /// Whether fio knows how long a sync took.
    pub(in crate::engines) syncs: SyncTimes,
}

/// How long fio says that syncs took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engines) enum SyncTimes {
    /// From when a sync was begun.
    Right,
    /// From when the same slot of its queue was last used for something else, or from the start of the machine. `libaio` says that it notes
    /// when operations begin (`FIO_ASYNCIO_SETS_ISSUE_TIME`), and does so for those alone that it queues (`fio_libaio_queue` and
    /// `fio_libaio_queued` in engines/libaio.c, `account_io_completion` in io_u.c, fio 3.33).
    Wrong,
}

impl SyncTimes {
    /// Those of an engine of fio.
    pub(super) fn of_engine(name: &str) -> Self {
        if name == "libaio" { Self::Wrong } else { Self::Right }
    }
}

/// The class of fsyncs.
pub(super) const FSYNC: &str = "fsync";

/// What a result says whose fsyncs have no latency.
const UNTIMED_SYNCS: &str =
    "no latency of fsync: fio's libaio does not note when one begins; engine=io_uring does";

/// The report; only what is used of it.
#[derive(Debug, Deserialize)]
pub(in crate::engines) struct Report {
    #[serde(rename = "fio version")]
    version: String,
    jobs: Vec<Job>,
}

#[derive(Debug, Deserialize)]
struct Job {
    #[serde(default)]
    jobname: String,
    error: i32,
    /// Milliseconds.
    job_runtime: u64,
    /// Per cent of `job_runtime`.
    usr_cpu: f64,
    /// Per cent of `job_runtime`.
    sys_cpu: f64,
    read: Direction,
    write: Direction,
    sync: Syncs,
}

#[derive(Debug, Deserialize)]
struct Direction {
    io_bytes: u64,
    total_ios: u64,
    short_ios: u64,
    /// Milliseconds, of the whole job if it did any operation of this direction.
    runtime: u64,
    lat_ns: Latency,
}

#[derive(Debug, Deserialize)]
struct Syncs {
    total_ios: u64,
    lat_ns: Latency,
}

#[derive(Debug, Default, Deserialize)]
struct Latency {
    /// The middle of each bin in nanoseconds → operations in it.
    #[serde(default)]
    bins: BTreeMap<String, u64>,
}

impl Report {
    /// Reads what a run of fio printed, whether it laid out or measured.
    pub(in crate::engines) fn read(output: &StepOutput) -> Result<Self, LoadError> {
        let code = exit_code(PROGRAM, &output.ended)?;
        let detail = complaint(output);
        if code == STOPPED_BY_SIGNAL && detail.contains("terminating on signal") {
            let number = detail.rsplit(' ').next().and_then(|n| n.parse().ok());
            return Err(killed(PROGRAM, number.unwrap_or(15)));
        }
        let Some(json) = json_part(&output.stdout) else {
            return Err(match code {
                0 => LoadError::NoOutput { program: PROGRAM, detail },
                code => refused(PROGRAM, code, &detail),
            });
        };
        let mut reports = serde_json::Deserializer::from_str(json).into_iter::<Self>();
        let report = match reports.next() {
            Some(Ok(report)) => report,
            Some(Err(error)) => return Err(unreadable(error.to_string())),
            None => return Err(unreadable("it has no report".to_owned())),
        };
        report.check_errors(code, detail)?;
        Ok(report)
    }

    fn check_errors(&self, code: i32, detail: String) -> Result<(), LoadError> {
        match self.jobs.iter().map(|job| job.error).find(|error| *error != 0) {
            Some(errno @ (libc::ENOSPC | libc::EDQUOT)) => {
                Err(LoadError::Full { detail: or_errno(detail, errno) })
            }
            Some(libc::ESTALE) => {
                Err(LoadError::Stale { program: PROGRAM, detail: or_errno(detail, libc::ESTALE) })
            }
            Some(errno) => {
                let detail = format!("{}{}", or_errno(detail, errno), remedy(errno));
                Err(LoadError::OperationFailed { program: PROGRAM, detail })
            }
            None if code != 0 => Err(refused(PROGRAM, code, &detail)),
            None if self.jobs.is_empty() => Err(unreadable("it has no job".to_owned())),
            None => Ok(()),
        }
    }

    /// Each job as a report of its own, for jobs that ran one after the other.
    pub(in crate::engines) fn of_each_job(self) -> Vec<Self> {
        let version = self.version;
        self.jobs.into_iter().map(|job| Self { version: version.clone(), jobs: vec![job] }).collect()
    }

    /// What the jobs are called.
    pub(in crate::engines) fn job_names(&self) -> impl Iterator<Item = &str> {
        self.jobs.iter().map(|job| job.jobname.as_str())
    }

    /// Merges the jobs into one result, after checking it.
    pub(in crate::engines) fn into_result(
        self,
        workload: &Workload,
        expected: &Expected,
        output: &StepOutput,
    ) -> Result<LoadResult, LoadError> {
        if self.jobs.len() as u64 != expected.jobs {
            return Err(unreadable(format!("it has {} jobs instead of {}", self.jobs.len(), expected.jobs)));
        }
        let log =
            output.files.iter().find(|(path, _)| path.ends_with("_bw.log")).map(|(_, text)| text.as_str());
        let elapsed_ms = self.elapsed_ms();
        let mut operations = BTreeMap::new();
        for (name, code, direction) in [
            ("read", bandwidth_log::READ, (|job| &job.read) as fn(&Job) -> &Direction),
            ("write", bandwidth_log::WRITE, |job| &job.write),
        ] {
            let mut result = merge_direction(name, self.jobs.iter().map(direction), expected.block_bytes)?;
            if result.operations > 0 {
                result.bytes_by_second =
                    bandwidth_log::bytes_by_second(log.unwrap_or_default(), code, elapsed_ms, result.bytes);
                operations.insert(OperationClass(name.to_owned()), result);
            }
        }
        let mut syncs = merge_syncs(self.jobs.iter().map(|job| &job.sync))?;
        let mut remarks = Vec::new();
        if syncs.operations > 0 {
            if expected.syncs == SyncTimes::Wrong {
                syncs.latency = LatencyHistogram::default();
                remarks.push(UNTIMED_SYNCS.to_owned());
            }
            operations.insert(OperationClass(FSYNC.to_owned()), syncs);
        }
        let moved = operations.values().fold(0u64, |sum, o| sum.saturating_add(o.bytes));
        check_data_set(expected, moved, elapsed_ms)?;
        let cpu_s = |per_cent: fn(&Job) -> f64| {
            self.jobs.iter().map(|job| per_cent(job) / 100.0 * job.job_runtime as f64 / 1e3).sum::<f64>()
        };
        Ok(LoadResult {
            engine: self.version.replacen("fio-", "fio ", 1),
            workload: workload.to_string(),
            elapsed_ns: elapsed_ms.saturating_mul(1_000_000),
            operations,
            working_set_bytes: expected.data_set.bytes,
            scale_factor: expected.data_set.scale_factor,
            cpu_user_s: cpu_s(|job| job.usr_cpu),
            cpu_system_s: cpu_s(|job| job.sys_cpu),
            engine_output: output.stdout.clone(),
            figures: BTreeMap::new(),
            remarks,
        })
    }

    /// The longest job's time; the jobs start together. fio reports whole milliseconds, so at least one.
    fn elapsed_ms(&self) -> u64 {
        let job = |job: &Job| job.read.runtime.max(job.write.runtime);
        self.jobs.iter().map(job).max().unwrap_or(0).max(1)
    }
}

/// Adds up one direction of all jobs: sums, and one histogram of all latencies.
fn merge_direction<'j>(
    name: &str,
    jobs: impl Iterator<Item = &'j Direction>,
    block_bytes: Option<u64>,
) -> Result<OperationResult, LoadError> {
    let mut merged = OperationResult::default();
    for job in jobs {
        let whole = block_bytes.map(|block_bytes| (block_bytes, job.total_ios.saturating_mul(block_bytes)));
        if let Some((block_bytes, whole)) = whole
            && (job.io_bytes > whole || (job.io_bytes < whole && job.short_ios == 0))
        {
            return Err(inconsistent(format!(
                "{} {name} operations of {block_bytes} bytes ({} of them short) moved {} bytes",
                job.total_ios, job.short_ios, job.io_bytes
            )));
        }
        merged.operations = merged.operations.saturating_add(job.total_ios);
        merged.bytes = merged.bytes.saturating_add(job.io_bytes);
        add_bins(&mut merged.latency, &job.lat_ns, name, job.total_ios)?;
    }
    Ok(merged)
}

fn merge_syncs<'j>(jobs: impl Iterator<Item = &'j Syncs>) -> Result<OperationResult, LoadError> {
    let mut merged = OperationResult::default();
    for job in jobs {
        merged.operations = merged.operations.saturating_add(job.total_ios);
        add_bins(&mut merged.latency, &job.lat_ns, "fsync", job.total_ios)?;
    }
    Ok(merged)
}

/// Counts the operations of fio's bins, each at its bin's middle.
fn add_bins(
    histogram: &mut LatencyHistogram,
    latency: &Latency,
    name: &str,
    operations: u64,
) -> Result<(), LoadError> {
    let mut counted = 0u64;
    for (middle_ns, count) in &latency.bins {
        let middle_ns = middle_ns
            .parse()
            .map_err(|_| unreadable(format!("a latency bin of {middle_ns:?} nanoseconds")))?;
        counted = counted.saturating_add(*count);
        histogram.record_many_ns(middle_ns, *count);
    }
    if counted != operations {
        return Err(inconsistent(format!(
            "{operations} {name} operations, but {counted} in their latency histogram"
        )));
    }
    Ok(())
}

/// A run moves all bytes that it was asked to, or ends at its time limit.
fn check_data_set(expected: &Expected, moved: u64, elapsed_ms: u64) -> Result<(), LoadError> {
    let limit_ms = expected.time_limit_s.map(|s| s.saturating_mul(1000));
    let ended_by_time = limit_ms.is_some_and(|limit| elapsed_ms.saturating_add(CLOCK_SLACK_MS) >= limit);
    if moved > expected.bytes {
        Err(inconsistent(format!("{moved} bytes moved instead of {}", expected.bytes)))
    } else if moved < expected.bytes && !ended_by_time && expected.block_bytes.is_some() {
        Err(inconsistent(format!(
            "it ended after {:.1} s and {moved} of {} bytes, before its time limit; if the device is \
             smaller than the data set, use a smaller size=",
            elapsed_ms as f64 / 1e3,
            expected.bytes
        )))
    } else if moved == 0 {
        Err(inconsistent("no operation ended in the measured time".to_owned()))
    } else {
        Ok(())
    }
}

/// The output from its first line that opens a JSON object; fio prints notes before it.
fn json_part(stdout: &str) -> Option<&str> {
    if stdout.starts_with('{') {
        return Some(stdout);
    }
    stdout.find("\n{").map(|before| &stdout[before + 1..])
}

/// What fio said was wrong: its own line on the error output, else the one it mixes into the report.
///
/// The first line is the cause; those after it follow from it.
fn complaint(output: &StepOutput) -> String {
    let first =
        |text: &str| text.lines().find_map(|line| line.trim().strip_prefix("fio: ").map(in_plain_words));
    let any = || output.stderr.lines().map(str::trim).find(|line| !line.is_empty()).map(str::to_owned);
    first(&output.stderr).or_else(|| first(&output.stdout)).or_else(any).unwrap_or_default()
}

/// `pid=0, err=28/file:filesetup.c:240, func=write, error=No space left on device` → `No space left on device (write)`.
fn in_plain_words(line: &str) -> String {
    match line.split_once("func=").and_then(|(_, rest)| rest.split_once(", error=")) {
        Some((function, error)) => format!("{error} ({function})"),
        None => line.to_owned(),
    }
}

fn or_errno(detail: String, errno: i32) -> String {
    if detail.is_empty() { std::io::Error::from_raw_os_error(errno).to_string() } else { detail }
}

fn unreadable(detail: String) -> LoadError {
    LoadError::Unreadable { program: PROGRAM, detail, versions: VERSIONS }
}

fn inconsistent(detail: String) -> LoadError {
    LoadError::Inconsistent { program: PROGRAM, detail }
}
