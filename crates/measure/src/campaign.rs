//! Runs the cells of a study block by block, stores each result as soon as it is known, ends comparisons that have enough
//! blocks, and stops at the budget. Several benches share the cells of a block. Decisions between blocks rest on whole blocks, so
//! the number of benches changes no result where each cell's numbers are independent of the others (in virtual time).

use std::collections::{HashMap, HashSet, VecDeque};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nestor_stack::Stack;

use crate::bench::Bench;
use crate::cell::CellEnd;
use crate::crew::{Benches, Crew, Order, Said};
use crate::watcher::Watcher;
use nestor_results::record::CellRecord;
use nestor_results::{
    CellKey, CellSample, Decisions, Estimator, FailureCause, LaboratoryDigest, NotRun, PastCell, PlannedCell,
    Store, StoreError, StoredRun, Study, TraceMode, WrittenPlace, WrittenStack, budget_ended,
};

/// How a study is run.
#[derive(Clone, Debug, Default)]
pub struct CampaignOptions {
    /// Whether results are kept under the study's name and an earlier, interrupted run of it is continued.
    pub as_study: bool,
    /// A directory that is to keep the recordings of each traced cell: its requests, layouts and a manifest.
    pub trace_to: Option<PathBuf>,
    /// Whether cells are measured even if the store has one with the same dependencies.
    pub again: bool,
}

/// How a campaign ended.
#[derive(Clone, Debug, Default)]
pub struct CampaignEnd {
    /// Runs that were kept.
    pub kept: usize,
    /// Of a campaign without a study: these runs, in order. The runs of a study are in the store, because there may be very many.
    pub runs: Vec<StoredRun>,
    /// Cells that an earlier run of the study had already finished.
    pub already_done: usize,
    /// Cells whose numbers the store had from a cell with the same dependencies.
    pub known: usize,
    /// Cells without a result, and why.
    pub not_run: Vec<NotRun>,
    /// The decision on each comparison.
    pub decisions: Decisions,
    /// Seconds it took, without opening the laboratory and closing it.
    pub elapsed_s: f64,
    /// Seconds in which the loads of its cells ran, one added to the other.
    pub load_s: f64,
}

/// After this many failures in a row for the same cause, the place is at fault and not the stacks.
const SAME_FAILURES: usize = 3;

/// Why cells were not run after the user has interrupted.
const INTERRUPTED: &str = "interrupted";

/// Runs the rest of a study on one bench or several in the same place.
///
/// # Errors
/// If a result cannot be stored; earlier results are kept.
pub fn run_campaign(
    mut benches: Vec<&mut (dyn Bench + Send)>,
    study: &Study,
    store: &mut Store,
    options: &CampaignOptions,
    interrupted: &AtomicBool,
    watcher: &dyn Watcher,
) -> Result<CampaignEnd, StoreError> {
    let ground = benches.first().map(|bench| bench.ground()).unwrap_or_default();
    let stacks: Vec<Stack> = study.run_stacks().filter_map(WrittenStack::value).cloned().collect();
    let digest = benches.first_mut().and_then(|bench| bench.dependencies());
    benches.iter_mut().for_each(|bench| bench.make_room_for(&stacks));
    let laboratory = Laboratory { ground, digest };
    std::thread::scope(|scope| {
        let mut crew = Benches::start(scope, benches);
        run_campaign_by(&mut crew, &laboratory, study, store, options, interrupted, watcher)
    })
}

/// What all cells of a campaign have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Laboratory {
    /// The place, as results name it.
    pub ground: WrittenPlace,
    /// What all numbers depend on besides the cells; `None` if they also depend on anything else.
    pub digest: Option<LaboratoryDigest>,
}

/// The same by a crew: it is handed as many cells as it takes.
///
/// # Errors
/// As [`run_campaign`].
pub fn run_campaign_by(
    crew: &mut dyn Crew,
    laboratory: &Laboratory,
    study: &Study,
    store: &mut Store,
    options: &CampaignOptions,
    interrupted: &AtomicBool,
    watcher: &dyn Watcher,
) -> Result<CampaignEnd, StoreError> {
    let ground = &laboratory.ground;
    let hash = study.hash(ground);
    let estimator = Estimator::of(&store.past_cells(ground)?);
    let usual_cell = store.usual_cell_s(ground)?.map(Duration::from_secs_f64);
    let sentinels = study.plan(usual_cell).sentinels;
    let finished = if options.as_study { store.finished(&hash)? } else { HashSet::new() };
    let campaign = Campaign {
        crew,
        study,
        store,
        options,
        interrupted,
        watcher,
        hash,
        laboratory: laboratory.digest.clone(),
        sentinels,
        estimator,
        started: Instant::now(),
        finished,
        samples: Vec::new(),
        failures: Vec::new(),
        refused: HashSet::new(),
        ran: HashMap::new(),
        position: 0,
        later: Vec::new(),
        begun: 0,
        under_way: Vec::new(),
        given_up: HashMap::new(),
        end: CampaignEnd::default(),
    };
    campaign.run()
}

