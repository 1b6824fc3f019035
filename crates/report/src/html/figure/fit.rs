//! Points, and the lines of least squares through them.

use std::fmt::Write as _;

use nestor_results::{Figure, FigureRow, SeriesLine};

use super::line::{LEFT, Point, RIGHT, TALL, WIDTH, axes, ends, heights, points_of};
use super::scale::Scale;
use super::{Anchor, LETTER, Svg, class, fitted, legend, typeset, y_label};
use crate::units;

/// Side of the square that is a point.
const DOT: f64 = 5.0;
/// Height of a line of words below the axis.
const WORDS: f64 = 17.0;

/// Gives width, height and what is drawn.
pub(super) fn draw(figure: &Figure, series: &[&str], rows: &[&FigureRow], panel: &str) -> (f64, f64, String) {
    let all: Vec<Vec<Point>> = series.iter().map(|name| points_of(name, rows)).collect();
    let fitted_lines: Vec<Option<Fitted<'_>>> =
        series.iter().zip(&all).map(|(name, points)| Fitted::of(figure, panel, name, points)).collect();
    let mut svg = Svg::part();
    let top = legend(&mut svg, series, WIDTH, true) + 16.0;
    y_label(&mut svg, figure, top - 2.0, WIDTH);
    let (first, base) = (top + 10.0, top + 10.0 + TALL);
    let of_lines = fitted_lines.iter().flatten().flat_map(|line| line.ends.map(|end| end.1));
    let down = Scale::over(heights(&all).chain(of_lines), true).between(base, first);
    let across = Scale::over(all.iter().flatten().map(|p| p.0), false).between(LEFT, WIDTH - RIGHT);
    axes(&mut svg, figure, across, down);
    for (s, (points, line)) in all.iter().zip(&fitted_lines).enumerate() {
        svg.titled("curve", series[s], |svg| {
            dots(svg, points, s, across, down);
            if let Some(Fitted { ends: [from, to], .. }) = line {
                let at = |end: &Point| format!("{:.1} {:.1}", across.at(end.0), down.at(end.1));
                svg.path(&format!("line {}", class(s)), &format!("M{}L{}", at(from), at(to)));
            }
        });
    }
    let at_ends: Vec<Vec<Point>> =
        fitted_lines.iter().map(|line| line.iter().flat_map(|line| line.ends).collect()).collect();
    ends(&mut svg, &at_ends, across, down);
    let mut y = base + 40.0;
    for (s, line) in fitted_lines.iter().enumerate() {
        let Some(Fitted { line, .. }) = line else { continue };
        y += WORDS;
        let number = if series.len() < 2 { String::new() } else { format!("{}  ", s + 1) };
        let words = typeset(&format!("{number}{}", words(line)));
        svg.text("name", LEFT, y, Anchor::Start, &fitted(&words, WIDTH - LEFT, LETTER));
    }
    (WIDTH, y + 6.0, svg.into_part())
}

/// A line with its ends: those of its points.
struct Fitted<'a> {
    line: &'a SeriesLine,
    ends: [Point; 2],
}

impl<'a> Fitted<'a> {
    fn of(figure: &'a Figure, panel: &str, series: &str, points: &[Point]) -> Option<Self> {
        let line = figure.lines.iter().find(|line| line.panel == panel && line.series == series)?;
        let ends = [points.first()?, points.last()?].map(|point| (point.0, line.at(point.0), None));
        ends.iter().all(|end| end.1.is_finite()).then_some(Self { line, ends })
    }
}

/// `slope 8 [7.9, 8.1], intercept 12 [11, 13], 15 points`.
fn words(line: &SeriesLine) -> String {
    format!(
        "slope {}, intercept {}, {}",
        units::with_interval(line.slope, line.slope_interval),
        units::with_interval(line.intercept, line.intercept_interval),
        units::plural_u64(line.points, "point", "points")
    )
}

/// The points as one path, as there may be many, and the intervals that they have.
fn dots(svg: &mut Svg, points: &[Point], series: usize, across: Scale, down: Scale) {
    let (mut squares, mut intervals) = (String::new(), String::new());
    for (x, y, interval) in points {
        let (x, y) = (across.at(*x), down.at(*y));
        let _ = write!(squares, "M{:.1} {:.1}h{DOT}v{DOT}h-{DOT}z", x - DOT / 2.0, y - DOT / 2.0);
        if let Some((low, high)) = interval {
            let _ = write!(intervals, "M{x:.1} {:.1}V{:.1}", down.at(*low), down.at(*high));
        }
    }
    svg.path(&format!("dots {}", class(series)), &squares);
    if !intervals.is_empty() {
        svg.path("error", &intervals);
    }
}
