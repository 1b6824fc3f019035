//! Makes the report of a study from its runs in numbers, reading the whole record of one run per cell.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::convert::Infallible;

use nestor_results::{
    CellNumbers, CellSample, Comparison, CountedMark, Decisions, LivesCompared, Mark, NotRun, RunNumbers,
    StoredRun, Study, StudyRecord, Written, WrittenStack,
};

use super::answer::{answer, physical};
use super::method::method;
use super::why::{ShownBaselines, ShownRun, Why};
use super::{CellReport, KnownMark, StoppedComparison, StudyReport, StudyTimes};
use crate::view::matrix::matrices;
use crate::view::{RunView, honesty_in, workload_words};

/// Gives the whole record of a run.
type Read<'a, E> = &'a mut dyn FnMut(i64) -> Result<StoredRun, E>;

/// The runs of a study by stack and workload.
type ByCell<'a> = HashMap<(&'a str, &'a str), &'a CellNumbers>;

impl StudyReport {
    /// Makes the report of a study from its runs (those of its hash, the latest of each cell) where they are at hand. Many
    /// runs are better read one by one: [`Self::read`].
    pub fn of(record: &StudyRecord, runs: &[StoredRun]) -> Self {
        let mut by_cell: BTreeMap<(&str, &str), Vec<&StoredRun>> = BTreeMap::new();
        for run in runs {
            by_cell.entry((&run.record.stack, &run.record.workload)).or_default().push(run);
        }
        let cells: Vec<CellNumbers> = by_cell.values().filter_map(|runs| CellNumbers::of(runs)).collect();
        let by_number: HashMap<i64, &StoredRun> = runs.iter().map(|run| (run.number, run)).collect();
        let read = Self::read(record, &cells, &mut |number| Ok::<_, Infallible>(by_number[&number].clone()));
        match read {
            Ok(report) => report,
        }
    }

    /// Makes the report of a study from the numbers of its runs. `read` is asked for one whole run of each cell, for those of
    /// baselines first. The caller that queries the results adds claims and figures.
    ///
    /// # Errors
    ///
    /// What `read` says.
    pub fn read<E>(record: &StudyRecord, cells: &[CellNumbers], read: Read<'_, E>) -> Result<Self, E> {
        let study = &record.study;
        let samples: Vec<CellSample> = cells.iter().flat_map(CellNumbers::decision_samples).collect();
        let decisions = Decisions::of(study, &samples, None);
        let reports = cell_reports(record, cells, &decisions, read)?;
        let (common_marks, other_marks) = marks(&reports);
        let runs = || cells.iter().flat_map(|c| &c.runs);
        let stopping: Vec<StoppedComparison> = decisions
            .iter()
            .map(|(stack, workload, decision)| StoppedComparison {
                stack: stack.clone(),
                workload: workload.clone(),
                decision: decision.clone(),
            })
            .collect();
        let times = times(runs());
        Ok(Self {
            name: study.name.clone(),
            title: study.title.clone(),
            scale: study.scale.clone(),
            physical: physical(&reports),
            answer: answer(&reports),
            honesty: honesty(cells),
            method: method(record, &reports, &stopping, &times),
            matrices: matrices(study, &reports, &common_marks),
            claims: Vec::new(),
            findings: Vec::new(),
            figures: Vec::new(),
            stopping,
            times,
            common_marks,
            other_marks,
            first_started_at: runs().map(|r| r.started_at.clone()).min(),
            study: record.clone(),
            workloads: study.workloads.iter().map(|w| (w.to_string(), workload_words(w))).collect(),
            cells: reports,
        })
    }
}

