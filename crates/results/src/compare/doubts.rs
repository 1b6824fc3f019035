//! Reasons to trust a ratio less, in sentences.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

use super::{CellSummary, CountedMark};
use crate::Environment;
use crate::record::{CellRecord, Mark};
use crate::store::StoredRun;

/// A reason to trust a ratio less. Results keep its words.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub struct Doubt {
    /// In a sentence.
    pub words: String,
    /// The mark that it comes from; `None` for other reasons, and of doubts that were kept.
    pub mark: Option<Mark>,
}

impl Doubt {
    /// Of a saved baseline, whose last run began then (RFC 3339).
    pub fn of_saved(name: &str, last_start: &str) -> Self {
        let day = last_start.split('T').next().unwrap_or_default();
        Self::from(format!(
            "the baseline `{name}` was measured before, until {day}, and not in turn with the candidate; another build of Nestor or another \
             lab image changes numbers by some per cent"
        ))
    }
}

impl From<String> for Doubt {
    fn from(words: String) -> Self {
        Self { words, mark: None }
    }
}

impl From<Doubt> for String {
    fn from(doubt: Doubt) -> Self {
        doubt.words
    }
}

impl PartialEq<&str> for Doubt {
    fn eq(&self, words: &&str) -> bool {
        self.words == *words
    }
}

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

/// Marks that spoil the comparison of runs that count.
pub(super) fn doubtful_marks(baseline: &CellSummary, candidate: &CellSummary) -> Vec<Doubt> {
    let sentences_of = |cell: &CellSummary, side: &str| {
        let spoils = |mark: &Mark| mark.spoils_comparison() && !matches!(mark, Mark::Inconsistent { .. });
        let marks = cell.marks.iter().filter(|m| spoils(&m.mark));
        let runs = cell.measured_runs() + cell.failures.len();
        let doubt = |m: &CountedMark| Doubt {
            words: format!("{side}: {} in {} of {runs}: {}", m.mark.name(), m.runs, m.mark.detail()),
            mark: Some(m.mark.clone()),
        };
        marks.map(doubt).collect::<Vec<_>>()
    };
    [sentences_of(baseline, "baseline"), sentences_of(candidate, "candidate")].concat()
}

/// What has to be equal in runs that are compared, in the order in which differences are told.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fact {
    /// Where they ran.
    Ground,
    /// The outermost machine's processor.
    HostCpu,
    /// Its kernel.
    HostKernel,
    /// The size of what they worked on.
    DataSet,
    /// The version of a package.
    Version(String),
}

impl fmt::Display for Fact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ground => f.write_str("ground"),
            Self::HostCpu => f.write_str("host CPU"),
            Self::HostKernel => f.write_str("host kernel"),
            Self::DataSet => f.write_str("size of the data set"),
            Self::Version(package) => write!(f, "version of {package}"),
        }
    }
}

/// The values that occur of each fact in a cell's runs.
pub type Facts = BTreeMap<Fact, BTreeSet<String>>;

/// Differences between the two sides other than the stack.
pub(super) fn differences(baseline: &[&StoredRun], candidate: &[&StoredRun]) -> Vec<String> {
    let facts = |runs: &[&StoredRun]| {
        let mut facts = Facts::new();
        let measured = runs.iter().filter(|r| r.record.measured().is_some());
        for (fact, value) in measured.flat_map(|r| facts_of(&r.record)) {
            facts.entry(fact).or_default().insert(value);
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
        .filter_map(|(fact, values)| Some((fact, values, candidate.get(fact)?)))
        .filter(|(_, ours, theirs)| ours != theirs || ours.len() > 1)
        .map(|(fact, ours, theirs)| {
            format!("{fact} differs: baseline {}, candidate {}", list(ours), list(theirs))
        })
        .collect()
}

fn facts_of(record: &CellRecord) -> Vec<(Fact, String)> {
    environment_facts(&record.environment, record.measured().map(|m| m.load.working_set_bytes))
}

/// What has to be equal in two runs that are compared.
pub(crate) fn environment_facts(
    environment: &Environment,
    working_set_bytes: Option<u64>,
) -> Vec<(Fact, String)> {
    let mut facts = vec![(Fact::Ground, environment.ground.to_string())];
    let version = |(name, version): (&String, &String)| (Fact::Version(name.clone()), version.clone());
    facts.extend(environment.packages.iter().map(version));
    if let Some(host) = environment.machines.first() {
        // Where the stack says it, it is what is compared.
        if !environment.settings.contains_key(&format!("{} kernel", host.label)) {
            facts.push((Fact::HostKernel, host.kernel.clone()));
        }
        facts.push((Fact::HostCpu, host.cpu_model.clone()));
    }
    if let Some(bytes) = working_set_bytes {
        facts.push((Fact::DataSet, format!("{bytes} bytes")));
    }
    facts
}
