//! A surface over two directions, seen from above one of its corners. In a page it can be turned.
//!
//! Every path and text carries its points in space (`data-p`), and the group says how it is seen (`data-view`): the page's script
//! turns the points and draws the same again. Without a script it stands still.

use nestor_results::{Figure, FigureRow};

use super::{Anchor, LETTER, SMALL, Svg, distinct, fitted, number, typeset, x_words};
use crate::html::svg::ticks;

const WIDE: f64 = 380.0;
const TALL: f64 = 300.0;
/// Pixels of a unit in the plane.
const PLANE: f64 = 215.0;
/// Pixels of a unit upwards.
const HEIGHT: f64 = 150.0;
/// How it is seen at first, in degrees: turned, and from how far above.
const TURNED: f64 = 35.0;
const ABOVE: f64 = 28.0;

/// A place in space: in the plane from -0.5 to 0.5, upwards from 0 to 1.
#[derive(Clone, Copy)]
struct Place {
    x: f64,
    y: f64,
    z: f64,
}

/// What can be drawn: fields of the surface, lines and words.
struct Shape {
    places: Vec<Place>,
    class: String,
    /// Whether it stands on the base, which it may hide.
    stands: bool,
    words: Option<String>,
    title: String,
}

/// Gives width, height and what is drawn.
pub(super) fn draw(figure: &Figure, series: &[&str], rows: &[&FigureRow]) -> (f64, f64, String) {
    let words: Vec<String> = rows.iter().map(|row| x_words(&row.x)).collect();
    let columns = ordered(distinct(words.iter().map(String::as_str)));
    let lines = ordered(series.iter().copied().filter(|s| rows.iter().any(|r| r.series == *s)).collect());
    let most = rows.iter().map(|row| row.y).fold(0.0, f64::max);
    let value = |line: usize, column: usize| {
        let named = |row: &&&FigureRow| row.series == lines[line] && x_words(&row.x) == columns[column];
        rows.iter().find(named).map(|row| (row.y, row.low.is_some() || row.high.is_some()))
    };
    let mut shapes = frame(figure, &lines, &columns, most);
    for line in 0..lines.len().saturating_sub(1) {
        for column in 0..columns.len().saturating_sub(1) {
            let corners = [(line, column), (line, column + 1), (line + 1, column + 1), (line + 1, column)];
            let values: Option<Vec<(f64, bool)>> = corners.iter().map(|(l, c)| value(*l, *c)).collect();
            let Some(values) = values.filter(|_| most > 0.0) else { continue };
            // A corner that was not measured has an interval.
            let told = values.iter().any(|(_, told)| *told);
            let places = corners.iter().zip(&values);
            let places = places.map(|((l, c), (v, _))| Place {
                x: along(*c, columns.len()),
                y: along(*l, lines.len()),
                z: v / most,
            });
            let mean = values.iter().map(|(v, _)| v).sum::<f64>() / 4.0;
            shapes.push(Shape {
                places: places.collect(),
                class: format!(
                    "facet f{:.0}{}",
                    (mean / most * 8.0).clamp(0.0, 8.0),
                    if told { " told" } else { "" }
                ),
                stands: true,
                words: None,
                title: format!(
                    "{} to {}, {} to {}: {}{}",
                    lines[line],
                    lines[line + 1],
                    columns[column],
                    columns[column + 1],
                    number(mean),
                    if told { " (not all points measured)" } else { "" }
                ),
            });
        }
    }
    (WIDE, TALL, drawn(&shapes))
}

/// Numbers ascending, words as they came.
fn ordered(mut names: Vec<&str>) -> Vec<&str> {
    let by = |name: &str| {
        let digits: String = name.chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect();
        digits.parse::<f64>().ok()
    };
    if names.iter().all(|name| by(name).is_some()) {
        names.sort_by(|a, b| by(a).unwrap_or_default().total_cmp(&by(b).unwrap_or_default()));
    }
    names
}

fn along(index: usize, count: usize) -> f64 {
    index as f64 / (count.max(2) - 1) as f64 - 0.5
}

