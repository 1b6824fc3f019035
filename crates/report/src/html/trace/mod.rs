//! What traces show of a cell: requests through all layers, bytes by purpose, sizes, distances, time.

mod classes;
mod distributions;
mod flame;
mod picture;
mod timeline;
mod waterfall;

pub use picture::{render_time_spent_svg, render_waterfalls_svg};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use minijinja::Value;
use nestor_correlate::Correlation;
use nestor_export::{Trace, write_perfetto};
use serde::Serialize;

use super::{sentence, typeset};
use crate::units;
use crate::view::{JoinRow, LayerRow, TraceView};

/// The part of a cell's page that comes from its traces.
#[derive(Debug, Serialize)]
pub(super) struct TracePage {
    flames: Vec<FlamePage>,
    waterfalls: Vec<WaterfallPage>,
    /// A compressed trace for Perfetto, in base64; empty without one.
    perfetto: String,
    classes: Value,
    class_table: Option<classes::ClassTable>,
    joins: Vec<JoinPage>,
    sizes: Value,
    seeks: Value,
    timelines: Value,
    remarks: Vec<String>,
}

/// How much of what traces show is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pictures {
    /// Everything.
    All,
    /// Without sizes, distances, time and the trace for Perfetto: of many cells, they take most room.
    Requests,
}

#[derive(Debug, Serialize)]
struct FlamePage {
    name: &'static str,
    words: String,
    svg: Value,
}

#[derive(Debug, Serialize)]
struct WaterfallPage {
    name: String,
    what: String,
    words: String,
    svg: Value,
}

#[derive(Debug, Serialize)]
struct JoinPage {
    layer: String,
    kind: String,
    /// Empty where it says no more than the kind.
    machine: String,
    requests: String,
    origins: Vec<(&'static str, String, String)>,
    unmatched: String,
    absorbed: String,
    split: String,
    merged: String,
    added: String,
    added_p99: String,
    clock: String,
}

/// Charts escape by themselves.
fn drawn(svg: Option<String>) -> Value {
    svg.map_or(Value::from(()), Value::from_safe_string)
}

impl TracePage {
    /// `None` where the traces say no more than the table of layers.
    pub(super) fn of(trace: Option<&TraceView>, layers: &[LayerRow], pictures: Pictures) -> Option<Self> {
        let waterfalls = trace.map(|t| t.waterfalls.as_slice()).unwrap_or_default();
        let from = waterfall::names_end(waterfalls);
        let waterfalls = waterfalls.iter().map(|waterfall| WaterfallPage {
            name: waterfall.name.clone(),
            what: waterfall.what.clone(),
            words: sentence(&waterfall.words()),
            svg: drawn(Some(waterfall::waterfall_svg(waterfall, from))),
        });
        let spent = trace.map(|t| t.time_spent.as_slice()).unwrap_or_default().iter();
        let flames = spent.filter_map(|spent| {
            let svg = drawn(Some(flame::flame_svg(spent)?));
            Some(FlamePage { name: spent.operation.word(), words: sentence(&spent.heading()), svg })
        });
        let joins = trace.map(|t| t.joins.as_slice()).unwrap_or_default();
        let kept = trace.and_then(|t| t.kept.as_deref()).filter(|_| pictures == Pictures::All);
        let all = |picture: fn(&[LayerRow]) -> Option<String>| {
            drawn((pictures == Pictures::All).then(|| picture(layers)).flatten())
        };
        let page = Self {
            flames: flames.collect(),
            perfetto: kept.map(perfetto).unwrap_or_default(),
            waterfalls: waterfalls.collect(),
            classes: drawn(classes::classes_svg(layers)),
            class_table: classes::class_table(layers),
            joins: joins.iter().map(join).collect(),
            sizes: all(distributions::sizes_svg),
            seeks: all(distributions::seeks_svg),
            timelines: all(timeline::timelines_svg),
            remarks: trace.iter().flat_map(|t| &t.remarks).map(|r| sentence(r)).collect(),
        };
        page.says_more().then_some(page)
    }

    /// Sizes are in the table of layers already; alone they are no reason for a section.
    fn says_more(&self) -> bool {
        !self.waterfalls.is_empty()
            || !self.flames.is_empty()
            || !self.joins.is_empty()
            || !self.remarks.is_empty()
            || [&self.classes, &self.seeks, &self.timelines].iter().any(|chart| chart.is_true())
    }
}

/// The requests that were kept as a trace for Perfetto, compressed, in base64; empty where none was. What is in memory can be read, and so
/// be written.
fn perfetto(kept: &Correlation) -> String {
    let trace = Trace::of_kept(kept);
    if trace.levels.is_empty() {
        return String::new();
    }
    let mut compressed = GzEncoder::new(Vec::new(), Compression::default());
    let written = write_perfetto(&trace, &mut compressed).ok().and_then(|_| compressed.finish().ok());
    written.map(|bytes| BASE64_STANDARD.encode(bytes)).unwrap_or_default()
}

fn join(row: &JoinRow) -> JoinPage {
    let or_dash = |text: Option<String>| text.map_or_else(|| "–".to_owned(), |t| typeset(&t));
    let time = |ns: u64| units::duration_ns(ns as f64);
    let origins = row.origins.iter().map(|o| {
        let title =
            format!("{}, {}", units::plural_u64(o.requests, "request", "requests"), units::bytes(o.bytes));
        (o.words, typeset(&units::share(o.share)), title)
    });
    JoinPage {
        layer: row.name.layer.clone(),
        kind: row.name.kind.to_string(),
        machine: if row.name.has_machine_of_its_own() { row.name.machine.to_string() } else { String::new() },
        requests: typeset(&units::count(row.requests)),
        origins: origins.collect(),
        unmatched: or_dash(row.unmatched_share.map(units::share)),
        absorbed: or_dash(row.absorbed.map(units::count)),
        split: or_dash(row.split.map(units::count)),
        merged: or_dash(row.merged.map(units::count)),
        added: or_dash(row.added.map(|a| time(a.p50_ns))),
        added_p99: or_dash(row.added.map(|a| time(a.p99_ns))),
        clock: match row.clock_words() {
            Some(words) => typeset(&words),
            None if row.unmatched_above.is_some() => "the same".to_owned(),
            None => "–".to_owned(),
        },
    }
}
