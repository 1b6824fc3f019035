//! Claims: what is found in stores with known answers, and what becomes of queries that are wrong.

use std::collections::BTreeMap;

use proptest::prelude::*;
use tempfile::TempDir;

use super::fixture::*;
use super::judged::{HASH, recorded};
use crate::claims::{
    Better, Claim, ClaimKind, ClaimResult, Evidence, Expected, FigureKind, FigureQuery, FigureX, figures,
    judge,
};
use crate::record::{CellRecord, Mark};
use crate::{Store, Study, StudyRecord, Verdict};

const NESTED: &str = "ext3/kvm:cache=writethrough/raw/jfs/hdd:size=8G";
const OTHER_HOST: &str = "ext3/kvm:cache=writethrough/raw/xfs/hdd:size=8G";
const RAW: &str = "ext3/kvm:cache=writethrough/hdd:size=8G";
const RAW_UNCACHED: &str = "ext3/kvm/hdd:size=8G";

/// A store with these runs: stack, block, MiB written.
pub(super) struct Lab {
    _folder: TempDir,
    pub(super) store: Store,
    pub(super) study: StudyRecord,
}

impl Lab {
    pub(super) fn new(records: Vec<CellRecord>) -> Self {
        let folder = TempDir::new().unwrap();
        let mut store = Store::open(&folder.path().join("r.sqlite")).unwrap();
        for record in &records {
            store.insert(record).unwrap();
        }
        let stacks = [RAW, RAW_UNCACHED, NESTED, OTHER_HOST].map(Into::into).to_vec();
        let study = Study::new("made-up", "Made up", stacks, vec!["fio:seq-write".into()]);
        let study = recorded(HASH, study);
        Self { _folder: folder, store, study }
    }

    pub(super) fn judge(&mut self, claims: Vec<Claim>) -> Vec<ClaimResult> {
        self.study.study.claims = claims;
        judge(&self.store, &self.study).unwrap()
    }

    pub(super) fn judge_one(&mut self, claim: Claim) -> ClaimResult {
        self.judge(vec![claim]).pop().unwrap()
    }
}

/// Three blocks: the raw disk with write-through at 100, without at 50, on JFS at 60, on XFS at about 101 MiB.
pub(super) fn usual() -> Vec<CellRecord> {
    let mut records = Vec::new();
    for (block, jitter) in [(0, 0), (1, 1), (2, 2)] {
        for (stack, mib) in [(RAW, 100), (RAW_UNCACHED, 50), (NESTED, 60), (OTHER_HOST, 101)] {
            records.push(record(stack, block, (mib + jitter) * MIB));
        }
    }
    records
}

pub(super) fn change(percent: f64) -> Expected {
    Expected::Change { low: 1.0 + percent / 100.0, high: 1.0 + percent / 100.0 }
}

pub(super) fn claim(kind: ClaimKind, expected: Option<Expected>, sql: &str) -> Claim {
    Claim {
        id: "L-0".to_owned(),
        title: "Made up".to_owned(),
        place: String::new(),
        paper: String::new(),
        kind,
        expected,
        margin: None,
        band: None,
        sql: Some(sql.to_owned()),
        not_testable: None,
        note: None,
    }
}

/// A host against the raw disk.
fn against_raw(host: &str, percent: f64) -> Claim {
    let sql = format!(
        "SELECT block AS unit, baseline, candidate, run, baseline_run FROM pair WHERE host = '{host}'"
    );
    claim(ClaimKind::Ratio, Some(change(percent)), &sql)
}

#[test]
fn a_client_beside_its_server_is_not_native() {
    let stacks = ["ext3/hdd", "nfs/link/ext3/hdd", "ext3/kvm/raw/nfs/link/jfs/hdd", NESTED, RAW];
    let lab = Lab::new(stacks.map(|stack| record(stack, 0, MIB)).to_vec());
    let evidence = Evidence::new(&lab.store, &lab.study).unwrap();
    let mut kinds = evidence.connection().prepare("SELECT kind FROM cell ORDER BY run").unwrap();
    let kinds: Vec<String> = kinds.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    assert_eq!(kinds, ["native", "beside", "nested", "nested", "raw-disk"]);
}

