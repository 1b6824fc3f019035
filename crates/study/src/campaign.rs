//! Runs the cells of a study in their order, keeps each result as soon as it is there, and stops at the budget.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nestor_build::Lab;
use nestor_load::Workload;
use nestor_stack::Stack;

use crate::cell::{CellEnd, CellRequest, run_cell};
use crate::plan::{CellKey, NotRun, PlannedCell, budget_ended};
use crate::record::CellRecord;
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
    /// A cell begins: the number of those done, of all, and the expected seconds until the end.
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
}

/// After so many failures in a row with the same message, the place is at fault and not the stacks.
const SAME_FAILURES: usize = 3;

/// Runs what is left of a study.
///
/// # Errors
/// When a result cannot be kept; those before it are.
pub fn run_campaign(
    lab: &mut Lab,
    study: &Study,
    store: &mut Store,
    options: &CampaignOptions,
    interrupted: &AtomicBool,
    watcher: &dyn Watcher,
) -> Result<CampaignEnd, StoreError> {
    let started = Instant::now();
    let ground = lab.place().to_string();
    let hash = study.hash(&ground);
    let usual_cell = store.usual_cell_s(&ground)?.map(Duration::from_secs_f64);
    let plan = study.plan(usual_cell);
    let mut finished = if options.as_study { store.finished(&hash)? } else { HashSet::new() };
    let mut cells = plan.remaining(&finished);
    let mut end = CampaignEnd { already_done: plan.cells.len() - cells.len(), ..CampaignEnd::default() };
    lab.make_room_for(&parsed_stacks(study));
    let mut failures: Vec<String> = Vec::new();
    let mut tried_again: HashSet<CellKey> = HashSet::new();
    // Said once, not once per replication.
    let mut refused: HashSet<String> = HashSet::new();
    let mut reason = String::new();
    let mut done = 0;
    while let Some(cell) = cells.get(done).cloned() {
        let mean_cell = mean_so_far(started.elapsed(), done).or(usual_cell);
        if study.budget.is_some_and(|budget| started.elapsed() + mean_cell.unwrap_or_default() > budget)
            && done > 0
        {
            reason = study.budget.map(budget_ended).unwrap_or_default();
            break;
        }
        let left = mean_cell.map(|mean| mean * u32::try_from(cells.len() - done).unwrap_or(u32::MAX));
        done += 1;
        if refused.contains(&cell.key.stack) {
            finished.insert(cell.key.clone());
            continue;
        }
        watcher.cell_begins(&cell.key, done - 1, cells.len(), left);
        let Some(CellEnd { record, refused: stack_refused }) =
            run_one(lab, study, &cell, options, &hash, watcher)
        else {
            continue;
        };
        if interrupted.load(Ordering::Relaxed) {
            reason = "interrupted".into();
            break;
        }
        let run = store.insert(&record)?;
        end.runs.push(run);
        finished.insert(cell.key.clone());
        watcher.cell_ended(&record, run);
        if stack_refused {
            refused.insert(cell.key.stack.clone());
        }
        match record.failure() {
            Some(message) => {
                failures.push(message.to_owned());
                // A machine may have died of something that has passed: once more, after all others. Both are kept.
                if options.as_study && !stack_refused && tried_again.insert(cell.key.clone()) {
                    cells.push(cell.clone());
                }
            }
            None => failures.clear(),
        }
        if failures.len() >= SAME_FAILURES
            && failures.iter().rev().take(SAME_FAILURES).all(|f| Some(f) == failures.last())
        {
            reason = format!("{SAME_FAILURES} cells in a row failed alike");
            break;
        }
    }
    end.not_run = plan.not_run(&finished, &reason);
    Ok(end)
}

fn mean_so_far(elapsed: Duration, done: usize) -> Option<Duration> {
    (done > 0).then(|| elapsed / u32::try_from(done).unwrap_or(u32::MAX))
}

fn parsed_stacks(study: &Study) -> Vec<Stack> {
    study.stacks.iter().filter_map(|text| Stack::parse(text).ok()).collect()
}

/// One cell; `None` for one whose notation does not parse, which a study that was read cannot have.
fn run_one(
    lab: &mut Lab,
    study: &Study,
    cell: &PlannedCell,
    options: &CampaignOptions,
    hash: &str,
    watcher: &dyn Watcher,
) -> Option<CellEnd> {
    let stack = Stack::parse(&cell.key.stack).ok()?;
    let workload = Workload::parse(&cell.key.workload).ok()?;
    let request = CellRequest {
        stack: &stack,
        workload: &workload,
        study: options.as_study.then_some(study.name.as_str()),
        study_hash: options.as_study.then_some(hash),
        block: cell.key.block,
        repeat: cell.key.repeat,
        position: cell.position,
        seed: study.seed.wrapping_mul(1_000_003).wrapping_add(u64::from(cell.key.block)),
        trace: if cell.key.untraced_twin { TraceMode::None } else { study.trace },
        untraced_twin: cell.key.untraced_twin,
        trace_to: options.trace_to.as_deref(),
    };
    Some(run_cell(lab, &request, &|what| watcher.step(what)))
}
