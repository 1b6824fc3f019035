//! One stack under one workload: what the template of a cell is given.

use minijinja::Value;
use nestor_results::{CellSummary, Comparison, Mark};
use nestor_stack::MachineName;
use nestor_statistics::LatencySummary;
use nestor_workload::RateUnit;
use serde::Serialize;

use super::findings::{FindingsPage, LayersWhyPage};
use super::heat::direction;
use super::layer_colour::LayerColour;
use super::life::{LivesPage, whole_life};
use super::measured::{CommonPlace, machine_words};
use super::record::readable_json;
use super::trace::{Pictures, TracePage};
use super::{charts, sentence, typeset};
use crate::units;
use crate::view::{CellReport, LayerRow, NetworkView, PathView, ProcessorTimeRow, RunView};

/// Charts escape by themselves.
fn chart(svg: Option<String>) -> Value {
    svg.map_or(Value::from(()), Value::from_safe_string)
}

/// One stack under one workload. The template sees the fields of its parts as its own.
#[derive(Serialize)]
pub(super) struct CellPage {
    anchor: String,
    stack: String,
    workload: String,
    workload_words: String,
    is_baseline: bool,
    is_apart: bool,
    #[serde(flatten)]
    throughput: ThroughputPage,
    #[serde(flatten)]
    change: ChangePage,
    #[serde(flatten)]
    trust: TrustPage,
    latencies: Vec<LatencyPage>,
    lives: Option<LivesPage>,
    #[serde(flatten)]
    way: WayPage,
    why: Option<FindingsPage>,
    by_layers: Option<LayersWhyPage>,
    trace: Option<TracePage>,
    #[serde(flatten)]
    conditions: ConditionsPage,
    json: String,
}

/// How fast it was, and in which runs.
#[derive(Serialize)]
struct ThroughputPage {
    rate: Option<String>,
    /// The whole life and of what it is, where no load gives a throughput.
    whole_life: Option<(String, String)>,
    interval: String,
    iops: String,
    stacks: String,
    samples: Value,
    shown_run: Option<i64>,
    several: bool,
    runs: String,
}

/// Against the baseline.
#[derive(Serialize)]
struct ChangePage {
    change: Option<String>,
    change_interval: String,
    direction: &'static str,
    how_sure: String,
    doubts: Vec<String>,
}

/// Whether the numbers can be trusted.
#[derive(Serialize)]
struct TrustPage {
    physical: Vec<String>,
    violations: Vec<(i64, String)>,
    steady: String,
    marks: Vec<(String, String, String)>,
    failures: Vec<(String, String)>,
}

/// The way of the requests through the layers.
#[derive(Serialize)]
struct WayPage {
    layers: Vec<LayerPage>,
    disk: Option<DiskPage>,
    certainty: String,
    /// Instructions of an operation; empty where they were not counted.
    path: String,
    /// Processor time of tests; empty where their program does not say it.
    processor_time: String,
    /// What went over each network, in words.
    networks: Vec<String>,
}

/// Where it ran.
#[derive(Serialize)]
struct ConditionsPage {
    remarks: Vec<String>,
    machines: Vec<MachinePage>,
    settings: Vec<(String, String)>,
    packages: Vec<(String, String)>,
    times: String,
}

#[derive(Serialize)]
struct LatencyPage {
    class: String,
    p50: String,
    p90: String,
    p99: String,
    max: String,
    chart: Value,
}

#[derive(Serialize)]
struct LayerPage {
    name: String,
    full_name: String,
    role: String,
    machine: String,
    /// Class of its colour.
    colour: &'static str,
    recorded: String,
    requests: String,
    issued: String,
    bytes: String,
    /// Width of the bar in per cent.
    bar: f64,
    times_above: String,
    times_application: String,
    merged: String,
    q2i: Stage,
    i2d: Stage,
    d2c: Stage,
    q2c: Stage,
    adds: String,
    sizes: Value,
}

/// Median and 99th percentile.
#[derive(Serialize)]
struct Stage {
    p50: String,
    p99: String,
}

#[derive(Serialize)]
struct DiskPage {
    bar: Value,
    total: String,
    cache_hits: String,
}

#[derive(Serialize)]
struct MachinePage {
    label: String,
    words: String,
    memory: String,
    busy: String,
}