#[test]
fn a_claim_is_judged_against_both_raw_disks_and_keeps_its_evidence() {
    let mut lab = Lab::new(usual());
    let result = lab.judge_one(against_raw("jfs", -40.0));
    assert_eq!(result.verdict, Verdict::Reproduced, "{result:?}");
    let effect = result.effect.unwrap();
    assert_eq!(effect.pairs, 3);
    assert!((effect.change_percent() + 39.6).abs() < 1.0, "{effect:?}");
    assert_eq!(result.runs, [1, 3, 5, 7, 9, 11]);
    let [(name, other, verdict)] = result.other.as_slice() else { panic!("{:?}", result.other) };
    assert_eq!((name.as_str(), *verdict), ("raw disk with cache=none", Verdict::Contradicted));
    assert!((other.unwrap().change_percent() - 20.0).abs() < 2.0);
}

#[test]
fn verdicts_come_of_a_store() {
    let mut lab = Lab::new(usual());
    let verdicts: Vec<Verdict> = lab
        .judge(vec![
            against_raw("jfs", -40.0),
            against_raw("jfs", -90.0),
            against_raw("jfs", 34.0),
            against_raw("xfs", -67.0),
            against_raw("xfs", -5.0),
            against_raw("ext4", -5.0),
        ])
        .iter()
        .map(|r| r.verdict)
        .collect();
    assert_eq!(
        verdicts,
        [
            Verdict::Reproduced,
            Verdict::Smaller,
            Verdict::Contradicted,
            Verdict::Contradicted,
            Verdict::Contradicted,
            Verdict::NotTestable
        ]
    );
}

