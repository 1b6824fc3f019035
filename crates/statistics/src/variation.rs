//! How much something varies between groups, free of how much it varies by itself.
//!
//! The deviation of a few means is never zero: of three hosts that are alike, whose runs deviate by 20 %, the means of single runs deviate
//! by about as much. So the variance within the groups, divided by the number of blocks, is subtracted from that of the means (the
//! analysis of variance's estimate; Searle, Casella and McCulloch, Variance Components, 1992, §3.6). Every block has every group once,
//! so what a block's samples have in common (a shared baseline, a seed) cancels out.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::summary::{Interval, mean_at};

/// The value of one group in one block.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GroupSample {
    /// Which group: a host.
    pub group: usize,
    /// Which block.
    pub block: u32,
    /// A positive number.
    pub value: f64,
}

/// The variation between groups.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Variation {
    /// The coefficient of variation of the groups' true values: 0.45 is 45 %. Below 0 if the groups' means vary less than their runs
    /// alone would make them: an estimate that is never below 0 would err upwards.
    pub value: f64,
    /// Its interval, with the same sign; `None` below three blocks.
    pub interval: Option<Interval>,
    /// Groups.
    pub groups: usize,
    /// Blocks that have all groups; others do not count.
    pub blocks: usize,
}

/// Fewer groups have no variation to speak of.
pub const FEWEST_GROUPS: usize = 3;

/// The variation between the groups of some samples, with a jackknife over the blocks (Tukey 1958): the groups are these and no others,
/// so what chance could have made otherwise is the blocks.
///
/// `None` below three groups or two blocks that have them all, or if a value is not a positive number.
pub fn variation_between(samples: &[GroupSample], confidence: f64) -> Option<Variation> {
    let blocks = complete_blocks(samples)?;
    let groups = blocks.first()?.len();
    if groups < FEWEST_GROUPS || blocks.len() < 2 {
        return None;
    }
    let variance = variance_between(&blocks)?;
    let n = blocks.len() as f64;
    let pseudovalues: Option<Vec<f64>> = (0..blocks.len())
        .map(|left_out| {
            let others: Vec<Vec<f64>> = blocks
                .iter()
                .enumerate()
                .filter(|(b, _)| *b != left_out)
                .map(|(_, row)| row.clone())
                .collect();
            Some(n * variance - (n - 1.0) * variance_between(&others)?)
        })
        .collect();
    let interval = pseudovalues.and_then(|values| mean_at(&values, confidence)?.interval);
    Some(Variation {
        value: coefficient(variance),
        interval: interval.map(|i| Interval { low: coefficient(i.low), high: coefficient(i.high) }),
        groups,
        blocks: blocks.len(),
    })
}

/// The difference of two variations, `b` less `a`, with an interval from both intervals (MOVER: Zou and Donner, Statistics in Medicine 27,
/// 2008).
pub fn variation_difference(a: &Variation, b: &Variation) -> (f64, Option<Interval>) {
    let difference = b.value - a.value;
    let interval = a.interval.zip(b.interval).map(|(of_a, of_b)| Interval {
        low: difference - (b.value - of_b.low).hypot(of_a.high - a.value),
        high: difference + (of_b.high - b.value).hypot(a.value - of_a.low),
    });
    (difference, interval)
}

/// Logarithms by block, each with all groups in the same order. `None` if a value has no logarithm.
fn complete_blocks(samples: &[GroupSample]) -> Option<Vec<Vec<f64>>> {
    let groups: BTreeSet<usize> = samples.iter().map(|s| s.group).collect();
    let mut blocks: BTreeMap<u32, BTreeMap<usize, f64>> = BTreeMap::new();
    for sample in samples {
        if !(sample.value > 0.0 && sample.value.is_finite()) {
            return None;
        }
        blocks.entry(sample.block).or_default().insert(sample.group, sample.value.ln());
    }
    blocks.retain(|_, found| found.len() == groups.len());
    Some(blocks.into_values().map(|found| found.into_values().collect()).collect())
}

/// The unbiased estimate of the variance of the groups' logarithms, which may be below zero. `None` below two blocks.
fn variance_between(blocks: &[Vec<f64>]) -> Option<f64> {
    let (n, k) = (blocks.len() as f64, blocks.first()?.len() as f64);
    if n < 2.0 || k < 2.0 {
        return None;
    }
    let block_means: Vec<f64> = blocks.iter().map(|row| row.iter().sum::<f64>() / k).collect();
    let grand = block_means.iter().sum::<f64>() / n;
    let group_means: Vec<f64> =
        (0..blocks[0].len()).map(|g| blocks.iter().map(|row| row[g]).sum::<f64>() / n).collect();
    let between: f64 = group_means.iter().map(|m| (m - grand).powi(2)).sum::<f64>() / (k - 1.0);
    let residual: f64 = blocks
        .iter()
        .zip(&block_means)
        .flat_map(|(row, block)| {
            row.iter().zip(&group_means).map(move |(value, group)| (value - block - group + grand).powi(2))
        })
        .sum::<f64>()
        / ((k - 1.0) * (n - 1.0));
    Some(between - residual / n)
}

