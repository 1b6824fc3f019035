//! Joined traces as text: `nestor trace correlate`.

use nestor_correlate::Origin;
use nestor_text::{Align, Table};

use super::{Lines, or_dash};
use crate::style::Style;
use crate::units;
use crate::view::{JoinRow, TimeSpent, TraceView, Waterfall, WaterfallRow};

/// How the layers were joined, and some requests from top to bottom.
pub fn trace_text(view: &TraceView, style: Style) -> String {
    let mut lines = Lines::default();
    lines.extend(style.wrapped("  ", 4, &view.certainty.join("; ")));
    if view.joins.len() > 1 {
        lines.gap();
        lines.extend(style.table(&joins_table(&view.joins)));
        lines.extend(origins(&view.joins, style));
    }
    if !view.time_spent.is_empty() {
        lines.gap();
        lines.extend(view.time_spent.iter().flat_map(|spent| spent_lines(spent, style)));
    }
    for waterfall in &view.waterfalls {
        lines.gap();
        lines.extend(waterfall_lines(waterfall, style));
    }
    if !view.remarks.is_empty() {
        lines.gap();
        lines.extend(view.remarks.iter().flat_map(|remark| style.wrapped("  ", 4, remark)));
    }
    lines.finish()
}

fn spent_lines(spent: &TimeSpent, style: Style) -> Vec<String> {
    style.wrapped("  ", 4, &format!("{}: {}", spent.heading(), spent.parts()))
}

fn joins_table(joins: &[JoinRow]) -> Table {
    use Align::{Left, Right};
    let mut table = Table::new(&[Left, Left, Right, Right, Right, Right, Right, Right, Right]);
    table.row(&["trace point", "", "requests", "unmatched", "absorbed", "split", "merged", "adds", "clock"]);
    for row in joins {
        table.row(&[
            &row.name.layer,
            &row.name.kind.to_string(),
            &units::count(row.requests),
            &or_dash(row.unmatched_share.map(units::share)),
            &or_dash(row.absorbed.map(units::count)),
            &or_dash(row.split.map(units::count)),
            &or_dash(row.merged.map(units::count)),
            &or_dash(row.added.map(|a| units::duration_ns(a.p50_ns as f64))),
            &or_dash(row.clock_words()),
        ]);
    }
    table
}

/// Where the requests of each level came from.
fn origins(joins: &[JoinRow], style: Style) -> Vec<String> {
    let origins_of = |row: &JoinRow| {
        let shares: Vec<String> =
            row.origins.iter().map(|o| format!("{} {}", o.words, units::share(o.share))).collect();
        format!("requests at {}: {}", row.name.layer, shares.join(", "))
    };
    joins
        .iter()
        .filter(|row| !row.origins.is_empty())
        .flat_map(|row| style.wrapped("  ", 4, &origins_of(row)))
        .collect()
}

/// Columns that a bar has.
const BAR: usize = 30;

fn waterfall_lines(waterfall: &Waterfall, style: Style) -> Vec<String> {
    use Align::{Left, Right};
    let title = style.wrapped("  ", 4, &format!("{}: {}", waterfall.name, waterfall.what));
    let mut lines: Vec<String> = title.iter().map(|line| style.strong(line)).collect();
    lines.extend(style.wrapped("  ", 4, &waterfall.words()));
    let first = waterfall.rows.iter().map(|r| r.queued_ns).min().unwrap_or(0);
    let last = waterfall.rows.iter().map(|r| r.completed_ns).max().unwrap_or(0).max(first + 1);
    let column = |time: i64| (i128::from(time - first) * BAR as i128 / i128::from(last - first)) as usize;
    let mut table = Table::new(&[Left, Left, Left, Right, Left]);
    for row in &waterfall.rows {
        let (from, served, to) =
            (column(row.queued_ns), column(row.issued_ns), column(row.completed_ns).max(1));
        let from = from.min(to - 1);
        let served = served.clamp(from, to);
        let rest = BAR.saturating_sub(to);
        // Both ends of the column are marked, so that no bar loses its place when a table drops spaces at an end.
        let bar = format!(
            "|{}{}{}{}|",
            " ".repeat(from),
            ".".repeat(served - from),
            "=".repeat(to - served),
            " ".repeat(rest)
        );
        let took = units::duration_ns((row.completed_ns - row.queued_ns).max(0) as f64);
        let name = format!("{}{}", "  ".repeat(row.depth.min(8)), row.name.layer);
        table.row(&[&name, &what(row), &bar, &took, &why(row)]);
    }
    lines.extend(style.table(&table));
    lines
}

fn what(row: &WaterfallRow) -> String {
    let size = if row.bytes > 0 { format!(" {}", units::bytes(row.bytes)) } else { String::new() };
    match row.more {
        0 => format!("{}{size}", row.operation.word()),
        more => format!("{more} more,{size}"),
    }
}

fn why(row: &WaterfallRow) -> String {
    if row.more > 0 {
        return String::new();
    }
    let class = match row.class {
        nestor_layout::Class::Unknown | nestor_layout::Class::Flush => None,
        class => Some(class.label()),
    };
    let origin = row.origin.filter(|o| *o != Origin::Parent).map(Origin::words);
    let mut parts: Vec<&str> = class.into_iter().chain(origin).collect();
    parts.dedup();
    parts.join(", ")
}