#[test]
fn what_is_contradicted_is_explained_by_the_layers() {
    let mut records = usual();
    for record in records.iter_mut().filter(|r| r.stack == NESTED) {
        let crate::Outcome::Measured(measured) = &mut record.outcome else { continue };
        let disk = measured.layers.last_mut().unwrap().metrics.as_mut().unwrap();
        disk.trace_point = nestor_trace::TracePoint::DiskLog;
        disk.write.issued *= 3;
        disk.write.issued_bytes *= 2;
    }
    for record in records.iter_mut().filter(|r| r.stack == RAW) {
        let crate::Outcome::Measured(measured) = &mut record.outcome else { continue };
        measured.layers.last_mut().unwrap().metrics.as_mut().unwrap().trace_point =
            nestor_trace::TracePoint::DiskLog;
    }
    let mut lab = Lab::new(records);
    let result = lab.judge_one(against_raw("jfs", 34.0));
    insta::assert_snapshot!(result.why.join("\n"), @r#"
    run 7 (ext3/kvm:cache=writethrough/raw/jfs/hdd:size=8G, fio:seq-write, 6.40 MB/s) against run 5 (ext3/kvm:cache=writethrough/hdd:size=8G, fio:seq-write, 10.6 MB/s), the median of 3 pairs:
    requests at the disk: 793.2 per MiB of the application against 261.1 (0 % merged against 0 %)
    bytes at the disk: 2.07 times the application's against 1.02 times
    "#);
}

#[test]
fn one_pair_has_no_interval_and_no_verdict() {
    let mut lab = Lab::new(usual().into_iter().filter(|r| r.block == 0).collect());
    let result = lab.judge_one(against_raw("jfs", -40.0));
    assert_eq!((result.verdict, result.reason.as_str()), (Verdict::NotTestable, "one pair has no interval"));
    assert_eq!(result.runs, [1, 3]);
}

#[test]
fn what_is_missing_is_named() {
    let mut records: Vec<_> =
        usual().into_iter().filter(|r| r.stack != NESTED && r.stack != OTHER_HOST).collect();
    records.push(failed(NESTED, 0, "the guest died\nmore about it"));
    let mut lab = Lab::new(records);
    let results =
        lab.judge(vec![against_raw("jfs", -40.0), against_raw("xfs", -40.0), against_raw("reiserfs", 1.0)]);
    insta::assert_snapshot!(results.iter().map(|r| r.reason.as_str()).collect::<Vec<_>>().join("\n"), @r#"
    1 cell failed, such as ext3/kvm:cache=writethrough/raw/jfs/hdd:size=8G fio:seq-write: the guest died
    1 cell not run, such as ext3/kvm:cache=writethrough/raw/xfs/hdd:size=8G fio:seq-write
    the study has no such cell at this size
    "#);
}

#[test]
fn what_breaks_an_identity_and_what_was_untraced_does_not_count_and_marks_do() {
    let mut records = usual();
    records[2].marks = vec![Mark::Inconsistent { reason: "Little's law".to_owned() }];
    records[6].marks = vec![Mark::Cached { reason: "small".to_owned() }];
    let mut twin = record(NESTED, 0, 999 * MIB);
    twin.untraced_twin = true;
    records.push(twin);
    // A later run of the same cell takes the place of the earlier.
    records.push(CellRecord { started_at: "2026-01-03T00:00:00Z".to_owned(), ..record(NESTED, 2, 62 * MIB) });
    let mut lab = Lab::new(records);
    let result = lab.judge_one(against_raw("jfs", -40.0));
    assert_eq!(result.effect.unwrap().pairs, 2);
    assert_eq!(result.runs, [5, 7, 9, 14]);
    assert_eq!(result.doubts, ["cached in 1 of 4 runs"]);
}

#[test]
fn setups_and_constants() {
    let mut lab = Lab::new(usual());
    let judged = |lab: &mut Lab, kind, expected, sql| {
        let result = lab.judge_one(claim(kind, expected, sql));
        format!("{}: {}", result.verdict.words(), result.reason)
    };
    let setup = |rows: &str| {
        format!("SELECT column1 AS what, column2 AS found, column3 AS published FROM (VALUES {rows})")
    };
    let told = [
        judged(&mut lab, ClaimKind::Setup, None, &setup("('disk', 'hdd', 'hdd')")),
        judged(&mut lab, ClaimKind::Setup, None, &setup("('disk', 'hdd', 'hdd'), ('memory', 256, 512)")),
        judged(&mut lab, ClaimKind::Setup, None, &setup("('memory', NULL, 512)")),
        judged(
            &mut lab,
            ClaimKind::Constant,
            None,
            "SELECT count(DISTINCT stack) AS found, 4 AS expected FROM cell",
        ),
        judged(
            &mut lab,
            ClaimKind::Constant,
            None,
            "SELECT 'stacks' AS what, count(DISTINCT stack) AS found, 42 AS expected FROM cell",
        ),
        judged(
            &mut lab,
            ClaimKind::Constant,
            Some(Expected::Within { tolerance: 1.0 }),
            "SELECT 4.5 AS found, 5 AS expected",
        ),
    ];
    insta::assert_snapshot!(told.join("\n"), @r#"
    reproduced: configured as published
    deviates, declared: 1 of 2 as published; declared: memory 256, published 512
    deviates, declared: configured otherwise: memory not known, published 512
    reproduced: equal in all 1
    contradicted: differs in 1 of 1: stacks 4, expected 42
    reproduced: equal in all 1
    "#);
}

#[test]
fn sides_that_were_traced_differently_are_a_doubt() {
    let mut records = usual();
    for record in records.iter_mut().filter(|r| r.stack == NESTED && r.block < 2) {
        record.trace = crate::TraceMode::Full;
    }
    let mut lab = Lab::new(records);
    let result = lab.judge_one(against_raw("jfs", -40.0));
    assert_eq!(result.doubts, ["the two sides were traced differently (full / layers) in 2 of 3 pairs"]);
    assert_eq!(lab.judge_one(against_raw("xfs", 1.0)).doubts, Vec::<String>::new());
}

/// Values 0.9, 1.2, 1.5 have the mean 1.2 and the standard error 0.3 / sqrt 3; the t factor of two degrees is 4.3027.
#[test]
fn pseudovalues_have_an_arithmetic_mean() {
    let mut lab = Lab::new(usual());
    let sql = "SELECT column1 AS pseudovalue FROM (VALUES (0.9), (1.2), (1.5))";
    let effect = lab.judge_one(claim(ClaimKind::Ratio, Some(change(45.0)), sql)).effect.unwrap();
    let half = 4.302_652_7 * 0.3 / 3.0_f64.sqrt();
    assert!((effect.value - 1.2).abs() < 1e-12 && effect.pairs == 3);
    assert!((effect.interval.unwrap().low - (1.2 - half)).abs() < 1e-6, "{effect:?}");
}

#[test]
fn a_wrong_query_is_told_and_the_others_are_judged() {
    let mut lab = Lab::new(usual());
    let wrong = [
        "SELECT hots FROM twin",
        "SELECT 1 FROM nowhere",
        "SELECT baseline FROM pair",
        "SELECT 1 +",
        "DELETE FROM runs",
        "DROP TABLE cell",
        "PRAGMA query_only = 0",
        "ATTACH '/nowhere/x' AS x",
        "CREATE TABLE t (x)",
        "WITH t AS (SELECT 1) INSERT INTO runs (id) SELECT * FROM t",
        "SELECT 1 AS baseline; DELETE FROM runs",
        "SELECT ?1 AS baseline FROM cell",
        "SELECT \0",
    ];
    let mut claims: Vec<Claim> =
        wrong.iter().map(|sql| claim(ClaimKind::Ratio, Some(change(1.0)), sql)).collect();
    claims.push(against_raw("jfs", -40.0));
    let results = lab.judge(claims);
    let (last, wrong) = results.split_last().unwrap();
    assert_eq!(last.verdict, Verdict::Reproduced);
    assert!(wrong.iter().all(|r| r.verdict == Verdict::NotTestable));
    insta::assert_snapshot!(wrong.iter().map(|r| r.reason.as_str()).collect::<Vec<_>>().join("\n"), @r#"
    the query of L-0 is wrong: SQLite says: no such column: hots; twin has run, twin_run, block, guest, host, kind, load, stack, workload, plain, traced_cpu, untraced_cpu, traced_mb_per_s, untraced_mb_per_s
    the query of L-0 is wrong: SQLite says: no such table: nowhere; the tables are cell, latest, apart, twin, raw_disk, pair, operation, layer, class, seek, life, state, surface, surface_pair, surface_ratio, surface_fit, surface_error, surface_check, stack_parts, load_options, setting
    the query of L-0 is wrong: it does not return the column `candidate`; it returns baseline; it needs baseline, candidate
    the query of L-0 is wrong: SQLite says: incomplete input; the tables are cell, latest, apart, twin, raw_disk, pair, operation, layer, class, seek, life, state, surface, surface_pair, surface_ratio, surface_fit, surface_error, surface_check, stack_parts, load_options, setting
    the query of L-0 is wrong: it is not a read-only query: it must begin with SELECT or WITH
    the query of L-0 is wrong: it is not a read-only query: it must begin with SELECT or WITH
    the query of L-0 is wrong: it is not a read-only query: it must begin with SELECT or WITH
    the query of L-0 is wrong: it is not a read-only query: it must begin with SELECT or WITH
    the query of L-0 is wrong: it is not a read-only query: it must begin with SELECT or WITH
    the query of L-0 is wrong: it is not a read-only query: it must begin with SELECT or WITH
    the query of L-0 is wrong: SQLite says: Multiple statements provided; the tables are cell, latest, apart, twin, raw_disk, pair, operation, layer, class, seek, life, state, surface, surface_pair, surface_ratio, surface_fit, surface_error, surface_check, stack_parts, load_options, setting
    the query of L-0 is wrong: SQLite says: Wrong number of parameters passed to query. Got 0, needed 1; cell has run, block, half, repeat, untraced_twin, stack, workload, kind, guest, host, guest_options, host_options, crossing, cache, device, guest_sched, host_sched, image, image_options, medium, medium_options, guest_memory_bytes, machine_options, partition_start, domain, plain, engine, load, load_options, throughput, mb_per_s, ops_per_s, latency_ms, bytes, operations, elapsed_s, host_cpu_busy, engine_cpu_s, working_set_bytes, scale_factor, engine_version, trace, ground, marked
    the query of L-0 is wrong: SQLite says: incomplete input; the tables are cell, latest, apart, twin, raw_disk, pair, operation, layer, class, seek, life, state, surface, surface_pair, surface_ratio, surface_fit, surface_error, surface_check, stack_parts, load_options, setting
    "#);
    assert_eq!(lab.store.numbers(&crate::RunFilter::default()).unwrap().len(), 12);
}

#[test]
fn figures_take_their_values_from_the_store() {
    let mut lab = Lab::new(usual());
    let figure = |kind, sql: &str| FigureQuery {
        id: "fig-0".to_owned(),
        title: "Made up".to_owned(),
        kind,
        x: "host".to_owned(),
        y: "%".to_owned(),
        alike: None,
        better: Better::More,
        sql: sql.to_owned(),
    };
    lab.study.study.figures = vec![
        figure(
            FigureKind::Heat,
            "SELECT guest AS series, host AS x, geomean(relative) AS y, geomean_low(relative) AS low, \
             geomean_high(relative) AS high FROM pair GROUP BY guest, host ORDER BY host",
        ),
        figure(FigureKind::Line, "SELECT percent AS y, distance_share AS x FROM seek"),
        figure(FigureKind::Bars, "SELECT x FROM cell"),
        figure(FigureKind::Heat, "SELECT 'a' AS panel, guest AS series, 1 AS x, mb_per_s AS y FROM cell"),
    ];
    let drawn = figures(&lab.store, &lab.study).unwrap();
    let row = &drawn[0].rows[0];
    assert_eq!(
        (row.series.as_str(), &row.x, drawn[0].rows.len()),
        ("ext3", &FigureX::Text("jfs".to_owned()), 2)
    );
    assert!(row.low.unwrap() < row.y && row.y < row.high.unwrap());
    assert_eq!(drawn[1].problem.as_deref(), Some("no counted run has the values that it shows"));
    assert!(
        drawn[2]
            .problem
            .as_deref()
            .unwrap()
            .starts_with("the query of fig-0 is wrong: SQLite says: no such column: x")
    );
    assert_eq!(
        drawn[3].problem.as_deref(),
        Some(
            "the query of fig-0 is wrong: panel `a` has several values for ext3 and 1, but can show only one"
        )
    );
}

/// Twelve blocks: from the seventh on everything is twice as fast, JFS is at 60 % of the raw disk before and at 90 % after.
#[test]
fn claims_and_figures_do_not_average_across_a_change_of_the_baseline() {
    let mut records = Vec::new();
    for block in 0..12 {
        let (raw, nested) = if block < 7 { (100, 60) } else { (200, 180) };
        for (stack, mib) in [(RAW, raw), (NESTED, nested)] {
            records.push(record(stack, block, (mib + u64::from(block % 3)) * MIB));
        }
    }
    let mut lab = Lab::new(records);
    let result = lab.judge_one(against_raw("jfs", -40.0));
    let effect = result.effect.unwrap();
    assert_eq!((effect.pairs, result.verdict), (7, Verdict::Reproduced), "{result:?}");
    assert!((effect.change_percent() + 39.6).abs() < 1.0, "{effect:?}");
    let said = "fio:seq-write: a change point after block 6: the baseline changed by";
    assert!(result.doubts.iter().any(|doubt| doubt.starts_with(said)), "{:?}", result.doubts);
    let sql = "SELECT block AS x, relative AS y FROM pair ORDER BY block".to_owned();
    let (id, title) = ("fig-0".to_owned(), "Made up".to_owned());
    let (x, y) = ("block".to_owned(), "share".to_owned());
    lab.study.study.figures =
        vec![FigureQuery { id, title, kind: FigureKind::Line, x, y, alike: None, better: Better::More, sql }];
    let drawn = figures(&lab.store, &lab.study).unwrap();
    assert_eq!(drawn[0].rows.len(), 7);
    assert!(drawn[0].left_out[0].starts_with(said), "{:?}", drawn[0].left_out);
}

/// Verdicts with the interval of one claim under a change of all throughputs by a factor.
fn verdicts_of(mibs: &[(u64, u64)], factor: u64, percent: f64) -> BTreeMap<&'static str, Verdict> {
    let mut records = Vec::new();
    for (block, (raw, nested)) in (0..).zip(mibs) {
        records.push(record(RAW, block, raw * factor * MIB));
        records.push(record(NESTED, block, nested * factor * MIB));
    }
    let mut lab = Lab::new(records);
    let pair = "FROM pair WHERE host = 'jfs'";
    let sqls = [
        ("MB/s", format!("SELECT baseline, candidate {pair}")),
        (
            "KiB/s",
            format!("SELECT baseline * 976.5625 AS baseline, candidate * 976.5625 AS candidate {pair}"),
        ),
    ];
    let claims = sqls.iter().map(|(_, sql)| claim(ClaimKind::Ratio, Some(change(percent)), sql)).collect();
    let results = lab.judge(claims);
    sqls.iter().map(|(unit, _)| *unit).zip(results.iter().map(|r| r.verdict)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn a_verdict_depends_neither_on_units_nor_on_scale(
        mibs in proptest::collection::vec((20_u64..40, 10_u64..40), 2..5),
        percent in -60.0_f64..60.0,
    ) {
        let small = verdicts_of(&mibs, 1, percent);
        prop_assert_eq!(small["MB/s"], small["KiB/s"]);
        prop_assert_eq!(small, verdicts_of(&mibs, 16, percent));
    }
}
