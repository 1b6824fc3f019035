//! Measuring for advice: small studies that are kept like any other.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Result;
use nestor_advise::FLUSH_PROBE;
use nestor_results::{
    Estimator, Store, Study, StudyRecord, TraceMode, WrittenPlace, WrittenStack, WrittenWorkload,
};

use crate::arguments::LabArguments;
use crate::commands::run::set_tracing;
use crate::session;

/// Name of the studies that screen.
pub const SCREEN: &str = "advise-screen";
/// Name of the studies that trace flushes.
pub const PROBE: &str = "advise-flushes";
/// Name of the studies that confirm.
pub const CONFIRM: &str = "advise-confirm";

/// A study for advice.
pub struct Part {
    /// Its name.
    pub name: String,
    /// The stacks, the one to compare with first.
    pub stacks: Vec<WrittenStack>,
    /// The workloads.
    pub workloads: Vec<WrittenWorkload>,
    /// Blocks.
    pub replications: u32,
    /// What is recorded unless the user says otherwise.
    pub trace: TraceMode,
    /// Decides the order.
    pub seed: u64,
    /// Stacks of which, besides, the flushes are traced once.
    pub probes: Vec<WrittenStack>,
    /// So much of the user's time is left for what comes after.
    pub leave: Duration,
}

/// Keeps to the user's time over several studies.
pub struct Bench<'a> {
    lab: &'a LabArguments,
    store: &'a mut Store,
    deadline: Instant,
    /// What ended before it was done, in words.
    pub ended_early: Vec<String>,
}

impl<'a> Bench<'a> {
    /// Starts the clock.
    pub fn new(lab: &'a LabArguments, store: &'a mut Store, budget: Duration) -> Self {
        Self { lab, store, deadline: Instant::now() + budget, ended_early: Vec::new() }
    }

    /// The store.
    pub fn store(&self) -> &Store {
        self.store
    }

    /// How many cells of a stack and workload fit into what is left of the time.
    pub fn cells_left(&self, stack: &WrittenStack, workload: &WrittenWorkload) -> Result<usize> {
        let cell_s = usual_cell_s(self.store, self.lab, stack, workload)?;
        Ok((self.left().as_secs_f64() / cell_s.max(1.0)) as usize)
    }

    fn left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// Measures; the numbers of the runs, those of an earlier, interrupted try with them.
    ///
    /// # Errors
    /// When the lab cannot be opened, or the user interrupted; what was measured is kept.
    pub fn measure(&mut self, part: Part) -> Result<Vec<i64>> {
        let study = self.study(part)?;
        let ground = WrittenPlace::from(self.lab.place()?.place.clone());
        let hash = study.hash(&ground);
        // Sessions are what `nestor study --resume` goes by, and these studies are gone on with by asking for the same advice.
        let sessions = Vec::new();
        let mut record = StudyRecord { hash, ground, sentinels: false, study, ended_early: None, sessions };
        self.store.save_study(&record)?;
        let end = session::run(&record.study, self.lab, true, self.store)?;
        record.ended_early = end.not_run.first().map(|cell| cell.reason.clone());
        self.store.save_study(&record)?;
        if let Some(reason) = &record.ended_early {
            let cells = end.not_run.len();
            self.ended_early.push(format!("{cells} cells of {} were not run: {reason}", record.study.name));
        }
        runs_of(self.store, &record.hash)
    }

    fn study(&self, part: Part) -> Result<Study> {
        let budget = self.left().saturating_sub(part.leave);
        let mut study = study_of(part);
        study.budget = Some(budget);
        if self.lab.trace_to.is_some() {
            study.trace = TraceMode::Full;
        }
        set_tracing(&mut study, self.lab)?;
        study.note_files()?;
        study.note_recording();
        Ok(study)
    }
}

