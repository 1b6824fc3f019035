//! Claims about lines, as `docs/replicate.md` writes them, on made-up stores.

use nestor_statistics::SeededOrder;
use tempfile::TempDir;

use super::fixture::*;
use super::judged::{HASH, recorded};
use crate::claims::{Answers, Better, Claim, ClaimResult, FigureKind, FigureQuery, answer_all};
use crate::record::{CellRecord, Mark, Outcome};
use crate::{Store, Study, Verdict};

/// The text of the section, from its heading on.
fn section() -> &'static str {
    let docs = include_str!("../../../../docs/replicate.md");
    docs.split("### A claim about a line").nth(1).expect("the section")
}

/// The claims of the section.
fn claims() -> Vec<Claim> {
    let file = section().split("```").nth(1).and_then(|block| block.strip_prefix("toml\n")).expect("a block");
    let head = "name = \"s\"\ntitle = \"S\"\nstacks = [\"ext4/hdd\"]\nbaseline = \"ext4/hdd\"\nworkloads = [\"fio:seq-read\"]\n";
    Study::parse("s.toml", &format!("{head}{file}"), None).map_err(|e| e.to_string()).unwrap().claims
}

/// A host, and the line of its times: seconds, and seconds for each gigabyte.
type Host = (&'static str, f64, f64);

/// Three blocks of five sizes on each host; times deviate by a share.
fn records(hosts: [Host; 3], deviation: f64) -> Vec<CellRecord> {
    let mut random = SeededOrder::new(20_110_902);
    let mut records = Vec::new();
    for (host, intercept_s, s_per_gb) in hosts {
        for block in 0..3 {
            for gb in [3_u32, 7, 11, 16, 21] {
                let seconds = (intercept_s + s_per_gb * f64::from(gb)) * (deviation * random.normal()).exp();
                let mut record = record(&format!("ext3/kvm/raw/{host}/hdd"), block, 64 * MIB);
                record.workload = format!("fio:seq-write:scale=0.{gb:02}").as_str().into();
                let Outcome::Measured(measured) = &mut record.outcome else { panic!("{record:?}") };
                measured.load.working_set_bytes = u64::from(gb) * 1_000_000_000;
                measured.load.elapsed_ns = (seconds * 1e9) as u64;
                records.push(record);
            }
        }
    }
    records
}

/// What a study of these claims and figures finds in a store of these runs.
fn answered(records: &[CellRecord], claims: Vec<Claim>, figures: Vec<FigureQuery>) -> Answers {
    let folder = TempDir::new().unwrap();
    let mut store = Store::open(&folder.path().join("r.sqlite")).unwrap();
    for record in records {
        store.insert(record).unwrap();
    }
    let mut study = Study::new("made-up", "Made up", vec!["ext4/hdd".into()], vec!["fio:seq-write".into()]);
    (study.claims, study.figures) = (claims, figures);
    answer_all(&store, &recorded(HASH, study)).unwrap()
}

fn judged(records: &[CellRecord], claims: Vec<Claim>) -> Vec<ClaimResult> {
    answered(records, claims, Vec::new()).claims
}

fn verdicts(hosts: [Host; 3], deviation: f64) -> String {
    let results = judged(&records(hosts, deviation), claims());
    results.iter().map(|r| format!("{}: {}", r.verdict.words(), r.reason)).collect::<Vec<_>>().join("\n")
}

const AS_CLAIMED: [Host; 3] = [("jfs", 20.0, 5.0), ("ext4", 20.0, 2.7), ("xfs", 70.0, 0.0)];

#[test]
fn lines_as_claimed_are_reproduced() {
    insta::assert_snapshot!(verdicts(AS_CLAIMED, 0.002), @"
    reproduced: the interval says at least 5 % more; 3 ratios
    reproduced: equal within 10 % (two one-sided tests); 3 ratios
    reproduced: slopes: -46.0 % [-46.1, -45.9], reproduced (the interval lies within 23 % to 71 %; 3 pairs); ext4 rises: +173 % [+172, +174], reproduced (the interval says at least 5 % more; 3 pairs); jfs rises: +257 % [+254, +260], reproduced (the interval says at least 5 % more; 3 pairs)
    reproduced: equal within 10 % (two one-sided tests); 3 ratios
    ");
}

#[test]
fn other_lines_contradict() {
    let others = [("jfs", 70.0, -1.0), ("ext4", 20.0, 2.7), ("xfs", 20.0, 5.0)];
    insta::assert_snapshot!(verdicts(others, 0.002), @"
    contradicted: the interval excludes more; 3 ratios
    contradicted: the interval excludes a difference below 10 %; 3 ratios
    contradicted: slopes: not testable here (no pair has both numbers); ext4 rises: +173 % [+172, +174], reproduced (the interval says at least 5 % more; 3 pairs); jfs rises: -26.9 % [-27.3, -26.6], contradicted (the interval excludes more; 3 pairs)
    contradicted: the interval excludes a difference below 10 %; 3 ratios
    ");
}

#[test]
fn equal_slopes_of_lines_apart_contradict_a_smaller_slope() {
    let hosts = [("jfs", 20.0, 5.0), ("ext4", 10.0, 5.0), ("xfs", 70.0, 0.0)];
    let results = judged(&records(hosts, 0.002), claims());
    assert_eq!(results[2].verdict, Verdict::Contradicted, "{:?}", results[2]);
    assert_eq!(results[2].parts[0].verdict, Verdict::Contradicted, "{:?}", results[2]);
    assert!(!results[2].why.is_empty());
}

#[test]
fn lines_in_the_noise_leave_it_open() {
    let hosts = [("jfs", 20.0, 2.0), ("ext4", 20.0, 1.08), ("xfs", 70.0, 0.0)];
    insta::assert_snapshot!(verdicts(hosts, 0.3), @"
    undecided: the interval includes 5 % more and not as much; 3 ratios
    undecided: a difference below 10 % is possible, but not shown; 3 ratios
    undecided: slopes: -44.0 % [-66.1, -7.4], undecided (the sign is as published, the size may be 23 % to 71 % or not; 3 pairs); ext4 rises: +78.3 % [+14.6, +177], reproduced (the interval says at least 5 % more; 3 pairs); jfs rises: +129 % [-16.8, +528], undecided (the interval includes 5 % more and not as much; 3 pairs)
    undecided: a difference below 10 % is possible, but not shown; 3 ratios
    ");
}

#[test]
fn every_run_behind_a_line_is_evidence() {
    let mut records = records(AS_CLAIMED, 0.002);
    records[4].marks = vec![Mark::Cached { reason: "made up".to_owned() }];
    let results = judged(&records, claims());
    assert_eq!(results[0].runs, (1..=15).collect::<Vec<i64>>());
    assert_eq!(results[0].doubts, ["cached in 1 of 15 runs"]);
    assert_eq!(results[1].runs, (31..=45).collect::<Vec<i64>>());
    assert_eq!(results[2].runs, (1..=30).collect::<Vec<i64>>());
    let mut wrong = claims();
    wrong.truncate(1);
    wrong[0].sql = Some("SELECT 1.5 AS ratio, 'run 3' AS all_runs FROM cell".to_owned());
    assert_eq!(
        judged(&records, wrong)[0].reason,
        "the query of line-1 is wrong: its column `all_runs` has `run 3`; write group_concat(run)"
    );
}

#[test]
fn a_fit_has_the_line_of_each_series_as_the_functions_have_it() {
    let query = |kind, sql: &str| FigureQuery {
        id: format!("fig-{kind:?}").to_lowercase(),
        title: "Time to write".to_owned(),
        kind,
        x: "size, GB".to_owned(),
        y: "time, s".to_owned(),
        alike: None,
        better: Better::More,
        sql: sql.to_owned(),
    };
    let points = "SELECT host AS series, working_set_bytes / 1e9 AS x, elapsed_s AS y FROM cell";
    let line = "SELECT host AS series, 'slope' AS x, slope(working_set_bytes / 1e9, elapsed_s) AS y,
        slope_low(working_set_bytes / 1e9, elapsed_s) AS low, slope_high(working_set_bytes / 1e9, elapsed_s) AS high
        FROM cell GROUP BY host ORDER BY host DESC";
    let at_one = "SELECT 3 AS x, elapsed_s AS y FROM cell";
    let asked = vec![
        query(FigureKind::Fit, points),
        query(FigureKind::Table, line),
        FigureQuery { id: "one-size".to_owned(), ..query(FigureKind::Fit, at_one) },
    ];
    let figures = answered(&records(AS_CLAIMED, 0.01), Vec::new(), asked).figures;
    let names: Vec<(&str, u64)> = figures[0].lines.iter().map(|l| (l.series.as_str(), l.points)).collect();
    assert_eq!(names, [("jfs", 15), ("ext4", 15), ("xfs", 15)]);
    for line in &figures[0].lines {
        let told = figures[1].rows.iter().find(|row| row.series == line.series).unwrap();
        assert_eq!((told.y, told.interval()), (line.slope, line.slope_interval.map(|i| (i.low, i.high))));
    }
    assert!(figures[0].lines[0].intercept_interval.unwrap().contains(20.0), "{:?}", figures[0].lines);
    assert!(figures[1].lines.is_empty() && figures[2].lines.is_empty() && figures[2].problem.is_none());
}
