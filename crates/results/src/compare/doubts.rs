//! Reasons to trust a ratio less, in sentences.

use std::collections::{BTreeMap, BTreeSet};

use super::CellSummary;
use crate::Environment;
use crate::record::{CellRecord, Mark};
use crate::store::StoredRun;

/// Excluded runs that are listed one by one; further ones are only counted.
const TOLD_ONE_BY_ONE: usize = 3;

/// Runs that are excluded because they violate an identity.
pub(super) fn left_out(baseline: &CellSummary, candidate: &CellSummary) -> Vec<String> {
    let sentences_of = |cell: &CellSummary, side: &str| {
        let told = cell.violations.iter().take(TOLD_ONE_BY_ONE);
        let mut sentences: Vec<String> = told
            .map(|v| {
                format!("{side}: run {} is excluded because it violates an identity: {}", v.run, v.identity)
            })
            .collect();
        if let more @ 1.. = cell.violations.len().saturating_sub(TOLD_ONE_BY_ONE) {
            sentences.push(format!("{side}: {more} more runs are excluded because they violate an identity"));
        }
        sentences
    };
    [sentences_of(baseline, "baseline"), sentences_of(candidate, "candidate")].concat()
}

/// Marks that spoil the comparison of runs that count, those of them that `counts` is true for.
pub(super) fn doubtful_marks(
    baseline: &CellSummary,
    candidate: &CellSummary,
    counts: impl Fn(&Mark) -> bool,
) -> Vec<String> {
    let sentences_of = |cell: &CellSummary, side: &str| {
        let spoils = |mark: &Mark| {
            mark.spoils_comparison() && !matches!(mark, Mark::Inconsistent { .. }) && counts(mark)
        };
        let marks = cell.marks.iter().filter(|m| spoils(&m.mark));
        let runs = cell.measured_runs() + cell.failures.len();
        marks
            .map(|m| format!("{side}: {} in {} of {runs}: {}", m.mark.name(), m.runs, m.mark.detail()))
            .collect::<Vec<_>>()
    };
    [sentences_of(baseline, "baseline"), sentences_of(candidate, "candidate")].concat()
}

/// Facts of a cell's runs that have to be equal in runs that are compared: by name, the values that occur.
pub type Facts = BTreeMap<String, BTreeSet<String>>;

/// Differences between the two sides other than the stack.
pub(super) fn differences(baseline: &[&StoredRun], candidate: &[&StoredRun]) -> Vec<String> {
    let facts = |runs: &[&StoredRun]| {
        let mut facts = Facts::new();
        let measured = runs.iter().filter(|r| r.record.measured().is_some());
        for (name, value) in measured.flat_map(|r| facts_of(&r.record)) {
            facts.entry(name).or_default().insert(value);
        }
        facts
    };
    different_facts(&facts(baseline), &facts(candidate))
}

/// The facts in which two sides differ, in sentences for [`Comparison::between`](super::Comparison::between).
pub fn different_facts(baseline: &Facts, candidate: &Facts) -> Vec<String> {
    let list =
        |values: &BTreeSet<String>| values.iter().map(String::as_str).collect::<Vec<_>>().join(" and ");
    baseline
        .iter()
        .filter_map(|(name, values)| Some((name, values, candidate.get(name)?)))
        .filter(|(_, ours, theirs)| ours != theirs || ours.len() > 1)
        .map(|(name, ours, theirs)| {
            format!("{name} differs: baseline {}, candidate {}", list(ours), list(theirs))
        })
        .collect()
}

fn facts_of(record: &CellRecord) -> Vec<(String, String)> {
    environment_facts(&record.environment, record.measured().map(|m| m.load.working_set_bytes))
}

/// What has to be equal in two runs that are compared.
pub(crate) fn environment_facts(
    environment: &Environment,
    working_set_bytes: Option<u64>,
) -> Vec<(String, String)> {
    let mut facts = vec![("ground".to_owned(), environment.ground.clone())];
    facts.extend(
        environment.packages.iter().map(|(name, version)| (format!("version of {name}"), version.clone())),
    );
    if let Some(host) = environment.machines.first() {
        facts.push(("host kernel".to_owned(), host.kernel.clone()));
        facts.push(("host CPU".to_owned(), host.cpu_model.clone()));
    }
    if let Some(bytes) = working_set_bytes {
        facts.push(("size of the data set".to_owned(), format!("{bytes} bytes")));
    }
    facts
}
