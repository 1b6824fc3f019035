use proptest::prelude::*;

use super::*;

fn found(value: f64, low: f64, high: f64) -> Ratio {
    Ratio { value, interval: Some(Interval { low, high }), pairs: 5 }
}

fn change(percent: f64) -> Expected {
    Expected::Change { low: 1.0 + percent / 100.0, high: 1.0 + percent / 100.0 }
}

fn judged(found: Ratio, expected: Expected) -> &'static str {
    of_ratio(&found, expected, Stated::default(), None).0.words()
}

/// Rows of the published scoreboards that a sceptic took apart.
#[test]
fn rows_that_noise_once_passed_get_another_verdict() {
    // L-15: -67 % published, [-6.7, +26.0] found.
    assert_eq!(judged(found(1.08, 0.933, 1.26), change(-67.0)), "contradicted");
    // L-38: -0.4 % was "reproduced" as less.
    assert_eq!(judged(found(0.996, 0.994, 0.998), Expected::Less), "smaller, same sign");
    // L-42: 0.0 % [-0.1, 0.0] was "not contradicted" as more.
    assert_eq!(judged(found(1.0, 0.999, 1.0), Expected::More), "contradicted");
}

#[test]
fn every_verdict_of_a_change_has_its_case() {
    assert_eq!(judged(found(0.6, 0.5, 0.7), change(-40.0)), "reproduced");
    assert_eq!(judged(found(0.81, 0.75, 0.88), change(-40.0)), "undecided", "20 % is possible");
    assert_eq!(judged(found(0.88, 0.85, 0.91), change(-40.0)), "smaller, same sign");
    assert_eq!(judged(found(0.1, 0.05, 0.18), change(-40.0)), "larger, same sign");
    assert_eq!(judged(found(0.05, 0.03, 0.08), change(-67.0)), "larger, same sign", "twice -67 % is -89 %");
    assert_eq!(judged(found(0.2, 0.15, 0.25), change(-67.0)), "reproduced");
    assert_eq!(judged(found(0.7, 0.4, 1.2), change(-40.0)), "undecided");
    assert_eq!(judged(found(1.0, 0.9, 1.1), change(-40.0)), "contradicted", "no effect, and not half of it");
    assert_eq!(judged(found(1.3, 1.1, 1.5), change(-40.0)), "contradicted");
    assert_eq!(judged(found(0.98, 0.97, 0.99), change(-40.0)), "contradicted", "no effect that matters");
    assert_eq!(judged(found(1.34, 1.2, 1.5), change(34.0)), "reproduced");
    let one = Ratio { value: 0.6, interval: None, pairs: 1 };
    assert_eq!(
        of_ratio(&one, change(-40.0), Stated::default(), None),
        (Verdict::NotTestable, ONE_PAIR.to_owned())
    );
}

#[test]
fn a_small_published_effect_is_reproduced_by_a_narrow_interval_only() {
    assert_eq!(judged(found(0.96, 0.95, 0.97), change(-4.0)), "reproduced");
    assert_eq!(judged(found(0.96, 0.90, 1.02), change(-4.0)), "undecided");
    assert_eq!(judged(found(1.0, 0.99, 1.01), change(-4.0)), "contradicted");
    assert_eq!(judged(found(0.8, 0.75, 0.85), change(-4.0)), "larger, same sign");
    assert_eq!(judged(found(1.0, 0.98, 1.02), change(0.0)), "reproduced", "equality is published");
    assert_eq!(judged(found(0.5, 0.4, 0.6), change(0.0)), "contradicted");
    assert_eq!(judged(found(0.95, 0.8, 1.2), change(0.0)), "undecided");
}

#[test]
fn a_stated_band_and_margin_take_the_place_of_the_usual_ones() {
    let stated = Stated { band: Some((0.7, 0.8)), margin: None };
    let with = |stated, found: Ratio, expected| of_ratio(&found, expected, stated, None).0.words();
    assert_eq!(with(stated, found(0.75, 0.72, 0.78), change(-40.0)), "reproduced");
    assert_eq!(with(stated, found(0.6, 0.5, 0.65), change(-40.0)), "larger, same sign");
    let stated = Stated { band: None, margin: Some(0.01) };
    assert_eq!(with(stated, found(0.97, 0.96, 0.98), Expected::Less), "reproduced");
    assert_eq!(with(stated, found(1.0, 0.97, 1.03), Expected::Alike), "undecided");
}

