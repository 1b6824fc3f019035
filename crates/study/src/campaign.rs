//! Runs the cells of a study block by block, keeps each result as soon as it is there, ends comparisons that have enough
//! blocks, and stops at the budget.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nestor_load::Workload;
use nestor_stack::Stack;

use crate::bench::Bench;
use crate::cell::{CellEnd, CellRequest};
use crate::estimate::Estimator;
use crate::plan::{CellKey, NotRun, PlannedCell, budget_ended};
use crate::record::CellRecord;
use crate::stopping::{CellSample, Decisions};
use crate::store::{Store, StoreError};
use crate::study::Study;
use crate::trace_mode::TraceMode;

/// How a study is run.
#[derive(Clone, Debug, Default)]
pub struct CampaignOptions {
    /// Whether results are kept under the study's name and an earlier, interrupted run of it is continued.
    pub as_study: bool,
    /// A directory that is to keep what was recorded of each traced cell: its requests, layouts and a manifest.
    pub trace_to: Option<PathBuf>,
}

/// Hears how a campaign goes on.
pub trait Watcher {
    /// A block begins: its number from 0, its cells, the comparisons that are still open and all of them.
    fn block_begins(&self, _block: u32, _cells: usize, _open: usize, _comparisons: usize) {}
    /// A cell begins: the number of those done, of all, and the expected time until the end.
    fn cell_begins(&self, cell: &CellKey, done: usize, all: usize, left: Option<Duration>);
    /// What is happening now.
    fn step(&self, what: &str);
    /// A cell ended, and was kept under this number.
    fn cell_ended(&self, record: &CellRecord, run: i64);
}

/// How a campaign ended.
#[derive(Clone, Debug, Default)]
pub struct CampaignEnd {
    /// Numbers of the runs that were kept, in order.
    pub runs: Vec<i64>,
    /// Cells that an earlier run of the study had already finished.
    pub already_done: usize,
    /// Cells without a result, and why.
    pub not_run: Vec<NotRun>,
    /// What was decided of each comparison.
    pub decisions: Decisions,
    /// Seconds it took, without opening the laboratory and closing it.
    pub elapsed_s: f64,
    /// Of them, seconds of measurement.
    pub measured_s: f64,
}

/// After so many failures in a row with the same message, the place is at fault and not the stacks.
const SAME_FAILURES: usize = 3;

/// Runs what is left of a study.
///
/// # Errors
/// When a result cannot be kept; those before it are.
pub fn run_campaign(
    bench: &mut dyn Bench,
    study: &Study,
    store: &mut Store,
    options: &CampaignOptions,
    interrupted: &AtomicBool,
    watcher: &dyn Watcher,
) -> Result<CampaignEnd, StoreError> {
    let ground = bench.ground();
    let hash = study.hash(&ground);
    let estimator = Estimator::of(&store.past_cells(&ground)?);
    let usual_cell = store.usual_cell_s(&ground)?.map(Duration::from_secs_f64);
    let sentinels = study.plan(usual_cell).sentinels;
    let finished = if options.as_study { store.finished(&hash)? } else { HashSet::new() };
    bench.make_room_for(&parsed_stacks(study));
    let campaign = Campaign {
        bench,
        study,
        store,
        options,
        interrupted,
        watcher,
        hash,
        sentinels,
        estimator,
        started: Instant::now(),
        finished,
        samples: Vec::new(),
        failures: Vec::new(),
        refused: HashSet::new(),
        ran: HashMap::new(),
        position: 0,
        begun: 0,
        end: CampaignEnd::default(),
    };
    campaign.run()
}

