//! How often claims about lines err: studies that measure a time at five sizes in each block, judged by rows as the queries of
//! `docs/replicate.md` give them.

use nestor_statistics::{FittedLine, SeededOrder};
use rusqlite::types::Value;

use super::*;

const STUDIES: u32 = 1_000;
const BLOCKS: [usize; 4] = [2, 3, 5, 12];
/// Standard deviation of the logarithm of one time, as in `verdict_tests.rs`.
const DEVIATIONS: [f64; 3] = [0.03, 0.20, 0.50];
/// Sizes of images, in GB (paper D's).
const SIZES: [f64; 5] = [3.0, 7.0, 11.0, 16.0, 21.0];
const MIDDLE: f64 = 11.6;
const SPAN: f64 = 18.0;

/// A line, as time in seconds at a size in GB.
#[derive(Clone, Copy)]
struct Truth {
    intercept: f64,
    slope: f64,
}

/// Of 100 s in the middle, rising by this share of that from the smallest to the largest size.
fn rising(share: f64) -> Truth {
    let slope = 100.0 * share / SPAN;
    Truth { intercept: 100.0 - MIDDLE * slope, slope }
}

#[derive(Clone, Copy)]
enum Asked {
    /// The rise of a line from the smallest to the largest size, over the mean time.
    Rise(Truth),
    /// The slope of the second line over that of the first, where both rise.
    Slopes(Truth, Truth),
    /// The intercept over this one.
    Intercept(Truth, f64),
}

struct Case {
    rule: &'static str,
    expected: Expected,
    asked: Asked,
    wrong: Verdict,
}

fn cases() -> Vec<Case> {
    let case = |rule, expected, asked, wrong| Case { rule, expected, asked, wrong };
    let less = Expected::Change { low: 0.54, high: 0.54 };
    let (steep, published) = (rising(1.4), Truth { intercept: 18.8, slope: 4.2 });
    vec![
        case("rises, level", Expected::More, Asked::Rise(rising(0.0)), Verdict::Reproduced),
        case("rises, by 5 %", Expected::More, Asked::Rise(rising(0.05)), Verdict::Contradicted),
        case("level, rises by 10 %", Expected::Alike, Asked::Rise(rising(0.10)), Verdict::Reproduced),
        case("level, level", Expected::Alike, Asked::Rise(rising(0.0)), Verdict::Contradicted),
        case("slope -46 %, equal slopes", less, Asked::Slopes(steep, steep), Verdict::Reproduced),
        case("slope -46 %, the published one", less, Asked::Slopes(steep, published), Verdict::Contradicted),
        case("slope -46 %, the published one", less, Asked::Slopes(steep, published), Verdict::Smaller),
        case("slope -46 %, the published one", less, Asked::Slopes(steep, published), Verdict::Larger),
        case("slope -46 %, both level", less, Asked::Slopes(rising(0.0), rising(0.0)), Verdict::Reproduced),
        case(
            "intercept alike, 10 % more",
            Expected::Alike,
            Asked::Intercept(Truth { intercept: 66.0, slope: 3.0 }, 60.0),
            Verdict::Reproduced,
        ),
        case(
            "intercept alike, equal",
            Expected::Alike,
            Asked::Intercept(Truth { intercept: 60.0, slope: 3.0 }, 60.0),
            Verdict::Contradicted,
        ),
        case(
            "intercept alike, equal, steep line",
            Expected::Alike,
            Asked::Intercept(Truth { intercept: 20.0, slope: 5.0 }, 20.0),
            Verdict::Contradicted,
        ),
    ]
}

/// The times of a block and the line through them.
fn measured(truth: Truth, deviation: f64, random: &mut SeededOrder) -> (f64, FittedLine) {
    let time = |size: f64, random: &mut SeededOrder| {
        // Of mean 1, so that the line is the truth of the mean times.
        (truth.intercept + truth.slope * size) * (deviation * random.normal() - deviation.powi(2) / 2.0).exp()
    };
    let points = SIZES.map(|size| (size, time(size, random)));
    let mean = points.iter().map(|(_, y)| y).sum::<f64>() / points.len() as f64;
    (mean, FittedLine::through(&points).unwrap())
}

fn rows(asked: Asked, blocks: usize, deviation: f64, random: &mut SeededOrder) -> Found {
    let of_block = |random: &mut SeededOrder| -> Vec<Vec<Value>> {
        let text = |text: &str| Value::Text(text.to_owned());
        match asked {
            Asked::Rise(truth) => {
                let (mean, line) = measured(truth, deviation, random);
                vec![vec![Value::Real(1.0 + line.slope() * SPAN / mean)]]
            }
            Asked::Intercept(truth, published) => {
                let (_, line) = measured(truth, deviation, random);
                vec![vec![Value::Real(line.intercept() / published)]]
            }
            Asked::Slopes(first, second) => {
                let lines = [first, second].map(|truth| measured(truth, deviation, random).1);
                let pair = |part: &str, expected: Value, baseline: f64, candidate: f64| {
                    vec![text(part), expected, Value::Real(baseline), Value::Real(candidate)]
                };
                let rises = |part, line: &FittedLine| {
                    pair(part, text("more"), line.at(SIZES[0]), line.at(SIZES[SIZES.len() - 1]))
                };
                vec![
                    pair("slopes", Value::Null, lines[0].slope(), lines[1].slope()),
                    rises("the first rises", &lines[0]),
                    rises("the second rises", &lines[1]),
                ]
            }
        }
    };
    let columns: &[&str] = match asked {
        Asked::Slopes(..) => &["part", "expected", "baseline", "candidate"],
        Asked::Rise(_) | Asked::Intercept(..) => &["ratio"],
    };
    Found::of(columns, (0..blocks).flat_map(|_| of_block(random)).collect())
}

fn verdict(case: &Case, blocks: usize, deviation: f64, random: &mut SeededOrder) -> Verdict {
    let found = rows(case.asked, blocks, deviation, random);
    let rule =
        Rule { expected: case.expected, stated: Stated { margin: None, band: None }, confidence: 0.95 };
    match case.asked {
        Asked::Slopes(..) => of_parts(&found, rule).unwrap().verdict,
        Asked::Rise(_) | Asked::Intercept(..) => of_rows(&found, rule).verdict,
    }
}

#[test]
fn no_claim_about_a_line_errs_in_more_than_one_study_of_twenty_and_the_docs_say_how_often() {
    let mut table = Vec::new();
    let mut most: f64 = 0.0;
    for case in cases() {
        let mut cells = Vec::new();
        for blocks in BLOCKS {
            let share = DEVIATIONS.map(|deviation| {
                let mut random = SeededOrder::new(20_110_901);
                let wrong =
                    (0..STUDIES).filter(|_| verdict(&case, blocks, deviation, &mut random) == case.wrong);
                wrong.count() as f64 / f64::from(STUDIES)
            });
            most = share.iter().copied().fold(most, f64::max);
            cells.push(share.map(|share| format!("{:.1}", 100.0 * share)).join(" / "));
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
