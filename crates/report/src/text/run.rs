//! What `nestor run` prints.

use nestor_results::{Physical, PhysicalVerdict};
use nestor_text::{Align, Table};
use nestor_workload::RateUnit;

use super::life::{life_tables, whole_life};
use super::network::{link_table, network_table};
use super::{Lines, header, honesty_lines, mark_lines, message_lines, or_dash, with_command};
use crate::style::Style;
use crate::units;
use crate::view::{LayerRow, PathView, ProcessorTimeRow, RunView};

/// One stack under one workload, from the answer down to the settings.
pub fn run_text(view: &RunView, style: Style) -> String {
    let mut lines = Lines::default();
    lines.extend(header(style, &view.stack, &view.workload, &view.workload_words));
    lines.extend(view.physical.iter().flat_map(|physical| physical_lines(style, true, "", physical)));
    lines.extend(honesty_lines(style, &view.honesty));
    lines.gap();
    lines.extend(answer(view, style));
    let runs = view.summary.measured_runs();
    lines.extend(mark_lines(style, &view.summary.marks, runs));
    for violation in &view.summary.violations {
        let words = format!(
            "run {} violates an identity and is excluded from the means: {}",
            violation.run, violation.identity
        );
        lines.extend(style.wrapped("  ", 4, &words).into_iter().map(|line| style.wrong(&line)));
    }
    for failure in &view.summary.failures {
        lines.push(&style.wrong(&format!("  run {} failed:", failure.run)));
        lines.extend(message_lines(4, &failure.reason));
    }
    if !view.processor_time.is_empty() {
        lines.gap();
        lines.extend(processor_time_table(&view.processor_time, style));
    }
    if !view.lives.is_empty() {
        lines.extend(life_tables(&view.lives, style));
        if let (Some(shown), true) = (view.shown_run, runs > 1) {
            lines.push(&style.faint(&format!("  of run {shown}, the one with median {}", shown_by(view))));
        }
    }
    if !view.layers.is_empty() {
        lines.gap();
        lines.extend(layer_table(&view.layers, style));
        if let (Some(shown), true) = (view.shown_run, runs > 1) {
            let said =
                format!("layers of run {shown}, the one with median {}; times are medians", shown_by(view));
            lines.extend(style.wrapped("  ", 2, &said).iter().map(|line| style.faint(line)));
        } else {
            lines.push(&style.faint("  times are medians"));
        }
    }
    lines.extend(below_the_layers(view, style));
    lines.gap();
    lines.extend(environment(view, style));
    lines.extend(saved_as(view, style));
    lines.finish()
}

/// What the shown run is the median of.
fn shown_by(view: &RunView) -> &'static str {
    if view.summary.is_without_operations() { "life" } else { "throughput" }
}

/// What is said of the way to the medium beside the layers.
fn below_the_layers(view: &RunView, style: Style) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    lines.extend(view.networks.iter().flat_map(|network| network_table(network, style)));
    lines.extend(view.links.iter().flat_map(|link| link_table(link, style)));
    lines.extend(view.path.iter().flat_map(|path| path_table(path, style)));
    lines.extend(trace_remarks(view, style));
    lines.extend(certainty(view, style));
    lines
}

/// `physically plausible? yes: …`, or without the question, indented below it: `  candidate yes: …`.
pub(super) fn physical_lines(style: Style, question: bool, side: &str, physical: &Physical) -> Vec<String> {
    let answer = format!("{side}{}", physical.words());
    let lines = match question {
        true => style.wrapped("", 2, &format!("physically plausible? {answer}")),
        false => style.wrapped("  ", 4, &answer),
    };
    match physical.verdict {
        PhysicalVerdict::Yes => lines,
        PhysicalVerdict::No => lines.iter().map(|line| style.wrong(line)).collect(),
        PhysicalVerdict::CannotTell => lines.iter().map(|line| style.caution(line)).collect(),
    }
}

