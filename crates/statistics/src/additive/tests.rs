//! Known answers, and what always holds.

use super::*;
use crate::design::combinations;

fn run(levels: &[usize], block: usize, rate: f64) -> AdditiveRun {
    AdditiveRun { levels: levels.to_vec(), block, rate }
}

fn near(value: f64, expected: f64) -> bool {
    (value / expected - 1.0).abs() < 1e-9
}

#[test]
fn a_worked_two_by_two_with_repeats() {
    // Logarithms 0.1 0.3 | 1.0 1.2 | 2.1 1.9 | 3.2 3.0 of the cells 00 10 01 11: the cells' means are 0.2, 1.1, 2.0, 3.1.
    // The first factor's effect is ((1.1-0.2)+(3.1-2.0))/2 = 1.0, the second's ((2.0-0.2)+(3.1-1.1))/2 = 1.9, the mean 1.6.
    // Squares: within cells 4 x 2 x 0.1^2 = 0.08 with 4 degrees; of the interaction 8 x (0.05)^2 = 0.02 with 1.
    let cells = [([0, 0], 0.1, 0.3), ([1, 0], 1.0, 1.2), ([0, 1], 2.1, 1.9), ([1, 1], 3.2, 3.0)];
    let runs: Vec<AdditiveRun> = cells
        .iter()
        .flat_map(|(levels, a, b)| [run(levels, 0, f64::exp(*a)), run(levels, 0, f64::exp(*b))])
        .collect();
    let model = AdditiveModel::fit(&[2, 2], &runs).unwrap();
    assert_eq!(model.degrees_of_freedom(), 5);
    assert!(near(model.residual_deviation().unwrap(), (0.1_f64 / 5.0).sqrt()));
    let prediction = model.predict(&[0, 0]).unwrap();
    assert!(near(prediction.value, (1.6_f64 - 0.5 - 0.95).exp()), "{prediction:?}");
    // Variance of a corner's mean is 3/8 of the error's; one more run adds 1; t(5) = 2.5706.
    let half = 2.570_582 * (0.02_f64 * (1.0 + 3.0 / 8.0)).sqrt();
    assert!((prediction.interval.unwrap().high.ln() - 0.15 - half).abs() < 1e-5, "{prediction:?}");
    let ratio = model.ratio(&[0, 0], &[1, 0]).unwrap();
    assert!(near(ratio.value, 1_f64.exp()));
    // A difference of two means of four: 2.5706 x sqrt(0.02 x 2/4).
    assert!((ratio.interval.unwrap().high.ln() - 1.0 - 2.570_582 * 0.1).abs() < 1e-5);
    let lack = model.lack_of_fit().unwrap();
    assert!(near(lack.f, (0.02 / 1.0) / (0.08 / 4.0)) && lack.degrees == (1, 4), "{lack:?}");
    // F(1, 4) is t(4) squared: P(F > 1) = P(|t| > 1) = 0.37390.
    assert!((lack.probability - 0.373_90).abs() < 1e-4, "{lack:?}");
    assert!(near(lack.between_repeats, 0.02_f64.sqrt()));
    let effects = model.effects();
    assert_eq!(effects.len(), 4);
    assert!(near(effects[1].value, 0.5_f64.exp()) && near(effects[3].value, 0.95_f64.exp()), "{effects:?}");
}

#[test]
fn a_slow_block_is_not_taken_for_a_slow_level() {
    let runs = [
        run(&[0], 3, 100.0),
        run(&[1], 3, 200.0),
        run(&[0], 9, 50.0),
        run(&[1], 9, 100.0),
        run(&[1], 9, 100.0),
    ];
    let model = AdditiveModel::fit(&[2], &runs).unwrap();
    assert!(near(model.ratio(&[0], &[1]).unwrap().value, 2.0));
    assert!(near(model.predict(&[0]).unwrap().value, (100.0 * 50.0_f64).sqrt()));
}

#[test]
fn what_only_different_blocks_saw_cannot_be_told() {
    let runs = [run(&[0, 0], 0, 10.0), run(&[0, 1], 0, 12.0), run(&[1, 0], 1, 20.0), run(&[1, 1], 1, 24.0)];
    let model = AdditiveModel::fit(&[2, 2], &runs).unwrap();
    assert_eq!(model.ratio(&[0, 0], &[1, 0]), None);
    assert_eq!(model.predict(&[0, 0]), None);
    assert!(near(model.ratio(&[0, 0], &[0, 1]).unwrap().value, 1.2));
    assert_eq!(model.effects().iter().map(|e| e.factor).collect::<Vec<_>>(), [1, 1]);
}

#[test]
fn no_run_to_spare_means_no_interval() {
    let model = AdditiveModel::fit(&[2], &[run(&[0], 0, 10.0), run(&[1], 0, 15.0)]).unwrap();
    let prediction = model.predict(&[1]).unwrap();
    assert!(near(prediction.value, 15.0) && prediction.interval.is_none());
    assert_eq!(
        (model.degrees_of_freedom(), model.residual_deviation(), model.lack_of_fit()),
        (0, None, None)
    );
}

