//! Figures that a study asks of its results: bars, heat maps and lines, in a page and as pictures that stand alone.

mod bars;
mod fit;
mod heat;
mod line;
mod picture;
mod scale;
mod surface;

pub use picture::render_figure_svg;

use minijinja::Value;
use nestor_results::{Figure, FigureKind, FigureRow, FigureX};
use nestor_text::markup_escaped;
use serde::Serialize;

use super::svg::{Anchor, LETTER, SMALL, Svg, fitted, in_lines, text_width};
use super::typeset;
use crate::labels::distinct;
use crate::units;

/// More values than this are not drawn: they could not be told apart.
const MOST_VALUES: usize = 600;
/// Points of a line are cheap.
const MOST_POINTS: usize = 20_000;
/// Numbers in a table need not be told apart at a glance.
const MOST_NUMBERS: usize = 2_000;
/// Rows of the table beside a figure.
const MOST_ROWS: usize = 1_000;

/// A figure as the page shows it.
#[derive(Serialize)]
pub(super) struct FigurePage {
    anchor: String,
    id: String,
    title: String,
    pictures: Vec<PanelPage>,
    x: String,
    y: String,
    problem: String,
    left_out: Vec<String>,
    has_panels: bool,
    has_series: bool,
    has_interval: bool,
    has_n: bool,
    has_marks: bool,
    rows: Vec<RowPage>,
    more_rows: usize,
}

#[derive(Serialize)]
struct PanelPage {
    title: String,
    svg: Value,
}

#[derive(Serialize)]
struct RowPage {
    panel: String,
    series: String,
    x: String,
    y: String,
    interval: String,
    n: String,
    marked: String,
}

impl FigurePage {
    pub(super) fn of(figure: &Figure, index: usize) -> Self {
        let anchor = format!("figure-{index}");
        let pictures = panels(figure).into_iter().enumerate().map(|(i, panel)| PanelPage {
            svg: Value::from_safe_string(panel.standing(&format!("{anchor}-{i}"), figure)),
            title: panel.title,
        });
        let rows = &figure.rows[..figure.rows.len().min(MOST_ROWS)];
        Self {
            pictures: pictures.collect(),
            anchor,
            id: figure.query.id.clone(),
            title: figure.query.title.clone(),
            x: figure.query.x.clone(),
            y: figure.query.y.clone(),
            problem: problem(figure).unwrap_or_default(),
            left_out: figure.left_out.clone(),
            has_panels: rows.iter().any(|r| !r.panel.is_empty()),
            has_series: rows.iter().any(|r| !r.series.is_empty()),
            has_interval: rows.iter().any(|r| r.interval().is_some()),
            has_n: rows.iter().any(|r| r.n.is_some()),
            has_marks: rows.iter().any(|r| r.marked.is_some()),
            rows: rows.iter().map(row_page).collect(),
            more_rows: figure.rows.len() - rows.len(),
        }
    }
}

fn row_page(row: &FigureRow) -> RowPage {
    let interval = row.interval().map(|(low, high)| format!("[{}, {}]", number(low), number(high)));
    RowPage {
        panel: row.panel.clone(),
        series: row.series.clone(),
        x: x_words(&row.x),
        y: number(row.y),
        interval: interval.unwrap_or_default(),
        n: row.n.map(units::count).unwrap_or_default(),
        marked: row.marked.map(units::count).unwrap_or_default(),
    }
}

fn number(value: f64) -> String {
    typeset(&units::digits(value))
}

fn x_words(x: &FigureX) -> String {
    match x {
        FigureX::Text(text) => text.clone(),
        FigureX::Number(value) => number(*value),
    }
}

/// Why there is no picture.
fn problem(figure: &Figure) -> Option<String> {
    if let Some(problem) = &figure.problem {
        return Some(problem.clone());
    }
    let most = match figure.query.kind {
        FigureKind::Line | FigureKind::Fit => MOST_POINTS,
        FigureKind::Table => MOST_NUMBERS,
        FigureKind::Bars | FigureKind::Heat | FigureKind::Surface => MOST_VALUES,
    };
    match figure.rows.len() {
        0 => Some("No results for this figure yet.".to_owned()),
        rows if rows > most => Some(format!("{rows} values are too many to draw.")),
        _ => None,
    }
}

/// One panel, drawn.
struct Panel {
    title: String,
    /// What a screen reader says of it after the title.
    description: String,
    width: f64,
    height: f64,
    body: String,
}

