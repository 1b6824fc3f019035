//! Throughput and queue depth over time, layer below layer on one axis.

use nestor_trace::metrics::Timeline;

use crate::html::layer_colour::LayerColour;
use crate::html::svg::{Anchor, LETTER, SMALL, Svg, fitted, ticks};
use crate::html::typeset;
use crate::units;
use crate::view::LayerRow;

const WIDTH: f64 = 1120.0;
const NAME: f64 = 120.0;
const ROW: f64 = 84.0;
const TALL: f64 = 56.0;
/// Room for the labels at the left of each chart.
const LABEL: f64 = 58.0;
const GAP: f64 = 24.0;
/// More points than this are not seen, but are read.
const MOST_POINTS: usize = 140;

/// Values over time, each for a step of equal width.
struct Series {
    /// When the first step begins, seconds after the first of all layers.
    start_s: f64,
    step_s: f64,
    values: Vec<f64>,
    /// The largest within each step, where it is known.
    highest: Vec<f64>,
}

impl Series {
    /// With at most [`MOST_POINTS`]: means of neighbours.
    fn new((start_s, step_ns): (f64, u64), values: Vec<f64>, highest: Vec<f64>) -> Self {
        let fold = values.len().div_ceil(MOST_POINTS).max(1);
        let mean = |chunk: &[f64]| chunk.iter().sum::<f64>() / chunk.len() as f64;
        let most = |chunk: &[f64]| chunk.iter().copied().fold(0.0, f64::max);
        Self {
            start_s,
            step_s: step_ns as f64 * fold as f64 / 1e9,
            values: values.chunks(fold).map(mean).collect(),
            highest: highest.chunks(fold).map(most).collect(),
        }
    }

    fn top(&self) -> f64 {
        self.values.iter().chain(&self.highest).copied().filter(|v| v.is_finite()).fold(0.0, f64::max)
    }
}

fn throughput(timeline: &Timeline, start_s: f64) -> Series {
    let seconds = (timeline.step_ns.max(1)) as f64 / 1e9;
    let both = timeline.read_bytes.iter().zip(&timeline.write_bytes);
    Series::new(
        (start_s, timeline.step_ns),
        both.map(|(r, w)| (*r + *w) as f64 / seconds).collect(),
        Vec::new(),
    )
}

fn depth(timeline: &Timeline, start_s: f64) -> Series {
    let highest = timeline.depth_max.iter().map(|d| f64::from(*d)).collect();
    Series::new((start_s, timeline.step_ns), timeline.depth.clone(), highest)
}

/// A place for a chart.
struct Frame {
    x: f64,
    base: f64,
    width: f64,
    /// Seconds and value at its far corner.
    seconds: f64,
    top: f64,
}

/// Width of a chart, and where the two of each layer begin.
const CHART: f64 = (WIDTH - NAME - 2.0 * LABEL - GAP - 8.0) / 2.0;
const LEFT: f64 = NAME + LABEL;
const RIGHT: f64 = NAME + 2.0 * LABEL + CHART + GAP;

/// What is shown of a layer.
struct Row<'l> {
    layer: &'l LayerRow,
    throughput: Series,
    depth: Series,
}

pub(super) fn timelines_svg(layers: &[LayerRow]) -> Option<String> {
    let (rows, starts_are_known) = rows(layers);
    let end = |series: &Series| series.start_s + series.step_s * series.values.len() as f64;
    let seconds = rows.iter().map(|row| end(&row.throughput)).fold(0.0, f64::max);
    // Bytes are compared between layers, so they share a scale; depths are limits of each layer's own.
    let fastest = rows.iter().map(|row| row.throughput.top()).fold(0.0, f64::max);
    if rows.is_empty() || seconds <= 0.0 {
        return None;
    }
    let height = rows.len() as f64 * ROW + 16.0;
    let mut svg =
        Svg::new("timelines", WIDTH, height + 24.0, "throughput and queue depth of each layer over time");
    let head = match starts_are_known {
        true => "throughput; dashed: mean",
        false => "throughput; dashed: mean; each layer from its own first request",
    };
    svg.text("head", LEFT, 12.0, Anchor::Start, head);
    svg.text("head", RIGHT, 12.0, Anchor::Start, "requests at the device; line: maximum; dashed: mean");
    for (index, Row { layer, throughput, depth }) in rows.iter().enumerate() {
        let base = 20.0 + index as f64 * ROW + TALL + 8.0;
        let middle = base - TALL / 2.0;
        let (name, machine) = (&layer.short_name, layer.machine.to_string());
        svg.rect(&format!("layer {}", LayerColour::of_row(layer).class()), 2.0, base - TALL, 4.0, TALL);
        svg.text("name", 12.0, middle, Anchor::Start, &fitted(name, NAME - 18.0, LETTER));
        svg.text("what", 12.0, middle + 14.0, Anchor::Start, &fitted(&machine, NAME - 18.0, SMALL));
        let frame = |x: f64, top: f64| Frame { x, base, width: CHART, seconds, top };
        chart(&mut svg, layer, throughput, &frame(LEFT, fastest), units::rate);
        chart(&mut svg, layer, depth, &frame(RIGHT, depth.top()), requests);
    }
    for x in [LEFT, RIGHT] {
        for tick in ticks(seconds, 6) {
            let at = x + tick / seconds * CHART;
            // A label at the end would leave the picture or meet the next chart's first.
            let anchor = if tick > seconds * 0.97 { Anchor::End } else { Anchor::Middle };
            svg.text("tick", at, height + 14.0, anchor, &typeset(&format!("{} s", short(tick))));
        }
    }
    Some(svg.finish())
}