fn answer(view: &RunView, style: Style) -> Vec<String> {
    let (unit, rates) = (view.summary.rate_unit(), view.summary.rates());
    if let (true, Some(lives)) = (view.summary.is_without_operations(), &view.lives_summary) {
        return whole_life(lives, style);
    }
    let Some(mean) = view.summary.throughput() else {
        let reason = match view.summary.violations.len() {
            _ if view.summary.is_without_operations() => "no run of this cell did an operation",
            0 => "no run of this cell succeeded",
            _ => "every run of this cell violates an identity",
        };
        return vec![style.wrong(&format!("  no numbers: {reason}"))];
    };
    let mut parts = vec![unit.words(mean.value)];
    parts.extend(units::spread(&mean, &rates, unit));
    let operations = view.summary.operations_per_second.filter(|_| unit == RateUnit::BytesPerSecond);
    parts.extend(operations.map(|operations| units::iops(operations.value)));
    parts.push(units::fresh_stacks(mean.samples));
    let mut lines = style.joined(&parts);
    if let Some(first) = lines.first_mut() {
        *first = first.replacen(&parts[0], &style.strong(&parts[0]), 1);
    }
    let latency = &view.summary.latency;
    let quantiles = |l: &nestor_statistics::LatencySummary| {
        (units::duration_ns(l.p50_ns as f64), units::duration_ns(l.p99_ns as f64))
    };
    if latency.len() > FEW_CLASSES {
        lines.extend(view.steady.iter().flat_map(|steady| style.wrapped("  ", 4, steady)));
        let widest = latency.keys().map(|class| class.chars().count()).max().unwrap_or(0);
        for (class, l) in latency {
            let (p50, p99) = quantiles(l);
            let count = units::count(l.count);
            lines.push(format!("  {class:<widest$}  {count:>9}  latency p50 {p50:>8}  p99 {p99:>8}"));
        }
        return lines;
    }
    let mut words: Vec<String> = latency
        .iter()
        .map(|(class, l)| {
            let name = if latency.len() > 1 { format!("{class} ") } else { String::new() };
            let (p50, p99) = quantiles(l);
            format!("{name}latency p50 {p50}  p99 {p99}")
        })
        .collect();
    words.extend(view.steady.clone());
    lines.extend(style.joined(&words));
    lines
}

/// So many classes of operations fit on one line.
const FEW_CLASSES: usize = 2;

/// The table from the application to the medium. What a layer adds stands at its end, or below if the line is full.
pub(super) fn layer_table(layers: &[LayerRow], style: Style) -> Vec<String> {
    let full = table(layers, true, None);
    let adds: Vec<String> = layers.iter().map(LayerRow::adds).collect();
    let heading = String::from("adds");
    let widest_adds = adds.iter().chain([&heading]).map(|a| a.chars().count()).max().unwrap_or(0);
    if full.width() + 2 + widest_adds <= style.width {
        let lines = full.lines();
        let width = full.width();
        return lines
            .into_iter()
            .zip([&heading].into_iter().chain(&adds))
            .map(|(line, adds)| format!("{line:<width$}  {adds}").trim_end().to_owned())
            .collect();
    }
    let fitting = if full.width() <= style.width { full } else { table(layers, false, None) };
    let mut lines = Vec::new();
    if fitting.width() > style.width {
        // What a layer adds is one more thing below its row.
        return style.table(&table(layers, false, Some(&adds)));
    }
    for (line, adds) in fitting.lines().into_iter().zip([String::new()].iter().chain(&adds)) {
        lines.push(line);
        if !adds.is_empty() {
            lines.extend(style.wrapped("      ", 6, adds));
        }
    }
    lines
}

fn table(layers: &[LayerRow], with_role: bool, adds: Option<&[String]>) -> Table {
    use Align::{Left, Right};
    let mut table = Table::new(&[Left, Left, Right, Right, Right, Right, Right, Right]);
    table.row(&[
        "layer",
        if with_role { " " } else { "" },
        "requests",
        "bytes",
        "x above",
        "merged",
        "queue",
        "service",
        if adds.is_some() { "adds" } else { "" },
    ]);
    for (at, row) in layers.iter().enumerate() {
        let median = |latency: &Option<nestor_statistics::LatencySummary>| {
            or_dash(latency.map(|l| units::latency_ns(l.p50_ns)))
        };
        table.row(&[
            &row.short_name,
            &if with_role { row.role.to_string() } else { String::new() },
            &or_dash(row.requests.map(units::count)),
            &or_dash(row.bytes.map(units::bytes)),
            &or_dash(row.times_above.map(|t| format!("{t:.2}"))),
            &or_dash(row.merged_share.map(units::share)),
            &median(&row.queue),
            &median(&row.service),
            &adds.map_or_else(String::new, |adds| adds[at].clone()),
        ]);
    }
    table
}

