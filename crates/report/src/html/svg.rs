//! Drawing with text that fits: an SVG is drawn in the page's pixels and knows roughly how wide its letters are.

use std::fmt::Write as _;

use nestor_text::markup_escaped;
use unicode_width::UnicodeWidthChar;

/// Letters of the charts, in pixels.
pub(in crate::html) const LETTER: f64 = 12.0;
/// Letters of axes.
pub(in crate::html) const SMALL: f64 = 11.0;

/// On which side of its place a text stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::html) enum Anchor {
    Start,
    Middle,
    End,
}

impl Anchor {
    fn name(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Middle => "middle",
            Self::End => "end",
        }
    }
}

/// How wide a text is at most, in the sans-serif fonts that systems have. Their widest common letters take 0.95 of the
/// height, most 0.5 to 0.6; the mean of English text with digits is 0.54 in the widest of them (DejaVu Sans, Verdana:
/// 0.62).
pub(in crate::html) fn text_width(text: &str, size: f64) -> f64 {
    let width_of = |c: char| match c {
        'i' | 'j' | 'l' | 't' | 'f' | 'r' | 'I' | ' ' | '\u{a0}' | '.' | ',' | ':' | ';' | '\'' | '|'
        | '(' | ')' | '/' => 0.42,
        'm' | 'w' | 'M' | 'W' | '%' | '@' | '…' => 1.0,
        c if c.is_ascii_uppercase() => 0.74,
        c if c.is_ascii() => 0.65,
        c => 0.7 * c.width().unwrap_or(0).max(1) as f64,
    };
    text.chars().map(width_of).sum::<f64>() * size
}

/// The text, or as much of it as has room, with an ellipsis.
pub(in crate::html) fn fitted(text: &str, room: f64, size: f64) -> String {
    if text_width(text, size) <= room {
        return text.to_owned();
    }
    let mut kept = String::new();
    for c in text.chars() {
        if text_width(&kept, size) + text_width(&c.to_string(), size) + size > room {
            break;
        }
        kept.push(c);
    }
    if kept.is_empty() { String::new() } else { format!("{}…", kept.trim_end()) }
}

/// The text in lines of the room, at most so many: broken after blanks, and in names after the signs that part them. The last line has an
/// ellipsis if more is left.
pub(in crate::html) fn in_lines(text: &str, room: f64, size: f64, most: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for piece in text.split_inclusive([' ', '/', ':', ',']) {
        match lines.last_mut() {
            Some(line) if text_width(&format!("{line}{}", piece.trim_end()), size) <= room => {
                line.push_str(piece);
            }
            _ => lines.push(piece.to_owned()),
        }
    }
    if lines.len() > most {
        let rest = lines.split_off(most.saturating_sub(1)).concat();
        lines.push(rest);
    }
    lines.iter().map(|line| fitted(line.trim_end(), room, size)).collect()
}

/// How far two lines of a hatching are apart, across the field, in pixels.
const HATCH_STEP: f64 = 10.0;

/// The path of lines at 45 degrees that fill a rectangle and end at its edges.
pub(in crate::html) fn hatching(x: f64, y: f64, width: f64, height: f64) -> String {
    let mut path = String::new();
    let lines = ((width + height) / HATCH_STEP).ceil() as usize;
    for sum in (0..lines).map(|i| (i as f64 + 0.5) * HATCH_STEP).filter(|sum| *sum < width + height) {
        // On a line, the distances from the left and from the top have one sum.
        let (from, to) = ((sum - height).max(0.0), sum.min(width));
        let (below, above) = (y + sum - from, y + sum - to);
        let _ = write!(path, "M{:.1} {below:.1}L{:.1} {above:.1}", x + from, x + to);
    }
    path
}

/// An SVG that is being drawn.
pub(in crate::html) struct Svg(String);

impl Svg {
    /// An empty one. `label` is what a screen reader says of it.
    pub(in crate::html) fn new(class: &str, width: f64, height: f64, label: &str) -> Self {
        Self(format!(
            "<svg class=\"{class}\" viewBox=\"0 0 {width:.0} {height:.0}\" style=\"max-width:{width:.0}px\" role=\"img\" \
             aria-label=\"{}\">",
            markup_escaped(label)
        ))
    }

    /// A part of another.
    pub(in crate::html) fn part() -> Self {
        Self(String::new())
    }

    pub(in crate::html) fn into_part(self) -> String {
        self.0
    }

    /// Adds what was drawn apart.
    pub(in crate::html) fn append(&mut self, part: &str) {
        self.0.push_str(part);
    }