#[test]
fn directions_and_likeness() {
    assert_eq!(judged(found(0.9, 0.85, 0.94), Expected::Less), "reproduced");
    assert_eq!(judged(found(0.9, 0.85, 0.97), Expected::Less), "undecided");
    assert_eq!(judged(found(0.9, 0.85, 0.94), Expected::More), "contradicted");
    assert_eq!(judged(found(0.95, 0.85, 1.07), Expected::More), "undecided");
    assert_eq!(judged(found(1.0, 0.95, 1.05), Expected::Alike), "reproduced");
    assert_eq!(judged(found(1.0, 0.8, 1.25), Expected::Alike), "undecided");
    assert_eq!(judged(found(2.0, 1.8, 2.25), Expected::Alike), "contradicted");
    assert_eq!(judged(found(2.0, 1.8, 2.25), Expected::NotLess), "reproduced");
    assert_eq!(judged(found(0.95, 0.92, 0.98), Expected::NotLess), "reproduced");
    assert_eq!(judged(found(0.95, 0.8, 1.1), Expected::NotLess), "undecided");
    assert_eq!(judged(found(0.8, 0.75, 0.9), Expected::NotLess), "contradicted");
}

proptest! {
    /// The sharper the interval, the less is left open: a verdict never flips between its two decided sides.
    #[test]
    fn a_narrower_interval_never_turns_reproduced_into_contradicted(
        value in 0.05_f64..5.0, wide in 0.0_f64..1.0, share in 0.0_f64..1.0, percent in -80.0_f64..200.0,
    ) {
        let at = |width: f64| found(value, value * (-width).exp(), value * width.exp());
        let verdict = |width| of_ratio(&at(width), change(percent), Stated::default(), None).0;
        if verdict(wide) == Verdict::Reproduced {
            prop_assert_eq!(verdict(wide * share), Verdict::Reproduced);
        }
    }

    #[test]
    fn what_says_less_beyond_doubt_contradicts_more(value in 0.05_f64..5.0, width in 0.0_f64..1.0) {
        let at = found(value, value * (-width).exp(), value * width.exp());
        if judged(at, Expected::Less) == "reproduced" {
            prop_assert_eq!(judged(at, Expected::More), "contradicted");
        }
    }
}

mod rules_under_noise {
    //! How often each rule errs: studies of `n` pairs with normal log-ratios, judged as a study's claims are.

    use nestor_statistics::{
        GroupSample, SeededOrder, equivalence, paired_ratio_at, variation_between, variation_difference,
    };

    use super::*;

    /// A rule, the effect under which a verdict would be wrong, and that verdict.
    struct Case {
        rule: &'static str,
        expected: Expected,
        truth: Truth,
        wrong: Verdict,
    }

    /// What is compared, and what is true of it, in per cent.
    #[derive(Clone, Copy)]
    enum Truth {
        /// Pairs with this true change.
        Change(f64),
        /// The variation over five hosts.
        Variation(f64),
        /// The variation over five hosts under one workload, and under another.
        Variations(f64, f64),
        /// So many parts that each have this true change.
        Parts(usize, f64),
        /// The best of so many combinations that all have this true change, chosen on one half of the blocks and judged on the other.
        BestOf(usize, f64),
        /// The worst beside the best of so many that are alike but for one, which has this true change: both are chosen on one half of the
        /// blocks and judged on the other.
        WorstBesideBest(usize, f64),
        /// Five guests whose true changes are unlike, by up to a factor of 1.6 from this one, which is their mean: each is one pair.
        UnlikeGuests(f64),
        /// The variation over five hosts, the runs of one of which deviate three times as much.
        VariationUnlike(f64),
    }

    const STUDIES: u32 = 1_000;

    /// The smallest numbers of blocks of a size of the studies, a usual one, and the most of `[stop]`.
    const BLOCKS: [usize; 4] = [2, 3, 5, 12];

    /// Standard deviation of a pair's log-ratio: as one worker has it in virtual time, as in real time and with many workers, as servers
    /// with a hundred threads on a small memory have it.
    const DEVIATIONS: [f64; 3] = [0.03, 0.20, 0.50];

