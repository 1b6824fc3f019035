use proptest::prelude::*;

use super::*;
use crate::random::SeededOrder;

/// The data set Norris of the NIST Statistical Reference Datasets (linear regression, 36 observations, real data from a study of ozone
/// monitors), as (x, y).
const NORRIS: [(f64, f64); 36] = [
    (0.2, 0.1),
    (337.4, 338.8),
    (118.2, 118.1),
    (884.6, 888.0),
    (10.1, 9.2),
    (226.5, 228.1),
    (666.3, 668.5),
    (996.3, 998.5),
    (448.6, 449.1),
    (777.0, 778.9),
    (558.2, 559.2),
    (0.4, 0.3),
    (0.6, 0.1),
    (775.5, 778.1),
    (666.9, 668.8),
    (338.0, 339.3),
    (447.5, 448.9),
    (11.6, 10.8),
    (556.0, 557.7),
    (228.1, 228.3),
    (995.8, 998.0),
    (887.6, 888.8),
    (120.2, 119.6),
    (0.3, 0.3),
    (0.3, 0.6),
    (556.8, 557.6),
    (339.1, 339.3),
    (887.2, 888.0),
    (999.0, 998.5),
    (779.0, 778.9),
    (11.1, 10.2),
    (118.3, 117.6),
    (229.2, 228.9),
    (669.1, 668.4),
    (448.9, 449.2),
    (0.5, 0.2),
];

#[test]
fn the_certified_values_of_norris() {
    let line = FittedLine::through(&NORRIS).unwrap();
    let near = |found: f64, certified: f64| {
        assert!((found / certified - 1.0).abs() < 1e-10, "{found} instead of {certified}");
    };
    near(line.slope(), 1.002_116_818_020_45);
    near(line.intercept(), -0.262_323_073_774_029);
    near(line.error_variance().unwrap().sqrt(), 0.884_796_396_144_373);
    near(line.squared_error_of_slope().unwrap().sqrt(), 0.429_796_848_199_937e-3);
    near(line.squared_error_at(0.0).unwrap().sqrt(), 0.232_818_234_301_152);
    // Student's t of 34 degrees of freedom at 97.5 %: 2.032 (NIST/SEMATECH e-Handbook, 1.3.6.7.2).
    let half = line.slope_interval(0.95).unwrap().half_width() / 0.429_796_848_199_937e-3;
    assert!((half - 2.032).abs() < 5e-4, "{half}");
}

#[test]
fn what_no_line_goes_through_has_none_and_two_points_have_no_interval() {
    assert_eq!(FittedLine::through(&[]), None);
    assert_eq!(FittedLine::through(&[(1.0, 2.0)]), None);
    assert_eq!(FittedLine::through(&[(0.1, 2.0), (0.1, 3.0), (0.1, 5.0)]), None);
    assert_eq!(FittedLine::through(&[(1.0, 2.0), (2.0, f64::NAN)]), None);
    let two = FittedLine::through(&[(1.0, 2.0), (3.0, 6.0)]).unwrap();
    assert_eq!((two.slope(), two.intercept(), two.points()), (2.0, 0.0, 2));
    assert_eq!((two.slope_interval(0.95), two.intercept_interval(0.95)), (None, None));
    assert_eq!(slope_difference(&two, &two, 0.95), (0.0, None));
    assert_eq!(crossing(&two, &two, 0.95), Crossing { at: None, may_be: None });
    let three = FittedLine::through(&[(1.0, 2.0), (3.0, 6.0), (4.0, 9.0)]).unwrap();
    assert_eq!(three.slope_interval(1.0), None);
}

/// Points on x = −1, 0, 1 with residuals 1, −2, 1 times `scatter`, so that the fitted line is the given one.
fn three(height: f64, slope: f64, scatter: f64) -> FittedLine {
    let point = |(x, residual): (f64, f64)| (x, height + slope * x + scatter * residual);
    FittedLine::through(&[(-1.0, 1.0), (0.0, -2.0), (1.0, 1.0)].map(point)).unwrap()
}

#[test]
fn a_worked_example_of_two_lines() {
    // Residual squares 6 and 24, one degree of freedom, Σ(x − x̄)² = 2: squared errors of the slopes 3 and 12. The t of one degree of
    // freedom at 95 % is tan(0.45 π) = 6.314.
    let (difference, interval) = slope_difference(&three(0.0, 5.0, 1.0), &three(0.0, 2.0, 2.0), 0.90);
    let t = (0.45 * std::f64::consts::PI).tan();
    assert_eq!(difference, 3.0);
    assert!((interval.unwrap().half_width() - t * 15.0_f64.sqrt()).abs() < 1e-6, "{interval:?}");
}

