use nestor_statistics::SeededOrder;

use super::*;
use crate::record::Outcome;
use crate::tests::fixture::{layer, measured, record, stored, writes};

/// Runs of which each block's disk saw so many flushes and bytes for each MiB.
fn runs(stack: &str, of_blocks: &[(u64, u64)]) -> Vec<StoredRun> {
    let each = of_blocks.iter().enumerate().map(|(block, (flushes, bytes))| {
        let mut record = record(stack, block as u32, 1 << 20);
        let mut all = measured(1 << 20);
        let mut below = writes(*bytes);
        below.flushes = *flushes;
        all.layers = vec![layer("host", "host fs", "host", Some(below))];
        record.outcome = Outcome::Measured(all);
        record
    });
    stored(each.collect())
}

fn differences(from: &[StoredRun], to: &[StoredRun]) -> Vec<StructuralDifference> {
    structural_differences(&from.iter().collect::<Vec<_>>(), &to.iter().collect::<Vec<_>>())
}

fn of(found: &[StructuralDifference], quantity: Quantity) -> &StructuralDifference {
    found.iter().find(|row| row.quantity == quantity).unwrap()
}

#[test]
fn flushes_that_differ_in_every_pair_are_told_apart() {
    let from = runs("ext3/hdd", &[(1000, 1 << 20), (1100, 1 << 21), (1250, 1 << 20)]);
    let to = runs("ext4/hdd", &[(1263, 1 << 21), (1390, 1 << 20), (1575, 1 << 20)]);
    let found = differences(&from, &to);
    let flushes = of(&found, Quantity::Flushes);
    assert!(flushes.is_told_apart, "{flushes:?}");
    assert_eq!(flushes.level.as_deref(), Some("host's block layer"));
    let ratio = flushes.ratio.unwrap();
    assert!((ratio.change_percent() - 26.2).abs() < 0.3 && ratio.pairs == 3, "{ratio:?}");
    assert!(!of(&found, Quantity::Bytes).is_told_apart, "doubled in one block, halved in the next");
    assert!(found.iter().all(|row| row.quantity != Quantity::Instructions), "none were counted");
}

#[test]
fn none_against_some_in_each_of_five_pairs_is_told_apart() {
    let none = runs("ext3/hdd", &[(0, 1 << 20); 5]);
    let some = runs("ext4/hdd", &[(5, 1 << 20), (9, 1 << 20), (1, 1 << 20), (3, 1 << 20), (2, 1 << 20)]);
    for (from, to) in [(&none, &some), (&some, &none)] {
        let found = differences(from, to);
        let flushes = of(&found, Quantity::Flushes);
        assert!(flushes.is_told_apart && flushes.ratio.is_none(), "{flushes:?}");
    }
    let found = differences(&none[..2], &some[..2]);
    assert!(!of(&found, Quantity::Flushes).is_told_apart, "two pairs");
    assert!(differences(&none, &none).iter().all(|row| row.quantity != Quantity::Flushes), "neither has any");
    assert_eq!(differences(&[], &some), []);
}

/// Of comparisons without an effect, at most one in twenty tells anything apart, however many numbers there are.
#[test]
fn what_differs_by_chance_is_told_apart_in_at_most_one_comparison_of_twenty() {
    let mut random = SeededOrder::new(20_120_218);
    const COMPARISONS: usize = 400;
    const NUMBERS: usize = 13;
    for (blocks, deviation) in [(3, 0.2), (5, 0.2), (5, 0.05)] {
        let mut wrong = 0;
        for _ in 0..COMPARISONS {
            let mut side = || -> Vec<Values> {
                let values =
                    |_| (0..blocks).map(|block| (block, (deviation * random.normal()).exp())).collect();
                (0..NUMBERS).map(values).collect()
            };
            let (from, to) = (side(), side());
            let confidence = 1.0 - (1.0 - CONFIDENCE) / NUMBERS as f64;
            let place = (None, Quantity::Requests);
            let apart = from.iter().zip(&to).any(|(from, to)| {
                compared(&place, from, to, confidence).is_some_and(|row| row.is_told_apart)
            });
            wrong += usize::from(apart);
        }
        let share = wrong as f64 / COMPARISONS as f64;
        // 5 %, and three standard errors of a share of four hundred.
        assert!(share <= 0.05 + 0.033, "{blocks} blocks, {deviation}: {share}");
    }
}
