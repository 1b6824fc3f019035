//! One request and everything it caused, as bars on one axis of time.

use nestor_correlate::{Choice, LevelIndex, Node, Origin, Rank, SampledTree};
use nestor_layout::Class;
use nestor_trace::Operation;
use serde::Serialize;

use super::LevelName;
use crate::units;

/// Bars of a picture; what is beyond is counted.
const MOST_ROWS: usize = 30;
/// Bars below one request.
const MOST_CHILDREN: usize = 8;

/// A request from top to bottom.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Waterfall {
    /// Why it was chosen.
    #[serde(skip)]
    pub choice: Choice,
    /// The same in words: `median read`.
    pub name: String,
    /// What it is: `write of 8 KiB, file data`.
    pub what: String,
    /// From its beginning to its end.
    pub total_ns: u64,
    /// Where the time went, top to bottom; the parts add up to the total.
    pub parts: Vec<Part>,
    /// The bars; times are relative to the request's beginning.
    pub rows: Vec<WaterfallRow>,
}

/// A part of a request's time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Part {
    /// The layer that a request had left.
    pub from: String,
    /// The layer that it had not reached; `None` for the time at the last trace point.
    pub to: Option<String>,
    /// How long.
    pub took_ns: u64,
}

/// A bar.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WaterfallRow {
    /// The trace point.
    #[serde(flatten)]
    pub name: LevelName,
    /// Its level.
    pub level: LevelIndex,
    /// How far it is indented.
    pub depth: usize,
    /// Its number at its trace point.
    pub request: u64,
    /// What it asks for.
    pub operation: Operation,
    /// What its bytes are for.
    pub class: Class,
    /// The same, or where its level knows no purposes what the request above is for.
    pub carries: Class,
    /// Why it exists; `None` for the topmost.
    pub origin: Option<Origin>,
    /// Position in the space of its trace point.
    pub offset: u64,
    /// Length.
    pub bytes: u64,
    /// When it was handed over; before the topmost request's beginning it is negative.
    pub queued_ns: i64,
    /// When it was sent downwards.
    pub issued_ns: i64,
    /// When it was finished.
    pub completed_ns: i64,
    /// How many other requests of the level above it serves.
    pub shared_with: u32,
    /// For how many more requests like it this bar stands; its times are then from the first's begin to the last's end.
    pub more: usize,
}

impl Waterfall {
    /// The bars of a sampled tree of levels with these names. `None` if it has levels without a name.
    pub fn of(tree: &SampledTree, names: &[LevelName]) -> Option<Self> {
        let root = &tree.root;
        let mut nodes = Vec::new();
        collect(root, 0, &mut nodes);
        if nodes.iter().any(|(node, _)| node.level.position() >= names.len()) {
            return None;
        }
        let mut rows = Vec::new();
        add_rows(root, (0, Class::Unknown), root.request.queued_ns, names, &mut rows);
        let r = &root.request;
        let class = if matches!(r.class, Class::Unknown | Class::Flush) {
            String::new()
        } else {
            format!(", {}", r.class.label())
        };
        let size = if r.bytes > 0 { format!(" of {}", units::bytes(r.bytes)) } else { String::new() };
        Some(Self {
            choice: tree.choice,
            name: tree.choice.to_string(),
            what: format!("{}{size}{class}", r.operation.word()),
            total_ns: r.completed_ns.saturating_sub(r.queued_ns),
            parts: parts(root, &nodes, names),
            rows,
        })
    }

    /// What is asked for and how its latency stands among the others'; `None` for one that was chosen otherwise.
    pub fn operation_and_rank(&self) -> Option<(Operation, Rank)> {
        match self.choice {
            Choice::Latency(rank, operation) => Some((operation, rank)),
            Choice::AroundTheMiddle => None,
        }
    }

    /// Puts the operation whose median is slowest first. Those of one operation stay in their order.
    pub fn sort_slowest_first(waterfalls: &mut [Self]) {
        let medians: Vec<(Operation, u64)> = waterfalls
            .iter()
            .filter_map(|one| match one.operation_and_rank()? {
                (operation, Rank::Median) => Some((operation, one.total_ns)),
                _ => None,
            })
            .collect();
        let median_ns = |one: &Self| {
            let (operation, _) = one.operation_and_rank()?;
            medians.iter().find(|(of, _)| *of == operation).map(|(_, median_ns)| *median_ns)
        };
        waterfalls.sort_by_key(|one| std::cmp::Reverse(median_ns(one)));
    }