#[test]
fn a_crossing_is_known_as_well_as_the_slopes_are_told_apart() {
    let at = |a: FittedLine, b: FittedLine| crossing(&a, &b, 0.95);
    // With errors of 0.01·(6/1)½ the slopes 5 and 2 are told apart: t = 12.706 of one degree of freedom.
    let found = at(three(0.0, 5.0, 0.01), three(6.0, 2.0, 0.01));
    assert!((found.at.unwrap() - 2.0).abs() < 1e-12);
    let Some(CrossingSet::Within(interval)) = found.may_be else { panic!("{found:?}") };
    assert!(interval.contains(2.0) && interval.low > 1.6 && interval.high < 2.6, "{interval:?}");
    // Of slopes that are not told apart at heights that are, the lines may cross far off on either side, but not at the middle.
    let found = at(three(0.0, 0.01, 0.01), three(6.0, 0.0, 0.01));
    let Some(CrossingSet::Beyond(gap)) = found.may_be else { panic!("{found:?}") };
    assert!(gap.contains(0.0) && found.may_be.unwrap().contains(found.at.unwrap()), "{gap:?}");
    let found = at(three(0.0, 0.01, 1.0), three(0.0, 0.0, 1.0));
    assert_eq!(found.may_be, Some(CrossingSet::Anywhere));
    // Without any error.
    let exact = at(three(0.0, 5.0, 0.0), three(6.0, 2.0, 0.0));
    assert_eq!(exact.may_be, Some(CrossingSet::Within(Interval { low: 2.0, high: 2.0 })));
    assert_eq!(at(three(0.0, 5.0, 0.0), three(6.0, 5.0, 0.0)).may_be, Some(CrossingSet::Nowhere));
    assert_eq!(at(three(6.0, 5.0, 0.0), three(6.0, 5.0, 0.0)).may_be, Some(CrossingSet::Anywhere));
}

#[test]
fn what_comes_before_a_line_moves_its_crossing_and_widens_it() {
    // 5·x and 6 + 2·x cross at 2, and 3 higher at 1.
    let (steep, flat) = (three(0.0, 5.0, 0.01), three(6.0, 2.0, 0.01));
    let found = crossing_apart(&steep, &flat, Estimated::exactly(3.0), 0.95);
    assert!((found.at.unwrap() - 1.0).abs() < 1e-12, "{found:?}");
    assert_eq!(found.may_be, crossing(&three(3.0, 5.0, 0.01), &flat, 0.95).may_be);
    let width = |found: Crossing| match found.may_be {
        Some(CrossingSet::Within(interval)) => interval.half_width(),
        other => panic!("{other:?}"),
    };
    let uncertain = three(3.0, 0.0, 0.02).mean_at(0.0);
    assert!(width(crossing_apart(&steep, &flat, uncertain, 0.95)) > 1.2 * width(found));
    let two = FittedLine::through(&[(0.0, 3.0), (1.0, 3.0)]).unwrap().mean_at(0.0);
    assert_eq!(crossing_apart(&steep, &flat, two, 0.95).may_be, None);
}

fn points(most: usize) -> impl Strategy<Value = Vec<(f64, f64)>> {
    let y = prop::collection::vec(-100.0_f64..100.0, 3..most);
    y.prop_map(|y| y.into_iter().enumerate().map(|(i, y)| (i as f64, y)).collect())
}

fn close(a: f64, b: f64, scale: f64) -> bool {
    (a - b).abs() <= 1e-9 * scale
}

