//! Two stacks under one workload: `nestor compare`.

use nestor_explain::{Evidence, Explanation, explain};
use nestor_results::{
    Comparison, LivesCompared, PathDifference, StoredRun, StructuralDifference, compare, path_differences,
    structural_differences,
};
use serde::Serialize;

use super::RunView;

/// Everything that is said of two stacks under one workload.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CompareView {
    /// The numbers and every reason to doubt them.
    pub comparison: Comparison,
    /// What one operation becomes at each level, beside the baseline's.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub structure: Vec<StructuralDifference>,
    /// Instructions of an operation beside those of the baseline, in virtual time.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub path: Vec<PathDifference>,
    /// What instances of a cloud went through on both; `None` unless both have lives.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lives: Option<LivesCompared>,
    /// The baseline alone.
    pub baseline: RunView,
    /// The candidate alone.
    pub candidate: RunView,
}

impl CompareView {
    /// Compares the runs of a candidate with those of a baseline. `None` if either has no runs at all.
    pub fn of(baseline: &[&StoredRun], candidate: &[&StoredRun]) -> Option<Self> {
        let mut view = Self {
            comparison: compare(baseline, candidate)?,
            structure: structural_differences(baseline, candidate),
            path: path_differences(baseline, candidate),
            lives: LivesCompared::of(baseline, candidate),
            baseline: RunView::of(baseline)?,
            candidate: RunView::of(candidate)?,
        };
        view.candidate.explanation = why(baseline, candidate);
        Some(view)
    }

    /// The same, for runs whose order the caller randomised: single runs do not tell by themselves.
    #[must_use]
    pub fn in_random_order(mut self) -> Self {
        self.comparison.random_order = true;
        self
    }
}

/// What made the candidate slower or faster; `None` unless the requests of both were joined through the layers.
fn why(baseline: &[&StoredRun], candidate: &[&StoredRun]) -> Option<Explanation> {
    let evidence = |runs: &[&StoredRun]| {
        let joined = |run: &StoredRun| run.record.measured().is_some_and(|m| m.correlation.is_some());
        let joined = runs.iter().filter(|run| joined(run));
        Evidence::of(&joined.map(|run| (run.number, &run.record)).collect::<Vec<_>>())
    };
    Some(explain(&evidence(candidate)?, Some(&evidence(baseline)?)))
}
