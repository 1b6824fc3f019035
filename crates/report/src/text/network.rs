//! What went over networks.

use nestor_statistics::LatencySummary;
use nestor_text::{Align, Table};

use super::or_dash;
use crate::style::Style;
use crate::units;
use crate::view::{CallTimesRow, LinkView, NetworkView};

/// The calls of a network file system by procedure, and what the link counted.
pub(super) fn network_table(network: &NetworkView, style: Style) -> Vec<String> {
    use Align::{Left, Right};
    if network.procedures.is_empty() {
        // A network disk makes no calls.
        let words = format!("{}, {}", network.layer, network.link_words());
        return [String::new()].into_iter().chain(style.wrapped("  ", 4, &words)).collect();
    }
    let mut table = Table::new(&[Left, Right, Right, Right, Right, Right, Right]);
    let heading = format!("calls of {}", network.layer);
    table.row(&[&heading, "per operation", "client", "server", "sent", "received", "response"]);
    let per_operation = |each: Option<f64>| each.map(|each| format!("{each:.3}")).unwrap_or_default();
    for row in &network.procedures {
        table.row(&[
            &row.procedure,
            &per_operation(row.per_operation),
            &units::count(row.calls),
            &or_dash(row.server_calls.map(units::count)),
            &units::bytes(row.sent_bytes),
            &units::bytes(row.received_bytes),
            &or_dash(row.response_ms.map(|ms| units::duration_ns(ms * 1e6))),
        ]);
    }
    table.row(&["total", &per_operation(network.calls_per_operation), &units::count(network.calls)]);
    let mut lines = vec![String::new()];
    lines.extend(style.table(&table));
    lines.extend(style.wrapped("  ", 4, &network.link_words()));
    lines.extend(times_table(network, style));
    lines.extend(accesses_table(network, style));
    lines
}

/// How the time of calls divides, where they were recorded.
fn times_table(network: &NetworkView, style: Style) -> Vec<String> {
    use Align::{Left, Right};
    if network.times.is_empty() {
        return Vec::new();
    }
    let mut columns = vec![Left];
    columns.extend([Right; 9]);
    let mut table = Table::new(&columns);
    let heading = format!("time of calls of {}", network.layer);
    table.row(&[
        &heading,
        "calls",
        "read",
        "written",
        "queue",
        "between",
        "server",
        "after",
        "response p50",
        "p99",
    ]);
    for row in &network.times {
        table.row(&times_row(row).each_ref().map(String::as_str));
    }
    let mut lines = vec![String::new()];
    lines.extend(style.table(&table));
    if network.dropped_events > 0 {
        let missing = units::count(network.dropped_events);
        let words = format!("{missing} events of calls are missing: all counts are lower bounds");
        lines.extend(style.wrapped("  ", 4, &words));
    }
    lines
}

/// Where the server read and wrote in files, where it was recorded.
fn accesses_table(network: &NetworkView, style: Style) -> Vec<String> {
    use Align::{Left, Right};
    if network.accesses.is_empty() {
        return Vec::new();
    }
    let mut table = Table::new(&[Left, Right, Right, Right, Right, Right, Right]);
    let heading = format!("files of {} at the server", network.layer);
    table.row(&[&heading, "accesses", "bytes", "files", "most have", "sequential", "mean distance"]);
    for row in &network.accesses {
        let usual =
            format!("{} ({})", units::bytes(row.usual_size_bytes), units::share(row.usual_size_share));
        table.row(&[
            row.kind,
            &units::count(row.accesses),
            &units::bytes(row.bytes),
            &units::count(row.files),
            &usual,
            &units::share(row.sequential_share),
            &or_dash(row.seek_mean_bytes.map(|bytes| units::bytes(bytes.round() as u64))),
        ]);
    }
    [String::new()].into_iter().chain(style.table(&table)).collect()
}

/// The parts of a call's time are means, which add up.
fn times_row(row: &CallTimesRow) -> [String; 10] {
    let time = |ns: Option<f64>| or_dash(ns.map(units::duration_ns));
    let mean = |times: &Option<LatencySummary>| time(times.as_ref().map(|times| times.mean_ns));
    let response = row.response.as_ref();
    [
        row.procedure.clone().unwrap_or_else(|| "all".to_owned()),
        units::count(row.calls),
        units::bytes(row.read_bytes),
        units::bytes(row.written_bytes),
        mean(&row.queue),
        mean(&row.between),
        mean(&row.server),
        mean(&row.after),
        time(response.map(|times| times.p50_ns as f64)),
        time(response.map(|times| times.p99_ns as f64)),
    ]
}

/// What became of the frames of a link, by direction.
pub fn link_table(link: &LinkView, style: Style) -> Vec<String> {
    use Align::{Left, Right};
    let mut columns = vec![Left];
    columns.extend([Right; 10]);
    let mut table = Table::new(&columns);
    let heading = format!("frames of {}", link.layer);
    let times = ["queue mean", "p50", "p99", "wire mean", "p50", "p99"];
    let mut head = vec![heading.as_str(), "frames", "bytes", "rate", "busy"];
    head.extend(times);
    table.row(&head);
    for (end, way) in [("to the server", &link.to_server), ("to the client", &link.to_client)] {
        let mut row = vec![
            end.to_owned(),
            units::count(way.sent.frames),
            units::bytes(way.sent.bytes),
            or_dash(way.bits_per_second.map(|bits| format!("{:.1} Mbit/s", bits / 1e6))),
            or_dash(way.busy.map(units::share)),
        ];
        for summary in [&way.queue, &way.wire] {
            row.extend(times_of(summary.as_ref()));
        }
        table.row(&row.iter().map(String::as_str).collect::<Vec<_>>());
    }
    let mut lines = vec![String::new()];
    lines.extend(style.table(&table));
    for (end, way) in [("server", &link.to_server), ("client", &link.to_client)] {
        if way.tcp_again_bytes > 0 {
            let again = units::bytes(way.tcp_again_bytes);
            let waited = (way.recovery_s > 0.0).then(|| units::duration_ns(way.recovery_s * 1e9));
            let waited =
                waited.map_or_else(String::new, |time| format!("; what was lost held it up for {time}"));
            lines.extend(style.wrapped(
                "  ",
                4,
                &format!("of the data to the {end}, TCP sent {again} again{waited}"),
            ));
        }
    }
    if link.dropped > 0 {
        let words = format!(
            "{} frames are missing in the log: all counts are lower bounds",
            units::count(link.dropped)
        );
        lines.extend(style.wrapped("  ", 4, &words));
    }
    lines.extend(link.remarks.iter().flat_map(|remark| style.wrapped("  ", 4, remark)));
    lines
}

/// Mean, median and 99th percentile.
fn times_of(summary: Option<&LatencySummary>) -> [String; 3] {
    let Some(summary) = summary else { return ["-", "-", "-"].map(str::to_owned) };
    [
        units::duration_ns(summary.mean_ns),
        units::latency_ns(summary.p50_ns),
        units::latency_ns(summary.p99_ns),
    ]
}
