//! What an analysis says, for people.

use nestor_report::units::{bytes, count, digits, duration_ns, iops, plural_u64, rate, share};
use nestor_statistics::{LatencyHistogram, LatencySummary};
use nestor_text::wrapped;
use nestor_trace::{
    Analysis, AnalyzedLayer, BttInterval, BttMetrics, DirectionMetrics, LayerMetrics, Pattern, Phase,
    ProcessMetrics, SeekMetrics, Timeline,
};

use super::histograms;
use crate::output::{columns, table};

/// Request sizes that are listed; the others together.
const MOST_SIZES: usize = 6;
/// Threads that are listed; all are in the JSON.
const MOST_PROCESSES: usize = 20;
/// Everything that a trace says.
pub fn analysis(analysis: &Analysis) -> String {
    let mut text = format!("{}   {} records\n", analysis.trace, count(analysis.records));
    for layer in &analysis.layers {
        text += "\n";
        text += &layer_text(layer);
    }
    text += &histograms::text(&analysis.histograms);
    if !analysis.remarks.is_empty() {
        text += "\n";
    }
    for remark in &analysis.remarks {
        text += &format!("  {remark}\n");
    }
    text
}

/// One device: what it did, where the time went, and then the tables.
pub fn layer_text(layer: &AnalyzedLayer) -> String {
    let m = &layer.metrics;
    let mut text = format!("{}   {}\n", layer.device, answer(m));
    text += &where_time_went(m);
    text += "\n";
    text += &metrics(m);
    text
}

/// The tables of a layer.
pub fn metrics(m: &LayerMetrics) -> String {
    let mut parts = vec![times(m), requests(m), shape(m), classes(m)];
    parts.push(processes(&m.processes));
    let remarks: String = m.remarks.iter().map(|remark| format!("  {remark}\n")).collect();
    parts.push(remarks);
    parts.retain(|part| !part.is_empty());
    parts.join("\n")
}

/// What the device did, in a line or two.
fn answer(m: &LayerMetrics) -> String {
    let Some(all) = m.overview() else { return "no request with data".to_owned() };
    let mut text = plural_u64(all.requests, "request", "requests");
    match all.per_second {
        Some((requests, moved)) => {
            text += &format!(" in {}: {}, {}", duration_ns(m.span_s * 1e9), iops(requests), rate(moved));
        }
        None => text += &format!(", {}", bytes(all.bytes)),
    }
    let kind = match all.pattern {
        Pattern::Sequential => "sequential",
        Pattern::PartlySequential => "partly sequential",
        Pattern::Random => "random",
    };
    text += &format!("\n  {} read, {} each on average, {kind}", share(all.read_share), bytes(all.mean_bytes));
    if let Some(sequential) = m.sequential_share {
        text += &format!(" ({} follow the previous request)", share(sequential));
    }
    text
}

fn mean_ns(histogram: &Option<LatencyHistogram>) -> Option<f64> {
    histogram.as_ref()?.summary().map(|s| s.mean_ns)
}

fn where_time_went(m: &LayerMetrics) -> String {
    let mut text = String::new();
    if let Some(whole) = m.q2c.as_ref().and_then(LatencyHistogram::summary) {
        let (median, p99) = (duration_ns(whole.p50_ns as f64), duration_ns(whole.p99_ns as f64));
        text += &format!("  a request takes {} (median {median}, p99 {p99})", duration_ns(whole.mean_ns));
        if let (Some(queue), Some(service)) = (mean_ns(&m.q2d), mean_ns(&m.d2c)) {
            let (queue, service) = (duration_ns(queue), duration_ns(service));
            text += &format!(": {queue} until it is issued, {service} in the device");
        }
        text += "\n";
    }
    if let Some((mean, most)) = m.timeline.as_ref().and_then(Timeline::in_flight) {
        let most = most.map_or_else(String::new, |n| format!(", {n} at most"));
        text += &format!("  the device has {} requests in flight on average{most}", digits(mean));
        if let Some(busy) = m.btt.as_ref().and_then(BttMetrics::busy_share) {
            text += &format!("; it is busy {} of the time", share(busy));
        }
        text += "\n";
    }
    text
}

/// The interval, where a row is of all requests; what it is, and a histogram.
type Row<'a> = (Option<Phase>, &'static str, &'a Option<LatencyHistogram>);