/// A campaign under way.
struct Campaign<'a> {
    bench: &'a mut dyn Bench,
    study: &'a Study,
    store: &'a mut Store,
    options: &'a CampaignOptions,
    interrupted: &'a AtomicBool,
    watcher: &'a dyn Watcher,
    hash: String,
    sentinels: bool,
    estimator: Estimator,
    started: Instant,
    finished: HashSet<CellKey>,
    /// Of a study that is not kept under a name: what its own cells reached.
    samples: Vec<CellSample>,
    /// Messages of the last failures in a row.
    failures: Vec<String>,
    /// Stacks that cannot be built: said once, not once per replication.
    refused: HashSet<String>,
    /// How often each cell was begun here.
    ran: HashMap<CellKey, u32>,
    position: u32,
    /// Cells that were begun here.
    begun: usize,
    end: CampaignEnd,
}

impl Campaign<'_> {
    fn run(mut self) -> Result<CampaignEnd, StoreError> {
        let mut reason = None;
        for block in 0..self.study.most_blocks() {
            let decisions = self.decisions(Some(block))?;
            let cells = self.study.block_cells(block, self.sentinels, &decisions);
            if cells.is_empty() {
                continue;
            }
            let comparisons = decisions.iter().count();
            let open =
                decisions.iter().filter(|(stack, workload, _)| decisions.is_open(stack, workload)).count();
            self.watcher.block_begins(block, cells.len(), open, comparisons);
            reason = self.run_block(block, cells, &decisions)?;
            if reason.is_some() {
                break;
            }
        }
        let decisions = self.decisions(None)?;
        let reason = reason.unwrap_or_default();
        let planned = self.study.all_cells(self.sentinels, &decisions);
        let missing = planned.into_iter().filter(|cell| !self.finished.contains(cell));
        self.end.not_run = missing.map(|key| NotRun { key, reason: reason.clone() }).collect();
        self.end.decisions = decisions;
        self.end.elapsed_s = self.started.elapsed().as_secs_f64();
        Ok(self.end)
    }

    /// Runs the cells of a block, and those that failed once more after the others; says why it stopped before its end.
    fn run_block(
        &mut self,
        block: u32,
        cells: Vec<CellKey>,
        decisions: &Decisions,
    ) -> Result<Option<String>, StoreError> {
        let finished = |cell: &CellKey| self.finished.contains(cell);
        let later: Vec<CellKey> = (block + 1..self.study.most_blocks())
            .flat_map(|later| self.study.block_cells(later, self.sentinels, decisions))
            .filter(|cell| !finished(cell))
            .collect();
        let planned = cells.into_iter().zip(self.position..);
        let mut cells: Vec<PlannedCell> =
            planned.map(|(key, position)| PlannedCell { key, position }).collect();
        let all = cells.len();
        self.position += u32::try_from(all).unwrap_or(u32::MAX);
        cells.retain(|cell| !self.finished.contains(&cell.key));
        self.end.already_done += all - cells.len();
        let mut next = 0;
        while let Some(cell) = cells.get(next).cloned() {
            if let Some(reason) = self.over_budget(&cell.key).or_else(|| self.file_changed(&cell.key)) {
                return Ok(Some(reason));
            }
            let left = cells[next..].iter().map(|c| &c.key).chain(&later);
            let left: Duration = left.map(|c| self.estimator.cell(c)).sum();
            let all = self.begun + cells.len() - next + later.len();
            next += 1;
            self.begun += 1;
            if self.refused.contains(&cell.key.stack) {
                self.finished.insert(cell.key);
                continue;
            }
            let left = self.estimator.knows_anything().then_some(left);
            self.watcher.cell_begins(&cell.key, self.begun - 1, all, left);
            let again = self.run_cell(&cell)?;
            if self.interrupted.load(Ordering::Relaxed) {
                return Ok(Some("interrupted".into()));
            }
            if again {
                cells.push(cell);
            }
            if self.failing_alike() {
                return Ok(Some(format!("{SAME_FAILURES} cells in a row failed alike")));
            }
        }
        Ok(None)
    }

    /// Why the budget does not hold another cell. The first always runs.
    fn over_budget(&self, cell: &CellKey) -> Option<String> {
        let budget = self.study.budget?;
        let ends = self.started.elapsed() + self.estimator.cell(cell);
        (ends > budget && !self.end.runs.is_empty()).then(|| budget_ended(budget))
    }

    /// Why the cell would not measure what those before it did.
    fn file_changed(&self, cell: &CellKey) -> Option<String> {
        let file = self.study.changed_file(&cell.workload)?;
        Some(format!("{file} has changed since the study was begun"))
    }

    fn failing_alike(&self) -> bool {
        let last = self.failures.iter().rev().take(SAME_FAILURES);
        self.failures.len() >= SAME_FAILURES && last.clone().all(|f| Some(f) == self.failures.last())
    }

    /// Runs a cell and keeps its result; says whether it is worth another try.
    fn run_cell(&mut self, cell: &PlannedCell) -> Result<bool, StoreError> {
        let Some(CellEnd { record, refused }) = self.measure(cell) else { return Ok(false) };
        // What was torn down is no failure; what was finished before is kept.
        if self.interrupted.load(Ordering::Relaxed) && record.measured().is_none() {
            return Ok(false);
        }
        let run = self.store.insert(&record)?;
        self.end.runs.push(run);
        self.learn(&record);
        self.watcher.cell_ended(&record, run);
        let tries = self.ran.entry(cell.key.clone()).or_default();
        *tries += 1;
        if refused {
            self.refused.insert(cell.key.stack.clone());
        }
        match record.failure() {
            Some(message) => {
                self.failures.push(message.to_owned());
                // A machine may have died of something that has passed: once more, after all others. Both are kept.
                let again = self.options.as_study && !refused && *tries == 1;
                if !again {
                    self.finished.insert(cell.key.clone());
                }
                Ok(again)
            }
            None => {
                self.failures.clear();
                self.finished.insert(cell.key.clone());
                Ok(false)
            }
        }
    }

    fn learn(&mut self, record: &CellRecord) {
        let Some(measured) = record.measured() else { return };
        let measured_s = measured.load.elapsed_ns as f64 / 1e9;
        self.end.measured_s += measured_s;
        self.estimator.learn(&record.stack, &record.workload, record.cell_s, measured_s);
        if !record.untraced_twin && !record.violates_an_identity() {
            self.samples.push(CellSample::of(record, measured));
        }
    }

    fn decisions(&self, before_block: Option<u32>) -> Result<Decisions, StoreError> {
        if self.study.stop.is_none() {
            return Ok(Decisions::default());
        }
        if !self.options.as_study {
            return Ok(Decisions::of(self.study, &self.samples, before_block));
        }
        Ok(Decisions::of(self.study, &self.store.cell_samples(&self.hash)?, before_block))
    }

    /// One cell; `None` for one whose notation does not parse, which a study that was read cannot have.
    fn measure(&mut self, cell: &PlannedCell) -> Option<CellEnd> {
        let key = &cell.key;
        let stack = Stack::parse(&key.stack).ok()?;
        let workload = Workload::parse(&key.workload).ok()?;
        let rule = self.study.rule(&key.stack, &key.workload)?;
        let request = CellRequest {
            stack: &stack,
            workload: &workload,
            study: self.options.as_study.then_some(self.study.name.as_str()),
            study_hash: self.options.as_study.then_some(self.hash.as_str()),
            block: key.block,
            repeat: key.repeat,
            position: cell.position,
            seed: key.seed(self.study.seed),
            trace: if key.untraced_twin { TraceMode::None } else { rule.trace },
            untraced_twin: key.untraced_twin,
            trace_to: self.options.trace_to.as_deref(),
        };
        let watcher = self.watcher;
        Some(self.bench.run_cell(&request, &|what| watcher.step(what)))
    }
}

fn parsed_stacks(study: &Study) -> Vec<Stack> {
    study.stacks.iter().filter_map(|text| Stack::parse(text).ok()).collect()
}
