//! One request and what it caused, as bars on one axis of time.

use super::svg::{Anchor, LETTER, SMALL, Svg, fitted, text_width, ticks};
use crate::html::typeset;
use crate::units;
use crate::view::{Waterfall, WaterfallRow, operation_words, origin_words};

pub(super) const WIDTH: f64 = 1120.0;
const ROW: f64 = 24.0;
const BAR: f64 = 14.0;
/// Where the bars begin and end.
const FROM: f64 = 330.0;
const TO: f64 = 985.0;
const INDENT: f64 = 14.0;
const AXIS: f64 = 26.0;

/// What is caused below is drawn once more on an axis of its own if it takes less than this of the whole.
const TOO_NARROW: f64 = 0.2;

/// An axis of time in nanoseconds.
struct Axis {
    first: f64,
    last: f64,
    /// What is 0 on it.
    zero: f64,
}

impl Axis {
    fn of(rows: &[WaterfallRow]) -> Self {
        let first = rows.iter().map(|r| r.queued_ns).min().unwrap_or(0) as f64;
        let last = rows.iter().map(|r| r.completed_ns).max().unwrap_or(1) as f64;
        // Times before a request's own beginning exist where clocks are known to within a bound only.
        let zero = rows.first().map_or(0.0, |row| row.queued_ns as f64);
        Self { first, last: last.max(first + 1.0), zero }
    }

    fn span(&self) -> f64 {
        self.last - self.first
    }

    fn at(&self, time_ns: i64) -> f64 {
        FROM + (time_ns as f64 - self.first) / (self.last - self.first) * (TO - FROM)
    }
}

pub(super) fn waterfall_svg(waterfall: &Waterfall) -> String {
    let label = format!("{}: {}, {}", waterfall.name, waterfall.what, waterfall.words());
    svg_of(&waterfall.rows, &label)
}

/// What a request caused, on an axis of its own, with a caption; `None` where it can be seen beside the request.
pub(super) fn zoomed_svg(waterfall: &Waterfall) -> Option<(String, String)> {
    let [whole, below @ ..] = waterfall.rows.as_slice() else { return None };
    let first = below.first()?;
    let (wide, narrow) = (Axis::of(&waterfall.rows).span(), Axis::of(below).span());
    if narrow > wide * TOO_NARROW {
        return None;
    }
    let times = units::digits(wide / narrow);
    let caption = format!(
        "The same below the {}, from {} on, {times} times as wide:",
        whole.name.layer, first.name.layer
    );
    Some((svg_of(below, &caption), caption))
}

fn svg_of(rows: &[WaterfallRow], label: &str) -> String {
    let mut svg = Svg::new("waterfall", WIDTH, size(rows).1, label);
    draw(&mut svg, rows);
    svg.finish()
}

/// The bars without an element around them, and their height.
pub(super) fn drawn(waterfall: &Waterfall) -> (String, f64) {
    let mut svg = Svg::part();
    draw(&mut svg, &waterfall.rows);
    (svg.into_part(), size(&waterfall.rows).1)
}

/// Height of the bars, and with the axis.
fn size(rows: &[WaterfallRow]) -> (f64, f64) {
    let bars = rows.len() as f64 * ROW;
    (bars, bars + AXIS)
}

fn draw(svg: &mut Svg, rows: &[WaterfallRow]) {
    let axis = Axis::of(rows);
    draw_axis(svg, &axis, size(rows).0);
    for (index, row) in rows.iter().enumerate() {
        draw_row(svg, &axis, row, index as f64 * ROW);
    }
}

fn draw_axis(svg: &mut Svg, axis: &Axis, height: f64) {
    let mut free_from = f64::MIN;
    for tick in ticks(axis.last - axis.zero, 6) {
        let x = axis.at((axis.zero + tick) as i64);
        svg.path("grid", &format!("M{x:.1} 0V{:.1}", height + 4.0));
        let words = typeset(&units::duration_ns(tick));
        let text = if tick == 0.0 { "0" } else { words.as_str() };
        let half = text_width(text, SMALL) / 2.0;
        if x - half >= free_from {
            svg.text("tick", x, height + 18.0, Anchor::Middle, text);
            free_from = x + half + 6.0;
        }
    }
}