/// The layers with a timeline, and whether it is known when each began: where a clock was not compared with the others, each
/// layer begins with its own first request.
fn rows(layers: &[LayerRow]) -> (Vec<Row<'_>>, bool) {
    let with_timeline = || {
        let all = layers.iter().filter_map(|layer| Some((layer, layer.timeline.as_ref()?)));
        all.filter(|(_, timeline)| timeline.step_ns > 0 && !timeline.depth.is_empty())
    };
    let starts: Option<Vec<i64>> = with_timeline().map(|(layer, _)| layer.timeline_start_ns).collect();
    let first = starts.as_ref().and_then(|starts| starts.iter().copied().min()).unwrap_or(0);
    let start_s = |index: usize| starts.as_ref().map_or(0.0, |starts| (starts[index] - first) as f64 / 1e9);
    let row = |(index, (layer, timeline))| Row {
        layer,
        throughput: throughput(timeline, start_s(index)),
        depth: depth(timeline, start_s(index)),
    };
    (with_timeline().enumerate().map(row).collect(), starts.is_some())
}

fn chart(svg: &mut Svg, layer: &LayerRow, series: &Series, frame: &Frame, words: impl Fn(f64) -> String) {
    let top = if frame.top > 0.0 { frame.top } else { 1.0 };
    let at = |seconds: f64, value: f64| {
        (frame.x + seconds / frame.seconds * frame.width, frame.base - (value / top).clamp(0.0, 1.0) * TALL)
    };
    svg.path("grid", &format!("M{:.1} {:.1}h{:.1}", frame.x, frame.base - TALL, frame.width));
    svg.path("axis", &format!("M{:.1} {:.1}h{:.1}", frame.x, frame.base, frame.width));
    svg.text("tick", frame.x - 6.0, frame.base - TALL + 4.0, Anchor::End, &typeset(&words(frame.top)));
    svg.text("tick", frame.x - 6.0, frame.base + 3.0, Anchor::End, "0");
    // Steps, because the values are means over them.
    let (left, _) = at(series.start_s, 0.0);
    let steps = |values: &[f64], close: bool| {
        let begin = if close { frame.base } else { at(0.0, values.first().copied().unwrap_or(0.0)).1 };
        let mut data = format!("M{left:.1} {begin:.1}");
        for (i, value) in values.iter().enumerate() {
            let (x, y) = at(series.start_s + (i + 1) as f64 * series.step_s, *value);
            data.push_str(&format!("V{y:.1}H{x:.1}"));
        }
        if close {
            data.push_str(&format!("V{:.1}Z", frame.base));
        }
        data
    };
    let mean = series.values.iter().sum::<f64>() / series.values.len().max(1) as f64;
    let title = format!("{}: mean {}, maximum {}", layer.short_name, words(mean), words(series.top()));
    svg.titled(&format!("series {}", LayerColour::of_row(layer).class()), &title, |svg| {
        svg.rect("hit", frame.x, frame.base - TALL, frame.width, TALL);
        svg.path("area", &steps(&series.values, true));
        if !series.highest.is_empty() {
            svg.path("most", &steps(&series.highest, false));
        }
    });
    let (_, y) = at(0.0, mean);
    svg.path("mean", &format!("M{:.1} {y:.1}h{:.1}", frame.x, frame.width));
}

/// A mean number of requests, or a whole one.
fn requests(value: f64) -> String {
    if value >= 10.0 || value.fract() == 0.0 { format!("{value:.0}") } else { units::digits(value) }
}

fn short(value: f64) -> String {
    if value.fract() == 0.0 {
        format!("{value:.0}")
    } else {
        format!("{value:.2}").trim_end_matches('0').to_owned()
    }
}
