//! What a trace says beyond sums: requests followed through all layers, and how sure that is.

mod certainty;
mod joins;
mod time_spent;
mod waterfall;

use certainty::certainty;
pub use joins::{JoinRow, LevelName, OriginShare};
pub use time_spent::{LevelTime, TimeSpent};
pub use waterfall::{Part, Waterfall, WaterfallRow};

use nestor_correlate::Correlation;
use nestor_correlate::stamps::Agreement;
use nestor_results::{Measured, TraceCost};
use serde::Serialize;

use super::short_names::ShortNames;

/// What the joined traces of a run say.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TraceView {
    /// How sure it is, in parts of a sentence: `clock guest-host known to 18 us`, …
    pub certainty: Vec<String>,
    /// The trace points with how each was joined to the one above, topmost first.
    pub joins: Vec<JoinRow>,
    /// How far the joins agree with marks in the data, where the workload makes them (`stamps:`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agreement: Option<Agreement>,
    /// Where the time of each class of operations went, the slowest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub time_spent: Vec<TimeSpent>,
    /// Some requests from top to bottom, those of the slowest operation first.
    pub waterfalls: Vec<Waterfall>,
    /// Those requests and the ones around the run's middle, with the levels that they name, and nothing else: a page offers them as a
    /// trace for Perfetto.
    #[serde(skip)]
    pub kept: Option<Box<Correlation>>,
    /// What makes it less certain than it seems.
    pub remarks: Vec<String>,
}

impl TraceView {
    /// What a correlation of the levels of a stack says.
    pub fn of(correlation: &Correlation, names: &ShortNames<'_>) -> Self {
        let names = LevelName::of(&correlation.levels, names);
        let distinct = LevelName::distinct(&names);
        let mut waterfalls: Vec<Waterfall> =
            correlation.trees.iter().filter_map(|tree| Waterfall::of(tree, &distinct)).collect();
        Waterfall::sort_slowest_first(&mut waterfalls);
        Self {
            certainty: certainty(correlation, &distinct),
            joins: JoinRow::of(correlation, &names),
            agreement: correlation.agreement.clone(),
            time_spent: TimeSpent::of(correlation, &distinct),
            waterfalls,
            kept: kept(correlation).map(Box::new),
            remarks: correlation.remarks.clone(),
        }
    }

    /// What was joined in a run, and what tracing cost its cell. `None` where nothing is known of either.
    pub fn of_run(measured: &Measured, names: &ShortNames<'_>, cost: Option<&TraceCost>) -> Option<Self> {
        let correlation = measured.correlation.as_ref();
        let mut view = correlation.map(|correlation| Self::of(correlation, names)).unwrap_or_default();
        view.certainty.extend(cost.map(TraceCost::in_words));
        view.remarks.extend(measured.trace_remarks.iter().cloned());
        (view != Self::default()).then_some(view)
    }
}

/// What of a correlation names requests; `None` where none was kept.
fn kept(correlation: &Correlation) -> Option<Correlation> {
    (!correlation.trees.is_empty() || !correlation.timeline.is_empty()).then(|| Correlation {
        levels: correlation.levels.clone(),
        trees: correlation.trees.clone(),
        timeline: correlation.timeline.clone(),
        ..Correlation::default()
    })
}
