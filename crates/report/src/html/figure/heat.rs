//! A table of colours, or of numbers alone.

use std::fmt::Write as _;

use nestor_results::{Better, Figure, FigureKind, FigureRow};

use super::{
    Anchor, LETTER, SMALL, Svg, distinct, fitted, in_lines, number, text_width, typeset, x_words, y_label,
};
use crate::units;

/// Height of a field with its value alone, and with the interval below it.
const TALL: (f64, f64) = (34.0, 42.0);
/// Widths of a column and of the names of the rows.
const COLUMN: (f64, f64) = (58.0, 120.0);
const NAMES: (f64, f64) = (60.0, 170.0);
/// The rows of a table of numbers are named with their units.
const NAMES_WITH_UNITS: (f64, f64) = (60.0, 300.0);
/// Lines that a name may have, and from one to the next: what tells two names apart often stands at their ends.
const MOST_LINES: usize = 3;
const LINE_HEIGHT: f64 = 13.0;
/// Share of colour of the strongest cell; more would drown the number in it.
const STRONGEST: f64 = 0.8;

/// Gives width, height and what is drawn.
pub(super) fn draw(figure: &Figure, series: &[&str], rows: &[&FigureRow]) -> (f64, f64, String) {
    let words: Vec<String> = rows.iter().map(|r| x_words(&r.x)).collect();
    let columns = distinct(words.iter().map(String::as_str));
    let series: Vec<&str> = series.iter().copied().filter(|s| rows.iter().any(|r| r.series == *s)).collect();
    let widest = |names: &[&str]| names.iter().map(|n| text_width(n, LETTER)).fold(0.0, f64::max);
    let names = if figure.query.kind == FigureKind::Table { NAMES_WITH_UNITS } else { NAMES };
    let left = (widest(&series) + 12.0).clamp(names.0, names.1);
    let details: Vec<String> = rows.iter().map(|row| detail(row)).collect();
    let detailed = details.iter().any(|detail| !detail.is_empty());
    let below = details.iter().map(|detail| text_width(detail, SMALL)).fold(0.0, f64::max);
    let column = (widest(&columns).max(below) + 10.0).clamp(COLUMN.0, COLUMN.1);
    let least = if figure.query.alike.is_some() { 460.0 } else { 300.0 };
    let width = (left + column * columns.len() as f64 + 2.0).max(least);
    let heads = Names::of(&columns, column - 4.0);
    let sides = Names::of(&series, left - 8.0);
    let tall = if detailed { TALL.1 } else { TALL.0 }.max(sides.height() + 22.0);
    let top = 44.0 + heads.height();
    let mut svg = Svg::part();
    y_label(&mut svg, figure, 14.0, width);
    for (c, lines) in heads.0.iter().enumerate() {
        let middle = left + (c as f64 + 0.5) * column;
        // They end just above their fields.
        heads.draw(&mut svg, lines, (middle, top - 8.0), Anchor::Middle);
    }
    for (r, lines) in sides.0.iter().enumerate() {
        let middle = top + (r as f64 + 0.5) * tall + 4.0;
        let half = lines.len().saturating_sub(1) as f64 * LINE_HEIGHT / 2.0;
        sides.draw(&mut svg, lines, (2.0, middle + half), Anchor::Start);
    }
    let colour = Colour::of(figure, rows);
    for (row, words) in rows.iter().zip(&words) {
        let place = |names: &[&str], name: &str| names.iter().position(|n| *n == name).unwrap_or(0);
        let x = left + place(&columns, words) as f64 * column;
        let y = top + place(&series, &row.series) as f64 * tall;
        svg.titled("field", &spoken(row, words), |svg| {
            svg.rect("neutral", x + 1.0, y + 1.0, column - 2.0, tall - 2.0);
            let (class, share) = colour.at(row);
            svg.rect(&format!("{class} o{:.0}", share * 10.0), x + 1.0, y + 1.0, column - 2.0, tall - 2.0);
            if is_open(figure, row) {
                svg.hatch(x + 1.0, y + 1.0, column - 2.0, tall - 2.0);
            }
            let value = format!("{}{}", number(row.y), if row.is_mostly_marked() { "*" } else { "" });
            let first = if detailed { y + 17.0 } else { y + tall / 2.0 + 4.0 };
            svg.text("value", x + column / 2.0, first, Anchor::Middle, &fitted(&value, column - 6.0, LETTER));
            let detail = fitted(&detail(row), column - 4.0, SMALL);
            svg.text("detail", x + column / 2.0, y + tall - 9.0, Anchor::Middle, &detail);
        });
    }
    let bottom = top + series.len() as f64 * tall;
    let along = fitted(&typeset(&figure.query.x), width - left, SMALL);
    svg.text("tick", (left + width) / 2.0, bottom + 18.0, Anchor::Middle, &along);
    let used = key(&mut svg, figure, rows, (2.0, bottom + 38.0), width);
    (width, bottom + 24.0 + used, svg.into_part())
}

/// Names of columns or rows, each in lines.
struct Names(Vec<Vec<String>>);

impl Names {
    fn of(names: &[&str], room: f64) -> Self {
        Self(names.iter().map(|name| in_lines(name, room, LETTER, MOST_LINES)).collect())
    }

    /// What the longest takes beyond one line.
    fn height(&self) -> f64 {
        let most = self.0.iter().map(Vec::len).max().unwrap_or(1);
        most.saturating_sub(1) as f64 * LINE_HEIGHT
    }

