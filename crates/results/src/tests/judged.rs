//! Made-up stores of whole studies, and what is judged of them.

use tempfile::TempDir;

use crate::claims::draw::NOTHING_MEASURED;
use crate::claims::{ClaimResult, figures, judge};
use crate::record::CellRecord;
use crate::study::CellRule;
use crate::{Figure, Store, Study, StudyRecord, WrittenStack, WrittenWorkload};

/// The hash of the study of which made-up records are.
pub(super) const HASH: &str = "0123456789abcdef";

/// What is planted in a store: the published numbers, or each comparison of them the other way round.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Planted {
    Published,
    Opposite,
}

/// Claims of a kind, each with its verdict and why.
pub(super) fn of_verdict(results: &[ClaimResult], is: impl Fn(&ClaimResult) -> bool) -> Vec<String> {
    let said = |r: &ClaimResult| format!("{} {}: {}", r.claim.id, r.verdict.words(), r.reason);
    results.iter().filter(|r| is(r)).map(said).collect()
}

/// A study as a store has it, begun once and without sentinels.
pub(super) fn recorded(hash: &str, study: Study) -> StudyRecord {
    StudyRecord {
        hash: hash.to_owned(),
        ground: "emulated".into(),
        study,
        sentinels: false,
        ended_early: None,
        sessions: Vec::new(),
    }
}

/// The claims and figures of a study after all its cells were run: `records` has those of a stack and workload.
pub(super) fn judged(
    study: Study,
    mut records: impl FnMut(&Study, &WrittenStack, &WrittenWorkload, CellRule) -> Vec<CellRecord>,
) -> (Vec<ClaimResult>, Vec<Figure>) {
    let folder = TempDir::new().unwrap();
    let mut store = Store::open(&folder.path().join("r.sqlite")).unwrap();
    for stack in &study.stacks {
        for workload in &study.workloads {
            let Some(rule) = study.rule(stack, workload) else { continue };
            for record in records(&study, stack, workload, rule) {
                store.insert(&record).unwrap();
            }
        }
    }
    let study = recorded(HASH, study);
    let figures = figures(&store, &study).unwrap();
    figures.iter().for_each(assert_counted);
    (judge(&store, &study).unwrap(), figures)
}

/// Every measured value of a figure says of how many runs or pairs it is, and how many of these are marked. Published numbers stand in brackets.
fn assert_counted(figure: &Figure) {
    let problem = figure.problem.as_deref();
    assert!(problem.is_none_or(|problem| problem == NOTHING_MEASURED), "{}: {problem:?}", figure.query.id);
    for row in figure.rows.iter().filter(|row| !row.x.to_string().starts_with('[')) {
        let counted = row.n.zip(row.marked);
        assert!(counted.is_some_and(|(n, marked)| n > 0 && marked <= n), "{}: {row:?}", figure.query.id);
    }
}