/// A campaign in progress.
struct Campaign<'a> {
    crew: &'a mut dyn Crew,
    study: &'a Study,
    store: &'a mut Store,
    options: &'a CampaignOptions,
    interrupted: &'a AtomicBool,
    watcher: &'a dyn Watcher,
    hash: String,
    /// The digest of what all cells depend on.
    laboratory: Option<LaboratoryDigest>,
    sentinels: bool,
    estimator: Estimator,
    started: Instant,
    finished: HashSet<CellKey>,
    /// Of a study that is not stored under a name: the results of its own cells.
    samples: Vec<CellSample>,
    /// Causes of the last failures in a row that were not the stack's own.
    failures: Vec<Option<FailureCause>>,
    /// Stacks that cannot be built: reported once, not once per replication.
    refused: HashSet<WrittenStack>,
    /// How often each cell was begun here.
    ran: HashMap<CellKey, u32>,
    position: u32,
    /// What is left of the blocks after the one that was begun last.
    later: Vec<CellKey>,
    /// Cells that were begun here.
    begun: usize,
    /// Of them, those that the crew has not reported yet.
    under_way: Vec<CellKey>,
    /// Cells that the crew could not run, and why.
    given_up: HashMap<CellKey, String>,
    end: CampaignEnd,
}

impl Campaign<'_> {
    fn run(mut self) -> Result<CampaignEnd, StoreError> {
        let (mut next, blocks) = (0, self.study.most_blocks());
        let mut reason = None;
        while next < blocks && reason.is_none() {
            let decisions = self.decisions(Some(next))?;
            // A look needs all results before it; before the first one a bench need not wait for the end of a block.
            let look = self.study.stop.as_ref().and_then(|rule| rule.looks.first());
            let end = look.map_or(blocks, |first| (*first).max(next + 1).min(blocks));
            reason = self.run_blocks(next..end, &decisions)?;
            next = end;
        }
        let decisions = self.decisions(None)?;
        let reason = reason.unwrap_or_default();
        let planned = self.study.all_cells(self.sentinels, &decisions);
        let missing = planned.into_iter().filter(|cell| !self.finished.contains(cell));
        let why = |key: &CellKey| self.given_up.get(key).unwrap_or(&reason).clone();
        self.end.not_run = missing.map(|key| NotRun { reason: why(&key), key }).collect();
        self.end.decisions = decisions;
        self.end.elapsed_s = self.started.elapsed().as_secs_f64();
        Ok(self.end)
    }

    /// Gives the free benches cells, those that wait first; returns why no more are to be begun.
    fn hand_out(
        &mut self,
        blocks: &mut Range<u32>,
        waiting: &mut VecDeque<PlannedCell>,
        decisions: &Decisions,
    ) -> Result<Option<String>, StoreError> {
        let mut reason = None;
        while reason.is_none() && self.crew.has_free() {
            // Also between cells that the store has, of which no bench reports.
            if self.interrupted.load(Ordering::Relaxed) {
                reason = Some(INTERRUPTED.to_owned());
            } else if let Some(cell) = waiting.pop_front() {
                reason = self.begin_cell(cell, waiting)?;
            } else if let Some(block) = blocks.next() {
                *waiting = self.cells_of(block, decisions);
            } else {
                break;
            }
        }
        Ok(reason)
    }

    /// Runs the cells of some blocks, and repeats the failed ones once after the others of their block; returns why it stopped
    /// early.
    fn run_blocks(
        &mut self,
        mut blocks: Range<u32>,
        decisions: &Decisions,
    ) -> Result<Option<String>, StoreError> {
        let mut waiting = VecDeque::new();
        let mut reason = None;
        loop {
            if reason.is_none() {
                reason = self.hand_out(&mut blocks, &mut waiting, decisions)?;
            }
            if self.crew.is_idle() {
                return Ok(reason);
            }
            match self.crew.hear() {
                Said::Step(what) => self.watcher.step(&what),
                Said::Ended(ended) => {
                    let (cell, end) = *ended;
                    self.is_reported(&cell.key);
                    if self.keep(&cell, end)? {
                        // Waiting cells may already belong to the next block.
                        let place =
                            waiting.iter().take_while(|other| other.key.block == cell.key.block).count();
                        waiting.insert(place, cell);
                    }
                    self.say_what_is_left(&waiting);
                }
                Said::NotRun(cell, why) => {
                    self.is_reported(&cell.key);
                    self.given_up.insert(cell.key, why);
                }
                Said::Stopped(why) => {
                    reason.get_or_insert(why);
                }
            }
            if self.interrupted.load(Ordering::Relaxed) {
                reason.get_or_insert(INTERRUPTED.to_owned());
            }
            if self.failing_alike() {
                reason.get_or_insert(format!("{SAME_FAILURES} cells in a row failed for the same cause"));
            }
            if reason.is_some() {
                self.crew.withdraw();
            }
        }
    }

    /// Notes that a cell is no longer under way.
    fn is_reported(&mut self, cell: &CellKey) {
        if let Some(place) = self.under_way.iter().position(|other| other == cell) {
            self.under_way.swap_remove(place);
        }
    }

    /// The expected time until the end, if anything is known of it.
    fn time_left(&self, waiting: &VecDeque<PlannedCell>) -> Option<Duration> {
        let left = self.under_way.iter().chain(waiting.iter().map(|c| &c.key)).chain(&self.later);
        let left = left.map(|cell| self.estimator.cell(cell)).sum();
        self.estimator.knows_anything().then_some(self.side_by_side(left))
    }

    /// What takes this long one after another, side by side.
    fn side_by_side(&self, all: Duration) -> Duration {
        all / u32::try_from(self.crew.side_by_side()).unwrap_or(u32::MAX).max(1)
    }

    fn say_what_is_left(&self, waiting: &VecDeque<PlannedCell>) {
        let all = self.begun + waiting.len() + self.later.len();
        self.watcher.progressed(self.begun - self.under_way.len(), all, self.time_left(waiting));
    }

    /// What is left of a block, which begins.
    fn cells_of(&mut self, block: u32, decisions: &Decisions) -> VecDeque<PlannedCell> {
        let cells = self.study.block_cells(block, self.sentinels, decisions);
        let finished = |cell: &CellKey| self.finished.contains(cell);
        self.later = (block + 1..self.study.most_blocks())
            .flat_map(|later| self.study.block_cells(later, self.sentinels, decisions))
            .filter(|cell| !finished(cell))
            .collect();
        let all = cells.len();
        if all > 0 {
            let comparisons = decisions.iter().count();
            let open =
                decisions.iter().filter(|(stack, workload, _)| decisions.is_open(stack, workload)).count();
            self.watcher.block_begins(block, all, open, comparisons);
        }
        let planned = cells.into_iter().zip(self.position..);
        let mut cells: VecDeque<PlannedCell> =
            planned.map(|(key, position)| PlannedCell { key, position }).collect();
        self.position += u32::try_from(all).unwrap_or(u32::MAX);
        cells.retain(|cell| !self.finished.contains(&cell.key));
        self.end.already_done += all - cells.len();
        cells
    }

    /// Hands a cell to a bench, or returns why no more cells are begun. A stack that cannot be built was reported before.
    fn begin_cell(
        &mut self,
        cell: PlannedCell,
        waiting: &VecDeque<PlannedCell>,
    ) -> Result<Option<String>, StoreError> {
        if let Some(reason) = self.file_changed(&cell.key) {
            return Ok(Some(reason));
        }
        if let Some(known) = self.known(&cell.key)? {
            self.begun += 1;
            self.take_over(cell, known)?;
            return Ok(None);
        }
        if let Some(reason) = self.over_budget(&cell.key) {
            return Ok(Some(reason));
        }
        self.begun += 1;
        if self.refused.contains(&cell.key.stack) {
            self.finished.insert(cell.key);
            return Ok(None);
        }
        self.under_way.push(cell.key.clone());
        let left = self.time_left(waiting);
        let all = self.begun + waiting.len() + self.later.len();
        self.watcher.cell_begins(&cell.key, self.begun - self.under_way.len(), all, left);
        match self.order(cell) {
            Some(order) => self.crew.begin(order),
            None => drop(self.under_way.pop()),
        }
        Ok(None)
    }

    /// The digest of what a cell depends on, where that decides its numbers.
    fn dependencies(&self, cell: &CellKey) -> Option<String> {
        self.study.dependencies(self.laboratory.as_ref()?, cell)
    }

    /// A run with the same dependencies as a cell, unless all cells are to be measured or recorded anew.
    fn known(&self, cell: &CellKey) -> Result<Option<StoredRun>, StoreError> {
        if self.options.again || self.options.trace_to.is_some() {
            return Ok(None);
        }
        match self.dependencies(cell) {
            Some(digest) => self.store.run_depending_on(&digest),
            None => Ok(None),
        }
    }

    /// Gives a cell the numbers of a run; a study keeps them as its own.
    fn take_over(&mut self, cell: PlannedCell, known: StoredRun) -> Result<(), StoreError> {
        if self.options.as_study {
            let PlannedCell { key, position } = &cell;
            self.store.insert(&CellRecord {
                study: Some(self.study.name.clone()),
                study_hash: Some(self.hash.clone()),
                block: key.block,
                repeat: key.repeat,
                position: *position,
                untraced_twin: key.untraced_twin,
                ..known.record.clone()
            })?;
        }
        self.end.known += 1;
        self.sample(&known.record);
        self.watcher.cell_known(&known.record, known.number);
        self.note(known);
        self.finished.insert(cell.key);
        Ok(())
    }

    /// Notes a run that is kept.
    fn note(&mut self, run: StoredRun) {
        self.end.kept += 1;
        if !self.options.as_study {
            self.end.runs.push(run);
        }
    }

    /// Why the budget has no room for another cell. The first always runs.
    fn over_budget(&self, cell: &CellKey) -> Option<String> {
        let budget = self.study.budget?;
        let ends = self.started.elapsed() + self.time_until_begin() + self.estimator.cell(cell);
        let is_first = self.end.kept == 0 && self.under_way.is_empty();
        (ends > budget && !is_first).then(|| budget_ended(budget))
    }

    /// How long a cell that is handed to the crew now waits there for others.
    fn time_until_begin(&self) -> Duration {
        if self.under_way.len() < self.crew.side_by_side() {
            return Duration::ZERO;
        }
        self.side_by_side(self.under_way.iter().map(|cell| self.estimator.cell(cell)).sum())
    }

    /// Why the cell would not measure the same as those before it.
    fn file_changed(&self, cell: &CellKey) -> Option<String> {
        let file = self.study.changed_file(&cell.workload)?;
        Some(format!("{file} has changed since the study began"))
    }

    fn failing_alike(&self) -> bool {
        let mut last = self.failures.iter().rev().take(SAME_FAILURES);
        self.failures.len() >= SAME_FAILURES && last.all(|f| Some(f) == self.failures.last())
    }

    /// Stores the result of a cell; returns whether to try it again.
    fn keep(&mut self, cell: &PlannedCell, end: CellEnd) -> Result<bool, StoreError> {
        let CellEnd { mut record, refused } = end;
        if record.measured().is_some() {
            record.environment.depends_on = self.dependencies(&cell.key);
        }
        // A cell that was torn down has not failed; finished ones are kept.
        if self.interrupted.load(Ordering::Relaxed) && record.measured().is_none() {
            return Ok(false);
        }
        let run = self.store.keep(record)?;
        self.learn(&run.record);
        self.watcher.cell_ended(&run.record, run.number);
        let tries = self.ran.entry(cell.key.clone()).or_default();
        *tries += 1;
        let failure = run.record.failure().map(|failure| failure.cause);
        // The cause of a machine's death may have passed, so the cell runs again after all others. Both results are kept. A guest
        // whose numbers repeat runs out of memory again.
        let will_repeat = self.laboratory.is_some() && failure == Some(Some(FailureCause::NoMemory));
        let may_pass = self.options.as_study && !refused && !will_repeat && *tries == 1;
        if refused {
            self.refused.insert(cell.key.stack.clone());
        }
        self.note(run);
        let again = failure.is_some() && may_pass;
        match failure {
            Some(_) if refused => {} // It says nothing of the place.
            Some(cause) => self.failures.push(cause),
            None => self.failures.clear(),
        }
        if !again {
            self.finished.insert(cell.key.clone());
        }
        Ok(again)
    }

    fn learn(&mut self, record: &CellRecord) {
        self.sample(record);
        let Some(cell) = PastCell::of(record) else { return };
        self.end.load_s += cell.load_s;
        self.estimator.learn(&cell);
    }

    /// Notes the result of a cell, for decisions.
    fn sample(&mut self, record: &CellRecord) {
        let Some(measured) = record.measured() else { return };
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

    /// A cell for a bench; `None` if this version does not know it, which cannot happen in a study that was read.
    fn order(&self, cell: PlannedCell) -> Option<Order> {
        let key = &cell.key;
        let stack = key.stack.value()?.clone();
        let workload = key.workload.value()?.clone();
        let rule = self.study.rule(&key.stack, &key.workload)?;
        Some(Order {
            stack,
            workload,
            study: self.options.as_study.then(|| (self.study.name.clone(), self.hash.clone())),
            seed: key.seed(self.study.seed),
            trace: if key.untraced_twin { TraceMode::None } else { rule.trace },
            trace_to: self.options.trace_to.clone(),
            expected: self.estimator.cell(key),
            depends_on: self.dependencies(key),
            cell,
        })
    }
}
