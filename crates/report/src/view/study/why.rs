//! Why a cell is as fast as it is: by the mechanisms in its requests where those were joined, else by the numbers of its
//! layers. Where nothing was recorded, that is said.

use std::collections::HashMap;

use nestor_explain::{Evidence, Explanation, explain};
use nestor_results::{RunLevels, StoredRun, TraceMode, WrittenStack};
use serde::Serialize;

use super::CellReport;

/// What the numbers of the layers say of a cell whose requests were not joined, or why they say nothing.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LayersWhy {
    /// What is held against what, or why nothing can be.
    pub answer: String,
    /// What differs, the most important first.
    pub sentences: Vec<String>,
    /// What would say more.
    pub more: String,
}

/// Either explanation of a cell.
#[derive(Default)]
pub(super) struct Why {
    pub by_requests: Option<Explanation>,
    pub by_layers: Option<LayersWhy>,
}

/// What an explanation needs of the run of a cell that is shown.
pub(super) struct ShownRun {
    number: i64,
    trace: TraceMode,
    evidence: Option<Evidence>,
    levels: Option<RunLevels>,
}

/// The shown runs of baselines by their stacks; `None` of those without a run that has numbers.
pub(super) type ShownBaselines = HashMap<WrittenStack, Option<ShownRun>>;

impl ShownRun {
    /// `None` for a run without numbers.
    pub fn of(run: &StoredRun) -> Option<Self> {
        let measured = run.record.measured()?;
        let joined = measured.correlation.is_some();
        Some(Self {
            number: run.number,
            trace: run.record.trace,
            evidence: joined.then(|| Evidence::of(&[(run.number, &run.record)])).flatten(),
            levels: RunLevels::of(&run.record),
        })
    }
}

impl Why {
    /// Explains a cell by itself if it is a baseline or compared with nothing, else against its own. `told_apart` says whether the two differ for sure, if
    /// that is known.
    pub fn of(
        baseline_stack: &WrittenStack,
        cell: &CellReport,
        shown: &ShownRun,
        baseline: Option<&ShownRun>,
        told_apart: Option<bool>,
    ) -> Self {
        let base_levels = baseline.and_then(|b| b.levels.as_ref());
        match (&shown.evidence, baseline.and_then(|b| b.evidence.as_ref())) {
            (Some(evidence), Some(base)) => return Self::by_requests(evidence, Some(base)),
            // Taken apart by itself: there is nothing to hold it against.
            (Some(evidence), None) if base_levels.is_none() => return Self::by_requests(evidence, None),
            _ => {}
        }
        let Some(levels) = &shown.levels else { return Self::by_layers(nothing_recorded(shown)) };
        let alone = match (baseline, base_levels) {
            (Some(base), Some(base_levels)) => {
                return Self::by_layers(LayersWhy {
                    answer: against(baseline_stack, (shown, levels), (base, base_levels), told_apart),
                    sentences: levels.differences(base_levels),
                    more: what_would_name_mechanisms(shown, Some(base)),
                });
            }
            (Some(base), None) => {
                format!("No layer of run {} of its baseline {baseline_stack} was recorded.", base.number)
            }
            (None, _) if cell.is_apart => {
                "This cell is apart: it is compared with nothing, because it is recorded by a rule of its own."
                    .to_owned()
            }
            (None, _) if cell.is_baseline => {
                "This cell is a baseline: others are compared with it.".to_owned()
            }
            (None, _) => format!("Its baseline {baseline_stack} has no run with numbers to compare with."),
        };
        Self::by_layers(LayersWhy {
            answer: format!("{alone} On its own, it sent to each level:"),
            sentences: vec![levels.sent()],
            more: what_would_name_mechanisms(shown, None),
        })
    }

    fn by_requests(evidence: &Evidence, baseline: Option<&Evidence>) -> Self {
        Self { by_requests: Some(explain(evidence, baseline)), by_layers: None }
    }

    fn by_layers(why: LayersWhy) -> Self {
        Self { by_requests: None, by_layers: Some(why) }
    }
}

fn against(
    baseline: &str,
    (shown, levels): (&ShownRun, &RunLevels),
    (base, base_levels): (&ShownRun, &RunLevels),
    told_apart: Option<bool>,
) -> String {
    let chance = match told_apart {
        Some(true) => "",
        Some(false) => {
            " The two cells are not told apart, so the difference between these two runs may be chance."
        }
        None => " Without an interval, it is not known whether the two cells differ.",
    };
    format!(
        "Run {} ({}) against run {} of its baseline {baseline} ({}), by the numbers of their layers, the most \
         important first.{chance}",
        shown.number,
        levels.throughput_words(),
        base.number,
        base_levels.throughput_words()
    )
}

fn nothing_recorded(shown: &ShownRun) -> LayersWhy {
    let number = shown.number;
    let answer = if shown.trace.records() {
        format!("No explanation: nothing below the application of run {number} could be recorded.")
    } else {
        format!(
            "No explanation: nothing below the application of run {number} was recorded (trace = \"none\")."
        )
    };
    let more = if shown.trace.records() {
        String::new()
    } else {
        "For an explanation, set trace = \"full\" in the study file or give --trace full, with --again. \
         Nestor then follows every request through all layers and names the mechanisms; \"layers\" keeps \
         only the numbers of each layer."
            .to_owned()
    };
    LayersWhy { answer, sentences: Vec::new(), more }
}

/// What is missing for an explanation by requests.
fn what_would_name_mechanisms(shown: &ShownRun, base: Option<&ShownRun>) -> String {
    let all_full = std::iter::once(shown).chain(base).all(|run| run.trace == TraceMode::Full);
    if all_full {
        return "Requests were recorded, but could not be joined through all layers, so no mechanism is \
                named. The remarks of the run say why."
            .to_owned();
    }
    "No mechanism is named, because requests were not followed through the layers. To follow them, set \
     trace = \"full\" in the study file or give --trace full, with --again."
        .to_owned()
}