fn times(m: &LayerMetrics) -> String {
    let lines: [Row<'_>; 14] = [
        (Some(Phase::Q2Q), "between bios", &m.q2q),
        (Some(Phase::Q2A), "to remap", &m.q2a),
        (Some(Phase::Q2G), "to get request", &m.q2g),
        (Some(Phase::S2G), "sleep", &m.s2g),
        (Some(Phase::G2I), "to insert", &m.g2i),
        (Some(Phase::Q2M), "to merge", &m.q2m),
        (Some(Phase::M2D), "merged to issue", &m.m2d),
        (Some(Phase::Q2I), "queued to insert", &m.q2i),
        (Some(Phase::I2D), "scheduler", &m.i2d),
        (Some(Phase::Q2D), "whole queue", &m.q2d),
        (Some(Phase::D2C), "device", &m.d2c),
        (Some(Phase::Q2C), "whole, per bio", &m.q2c),
        (None, "of reads", &m.read_times.q2c),
        (None, "of writes", &m.write_times.q2c),
    ];
    let btt = m.btt.unwrap_or_default();
    let share_of = |phase: Phase| {
        btt.overhead_of(phase).map_or_else(String::new, |part| format!("{:.4} %", part * 100.0))
    };
    let mut rows: Vec<[String; 10]> = Vec::new();
    for (phase, what, histogram) in lines {
        let Some(summary) = histogram.as_ref().and_then(LatencyHistogram::summary) else { continue };
        rows.push(time_row(phase, what, &summary, phase.map_or_else(String::new, share_of)));
        if phase == Some(Phase::D2C) && btt.d2c.count != summary.count && btt.d2c.count > 0 {
            rows.push(btt_row("", "per bio (btt)", &btt.d2c));
        }
    }
    if let Some(summary) = m.flush_d2c.as_ref().and_then(LatencyHistogram::summary) {
        rows.push(time_row(None, "flushes", &summary, String::new()));
    }
    if rows.is_empty() {
        return String::new();
    }
    let heading = ["", "", "number", "min", "mean", "p50", "p90", "p99", "max", "of Q2C"];
    table(&heading, &rows)
}

fn time_row(phase: Option<Phase>, what: &str, s: &LatencySummary, of_q2c: String) -> [String; 10] {
    let [min, p50, p90, p99, max] =
        [s.min_ns, s.p50_ns, s.p90_ns, s.p99_ns, s.max_ns].map(|ns| duration_ns(ns as f64));
    [
        phase.map_or_else(String::new, |p| p.to_string()),
        what.to_owned(),
        count(s.count),
        min,
        duration_ns(s.mean_ns),
        p50,
        p90,
        p99,
        max,
        of_q2c,
    ]
}

fn btt_row(name: &str, what: &str, i: &BttInterval) -> [String; 10] {
    let none = String::new;
    let [min, max] = [i.min_ns, i.max_ns].map(|ns| duration_ns(ns as f64));
    let (name, what) = (name.to_owned(), what.to_owned());
    [name, what, count(i.count), min, duration_ns(i.mean_ns()), none(), none(), none(), max, none()]
}

fn requests(m: &LayerMetrics) -> String {
    let directions = [("read", &m.read), ("write", &m.write), ("discard", &m.discard)];
    let used = |d: &DirectionMetrics| d.queued + d.issued + d.completed > 0;
    let rows: Vec<[String; 8]> = directions
        .iter()
        .filter(|(_, d)| used(d))
        .map(|(name, d)| {
            let numbers = [d.queued, d.back_merges, d.front_merges, d.issued, d.completed].map(count);
            let [queued, back, front, issued, completed] = numbers;
            let moved = d.issued_bytes.max(d.completed_bytes);
            [(*name).to_owned(), queued, back, front, issued, completed, bytes(d.queued_bytes), bytes(moved)]
        })
        .collect();
    if rows.is_empty() {
        return String::new();
    }
    let heading = ["", "queued", "back merges", "front merges", "issued", "completed", "requested", "moved"];
    let mut text = table(&heading, &rows);
    if m.flushes + m.flushes_queued + m.fua_writes + m.fua_writes_queued > 0 {
        text += &format!(
            "  flushes {} sent, {} requested   FUA writes {} sent, {} requested\n",
            count(m.flushes),
            count(m.flushes_queued),
            count(m.fua_writes),
            count(m.fua_writes_queued)
        );
    }
    text
}

