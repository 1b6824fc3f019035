//! One request and what it caused, as bars on one axis of time.

use nestor_correlate::Origin;

use crate::html::layer_colour::LayerColour;
use crate::html::svg::{Anchor, LETTER, SMALL, Svg, fitted, text_width, ticks};
use crate::html::typeset;
use crate::units;
use crate::view::{Waterfall, WaterfallRow};

pub(super) const WIDTH: f64 = 1120.0;
const ROW: f64 = 24.0;
const BAR: f64 = 14.0;
/// Where the bars begin: as far to the left as the names allow, within these.
const FROM: (f64, f64) = (150.0, 330.0);
/// Where they end.
const TO: f64 = 985.0;
const INDENT: f64 = 14.0;
const AXIS: f64 = 26.0;
/// Height of an axis that stands above its bar.
const HEAD: f64 = 18.0;
/// Room in which one axis widens to another.
const FUNNEL: f64 = 26.0;

/// What is caused below has an axis of its own if it takes less than this of the whole.
const TOO_NARROW: f64 = 0.2;

/// An axis of time in nanoseconds.
struct Axis {
    /// Where it begins, in pixels.
    from: f64,
    first: f64,
    last: f64,
    /// What is 0 on it.
    zero: f64,
}

impl Axis {
    fn of(rows: &[WaterfallRow], from: f64) -> Self {
        let first = rows.iter().map(|r| r.queued_ns).min().unwrap_or(0) as f64;
        let last = rows.iter().map(|r| r.completed_ns).max().unwrap_or(1) as f64;
        // Times before a request's own beginning exist where clocks are known to within a bound only.
        let zero = rows.first().map_or(0.0, |row| row.queued_ns as f64);
        Self { from, first, last: last.max(first + 1.0), zero }
    }

    fn span(&self) -> f64 {
        self.last - self.first
    }

    fn at(&self, time_ns: i64) -> f64 {
        self.from + (time_ns as f64 - self.first) / (self.last - self.first) * (TO - self.from)
    }
}

/// The axes of a picture: of all bars, or of the request itself and, wider, of what it caused below.
enum Axes {
    One(Axis),
    Two { whole: Axis, below: Axis },
}

impl Axes {
    fn of(rows: &[WaterfallRow], from: f64) -> Self {
        let whole = Axis::of(rows, from);
        let below = match rows {
            [_, below @ ..] if !below.is_empty() => Axis::of(below, from),
            _ => return Self::One(whole),
        };
        if below.span() > whole.span() * TOO_NARROW { Self::One(whole) } else { Self::Two { whole, below } }
    }

    fn height(&self, rows: usize) -> f64 {
        let bars = rows as f64 * ROW + AXIS;
        match self {
            Self::One(_) => bars,
            Self::Two { .. } => bars + HEAD + FUNNEL,
        }
    }
}

/// Where the longest name with what is asked of it ends: the bars of all these pictures begin there.
pub(super) fn names_end(waterfalls: &[Waterfall]) -> f64 {
    let ends = waterfalls.iter().flat_map(|waterfall| &waterfall.rows).map(|row| {
        let (name, what) = labels(row);
        indent(row) + text_width(&name, LETTER) + text_width(&what, SMALL) + 26.0
    });
    ends.fold(FROM.0, f64::max).min(FROM.1)
}

fn indent(row: &WaterfallRow) -> f64 {
    10.0 + row.depth.min(8) as f64 * INDENT
}

/// `from` is where the bars begin, see [`names_end`].
pub(super) fn waterfall_svg(waterfall: &Waterfall, from: f64) -> String {
    let label = format!("{}: {}, {}", waterfall.name, waterfall.what, waterfall.words());
    let height = Axes::of(&waterfall.rows, from).height(waterfall.rows.len());
    let mut svg = Svg::new("waterfall", WIDTH, height, &label);
    draw(&mut svg, &waterfall.rows, from);
    svg.finish()
}

/// The bars without an element around them, and their height.
pub(super) fn drawn(waterfall: &Waterfall, from: f64) -> (String, f64) {
    let mut svg = Svg::part();
    draw(&mut svg, &waterfall.rows, from);
    (svg.into_part(), Axes::of(&waterfall.rows, from).height(waterfall.rows.len()))
}

fn draw(svg: &mut Svg, rows: &[WaterfallRow], from: f64) {
    let draw_rows = |svg: &mut Svg, axis: &Axis, rows: &[WaterfallRow], top: f64| {
        let bottom = top + rows.len() as f64 * ROW;
        draw_axis(svg, axis, (top, bottom + 4.0), bottom + 18.0);
        for (index, row) in rows.iter().enumerate() {
            draw_row(svg, axis, row, top + index as f64 * ROW);
        }
    };
    match (Axes::of(rows, from), rows) {
        (Axes::Two { whole, below }, [request, caused @ ..]) => {
            draw_axis(svg, &whole, (HEAD - 4.0, HEAD + ROW), 10.0);
            draw_row(svg, &whole, request, HEAD);
            draw_funnel(svg, &whole, &below, &request.name.layer);
            draw_rows(svg, &below, caused, HEAD + ROW + FUNNEL);
        }
        (Axes::One(axis) | Axes::Two { whole: axis, .. }, rows) => draw_rows(svg, &axis, rows, 0.0),
    }
}

