//! What a run did.

use std::collections::BTreeMap;

use nestor_statistics::LatencyHistogram;
use serde::{Deserialize, Serialize};

use crate::result::total;

/// What a script did: one entry for each `run`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FlowReport {
    /// Its runs, in their order.
    pub runs: Vec<RunReport>,
    /// The file sets.
    pub file_sets: Vec<FileSetReport>,
    /// Seconds that making the file sets took.
    pub prepare_s: f64,
}

/// A file set as it was made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FileSetReport {
    /// Its name.
    pub name: String,
    /// Its directory, or the device.
    pub path: String,
    /// Number of files, existing or not.
    pub files: u64,
    /// Files that existed when the run began.
    pub preallocated: u64,
    /// Number of directories that hold files.
    pub directories: u64,
    /// Empty directories, existing or not.
    pub leaf_directories: u64,
    /// Bytes of all files, when all exist.
    pub bytes: u64,
}

/// One run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunReport {
    /// How it ended.
    pub ended: Ended,
    /// From the start of all threads to the end.
    pub elapsed_ns: u64,
    /// Number of threads.
    pub threads: u64,
    /// CPU time of the workload's own process, in seconds, in user mode.
    pub cpu_user_s: f64,
    /// The same in the kernel.
    pub cpu_system_s: f64,
    /// Results of each flowop, in the order in which they are written.
    pub flowops: Vec<FlowopReport>,
    /// Latencies of whole passes through a thread's flowops, by thread.
    pub passes: Vec<FlowopReport>,
    /// With an open loop or a rate: what was asked for and what came of it.
    pub pace: Option<PaceReport>,
    /// What makes the result less than it seems.
    pub remarks: Vec<String>,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ended {
    /// Its time was over.
    Time,
    /// As many operations as were asked for.
    Operations,
    /// Its threads had no more work.
    Done,
    /// A flowop found no file.
    Starved(String),
    /// An operation failed.
    Failed(String),
    /// There was no room left for an operation.
    Full(String),
    /// A file server no longer has what an operation was for.
    Stale(String),
    /// It was stopped.
    Interrupted,
}

impl Ended {
    /// Whether the run went as it was meant to.
    pub fn is_well(&self) -> bool {
        matches!(self, Self::Time | Self::Operations | Self::Done)
    }
}

/// Why a script could not be run to its end: what the exit code of `nestor load wml` says, for who reads no messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowFailure {
    /// There was no room left.
    Full,
    /// A flowop or a call of the system failed.
    Operation,
    /// A file server no longer has what was open.
    Stale,
}

impl FlowFailure {
    const ALL: [Self; 3] = [Self::Full, Self::Operation, Self::Stale];

    /// The exit code. 1 is any other error, 2 an argument that is not understood.
    pub const fn exit_code(self) -> u8 {
        match self {
            Self::Full => 3,
            Self::Operation => 4,
            Self::Stale => 5,
        }
    }

    /// What an exit code says, if it is one of these.
    pub fn of_exit_code(code: i32) -> Option<Self> {
        Self::ALL.into_iter().find(|failure| i32::from(failure.exit_code()) == code)
    }
}

/// One flowop in all threads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FlowopReport {
    /// Its name.
    pub name: String,
    /// What it does: its word in the language, `pass` for whole passes.
    pub kind: String,
    /// Whether it counts as an operation of the workload, or is a wait.
    pub is_io: bool,
    /// Operations that ended in the measured time.
    pub operations: u64,
    /// Bytes they moved.
    pub bytes: u64,
    /// How long each took, in nanoseconds.
    pub latency: LatencyHistogram,
    /// Exact mean, in nanoseconds.
    pub mean_ns: f64,
    /// Bytes moved in each second.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bytes_by_second: Vec<u64>,
}

/// A rate that was asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PaceReport {
    /// `passes` (open loop) or `events`.
    pub of: String,
    /// Asked for, per second.
    pub asked_per_second: f64,
    /// How many were due in the measured time.
    pub offered: u64,
    /// How many of them were begun.
    pub begun: u64,
}

impl PaceReport {
    /// Whether the rate was not reached: under 99 % of those that were due were begun.
    pub fn is_missed(&self) -> bool {
        (self.begun as f64) < 0.99 * self.offered as f64
    }
}

impl RunReport {
    /// Operations of the workload, waits not counted.
    pub fn operations(&self) -> u64 {
        total(self.flowops.iter().filter(|f| f.is_io).map(|f| f.operations))
    }

    /// Bytes read and written.
    pub fn bytes(&self) -> u64 {
        total(self.flowops.iter().filter(|f| f.is_io).map(|f| f.bytes))
    }