    fn cases() -> Vec<Case> {
        let case = |rule, expected, truth, wrong| Case { rule, expected, truth: Truth::Change(truth), wrong };
        let of = |rule, expected, truth, wrong| Case { rule, expected, truth, wrong };
        vec![
            case("change of -40 %, no effect", change(-40.0), 0.0, Verdict::Reproduced),
            case("change of -40 %, the published effect", change(-40.0), -40.0, Verdict::Contradicted),
            case("change of +34 %, no effect", change(34.0), 0.0, Verdict::Reproduced),
            case("change of +34 %, the published effect", change(34.0), 34.0, Verdict::Contradicted),
            case("change of -4 %, no effect", change(-4.0), 0.0, Verdict::Reproduced),
            case("change of -4 %, the published effect", change(-4.0), -4.0, Verdict::Contradicted),
            case("less, no effect", Expected::Less, 0.0, Verdict::Reproduced),
            case("less, 5 % less", Expected::Less, -5.0, Verdict::Contradicted),
            of(
                "less in 12 parts, 5 % less in each",
                Expected::Less,
                Truth::Parts(12, -5.0),
                Verdict::Contradicted,
            ),
            of(
                "not less in 15 parts, equal",
                Expected::NotLess,
                Truth::Parts(15, 0.0),
                Verdict::Contradicted,
            ),
            case("more, no effect", Expected::More, 0.0, Verdict::Reproduced),
            case("more, 5 % more", Expected::More, 5.0, Verdict::Contradicted),
            case("alike, 10 % more", Expected::Alike, 10.0, Verdict::Reproduced),
            case("alike, equal", Expected::Alike, 0.0, Verdict::Contradicted),
            case("not less, 1/1.1 of it", Expected::NotLess, -100.0 / 11.0, Verdict::Reproduced),
            case("not less, equal", Expected::NotLess, 0.0, Verdict::Contradicted),
            of("variation of 45 %, none", change(45.0), Truth::Variation(0.0), Verdict::Reproduced),
            of("variation of 45 %, 45 %", change(45.0), Truth::Variation(45.0), Verdict::Contradicted),
            of("varies less, none does", Expected::Less, Truth::Variations(0.0, 0.0), Verdict::Reproduced),
            of("varies less, 20 % both", Expected::Less, Truth::Variations(20.0, 20.0), Verdict::Reproduced),
            of(
                "varies less, 15 % instead of 20 %",
                Expected::Less,
                Truth::Variations(20.0, 15.0),
                Verdict::Contradicted,
            ),
            of("best of 36 has -42 %, no effect", change(-42.0), Truth::BestOf(36, 0.0), Verdict::Reproduced),
            of("best of 36 has less, no effect", Expected::Less, Truth::BestOf(36, 0.0), Verdict::Reproduced),
            of(
                "best of 36 has -42 %, the published effect",
                change(-42.0),
                Truth::BestOf(36, -42.0),
                Verdict::Contradicted,
            ),
            of(
                "best of 36 has less, 5 % less",
                Expected::Less,
                Truth::BestOf(36, -5.0),
                Verdict::Contradicted,
            ),
            of(
                "worst of 3 has -60 % of the best, no effect",
                change(-60.0),
                Truth::WorstBesideBest(3, 0.0),
                Verdict::Reproduced,
            ),
            of(
                "worst of 3 has -60 % of the best, the published effect",
                change(-60.0),
                Truth::WorstBesideBest(3, -60.0),
                Verdict::Contradicted,
            ),
            of(
                "change of -40 % over unlike guests, none in their mean",
                change(-40.0),
                Truth::UnlikeGuests(0.0),
                Verdict::Reproduced,
            ),
            of(
                "change of -40 % over unlike guests, the published effect",
                change(-40.0),
                Truth::UnlikeGuests(-40.0),
                Verdict::Contradicted,
            ),
            of(
                "variation of 45 %, none, one host deviates more",
                change(45.0),
                Truth::VariationUnlike(0.0),
                Verdict::Reproduced,
            ),
            of(
                "variation of 45 %, 45 %, one host deviates more",
                change(45.0),
                Truth::VariationUnlike(45.0),
                Verdict::Contradicted,
            ),
        ]
    }