/// The one place where studies for advice are made.
fn study_of(part: Part) -> Study {
    let mut stacks = part.stacks.clone();
    stacks.extend(part.probes.iter().filter(|stack| !part.stacks.contains(stack)).cloned());
    let mut workloads = part.workloads.clone();
    if !part.probes.is_empty() && !workloads.iter().any(|workload| workload == FLUSH_PROBE) {
        workloads.push(FLUSH_PROBE.into());
    }
    let mut study = Study::new(part.name, "measured for advice", stacks, workloads);
    study.replications = part.replications;
    study.seed = part.seed;
    study.trace = part.trace;
    if !part.probes.is_empty() {
        for stack in part.probes.iter().filter(|stack| !part.stacks.contains(stack)) {
            // Flushes are counted, not compared: no other stack has to be probed for its sake.
            study.baselines.insert(stack.clone(), stack.clone());
        }
        let piece = |stacks: &[WrittenStack], workloads: Vec<WrittenWorkload>, replications: u32| {
            nestor_results::Part {
                stacks: stacks.to_vec(),
                workloads,
                replications,
                trace: None,
                trace_cost: false,
                apart: false,
                optional: false,
                left_out: None,
            }
        };
        study.parts = vec![piece(&part.probes, vec![FLUSH_PROBE.into()], 1)];
        if !part.stacks.is_empty() {
            study.parts.insert(0, piece(&part.stacks, part.workloads, part.replications));
        }
    }
    study
}

/// The runs of a study that count, in order.
///
/// # Errors
/// When the store cannot be read.
pub fn runs_of(store: &Store, hash: &str) -> Result<Vec<i64>> {
    let filter = nestor_results::RunFilter {
        study_hash: Some(hash.to_owned()),
        latest_only: true,
        ..nestor_results::RunFilter::default()
    };
    Ok(store.numbers(&filter)?)
}

/// Seconds that a cell takes here, as far as the store tells.
///
/// # Errors
/// When the store cannot be read.
pub fn usual_cell_s(
    store: &Store,
    lab: &LabArguments,
    stack: &WrittenStack,
    workload: &WrittenWorkload,
) -> Result<f64> {
    let estimator = Estimator::of(&store.past_cells(&lab.likely_place()?.into())?);
    Ok(estimator.cell_s(stack, workload).0)
}

/// Seconds until the first cell of a laboratory that is opened.
pub fn opening_s() -> f64 {
    Estimator::of(&[]).effort([]).seconds
}

/// A seed that no earlier study has, so that nothing of theirs is taken for fresh.
pub fn fresh_seed() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |elapsed| elapsed.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(stacks: &[&str], probes: &[&str]) -> Part {
        Part {
            name: CONFIRM.to_owned(),
            stacks: stacks.iter().map(|stack| (*stack).into()).collect(),
            workloads: vec!["fio:rand-write".into()],
            replications: 6,
            trace: TraceMode::Full,
            seed: 7,
            probes: probes.iter().map(|stack| (*stack).into()).collect(),
            leave: Duration::ZERO,
        }
    }

    const A: &str = "ext4/kvm/raw/ext4/hdd";
    const B: &str = "ext4/kvm:cache=writeback/raw/ext4/hdd";
    const C: &str = "ext4/kvm:cache=writethrough/raw/ext4/hdd";

    #[test]
    fn pairs_are_of_two_stacks_in_every_block() {
        let study = study_of(part(&[A, B], &[]));
        assert_eq!(study.plan(None).cells.len(), 12);
        assert_eq!(study.baseline_of(&B.into()), A);
    }

    #[test]
    fn probes_run_once_and_are_compared_with_nothing() {
        let study = study_of(part(&[A, B], &[C]));
        let cells = study.plan(None).cells;
        let probes: Vec<&str> =
            cells.iter().filter(|c| c.key.workload == FLUSH_PROBE).map(|c| c.key.stack.as_str()).collect();
        assert_eq!((cells.len(), probes), (13, vec![C]));
        assert!(!study.holds(&C.into(), &"fio:rand-write".into()));
        let alone = study_of(Part { workloads: Vec::new(), ..part(&[], &[A, C]) });
        assert_eq!(alone.plan(None).cells.len(), 2);
    }
}
