//! What a workload did, whatever engine ran it.

use std::collections::BTreeMap;
use std::fmt;

use nestor_statistics::LatencyHistogram;
use serde::{Deserialize, Serialize};

use crate::engines::ENGINES;

/// A kind of operation whose latencies may be put into one histogram.
///
/// Operations of different classes are never averaged together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct OperationClass(pub String);

/// Which way an operation moves data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// From the files.
    Read,
    /// To the files.
    Write,
}

impl Direction {
    /// Of the classes of programs that tell no more apart.
    pub(crate) const OF_READ_AND_WRITE: &[(&str, Self)] = &[("read", Self::Read), ("write", Self::Write)];

    /// Both.
    pub const BOTH: [Self; 2] = [Self::Read, Self::Write];
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Read => "read",
            Self::Write => "write",
        })
    }
}

impl OperationClass {
    /// Which way the operations move data, as [their engine](crate::engine::About::directions) says; `None` for those that move
    /// none (`create`, `stat`, `fsync`, `delete`), and where it is not known which way. Only this decides it. A word means the
    /// same in all engines.
    pub fn direction(&self) -> Option<Direction> {
        let known = ENGINES.iter().flat_map(|engine| engine.about().directions);
        known.into_iter().find_map(|(class, direction)| (*class == self.0).then_some(*direction))
    }
}

/// What one workload run did, as its engine saw it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LoadResult {
    /// The engine's name and version, such as `fio 3.33`.
    pub engine: String,
    /// The workload as it was asked for, in its own notation (`fio:seq-write:bs=8k`).
    pub workload: String,
    /// Measured time of the run, without warm-up and data set preparation.
    pub elapsed_ns: u64,
    /// The results by operation class (`read`, `write`, later `create`, `stat`, …).
    pub operations: BTreeMap<OperationClass, OperationResult>,
    /// Bytes of files that the workload can touch.
    pub working_set_bytes: u64,
    /// Data set relative to the paper's or the tool's own (1 = as published).
    pub scale_factor: f64,
    /// CPU seconds of the engine's processes, user then system.
    pub cpu_user_s: f64,
    /// See [`Self::cpu_user_s`].
    pub cpu_system_s: f64,
    /// The engine's own complete output, kept as it came.
    pub engine_output: String,
    /// Other numbers of the program's own report, each by a name that says its unit (`creation_alone_files`).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub figures: BTreeMap<String, f64>,
    /// What this run showed that makes its result less than it seems, in sentences.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
}

/// One class of operations of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OperationResult {
    /// Operations completed in the measured time.
    pub operations: u64,
    /// Bytes moved by them.
    pub bytes: u64,
    /// Time from submission to completion of each.
    pub latency: LatencyHistogram,
    /// Bytes moved in each second of the run, oldest first (for the steady-state test); empty if not recorded.
    pub bytes_by_second: Vec<u64>,
    /// The time of these operations alone, where they have a part of the run for themselves; otherwise they went on beside
    /// the others all the time ([`LoadResult::elapsed_ns`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elapsed_ns: Option<u64>,
    /// Processor time of these operations in per cent of their time, as the program says it; above 100 with several threads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_percent: Option<f64>,
    /// Mean latency as the program says it, where it leaves no histogram.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_latency_ns: Option<u64>,
    /// Longest latency as the program says it, where it leaves no histogram.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_latency_ns: Option<u64>,
}

impl OperationResult {
    /// Bytes per second in the time of these operations; `run_elapsed_ns` is the whole run's.
    pub fn bytes_per_second(&self, run_elapsed_ns: u64) -> f64 {
        self.bytes as f64 / (self.elapsed_ns.unwrap_or(run_elapsed_ns).max(1) as f64 / 1e9)
    }

    /// Operations per second in the time of these operations; `run_elapsed_ns` is the whole run's.
    pub fn operations_per_second(&self, run_elapsed_ns: u64) -> f64 {
        self.operations as f64 / (self.elapsed_ns.unwrap_or(run_elapsed_ns).max(1) as f64 / 1e9)
    }

    /// Processor time of one operation in nanoseconds, from what the program says of all of them; `run_elapsed_ns` is the whole run's.
    ///
    /// It is what the kernel below the program accounts to it: a guest's kernel knows nothing of what its hypervisor does for it.
    pub fn cpu_ns_per_operation(&self, run_elapsed_ns: u64) -> Option<f64> {
        let elapsed_ns = self.elapsed_ns.unwrap_or(run_elapsed_ns) as f64;
        let cpu_ns = self.cpu_percent? / 100.0 * elapsed_ns;
        (self.operations > 0).then(|| cpu_ns / self.operations as f64)
    }
}

