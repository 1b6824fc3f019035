//! The numbers of a cell's runs that a comparison needs, without their records.

use std::collections::BTreeMap;
use std::sync::Arc;

use nestor_statistics::LatencySummary;

use crate::Environment;
use crate::compare::{
    CellSummary, CountedMark, Facts, Failure, LifeSample, LivesCompared, LivesOf, LivesSummary, Sample,
    different_facts, environment_facts, summarise,
};
use crate::record::Mark;
use crate::stopping::{CellSample, throughput};
use crate::store::{StoredRun, conditions};
use crate::{Comparison, Study};
use crate::{WrittenStack, WrittenWorkload};

/// One run.
#[derive(Clone, Debug, PartialEq)]
pub struct RunNumbers {
    /// Its number in the store.
    pub number: i64,
    /// The block it belongs to.
    pub block: u32,
    /// 0, or 1 for the closing run of a baseline.
    pub repeat: u32,
    /// Place in the order in which cells were run, from 0.
    pub position: u32,
    /// When it began: RFC 3339, UTC.
    pub started_at: String,
    /// Seconds the whole cell took.
    pub cell_s: f64,
    /// Seconds that were measured, of the clock of the machines: in virtual time they are not seconds of the cell.
    pub measured_s: Option<f64>,
    /// Seconds of the cell in which the load ran; `None` in runs of earlier versions.
    pub load_s: Option<f64>,
    /// Bytes per second and operations per second; `None` if it failed.
    pub rates: Option<(f64, f64)>,
    /// What instances of a cloud took; `None` without any.
    pub lives: Option<LifeSample>,
    /// The whole error message, if it failed.
    pub failure: Option<String>,
    /// The conservation identities that it violates, in one sentence; then it counts for nothing.
    pub violated: Option<String>,
    /// Size of the data set.
    pub working_set_bytes: Option<u64>,
    /// Where it ran; of the settings only the remarks, of the machines everything but their memory.
    pub conditions: Arc<Environment>,
}

/// The runs of one stack under one workload.
#[derive(Clone, Debug, PartialEq)]
pub struct CellNumbers {
    /// The stack.
    pub stack: WrittenStack,
    /// The workload.
    pub workload: WrittenWorkload,
    /// The runs, in the order of their numbers.
    pub runs: Vec<RunNumbers>,
    /// Reasons to trust the numbers less, by kind.
    pub marks: Vec<CountedMark>,
    /// Latencies of all runs merged, by class of operation.
    pub latency: BTreeMap<String, LatencySummary>,
}

impl CellNumbers {
    /// A cell without runs.
    pub fn new(stack: WrittenStack, workload: WrittenWorkload) -> Self {
        Self { stack, workload, runs: Vec::new(), marks: Vec::new(), latency: BTreeMap::new() }
    }

    /// The numbers of runs that are at hand whole; `None` without any.
    pub fn of(runs: &[&StoredRun]) -> Option<Self> {
        let runs: Vec<&StoredRun> = runs.iter().copied().filter(|r| !r.record.untraced_twin).collect();
        let summary = summarise(&runs)?;
        Some(Self {
            stack: summary.stack,
            workload: summary.workload,
            runs: runs.iter().map(|run| RunNumbers::of(run)).collect(),
            marks: summary.marks,
            latency: summary.latency,
        })
    }

    /// The cell in a few numbers.
    pub fn summary(&self) -> CellSummary {
        let failed = self.runs.iter().filter_map(|run| {
            Some(Failure { run: run.number, block: run.block, reason: run.failure.clone()? })
        });
        CellSummary::of(
            self.stack.clone(),
            self.workload.clone(),
            self.runs.iter().filter_map(RunNumbers::sample).collect(),
            self.latency.clone(),
            self.marks.clone(),
            failed.collect(),
        )
    }

    /// When its last run began: RFC 3339, UTC; empty without runs.
    pub fn last_start(&self) -> &str {
        self.runs.iter().map(|run| run.started_at.as_str()).max().unwrap_or_default()
    }

