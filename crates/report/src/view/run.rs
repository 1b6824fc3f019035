//! One stack under one workload: `nestor run`.

use nestor_explain::Explanation;
use nestor_results::{
    CellSummary, Environment, LivesSummary, Mark, Measured, Physical, RunListing, StoredRun, WrittenStack,
    WrittenWorkload, checks, median_life, of_median_rate, summarise, trace_costs,
};
use nestor_stack::MachineName;
use serde::Serialize;

use super::{
    LayerRow, LifeView, LinkView, NetworkView, PathView, ProcessorTimeRow, ShortNames, TraceView, honesty,
    workload_words,
};
use crate::units;

/// Everything that is said of one stack under one workload.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunView {
    /// The stack.
    pub stack: WrittenStack,
    /// The workload.
    pub workload: WrittenWorkload,
    /// Its parameters in words.
    pub workload_words: String,
    /// Whether the storage can have given the numbers, which is said before them; `None` without runs that count.
    pub physical: Option<Physical>,
    /// Where it ran and what that means for the numbers.
    pub honesty: Vec<String>,
    /// The numbers of all runs together.
    pub summary: CellSummary,
    /// Whether the throughput settled, in words, for the shown run.
    pub steady: Option<String>,
    /// The run whose layers are shown: the one of median throughput.
    pub shown_run: Option<i64>,
    /// The layers of that run, application first.
    pub layers: Vec<LayerRow>,
    /// What instances of a cloud took over all runs; `None` without a life cycle.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lives_summary: Option<LivesSummary>,
    /// What each instance of the shown run went through.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lives: Vec<LifeView>,
    /// Instructions of an operation in that run, in virtual time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<PathView>,
    /// What the program of the load says of the processor time of each of its tests in that run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub processor_time: Vec<ProcessorTimeRow>,
    /// What went over networks, from the application down.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub networks: Vec<NetworkView>,
    /// The links whose frames were logged, from the application down.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<LinkView>,
    /// Its requests joined through the layers, where they were recorded.
    pub trace: Option<TraceView>,
    /// Why it is as fast as it is; set by callers that have more than one cell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub explanation: Option<Explanation>,
    /// Latencies of that run as histograms: class of operation, then (nanoseconds, operations).
    pub latency_histograms: Vec<(String, Vec<(u64, u64)>)>,
    /// Busy share of each machine's CPUs in that run, outermost first.
    pub cpu_busy: Vec<(MachineName, f64)>,
    /// Where that run was made, or the last if none has numbers.
    pub environment: Environment,
    /// Seconds that the run was measured, of its machine's clock.
    pub measured_s: Option<f64>,
    /// Real seconds that the load ran; `None` in runs of earlier versions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load_s: Option<f64>,
    /// Real seconds that the whole cell took.
    pub cell_s: f64,
    /// The digest of what came out of the shown run, which in virtual time is the same wherever it is run; `None` elsewhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome_digest: Option<String>,
    /// The numbers of all runs.
    pub runs: Vec<i64>,
    /// The shown run's record as kept, without the engine's own output.
    #[serde(skip)]
    pub record: Option<StoredRun>,
}