/// Merges, sizes, seeks, plugs.
fn shape(m: &LayerMetrics) -> String {
    let mut lines = Vec::new();
    if let Some(btt) = &m.btt
        && let Some(ratio) = btt.merge_ratio()
    {
        lines.push(format!(
            "merge ratio  {ratio:.1}   sectors per request: min {}, mean {}, max {}, total {}",
            count(btt.blocks.min_ns),
            count(btt.average_blocks().unwrap_or(0)),
            count(btt.blocks.max_ns),
            count(btt.blocks.total_ns)
        ));
    }
    lines.extend(sizes(m));
    lines.extend(m.q2q_seeks.as_ref().map(|s| seeks("Q2Q seeks", s)));
    lines.extend(m.d2d_seeks.as_ref().map(|s| seeks("D2D seeks", s)));
    if let Some(plugs) = &m.plugs {
        lines.push(format!(
            "plugs        {} ({} by timer), plugged {} of the time, {} requests per unplug ({} by timer)",
            count(plugs.unplugs),
            count(plugs.timer_unplugs),
            share(plugs.plugged_share().unwrap_or(0.0)),
            digits(plugs.requests_per_unplug().unwrap_or(0.0)),
            digits(plugs.requests_per_timer_unplug().unwrap_or(0.0))
        ));
    }
    if let Some(btt) = &m.btt {
        if let Some(active) = btt.mean_active_at_queue() {
            lines.push(format!("at each Q    {} requests wait on average", digits(active)));
        }
        if let (Some(live), Some(idle)) = (btt.live.mean_live_s(), btt.live.mean_idle_s()) {
            lines.push(format!(
                "active       {} periods of {} on average, {} between them",
                count(btt.live.count),
                duration_ns(live * 1e9),
                duration_ns(idle * 1e9)
            ));
        }
    }
    if m.identity.checked > 0 {
        lines.push(format!(
            "checked      Q2I + I2D + D2C = Q2C holds for {} of {} requests",
            count(m.identity.held()),
            count(m.identity.checked)
        ));
    }
    lines.iter().map(|line| labelled(line)).collect()
}

/// A line whose text goes on beside its label where it is too long.
fn labelled(line: &str) -> String {
    const LABEL: usize = 13;
    let whole = format!("  {line}\n");
    let (label, text) = line.split_at_checked(LABEL).unwrap_or((line, ""));
    match columns() {
        Some(columns) if whole.chars().count() > columns => {
            let lines = wrapped(&format!("  {label}"), LABEL + 2, columns, text);
            lines.iter().map(|line| format!("{line}\n")).collect()
        }
        _ => whole,
    }
}

fn sizes(m: &LayerMetrics) -> Option<String> {
    let sizes = m.most_frequent_sizes(MOST_SIZES)?;
    let mut named: Vec<String> =
        sizes.named.iter().map(|(size, part)| format!("{} {}", bytes(*size), share(*part))).collect();
    named.extend(sizes.others.map(|(others, part)| format!("{others} others {}", share(part))));
    Some(format!("sizes        {}", named.join(", ")))
}

fn seeks(name: &str, s: &SeekMetrics) -> String {
    let modes = match s.other_modes() {
        0 => String::new(),
        others => format!(", {} more as often", count(others)),
    };
    let about = if s.mode_is_lower_bound { "at least " } else { "" };
    format!(
        "{name}    {}: mean {} sectors, median {} (btt {}), mode {} ({about}{}x{modes}); {} within 1 % of the range, {} within 10 %",
        count(s.count),
        count(s.mean_sectors.round() as u64),
        count(s.median_sectors),
        count(s.btt_median_sectors),
        count(s.mode_sectors),
        count(s.mode_count),
        share(s.within(0.01)),
        share(s.within(0.1))
    )
}

fn classes(m: &LayerMetrics) -> String {
    let rows: Vec<[String; 4]> = m
        .classes
        .iter()
        .map(|(class, c)| [class.to_string(), count(c.requests), bytes(c.read_bytes), bytes(c.write_bytes)])
        .collect();
    if rows.is_empty() { String::new() } else { table(&["purpose", "requests", "read", "written"], &rows) }
}

fn processes(processes: &[ProcessMetrics]) -> String {
    let name = |p: &ProcessMetrics| match (p.pid, &p.name) {
        (Some(pid), Some(name)) => format!("{name} ({pid})"),
        (Some(pid), None) => pid.to_string(),
        (None, _) => "all others".to_owned(),
    };
    let time = |s: &Option<LatencySummary>| s.map_or_else(String::new, |s| duration_ns(s.mean_ns));
    let rows: Vec<[String; 10]> = processes
        .iter()
        .take(MOST_PROCESSES)
        .map(|p| {
            let i = &p.intervals;
            [
                name(p),
                count(p.read_queued),
                bytes(p.read_queued_bytes),
                count(p.write_queued),
                bytes(p.write_queued_bytes),
                count(p.merged),
                count(p.flushes_queued),
                time(&i.q2g),
                time(&i.d2c),
                i.q2c.map_or_else(String::new, |s| {
                    format!("{}  p99 {}", duration_ns(s.mean_ns), duration_ns(s.p99_ns as f64))
                }),
            ]
        })
        .collect();
    if rows.is_empty() {
        return String::new();
    }
    let heading = ["thread", "reads", "", "writes", "", "merged", "flushes", "Q2G", "D2C", "Q2C"];
    let mut text = table(&heading, &rows);
    if processes.len() > MOST_PROCESSES {
        text += &format!("  --json shows {} more\n", processes.len() - MOST_PROCESSES);
    }
    text
}
