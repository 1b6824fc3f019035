//! `nestor explain` on made-up runs: which of them are samples of the cell.

mod predict_store;
mod support;

use nestor_results::CellRecord;
use predict_store::{keep, load};
use support::{Sandbox, json, said};

#[test]
fn a_run_counts_once_where_others_repeat_it_or_a_study_has_its_numbers() {
    let sandbox = Sandbox::new();
    let depends_on = |block: u32, digest: &str| {
        let mut run = load("ext4/hdd", block);
        run.environment.depends_on = Some(digest.to_owned());
        run
    };
    let in_study = CellRecord {
        study: Some("s".to_owned()),
        study_hash: Some("0123456789abcdef".to_owned()),
        ..depends_on(3, "seed 1")
    };
    let runs = [depends_on(0, "seed 1"), depends_on(1, "seed 2"), depends_on(2, "seed 1"), in_study];
    let store = keep(&sandbox, &runs);
    let explained = |run: &str| {
        let explanation = json(&said(&sandbox, &["explain", run, "--json", "--store", &store]));
        let mut runs: Vec<i64> =
            explanation["runs"].as_array().unwrap().iter().filter_map(serde_json::Value::as_i64).collect();
        runs.sort_unstable();
        runs
    };
    assert_eq!(explained("1"), [1, 2]);
    assert_eq!(explained("3"), [2, 3]);
    assert_eq!(explained("4"), [4]);
}
