//! Snapshots as lines of text, within a number of columns.

use nestor_text::{Table, fitted, units, visible_in_columns};

use crate::row::{OperationRow, Row, Snapshot};

/// Longer names of layers are cut, on narrow and on wide terminals.
const NAME: usize = 16;
const WIDE_NAME: usize = 28;
/// A terminal is wide from here on.
const WIDE: usize = 100;
/// The least room for who has a layer's time.
const WAITS: usize = 20;

/// The tables and remarks of a snapshot. No line is longer than the columns, of which there are 80 at least.
pub fn lines(snapshot: &Snapshot, columns: usize) -> Vec<String> {
    let name = if columns >= WIDE { WIDE_NAME } else { NAME };
    let mut lines = match table(snapshot, name, &[&LOAD[..], &FLUSH_TIME, &TIME].concat(), Some(columns)) {
        Some(one) => one,
        None => {
            let load = table(snapshot, name, &LOAD, None);
            let wide = || table(snapshot, name, &[&FLUSH_TIME[..], &TIME].concat(), Some(columns));
            let time = wide().or_else(|| table(snapshot, name, &TIME, Some(columns)));
            [load.unwrap_or_default(), vec![String::new()], time.unwrap_or_default()].concat()
        }
    };
    lines.push(String::new());
    for said in std::iter::once(snapshot.sentence()).chain(snapshot.remarks()) {
        lines.extend(fitted(&visible_in_columns(&said), columns).lines().map(str::to_owned));
    }
    lines
}

/// A column: its heading, and the cell of a row.
type Column = (&'static str, fn(&Row) -> String);

const LOAD: [Column; 6] = [
    ("reads/s", |row| rate(row.reads.per_s)),
    ("writes/s", |row| rate(row.writes.per_s)),
    ("flush/s", |row| rate(row.flushes.per_s)),
    ("read", |row| bytes(&row.reads)),
    ("written", |row| bytes(&row.writes)),
    ("x above", |row| row.bytes_per_byte_above.map_or_else(none, |times| format!("{times:.2}"))),
];

const FLUSH_TIME: [Column; 1] = [("flush p50", |row| latency(row.flushes.latency_p50_ns))];

const TIME: [Column; 4] = [
    ("p50", |row| latency(row.latency_p50_ns)),
    ("p99", |row| latency(row.latency_p99_ns)),
    ("queue", |row| format!("{:.1}", row.mean_under_way)),
    ("busy", |row| units::percent(row.busy_share)),
];

fn none() -> String {
    "-".to_owned()
}

fn rate(per_s: f64) -> String {
    if per_s == 0.0 { "0".to_owned() } else { units::digits(per_s) }
}

fn bytes(row: &OperationRow) -> String {
    if row.bytes == 0 { "0".to_owned() } else { units::rate(row.bytes_per_s) }
}

fn latency(ns: Option<u64>) -> String {
    ns.map_or_else(none, units::latency_ns)
}

/// The layers with these columns; within a width also with who has their time, or nothing if there is no room for that.
fn table(snapshot: &Snapshot, name: usize, columns: &[Column], within: Option<usize>) -> Option<Vec<String>> {
    let cells = |of: &dyn Fn(&Column) -> String| columns.iter().map(of).collect::<Vec<String>>();
    let mut rows = vec![[vec!["layer".to_owned()], cells(&|(heading, _)| (*heading).to_owned())].concat()];
    for row in &snapshot.layers {
        rows.push([vec![shortened(&row.layer, name)], cells(&|(_, cell)| cell(row))].concat());
    }
    let right: Vec<usize> = (1..=columns.len()).collect();
    let Some(within) = within else { return Some(Table::of(&rows, &right).lines()) };
    let room = within.saturating_sub(Table::of(&rows, &right).width() + 2);
    if room < WAITS {
        return None;
    }
    rows[0].push("waits for".to_owned());
    for (cells, row) in rows[1..].iter_mut().zip(&snapshot.layers) {
        cells.push(waits(row, room));
    }
    Some(Table::of(&rows, &right).lines())
}

/// Who has a layer's time, the largest part first, as far as there is room.
fn waits(row: &Row, room: usize) -> String {
    let mut text = String::new();
    for wait in &row.busy_with {
        let who = if wait.layer == row.layer { "itself" } else { wait.layer.as_str() };
        let comma = if text.is_empty() { "" } else { ", " };
        let share = units::percent(wait.share);
        let taken = text.chars().count() + comma.len() + share.chars().count() + 1;
        // The first is there in any case, and shortened.
        let most = room.saturating_sub(taken);
        if !text.is_empty() && most < who.chars().count() {
            break;
        }
        text.push_str(&format!("{comma}{} {share}", shortened(who, most.max(1))));
    }
    text
}

/// A name within some columns: its end tells more than its middle.
fn shortened(name: &str, columns: usize) -> String {
    let name = visible_in_columns(name);
    let length = name.chars().count();
    if length <= columns {
        return name;
    }
    let ends = columns.saturating_sub(1);
    let (head, tail) = (ends.div_ceil(2), ends / 2);
    let first: String = name.chars().take(head).collect();
    let last: String = name.chars().skip(length - tail).collect();
    format!("{first}~{last}")
}