/// The base, the ticks on its edges, and the upright axis.
fn frame(figure: &Figure, lines: &[&str], columns: &[&str], most: f64) -> Vec<Shape> {
    let line = |class: &str, places: &[(f64, f64, f64)]| Shape {
        places: places.iter().map(|(x, y, z)| Place { x: *x, y: *y, z: *z }).collect(),
        class: class.to_owned(),
        stands: false,
        words: None,
        title: String::new(),
    };
    let text = |x: f64, y: f64, z: f64, words: String| Shape {
        places: vec![Place { x, y, z }],
        class: "tick".to_owned(),
        stands: false,
        words: Some(words),
        title: String::new(),
    };
    let mut shapes = vec![line(
        "axis",
        &[(-0.5, -0.5, 0.0), (0.5, -0.5, 0.0), (0.5, 0.5, 0.0), (-0.5, 0.5, 0.0), (-0.5, -0.5, 0.0)],
    )];
    for (i, name) in columns.iter().enumerate() {
        let x = along(i, columns.len());
        shapes.push(line("grid", &[(x, -0.5, 0.0), (x, 0.5, 0.0)]));
        shapes.push(text(x, 0.58, 0.0, (*name).to_owned()));
    }
    for (i, name) in lines.iter().enumerate() {
        let y = along(i, lines.len());
        shapes.push(line("grid", &[(-0.5, y, 0.0), (0.5, y, 0.0)]));
        shapes.push(text(0.58, y, 0.0, (*name).to_owned()));
    }
    shapes.push(line("axis", &[(-0.5, 0.5, 0.0), (-0.5, 0.5, 1.0)]));
    for tick in ticks(most, 4).into_iter().filter(|tick| *tick > 0.0 && most > 0.0) {
        shapes.push(line(
            "grid",
            &[(-0.5, 0.5, tick / most), (-0.5, -0.5, tick / most), (0.5, -0.5, tick / most)],
        ));
        shapes.push(text(-0.5, 0.58, tick / most, number(tick)));
    }
    let label = |words: &str| fitted(&typeset(words), WIDE / 2.0 - 12.0, SMALL);
    // "random, % × reads, %": the first goes with the columns, the second with the lines.
    let (first, second) = figure.query.x.split_once('×').unwrap_or((figure.query.x.as_str(), ""));
    shapes.push(text(0.0, 0.74, 0.0, label(first.trim())));
    shapes.push(text(0.74, 0.0, 0.0, label(second.trim())));
    shapes
}

/// As it is seen at first: turned, what is far first.
fn drawn(shapes: &[Shape]) -> String {
    let mut order: Vec<&Shape> = shapes.iter().collect();
    order.sort_by(|a, b| depth(a).total_cmp(&depth(b)));
    let mut svg = Svg::part();
    for shape in order {
        let points = shape.places.iter().map(|p| format!("{:.3},{:.3},{:.3}", p.x, p.y, p.z));
        let points = points.collect::<Vec<_>>().join(" ");
        let seen: Vec<(f64, f64)> = shape.places.iter().map(|place| seen(*place)).collect();
        let data = format!("data-p=\"{points}\"");
        match &shape.words {
            Some(words) => {
                let (x, y) = seen[0];
                svg.raw_text(&shape.class, &data, x, y, Anchor::Middle, &fitted(words, WIDE / 2.0, LETTER));
            }
            None => {
                let steps = seen.iter().map(|(x, y)| format!("{x:.1} {y:.1}")).collect::<Vec<_>>().join("L");
                svg.raw_path(&shape.class, &data, &format!("M{steps}"), &shape.title);
            }
        }
    }
    format!(
        "<g class=\"surface\" data-view=\"{WIDE} {TALL} {PLANE} {HEIGHT} {TURNED} {ABOVE}\">{}</g>",
        svg.into_part()
    )
}

/// Far is little. What lies in the base comes before what stands on it, words last.
fn depth(shape: &Shape) -> f64 {
    if shape.words.is_some() {
        return 9.0;
    }
    if !shape.stands {
        return -9.0;
    }
    shape.places.iter().map(|place| turned(*place).1).sum::<f64>() / shape.places.len() as f64
}

/// To the right, and towards the eye.
fn turned(place: Place) -> (f64, f64) {
    let (sin, cos) = TURNED.to_radians().sin_cos();
    (place.x * cos - place.y * sin, place.x * sin + place.y * cos)
}

fn seen(place: Place) -> (f64, f64) {
    let (right, near) = turned(place);
    let (sin, cos) = ABOVE.to_radians().sin_cos();
    (WIDE / 2.0 + PLANE * right, TALL * 0.64 + PLANE * near * sin - HEIGHT * place.z * cos)
}