    /// Hosts whose logarithms are spread evenly, with this true coefficient of variation.
    fn over_hosts(
        random: &mut SeededOrder,
        per_cent: f64,
        blocks: usize,
        deviations: [f64; 5],
    ) -> Vec<GroupSample> {
        // The places -2 to 2 have the variance 2.5.
        let spread = ((per_cent / 100.0_f64).powi(2).ln_1p() / 2.5).sqrt();
        let mut samples = Vec::new();
        for block in 0..blocks as u32 {
            for (group, deviation) in deviations.iter().enumerate() {
                let value = (spread * (group as f64 - 2.0) + deviation * random.normal()).exp();
                samples.push(GroupSample { group, block, value });
            }
        }
        samples
    }

    /// Logarithms of so many combinations in each block, around the truth of each.
    fn logarithms(random: &mut SeededOrder, truths: &[f64], blocks: usize, deviation: f64) -> Vec<Vec<f64>> {
        let mut of = |truth: &f64| (0..blocks).map(|_| truth + deviation * random.normal()).collect();
        truths.iter().map(&mut of).collect()
    }

    /// Their order on one half of the blocks, the slowest first.
    fn order_on(half: usize, logarithms: &[Vec<f64>]) -> Vec<usize> {
        let sum = |one: &usize| logarithms[*one].iter().skip(half).step_by(2).sum::<f64>();
        let mut order: Vec<usize> = (0..logarithms.len()).collect();
        order.sort_by(|a, b| sum(a).total_cmp(&sum(b)));
        order
    }

    /// Pairs of what was best and what was worst on the other half of the blocks, where one of these is slower.
    fn worst_beside_best(
        random: &mut SeededOrder,
        combinations: usize,
        percent: f64,
        blocks: usize,
        deviation: f64,
    ) -> Vec<(f64, f64)> {
        let mut truths = vec![0.0; combinations];
        truths[0] = (percent / 100.0).ln_1p();
        let logarithms = logarithms(random, &truths, blocks, deviation);
        let chosen = [0, 1].map(|half| order_on(half, &logarithms));
        let pair = |block: usize| {
            let (worst, best) = (chosen[1 - block % 2][0], chosen[1 - block % 2][combinations - 1]);
            (logarithms[best][block].exp(), logarithms[worst][block].exp())
        };
        (0..blocks).map(pair).collect()
    }

    /// Pairs of guests, each of the means of its blocks.
    fn unlike_guests(
        random: &mut SeededOrder,
        percent: f64,
        blocks: usize,
        deviation: f64,
    ) -> Vec<(f64, f64)> {
        let mut mean = |guest: usize| {
            let truth = (percent / 100.0).ln_1p() + 0.23 * (guest as f64 - 2.0);
            truth + (0..blocks).map(|_| deviation * random.normal()).sum::<f64>() / blocks as f64
        };
        (0..5).map(|guest| (100.0, 100.0 * mean(guest).exp())).collect()
    }

    /// Pairs of the combination that was best on the other half of the blocks.
    fn best_of(
        random: &mut SeededOrder,
        combinations: usize,
        percent: f64,
        blocks: usize,
        deviation: f64,
    ) -> Vec<(f64, f64)> {
        let truths = vec![(percent / 100.0).ln_1p(); combinations];
        let logarithms = logarithms(random, &truths, blocks, deviation);
        // The lowest: what is judged is a loss.
        let best = [0, 1].map(|half| order_on(half, &logarithms)[0]);
        (0..blocks).map(|block| (100.0, 100.0 * logarithms[best[1 - block % 2]][block].exp())).collect()
    }

