//! What the cells of a study came to, without the real time that they took.

use std::collections::BTreeMap;

use nestor_results::{CellKey, RunFilter, Store};

use super::Sandbox;

/// What each cell came to; fails if one was measured twice.
pub fn outcomes(sandbox: &Sandbox, store: &str) -> BTreeMap<CellKey, String> {
    let Ok(store) = Store::open_read_only(&sandbox.path(store)) else { return BTreeMap::new() };
    let runs = store.runs(&RunFilter::default()).expect("results can be read");
    let mut outcomes = BTreeMap::new();
    for run in runs {
        assert!(run.record.measured().is_some(), "{:?}", run.record.failure());
        let digest = run.record.outcome_digest().expect("it has a digest");
        let twice = outcomes.insert(run.record.key(), digest);
        assert!(twice.is_none(), "{:?} is there twice", run.record.key());
    }
    outcomes
}
