//! Lines over numbers.

use std::fmt::Write as _;

use nestor_results::{Figure, FigureRow, FigureX};

use super::scale::Scale;
use super::{Anchor, SMALL, Svg, class, fitted, legend, number, typeset, y_label};

pub(super) const LEFT: f64 = 56.0;
pub(super) const WIDTH: f64 = 540.0;
pub(super) const TALL: f64 = 220.0;
/// Room for the numbers of the series at the ends of their lines.
pub(super) const RIGHT: f64 = 18.0;

/// Where a point is: x, y and the interval of y.
pub(super) type Point = (f64, f64, Option<(f64, f64)>);

/// Gives width, height and what is drawn.
pub(super) fn draw(figure: &Figure, series: &[&str], rows: &[&FigureRow]) -> (f64, f64, String) {
    let all: Vec<_> = series.iter().map(|name| points_of(name, rows)).collect();
    let mut svg = Svg::part();
    let top = legend(&mut svg, series, WIDTH, true) + 16.0;
    y_label(&mut svg, figure, top - 2.0, WIDTH);
    let (first, base) = (top + 10.0, top + 10.0 + TALL);
    let down = Scale::over(heights(&all), true).between(base, first);
    let across = Scale::over(all.iter().flatten().map(|p| p.0), false).between(LEFT, WIDTH - RIGHT);
    axes(&mut svg, figure, across, down);
    for (s, points) in all.iter().enumerate() {
        band(&mut svg, points, s, across, down);
        let mut path = String::new();
        for (i, (x, y, _)) in thinned(points, across).into_iter().enumerate() {
            let _ = write!(path, "{}{:.1} {:.1}", if i == 0 { "M" } else { "L" }, across.at(x), down.at(y));
        }
        let name = series[s];
        svg.titled("curve", name, |svg| svg.path(&format!("line {}", class(s)), &path));
    }
    ends(&mut svg, &all, across, down);
    (WIDTH, base + 40.0, svg.into_part())
}

/// The points of a series, from left to right.
pub(super) fn points_of(name: &str, rows: &[&FigureRow]) -> Vec<Point> {
    let point = |r: &&FigureRow| match r.x {
        FigureX::Number(x) if x.is_finite() && r.series == name => Some((x, r.y, r.interval())),
        _ => None,
    };
    let mut points: Vec<Point> = rows.iter().filter_map(point).collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    points
}

/// All values and ends of intervals.
pub(super) fn heights(all: &[Vec<Point>]) -> impl Iterator<Item = f64> {
    let of_point = |(_, y, i): &Point| [*y].into_iter().chain(i.map(|i| [i.0, i.1]).into_iter().flatten());
    all.iter().flatten().flat_map(of_point)
}

pub(super) fn axes(svg: &mut Svg, figure: &Figure, across: Scale, down: Scale) {
    for tick in down.ticks(5) {
        let y = down.at(tick);
        svg.path(if tick == 0.0 { "axis" } else { "grid" }, &format!("M{LEFT} {y:.1}H{:.0}", across.to));
        svg.text("tick", LEFT - 6.0, y + 4.0, Anchor::End, &fitted(&number(tick), LEFT - 8.0, SMALL));
    }
    for tick in across.ticks(6) {
        let x = across.at(tick);
        svg.path("axis", &format!("M{x:.1} {:.1}v4", down.from));
        svg.text("tick", x, down.from + 16.0, Anchor::Middle, &fitted(&number(tick), 70.0, SMALL));
    }
    let middle = (across.from + across.to) / 2.0;
    svg.text(
        "tick",
        middle,
        down.from + 34.0,
        Anchor::Middle,
        &fitted(&typeset(&figure.query.x), WIDTH, SMALL),
    );
}

/// Points that lie on one pixel are one.
fn thinned(points: &[Point], across: Scale) -> Vec<Point> {
    let last = points.len().saturating_sub(1);
    let mut kept: Vec<Point> = Vec::new();
    for (i, point) in points.iter().enumerate() {
        let near = kept.last().is_some_and(|k| (across.at(k.0) - across.at(point.0)).abs() < 0.5);
        if !near || i == last || points.len() < 500 {
            kept.push(*point);
        }
    }
    kept
}

/// The interval around a line, where every point has one.
fn band(svg: &mut Svg, points: &[Point], series: usize, across: Scale, down: Scale) {
    let points = thinned(points, across);
    if points.len() < 2 || points.iter().any(|p| p.2.is_none()) {
        return;
    }
    let mut path = String::new();
    let edge = |p: &Point, high: bool| {
        let (low, top) = p.2.unwrap_or((p.1, p.1));
        (across.at(p.0), down.at(if high { top } else { low }))
    };
    let around = points.iter().map(|p| edge(p, true)).chain(points.iter().rev().map(|p| edge(p, false)));
    for (i, (x, y)) in around.enumerate() {
        let _ = write!(path, "{}{x:.1} {y:.1}", if i == 0 { "M" } else { "L" });
    }
    path.push('Z');
    svg.path(&format!("band {}", class(series)), &path);
}

/// The number of each series at the end of its line, moved down where two would lie over each other.
pub(super) fn ends(svg: &mut Svg, all: &[Vec<Point>], across: Scale, down: Scale) {
    const APART: f64 = 12.0;
    if all.len() < 2 {
        return;
    }
    let mut ends: Vec<(f64, f64, usize)> = all
        .iter()
        .enumerate()
        .filter_map(|(s, points)| points.last().map(|p| (down.at(p.1) + 4.0, across.at(p.0) + 5.0, s)))
        .collect();
    ends.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut free = f64::NEG_INFINITY;
    for (y, x, s) in ends {
        let y = y.max(free);
        // Below the axis there is no room any more; the legend has them all.
        if y > down.from {
            continue;
        }
        svg.text("digit", x, y, Anchor::Start, &(s + 1).to_string());
        free = y + APART;
    }
}