proptest! {
    #[test]
    fn points_of_a_line_give_that_line(
        slope in -1e3_f64..1e3, intercept in -1e6_f64..1e6, x in prop::collection::vec(-1e3_f64..1e3, 2..20),
    ) {
        prop_assume!(x.iter().any(|other| (other - x[0]).abs() > 1.0));
        let points: Vec<(f64, f64)> = x.iter().map(|x| (*x, intercept + slope * x)).collect();
        let line = FittedLine::through(&points).unwrap();
        prop_assert!(close(line.slope(), slope, 1e6) && close(line.intercept(), intercept, 1e8), "{line:?}");
    }

    /// Of y in other units and from another zero, the line, its intervals and nothing else are in those.
    #[test]
    fn units_and_zeros_go_through(
        points in points(12), factor in 0.01_f64..100.0, rise in -1e3_f64..1e3, stretch in 0.01_f64..100.0, shift in -1e3_f64..1e3,
    ) {
        let moved: Vec<(f64, f64)> =
            points.iter().map(|(x, y)| (shift + stretch * x, rise + factor * y)).collect();
        let (line, other) = (FittedLine::through(&points).unwrap(), FittedLine::through(&moved).unwrap());
        let scale = 1e3 * factor * (1.0 + 1.0 / stretch);
        prop_assert!(close(other.slope(), line.slope() * factor / stretch, scale));
        prop_assert!(close(other.at(shift), rise + factor * line.intercept(), 1e3 * scale));
        let (a, b) = (line.slope_interval(0.95).unwrap(), other.slope_interval(0.95).unwrap());
        prop_assert!(close(b.half_width(), a.half_width() * factor / stretch, scale));
        let (a, b) = (line.intercept_interval(0.95).unwrap(), other.interval_at(shift, 0.95).unwrap());
        prop_assert!(close(b.half_width(), a.half_width() * factor, 1e3 * scale));
    }

    /// Which line comes first only turns the sign.
    #[test]
    fn two_lines_are_compared_either_way(a in points(12), b in points(12)) {
        let (a, b) = (FittedLine::through(&a).unwrap(), FittedLine::through(&b).unwrap());
        let ((forth, there), (back, here)) = (slope_difference(&a, &b, 0.95), slope_difference(&b, &a, 0.95));
        prop_assert_eq!(forth, -back);
        prop_assert_eq!(there.unwrap().low, -here.unwrap().high);
        let set = crossing(&a, &b, 0.95);
        prop_assert_eq!(set, crossing(&b, &a, 0.95));
        // Only where the slopes are told apart are the lines known to cross somewhere.
        let is_bounded = matches!(set.may_be, Some(CrossingSet::Within(_)));
        prop_assert_eq!(is_bounded, !there.unwrap().contains(0.0), "{:?}", there);
    }

    /// Fieller's set is that of the places where the difference is within its own interval of zero, and it has the fitted crossing.
    #[test]
    fn a_crossing_may_be_where_the_difference_may_be_none(a in points(12), b in points(12), x in -50.0_f64..50.0) {
        let (a, b) = (FittedLine::through(&a).unwrap(), FittedLine::through(&b).unwrap());
        let found = crossing(&a, &b, 0.95);
        let set = found.may_be.unwrap();
        let error = (a.squared_error_at(x).unwrap() + b.squared_error_at(x).unwrap()).sqrt();
        let t = student::two_sided_factor(0.95, fewer_degrees(&a, &b)).unwrap();
        let room = t * error - (a.at(x) - b.at(x)).abs();
        prop_assert!(room.abs() < 1e-6 || set.contains(x) == (room > 0.0), "{x}: {set:?}, {room}");
        prop_assert!(found.at.is_none_or(|at| at.abs() > 1e6 || set.contains(at)), "{found:?}");
    }
}

/// How often the intervals of simulated lines hold the truth, in per cent: slope, intercept, difference of slopes, crossing.
fn coverage(points: usize, deviations: [f64; 2]) -> [f64; 4] {
    const STUDIES: u32 = 4_000;
    let mut random = SeededOrder::new(20_110_901);
    let mut held = [0_u32; 4];
    let mut line = |intercept: f64, slope: f64, deviation: f64| {
        let point = |i: usize| (i as f64, intercept + slope * i as f64 + deviation * random.normal());
        FittedLine::through(&(0..points).map(point).collect::<Vec<_>>()).unwrap()
    };
    // The lines cross at 5.
    let (slopes, intercepts) = ([2.0, 1.0], [20.0, 25.0]);
    for _ in 0..STUDIES {
        let a = line(intercepts[0], slopes[0], deviations[0]);
        let b = line(intercepts[1], slopes[1], deviations[1]);
        let difference = slope_difference(&a, &b, 0.95).1.unwrap();
        let holds = [
            a.slope_interval(0.95).unwrap().contains(slopes[0]),
            a.intercept_interval(0.95).unwrap().contains(intercepts[0]),
            difference.contains(slopes[0] - slopes[1]),
            crossing(&a, &b, 0.95).may_be.unwrap().contains(5.0),
        ];
        held.iter_mut().zip(holds).for_each(|(count, holds)| *count += u32::from(holds));
    }
    held.map(|count| 100.0 * f64::from(count) / f64::from(STUDIES))
}

#[test]
fn intervals_of_lines_hold_the_truth_as_often_as_they_say_and_the_docs_have_the_shares() {
    let cases = [("alike", [1.0, 1.0]), ("one ten times the other", [0.3, 3.0])];
    let mut rows = Vec::new();
    for (name, deviations) in cases {
        for points in [3, 5, 15] {
            let [slope, intercept, difference, crossing] = coverage(points, deviations);
            // Three standard errors of a share of 4000 around 95 %.
            for share in [slope, intercept] {
                assert!((share - 95.0).abs() <= 1.04, "{name}, {points} points: {share}");
            }
            // Their degrees of freedom are the fewest possible.
            for share in [difference, crossing] {
                assert!(share >= 95.0 - 1.04, "{name}, {points} points: {share}");
            }
            rows.push(format!(
                "| {name} | {points} | {slope:.1} | {intercept:.1} | {difference:.1} | {crossing:.1} |"
            ));
        }
    }
    let table = rows.join("\n");
    let docs = include_str!("../../../../docs/statistics.md");
    assert!(docs.contains(&table), "docs/statistics.md lacks:\n{table}");
}