    /// The cell against its baseline in the same study, with intervals of that study's confidence.
    pub fn against(&self, baseline: &Self, study: &Study) -> Comparison {
        let differences = different_facts(&baseline.facts(), &self.facts());
        Comparison::between(baseline.summary(), self.summary(), true, differences, study.confidence())
    }

    /// What instances of a cloud took in its runs, with intervals of the study's confidence; `None` without any.
    pub fn lives(&self, study: &Study) -> Option<LivesSummary> {
        LivesSummary::of_samples(&self.lives_that_count(), study.confidence())
    }

    /// The same beside those of its baseline in the same study; `None` unless both have some.
    pub fn lives_against(&self, baseline: &Self, study: &Study) -> Option<LivesCompared> {
        let (before, after) = (baseline.lives_that_count(), self.lives_that_count());
        LivesCompared::of_samples(&before, &after, study.confidence())
    }

    fn lives_that_count(&self) -> LivesOf<'_> {
        let honest = self.runs.iter().filter(|run| run.violated.is_none());
        let mut runs: Vec<&RunNumbers> = honest.filter(|run| run.lives.is_some()).collect();
        runs.sort_by_key(|run| (run.block, run.repeat, run.number));
        let samples = runs.iter().filter_map(|run| Some((run.block, run.lives.clone()?)));
        LivesOf {
            stack: &self.stack,
            samples: samples.collect(),
            are_all: self.runs.iter().all(RunNumbers::is_without_operations),
        }
    }

    /// What decisions on further blocks need of the runs that count.
    pub fn decision_samples(&self) -> impl Iterator<Item = CellSample> {
        self.runs.iter().filter(|run| run.violated.is_none()).filter_map(|run| {
            let (bytes_per_second, operations_per_second) = run.rates?;
            Some(CellSample {
                in_virtual_time: run.conditions.is_in_virtual_time(),
                stack: self.stack.clone(),
                workload: self.workload.clone(),
                block: run.block,
                repeat: run.repeat,
                throughput: throughput(bytes_per_second, operations_per_second),
                cell_s: run.cell_s,
            })
        })
    }

    /// The run of median throughput, of an even number the slower of the two in the middle, or without a load that of the median life;
    /// the last run if none has numbers.
    pub fn shown_run(&self) -> Option<i64> {
        if self.runs.iter().all(RunNumbers::is_without_operations) {
            let lived = self.counted().filter_map(|run| Some((run.lives.as_ref()?.whole_s, run.number)));
            return of_median_rate(lived).or_else(|| self.runs.last().map(|r| r.number));
        }
        let measured = self.counted().filter_map(|r| Some((r.rates?.0, r.number)));
        of_median_rate(measured).or_else(|| self.runs.last().map(|r| r.number))
    }

    /// The runs whose numbers count, or all if none does.
    fn counted(&self) -> impl Iterator<Item = &RunNumbers> {
        let honest = |run: &&RunNumbers| run.rates.is_some() && run.violated.is_none();
        let any = self.runs.iter().any(|run| honest(&run));
        self.runs.iter().filter(move |run| !any || honest(run))
    }

    /// What has to be equal in cells that are compared, each with the values that the runs with numbers have.
    fn facts(&self) -> Facts {
        let mut facts = Facts::new();
        let mut seen: Vec<(&Arc<Environment>, Option<u64>)> = Vec::new();
        for run in self.runs.iter().filter(|r| r.rates.is_some()) {
            let known = |(c, w): &(&Arc<Environment>, Option<u64>)| {
                (Arc::ptr_eq(c, &run.conditions) || **c == run.conditions) && *w == run.working_set_bytes
            };
            if seen.iter().any(known) {
                continue;
            }
            seen.push((&run.conditions, run.working_set_bytes));
            for (fact, value) in environment_facts(&run.conditions, run.working_set_bytes) {
                facts.entry(fact).or_default().insert(value);
            }
        }
        facts
    }
}

/// What has the median rate; of an even number the slower of the two in the middle.
pub fn of_median_rate<T>(rated: impl IntoIterator<Item = (f64, T)>) -> Option<T> {
    let mut rated: Vec<(f64, T)> = rated.into_iter().collect();
    rated.sort_by(|a, b| a.0.total_cmp(&b.0));
    let middle = rated.len().checked_sub(1)? / 2;
    rated.into_iter().nth(middle).map(|(_, of_rate)| of_rate)
}