/// Tests whose program measured its processor time.
fn processor_time_table(rows: &[ProcessorTimeRow], style: Style) -> Vec<String> {
    use Align::{Left, Right};
    let mut table = Table::new(&[Left, Right, Right, Right, Right, Right]);
    table.row(&["test", "operations", "a second", "moves", "processor", "per operation"]);
    for row in rows {
        table.row(&[
            &row.class,
            &units::count(row.operations),
            &units::digits(row.operations_per_second),
            &or_dash(row.bytes_per_second.map(units::rate)),
            &units::percent(row.cpu_percent / 100.0),
            &or_dash(row.cpu_per_operation_ns.map(units::duration_ns)),
        ]);
    }
    let mut lines = style.table(&table);
    let said =
        style.wrapped("  ", 2, "processor time as the program says it: that of its own machine's kernel");
    lines.extend(said.iter().map(|line| style.faint(line)));
    lines
}

/// Instructions of an operation, by whose they are.
fn path_table(path: &PathView, style: Style) -> Vec<String> {
    use Align::{Left, Right};
    let heading =
        path.lowest_layer.as_ref().map(|layer| format!("per request of {layer}")).unwrap_or_default();
    let mut table = Table::new(&[Left, Right, Right]);
    table.row(&["instructions", "per operation", &heading]);
    let count = |instructions: f64| units::count(instructions.round() as u64);
    for part in &path.parts {
        let per_request = part.per_request.map(count).unwrap_or_default();
        table.row(&[part.executor.name(), &count(part.per_operation), &per_request]);
    }
    table.row(&["total", &count(path.together_per_operation), ""]);
    let mut lines = vec![String::new()];
    lines.extend(style.table(&table));
    let each = match path.instructions_per_ns {
        1 => "one takes".to_owned(),
        several => format!("{several} take"),
    };
    let said = format!(
        "{each} 1 ns on the modelled processor; counted for {} while I/O ran",
        units::seconds(path.window_s)
    );
    lines.extend(style.wrapped("  ", 2, &said).iter().map(|line| style.faint(line)));
    lines
}

/// How much to believe of what the layers' traces say together.
fn certainty(view: &RunView, style: Style) -> Vec<String> {
    let Some(trace) = &view.trace else { return Vec::new() };
    let mut lines = style.wrapped("  ", 4, &trace.certainty.join("; "));
    lines.extend(trace.remarks.iter().flat_map(|remark| style.wrapped("  ", 4, remark)));
    lines
}

fn trace_remarks(view: &RunView, style: Style) -> Vec<String> {
    let remarks = view
        .layers
        .iter()
        .flat_map(|l| l.remarks.iter().map(|r| format!("{}: {r}", l.name_among(&view.layers))));
    remarks.flat_map(|r| style.wrapped("  ", 4, &r)).collect()
}

fn environment(view: &RunView, style: Style) -> Vec<String> {
    let machines: Vec<String> = view
        .environment
        .machines
        .iter()
        .map(|m| {
            let busy = view.cpu_busy.iter().find(|(label, _)| *label == m.label);
            let busy = busy.map(|(_, b)| format!(", {} busy", units::percent(*b))).unwrap_or_default();
            let memory = units::bytes(m.memory_bytes);
            format!("{} Linux {}, {} x CPU ({}){busy}, {memory}", m.label, m.kernel, m.cpus, m.accelerator)
        })
        .collect();
    let settings: Vec<String> =
        view.environment.settings.iter().map(|(name, value)| format!("{name}: {value}")).collect();
    let mut lines = Vec::new();
    lines.extend(style.wrapped("  ", 4, &machines.join("; ")));
    lines.extend(style.wrapped("  ", 4, &settings.join("; ")));
    let by = if view.environment.nestor.is_empty() { "" } else { "; " };
    let times = format!("{}{by}{}", view.times_in_words(), view.environment.nestor);
    lines.extend(style.wrapped("  ", 4, &times));
    lines.iter().map(|l| style.faint(l)).collect()
}

/// Characters of a digest that tell results apart.
const SHORT_DIGEST: usize = 16;

fn saved_as(view: &RunView, style: Style) -> Vec<String> {
    let short = view.outcome_digest.as_ref().and_then(|digest| digest.get(..SHORT_DIGEST));
    let digest = match (short, view.shown_run) {
        (Some(digest), Some(run)) => format!(", outcome of run {run}: {digest}"),
        _ => String::new(),
    };
    let (runs, last) = match view.runs.as_slice() {
        [run] => (format!("run {run}"), run),
        [first, .., last] => (format!("runs {first} to {last}"), last),
        [] => return vec![String::new()],
    };
    with_command(style, &format!("saved as {runs}{digest}"), &format!("nestor report {last}"))
}