impl Panel {
    /// The panel as a picture of a page.
    fn standing(&self, id: &str, figure: &Figure) -> String {
        let title = [figure.query.title.as_str(), self.title.as_str()];
        let title: Vec<&str> = title.into_iter().filter(|t| !t.is_empty()).collect();
        format!(
            "<svg class=\"plot\" viewBox=\"0 0 {w:.0} {h:.0}\" style=\"max-width:{w:.0}px\" role=\"img\" \
             aria-labelledby=\"{id}-t {id}-d\"><title id=\"{id}-t\">{}</title><desc id=\"{id}-d\">{}</desc>{}</svg>",
            markup_escaped(&title.join(": ")),
            markup_escaped(&self.description),
            self.body,
            w = self.width,
            h = self.height,
        )
    }
}

/// The panels of a figure in the order in which they occur; none if it cannot be drawn.
fn panels(figure: &Figure) -> Vec<Panel> {
    if problem(figure).is_some() {
        return Vec::new();
    }
    let rows: Vec<&FigureRow> = figure.rows.iter().filter(|r| r.y.is_finite()).collect();
    let series = distinct(rows.iter().map(|r| r.series.as_str()));
    let names = distinct(rows.iter().map(|r| r.panel.as_str()));
    let of_panel = |name: &&str| {
        let rows: Vec<&FigureRow> = rows.iter().copied().filter(|r| r.panel == *name).collect();
        let (width, height, body) = match figure.query.kind {
            FigureKind::Bars => bars::draw(figure, &series, &rows),
            FigureKind::Heat | FigureKind::Table => heat::draw(figure, &series, &rows),
            FigureKind::Line => line::draw(figure, &series, &rows),
            FigureKind::Fit => fit::draw(figure, &series, &rows, name),
            FigureKind::Surface => surface::draw(figure, &series, &rows),
        };
        Panel { title: (*name).to_owned(), description: description(figure, &rows), width, height, body }
    };
    names.iter().map(of_panel).collect()
}

fn description(figure: &Figure, rows: &[&FigureRow]) -> String {
    let values = || rows.iter().map(|r| r.y);
    let (least, most) = (values().fold(f64::INFINITY, f64::min), values().fold(f64::NEG_INFINITY, f64::max));
    let kind = match figure.query.kind {
        FigureKind::Bars => "Bars",
        FigureKind::Heat => "A table of colours",
        FigureKind::Line => "Lines",
        FigureKind::Fit => "Points with fitted lines",
        FigureKind::Table => "A table",
        FigureKind::Surface => "A surface",
    };
    format!(
        "{kind} of {} by {}: {} from {} to {}. The numbers are in the table below.",
        figure.query.y,
        figure.query.x,
        units::plural(rows.len(), "value"),
        units::digits(least),
        units::digits(most)
    )
}

/// Names of the series with their numbers and colours, in as many lines as they need; gives the height that was used.
/// The numbers are at the bars and lines too, so that colours need not be told apart.
fn legend(svg: &mut Svg, series: &[&str], width: f64, line: bool) -> f64 {
    const LINE: f64 = 18.0;
    if series.len() < 2 {
        return 0.0;
    }
    let (mut x, mut y) = (2.0, LINE);
    for (i, name) in series.iter().enumerate() {
        let text = fitted(&format!("{} {name}", i + 1), width - 40.0, LETTER);
        let wide = 28.0 + text_width(&text, LETTER) + 14.0;
        if x + wide > width && x > 2.0 {
            x = 2.0;
            y += LINE;
        }
        if line {
            svg.path(&format!("line {}", class(i)), &format!("M{x:.1} {:.1}h22", y - 4.0));
        } else {
            svg.rect(&class(i), x + 6.0, y - 10.0, 12.0, 12.0);
        }
        svg.text("name", x + 26.0, y, Anchor::Start, &text);
        x += wide;
    }
    y + 8.0
}

/// Colour of a series; from the ninth on they repeat, and the numbers tell them apart.
fn class(series: usize) -> String {
    format!("s{}", series % 8)
}

/// The label of the vertical axis, above it.
fn y_label(svg: &mut Svg, figure: &Figure, top: f64, width: f64) {
    svg.text("tick", 2.0, top, Anchor::Start, &fitted(&typeset(&figure.query.y), width, SMALL));
}