impl RunNumbers {
    /// The numbers of a run.
    pub fn of(run: &StoredRun) -> Self {
        let record = &run.record;
        let sample = Sample::of(run);
        Self {
            number: run.number,
            block: record.block,
            repeat: record.repeat,
            position: record.position,
            started_at: record.started_at.clone(),
            cell_s: record.cell_s,
            measured_s: record.measured().map(|m| m.load.elapsed_ns as f64 / 1e9),
            load_s: record.load_s,
            rates: sample.as_ref().map(|s| (s.bytes_per_second, s.operations_per_second)),
            lives: record.measured().and_then(LifeSample::of),
            failure: record.failure().map(|failure| failure.message.clone()),
            violated: sample.and_then(|s| s.violated),
            working_set_bytes: record.measured().map(|m| m.load.working_set_bytes),
            conditions: Arc::new(conditions(&record.environment)),
        }
    }

    /// Whether it failed or has numbers without an operation.
    fn is_without_operations(&self) -> bool {
        self.rates.is_none_or(|(bytes, operations)| bytes <= 0.0 && operations <= 0.0)
    }

    fn sample(&self) -> Option<Sample> {
        let (bytes_per_second, operations_per_second) = self.rates?;
        Some(Sample {
            run: self.number,
            block: self.block,
            repeat: self.repeat,
            position: self.position,
            violated: self.violated.clone(),
            in_virtual_time: self.conditions.is_in_virtual_time(),
            bytes_per_second,
            operations_per_second,
        })
    }
}

impl Mark {
    /// A mark from its [name](Self::name) and its [words](Self::detail); `None` if it holds numbers, of which the words
    /// have only the first digits, or is not known.
    pub fn of_words(name: &str, detail: &str) -> Option<Self> {
        let reason = || detail.to_owned();
        match name {
            Self::EMULATED => Some(Self::EmulatedCpu),
            Self::DECLARED => Some(Self::Declared),
            Self::CACHED => Some(Self::Cached { reason: reason() }),
            Self::INCONSISTENT => Some(Self::Inconsistent { reason: reason() }),
            Self::NOT_STEADY => Some(Self::NotSteady { reason: reason() }),
            _ => None,
        }
    }

    /// The machine or layer that it is about, if marks of its name are told apart by it; else nothing.
    pub fn about(&self) -> String {
        match self {
            Self::CpuBound { machine, .. } => machine.stored(),
            Self::EventsDropped { layer, .. } => layer.clone(),
            _ => String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_known_by_its_words() {
        let text = || "over 5 rounds, in the trace of x lost 3 were busy".to_owned();
        let marks = [
            Mark::EmulatedCpu,
            Mark::Declared,
            Mark::Cached { reason: text() },
            Mark::Inconsistent { reason: text() },
            Mark::NotSteady { reason: text() },
            Mark::Suspended { seconds: 12.345 },
            Mark::CpuBound { machine: "guest were busy 2".into(), busy: 0.912_345, modelled: None },
            Mark::EventsDropped { layer: "ext3 lost it".to_owned(), events: 7 },
            Mark::Unmatched { share: 0.02 },
            Mark::Unclassified { layer: "jfs".to_owned(), share: 0.03 },
        ];
        for mark in marks {
            let (name, detail) = (mark.name(), mark.detail());
            let numeric = matches!(
                mark,
                Mark::CpuBound { .. }
                    | Mark::EventsDropped { .. }
                    | Mark::Suspended { .. }
                    | Mark::Unmatched { .. }
                    | Mark::Unclassified { .. }
            );
            let expected = (!numeric).then(|| mark.clone());
            assert_eq!(Mark::of_words(name, &detail), expected);
            let about = match &mark {
                Mark::CpuBound { machine, .. } => machine.stored(),
                Mark::EventsDropped { layer, .. } => layer.clone(),
                _ => String::new(),
            };
            assert_eq!(mark.about(), about);
        }
    }
}
