//! What one operation of the application becomes below it: requests, bytes, flushes, seeks at each level, and instructions.
//!
//! Throughput of two stacks is often not told apart while what they do is: their structure hardly varies from run to run. So each of these
//! numbers is compared in pairs, by itself. All their intervals together err in at most 5 % of the comparisons (Bonferroni), so that of
//! many numbers none is told apart by chance.

use std::collections::{BTreeMap, BTreeSet};

use nestor_statistics::Ratio;
use nestor_statistics::summary::CONFIDENCE;
use serde::{Deserialize, Serialize};

use crate::compare::{mean_of_values, ratio_by_block};
use crate::path_length;
use crate::run_levels::{LevelPlace, RunLevels};
use crate::store::StoredRun;

/// The smallest difference that is reported, as a share of the baseline.
const MATTERS: f64 = 0.05;

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Quantity {
    /// Requests sent on by a level.
    Requests,
    /// Their bytes.
    Bytes,
    /// Requests that do not go on where an earlier one ended.
    Seeks,
    /// Flushes.
    Flushes,
    /// Instructions of the modelled processor, in all machines.
    Instructions,
}

impl Quantity {
    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Self::Requests => "requests",
            Self::Bytes => "bytes",
            Self::Seeks => "seeks",
            Self::Flushes => "flushes",
            Self::Instructions => "instructions",
        }
    }
}

/// A quantity for one operation of the application, on both sides.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StructuralDifference {
    /// What is counted.
    pub quantity: Quantity,
    /// The level where, in words; `None` of all machines together.
    pub level: Option<String>,
    /// For one operation of the baseline, the mean over its runs.
    pub baseline: f64,
    /// For one operation of the candidate.
    pub candidate: f64,
    /// Candidate over baseline, where both are above zero in every run.
    pub ratio: Option<Ratio>,
    /// Whether they differ by at least 5 %, and not by chance.
    pub is_told_apart: bool,
}

/// Where a quantity is counted.
type Place = (Option<LevelPlace>, Quantity);
/// By block.
type Values = Vec<(u32, f64)>;

/// The structure of a candidate beside that of its baseline, level by level from the topmost; quantities that neither side has are left out.
/// Empty unless the levels of both were recorded. Both have to have run the same workload.
pub fn structural_differences(
    baseline: &[&StoredRun],
    candidate: &[&StoredRun],
) -> Vec<StructuralDifference> {
    let (from, to) = (by_place(baseline), by_place(candidate));
    let shared: BTreeSet<&Place> = from.keys().filter(|place| to.contains_key(place)).collect();
    let pairs: Vec<(&Place, &Values, &Values)> = shared
        .into_iter()
        .map(|place| (place, &from[place], &to[place]))
        .filter(|(_, from, to)| from.iter().chain(*to).any(|(_, value)| *value > 0.0))
        .collect();
    let confidence = 1.0 - (1.0 - CONFIDENCE) / pairs.len().max(1) as f64;
    pairs.into_iter().filter_map(|(place, from, to)| compared(place, from, to, confidence)).collect()
}

fn compared(place: &Place, from: &Values, to: &Values, confidence: f64) -> Option<StructuralDifference> {
    let ratio = ratio_by_block(from, to, confidence);
    let is_told_apart = match &ratio {
        Some(ratio) => ratio.differs() == Some(true) && ratio.value.ln().abs() >= MATTERS.ln_1p(),
        None => never_against_always(from, to, confidence) || never_against_always(to, from, confidence),
    };
    Some(StructuralDifference {
        quantity: place.1,
        level: place.0.as_ref().map(ToString::to_string),
        baseline: mean_of_values(from)?,
        candidate: mean_of_values(to)?,
        ratio,
        is_told_apart,
    })
}

/// Whether one side has none in any run and the other some in all. Of runs that have some in every second case, whatever their side, that
/// happens in 2 of 4ⁿ comparisons of n runs a side, and less often of all others.
fn never_against_always(never: &Values, always: &Values, confidence: f64) -> bool {
    let runs = i32::try_from(never.len().min(always.len())).unwrap_or(i32::MAX);
    let by_chance = 2.0 * 0.25_f64.powi(runs);
    by_chance <= 1.0 - confidence
        && never.iter().all(|(_, value)| *value == 0.0)
        && always.iter().all(|(_, value)| *value > 0.0)
}

/// Of the runs whose numbers count.
fn by_place(runs: &[&StoredRun]) -> BTreeMap<Place, Values> {
    let mut found: BTreeMap<Place, Values> = BTreeMap::new();
    for run in runs.iter().filter(|run| !run.record.untraced_twin && !run.record.violates_an_identity()) {
        let levels = RunLevels::of(&run.record).map(|levels| levels.for_an_operation()).unwrap_or_default();
        for (place, quantity, value) in levels {
            found.entry((Some(place), quantity)).or_default().push((run.record.block, value));
        }
    }
    let instructions = path_length::for_an_operation(runs);
    if !instructions.is_empty() {
        found.insert((None, Quantity::Instructions), instructions);
    }
    found
}

#[cfg(test)]
#[path = "structure_tests.rs"]
mod tests;
