//! Bars side by side.

use nestor_results::{Figure, FigureRow};

use super::scale::Scale;
use super::{Anchor, LETTER, SMALL, Svg, class, distinct, fitted, legend, number, typeset, x_words, y_label};
use crate::units;

const LEFT: f64 = 56.0;
const TALL: f64 = 180.0;
/// Space between groups.
const GAP: f64 = 16.0;
/// Widths of bars; a narrower one has no room for its number.
const BAR: (f64, f64) = (11.0, 26.0);
/// What the bars share among themselves where there are few.
const ROOM: f64 = 470.0;
const NARROWEST: f64 = 330.0;

/// Gives width, height and what is drawn.
pub(super) fn draw(figure: &Figure, series: &[&str], rows: &[&FigureRow]) -> (f64, f64, String) {
    let words: Vec<String> = rows.iter().map(|r| x_words(&r.x)).collect();
    let groups = distinct(words.iter().map(String::as_str));
    let bar = ((ROOM / groups.len() as f64 - GAP) / series.len() as f64).clamp(BAR.0, BAR.1);
    let group = (bar * series.len() as f64 + GAP).max(40.0);
    let width = (LEFT + group * groups.len() as f64 + 6.0).max(NARROWEST);
    let mut svg = Svg::part();
    let top = legend(&mut svg, series, width, false) + 16.0;
    y_label(&mut svg, figure, top - 2.0, width);
    let values = rows
        .iter()
        .flat_map(|r| [r.y].into_iter().chain(r.interval().map(|i| [i.0, i.1]).into_iter().flatten()));
    let scale = Scale::over(values, true).between(top + 10.0 + TALL, top + 10.0);
    for tick in scale.ticks(6) {
        let y = scale.at(tick);
        svg.path(if tick == 0.0 { "axis" } else { "grid" }, &format!("M{LEFT} {y:.1}H{width:.0}"));
        svg.text("tick", LEFT - 6.0, y + 4.0, Anchor::End, &fitted(&number(tick), LEFT - 8.0, SMALL));
    }
    for (row, words) in rows.iter().zip(&words) {
        let place = |names: &[&str], name: &str| names.iter().position(|n| *n == name).unwrap_or(0);
        let (g, s) = (place(&groups, words), place(series, &row.series));
        let used = bar * series.len() as f64;
        let x = LEFT + g as f64 * group + (group - used) / 2.0 + s as f64 * bar;
        one(&mut svg, row, words, (x, bar, s), scale, series.len() > 1);
    }
    let base = top + 10.0 + TALL;
    for (g, name) in groups.iter().enumerate() {
        let middle = LEFT + (g as f64 + 0.5) * group;
        svg.text("name", middle, base + 30.0, Anchor::Middle, &fitted(name, group - 4.0, LETTER));
    }
    let middle = (LEFT + width) / 2.0;
    svg.text("tick", middle, base + 48.0, Anchor::Middle, &fitted(&typeset(&figure.query.x), width, SMALL));
    (width, base + 54.0, svg.into_part())
}

/// One bar with its interval and the number of its series.
fn one(
    svg: &mut Svg,
    row: &FigureRow,
    words: &str,
    (x, bar, series): (f64, f64, usize),
    scale: Scale,
    numbered: bool,
) {
    let (zero, end) = (scale.at(0.0), scale.at(row.y));
    let range = row.interval().map(|(low, high)| format!(" [{}, {}]", number(low), number(high)));
    let name = units::listed([row.series.as_str(), words].into_iter().filter(|n| !n.is_empty()));
    svg.titled("bar", &format!("{name}: {}{}", number(row.y), range.unwrap_or_default()), |svg| {
        svg.rect(&class(series), x + 0.5, zero.min(end), bar - 1.0, (zero - end).abs().max(0.6));
        if let Some((low, high)) = row.interval() {
            let (x, low, high) = (x + bar / 2.0, scale.at(low), scale.at(high));
            svg.path("error", &format!("M{x:.1} {low:.1}V{high:.1}m-2.5 0h5M{:.1} {low:.1}h5", x - 2.5));
        }
        if numbered {
            let label = (series + 1).to_string();
            svg.text("digit", x + bar / 2.0, scale.from + 14.0, Anchor::Middle, &label);
        }
    });
}