    /// Adds what another machine did at the same time.
    pub fn merge(&mut self, other: &Self) {
        self.elapsed_ns = self.elapsed_ns.max(other.elapsed_ns);
        self.threads = self.threads.saturating_add(other.threads);
        self.cpu_user_s += other.cpu_user_s;
        self.cpu_system_s += other.cpu_system_s;
        if self.ended.is_well() {
            self.ended = other.ended.clone();
        }
        merge_rows(&mut self.flowops, &other.flowops);
        merge_rows(&mut self.passes, &other.passes);
        if let (Some(pace), Some(others)) = (&mut self.pace, &other.pace) {
            pace.asked_per_second += others.asked_per_second;
            pace.offered = pace.offered.saturating_add(others.offered);
            pace.begun = pace.begun.saturating_add(others.begun);
        }
        for remark in &other.remarks {
            if !self.remarks.contains(remark) {
                self.remarks.push(remark.clone());
            }
        }
    }
}

impl FlowReport {
    /// Adds what another machine did at the same time with the same script.
    pub fn merge(&mut self, other: &Self) {
        self.prepare_s = self.prepare_s.max(other.prepare_s);
        self.file_sets.extend(other.file_sets.iter().cloned());
        for (own, others) in self.runs.iter_mut().zip(&other.runs) {
            own.merge(others);
        }
    }
}

fn merge_rows(own: &mut Vec<FlowopReport>, others: &[FlowopReport]) {
    let index: BTreeMap<(String, String), usize> =
        own.iter().enumerate().map(|(i, row)| ((row.name.clone(), row.kind.clone()), i)).collect();
    for other in others {
        let Some(&number) = index.get(&(other.name.clone(), other.kind.clone())) else {
            own.push(other.clone());
            continue;
        };
        let row = &mut own[number];
        let (mine, theirs) = (row.operations as f64, other.operations as f64);
        if mine + theirs > 0.0 {
            row.mean_ns = (row.mean_ns * mine + other.mean_ns * theirs) / (mine + theirs);
        }
        row.operations = row.operations.saturating_add(other.operations);
        row.bytes = row.bytes.saturating_add(other.bytes);
        row.latency.merge(&other.latency);
        let seconds = row.bytes_by_second.len().max(other.bytes_by_second.len());
        row.bytes_by_second.resize(seconds, 0);
        for (second, bytes) in other.bytes_by_second.iter().enumerate() {
            row.bytes_by_second[second] = row.bytes_by_second[second].saturating_add(*bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, latencies: &[u64]) -> FlowopReport {
        let mut latency = LatencyHistogram::default();
        latencies.iter().for_each(|&ns| latency.record_ns(ns));
        FlowopReport {
            name: name.to_owned(),
            kind: "read".to_owned(),
            is_io: true,
            operations: latencies.len() as u64,
            bytes: 10 * latencies.len() as u64,
            mean_ns: latencies.iter().sum::<u64>() as f64 / latencies.len() as f64,
            latency,
            bytes_by_second: vec![10; latencies.len()],
        }
    }

    fn run(flowops: Vec<FlowopReport>) -> RunReport {
        RunReport {
            ended: Ended::Time,
            elapsed_ns: 5,
            threads: 2,
            cpu_user_s: 1.0,
            cpu_system_s: 0.5,
            flowops,
            passes: Vec::new(),
            pace: None,
            remarks: vec!["cached".to_owned()],
        }
    }

    #[test]
    fn counts_at_the_end_of_64_bits_are_added_without_overflow() {
        let mut most = row("a", &[100]);
        (most.operations, most.bytes, most.bytes_by_second) = (u64::MAX, u64::MAX, vec![u64::MAX]);
        let mut one = run(vec![most.clone(), FlowopReport { name: "b".to_owned(), ..most }]);
        one.threads = u64::MAX;
        let other = one.clone();
        one.merge(&other);
        assert_eq!((one.operations(), one.bytes(), one.threads), (u64::MAX, u64::MAX, u64::MAX));
        assert_eq!(one.flowops[0].bytes_by_second, [u64::MAX]);
    }

    #[test]
    fn histograms_of_machines_are_merged_and_percentiles_not_averaged() {
        let mut one = run(vec![row("a", &[100, 100, 100])]);
        let mut two = run(vec![row("a", &[900]), row("b", &[5])]);
        two.ended = Ended::Starved("no file".to_owned());
        one.merge(&two);
        assert_eq!((one.operations(), one.bytes(), one.threads), (5, 50, 4));
        let a = &one.flowops[0];
        assert_eq!((a.operations, a.mean_ns), (4, 300.0));
        assert_eq!(a.latency.quantile_ns(0.5), Some(100));
        assert_eq!(a.latency.quantile_ns(1.0), Some(900));
        assert_eq!(a.bytes_by_second, [20, 10, 10]);
        assert!(!one.ended.is_well());
        assert_eq!(one.remarks, ["cached"]);
        let text = serde_json::to_string(&one).unwrap();
        assert_eq!(serde_json::from_str::<RunReport>(&text).unwrap(), one);
    }
}