impl CellPage {
    /// `pictures`: how much of its traces is drawn.
    pub(super) fn of(
        anchor: String,
        run: &RunView,
        cell: Option<&CellReport>,
        highest: f64,
        pictures: Pictures,
    ) -> Self {
        Self {
            anchor,
            stack: run.stack.to_string(),
            workload: run.workload.to_string(),
            workload_words: run.workload_words.clone(),
            is_baseline: cell.is_some_and(|c| c.is_baseline),
            is_apart: cell.is_some_and(|c| c.is_apart),
            throughput: ThroughputPage::of(run, cell.is_some(), highest),
            change: ChangePage::of_cell(cell),
            trust: TrustPage::of(run),
            latencies: latencies(run),
            lives: LivesPage::of(run),
            way: WayPage::of(run),
            why: run.explanation.as_ref().map(FindingsPage::of),
            by_layers: cell.and_then(|c| c.by_layers.as_ref()).map(LayersWhyPage::of),
            trace: TracePage::of(run.trace.as_ref(), &run.layers, pictures),
            conditions: ConditionsPage::of(run),
            json: run.record.as_ref().and_then(readable_json).unwrap_or_default(),
        }
    }
}

impl ThroughputPage {
    fn of(run: &RunView, is_beside_others: bool, highest: f64) -> Self {
        let summary = &run.summary;
        let (mean, unit) = (summary.throughput(), summary.rate_unit());
        let values = summary.rates();
        let spread = mean.and_then(|m| units::spread(&m, &values, unit));
        let operations = summary.operations_per_second.filter(|_| unit == RateUnit::BytesPerSecond);
        // One dot says something beside those of other cells only.
        let compared = mean.filter(|_| is_beside_others || values.len() > 1);
        Self {
            whole_life: whole_life(run),
            rate: mean.map(|m| typeset(&unit.words(m.value))),
            interval: spread.as_deref().map(typeset).unwrap_or_default(),
            iops: operations.map(|m| typeset(&units::iops(m.value))).unwrap_or_default(),
            stacks: mean.map(|m| units::fresh_stacks(m.samples)).unwrap_or_default(),
            samples: chart(compared.map(|m| charts::samples_strip(&values, unit, &m, highest * 1.05))),
            shown_run: run.shown_run,
            several: run.runs.len() > 1,
            runs: units::listed(&run.runs),
        }
    }
}

impl ChangePage {
    /// Where no load ran, of whole lives.
    fn of_cell(cell: Option<&CellReport>) -> Self {
        let page = Self::of(cell.and_then(|c| c.comparison.as_ref()));
        let lives = cell.and_then(|c| c.lives.as_ref()).filter(|lives| lives.are_all);
        let Some((lives, ratio)) = lives.and_then(|lives| Some((lives, lives.ratio?))) else { return page };
        let interval = units::change_interval(&ratio);
        Self {
            change: Some(typeset(&format!("life {}", units::change(&ratio)))),
            change_interval: interval.as_deref().map(typeset).unwrap_or_default(),
            how_sure: typeset(&crate::text::certainty(&ratio, lives.paired, true, None)),
            ..page
        }
    }

    fn of(comparison: Option<&Comparison>) -> Self {
        let ratio = comparison.and_then(|c| c.ratio);
        let interval = ratio.and_then(|r| units::change_interval(&r));
        let doubts = comparison.into_iter().flat_map(|c| &c.doubts);
        Self {
            change: ratio.map(|r| typeset(&units::change(&r))),
            change_interval: interval.as_deref().map(typeset).unwrap_or_default(),
            direction: ratio.map_or("", |r| direction(&r)),
            how_sure: comparison.map(how_sure).unwrap_or_default(),
            doubts: doubts.map(|doubt| doubt.words.clone()).collect(),
        }
    }
}

impl TrustPage {
    fn of(run: &RunView) -> Self {
        let summary = &run.summary;
        Self {
            physical: run.physical.iter().map(|p| sentence(&p.words())).collect(),
            violations: summary.violations.iter().map(|v| (v.run, v.identity.clone())).collect(),
            steady: run.steady.as_deref().map(typeset).unwrap_or_default(),
            marks: marks(summary),
            failures: summary.failures.iter().map(|f| (f.run.to_string(), f.reason.clone())).collect(),
        }
    }
}

impl WayPage {
    fn of(run: &RunView) -> Self {
        Self {
            layers: layers(&run.layers),
            disk: run.layers.iter().find_map(disk),
            certainty: run.trace.as_ref().map(|t| sentence(&t.certainty.join("; "))).unwrap_or_default(),
            networks: run.networks.iter().map(network_words).collect(),
            path: run.path.as_ref().map(path_words).unwrap_or_default(),
            processor_time: processor_time_words(&run.processor_time),
        }
    }
}