    fn verdict(case: &Case, blocks: usize, deviation: f64, random: &mut SeededOrder) -> Verdict {
        let mut changed = |percent: f64| -> Vec<(f64, f64)> {
            let pair = |_| (100.0, 100.0 * (1.0 + percent / 100.0) * (deviation * random.normal()).exp());
            (0..blocks).map(pair).collect()
        };
        let pairs = match case.truth {
            Truth::Change(percent) => changed(percent),
            Truth::Parts(parts, percent) => {
                let confidence = confidence_of_contradiction(0.95, parts);
                let contradicts = (0..parts).filter(|_| {
                    let pairs = changed(percent);
                    let equivalent = equivalence(&pairs, 1.0, MARGIN, 0.95).map(|e| e.equivalent);
                    let at = |confidence| {
                        let ratio = paired_ratio_at(&pairs, confidence).unwrap();
                        of_ratio(&ratio, case.expected, Stated::default(), equivalent).0
                    };
                    at(0.95) == Verdict::Contradicted && at(confidence) == Verdict::Contradicted
                });
                // The others do not matter here.
                return if contradicts.count() > 0 { Verdict::Contradicted } else { Verdict::Undecided };
            }
            Truth::BestOf(combinations, percent) => best_of(random, combinations, percent, blocks, deviation),
            Truth::WorstBesideBest(combinations, percent) => {
                worst_beside_best(random, combinations, percent, blocks, deviation)
            }
            Truth::UnlikeGuests(percent) => unlike_guests(random, percent, blocks, deviation),
            Truth::Variation(percent) | Truth::VariationUnlike(percent) => {
                let last = if matches!(case.truth, Truth::Variation(_)) { 1.0 } else { 3.0 };
                let deviations = [1.0, 1.0, 1.0, 1.0, last].map(|times| times * deviation);
                let found =
                    variation_between(&over_hosts(random, percent, blocks, deviations), 0.95).unwrap();
                // As `of_rows` has it: of two blocks nothing is said.
                let Some(interval) = found.interval else { return Verdict::NotTestable };
                let ratio = self::found(1.0 + found.value, 1.0 + interval.low, 1.0 + interval.high);
                return of_ratio(&ratio, case.expected, Stated::default(), None).0;
            }
            Truth::Variations(a, b) => {
                let mut of = |percent| {
                    variation_between(&over_hosts(random, percent, blocks, [deviation; 5]), 0.95).unwrap()
                };
                let (a, b) = (of(a), of(b));
                let (difference, interval) = variation_difference(&a, &b);
                let Some(interval) = interval else { return Verdict::NotTestable };
                let ratio = self::found(1.0 + difference, 1.0 + interval.low, 1.0 + interval.high);
                return of_ratio(&ratio, case.expected, Stated::default(), None).0;
            }
        };
        let equivalent = equivalence(&pairs, 1.0, MARGIN, 0.95).map(|e| e.equivalent);
        let is_chosen = matches!(case.truth, Truth::BestOf(..) | Truth::WorstBesideBest(..));
        let confidence = if is_chosen { 0.975 } else { 0.95 };
        let ratio = paired_ratio_at(&pairs, confidence).unwrap();
        of_ratio(&ratio, case.expected, Stated::default(), equivalent).0
    }

    /// The share of studies with the wrong verdict.
    fn share(case: &Case, blocks: usize, deviation: f64) -> f64 {
        let mut random = SeededOrder::new(20_120_214);
        let wrong = (0..STUDIES).filter(|_| verdict(case, blocks, deviation, &mut random) == case.wrong);
        wrong.count() as f64 / f64::from(STUDIES)
    }

    /// Shares of wrong verdicts: of each case, for each number of blocks, for each deviation.
    fn shares() -> Vec<(Case, Vec<[f64; DEVIATIONS.len()]>)> {
        let of = |case: &Case| {
            BLOCKS.map(|blocks| DEVIATIONS.map(|deviation| share(case, blocks, deviation))).to_vec()
        };
        cases().into_iter().map(|case| (of(&case), case)).map(|(shares, case)| (case, shares)).collect()
    }

    /// The table of `docs/statistics.md`.
    fn table(shares: &[(Case, Vec<[f64; DEVIATIONS.len()]>)]) -> String {
        let mut rows = vec![
            "| rule and truth | wrong verdict | 2 blocks | 3 blocks | 5 blocks | 12 blocks |".to_owned(),
            "|---|---|---|---|---|---|".to_owned(),
        ];
        for (case, shares) in shares {
            let cells: Vec<String> = shares
                .iter()
                .map(|each| each.map(|share| format!("{:.1}", 100.0 * share)).join(" / "))
                .collect();
            rows.push(format!("| {} | {} | {} |", case.rule, case.wrong.words(), cells.join(" | ")));
        }
        rows.join("\n")
    }

    /// The mean of the logarithms of [`with_two_modes`].
    fn mean_log_of_modes() -> f64 {
        0.2 * 0.7_f64.ln()
    }