impl LoadResult {
    /// Bytes of all classes together.
    pub fn bytes(&self) -> u64 {
        total(self.operations.values().map(|o| o.bytes))
    }

    /// The results of the classes that move data one way.
    pub fn of_direction(&self, direction: Direction) -> impl Iterator<Item = &OperationResult> {
        self.operations
            .iter()
            .filter(move |(class, _)| class.direction() == Some(direction))
            .map(|(_, result)| result)
    }

    /// Bytes that were moved one way, whatever the operations are called; `None` if no class moves data that way.
    pub fn bytes_of(&self, direction: Direction) -> Option<u64> {
        self.of_direction(direction).map(|result| result.bytes).reduce(u64::saturating_add)
    }

    /// Bytes per second of all classes together.
    pub fn bytes_per_second(&self) -> f64 {
        self.bytes() as f64 / (self.elapsed_ns.max(1) as f64 / 1e9)
    }

    /// Operations per second of all classes together.
    pub fn operations_per_second(&self) -> f64 {
        let operations = total(self.operations.values().map(|o| o.operations));
        operations as f64 / (self.elapsed_ns.max(1) as f64 / 1e9)
    }
}

impl LoadResult {
    /// Of several runs of one workload at the same time: what they did together until the last one ended. Figures of a program's own report are
    /// those of one run and are left out of several.
    pub fn together(runs: Vec<Self>) -> Self {
        let alone = runs.len() == 1;
        let mut runs = runs.into_iter();
        let Some(mut all) = runs.next() else { return Self::default() };
        if alone {
            return all;
        }
        all.figures.clear();
        for run in runs {
            all.elapsed_ns = all.elapsed_ns.max(run.elapsed_ns);
            all.working_set_bytes = all.working_set_bytes.max(run.working_set_bytes);
            all.cpu_user_s += run.cpu_user_s;
            all.cpu_system_s += run.cpu_system_s;
            all.engine_output.push('\n');
            all.engine_output.push_str(&run.engine_output);
            let new = run.remarks.into_iter().filter(|remark| !all.remarks.contains(remark));
            let new: Vec<String> = new.collect();
            all.remarks.extend(new);
            for (class, result) in run.operations {
                all.operations.entry(class).or_default().add(result);
            }
        }
        all
    }
}

impl OperationResult {
    /// Adds those of the same class in another run that went on at the same time.
    fn add(&mut self, other: Self) {
        let means = [&*self, &other].map(|of| Some(of.mean_latency_ns? as f64 * of.operations as f64));
        let operations = self.operations.saturating_add(other.operations);
        self.mean_latency_ns = match (means, operations) {
            ([Some(one), Some(two)], 1..) => Some(((one + two) / operations as f64).round() as u64),
            _ => self.mean_latency_ns.or(other.mean_latency_ns),
        };
        self.max_latency_ns = self.max_latency_ns.max(other.max_latency_ns);
        self.operations = operations;
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.latency.merge(&other.latency);
        self.elapsed_ns = self.elapsed_ns.max(other.elapsed_ns);
        // Each says it of a processor of its own.
        self.cpu_percent = None;
        let seconds = self.bytes_by_second.len().max(other.bytes_by_second.len());
        self.bytes_by_second.resize(seconds, 0);
        for (sum, bytes) in self.bytes_by_second.iter_mut().zip(&other.bytes_by_second) {
            *sum = sum.saturating_add(*bytes);
        }
    }
}

/// Most seconds of a run that are kept one by one: a month.
pub(crate) const MOST_SECONDS: usize = 31 * 24 * 3600;

