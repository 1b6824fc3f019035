//! Reports of studies: the same from whole runs and from a store, with claims and figures.

use std::collections::BTreeMap;

use nestor_results::claims::{
    Answers, Better, Claim, ClaimKind, ClaimResult, Expected, Figure, FigureKind, FigureQuery, FigureRow,
    FigureX, Finding, FindingQuery, SeriesLine, Verdict,
};
use nestor_results::{CellRecord, EffectUnit, Mark, Outcome, RunFilter, Store, StudyRecord};
use nestor_statistics::sequential::StopRule;
use nestor_statistics::{Interval, Ratio};
use proptest::prelude::*;

use super::fixture::*;
use crate::view::CellKind;
use crate::{StudyReport, Style, render_figure_svg, render_study, study_text, tables_text};

pub fn claims() -> Vec<ClaimResult> {
    let ratio =
        |value: f64, low: f64, high: f64| Ratio { value, interval: Some(Interval { low, high }), pairs: 5 };
    let claim = |id: &str, title: &str, paper: &str| Claim {
        id: id.to_owned(),
        title: title.to_owned(),
        place: "§4.2, Fig 7B".to_owned(),
        paper: paper.to_owned(),
        kind: ClaimKind::Ratio,
        expected: Some(Expected::More),
        margin: None,
        band: None,
        sql: None,
        not_testable: None,
        note: Some("the publication says both".to_owned()),
    };
    let result = |claim: Claim, verdict: Verdict, effect: Option<Ratio>| ClaimResult {
        claim,
        verdict,
        effect,
        unit: EffectUnit::default(),
        reason: "the interval lies above".to_owned(),
        parts: Vec::new(),
        other: vec![("raw disk with cache=none".to_owned(), effect, Verdict::Larger)],
        coverage: None,
        marked: BTreeMap::new(),
        doubts: vec!["cached in 2 of 5".to_owned()],
        runs: vec![1, 2, 3],
        why: vec!["read ahead of the host".to_owned()],
    };
    vec![
        result(
            claim("L-27", "Ext3/JFS reads faster", "+34 %"),
            Verdict::Reproduced,
            Some(ratio(1.21, 1.14, 1.29)),
        ),
        result(
            claim("L-15", "ReiserFS on Ext2, database", "-67 %"),
            Verdict::Contradicted,
            Some(ratio(1.02, 0.95, 1.09)),
        ),
        result(claim("L-44", "Xen <and> VMware vary alike", ""), Verdict::NotTestable, None),
    ]
}

fn figure(kind: FigureKind, rows: Vec<FigureRow>) -> Figure {
    let query = FigureQuery {
        id: format!("fig-{kind:?}").to_lowercase(),
        title: "Relative throughput".to_owned(),
        kind,
        x: "guest file system".to_owned(),
        y: "change, %".to_owned(),
        alike: None,
        better: Better::More,
        sql: String::new(),
    };
    Figure { query, rows, lines: Vec::new(), problem: None, left_out: Vec::new() }
}

pub fn figures() -> Vec<Figure> {
    let row = |panel: &str, series: &str, x: FigureX, y: f64, half: Option<f64>| FigureRow {
        panel: panel.to_owned(),
        series: series.to_owned(),
        x,
        y,
        low: half.map(|h| y - h),
        high: half.map(|h| y + h),
        n: half.map(|_| 3),
        marked: half.map(|_| 2),
    };
    let guests = ["ext2", "ext3", "ext4", "reiserfs", "xfs", "jfs"];
    let hosts = ["raw disk", "ext2", "ext3", "ext4", "reiserfs", "xfs", "jfs"];
    let value = |g: usize, h: usize| ((g * 31 + h * 17) % 90) as f64 - 45.0;
    let mut bars = Vec::new();
    for panel in ["file server", "web server"] {
        for (g, guest) in guests.iter().enumerate() {
            for (h, host) in hosts.iter().enumerate() {
                bars.push(row(panel, host, FigureX::Text((*guest).to_owned()), value(g, h), Some(6.0)));
            }
        }
    }
    let heat = guests.iter().enumerate().flat_map(|(g, guest)| {
        let of_host = move |(h, host): (usize, &&str)| {
            row("", guest, FigureX::Text((*host).to_owned()), value(g, h), None)
        };
        hosts.iter().enumerate().map(of_host).collect::<Vec<_>>()
    });
    let line = ["xfs", "reiserfs"].iter().flat_map(|host| {
        let curve = move |i: usize| {
            let x = i as f64 / 40.0;
            row("", host, FigureX::Number(x), if *host == "xfs" { x.sqrt() } else { x.powf(0.2) }, Some(0.02))
        };
        (0..=40).map(curve).collect::<Vec<_>>()
    });
    let heat = heat.collect();
    let line = line.collect();
    let mut surface = figure(FigureKind::Surface, surface_rows());
    surface.query.x = "random, % × reads, %".to_owned();
    let mut broken = figure(FigureKind::Bars, Vec::new());
    broken.query.id = "fig-broken".to_owned();
    broken.problem = Some("no such column: chnage".to_owned());
    vec![
        figure(FigureKind::Bars, bars),
        figure(FigureKind::Heat, heat),
        figure(FigureKind::Line, line),
        surface,
        broken,
    ]
}