/// The cells of each workload in the study's order.
fn cell_reports<E>(
    record: &StudyRecord,
    cells: &[CellNumbers],
    decisions: &Decisions,
    read: Read<'_, E>,
) -> Result<Vec<CellReport>, E> {
    let study = &record.study;
    let numbers: ByCell<'_> = cells.iter().map(|c| ((c.stack.as_str(), c.workload.as_str()), c)).collect();
    let mut missing = not_run(record, decisions, cells);
    let mut comparisons = comparisons(study, &numbers);
    let mut lives = lives_compared(study, &numbers);
    let mut reports = Vec::new();
    for workload in &study.workloads {
        let mut baselines = ShownBaselines::new();
        let is_shown = |stack: &WrittenStack| {
            let was_run = numbers.contains_key(&(stack.as_str(), workload.as_str()));
            study.runs(stack, workload) || was_run && study.holds(stack, workload)
        };
        let mut held: Vec<(usize, &WrittenStack)> =
            study.stacks.iter().enumerate().filter(|(_, stack)| is_shown(stack)).collect();
        // A baseline is read once, for its own cell and for all that are compared with it.
        held.sort_by_key(|(_, stack)| !study.is_baseline(stack));
        let mut under: Vec<(usize, CellReport)> = Vec::new();
        for (place, stack) in held {
            let key = (stack.as_str(), workload.as_str());
            let empty = CellReport {
                stack: stack.clone(),
                workload: workload.clone(),
                is_baseline: study.is_baseline(stack) && !study.is_apart(stack, workload),
                is_apart: study.is_apart(stack, workload),
                run: None,
                by_layers: None,
                comparison: comparisons.remove(&key),
                lives: lives.remove(&key),
                not_run: missing.remove(&key).unwrap_or_default(),
            };
            under.push((place, cell(study, empty, &numbers, &mut baselines, read)?));
        }
        under.sort_by_key(|(place, _)| *place);
        reports.extend(under.into_iter().map(|(_, cell)| cell));
    }
    Ok(reports)
}

fn times<'a>(runs: impl Iterator<Item = &'a RunNumbers>) -> StudyTimes {
    let mut times = StudyTimes::default();
    for run in runs {
        match run.measured_s {
            Some(measured_s) => {
                times.measured_runs += 1;
                times.load_s += run.load_s.unwrap_or(measured_s.min(run.cell_s));
            }
            None => times.failed_runs += 1,
        }
        times.cells_s += run.cell_s;
    }
    times
}

/// Where the runs were made, in the order in which they were.
fn honesty(cells: &[CellNumbers]) -> Vec<String> {
    let mut runs: Vec<&RunNumbers> = cells.iter().flat_map(|c| &c.runs).collect();
    runs.sort_by_key(|r| r.number);
    // Runs of equal conditions share them, and follow one another.
    runs.dedup_by(|a, b| std::sync::Arc::ptr_eq(&a.conditions, &b.conditions));
    honesty_in(runs.iter().map(|r| &*r.conditions))
}

/// Cells without a result by stack and workload. Those of comparisons that are settled are not missing.
fn not_run<'a>(
    record: &'a StudyRecord,
    decisions: &Decisions,
    cells: &'a [CellNumbers],
) -> HashMap<(&'a str, &'a str), Vec<NotRun>> {
    let study = &record.study;
    let done: HashSet<(&str, &str, u32, u32)> = cells
        .iter()
        .flat_map(|c| c.runs.iter().map(|r| (c.stack.as_str(), c.workload.as_str(), r.block, r.repeat)))
        .collect();
    let reason = record.ended_early.as_deref().unwrap_or("not reached yet");
    let mut missing: HashMap<(&str, &str), Vec<NotRun>> = HashMap::new();
    // The untraced repeats of traced cells are no cells of the report.
    let planned = study.all_cells(record.sentinels, decisions).into_iter().filter(|key| !key.untraced_twin);
    for key in planned {
        if done.contains(&(key.stack.as_str(), key.workload.as_str(), key.block, key.repeat)) {
            continue;
        }
        let (Some(stack), Some(workload)) =
            (own(&study.stacks, &key.stack), own(&study.workloads, &key.workload))
        else {
            continue;
        };
        missing.entry((stack, workload)).or_default().push(NotRun { key, reason: reason.to_owned() });
    }
    missing
}

/// The study's own copy of a name.
fn own<'a, T>(all: &'a [Written<T>], name: &Written<T>) -> Option<&'a str> {
    all.iter().find(|other| *other == name).map(Written::as_str)
}

/// The cells that are compared, each with its baseline.
fn with_baselines<'a, 'b>(
    study: &'b Study,
    numbers: &'b ByCell<'a>,
) -> impl Iterator<Item = (&'a CellNumbers, &'a CellNumbers)> + 'b {
    numbers.values().filter_map(|cell| {
        let base = study.compared_with(&cell.stack, &cell.workload)?;
        Some((*cell, *numbers.get(&(base.as_str(), cell.workload.as_str()))?))
    })
}

/// The lives of each cell that has some beside those of its baseline.
fn lives_compared<'a>(study: &Study, numbers: &ByCell<'a>) -> HashMap<(&'a str, &'a str), LivesCompared> {
    let against = |(cell, base): (&'a CellNumbers, &CellNumbers)| {
        Some(((cell.stack.as_str(), cell.workload.as_str()), cell.lives_against(base, study)?))
    };
    with_baselines(study, numbers).filter_map(against).collect()
}

