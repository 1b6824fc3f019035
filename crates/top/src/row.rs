//! The numbers of an interval as they are shown, and who waits for whom.

use nestor_text::units;
use serde::Serialize;

use crate::interval::{Interval, LayerCounts, Tally};
use crate::layers::{Layer, LayerKind, Layers};

/// Requests of one operation in an interval.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OperationRow {
    /// Requests that ended.
    pub requests: u64,
    /// Bytes that they moved.
    pub bytes: u64,
    /// Requests a second.
    pub per_s: f64,
    /// Bytes a second.
    pub bytes_per_s: f64,
    /// Median of their latencies.
    pub latency_p50_ns: Option<u64>,
    /// 99th percentile.
    pub latency_p99_ns: Option<u64>,
}

impl OperationRow {
    fn of(tally: &Tally, seconds: f64) -> Self {
        Self {
            requests: tally.count,
            bytes: tally.bytes,
            per_s: per_s(tally.count, seconds),
            bytes_per_s: per_s(tally.bytes, seconds),
            latency_p50_ns: tally.latency.quantile_ns(0.5),
            latency_p99_ns: tally.latency.quantile_ns(0.99),
        }
    }
}

/// Part of the time in which a layer had requests under way.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Wait {
    /// The layer that had the time; the row's own for what it did itself.
    pub layer: String,
    /// Part of the busy time, 0 to 1.
    pub share: f64,
}

/// A layer in an interval.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The layer's name.
    pub layer: String,
    /// What it is.
    pub kind: LayerKind,
    /// How far down; devices side by side have the same.
    pub level: usize,
    /// Reads.
    pub reads: OperationRow,
    /// Writes.
    pub writes: OperationRow,
    /// Flushes.
    pub flushes: OperationRow,
    /// Requests that discard.
    pub discards: OperationRow,
    /// Bytes read and written per byte of the level above; nothing where that moved none.
    pub bytes_per_byte_above: Option<f64>,
    /// Median latency of reads and writes.
    pub latency_p50_ns: Option<u64>,
    /// 99th percentile of the latencies of reads and writes.
    pub latency_p99_ns: Option<u64>,
    /// Requests under way, on average over time.
    pub mean_under_way: f64,
    /// Requests under way at the end.
    pub under_way: u64,
    /// Part of the time in which any was under way, 0 to 1.
    pub busy_share: f64,
    /// Who had that time, the largest part first.
    pub busy_with: Vec<Wait>,
    /// Part of the requests that threads of the virtual machine sent, 0 to 1; of devices only.
    pub machine_share: Option<f64>,
}

impl Row {
    /// Requests that ended.
    fn requests(&self) -> u64 {
        [&self.reads, &self.writes, &self.flushes, &self.discards].map(|row| row.requests).iter().sum()
    }
}

/// The largest part of a layer's busy time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Longest {
    /// The highest layer with requests.
    pub layer: String,
    /// Who had the largest part of its busy time.
    pub with: String,
    /// That part, 0 to 1.
    pub share: f64,
    /// Part of the interval in which the layer was busy, 0 to 1.
    pub busy_share: f64,
}

/// An interval as it is shown.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Snapshot {
    /// How long it was.
    pub seconds: f64,
    /// The layers from the top down.
    pub layers: Vec<Row>,
    /// Who makes the highest layer wait longest; nothing if nothing was under way.
    pub longest: Option<Longest>,
    /// Events that the kernel could not keep: all counts are lower bounds if there are any.
    pub lost_events: u64,
    /// Events that came too late for their order.
    pub late_events: u64,
}

impl Snapshot {
    /// The numbers of an interval of these layers.
    pub fn of(layers: &Layers, interval: &Interval) -> Self {
        let seconds = interval.seconds();
        let both = || layers.all().iter().zip(&interval.layers);
        let rows: Vec<Row> = both().map(|(layer, counts)| row(layers, interval, layer, counts)).collect();
        let busiest = both().find(|(_, counts)| counts.busy_ns > 0);
        let longest = busiest.and_then(|(layer, counts)| {
            let (at, _) = with_whom(counts).into_iter().next()?;
            Some(Longest {
                layer: layer.name.clone(),
                with: layers.all()[at].name.clone(),
                share: part(counts.with_ns[at], counts.busy_ns),
                busy_share: busy_share(counts, seconds),
            })
        });
        Self {
            seconds,
            layers: rows,
            longest,
            lost_events: interval.lost_events,
            late_events: interval.late_events,
        }
    }