/// A surface over three shares of reads and three of random requests.
fn surface_rows() -> Vec<FigureRow> {
    let rows = [0, 50, 100].into_iter().flat_map(|read| {
        [0, 25, 100].into_iter().map(move |random| FigureRow {
            panel: "4 KiB".to_owned(),
            series: read.to_string(),
            x: FigureX::Text(random.to_string()),
            y: f64::from(210 - read - random) / 10.0,
            low: None,
            high: None,
            n: None,
            marked: None,
        })
    });
    rows.collect()
}

/// The made-up study with claims, figures and a stopping rule.
pub fn full_report() -> StudyReport {
    let mut begun = study(3);
    begun.study.scale = Some("quick".to_owned());
    begun.study.stop = Some(StopRule { looks: vec![2, 3], ..StopRule::default() });
    let findings = vec![finding("One write became nine."), problem_of_a_finding()];
    StudyReport::of(&begun, &study_runs()).with(Answers { claims: claims(), figures: figures(), findings })
}

/// A finding of one sentence.
pub fn finding(sentence: &str) -> Finding {
    let query = FindingQuery { id: "fsync".into(), title: sentence.into(), sql: String::new() };
    Finding { query, sentences: vec![sentence.into()], problem: None }
}

fn problem_of_a_finding() -> Finding {
    let query = FindingQuery { id: "none".into(), title: "What nobody measured".into(), sql: String::new() };
    Finding {
        query,
        sentences: Vec::new(),
        problem: Some("no counted run has the values that it reports".into()),
    }
}

/// What happens to one run of a made-up store.
#[derive(Clone, Debug)]
struct Fate {
    stack: usize,
    workload: usize,
    block: u32,
    closing: bool,
    twin: bool,
    kind: u8,
    mib_per_s: f64,
    newer_package: bool,
}

fn fate() -> impl Strategy<Value = Fate> {
    let place = (0_usize..4, 0_usize..2, 0_u32..4, any::<bool>(), prop::bool::weighted(0.1));
    (place, 0_u8..8, 5.0_f64..50.0, prop::bool::weighted(0.2)).prop_map(
        |((stack, workload, block, closing, twin), kind, mib_per_s, newer_package)| Fate {
            stack,
            workload,
            block,
            closing: closing && stack == 0,
            twin,
            kind,
            mib_per_s,
            newer_package,
        },
    )
}