    /// Draws one that ends at a height.
    fn draw(&self, svg: &mut Svg, lines: &[String], (x, end): (f64, f64), anchor: Anchor) {
        for (i, line) in lines.iter().rev().enumerate() {
            svg.text("name", x, end - i as f64 * LINE_HEIGHT, anchor, line);
        }
    }
}

/// What is said of a field: its value, interval, pairs and marks.
fn spoken(row: &FigureRow, words: &str) -> String {
    let mut text = format!("{}, {words}: {}", row.series, number(row.y));
    if let Some((low, high)) = row.interval() {
        let _ = write!(text, " [{}, {}]", number(low), number(high));
    }
    if let Some(n) = row.n {
        let _ = write!(text, ", {}", units::plural_u64(n, "value", "values"));
    }
    if let Some(marked) = row.marked.filter(|marked| *marked > 0) {
        let _ = write!(text, ", {marked} with a mark");
    }
    text
}

/// The interval and how many values a field is the mean of, as far as they are known.
fn detail(row: &FigureRow) -> String {
    let range = row.interval().map(|(low, high)| format!("{}\u{2013}{}", number(low), number(high)));
    let n = row.n.map(|n| format!("n {n}"));
    units::listed(range.into_iter().chain(n))
}

/// What colours and signs mean; gives the height that it used.
fn key(svg: &mut Svg, figure: &Figure, rows: &[&FigureRow], (left, top): (f64, f64), width: f64) -> f64 {
    const LINE: f64 = 18.0;
    let Some(alike) = figure.query.alike else { return 0.0 };
    let (below, above) = match figure.query.better {
        Better::More => ("slower", "faster"),
        Better::Less => ("faster", "slower"),
    };
    let ends = [number(alike / FULL_COLOUR), number(alike), number(alike * FULL_COLOUR)];
    let fields = [
        (below, STRONGEST),
        (below, STRONGEST / 2.0),
        ("neutral", 1.0),
        (above, STRONGEST / 2.0),
        (above, STRONGEST),
    ];
    for (i, (class, share)) in fields.iter().enumerate() {
        let x = left + i as f64 * 26.0;
        svg.rect("neutral", x, top - 10.0, 24.0, 12.0);
        svg.rect(&format!("{class} o{:.0}", (share * 10.0).min(8.0)), x, top - 10.0, 24.0, 12.0);
    }
    for (i, end) in ends.iter().enumerate() {
        svg.text("tick", left + 12.0 + i as f64 * 52.0, top + 15.0, Anchor::Middle, end);
    }
    let mut words = vec!["orange: worse, blue: better".to_owned()];
    if rows.iter().any(|row| row.interval().is_some()) {
        words.push(format!("hatched: the interval includes {}", number(alike)));
    }
    if rows.iter().any(|row| row.n.is_some()) {
        words.push("n: pairs of runs".to_owned());
    }
    if rows.iter().any(|row| row.is_mostly_marked()) {
        words.push("*: more than half of the runs have a mark".to_owned());
    }
    for (i, line) in words.iter().enumerate() {
        let text = fitted(line, width - 140.0, SMALL);
        svg.text("tick", left + 138.0, top + i as f64 * LINE, Anchor::Start, &text);
    }
    14.0 + LINE * words.len().max(2) as f64
}

/// A change by this factor, up or down, has the full colour, as in the matrix of a study.
const FULL_COLOUR: f64 = 2.0;

/// Whether the interval of a value includes "no difference", where the figure has one.
fn is_open(figure: &Figure, row: &FigureRow) -> bool {
    let interval = figure.query.alike.zip(row.interval());
    interval.is_some_and(|(alike, (low, high))| low <= alike && alike <= high)
}

/// How a value is coloured.
enum Colour {
    /// Orange where it is worse than this, blue where it is better.
    Around(f64, Better),
    /// Blue from the least to the most; where there are values on both sides of nothing, orange below and blue above.
    Over { least: f64, most: f64 },
    /// Not at all: the values have several units.
    None,
}

impl Colour {
    fn of(figure: &Figure, rows: &[&FigureRow]) -> Self {
        if figure.query.kind == FigureKind::Table {
            return Self::None;
        }
        if let Some(alike) = figure.query.alike {
            return Self::Around(alike, figure.query.better);
        }
        let values = || rows.iter().map(|r| r.y);
        Self::Over {
            least: values().fold(f64::INFINITY, f64::min),
            most: values().fold(f64::NEG_INFINITY, f64::max),
        }
    }

    /// Class and share of colour.
    fn at(&self, row: &FigureRow) -> (&'static str, f64) {
        let share = |part: f64, whole: f64| {
            if whole > 0.0 { (part / whole).clamp(0.0, 1.0) * STRONGEST } else { 0.0 }
        };
        match *self {
            Self::Around(alike, better) => {
                let is_better = (row.y >= alike) == (better == Better::More);
                let factor = (row.y / alike).max(f64::MIN_POSITIVE).ln().abs();
                (if is_better { "faster" } else { "slower" }, share(factor, FULL_COLOUR.ln()))
            }
            Self::Over { least, most } if least < 0.0 && most > 0.0 => {
                (if row.y < 0.0 { "slower" } else { "faster" }, share(row.y.abs(), most.max(-least)))
            }
            Self::Over { least, most } => ("faster", share(row.y - least, most - least)),
            Self::None => ("neutral", 0.0),
        }
    }
}