/// The sum of counts from outside, saturating at 64 bits.
pub(crate) fn total(counts: impl Iterator<Item = u64>) -> u64 {
    counts.fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engines_agree_on_which_way_a_class_moves_data() {
        let all = || ENGINES.iter().flat_map(|engine| engine.about().directions);
        for (class, direction) in all() {
            assert!(all().all(|(other, of_other)| other != class || of_other == direction), "{class}");
        }
    }

    #[test]
    fn a_class_has_the_direction_that_its_engine_says() {
        let direction = |class: &str| OperationClass(class.to_owned()).direction();
        for class in ["read", "reread", "readwholefile", "get-char", "get-block"] {
            assert_eq!(direction(class), Some(Direction::Read), "{class}");
        }
        for class in
            ["write", "aiowrite", "writewholefile", "appendfilerand", "append", "put-block", "rewrite"]
        {
            assert_eq!(direction(class), Some(Direction::Write), "{class}");
        }
        for class in ["create", "stat-seq", "fsync", "delete", "think", "seek", "ReadX", "read-and-write"] {
            assert_eq!(direction(class), None, "{class}");
        }
    }

    #[test]
    fn processor_time_of_an_operation_is_of_their_own_time() {
        let done = OperationResult { operations: 4, cpu_percent: Some(50.0), ..OperationResult::default() };
        assert_eq!(done.cpu_ns_per_operation(8_000), Some(1_000.0));
        let alone = OperationResult { elapsed_ns: Some(800), ..done.clone() };
        assert_eq!(alone.cpu_ns_per_operation(8_000), Some(100.0));
        let unknown = OperationResult { cpu_percent: None, ..done.clone() };
        assert_eq!(unknown.cpu_ns_per_operation(8_000), None);
        let nothing = OperationResult { operations: 0, ..done };
        assert_eq!(nothing.cpu_ns_per_operation(8_000), None);
    }

    fn run(elapsed_ns: u64, operations: u64, latency_ns: u64) -> LoadResult {
        let mut latency = LatencyHistogram::default();
        latency.record_many_ns(latency_ns, operations);
        let result = OperationResult {
            operations,
            bytes: operations * 8192,
            latency,
            bytes_by_second: vec![8192; (elapsed_ns / 1_000_000_000) as usize],
            mean_latency_ns: Some(latency_ns),
            max_latency_ns: Some(latency_ns),
            cpu_percent: Some(50.0),
            ..OperationResult::default()
        };
        LoadResult {
            elapsed_ns,
            operations: [(OperationClass("read".to_owned()), result)].into(),
            working_set_bytes: 1 << 20,
            cpu_user_s: 1.5,
            figures: [("files".to_owned(), 3.0)].into(),
            remarks: vec!["short".to_owned()],
            ..LoadResult::default()
        }
    }

    #[test]
    fn runs_at_the_same_time_are_one_until_the_last_has_ended() {
        let all = LoadResult::together(vec![run(2_000_000_000, 10, 1_000), run(4_000_000_000, 30, 3_000)]);
        assert_eq!((all.elapsed_ns, all.working_set_bytes, all.cpu_user_s), (4_000_000_000, 1 << 20, 3.0));
        assert_eq!(
            (all.bytes_per_second(), all.remarks.len(), all.figures.len()),
            (40.0 * 8192.0 / 4.0, 1, 0)
        );
        let read = &all.operations[&OperationClass("read".to_owned())];
        assert_eq!((read.operations, read.latency.count(), read.max_latency_ns), (40, 40, Some(3_000)));
        assert_eq!((read.mean_latency_ns, read.cpu_percent), (Some(2_500), None));
        assert_eq!(read.bytes_by_second, [16384, 16384, 8192, 8192]);
    }

    #[test]
    fn one_run_is_itself() {
        let one = run(2_000_000_000, 10, 1_000);
        assert_eq!(LoadResult::together(vec![one.clone()]), one);
        assert_eq!(LoadResult::together(Vec::new()), LoadResult::default());
    }

    #[test]
    fn bytes_of_a_direction_are_those_of_all_its_classes() {
        let of = |bytes| OperationResult { bytes, ..OperationResult::default() };
        let class = |name: &str, bytes| (OperationClass(name.to_owned()), of(bytes));
        let result = LoadResult {
            operations: [class("appendfile", 1), class("writewholefile", 2), class("statfile", 4)].into(),
            ..LoadResult::default()
        };
        assert_eq!((result.bytes_of(Direction::Write), result.bytes_of(Direction::Read)), (Some(3), None));
    }

    /// As stores have them that were written before classes had times of their own.
    #[test]
    fn results_of_older_stores_still_read_and_look_the_same() {
        let old = serde_json::json!({
            "engine": "fio 3.33", "workload": "fio:seq-write", "elapsed_ns": 2_000_000_000u64,
            "operations": {"write": {"operations": 4, "bytes": 32768, "latency": LatencyHistogram::default(),
                "bytes_by_second": [16384, 16384]}},
            "working_set_bytes": 32768, "scale_factor": 0.1, "cpu_user_s": 0.5, "cpu_system_s": 0.25,
            "engine_output": "{}"
        });
        let result: LoadResult = serde_json::from_value(old.clone()).unwrap();
        assert_eq!(serde_json::to_value(&result).unwrap(), old);
        let write = &result.operations[&OperationClass("write".to_owned())];
        assert_eq!(write.operations_per_second(result.elapsed_ns), 2.0);
        let own_time = OperationResult { elapsed_ns: Some(1_000_000_000), ..write.clone() };
        assert_eq!(own_time.bytes_per_second(result.elapsed_ns), 32768.0);
    }
}