/// The coefficient of variation of a log-normal number whose logarithm has this variance, with the sign of the estimate.
fn coefficient(variance: f64) -> f64 {
    variance.abs().exp_m1().sqrt().copysign(variance)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SeededOrder;

    /// Hosts whose logarithms are spread evenly, with this true coefficient of variation.
    fn study(
        random: &mut SeededOrder,
        hosts: usize,
        blocks: u32,
        truth: f64,
        deviation: f64,
    ) -> Vec<GroupSample> {
        let spread = truth.powi(2).ln_1p().sqrt();
        let place = |group: usize| (group as f64) - (hosts as f64 - 1.0) / 2.0;
        let scale = ((0..hosts).map(|g| place(g).powi(2)).sum::<f64>() / (hosts as f64 - 1.0)).sqrt();
        let mut samples = Vec::new();
        for block in 0..blocks {
            let shared = deviation * random.normal();
            for group in 0..hosts {
                let log = spread * place(group) / scale + shared + deviation * random.normal();
                samples.push(GroupSample { group, block, value: log.exp() });
            }
        }
        samples
    }

    const STUDIES: u32 = 1_000;

    #[test]
    fn the_interval_holds_the_true_variation_and_its_middle_is_not_above_it() {
        for truth in [0.0, 0.04, 0.2, 0.45] {
            for deviation in [0.03, 0.20] {
                for blocks in [3, 5, 12] {
                    let mut random = SeededOrder::new(20_120_214);
                    let (mut missed, mut sum) = (0_u32, 0.0);
                    for _ in 0..STUDIES {
                        let found = variation_between(&study(&mut random, 5, blocks, truth, deviation), 0.95)
                            .unwrap();
                        let interval = found.interval.unwrap();
                        sum += found.value.max(0.0);
                        missed += u32::from(!interval.contains(truth));
                    }
                    let share = f64::from(missed) / f64::from(STUDIES);
                    // 5 %, and three standard errors of a share of a thousand.
                    assert!(share <= 0.05 + 0.0207, "{truth}, {deviation}, {blocks} blocks: {share} miss it");
                    // Of groups that are alike it is above 0 half of the time.
                    let mean = sum / f64::from(STUDIES);
                    assert!(
                        mean <= truth + 0.2 * deviation,
                        "{truth}, {deviation}, {blocks} blocks: {mean} in the mean"
                    );
                }
            }
        }
    }

    #[test]
    fn of_runs_that_do_not_deviate_it_is_the_variation_of_the_means() {
        let value = |group: usize| [1.0, 2.0, 4.0][group];
        let samples: Vec<GroupSample> = (0..9)
            .map(|i| GroupSample {
                group: i % 3,
                block: i as u32 / 3,
                value: value(i % 3) * (1.0 + (i / 3) as f64),
            })
            .collect();
        let found = variation_between(&samples, 0.95).unwrap();
        // The logarithms are -ln 2, 0 and ln 2: their variance is (ln 2)².
        let wanted = std::f64::consts::LN_2.powi(2).exp_m1().sqrt();
        assert!((found.value - wanted).abs() < 1e-9, "{found:?}");
        assert!(found.interval.is_some_and(|i| i.high - i.low < 1e-9));
        assert_eq!((found.groups, found.blocks), (3, 3));
    }

    #[test]
    fn blocks_that_lack_a_group_do_not_count() {
        let mut random = SeededOrder::new(1);
        let mut samples = study(&mut random, 4, 4, 0.2, 0.1);
        let whole = variation_between(&samples[..12], 0.95).unwrap();
        samples.pop();
        assert_eq!(variation_between(&samples, 0.95), Some(whole));
        assert_eq!(variation_between(&samples[..4], 0.95), None, "one block");
        assert!(variation_between(&samples[..8], 0.95).is_some_and(|v| v.interval.is_none()), "two blocks");
        samples[0].value = 0.0;
        assert_eq!(variation_between(&samples, 0.95), None);
        assert_eq!(variation_between(&[], 0.95), None);
    }

    #[test]
    fn differences_of_variations_hold_the_true_one() {
        for (of_a, of_b) in [(0.0, 0.0), (0.1, 0.1), (0.4, 0.1), (0.2, 0.0), (0.0, 0.2)] {
            for (blocks, deviations) in
                [(3, [0.05, 0.05]), (3, [0.05, 0.2]), (5, [0.2, 0.2]), (12, [0.05, 0.2])]
            {
                let mut random = SeededOrder::new(20_120_217);
                let missed = (0..STUDIES).filter(|_| {
                    let mut of = |truth, deviation| {
                        variation_between(&study(&mut random, 5, blocks, truth, deviation), 0.95).unwrap()
                    };
                    let (a, b) = (of(of_a, deviations[0]), of(of_b, deviations[1]));
                    let interval = variation_difference(&a, &b).1.unwrap();
                    !interval.contains(of_b - of_a)
                });
                let share = missed.count() as f64 / f64::from(STUDIES);
                assert!(
                    share <= 0.05 + 0.0207,
                    "{of_a} and {of_b}, {blocks} blocks, {deviations:?}: {share} miss it"
                );
            }
        }
    }
}