    /// Who waits for whom, in a sentence.
    pub fn sentence(&self) -> String {
        let Some(longest) = &self.longest else { return "no request is under way".to_owned() };
        let (layer, with) = (&longest.layer, &longest.with);
        let (share, busy) = (units::percent(longest.share), units::percent(longest.busy_share));
        match layer == with {
            true => {
                format!("{layer} is busy {busy} of the time and waits mostly for itself: {share} of that")
            }
            false => {
                format!("{layer} is busy {busy} of the time and waits mostly for {with}: {share} of that")
            }
        }
    }

    /// What makes the numbers less than they seem.
    pub fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        if self.lost_events > 0 {
            remarks.push(format!(
                "the kernel lost {}: counts are lower bounds",
                units::plural_u64(self.lost_events, "event", "events")
            ));
        }
        if self.late_events > 0 {
            remarks.push(format!(
                "{} came late: times are rough",
                units::plural_u64(self.late_events, "event", "events")
            ));
        }
        let hypervisor = self.layers.iter().find(|row| row.kind == LayerKind::Hypervisor);
        if let Some(hypervisor) = hypervisor.filter(|row| row.requests() == 0)
            && self.layers.iter().any(|row| row.machine_share.is_some_and(|share| share > 0.0))
        {
            remarks.push(format!(
                "{} sends requests that no call shows, as with aio=native: its own row is empty",
                hypervisor.layer
            ));
        }
        let has_machine = hypervisor.is_some();
        let others = self.layers.iter().filter(|_| has_machine).filter_map(|row| {
            let share = 1.0 - row.machine_share?;
            (share >= 0.01).then(|| format!("{} {}", units::percent(share), row.layer))
        });
        let others: Vec<String> = others.collect();
        if !others.is_empty() {
            remarks.push(format!(
                "sent by other threads, among which the kernel's that write back: {}",
                others.join(", ")
            ));
        }
        remarks
    }
}

fn row(layers: &Layers, interval: &Interval, layer: &Layer, counts: &LayerCounts) -> Row {
    let seconds = interval.seconds();
    let latency = counts.latency();
    let operation = |tally| OperationRow::of(tally, seconds);
    let is_device = matches!(layer.kind, LayerKind::Device(_));
    let busy_with = with_whom(counts)
        .into_iter()
        .map(|(at, ns)| Wait { layer: layers.all()[at].name.clone(), share: part(ns, counts.busy_ns) });
    Row {
        layer: layer.name.clone(),
        kind: layer.kind.clone(),
        level: layer.level,
        reads: operation(&counts.reads),
        writes: operation(&counts.writes),
        flushes: operation(&counts.flushes),
        discards: operation(&counts.discards),
        bytes_per_byte_above: above(layers, interval, layer.level)
            .map(|above| counts.bytes() as f64 / above as f64),
        latency_p50_ns: latency.quantile_ns(0.5),
        latency_p99_ns: latency.quantile_ns(0.99),
        mean_under_way: if seconds > 0.0 { counts.under_way_ns as f64 / 1e9 / seconds } else { 0.0 },
        under_way: counts.under_way,
        busy_share: busy_share(counts, seconds),
        busy_with: busy_with.collect(),
        machine_share: (is_device && counts.ended() > 0).then(|| part(counts.of_machine, counts.ended())),
    }
}

/// Bytes of the level above, if it moved any.
fn above(layers: &Layers, interval: &Interval, level: usize) -> Option<u64> {
    let above = level.checked_sub(1)?;
    let of_it = layers.all().iter().zip(&interval.layers).filter(|(layer, _)| layer.level == above);
    Some(of_it.map(|(_, counts)| counts.bytes()).sum()).filter(|bytes| *bytes > 0)
}

/// Layers by their position with the time that they had, the largest first.
fn with_whom(counts: &LayerCounts) -> Vec<(usize, u64)> {
    let mut with: Vec<(usize, u64)> =
        counts.with_ns.iter().copied().enumerate().filter(|(_, ns)| *ns > 0).collect();
    with.sort_by_key(|(at, ns)| (std::cmp::Reverse(*ns), *at));
    with
}

fn busy_share(counts: &LayerCounts, seconds: f64) -> f64 {
    if seconds > 0.0 { counts.busy_ns as f64 / 1e9 / seconds } else { 0.0 }
}

fn part(of: u64, whole: u64) -> f64 {
    if whole > 0 { of as f64 / whole as f64 } else { 0.0 }
}

fn per_s(number: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { number as f64 / seconds } else { 0.0 }
}
