//! A correlation in words, tables and bars of plain text.

use nestor_statistics::LatencyHistogram;
use nestor_text::units::{bytes, duration_ns, fine_duration_ns, listed};
use nestor_text::{Table, TimeBars, fitted};
use nestor_trace::Operation;

use crate::choice::{Choice, Rank};
use crate::tree::{Correlation, Join, LevelIndex, Node, Origin, SampledTree};

/// Columns of a bar, where there is room, and the fewest that still show anything.
const BAR: usize = 40;
const SHORTEST_BAR: usize = 12;
/// Children of one request that are printed.
const MOST_PRINTED: usize = 16;
/// The table of joins: which levels, and counts of requests.
const JOIN_COLUMNS: [&str; 12] = [
    "from > to",
    "joined",
    "split",
    "merged",
    "read-ahead",
    "write-back",
    "read-modify-write",
    "journal",
    "metadata",
    "unknown",
    "from cache",
    "unmatched",
];

impl Correlation {
    /// Everything that fits on a screen: how much was joined, what the clocks are known to, where time is added, and
    /// the chosen requests as waterfalls; within a width, if there is one.
    pub fn to_text(&self, width: Option<usize>) -> String {
        let mut text = self.levels_text(width);
        text.push('\n');
        text += &self.joins_text(width);
        text.push('\n');
        text += &self.times_text(width);
        let is_longest = |tree: &SampledTree| matches!(tree.choice, Choice::Latency(Rank::Longest, _));
        for tree in self.trees.iter().filter(|tree| !is_longest(tree)) {
            text.push('\n');
            text += &self.waterfall(tree.choice, &tree.root, width);
        }
        if !self.remarks.is_empty() {
            text.push('\n');
        }
        if let Some(agreement) = &self.agreement {
            text += &format!("  {}\n", agreement.to_text());
        }
        for remark in &self.remarks {
            text += &format!("  {remark}\n");
        }
        width.map_or_else(|| text.clone(), |width| fitted(&text, width))
    }

    fn name(&self, level: LevelIndex) -> &str {
        self.level(level).map_or("?", |level| &level.layer)
    }

    fn levels_text(&self, width: Option<usize>) -> String {
        let rows = self.levels.iter().map(|level| {
            vec![
                level.layer.clone(),
                level.kind.to_string(),
                level.machine.to_string(),
                level.requests.to_string(),
            ]
        });
        columns(&["layer", "recorded", "machine", "requests"], rows.collect(), width)
    }

    fn joins_text(&self, width: Option<usize>) -> String {
        let rows = self.joins_by_level().map(|(below, join)| {
            let requests_from = |origin: Origin| join.origins.get(&origin).copied().unwrap_or(0);
            let counts = [
                requests_from(Origin::Parent),
                join.split,
                join.merged,
                requests_from(Origin::ReadAhead),
                requests_from(Origin::WriteBack) + requests_from(Origin::FlushOfParent),
                requests_from(Origin::ReadModifyWrite),
                requests_from(Origin::Journal),
                requests_from(Origin::Metadata),
                requests_from(Origin::Unknown),
                join.absorbed,
                join.unmatched_above,
            ];
            let names = format!("{} > {}", self.name(join.above), self.name(below));
            std::iter::once(names).chain(counts.map(|count| count.to_string())).collect()
        });
        let mut text = columns(&JOIN_COLUMNS, rows.collect(), width);
        text.push('\n');
        for (below, join) in self.joins_by_level() {
            text += &self.clock_line(below, join);
        }
        text += &match self.unmatched_share() {
            Some(share) => format!("  unmatched: at most {:.2} % of a level's requests\n", 100.0 * share),
            None => String::new(),
        };
        for unmatched in self.unmatched() {
            text += &format!(
                "    {} of {} requests of {} {} ({})\n",
                unmatched.requests,
                unmatched.of,
                self.name(unmatched.level),
                unmatched.why.words(),
                self.name(unmatched.other)
            );
        }
        text
    }

    fn clock_line(&self, below: LevelIndex, join: &Join) -> String {
        let names = format!("{} > {}", self.name(join.above), self.name(below));
        let outside = join.outside_above + join.outside_below;
        let outside = match outside {
            0 => String::new(),
            count => format!("; {count} requests are outside the time in which both were recorded"),
        };
        if join.clock_bound_ns == 0 {
            return format!("  {names}: one clock{outside}\n");
        }
        if join.clock_bound_ns == u64::MAX {
            return format!("  {names}: no request bounds the clocks{outside}\n");
        }
        if join.clocks_were_read {
            return format!(
                "  {names}: both clocks were read beside a shared clock, known to {}{outside}\n",
                duration_ns(join.clock_bound_ns as f64)
            );
        }
        let jumps = match join.clock_jumps {
            0 => String::new(),
            1 => ", one jump".to_owned(),
            count => format!(", {count} jumps"),
        };
        format!(
            "  {names}: clocks known to {} at the middle (offset {:.6} s, drift {:.2} ppm, {} pairs{jumps}){outside}\n",
            duration_ns(join.clock_bound_ns as f64),
            join.clock_offset_ns as f64 / 1e9,
            join.clock_drift_ppb as f64 / 1e3,
            join.clock_pairs,
        )
    }

