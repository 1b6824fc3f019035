//! A table of colours.

use nestor_results::{Figure, FigureRow};

use super::{
    Anchor, LETTER, SMALL, Svg, distinct, fitted, interval, number, text_width, typeset, x_words, y_label,
};

const TALL: f64 = 34.0;
/// Widths of a column and of the names of the rows.
const COLUMN: (f64, f64) = (58.0, 96.0);
const NAMES: (f64, f64) = (60.0, 170.0);
/// Share of colour of the strongest cell; more would drown the number in it.
const STRONGEST: f64 = 0.8;

/// Gives width, height and what is drawn.
pub(super) fn draw(figure: &Figure, series: &[&str], rows: &[&FigureRow]) -> (f64, f64, String) {
    let words: Vec<String> = rows.iter().map(|r| x_words(&r.x)).collect();
    let columns = distinct(words.iter().map(String::as_str));
    let series: Vec<&str> = series.iter().copied().filter(|s| rows.iter().any(|r| r.series == *s)).collect();
    let widest = |names: &[&str]| names.iter().map(|n| text_width(n, LETTER)).fold(0.0, f64::max);
    let left = (widest(&series) + 12.0).clamp(NAMES.0, NAMES.1);
    let column = (widest(&columns) + 10.0).clamp(COLUMN.0, COLUMN.1);
    let width = (left + column * columns.len() as f64 + 2.0).max(300.0);
    let mut svg = Svg::part();
    y_label(&mut svg, figure, 14.0, width);
    for (c, name) in columns.iter().enumerate() {
        let middle = left + (c as f64 + 0.5) * column;
        svg.text("name", middle, 36.0, Anchor::Middle, &fitted(name, column - 4.0, LETTER));
    }
    for (r, name) in series.iter().enumerate() {
        let y = 44.0 + r as f64 * TALL;
        svg.text("name", 2.0, y + TALL / 2.0 + 4.0, Anchor::Start, &fitted(name, left - 8.0, LETTER));
    }
    let colour = Colour::of(rows);
    for (row, words) in rows.iter().zip(&words) {
        let place = |names: &[&str], name: &str| names.iter().position(|n| *n == name).unwrap_or(0);
        let x = left + place(&columns, words) as f64 * column;
        let y = 44.0 + place(&series, &row.series) as f64 * TALL;
        let range = interval(row).map(|(low, high)| format!(" [{}, {}]", number(low), number(high)));
        let title = format!("{}, {words}: {}{}", row.series, number(row.y), range.unwrap_or_default());
        svg.titled("field", &title, |svg| {
            svg.rect("neutral", x + 1.0, y + 1.0, column - 2.0, TALL - 2.0);
            let (class, share) = colour.at(row.y);
            svg.rect(&format!("{class} o{:.0}", share * 10.0), x + 1.0, y + 1.0, column - 2.0, TALL - 2.0);
            let text = fitted(&number(row.y), column - 6.0, LETTER);
            svg.text("value", x + column / 2.0, y + TALL / 2.0 + 4.0, Anchor::Middle, &text);
        });
    }
    let bottom = 44.0 + series.len() as f64 * TALL;
    let middle = (left + width) / 2.0;
    svg.text(
        "tick",
        middle,
        bottom + 18.0,
        Anchor::Middle,
        &fitted(&typeset(&figure.query.x), width - left, SMALL),
    );
    (width, bottom + 24.0, svg.into_part())
}

/// Blue from the least to the most; where there are values on both sides of nothing, orange below and blue above.
struct Colour {
    least: f64,
    most: f64,
}

impl Colour {
    fn of(rows: &[&FigureRow]) -> Self {
        let values = || rows.iter().map(|r| r.y);
        Self {
            least: values().fold(f64::INFINITY, f64::min),
            most: values().fold(f64::NEG_INFINITY, f64::max),
        }
    }

    /// Class and share of colour, in tenths of [`STRONGEST`].
    fn at(&self, value: f64) -> (&'static str, f64) {
        let share = |part: f64, whole: f64| {
            if whole > 0.0 { (part / whole).clamp(0.0, 1.0) * STRONGEST } else { 0.0 }
        };
        if self.least < 0.0 && self.most > 0.0 {
            let whole = self.most.max(-self.least);
            return (if value < 0.0 { "slower" } else { "faster" }, share(value.abs(), whole));
        }
        ("faster", share(value - self.least, self.most - self.least))
    }
}
