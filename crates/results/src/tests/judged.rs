//! Made-up stores of whole studies, and what is judged of them.

use tempfile::TempDir;

use crate::claims::{ClaimResult, figures, judge};
use crate::record::CellRecord;
use crate::study::CellRule;
use crate::{Figure, Store, Study, StudyRecord, WrittenStack, WrittenWorkload};

/// The hash of the study of which made-up records are.
pub(super) const HASH: &str = "0123456789abcdef";

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
    (judge(&store, &study).unwrap(), figures(&store, &study).unwrap())
}
