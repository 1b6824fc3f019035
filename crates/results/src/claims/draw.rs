//! The values of figures.

use std::collections::{BTreeSet, HashMap};

use nestor_statistics::FittedLine;

use super::evidence::Evidence;
use super::kept::{Kept, MOST_FIGURES, TooMuch, check_labels, check_names, check_panels};
use super::query::{self, Found, Row};
use super::{Figure, FigureKind, FigureQuery, FigureRow, FigureX, SeriesLine};
use crate::store::{Store, StoreError, StudyRecord};

/// Fills the figures of a study from its results.
///
/// # Errors
///
/// If the results file cannot be read. A figure whose query is wrong is not an error: it says so.
pub fn figures(store: &Store, study: &StudyRecord) -> Result<Vec<Figure>, StoreError> {
    if study.study.figures.is_empty() {
        return Ok(Vec::new());
    }
    Ok(figures_by(&Evidence::new(store, study)?, study, &mut Kept::default()))
}

/// The same, of what is laid out already.
pub(super) fn figures_by(evidence: &Evidence, study: &StudyRecord, kept: &mut Kept) -> Vec<Figure> {
    let figure = |(index, query): (usize, &FigureQuery)| {
        if index >= MOST_FIGURES {
            return without_values(query, &TooMuch::Figures);
        }
        let figure = check_labels(query).map(|()| figure(evidence, query));
        let counted = figure.and_then(|figure| kept.add_figure(&figure).map(|()| figure));
        counted.unwrap_or_else(|refusal| without_values(query, &refusal))
    };
    study.study.figures.iter().enumerate().map(figure).collect()
}

fn without_values(query: &FigureQuery, refusal: &TooMuch) -> Figure {
    let problem = Some(format!("{} is not drawn: {refusal}", query.id));
    Figure { query: query.clone(), rows: Vec::new(), lines: Vec::new(), problem, left_out: Vec::new() }
}

/// What is said of a figure that no counted run has a value for.
pub(crate) const NOTHING_MEASURED: &str = "no counted run has the values that it shows";

fn figure(evidence: &Evidence, query: &FigureQuery) -> Figure {
    let values = query::run(evidence, &query.sql).and_then(|found| rows(query, &found));
    let (rows, problem) = match values {
        Ok(rows) if rows.is_empty() => (rows, Some(NOTHING_MEASURED.to_owned())),
        Ok(rows) => (rows, None),
        Err(wrong) => (Vec::new(), Some(format!("the query of {} is wrong: {wrong}", query.id))),
    };
    let lines = match query.kind {
        FigureKind::Fit => lines(&rows, evidence.confidence()),
        _ => Vec::new(),
    };
    Figure { query: query.clone(), rows, lines, problem, left_out: evidence.all_left_out() }
}

/// The lines through the points of each series of each panel, in the order in which these first appear.
fn lines(rows: &[FigureRow], confidence: f64) -> Vec<SeriesLine> {
    let mut names: Vec<(&str, &str)> = Vec::new();
    let mut points: HashMap<(&str, &str), Vec<(f64, f64)>> = HashMap::new();
    for row in rows {
        let FigureX::Number(x) = row.x else { continue };
        let name = (row.panel.as_str(), row.series.as_str());
        let of_series = points.entry(name).or_insert_with(|| {
            names.push(name);
            Vec::new()
        });
        of_series.push((x, row.y));
    }
    let line = |(panel, series): (&str, &str)| {
        let line = FittedLine::through(points.get(&(panel, series))?)?;
        Some(SeriesLine {
            panel: panel.to_owned(),
            series: series.to_owned(),
            slope: line.slope(),
            slope_interval: line.slope_interval(confidence),
            intercept: line.intercept(),
            intercept_interval: line.intercept_interval(confidence),
            points: line.points() as u64,
        })
    };
    names.into_iter().filter_map(line).collect()
}

fn rows(query: &FigureQuery, found: &Found) -> Result<Vec<FigureRow>, String> {
    let two_directions = query.kind.has_two_directions();
    found.require(query.kind.columns())?;
    check_names(found, &["panel", "series", "x"]).map_err(|e| e.to_string())?;
    let rows: Vec<FigureRow> = found.rows().filter_map(|row| figure_row(query.kind, row)).collect();
    check_panels(&rows).map_err(|e| e.to_string())?;
    match two_directions.then(|| told_twice(&rows)).flatten() {
        Some(row) => Err(format!(
            "panel `{}` has several values for {} and {}, but can show only one",
            row.panel, row.series, row.x
        )),
        None => Ok(rows),
    }
}

/// A place that has several values, of which only one would be visible.
fn told_twice(rows: &[FigureRow]) -> Option<&FigureRow> {
    let mut seen = BTreeSet::new();
    rows.iter().find(|row| !seen.insert((&row.panel, &row.series, row.x.to_string())))
}

/// `None` for a row without a value: nothing was measured there.
fn figure_row(kind: FigureKind, row: Row<'_>) -> Option<FigureRow> {
    let x = match kind {
        FigureKind::Line | FigureKind::Fit => FigureX::Number(row.number("x")?),
        FigureKind::Bars | FigureKind::Heat | FigureKind::Surface | FigureKind::Table => {
            FigureX::Text(row.text("x")?)
        }
    };
    Some(FigureRow {
        panel: row.text("panel").unwrap_or_default(),
        series: row.text("series").unwrap_or_default(),
        x,
        y: row.number("y")?,
        low: row.number("low"),
        high: row.number("high"),
        n: row.number("n").map(|n| n.max(0.0) as u64),
        marked: row.number("marked").map(|n| n.max(0.0) as u64),
    })
}