impl RunView {
    /// Puts the runs of one stack under one workload together. `None` without runs.
    pub fn of(runs: &[&StoredRun]) -> Option<Self> {
        let summary = summarise(runs)?;
        let lived = summary.is_without_operations().then(|| median_life(runs)).flatten();
        let shown = lived.or_else(|| median_run(runs)).or_else(|| runs.last().copied())?;
        let measured = shown.record.measured();
        let cost = trace_costs(runs).into_iter().next();
        let histograms = measured.map(|m| {
            let classes = m.load.operations.iter();
            classes.map(|(class, o)| (class.0.clone(), o.latency.buckets().collect())).collect()
        });
        let recorded = measured.map(|m| m.layers.as_slice()).unwrap_or_default();
        let names = ShortNames::of(shown.record.stack.value(), recorded);
        // Without a load and without a recording there is nothing to say of layers.
        let has_rows = |m: &&Measured| !m.has_only_lives() || m.layers.iter().any(|l| l.metrics.is_some());
        let layers = measured.filter(has_rows).map(|m| LayerRow::of(m, &names)).unwrap_or_default();
        Some(Self {
            stack: summary.stack.clone(),
            workload: summary.workload.clone(),
            workload_words: workload_words(&shown.record.workload),
            physical: Physical::of_runs(&runs.iter().map(|r| &r.record).collect::<Vec<_>>())
                .filter(|_| !summary.is_without_operations()),
            honesty: honesty(runs),
            lives_summary: LivesSummary::of(runs),
            lives: measured.map(LifeView::all_of).unwrap_or_default(),
            steady: measured
                .filter(|m| !m.has_only_lives())
                .and_then(|m| steady_words(m, &shown.record.marks)),
            shown_run: measured.map(|_| shown.number),
            networks: measured
                .map(|measured| NetworkView::all_of(summary.stack.value(), measured))
                .unwrap_or_default(),
            links: measured.map(LinkView::all_of).unwrap_or_default(),
            path: measured
                .zip(shown.record.environment.modelled_processor())
                .and_then(|(m, speed)| PathView::of(m, speed, &layers)),
            processor_time: measured.map(ProcessorTimeRow::all_of).unwrap_or_default(),
            layers,
            trace: measured.and_then(|m| TraceView::of_run(m, &names, cost.as_ref())),
            explanation: None,
            latency_histograms: histograms.unwrap_or_default(),
            cpu_busy: measured.map(|m| m.cpu_busy.clone()).unwrap_or_default(),
            environment: shown.record.environment.clone(),
            measured_s: measured.map(|m| m.load.elapsed_ns as f64 / 1e9),
            load_s: shown.record.load_s,
            cell_s: shown.record.cell_s,
            outcome_digest: Some(shown)
                .filter(|shown| shown.record.environment.is_in_virtual_time())
                .and_then(|shown| shown.record.outcome_digest().ok()),
            runs: runs.iter().map(|r| r.number).collect(),
            record: Some(without_engine_output(shown)),
            summary,
        })
    }
}

impl RunView {
    /// `measured for 10.0 s, whole cell 14.2 s`; in virtual time with the clock of each.
    pub(crate) fn times_in_words(&self) -> String {
        let (of_measuring, of_cell) = match self.environment.is_in_virtual_time() {
            true => (" of virtual time", " of real time"),
            false => ("", ""),
        };
        let measured = self.measured_s.map(|s| format!("measured for {}{of_measuring}, ", units::seconds(s)));
        format!("{}whole cell {}{of_cell}", measured.unwrap_or_default(), units::seconds(self.cell_s))
    }
}

/// Since when throughput was steady. `None` where the run is marked: the mark says why it was not.
fn steady_words(measured: &Measured, marks: &[Mark]) -> Option<String> {
    let marked = marks.iter().any(|mark| matches!(mark, Mark::NotSteady { .. }));
    match (checks::steady_after_s(measured), marked) {
        (Some(0), _) => Some("steady from the start".to_owned()),
        (Some(s), false) => Some(format!("steady after {s} s")),
        // The number is over the whole time, so it is not the steady one.
        (Some(s), true) => Some(format!("steady only after {s} s")),
        (None, true) => None,
        (None, false) if !checks::bytes_by_second(measured).is_empty() => {
            Some("steady over its rounds, but not from second to second".to_owned())
        }
        (None, false) => Some("steady or not is unknown: nothing counts its bytes per second".to_owned()),
    }
}

/// The run of median throughput; of an even number the slower of the two in the middle. One whose numbers contradict
/// themselves is shown only where there is no other.
fn median_run<'a>(runs: &[&'a StoredRun]) -> Option<&'a StoredRun> {
    let honest = runs.iter().any(|r| r.record.measured().is_some() && !r.record.violates_an_identity());
    // An untraced repeat has nothing to show but its throughput.
    let shown =
        runs.iter().filter(|r| !(r.record.untraced_twin || honest && r.record.violates_an_identity()));
    of_median_rate(shown.filter_map(|r| Some((r.record.measured()?.load.bytes_per_second(), *r))))
}

fn without_engine_output(run: &StoredRun) -> StoredRun {
    let mut run = run.clone();
    if let nestor_results::Outcome::Measured(measured) = &mut run.record.outcome {
        let bytes = measured.load.engine_output.len();
        // Hundreds of requests, for `nestor explain`; those that are shown are beside it.
        measured.correlation.iter_mut().for_each(|correlation| correlation.timeline.clear());
        measured.load.engine_output =
            format!("not shown here: {bytes} bytes, stored with run {}", run.number);
    }
    run
}

/// A list of runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunsView {
    /// The runs, newest first.
    pub runs: Vec<RunListing>,
    /// How many there are in all.
    pub total: usize,
}