fn draw_row(svg: &mut Svg, axis: &Axis, row: &WaterfallRow, y: f64) {
    let middle = y + ROW / 2.0 + 4.0;
    let top = y + (ROW - BAR) / 2.0;
    let (queued, issued, completed) =
        (axis.at(row.queued_ns), axis.at(row.issued_ns), axis.at(row.completed_ns));
    let left = 2.0 + row.depth.min(8) as f64 * INDENT;
    let (name, what) = labels(row);
    svg.titled(&format!("bar c-{}", row.carries.name()), &title(row), |svg| {
        // The whole row can be pointed at, not only the bar, which may be a hair.
        svg.rect("hit", 0.0, y, WIDTH, ROW);
        let room = FROM - left - 10.0;
        let name = fitted(&name, room * 0.6, LETTER);
        let taken = text_width(&name, LETTER) + 8.0;
        svg.text("name", left, middle, Anchor::Start, &name);
        svg.text("what", FROM - 10.0, middle, Anchor::End, &fitted(&what, room - taken, SMALL));
        if row.more == 0 {
            svg.rect("wait", queued, top, issued - queued, BAR);
            svg.rect("serve", issued, top, (completed - issued).max(1.2), BAR);
        } else {
            svg.rect("several", queued, top + BAR / 2.0 - 2.0, (completed - queued).max(1.2), 4.0);
        }
        draw_note(svg, row, (queued, issued, completed), middle);
    });
    let took = typeset(&units::duration_ns((row.completed_ns - row.queued_ns).max(0) as f64));
    svg.text("took", WIDTH - 2.0, middle, Anchor::End, &took);
}

/// Class and origin, beside the bar where there is room: behind it, else before it.
fn draw_note(svg: &mut Svg, row: &WaterfallRow, (from, issued, to): (f64, f64, f64), y: f64) {
    let note = note(row);
    let width = text_width(&note, SMALL) + 6.0;
    let right_edge = TO + 40.0;
    if to + width <= right_edge {
        svg.text("note", to + 6.0, y, Anchor::Start, &note);
    } else if from - width >= FROM {
        svg.text("note", from - 6.0, y, Anchor::End, &note);
    } else if to - issued >= width + 6.0 {
        svg.text(&format!("inside on-{}", row.carries.name()), to - 6.0, y, Anchor::End, &note);
    }
}

/// What stands before a bar: the layer, and what is asked of it.
fn labels(row: &WaterfallRow) -> (String, String) {
    if row.more > 0 {
        let name = format!("{} more at {}", row.more, row.name.layer);
        return (name, typeset(&units::bytes(row.bytes)));
    }
    let size = if row.bytes > 0 { format!(" {}", typeset(&units::bytes(row.bytes))) } else { String::new() };
    (row.name.layer.clone(), format!("{}{size}", operation_words(row.operation)))
}

fn note(row: &WaterfallRow) -> String {
    if row.more > 0 {
        return String::new();
    }
    let class = match row.class {
        nestor_layout::Class::Unknown | nestor_layout::Class::Flush => String::new(),
        class => class.label().to_owned(),
    };
    let origin = row.origin.filter(|origin| *origin != nestor_correlate::Origin::Parent).map(origin_words);
    let shared = (row.shared_with > 0).then(|| format!("with {} others", row.shared_with));
    let parts = [Some(class).filter(|c| !c.is_empty()), origin.map(str::to_owned), shared];
    // A journal's request of the journal needs no second word.
    let mut parts: Vec<String> = parts.into_iter().flatten().collect();
    parts.dedup();
    parts.join(", ")
}

fn title(row: &WaterfallRow) -> String {
    let time = |ns: i64| {
        let sign = if ns < 0 { "-" } else { "" };
        format!("{sign}{}", units::duration_ns(ns.unsigned_abs() as f64))
    };
    let place = [&row.name.layer, &row.name.kind, &row.name.machine];
    let place: Vec<&str> = place.iter().map(|p| p.as_str()).filter(|p| !p.is_empty()).collect();
    if row.more > 0 {
        return format!(
            "{}\n{} more requests, {} in all, from {} to {}",
            place.join(", "),
            row.more,
            units::bytes(row.bytes),
            time(row.queued_ns),
            time(row.completed_ns)
        );
    }
    let mut lines = vec![
        place.join(", "),
        format!(
            "request {}: {} of {} at byte {}, {}",
            row.request,
            operation_words(row.operation),
            units::bytes(row.bytes),
            units::count(row.offset),
            row.class.label()
        ),
        format!(
            "begins at {}, waits {}, is served {}, ends at {}",
            time(row.queued_ns),
            time(row.issued_ns - row.queued_ns),
            time(row.completed_ns - row.issued_ns),
            time(row.completed_ns)
        ),
    ];
    lines.extend(row.origin.map(|origin| format!("why: {}", origin_words(origin))));
    if row.shared_with > 0 {
        lines.push(format!("serves {} more above", units::plural(row.shared_with as usize, "request")));
    }
    lines.join("\n")
}