    /// Something that is shown when it is pointed at: everything drawn by `draw` has the title.
    pub(in crate::html) fn titled(&mut self, class: &str, title: &str, draw: impl FnOnce(&mut Self)) {
        let _ = write!(self.0, "<g class=\"{class}\">");
        if !title.is_empty() {
            let _ = write!(self.0, "<title>{}</title>", markup_escaped(title));
        }
        draw(self);
        self.0.push_str("</g>");
    }

    pub(in crate::html) fn rect(&mut self, class: &str, x: f64, y: f64, width: f64, height: f64) {
        let (width, height) = (width.max(0.0), height.max(0.0));
        let _ = write!(
            self.0,
            "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\"/>"
        );
    }

    /// Lines across a field, which say that its value is not told apart from none.
    pub(in crate::html) fn hatch(&mut self, x: f64, y: f64, width: f64, height: f64) {
        self.path("hatch", &hatching(x, y, width, height));
    }

    /// A line through points, or an area if the path is closed by its class.
    pub(in crate::html) fn path(&mut self, class: &str, data: &str) {
        let _ = write!(self.0, "<path class=\"{class}\" d=\"{data}\"/>");
    }

    pub(in crate::html) fn text(&mut self, class: &str, x: f64, y: f64, anchor: Anchor, text: &str) {
        if text.is_empty() {
            return;
        }
        let _ = write!(
            self.0,
            "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{}\">{}</text>",
            anchor.name(),
            markup_escaped(text)
        );
    }

    /// A path with further attributes, and a title if there is one.
    pub(in crate::html) fn raw_path(&mut self, class: &str, attributes: &str, data: &str, title: &str) {
        let _ = write!(self.0, "<path class=\"{class}\" {attributes} d=\"{data}\">");
        if !title.is_empty() {
            let _ = write!(self.0, "<title>{}</title>", markup_escaped(title));
        }
        self.0.push_str("</path>");
    }

    /// A text with further attributes.
    pub(in crate::html) fn raw_text(
        &mut self,
        class: &str,
        attributes: &str,
        x: f64,
        y: f64,
        anchor: Anchor,
        text: &str,
    ) {
        let _ = write!(
            self.0,
            "<text class=\"{class}\" {attributes} x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{}\">{}</text>",
            anchor.name(),
            markup_escaped(text)
        );
    }

    pub(in crate::html) fn finish(mut self) -> String {
        self.0.push_str("</svg>");
        self.0
    }
}

/// Round places on an axis from 0: their distance is 1, 2 or 5 times a power of ten.
pub(in crate::html) fn ticks(highest: f64, most: usize) -> Vec<f64> {
    if !(highest.is_finite() && highest > 0.0) {
        return vec![0.0];
    }
    let rough = highest / most.max(1) as f64;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].iter().map(|f| f * power).find(|step| *step >= rough).unwrap_or(power);
    let count = (highest / step + 1e-9).floor() as usize;
    (0..=count).map(|i| i as f64 * step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_within() {
        assert_eq!(ticks(41.3, 5), [0.0, 10.0, 20.0, 30.0, 40.0]);
        assert_eq!(ticks(1.0, 4), [0.0, 0.5, 1.0]);
        assert_eq!(ticks(0.0, 4), [0.0]);
        assert_eq!(ticks(f64::NAN, 4), [0.0]);
    }

    #[test]
    fn text_is_cut_to_its_room() {
        assert_eq!(fitted("journal", 200.0, 12.0), "journal");
        let cut = fitted("a-very-long-name-of-a-layer", 80.0, 12.0);
        assert!(cut.ends_with('…') && text_width(&cut, 12.0) <= 80.0, "{cut}");
        assert_eq!(fitted("journal", 3.0, 12.0), "");
    }

    #[test]
    fn a_name_is_broken_where_its_parts_meet_and_cut_after_its_last_line() {
        let name = "raw disk (raid0:raid0-14x10k:size=6G), memory=384M, disk=virtio-blk";
        let lines = in_lines(name, 160.0, 12.0, 4);
        assert_eq!(lines, ["raw disk (raid0:", "raid0-14x10k:size=6G),", "memory=384M,", "disk=virtio-blk"]);
        assert_eq!(in_lines(name, 160.0, 12.0, 2)[1], "raid0-14x10k:size=6G…");
        assert_eq!(in_lines("journal", 160.0, 12.0, 2), ["journal"]);
        let whole = in_lines(&"a-name-without-parts".repeat(9), 160.0, 12.0, 3);
        assert!(whole.len() == 1 && whole[0].ends_with('…'), "{whole:?}");
    }
}