/// Where on the axis above the axis below lies.
fn draw_funnel(svg: &mut Svg, whole: &Axis, below: &Axis, request: &str) {
    let (left, right) = (whole.at(below.first as i64), whole.at(below.last as i64));
    let right = right.max(left + 1.2);
    let (bar, top) = (HEAD + (ROW - BAR) / 2.0, HEAD + (ROW + BAR) / 2.0);
    let bottom = HEAD + ROW + FUNNEL;
    let from = below.from;
    svg.path("funnel", &format!("M{left:.1} {top:.1}L{from:.1} {bottom:.1}H{TO:.1}L{right:.1} {top:.1}Z"));
    svg.rect("window", left, bar, right - left, BAR);
    let times = units::digits(whole.span() / below.span());
    let words = format!("below: the {request}, enlarged {times} times");
    let words = fitted(&words, TO - from, SMALL);
    // Where the funnel is narrow, so that nothing lies under the words.
    let middle = (from + TO) / 2.0;
    let (x, anchor) = if (left + right) / 2.0 < middle { (TO, Anchor::End) } else { (from, Anchor::Start) };
    svg.text("note", x, top + 11.0, anchor, &words);
}

/// Lines from one height to another at round times, which stand at a third.
fn draw_axis(svg: &mut Svg, axis: &Axis, (top, bottom): (f64, f64), words_at: f64) {
    let mut free_from = f64::MIN;
    for tick in ticks(axis.last - axis.zero, 6) {
        let x = axis.at((axis.zero + tick) as i64);
        svg.path("grid", &format!("M{x:.1} {top:.1}V{bottom:.1}"));
        let words = typeset(&units::duration_ns(tick));
        let text = if tick == 0.0 { "0" } else { words.as_str() };
        let half = text_width(text, SMALL) / 2.0;
        if x - half >= free_from {
            svg.text("tick", x, words_at, Anchor::Middle, text);
            free_from = x + half + 6.0;
        }
    }
}

fn draw_row(svg: &mut Svg, axis: &Axis, row: &WaterfallRow, y: f64) {
    let middle = y + ROW / 2.0 + 4.0;
    let top = y + (ROW - BAR) / 2.0;
    let (queued, issued, completed) =
        (axis.at(row.queued_ns), axis.at(row.issued_ns), axis.at(row.completed_ns));
    let (left, from) = (indent(row), axis.from);
    let (name, what) = labels(row);
    let colour = LayerColour::of_level(&row.name).class();
    svg.titled(&format!("bar c-{} {colour}", row.carries.name()), &title(row), |svg| {
        // The whole row can be pointed at, not only the bar, which may be a hair.
        svg.rect("hit", 0.0, y, WIDTH, ROW);
        svg.rect("layer", left - 8.0, top, 4.0, BAR);
        let room = from - left - 10.0;
        let name = fitted(&name, room * 0.6, LETTER);
        let taken = text_width(&name, LETTER) + 8.0;
        svg.text("name", left, middle, Anchor::Start, &name);
        svg.text("what", from - 10.0, middle, Anchor::End, &fitted(&what, room - taken, SMALL));
        if row.more == 0 {
            svg.rect("wait", queued, top, issued - queued, BAR);
            svg.rect("serve", issued, top, (completed - issued).max(1.2), BAR);
        } else {
            svg.rect("several", queued, top + BAR / 2.0 - 2.0, (completed - queued).max(1.2), 4.0);
        }
        draw_note(svg, row, from, (queued, issued, completed), middle);
    });
    let took = typeset(&units::duration_ns((row.completed_ns - row.queued_ns).max(0) as f64));
    svg.text("took", WIDTH - 2.0, middle, Anchor::End, &took);
}

/// Class and origin, beside the bar where there is room: behind it, else before it.
fn draw_note(svg: &mut Svg, row: &WaterfallRow, left: f64, (from, issued, to): (f64, f64, f64), y: f64) {
    let note = note(row);
    let width = text_width(&note, SMALL) + 6.0;
    let right_edge = TO + 40.0;
    if to + width <= right_edge {
        svg.text("note", to + 6.0, y, Anchor::Start, &note);
    } else if from - width >= left {
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
    (row.name.layer.clone(), format!("{}{size}", row.operation.word()))
}

fn note(row: &WaterfallRow) -> String {
    if row.more > 0 {
        return String::new();
    }
    let class = match row.class {
        nestor_layout::Class::Unknown | nestor_layout::Class::Flush => String::new(),
        class => class.label().to_owned(),
    };
    let origin = row.origin.filter(|origin| *origin != Origin::Parent).map(Origin::words);
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
    let place = [row.name.layer.clone(), row.name.kind.to_string(), row.name.machine.to_string()];
    let place: Vec<String> = place.into_iter().filter(|part| !part.is_empty()).collect();
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
            row.operation.word(),
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
    lines.extend(row.origin.map(|origin| format!("why: {}", origin.words())));
    if row.shared_with > 0 {
        lines.push(format!("serves {} more above", units::plural(row.shared_with as usize, "request")));
    }
    lines.join("\n")
}
