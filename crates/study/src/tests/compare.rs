//! Comparisons and their doubts.

use super::fixture::*;
use crate::record::{CellRecord, Mark};
use crate::{Drift, StoredRun, compare};

fn runs(stack: &str, throughputs_mib: &[u64]) -> Vec<StoredRun> {
    stored(throughputs_mib.iter().zip(0..).map(|(mib, block)| record(stack, block, mib * MIB)).collect())
}

fn borrowed(runs: &[StoredRun]) -> Vec<&StoredRun> {
    runs.iter().collect()
}

#[test]
fn pairs_are_made_within_blocks() {
    let (base, other) = (runs("base", &[100, 200, 400]), runs("other", &[50, 100, 200]));
    let comparison = compare(&borrowed(&base), &borrowed(&other)).unwrap();
    let ratio = comparison.ratio.unwrap();
    assert!((ratio.value - 0.5).abs() < 1e-9, "{ratio:?}");
    // Every block says the same, so the interval is narrow although the blocks differ fourfold.
    assert!(ratio.interval.unwrap().half_width() < 1e-6);
    assert!(comparison.paired && comparison.random_order && comparison.doubts.is_empty(), "{comparison:?}");
    assert_eq!(comparison.drift, Drift::NotTested);
    assert_eq!(comparison.bootstrap.unwrap().pairs, 3);
}

#[test]
fn one_fresh_stack_has_no_interval() {
    let (base, other) = (runs("base", &[100]), runs("other", &[85]));
    let comparison = compare(&borrowed(&base), &borrowed(&other)).unwrap();
    assert_eq!(comparison.ratio.unwrap().interval, None);
    assert_eq!(comparison.candidate.bytes_per_second.unwrap().interval, None);
    assert_eq!(comparison.bootstrap, None);
}

#[test]
fn failures_are_listed_and_never_averaged_in() {
    let base = runs("base", &[100, 100]);
    let other = stored(vec![record("other", 0, 50 * MIB), failed("other", 1, "the guest died\n  at boot")]);
    let comparison = compare(&borrowed(&base), &borrowed(&other)).unwrap();
    assert_eq!(comparison.ratio.unwrap().pairs, 1);
    assert_eq!(comparison.candidate.samples.len(), 1);
    assert_eq!(comparison.candidate.failures[0].reason, "the guest died\n  at boot");
    let all_failed = stored(vec![failed("other", 0, "no")]);
    let comparison = compare(&borrowed(&base), &borrowed(&all_failed)).unwrap();
    assert_eq!((comparison.ratio, comparison.candidate.bytes_per_second), (None, None));
    assert!(compare(&borrowed(&base), &[]).is_none());
}

#[test]
fn marks_are_carried_as_doubts() {
    let busy = Mark::CpuBound { machine: "host".to_owned(), busy: 0.93 };
    let marked = CellRecord { marks: vec![Mark::EmulatedCpu, busy], ..record("other", 0, 50 * MIB) };
    let (base, other) = (runs("base", &[100, 100]), stored(vec![marked, record("other", 1, 50 * MIB)]));
    let comparison = compare(&borrowed(&base), &borrowed(&other)).unwrap();
    assert_eq!(
        comparison.doubts,
        ["candidate: cpu-bound in 1 of 2: the CPUs of the host were busy 93 % of the time"]
    );
    assert_eq!(comparison.candidate.marks.len(), 2);
}

#[test]
fn the_ends_of_the_blocks_show_drift() {
    let both_ends = |start: u64, end: u64| -> Vec<CellRecord> {
        let ends = |block| {
            let closing = CellRecord { repeat: 1, ..record("base", block, end * MIB) };
            [record("base", block, start * MIB), closing]
        };
        (0..3).flat_map(ends).collect()
    };
    let other = runs("other", &[50, 50, 50]);
    let slowing = stored(both_ends(100, 81));
    let comparison = compare(&borrowed(&slowing), &borrowed(&other)).unwrap();
    assert!(matches!(comparison.drift, Drift::Seen { .. }));
    assert_eq!(
        comparison.doubts,
        ["the baseline drifted by -19.0 % from the start to the end of the blocks"]
    );
    // The block's baseline is the geometric mean of its ends: 90.
    assert!((comparison.ratio.unwrap().value - 50.0 / 90.0).abs() < 1e-9);
    let calm = stored(both_ends(100, 99));
    let comparison = compare(&borrowed(&calm), &borrowed(&other)).unwrap();
    assert!(matches!(comparison.drift, Drift::None { .. }) && comparison.doubts.is_empty());
}

#[test]
fn other_software_or_ground_is_told() {
    let mut elsewhere = record("other", 0, 50 * MIB);
    elsewhere.environment.ground = "this".to_owned();
    elsewhere.environment.packages.insert("host fio".to_owned(), "3.40-1".to_owned());
    let (base, other) = (runs("base", &[100]), stored(vec![elsewhere]));
    let comparison = compare(&borrowed(&base), &borrowed(&other)).unwrap();
    assert_eq!(
        comparison.doubts,
        [
            "ground differs: baseline emulated, candidate this",
            "version of host fio differs: baseline 3.33-3, candidate 3.40-1"
        ]
    );
}

#[test]
fn runs_without_a_common_block_are_not_paired() {
    let base = runs("base", &[100, 102]);
    let other = stored(vec![record("other", 7, 50 * MIB), record("other", 8, 51 * MIB)]);
    let comparison = compare(&borrowed(&base), &borrowed(&other)).unwrap();
    assert!(!comparison.paired && comparison.ratio.unwrap().interval.is_some());
    assert_eq!(comparison.doubts, ["baseline and candidate have no block in common, so nothing was paired"]);
}