fn made(fate: &Fate, position: u32, hash: &str) -> CellRecord {
    let mut record = record(STACKS[fate.stack], WORKLOADS[fate.workload], fate.block, fate.mib_per_s);
    record.study_hash = Some(hash.to_owned());
    record.repeat = u32::from(fate.closing);
    record.position = position;
    record.untraced_twin = fate.twin;
    if fate.newer_package {
        record.environment.packages.insert("host fio".to_owned(), "3.36-1".to_owned());
        record.environment.remarks.push("a scheduler is not there".to_owned());
    }
    let inconsistent =
        |n: u32| Mark::Inconsistent { reason: format!("hdd issued {n} requests but 7 completed") };
    match fate.kind {
        0 => {
            record.outcome = Outcome::Failed(nestor_results::CellFailure::new(
                nestor_results::FailureCause::MachineLost,
                format!("guest {position} did not answer"),
            ))
        }
        1 => record.marks.extend([inconsistent(9), inconsistent(8)]),
        2 => record.marks.push(Mark::CpuBound { machine: "guest".into(), busy: 0.912_345, modelled: None }),
        3 => record.marks.extend([
            Mark::CpuBound { machine: "host".into(), busy: 0.8, modelled: None },
            Mark::EventsDropped { layer: "ext3".to_owned(), events: u64::from(position) },
            Mark::Unmatched { share: 0.020_1 },
        ]),
        4 => {
            let Outcome::Measured(measured) = &mut record.outcome else { return record };
            let whole = measured.load.operations.values().next().cloned().unwrap();
            measured.load.operations.insert(nestor_workload::OperationClass("fsync".to_owned()), whole);
            measured.load.working_set_bytes += 4_096;
        }
        _ => {}
    }
    record
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    /// Failures, retries, violations, sentinels, twins: whatever a store holds of a study.
    #[test]
    fn a_report_read_from_a_store_is_that_of_its_whole_runs(
        fates in prop::collection::vec(fate(), 0..18), stops: bool, sentinels: bool,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let mut store = Store::open(&folder.path().join("results.sqlite")).unwrap();
        let mut begun = StudyRecord { sentinels, ..study(4) };
        begun.study.workloads.truncate(2);
        begun.study.trace_cost = true;
        begun.study.stop = stops.then(|| StopRule { looks: vec![2, 4], ..StopRule::default() });
        for (position, fate) in fates.iter().enumerate() {
            store.insert(&made(fate, position as u32, &begun.hash)).unwrap();
        }
        store.insert(&made(&fates.first().cloned().unwrap_or(Fate {
            stack: 1, workload: 1, block: 9, closing: false, twin: false, kind: 7, mib_per_s: 3.0, newer_package: false,
        }), 99, "another study")).unwrap();
        let filter =
            RunFilter { study_hash: Some(begun.hash.clone()), latest_only: true, ..RunFilter::default() };
        let mut runs = store.runs(&filter).unwrap();
        runs.retain(|run| !run.record.untraced_twin);
        let whole = StudyReport::of(&begun, &runs);
        let cells = store.cells(&begun.hash).unwrap();
        let mut asked = 0;
        let read = StudyReport::read(&begun, &cells, &mut |number| { asked += 1; store.run(number) }).unwrap();
        prop_assert_eq!(&read, &whole);
        // One whole run of each cell, whatever the number of runs.
        prop_assert_eq!(asked, read.cells.iter().filter(|c| c.run.is_some()).count());
        prop_assert_eq!(render_study(&read), render_study(&whole));
        // Saving the study sums its cells up; latencies are read from there then, and not from each run.
        store.save_study(&begun).unwrap();
        prop_assert_eq!(store.cells(&begun.hash).unwrap(), cells);
    }
}

#[test]
fn parts_that_are_left_out_are_told_with_the_reason_and_have_no_column() {
    let mut begun = study(2);
    let part = |stacks: &[&str], left_out: Option<&str>| nestor_results::Part {
        stacks: stacks.iter().map(|s| (*s).into()).collect(),
        workloads: WORKLOADS.iter().map(|w| (*w).into()).collect(),
        replications: 2,
        trace: None,
        trace_cost: false,
        apart: false,
        optional: left_out.is_some(),
        left_out: left_out.map(str::to_owned),
    };
    begun.study.parts = vec![part(&STACKS[..3], None), part(&STACKS[3..], Some("there is no pack"))];
    let report = StudyReport::of(&begun, &[]);
    assert!(report.cells.iter().all(|cell| cell.stack != STACKS[3]));
    let reasons = report.not_run_by_reason();
    assert_eq!(reasons.last(), Some(&("there is no pack".to_owned(), 2 * WORKLOADS.len())));
    let of_part = super::fixture::runs(3, 0, 1);
    let elsewhere = StudyReport::of(&begun, &stored(of_part));
    assert!(elsewhere.cells.iter().any(|cell| cell.stack == STACKS[3]), "results from elsewhere count");
}

#[test]
fn cells_that_a_study_does_not_hold_are_absent_and_not_missing() {
    let mut begun = study(1);
    let part = |stacks: &[&str], workloads: &[&str]| nestor_results::Part {
        stacks: stacks.iter().map(|s| (*s).into()).collect(),
        workloads: workloads.iter().map(|w| (*w).into()).collect(),
        replications: 1,
        trace: None,
        trace_cost: false,
        apart: false,
        optional: false,
        left_out: None,
    };
    begun.study.parts = vec![part(&STACKS[..2], &WORKLOADS), part(&STACKS, &WORKLOADS[..1])];
    let report = StudyReport::of(&begun, &[]);
    assert_eq!(report.cells.len(), 4 * 2 + 2);
    let kinds: Vec<CellKind> = report.matrices[0].cells[1].iter().map(|c| c.kind).collect();
    assert_eq!(kinds, [CellKind::NotRun, CellKind::NotRun, CellKind::Absent, CellKind::Absent]);
    assert_eq!(report.not_run_by_reason(), [("budget of 5 min ended".to_owned(), 10)]);
}