    /// Where the time went, in a sentence.
    pub fn words(&self) -> String {
        let parts: Vec<String> = self
            .parts
            .iter()
            .filter(|part| part.took_ns > 0)
            .map(|part| {
                let took = units::duration_ns(part.took_ns as f64);
                match &part.to {
                    Some(to) => format!("{took} from {} to {to}", part.from),
                    None => format!("{took} in {}", part.from),
                }
            })
            .collect();
        format!("Of {}: {}.", units::duration_ns(self.total_ns as f64), parts.join(", "))
    }
}

fn collect<'a>(node: &'a Node, depth: usize, found: &mut Vec<(&'a Node, usize)>) {
    found.push((node, depth));
    node.children.iter().for_each(|child| collect(child, depth + 1, found));
}

/// What a request carries, below one that carries `above`.
fn carried(node: &Node, above: Class) -> Class {
    match node.request.class {
        Class::Unknown => above,
        class => class,
    }
}

fn row(node: &Node, (depth, above): (usize, Class), zero_ns: u64, names: &[LevelName]) -> WaterfallRow {
    let r = &node.request;
    // Differences of two times of the same minute fit.
    let since = |time: u64| i64::try_from(i128::from(time) - i128::from(zero_ns)).unwrap_or(i64::MAX);
    WaterfallRow {
        name: names[node.level.position()].clone(),
        level: node.level,
        depth,
        request: r.id,
        operation: r.operation,
        class: r.class,
        carries: carried(node, above),
        origin: (depth > 0).then_some(node.origin),
        offset: r.offset,
        bytes: r.bytes,
        queued_ns: since(r.queued_ns),
        issued_ns: since(r.issued_ns),
        completed_ns: since(r.completed_ns),
        shared_with: node.shared_with,
        more: 0,
    }
}

fn add_rows(
    node: &Node,
    place: (usize, Class),
    zero_ns: u64,
    names: &[LevelName],
    rows: &mut Vec<WaterfallRow>,
) {
    rows.push(row(node, place, zero_ns, names));
    let below = (place.0 + 1, carried(node, place.1));
    let mut children: Vec<&Node> = node.children.iter().collect();
    children.sort_by_key(|child| (child.request.queued_ns, child.request.completed_ns));
    let mut shown = 0;
    for child in &children {
        // The bar that stands for the rest needs room too.
        if shown == MOST_CHILDREN || rows.len() + 1 >= MOST_ROWS {
            break;
        }
        add_rows(child, below, zero_ns, names, rows);
        shown += 1;
    }
    if let [first, ..] = &children[shown..] {
        let rest: Vec<WaterfallRow> =
            children[shown..].iter().map(|child| row(child, below, zero_ns, names)).collect();
        let latest = |time: fn(&WaterfallRow) -> i64| rest.iter().map(time).max().unwrap_or(0);
        rows.push(WaterfallRow {
            more: rest.len(),
            bytes: rest.iter().map(|r| r.bytes).sum(),
            completed_ns: latest(|r| r.completed_ns),
            shared_with: 0,
            ..row(first, below, zero_ns, names)
        });
    }
}

/// The time of the root in parts: every moment belongs to the lowest level at which something was under way for it.
fn parts(root: &Node, nodes: &[(&Node, usize)], names: &[LevelName]) -> Vec<Part> {
    let (from, to) = (root.request.queued_ns, root.request.completed_ns);
    let mut levels: Vec<LevelIndex> = nodes.iter().map(|(node, _)| node.level).collect();
    levels.sort_unstable();
    levels.dedup();
    let covered = |level: LevelIndex| {
        let inside = nodes.iter().filter(|(node, _)| node.level >= level).map(|(node, _)| {
            (
                node.request.queued_ns.clamp(from, to.max(from)),
                node.request.completed_ns.clamp(from, to.max(from)),
            )
        });
        union_ns(inside.collect())
    };
    let name = |level: LevelIndex| names[level.position()].layer.clone();
    let pairs = levels.iter().enumerate().map(|(position, level)| {
        let below = levels.get(position + 1).copied();
        Part { from: name(*level), to: below.map(name), took_ns: covered(*level) - below.map_or(0, covered) }
    });
    pairs.collect()
}

/// Time that is covered by at least one of the spans.
fn union_ns(mut spans: Vec<(u64, u64)>) -> u64 {
    spans.sort_unstable();
    let (mut covered, mut until) = (0, 0);
    for (from, to) in spans {
        covered += to.saturating_sub(from.max(until));
        until = until.max(to);
    }
    covered
}