/// Each cell against its baseline. The tests for drift are most of the work of a large study, and need nothing of each
/// other.
fn comparisons<'a>(study: &'a Study, numbers: &ByCell<'a>) -> HashMap<(&'a str, &'a str), Comparison> {
    let pairs: Vec<(&CellNumbers, &CellNumbers)> = with_baselines(study, numbers).collect();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let share = pairs.len().div_ceil(threads).max(1);
    std::thread::scope(|scope| {
        let work = |pairs: &[(&'a CellNumbers, &CellNumbers)]| -> Vec<_> {
            let key = |cell: &'a CellNumbers| (cell.stack.as_str(), cell.workload.as_str());
            pairs.iter().map(|(cell, base)| (key(cell), cell.against(base, study))).collect()
        };
        let started: Vec<_> = pairs.chunks(share).map(|pairs| scope.spawn(move || work(pairs))).collect();
        started.into_iter().flat_map(|thread| thread.join().expect("a comparison does not panic")).collect()
    })
}

/// Fills in what the shown run of a cell says.
fn cell<E>(
    study: &Study,
    mut report: CellReport,
    numbers: &ByCell<'_>,
    baselines: &mut ShownBaselines,
    read: Read<'_, E>,
) -> Result<CellReport, E> {
    let cell_of = |stack: &str| numbers.get(&(stack, report.workload.as_str())).copied();
    let with_runs = |stack: &str| cell_of(stack).filter(|c| !c.runs.is_empty());
    let Some(cell) = with_runs(&report.stack) else { return Ok(report) };
    let Some(run) = cell.shown_run().map(&mut *read).transpose()? else { return Ok(report) };
    let shown = ShownRun::of(&run);
    let baseline = study.baseline_of(&report.stack);
    let is_compared = !report.is_baseline && !report.is_apart;
    if is_compared && !baselines.contains_key(baseline) {
        let run = with_runs(baseline).and_then(CellNumbers::shown_run).map(&mut *read).transpose()?;
        baselines.insert(baseline.clone(), run.as_ref().and_then(ShownRun::of));
    }
    let why = shown.as_ref().map(|shown| {
        let base = if is_compared { baselines.get(baseline).and_then(Option::as_ref) } else { None };
        let told_apart = report.comparison.as_ref().and_then(|c| c.ratio?.differs());
        Why::of(baseline, &report, shown, base, told_apart)
    });
    let why = why.unwrap_or_default();
    report.run = run_view(study, cell, &run).map(|view| RunView { explanation: why.by_requests, ..view });
    report.by_layers = why.by_layers;
    if report.is_baseline {
        baselines.insert(report.stack.clone(), shown);
    }
    Ok(report)
}

/// The cell's numbers over the layers of the run that is shown. The record itself is left out: those of hundreds of cells
/// would be most of the report, and `nestor report RUN` shows each.
fn run_view(study: &Study, cell: &CellNumbers, shown: &StoredRun) -> Option<RunView> {
    let view = RunView::of(&[shown])?;
    let mut places: Vec<_> = cell.runs.iter().map(|run| &*run.conditions).collect();
    places.dedup();
    Some(RunView {
        honesty: honesty_in(places.into_iter()),
        summary: cell.summary(),
        lives_summary: cell.lives(study),
        runs: cell.runs.iter().map(|r| r.number).collect(),
        record: None,
        ..view
    })
}

/// Marks that all measured cells have, and those that only some have or that keep a cell from being measured.
fn marks(cells: &[CellReport]) -> (Vec<KnownMark>, Vec<KnownMark>) {
    let of_cell =
        |marks: &[CountedMark]| -> BTreeSet<&'static str> { marks.iter().map(|m| m.mark.name()).collect() };
    let runs = || cells.iter().filter_map(|c| c.run.as_ref()).map(|r| &r.summary);
    let measured = runs().filter(|s| s.bytes_per_second.is_some());
    let names: Vec<BTreeSet<&str>> = measured.map(|s| of_cell(&s.marks)).collect();
    let mut common = Vec::new();
    let mut other: Vec<KnownMark> = Vec::new();
    for mark in runs().flat_map(|s| &s.marks).map(|m| &m.mark) {
        let known = KnownMark {
            name: mark.name(),
            is_emulation: *mark == Mark::EmulatedCpu,
            letter: mark.letter(),
            meaning: mark.meaning(),
        };
        if common.contains(&known) || other.contains(&known) {
            continue;
        }
        let everywhere = !names.is_empty() && names.iter().all(|names| names.contains(mark.name()));
        let list = if everywhere { &mut common } else { &mut other };
        list.push(known);
    }
    (common, other)
}
