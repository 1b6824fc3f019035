//! The figures of a published study, drawn from the results here.

use std::fmt;

use nestor_statistics::Interval;
use serde::{Deserialize, Serialize};

/// A figure and the query that fills it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FigureQuery {
    /// Short name, such as `fig-4`.
    pub id: String,
    /// What it shows, in a line.
    pub title: String,
    /// How it is drawn.
    pub kind: FigureKind,
    /// Label of the horizontal axis, with its unit.
    pub x: String,
    /// Label of the vertical axis (of the colours of a heat map), with its unit.
    pub y: String,
    /// The value that means no difference (100 for per cent of a baseline): colours part there, and are full at half and at twice it.
    #[serde(default)]
    pub alike: Option<f64>,
    /// Which values are the better ones, where there is a value that means no difference.
    #[serde(default)]
    pub better: Better,
    /// The query: columns `panel` and `series` (may be missing), `x`, `y`, and what may be missing: `low` and `high`, `n`, `marked`.
    pub sql: String,
}

/// Which of two values is the better one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Better {
    /// The larger, as of throughput.
    #[default]
    More,
    /// The smaller, as of latency.
    Less,
}

/// How a figure is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FigureKind {
    /// Bars side by side: x is a name.
    Bars,
    /// A table of colours: x is the column, the series is the row.
    Heat,
    /// Lines over a numeric x.
    Line,
    /// Points over a numeric x, and the line of least squares through those of each series.
    Fit,
    /// Numbers in rows and columns: x is the column, the series is the row, with its unit.
    Table,
    /// A surface that can be turned: x is one direction, the series the other; the label of x names both, with × between.
    Surface,
}

impl FigureKind {
    /// Whether a value has its place in two directions.
    pub(super) fn has_two_directions(self) -> bool {
        matches!(self, Self::Heat | Self::Surface | Self::Table)
    }

    /// The columns that its query has to return.
    pub(super) fn columns(self) -> &'static [&'static str] {
        if self.has_two_directions() { &["series", "x", "y"] } else { &["x", "y"] }
    }
}

/// A figure with its values.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// What was asked.
    pub query: FigureQuery,
    /// What was found, in the query's order.
    pub rows: Vec<FigureRow>,
    /// Of a fit, the line of each series in each panel whose points have one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lines: Vec<SeriesLine>,
    /// Why it could not be drawn, if it could not.
    pub problem: Option<String>,
    /// What is in no value, because a baseline changed while the study ran.
    #[serde(default)]
    pub left_out: Vec<String>,
}

/// One value of a figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FigureRow {
    /// The panel; empty if there is only one.
    pub panel: String,
    /// The line, the colour of the bar or the row of the heat map.
    pub series: String,
    /// Where on the horizontal axis.
    pub x: FigureX,
    /// The value.
    pub y: f64,
    /// Low end of its 95 % interval.
    pub low: Option<f64>,
    /// High end of its 95 % interval.
    pub high: Option<f64>,
    /// How many runs, or pairs of runs, it is the mean of.
    #[serde(default)]
    pub n: Option<u64>,
    /// How many of them have a mark: a reason to trust them less.
    #[serde(default)]
    pub marked: Option<u64>,
}

impl FigureRow {
    /// Whether more than half of the runs behind the value have a mark.
    pub fn is_mostly_marked(&self) -> bool {
        self.marked.zip(self.n).is_some_and(|(marked, n)| 2 * marked > n)
    }

    /// Both ends of its interval, where it has one.
    pub fn interval(&self) -> Option<(f64, f64)> {
        let (low, high) = (self.low?, self.high?);
        (low.is_finite() && high.is_finite()).then_some((low, high))
    }
}

/// The line of least squares through the points of a series, with intervals at the confidence of the study; two points have none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SeriesLine {
    /// The panel of its points.
    pub panel: String,
    /// Their series.
    pub series: String,
    /// By how much y rises for each unit of x, in units of y.
    pub slope: f64,
    /// The interval of the slope.
    pub slope_interval: Option<Interval>,
    /// The y at x = 0, in the unit of y.
    pub intercept: f64,
    /// The interval of the intercept.
    pub intercept_interval: Option<Interval>,
    /// How many points it is through.
    pub points: u64,
}

impl SeriesLine {
    /// The y of the line at an x.
    pub fn at(&self, x: f64) -> f64 {
        self.intercept + self.slope * x
    }
}

/// A place on the horizontal axis.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum FigureX {
    /// A number.
    Number(f64),
    /// A name.
    Text(String),
}

impl fmt::Display for FigureX {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(value) => write!(f, "{value}"),
            Self::Text(text) => f.write_str(text),
        }
    }
}