#[test]
fn what_is_settled_is_not_missing() {
    // With findings the text is short, and only the page tells of rules and claims.
    let report = StudyReport { findings: Vec::new(), ..full_report() };
    let text = study_text(&report, Style::plain());
    assert!(text.contains("scale quick: "), "{text}");
    assert!(text.contains("a comparison ends when it is known to ±3 %, or when it is faster or slower by over 5 %; intervals are of 97.50 %"), "{text}");
    assert!(text.contains("claims: measured: 1 reproduced, 1 contradicted, 1 not testable here"), "{text}");
    assert_eq!(report.stopping.len(), 12);
    let settled = report.stopping.iter().filter(|s| s.decision.stops()).count();
    assert!(settled > 0 && report.stopping.iter().all(|s| report.decision(&s.stack, &s.workload).is_some()));
}

#[test]
fn figures_are_pictures_of_their_own() {
    for figure in figures() {
        let svg = render_figure_svg(&figure);
        assert!(svg.starts_with("<svg xmlns=") && svg.contains("<title>") && !svg.contains("NaN"), "{svg}");
        assert_eq!(svg.matches("<svg").count(), 1);
        assert_eq!(svg.matches("<g").count(), svg.matches("</g>").count());
        if let Some(problem) = &figure.problem {
            assert!(svg.contains(problem.as_str()));
        } else {
            assert!(svg.contains("<desc>"));
        }
    }
    let bars = render_figure_svg(&figures()[0]);
    assert!(bars.contains(">file server<") && bars.contains(">web server<") && bars.contains("reiserfs"));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn any_rows_are_drawn_or_refused(
        kind in prop::sample::select(vec![FigureKind::Bars, FigureKind::Heat, FigureKind::Line, FigureKind::Fit, FigureKind::Surface, FigureKind::Table]),
        rows in prop::collection::vec(
            ("[<>&\"a-c]{0,3}", "(\\PC|\u{1}){0,4}", prop_oneof![
                any::<f64>().prop_map(FigureX::Number), "\\PC{0,30}".prop_map(FigureX::Text),
            ], any::<f64>(), prop::option::of(any::<f64>()), prop::option::of(any::<f64>())),
            0..40,
        ),
        many: bool,
        alike in prop::option::of(0.001..1e6_f64),
    ) {
        let row =
            |(panel, series, x, y, low, high)| FigureRow { panel, series, x, y, low, high, n: Some(3), marked: Some(2) };
        let mut rows: Vec<FigureRow> = rows.into_iter().map(row).collect();
        if many {
            rows = rows.iter().cycle().take(if rows.is_empty() { 0 } else { 30_000 }).cloned().collect();
        }
        let mut figure = figure(kind, rows);
        figure.query.alike = alike;
        figure.lines = rows_as_lines(&figure.rows);
        let svg = render_figure_svg(&figure);
        prop_assert!(!svg.contains("NaN") && !svg.contains("inf"));
        prop_assert!(svg.len() < 2_000_000, "{}", svg.len());
        prop_assert!(!svg.chars().any(|c| c.is_control() && c != '\n' && c != '\t'));
        for tag in ["g", "text", "title", "desc"] {
            let opened = svg.matches(&format!("<{tag} ")).count() + svg.matches(&format!("<{tag}>")).count();
            prop_assert_eq!(opened, svg.matches(&format!("</{tag}>")).count(), "{}", tag);
        }
    }
}

/// A line for each row, with any numbers that the row has.
fn rows_as_lines(rows: &[FigureRow]) -> Vec<SeriesLine> {
    let line = |row: &FigureRow| SeriesLine {
        panel: row.panel.clone(),
        series: row.series.clone(),
        slope: row.y,
        slope_interval: row.low.zip(row.high).map(|(low, high)| Interval { low, high }),
        intercept: row.low.unwrap_or(1.0),
        intercept_interval: None,
        points: 3,
    };
    rows.iter().take(100).map(line).collect()
}