    fn times_text(&self, width: Option<usize>) -> String {
        let mut rows = Vec::new();
        let mut row = |what: String, histogram: &LatencyHistogram| {
            if let Some(summary) = histogram.summary() {
                let shown = [summary.p50_ns, summary.p90_ns, summary.p99_ns, summary.max_ns]
                    .map(|ns| duration_ns(ns as f64));
                let mean = duration_ns(summary.mean_ns.round());
                rows.push([vec![what, summary.count.to_string(), mean], shown.to_vec()].concat());
            }
        };
        for (level, times) in self.times.iter().enumerate() {
            let name = self.name(LevelIndex::at(level));
            if level > 0
                && let Some(join) = self.joins.get(level - 1)
            {
                for (operation, added) in &join.added_by {
                    let names = format!("{} > {}", self.name(join.above), name);
                    row(format!("  between {names}, {}", operation.word()), added);
                }
            }
            row(format!("{name}: its own queue"), &times.queue);
            if level + 1 == self.times.len() {
                row(format!("{name}: service"), &times.service);
            }
        }
        columns(&["where time is added", "requests", "mean", "p50", "p90", "p99", "max"], rows, width)
    }

    /// A request and its children, one a line, with a bar: dots for the time in a level's own queue, hashes from issue
    /// to completion. The bars are shorter where the lines would not fit otherwise.
    fn waterfall(&self, choice: Choice, root: &Node, width: Option<usize>) -> String {
        let whole = &root.request;
        let total = whole.completed_ns.saturating_sub(whole.queued_ns);
        let table = |bar: usize| {
            let bars = TimeBars { columns: bar, from_ns: whole.queued_ns, total_ns: total };
            let mut rows = Vec::new();
            self.add_rows(root, &bars, &mut rows);
            aligned(rows)
        };
        let mut lines = table(BAR);
        let excess = width.map_or(0, |width| lines.width().saturating_sub(width));
        if excess > 0 {
            lines = table(BAR.saturating_sub(excess).max(SHORTEST_BAR));
        }
        format!("  {choice}: {}\n{}", duration_ns(total as f64), lines.text())
    }

    fn add_rows(&self, node: &Node, bars: &TimeBars, rows: &mut Vec<Vec<String>>) {
        let request = &node.request;
        let what = match request.operation {
            Operation::Flush => "flush".to_owned(),
            operation => format!("{} {} at {}", operation.word(), bytes(request.bytes), request.offset),
        };
        let why = match node.origin {
            Origin::Parent | Origin::Unknown => String::new(),
            origin => origin.words().to_owned(),
        };
        let shared = match node.shared_with {
            0 => String::new(),
            count => format!("serves {count} more"),
        };
        let indent = "  ".repeat(node.level.position());
        rows.push(vec![
            format!("  {indent}{}", self.name(node.level)),
            what,
            format!("+{}", fine_duration_ns(request.queued_ns.saturating_sub(bars.from_ns))),
            fine_duration_ns(request.completed_ns.saturating_sub(request.queued_ns)),
            bars.bar(request.queued_ns, request.issued_ns, request.completed_ns),
            listed([why, shared].into_iter().filter(|part| !part.is_empty())),
        ]);
        for child in node.children.iter().take(MOST_PRINTED) {
            self.add_rows(child, bars, rows);
        }
        if node.children.len() > MOST_PRINTED {
            rows.push(vec![format!("  {indent}  and {} more", node.children.len() - MOST_PRINTED)]);
        }
    }
}

/// A table under a heading, with numbers to the right.
fn columns(heading: &[&str], mut rows: Vec<Vec<String>>, width: Option<usize>) -> String {
    rows.insert(0, heading.iter().map(|word| (*word).to_owned()).collect());
    let table = aligned(rows);
    width.map_or_else(|| table.text(), |width| table.text_within(width))
}

/// A table whose columns of numbers are to the right. Its first row is not asked, which may be a heading.
fn aligned(rows: Vec<Vec<String>>) -> Table {
    let count = rows.iter().map(Vec::len).max().unwrap_or(0);
    let starts = |cell: &String| cell.starts_with(|c: char| c.is_ascii_digit() || c == '+');
    let numeric = |column: &usize| {
        let mut found = rows.iter().skip(1).filter(|row| row.len() > 1).filter_map(|row| row.get(*column));
        found.clone().next().is_some() && found.all(starts)
    };
    let right: Vec<usize> = (1..count).filter(numeric).collect();
    Table::of(&rows, &right)
}
