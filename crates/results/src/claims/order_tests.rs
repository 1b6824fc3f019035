//! How often claims about orders err: studies that rank file systems or points of a surface by rank correlation in each block, judged by
//! rows as P-33, A-13 and L-44 give them. Rank correlations have few values, of which two blocks may have the same.

use nestor_statistics::{SeededOrder, rank_correlation};
use rusqlite::types::Value;

use super::*;

const STUDIES: u32 = 1_000;
/// The smallest numbers of blocks of a size of the studies, the usual one, and the most of `[stop]`.
const BLOCKS: [usize; 4] = [2, 3, 5, 12];
/// Standard deviation of the logarithm of one rate, as in `verdict_tests.rs`.
const DEVIATIONS: [f64; 3] = [0.03, 0.20, 0.50];
/// From one file system to the next better one, as logarithm: the published ones are a factor of five apart.
const STEP: f64 = 0.4;

/// What the true order on the other side is.
#[derive(Clone, Copy)]
enum Order {
    /// None: all are equally good on both sides, so that each run has an order of its own.
    None,
    /// The same one.
    Same,
    /// The opposite one.
    Opposite,
}

#[derive(Clone, Copy)]
enum Asked {
    /// P-33: five in another order than in the other runs of the same side.
    Another(Order),
    /// so many points come in the order of their own disks, and other disks have none of it.
    Shape(usize, Order),
    /// so many points, and the other disks have the order of the own ones.
    Twins(usize),
    /// L-44: five in the same order.
    Alike(Order),
}

struct Case {
    rule: &'static str,
    expected: Expected,
    margin: f64,
    asked: Asked,
    wrong: Verdict,
}

fn cases() -> Vec<Case> {
    let another = |rule, order, wrong| Case {
        rule,
        expected: Expected::Less,
        margin: 0.5,
        asked: Asked::Another(order),
        wrong,
    };
    let shape = |rule, asked, wrong| Case { rule, expected: Expected::NotLess, margin: 0.05, asked, wrong };
    let alike = |rule, order, wrong| Case {
        rule,
        expected: Expected::More,
        margin: 0.5,
        asked: Asked::Alike(order),
        wrong,
    };
    vec![
        another("another order, no order at all", Order::None, Verdict::Reproduced),
        another("another order, the same", Order::Same, Verdict::Reproduced),
        another("another order, the opposite", Order::Opposite, Verdict::Contradicted),
        shape("shape of 6 points, none", Asked::Shape(6, Order::None), Verdict::Reproduced),
        shape("shape of 8 points, none", Asked::Shape(8, Order::None), Verdict::Reproduced),
        shape("shape of 25 points, none", Asked::Shape(25, Order::None), Verdict::Reproduced),
        shape("shape of 6 points, the same", Asked::Shape(6, Order::Same), Verdict::Contradicted),
        shape("shape of 25 points, the same", Asked::Shape(25, Order::Same), Verdict::Contradicted),
        shape("shape of 6 points, that of all disks", Asked::Twins(6), Verdict::Contradicted),
        shape("shape of 25 points, that of all disks", Asked::Twins(25), Verdict::Contradicted),
        alike("the same order, no order at all", Order::None, Verdict::Reproduced),
        alike("the same order, the same", Order::Same, Verdict::Contradicted),
    ]
}

/// A rate of each of so many places, in their order or in the opposite one.
fn rates(places: usize, order: Order, deviation: f64, random: &mut SeededOrder) -> Vec<f64> {
    let direction = match order {
        Order::None => 0.0,
        Order::Same => 1.0,
        Order::Opposite => -1.0,
    };
    (0..places).map(|place| direction * STEP * place as f64 + deviation * random.normal()).collect()
}

fn correlation(a: &[f64], b: &[f64]) -> f64 {
    rank_correlation(&a.iter().copied().zip(b.iter().copied()).collect::<Vec<_>>()).unwrap()
}

/// Both sides of each block: one's own order, and the other one.
fn sides(
    places: usize,
    order: Order,
    blocks: usize,
    deviation: f64,
    random: &mut SeededOrder,
) -> [Vec<Vec<f64>>; 2] {
    let own = if matches!(order, Order::None) { Order::None } else { Order::Same };
    [own, order].map(|order| (0..blocks).map(|_| rates(places, order, deviation, random)).collect())
}

fn rows(asked: Asked, blocks: usize, deviation: f64, random: &mut SeededOrder) -> Found {
    let ratio = |value: f64| vec![Value::Real(value)];
    match asked {
        Asked::Another(order) => {
            let [one, other] = sides(5, order, blocks, deviation, random);
            let next = |block: usize| (block + 1) % blocks;
            let row = |b: usize| {
                ratio(1.0 + correlation(&one[b], &other[next(b)]) - correlation(&one[b], &one[next(b)]))
            };
            Found::of(&["ratio"], (0..blocks).map(row).collect())
        }
        Asked::Shape(places, _) | Asked::Twins(places) => {
            let (order, of_others) = match asked {
                Asked::Shape(_, order) => (order, Order::None),
                _ => (Order::Same, Order::Same),
            };
            let [own, machine] = sides(places, order, blocks, deviation, random);
            let row = |b: usize| {
                let other = rates(places, of_others, deviation, random);
                let of_other = correlation(&other, &machine[b]).max(0.5);
                ratio(1.0 + correlation(&own[b], &machine[b]) - of_other)
            };
            Found::of(&["ratio"], (0..blocks).map(row).collect())
        }
        Asked::Alike(order) => {
            let [one, other] = sides(5, order, blocks, deviation, random);
            let row = |b: usize| {
                let candidate = (1.0 + correlation(&one[b], &other[b])).max(0.001);
                vec![Value::Real(1.0), Value::Real(candidate)]
            };
            Found::of(&["baseline", "candidate"], (0..blocks).map(row).collect())
        }
    }
}

fn share(case: &Case, blocks: usize, deviation: f64) -> f64 {
    let mut random = SeededOrder::new(20_170_601);
    let stated = Stated { margin: Some(case.margin), band: None };
    let rule = Rule { expected: case.expected, stated, confidence: 0.95 };
    let wrong = (0..STUDIES)
        .filter(|_| of_rows(&rows(case.asked, blocks, deviation, &mut random), rule).verdict == case.wrong);
    wrong.count() as f64 / f64::from(STUDIES)
}

#[test]
fn no_claim_about_an_order_errs_in_more_than_one_study_of_twenty_and_the_docs_say_how_often() {
    let mut table = Vec::new();
    let mut most: f64 = 0.0;
    for case in cases() {
        let mut cells = Vec::new();
        for blocks in BLOCKS {
            let shares = DEVIATIONS.map(|deviation| share(&case, blocks, deviation));
            most = shares.iter().copied().fold(most, f64::max);
            cells.push(shares.map(|share| format!("{:.1}", 100.0 * share)).join(" / "));
        }
        table.push(format!("| {} | {} | {} |", case.rule, case.wrong.words(), cells.join(" | ")));
    }
    let table = table.join("\n");
    // 5 %, and three standard errors of a share of a thousand.
    assert!(most <= 0.05 + 0.0207, "{table}");
    assert!(
        include_str!("../../../../docs/statistics.md").contains(&table),
        "docs/statistics.md lacks:\n{table}"
    );
}