/// Two ways to bring an image, of which one is measured at two sizes only.
fn fit() -> Figure {
    let row = |series: &str, x: f64, y: f64| FigureRow {
        panel: "1 Gb/s".to_owned(),
        series: series.to_owned(),
        x: FigureX::Number(x),
        y,
        low: None,
        high: None,
        n: None,
        marked: None,
    };
    let line = |series: &str, slope: f64, intercept: f64, half: Option<f64>, points| SeriesLine {
        panel: "1 Gb/s".to_owned(),
        series: series.to_owned(),
        slope,
        slope_interval: half.map(|half| Interval { low: slope - half, high: slope + half }),
        intercept,
        intercept_interval: half.map(|half| Interval { low: intercept - half, high: intercept + half }),
        points,
    };
    let mut figure = figure(
        FigureKind::Fit,
        vec![
            row("scp", 1.0, 20.0),
            row("scp", 2.0, 31.0),
            row("scp", 3.0, 39.0),
            row("nbd", 1.0, 10.0),
            row("nbd", 3.0, 28.0),
        ],
    );
    figure.query.x = "size of the image, GB".to_owned();
    figure.query.y = "time, s".to_owned();
    figure.lines = vec![line("scp", 9.5, 11.0, Some(0.5), 3), line("nbd", 9.0, 1.0, None, 2)];
    figure
}

#[test]
fn the_lines_of_a_fit_are_told_with_their_intervals() {
    insta::assert_snapshot!(tables_text(&[fit()], Style::plain()), @"
    fig-fit Relative throughput
    time, s, over size of the image, GB
    in brackets: the interval; a slope is of the vertical axis for each unit of the horizontal one

    1 Gb/s              slope          intercept  points
    scp     9.50 [9.00, 10.0]  11.0 [10.5, 11.5]       3
    nbd                  9.00               1.00       2
    ");
    let svg = render_figure_svg(&fit());
    let drawn = svg.split("<g class=\"curve\">").skip(1).map(|part| part.split("</g>").next().unwrap());
    insta::assert_snapshot!(drawn.collect::<Vec<_>>().join("\n"), @r#"
    <title>scp</title><path class="dots s0" d="M53.5 158.1h5v5h-5zM286.5 96.8h5v5h-5zM519.5 52.3h5v5h-5z"/><path class="line s0" d="M56.0 157.8L522.0 52.0"/>
    <title>nbd</title><path class="dots s1" d="M53.5 213.8h5v5h-5zM519.5 113.6h5v5h-5z"/><path class="line s1" d="M56.0 216.3L522.0 116.1"/>
    "#);
    let words = svg.split("class=\"name\"").skip(3).map(|part| part.split(['>', '<']).nth(1).unwrap());
    insta::assert_snapshot!(words.collect::<Vec<_>>().join("\n").replace('\u{a0}', " "), @"
    1  slope 9.50 [9.00, 10.0], intercept 11.0 [10.5, 11.5], 3 points
    2  slope 9.00, intercept 1.00, 2 points
    ");
}

#[test]
fn a_store_gives_its_newest_runs_and_the_study_of_a_name() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::open(&folder.path().join("results.sqlite")).unwrap();
    let begun = study(1);
    assert_eq!(store.study_named("made-up").unwrap(), None);
    store.save_study(&begun).unwrap();
    // The same study begun again with another seed, and measured.
    let again = StudyRecord { hash: "fedcba9876543210".to_owned(), ..study(2) };
    store.save_study(&again).unwrap();
    for block in 0..3 {
        let mut run = record(STACKS[0], WORKLOADS[0], block, 10.0);
        run.study_hash = Some(again.hash.clone());
        store.insert(&run).unwrap();
    }
    assert_eq!(store.study_named("made-up").unwrap(), Some(again));
    let numbers = |most| -> Vec<i64> {
        store.list_newest(&RunFilter::default(), most).unwrap().iter().map(|run| run.number).collect()
    };
    assert_eq!((numbers(Some(2)), numbers(None), store.count().unwrap()), (vec![3, 2], vec![3, 2, 1], 3));
}

#[test]
fn a_surface_stands_still_in_a_picture_and_carries_its_points_for_turning() {
    let mut surface = figure(FigureKind::Surface, surface_rows());
    surface.query.x = "random, % × reads, %".to_owned();
    let svg = crate::render_figure_svg(&surface);
    // Nine places make four fields; each has four corners in space.
    assert_eq!(svg.matches("class=\"facet").count(), 4);
    let first = svg.split("class=\"facet").nth(1).unwrap();
    let corners = first.split("data-p=\"").nth(1).unwrap().split('"').next().unwrap();
    assert_eq!(corners.split(' ').count(), 4, "{corners}");
    for word in ["random, %", "reads, %", "data-view="] {
        assert!(svg.contains(word), "{word} in {svg}");
    }
}