#[test]
fn nonsense_is_not_fitted() {
    assert_eq!(AdditiveModel::fit(&[2], &[]), None);
    assert_eq!(AdditiveModel::fit(&[2], &[run(&[2], 0, 1.0)]), None);
    assert_eq!(AdditiveModel::fit(&[2], &[run(&[0, 0], 0, 1.0)]), None);
    assert_eq!(AdditiveModel::fit(&[2], &[run(&[0], 0, 0.0)]), None);
    let model = AdditiveModel::fit(&[2], &[run(&[0], 0, 1.0)]).unwrap();
    assert_eq!((model.predict(&[1]), model.predict(&[2])), (None, None));
}

#[test]
fn factors_that_interact_are_told_from_chance() {
    // The two factors together do what neither does alone.
    let rate =
        |a: usize, b: usize, wobble: f64| if a == 1 && b == 1 { 300.0 + wobble } else { 100.0 + wobble };
    let runs: Vec<AdditiveRun> = (0..2)
        .flat_map(|a| (0..2).flat_map(move |b| (0..3).map(move |i| (a, b, f64::from(i)))))
        .map(|(a, b, wobble)| run(&[a, b], 0, rate(a, b, wobble)))
        .collect();
    let lack = AdditiveModel::fit(&[2, 2], &runs).unwrap().lack_of_fit().unwrap();
    assert!(lack.probability < 1e-6, "{lack:?}");
}

#[test]
fn blocks_of_different_sizes_with_repeats_as_by_hand() {
    // Block 0: level 0 twice (logarithms 1.0, 1.2) and level 1 once (2.0); block 1: level 0 (3.0) and level 1 (4.2).
    // From block means 1.4 and 3.6, the difference of the levels is weighted by 2x1/3 and 1x1/2: (0.9 x 2/3 + 1.2 x 1/2) /
    // (2/3 + 1/2) = 1.2 / (7/6) = 36/35.
    let e = f64::exp;
    let runs = [
        run(&[0], 0, e(1.0)),
        run(&[0], 0, e(1.2)),
        run(&[1], 0, e(2.0)),
        run(&[0], 1, e(3.0)),
        run(&[1], 1, e(4.2)),
    ];
    let model = AdditiveModel::fit(&[2], &runs).unwrap();
    assert!(near(model.ratio(&[0], &[1]).unwrap().value.ln(), 36.0 / 35.0));
    assert_eq!(model.degrees_of_freedom(), 2);
    // Mean of the blocks' means 2.5; the mean share of level 1 in a block is (1/3 + 1/2) / 2 = 5/12.
    let prediction = model.predict(&[1]).unwrap();
    assert!(near(prediction.value.ln(), 2.5 + 36.0 / 35.0 * 7.0 / 12.0));
    // One factor with two levels misses nothing that combinations would tell.
    assert_eq!(model.lack_of_fit(), None);
}

#[test]
fn thousands_of_blocks_are_no_harder_than_one() {
    let runs: Vec<AdditiveRun> = (0..3_000)
        .flat_map(|block| {
            let day = 1.0 + (block % 7) as f64;
            [run(&[0, block % 3], block, 100.0 * day), run(&[1, (block + 1) % 3], block, 150.0 * day)]
        })
        .collect();
    let model = AdditiveModel::fit(&[2, 3], &runs).unwrap();
    assert!(near(model.ratio(&[0, 0], &[1, 0]).unwrap().value, 1.5));
    assert_eq!(model.degrees_of_freedom(), 3_000 - 3);
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(48))]
    #[test]
    fn truly_additive_rates_are_found_again_in_any_unit(
        effects in proptest::collection::vec(proptest::collection::vec(-1.0_f64..1.0, 1..4), 1..4),
        blocks in proptest::collection::vec(-1.0_f64..1.0, 1..4),
        unit in 0.01_f64..100.0,
    ) {
        let counts: Vec<usize> = effects.iter().map(Vec::len).collect();
        let all = combinations(&counts, &|_| true).unwrap();
        let log = |levels: &[usize]| -> f64 { effects.iter().zip(levels).map(|(e, l)| e[*l]).sum() };
        let runs: Vec<AdditiveRun> = blocks
            .iter()
            .enumerate()
            .flat_map(|(b, block)| all.iter().map(move |levels| (b, block, levels)))
            .map(|(b, block, levels)| run(levels, b, unit * (log(levels) + block).exp()))
            .collect();
        let model = AdditiveModel::fit(&counts, &runs).unwrap();
        let mean_block = blocks.iter().sum::<f64>() / blocks.len() as f64;
        for levels in &all {
            let found = model.predict(levels).unwrap().value;
            proptest::prop_assert!((found / (unit * (log(levels) + mean_block).exp()) - 1.0).abs() < 1e-6);
            let ratio = model.ratio(&all[0], levels).unwrap().value;
            proptest::prop_assert!((ratio / (log(levels) - log(&all[0])).exp() - 1.0).abs() < 1e-6);
        }
        for (factor, count) in counts.iter().enumerate().filter(|(_, count)| **count > 1) {
            let of_factor: Vec<f64> =
                model.effects().iter().filter(|e| e.factor == factor).map(|e| e.value.ln()).collect();
            proptest::prop_assert_eq!(of_factor.len(), *count);
            proptest::prop_assert!(of_factor.iter().sum::<f64>().abs() < 1e-6);
        }
    }
}