    /// Pairs of which one in five is slower by 30 %, as where a lock or read-ahead now and then costs time: no normal distribution.
    fn with_two_modes(random: &mut SeededOrder, blocks: usize) -> Vec<(f64, f64)> {
        let mut pair = || {
            let mode = if random.below(5) == 0 { 0.7 } else { 1.0 };
            (100.0, 100.0 * mode * (0.03 * random.normal()).exp())
        };
        (0..blocks).map(|_| pair()).collect()
    }

    fn in_docs(words: &str) {
        let docs =
            include_str!("../../../../docs/statistics.md").split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(docs.contains(words), "docs/statistics.md lacks: {words}");
    }

    #[test]
    fn the_docs_say_how_often_three_pairs_with_two_modes_miss_the_truth() {
        let missed = [3, 5, 12].map(|blocks| {
            let mut random = SeededOrder::new(20_120_221);
            let missed = (0..STUDIES).filter(|_| {
                let pairs = with_two_modes(&mut random, blocks);
                let interval = paired_ratio_at(&pairs, 0.95).unwrap().interval.unwrap();
                !(interval.low.ln()..=interval.high.ln()).contains(&mean_log_of_modes())
            });
            format!("{:.0} %", 100.0 * missed.count() as f64 / f64::from(STUDIES))
        });
        in_docs(&format!(
            "misses in {} of the studies with three pairs, {} with five and {} with twelve",
            missed[0], missed[1], missed[2]
        ));
    }

    /// More studies than elsewhere: what is told apart here is 5 % and a little more.
    #[test]
    fn the_docs_say_how_often_directions_err_where_runs_have_two_modes() {
        let share = |blocks, expected: Expected, percent: f64, wrong: Verdict| {
            let mut random = SeededOrder::new(20_120_223);
            let shift = (1.0 + percent / 100.0) / mean_log_of_modes().exp();
            let is_wrong = |_: &u32| {
                let pairs = with_two_modes(&mut random, blocks);
                let pairs: Vec<(f64, f64)> = pairs.into_iter().map(|(b, c)| (b, c * shift)).collect();
                let ratio = paired_ratio_at(&pairs, 0.95).unwrap();
                of_ratio(&ratio, expected, Stated::default(), None).0 == wrong
            };
            const MANY: u32 = 20_000;
            format!("{:.1}", 100.0 * (0..MANY).filter(is_wrong).count() as f64 / f64::from(MANY))
        };
        let row = |rule: &str, expected, percent, wrong: Verdict| {
            let shares = [3, 5, 12].map(|blocks| share(blocks, expected, percent, wrong));
            format!("| {rule} | {} | {} |", wrong.words(), shares.join(" | "))
        };
        let rows = [
            row("less, no effect", Expected::Less, 0.0, Verdict::Reproduced),
            row("less, 5 % less", Expected::Less, -5.0, Verdict::Contradicted),
            row("more, no effect", Expected::More, 0.0, Verdict::Reproduced),
            row("more, 5 % more", Expected::More, 5.0, Verdict::Contradicted),
        ];
        in_docs(&rows.join(" "));
    }

    /// Of combinations without any difference, at the confidence of what was chosen (`chosen` in a claim's query).
    #[test]
    fn what_was_chosen_on_the_other_half_holds_the_truth_in_nineteen_studies_of_twenty() {
        for combinations in [2, 3, 6, 36] {
            for blocks in [2, 3, 6, 12] {
                let mut random = SeededOrder::new(20_120_219);
                let missed = (0..STUDIES).filter(|_| {
                    let pairs = best_of(&mut random, combinations, 0.0, blocks, 0.2);
                    let ratio = paired_ratio_at(&pairs, 0.975).unwrap();
                    ratio.differs() == Some(true)
                });
                let share = missed.count() as f64 / f64::from(STUDIES);
                assert!(share <= 0.05 + 0.0207, "best of {combinations}, {blocks} blocks: {share} miss it");
            }
        }
    }

    #[test]
    fn no_rule_errs_in_more_than_one_study_of_twenty_and_the_docs_say_how_often() {
        let shares = shares();
        for (case, shares) in &shares {
            // 5 %, and three standard errors of a share of a thousand.
            let most = 0.05 + 0.0207;
            assert!(shares.iter().flatten().all(|share| *share <= most), "{}: {shares:?}", case.rule);
        }
        let docs = include_str!("../../../../docs/statistics.md");
        assert!(docs.contains(&table(&shares)), "docs/statistics.md lacks:\n{}", table(&shares));
    }
}