impl ConditionsPage {
    fn of(run: &RunView) -> Self {
        Self {
            remarks: remarks(run),
            machines: machines(run),
            settings: run.environment.settings.iter().map(|(k, v)| (k.clone(), v.clone())).collect(),
            packages: run.environment.packages.iter().map(|(k, v)| (k.clone(), v.clone())).collect(),
            times: times(run),
        }
    }
}

fn remarks(run: &RunView) -> Vec<String> {
    let of_layer = |l: &LayerRow| {
        l.remarks.iter().map(|r| format!("{}: {r}", l.name_among(&run.layers))).collect::<Vec<_>>()
    };
    let of_place = run.environment.all_remarks().map(str::to_owned);
    of_place.chain(run.layers.iter().flat_map(of_layer)).collect()
}

fn times(run: &RunView) -> String {
    let digest = run.outcome_digest.as_ref().map(|digest| format!("; outcome {digest}")).unwrap_or_default();
    format!("{}{digest}", run.times_in_words())
}

/// Instructions of an operation, in a sentence.
fn network_words(network: &NetworkView) -> String {
    let calls: Vec<String> = network
        .procedures
        .iter()
        .map(|row| match row.per_operation {
            Some(each) => format!("{} {} ({each:.3} per operation)", row.procedure, units::count(row.calls)),
            None => format!("{} {}", row.procedure, units::count(row.calls)),
        })
        .collect();
    sentence(&format!("Calls of {}: {}; {}", network.layer, calls.join(", "), network.link_words()))
}

/// Processor time of tests, in a sentence.
fn processor_time_words(rows: &[ProcessorTimeRow]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let each = |row: &ProcessorTimeRow| {
        row.cpu_per_operation_ns
            .map(|ns| format!(" ({} per operation)", units::duration_ns(ns)))
            .unwrap_or_default()
    };
    let tests: Vec<String> = rows
        .iter()
        .map(|row| format!("{} {}{}", row.class, units::percent(row.cpu_percent / 100.0), each(row)))
        .collect();
    sentence(&format!("Processor time, as the program says it of its own machine: {}", tests.join(", ")))
}

fn path_words(path: &PathView) -> String {
    let count = |instructions: f64| typeset(&units::count(instructions.round() as u64));
    let parts: Vec<String> = path
        .parts
        .iter()
        .map(|part| format!("{} {}", part.executor.name(), count(part.per_operation)))
        .collect();
    let together = count(path.together_per_operation);
    sentence(&format!("Instructions per operation: {}; total {together}", parts.join(", ")))
}

impl CellPage {
    /// Leaves out what a study's page says once for all cells.
    pub(super) fn in_study(&mut self, common: &CommonPlace) {
        let own = &mut self.conditions;
        own.settings.retain(|pair| !common.settings.contains(pair));
        own.remarks.retain(|remark| !common.remarks.contains(remark));
        own.packages.retain(|pair| !common.packages.contains(pair));
        for machine in &mut own.machines {
            if common.machines.iter().any(|(label, words)| *label == machine.label && *words == machine.words)
            {
                machine.words.clear();
            }
        }
    }
}

fn how_sure(comparison: &Comparison) -> String {
    let mut parts = Vec::new();
    if let Some(ratio) = &comparison.ratio {
        parts.push(match (comparison.paired, ratio.pairs) {
            (true, 1) => "1 pair: no interval".to_owned(),
            (true, n) => format!("{n} pairs"),
            (false, _) => "not paired".to_owned(),
        });
        if ratio.differs() == Some(false) {
            parts.push("not told apart from the baseline".to_owned());
        }
    }
    parts.push(if comparison.random_order {
        "order random".to_owned()
    } else {
        "order not random".to_owned()
    });
    parts.push(typeset(&crate::text::drift_words(&comparison.drift)));
    if let Some(bootstrap) = comparison.bootstrap.as_ref().and_then(units::change_interval) {
        parts.push(format!("bootstrap {}", typeset(&bootstrap)));
    }
    parts.join(", ")
}

