//! What the store knows of the stacks in question.

use std::collections::BTreeSet;

use anyhow::Result;
use nestor_advise::evidence::{flush_trace, observation};
use nestor_advise::{FLUSH_PROBE, FlushTrace, Observation, Promise};
use nestor_results::{RunFilter, Store, StoredRun, WrittenPlace, WrittenStack, WrittenWorkload};

use super::question::Asked;

/// Runs of the stacks in question on one ground.
pub struct Runs {
    /// Under the workload in question.
    pub runs: Vec<StoredRun>,
    /// What these and runs that are made to trace flushes showed of them.
    pub traces: Vec<FlushTrace>,
    /// What was tried now and has no numbers, in words.
    pub failures: Vec<String>,
}

impl Runs {
    /// Looks up what the store has of them under the workload in question and under the one that traces flushes.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn of(store: &Store, asked: &Asked, ground: &WrittenPlace) -> Result<Self> {
        let mut found = Self { runs: Vec::new(), traces: Vec::new(), failures: Vec::new() };
        // Records are large, and a file of results may hold thousands of runs under other workloads.
        let mut listed = Vec::new();
        for workload in BTreeSet::from([asked.workload.clone(), FLUSH_PROBE.into()]) {
            listed.extend(store.list(&RunFilter {
                workload: Some(workload),
                ground: Some(ground.clone()),
                latest_only: true,
                ..RunFilter::default()
            })?);
        }
        for listed in listed {
            if listed.failure.is_some() || !asked.concerns(&listed.stack) {
                continue;
            }
            let run = store.run(listed.number)?;
            found.traces.extend(flush_trace(&run));
            if run.record.workload == asked.workload {
                found.runs.push(run);
            }
        }
        found.runs.sort_by_key(|run| run.number);
        Ok(found)
    }

    /// Adds runs that were just made.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn add(&mut self, store: &Store, numbers: &[i64], workload: &WrittenWorkload) -> Result<()> {
        for number in numbers {
            let run = store.run(*number)?;
            // An interrupted study that was gone on with has runs that were known.
            if self.runs.iter().any(|known| known.number == run.number) {
                continue;
            }
            if let Some(failure) = run.record.failure() {
                let why = failure.message.lines().next().unwrap_or_default();
                self.failures.push(format!("{} failed in run {number}: {why}", run.record.stack));
                continue;
            }
            self.traces.extend(flush_trace(&run));
            if run.record.workload == *workload {
                self.runs.push(run);
            }
        }
        Ok(())
    }

    /// Keeps only what was measured now.
    pub fn forget_runs(&mut self) {
        self.runs.clear();
    }

    /// The rates.
    pub fn observations(&self, asked: &Asked) -> Vec<Observation> {
        self.runs.iter().filter_map(|run| observation(run, asked.unit)).collect()
    }

    /// The runs of a stack that count.
    pub fn of_stack(&self, asked: &Asked, stack: &WrittenStack) -> Vec<&StoredRun> {
        let counts = |run: &&StoredRun| run.record.stack == *stack && observation(run, asked.unit).is_some();
        self.runs.iter().filter(counts).collect()
    }

    /// What showed flushes of stacks with this promise, each run once.
    pub fn traces_of(&self, promise: Promise) -> Vec<FlushTrace> {
        let mut seen = BTreeSet::new();
        let alike = |trace: &&FlushTrace| Promise::of(&trace.stack) == promise;
        self.traces.iter().filter(alike).filter(|trace| seen.insert(trace.run)).cloned().collect()
    }

    /// How many runs were left out because they violate an identity.
    pub fn left_out(&self) -> usize {
        self.runs.iter().filter(|run| !run.record.untraced_twin && run.record.violates_an_identity()).count()
    }
}