fn latencies(run: &RunView) -> Vec<LatencyPage> {
    let time = |ns: u64| typeset(&units::duration_ns(ns as f64));
    let histogram = |class: &str| run.latency_histograms.iter().find(|(c, _)| c == class).map(|(_, b)| b);
    let page = |(class, l): (&String, &LatencySummary)| LatencyPage {
        class: class.clone(),
        p50: time(l.p50_ns),
        p90: time(l.p90_ns),
        p99: time(l.p99_ns),
        max: time(l.max_ns),
        chart: chart(histogram(class).and_then(|buckets| charts::latency_histogram(buckets))),
    };
    run.summary.latency.iter().map(page).collect()
}

fn marks(summary: &CellSummary) -> Vec<(String, String, String)> {
    let runs = summary.samples.len();
    let share = |n: usize| if runs > 1 { format!("in {n} of {runs} runs") } else { String::new() };
    // Emulation is said once, at the top of the page.
    let marks = summary.marks.iter().filter(|m| m.mark != Mark::EmulatedCpu);
    marks.map(|m| (m.mark.meaning().to_owned(), share(m.runs), sentence(&m.mark.detail()))).collect()
}

fn layers(rows: &[LayerRow]) -> Vec<LayerPage> {
    let most = rows.iter().filter_map(|r| r.bytes).max().unwrap_or(1).max(1) as f64;
    let sizes = || rows.iter().flat_map(|r| &r.sizes).map(|(size, _)| *size);
    let range = (sizes().min().unwrap_or(0), sizes().max().unwrap_or(0));
    rows.iter().map(|row| layer(row, most, range)).collect()
}

fn layer(row: &LayerRow, most_bytes: f64, sizes: (u64, u64)) -> LayerPage {
    let or_dash = |text: Option<String>| text.map_or_else(|| "–".to_owned(), |t| typeset(&t));
    let stage = |latency: &Option<LatencySummary>| Stage {
        p50: or_dash(latency.map(|l| units::latency_ns(l.p50_ns))),
        p99: or_dash(latency.map(|l| units::latency_ns(l.p99_ns))),
    };
    LayerPage {
        name: row.short_name.clone(),
        full_name: row.layer.clone(),
        role: row.role.to_string(),
        machine: row.machine.to_string(),
        colour: LayerColour::of_row(row).class(),
        recorded: row.trace_point.unwrap_or("not recorded").to_owned(),
        requests: or_dash(row.requests.map(units::count)),
        issued: or_dash(row.issued.map(units::count)),
        bytes: or_dash(row.bytes.map(units::bytes)),
        bar: row.bytes.map_or(0.0, |b| b as f64 / most_bytes * 100.0),
        times_above: or_dash(row.times_above.map(|t| format!("{t:.2}"))),
        times_application: or_dash(row.times_application.map(|t| format!("{t:.2}"))),
        merged: or_dash(row.merged_share.map(units::share)),
        q2i: stage(&row.q2i),
        i2d: stage(&row.i2d),
        // An operation of the application goes from queue to completion; what is below it is not split off.
        d2c: stage(&row.service.filter(|_| !row.is_application())),
        q2c: stage(&row.q2c.or(row.service.filter(|_| row.is_application()))),
        adds: typeset_sentence(&row.adds()),
        sizes: chart(charts::size_histogram(&row.sizes, sizes)),
    }
}

/// A sentence can be broken between its parts, and within those that are too long for a narrow column.
fn typeset_sentence(text: &str) -> String {
    const FITS: usize = 22;
    let text = text.strip_prefix('-').map_or_else(|| text.to_owned(), |rest| format!("−{rest}"));
    let whole = |part: &str| {
        if part.chars().count() <= FITS { part.replace(' ', "\u{a0}") } else { part.to_owned() }
    };
    units::listed(text.split(", ").map(whole))
}

fn disk(row: &LayerRow) -> Option<DiskPage> {
    let shares = row.service_shares.as_ref()?;
    Some(DiskPage {
        bar: chart(Some(charts::service_bar(shares))),
        total: format!("{:.1} s", shares.total_s),
        cache_hits: units::count(shares.cache_hits),
    })
}

fn machines(run: &RunView) -> Vec<MachinePage> {
    let busy = |label: &MachineName| {
        run.cpu_busy.iter().find(|(l, _)| l == label).map(|(_, busy)| units::percent(*busy))
    };
    let page = |m: &nestor_results::MachineRecord| {
        let (label, words) = machine_words(m);
        MachinePage {
            busy: busy(&m.label).unwrap_or_else(|| "–".to_owned()),
            label,
            words,
            memory: units::bytes(m.memory_bytes),
        }
    };
    run.environment.machines.iter().map(page).collect()
}
