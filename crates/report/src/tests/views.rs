//! The views of a results file hold what reports say, number by number.

use std::collections::BTreeMap;

use nestor_results::{
    CellRecord, Doubt, Mark, RunFilter, SavedBaseline, Store, StoredRun, Study, StudyRecord,
};
use nestor_statistics::sequential::StopRule;
use rusqlite::types::{Value, ValueRef};
use rusqlite::{Connection, OpenFlags};
use tempfile::TempDir;

use super::fixture::*;
use super::life::lived_study;
use crate::StudyReport;
use crate::view::CompareView;

/// What names a cell: stack and workload.
type Key = (String, String);
/// Values by the names of their columns.
type Row = BTreeMap<String, String>;

/// A view's rows as a program without any function of Nestor's reads them; a gap is empty, as in CSV.
fn view(store: &Store, name: &str, study_hash: &str) -> Vec<Row> {
    let connection = Connection::open_with_flags(store.path(), OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    let sql = format!("SELECT * FROM {name} WHERE study_hash = ? ORDER BY workload, stack");
    let mut statement = connection.prepare(&sql).unwrap();
    let names: Vec<String> = statement.column_names().into_iter().map(str::to_owned).collect();
    let mut rows = statement.query([study_hash]).unwrap();
    let mut found = Vec::new();
    while let Some(row) = rows.next().unwrap() {
        let field = |(place, name): (usize, &String)| {
            let text = match row.get_ref(place).unwrap() {
                ValueRef::Null => String::new(),
                ValueRef::Real(number) => number.to_string(),
                other => match Value::try_from(other).unwrap() {
                    Value::Integer(number) => number.to_string(),
                    Value::Text(text) => text,
                    value => panic!("{name}: {value:?}"),
                },
            };
            (name.clone(), text)
        };
        found.push(names.iter().enumerate().map(field).collect());
    }
    found
}

fn by_cell(rows: Vec<Row>) -> BTreeMap<Key, Row> {
    let count = rows.len();
    let keyed: BTreeMap<Key, Row> =
        rows.into_iter().map(|row| ((row["stack"].clone(), row["workload"].clone()), row)).collect();
    assert_eq!(keyed.len(), count, "one row a cell");
    keyed
}

/// The rows of `report STUDY --csv`. No field of these tests has a comma in it.
fn csv(report: &StudyReport) -> Vec<Row> {
    let text = report.table().csv();
    let mut lines = text.lines().map(|line| line.split(',').map(str::to_owned).collect::<Vec<_>>());
    let names = lines.next().unwrap();
    let row = |line: Vec<String>| {
        assert_eq!(line.len(), names.len(), "{line:?}");
        names.iter().cloned().zip(line).collect()
    };
    lines.map(row).collect()
}

/// Columns of the CSV that `comparison` has; `cell` has the others but `not_run`, which is of the plan.
const OF_COMPARISON: [&str; 6] =
    ["baseline", "ratio", "ratio_low", "ratio_high", "ratio_pairs", "ratio_confidence"];

/// Holds every value of the views against what the report says; returns the report.
fn hold(store: &Store, record: &StudyRecord) -> StudyReport {
    let report = StudyReport::from_store(store, record).unwrap();
    let cells = by_cell(view(store, "cell", &record.hash));
    let comparisons = by_cell(view(store, "comparison", &record.hash));
    let rows = csv(&report);
    assert_eq!(cells.len(), rows.len(), "{cells:?}");
    for row in &rows {
        let key = (row["stack"].clone(), row["workload"].clone());
        let compared = comparisons.get(&key);
        for (name, value) in row.iter().filter(|(name, _)| *name != "not_run") {
            let seen = match OF_COMPARISON.contains(&name.as_str()) {
                true => compared.map_or("", |row| row[name].as_str()),
                false => cells[&key][name].as_str(),
            };
            assert_eq!(seen, value, "{name} of {key:?}");
        }
    }
    hold_comparisons(&report, &comparisons, &view(store, "pair", &record.hash));
    report
}

/// Holds what the CSV does not have of comparisons, and that pairs make up the ratio.
fn hold_comparisons(report: &StudyReport, comparisons: &BTreeMap<Key, Row>, pairs: &[Row]) {
    let text = |number: Option<f64>| number.map(|number| number.to_string()).unwrap_or_default();
    let compared: Vec<_> = report.cells.iter().filter_map(|c| Some((c, c.comparison.as_ref()?))).collect();
    assert_eq!(comparisons.len(), compared.len());
    for (cell, comparison) in compared {
        let key = (cell.stack.to_string(), cell.workload.to_string());
        let ratio = comparison.ratio;
        let change = ratio.and_then(|ratio| ratio.change_interval_percent());
        let bootstrap = comparison.bootstrap.and_then(|ratio| ratio.interval);
        let doubts: Vec<&str> = comparison.doubts.iter().map(|doubt| doubt.words.as_str()).collect();
        let life = cell.lives.as_ref().and_then(|lives| lives.ratio);
        for (name, said) in [
            ("change_percent", text(ratio.map(|ratio| ratio.change_percent()))),
            ("change_low_percent", text(change.map(|i| i.low))),
            ("change_high_percent", text(change.map(|i| i.high))),
            ("bootstrap_low", text(bootstrap.map(|i| i.low))),
            ("bootstrap_high", text(bootstrap.map(|i| i.high))),
            ("life_ratio", text(life.map(|ratio| ratio.value))),
            ("doubts", doubts.join("\n")),
        ] {
            assert_eq!(comparisons[&key][name], said, "{name} of {key:?}");
        }
        // The geometric mean of the pairs' ratios is the ratio.
        let of_cell = pairs.iter().filter(|pair| (&pair["stack"], &pair["workload"]) == (&key.0, &key.1));
        let logarithms: Vec<f64> = of_cell
            .filter(|pair| pair["is_compared"] == "1")
            .map(|pair| pair["ratio"].parse::<f64>().unwrap().ln())
            .collect();
        if let Some(ratio) = ratio.filter(|_| comparison.paired) {
            assert_eq!(logarithms.len(), ratio.pairs, "{key:?}");
            let mean = logarithms.iter().sum::<f64>() / logarithms.len() as f64;
            assert!((mean.exp() / ratio.value - 1.0).abs() < 1e-12, "{key:?}");
        }
    }
}

fn store() -> (TempDir, Store) {
    let folder = TempDir::new().unwrap();
    let store = Store::open(&folder.path().join("results.sqlite")).unwrap();
    (folder, store)
}

/// Runs of one baseline and one candidate under the first workload.
fn two_sided(baseline: &[f64], candidate: &[f64]) -> Vec<CellRecord> {
    let side = |stack: usize, rates: &[f64]| -> Vec<CellRecord> {
        let blocks = rates.iter().zip(0..);
        blocks.map(|(rate, block)| record(STACKS[stack], WORKLOADS[0], block, *rate)).collect()
    };
    // Block by block, as they are measured.
    let (before, after) = (side(0, baseline), side(2, candidate));
    let mut runs: Vec<CellRecord> = before.into_iter().chain(after).collect();
    runs.sort_by_key(|run| run.block);
    runs
}

/// A study of another hash, and its runs.
fn other(hash: &str, name: &str, study: Study, runs: Vec<CellRecord>) -> (StudyRecord, Vec<CellRecord>) {
    let of_it = |run: CellRecord| CellRecord {
        study: Some(name.to_owned()),
        study_hash: Some(hash.to_owned()),
        ..run
    };
    let study = Study { name: name.to_owned(), ..study };
    let record = StudyRecord { hash: hash.to_owned(), study, ..super::fixture::study(3) };
    (record, runs.into_iter().map(of_it).collect())
}

fn fixture_records() -> Vec<CellRecord> {
    study_runs().into_iter().map(|run| run.record).collect()
}

/// Several studies: that of the other tests, which has cells without runs and failed ones; one at another scale with an early stop;
/// one whose cells have one run, failed and inconsistent ones; one whose baseline changes half-way.
fn studies() -> Vec<(StudyRecord, Vec<CellRecord>)> {
    let base = || super::fixture::study(3).study;
    let stops = Study {
        stop: Some(StopRule::default()),
        scale: Some("quick".to_owned()),
        replications: 12,
        ..base()
    };
    let wide = two_sided(&[100.0, 90.0, 110.0, 100.0], &[100.0, 112.0, 95.0, 101.0]);
    let mut doubtful = two_sided(&[50.0], &[60.0, 61.0, 62.0]);
    doubtful[2].marks.push(Mark::Inconsistent { reason: "made up".to_owned() });
    doubtful.push(fixture_records().pop().unwrap());
    let level = |block: u32| (if block < 9 { 100.0 } else { 150.0 }) + f64::from(block % 3);
    let before: Vec<f64> = (0..14).map(level).collect();
    let after: Vec<f64> = (0..14).map(|block| 60.0 + f64::from(block % 4)).collect();
    vec![
        (super::fixture::study(3), fixture_records()),
        other("1111111111111111", "stops", stops, wide),
        other("2222222222222222", "doubtful", base(), doubtful),
        other(
            "3333333333333333",
            "changes",
            Study { replications: 14, ..base() },
            two_sided(&before, &after),
        ),
    ]
}

#[test]
fn the_views_say_what_reports_say_after_every_run() {
    let (_folder, mut store) = store();
    let studies = studies();
    for (record, _) in &studies {
        store.save_study(record).unwrap();
    }
    for (record, runs) in &studies {
        for (place, run) in runs.iter().enumerate() {
            store.keep(run.clone()).unwrap();
            // Each of the smaller ones as it grows; of the largest, whose report takes long, a few.
            if runs.len() < 10 || place % 9 == 0 {
                hold(&store, record);
            }
        }
    }
    for (record, _) in &studies {
        hold(&store, record);
    }
}

#[test]
fn the_made_up_studies_have_what_they_are_made_up_for() {
    let (_folder, mut store) = store();
    for (record, runs) in studies() {
        for run in runs {
            store.insert(&run).unwrap();
        }
        store.save_study(&record).unwrap();
    }
    let texts = |sql: &str| -> String {
        let connection = Connection::open(store.path()).unwrap();
        let mut statement = connection.prepare(sql).unwrap();
        let rows = statement.query_map([], |row| row.get::<_, String>(0)).unwrap();
        rows.map(Result::unwrap).collect::<Vec<_>>().join("\n")
    };
    insta::assert_snapshot!(texts(
        "SELECT study || ' ' || coalesce(scale, '-') || ' ' || count(*) || ' cells, ' || sum(runs) || ' runs, ' || sum(failed) \
         || ' failed, ' || sum(inconsistent) || ' inconsistent, ' || sum(throughput_low IS NOT NULL) || ' intervals' \
         FROM cell GROUP BY study_hash ORDER BY study_hash"
    ), @r"
    made-up - 16 cells, 42 runs, 2 failed, 0 inconsistent, 12 intervals
    stops quick 16 cells, 8 runs, 0 failed, 0 inconsistent, 2 intervals
    doubtful - 16 cells, 3 runs, 1 failed, 1 inconsistent, 0 intervals
    changes - 16 cells, 28 runs, 0 failed, 0 inconsistent, 2 intervals
    ");
    insta::assert_snapshot!(texts(
        "SELECT study || ' ' || coalesce(told, '-') || ' ' || coalesce(decision, '-') || ' ' || coalesce(first_block || '-' || last_block, 'all') \
         || ' ' || count(*) FROM comparison GROUP BY study_hash, told, decision, first_block ORDER BY study_hash, told"
    ), @r"
    made-up - - all 1
    made-up not-told-apart - all 6
    made-up slower - all 5
    stops not-told-apart continue all 1
    doubtful without-interval - all 1
    changes slower - 0-8 1
    ");
    insta::assert_snapshot!(texts(
        "SELECT study || ' ' || count(*) || ' ' || sum(is_compared) FROM pair GROUP BY study_hash ORDER BY study_hash"
    ), @r"
    made-up 30 30
    stops 4 4
    doubtful 1 1
    changes 14 9
    ");
}

#[test]
fn lives_are_in_the_views_as_in_reports() {
    let (_folder, mut store) = store();
    let (record, runs) = lived_study();
    store.save_study(&record).unwrap();
    for run in runs {
        store.keep(run).unwrap();
    }
    let report = hold(&store, &record);
    assert!(report.cells.iter().any(|cell| cell.lives.is_some()));
}

#[test]
fn what_compare_says_is_in_the_views_without_a_study() {
    let (folder, mut store) = store();
    let of_none = |record: CellRecord| CellRecord { study: None, study_hash: None, ..record };
    let mut keep = |blocks: u32| -> Vec<StoredRun> {
        let records =
            [0, 2].into_iter().flat_map(|stack| super::fixture::runs(stack, 0, blocks)).map(of_none);
        records.map(|record| store.keep(record).unwrap()).collect()
    };
    let (runs, fewer) = (keep(3), keep(1));
    let stacks = [STACKS[0], STACKS[2]];
    let study = Study::new("one-off", "", stacks.map(Into::into).to_vec(), vec![WORKLOADS[0].into()]);
    let all = |store: &Store, name: &str| -> Vec<Row> {
        let connection = Connection::open(store.path()).unwrap();
        let mut hashes =
            connection.prepare(&format!("SELECT DISTINCT study_hash FROM {name} ORDER BY 1")).unwrap();
        let hashes = hashes.query_map([], |row| row.get::<_, String>(0)).unwrap();
        hashes.flat_map(|hash| view(store, name, &hash.unwrap())).collect()
    };
    assert!(all(&store, "cell").is_empty(), "runs that nothing says were made together");
    store.save_command(&study, &runs).unwrap();
    store.save_command(&study, &runs).unwrap();
    let (before, after) = (borrowed(&runs[..3]), borrowed(&runs[3..]));
    let said = CompareView::of(&before, &after).unwrap().in_random_order().comparison;
    let (cells, comparisons) = (all(&store, "cell"), all(&store, "comparison"));
    let [row] = comparisons.as_slice() else { panic!("{comparisons:?}") };
    let ratio = said.ratio.unwrap();
    let (interval, bootstrap) = (ratio.interval.unwrap(), said.bootstrap.unwrap().interval.unwrap());
    for (name, number) in [
        ("ratio", ratio.value),
        ("ratio_low", interval.low),
        ("ratio_high", interval.high),
        ("change_percent", ratio.change_percent()),
        ("bootstrap_low", bootstrap.low),
        ("bootstrap_high", bootstrap.high),
    ] {
        assert_eq!(row[name], number.to_string(), "{name}");
    }
    let doubts: Vec<&str> = said.doubts.iter().map(|doubt| doubt.words.as_str()).collect();
    assert_eq!((row["doubts"].as_str(), row["baseline"].as_str()), (doubts.join("\n").as_str(), STACKS[0]));
    assert_eq!((row["study"].as_str(), row["ground"].as_str()), ("", "emulated"));
    let throughput = said.candidate.bytes_per_second.unwrap();
    let cell = cells.iter().find(|row| row["stack"] == STACKS[2]).unwrap();
    assert_eq!((cell["runs"].as_str(), cells.len()), ("3", 2));
    assert_eq!(cell["throughput"], throughput.value.to_string());
    assert_eq!(cell["throughput_low"], throughput.interval.unwrap().low.to_string());
    assert_eq!(all(&store, "pair").len(), 3);
    // Another command is not put together with it, also in a file that both are merged into.
    store.save_command(&study, &fewer).unwrap();
    let mut other = Store::open(&folder.path().join("other.sqlite")).unwrap();
    other.keep(of_none(record(STACKS[1], WORKLOADS[0], 0, 1.0))).unwrap();
    other.merge(store.path()).unwrap();
    other.merge(store.path()).unwrap();
    for name in ["cell", "comparison"] {
        assert_eq!(all(&other, name), all(&store, name), "{name}");
        assert_eq!(all(&other, name).len(), if name == "cell" { 4 } else { 2 });
    }
    let numbers =
        |store: &Store| all(store, "pair").iter().map(|pair| pair["run"].clone()).collect::<Vec<_>>();
    assert_eq!((numbers(&store).len(), numbers(&other).len()), (4, 4));
    assert_ne!(numbers(&store), numbers(&other), "runs have the numbers of their file");
}

#[test]
fn what_compare_says_of_a_saved_baseline_is_in_the_views() {
    let (folder, mut store) = store();
    let of_none = |record: CellRecord| CellRecord { study: None, study_hash: None, ..record };
    let mut keep = |rates: [f64; 3]| -> Vec<StoredRun> {
        let records = (0..).zip(rates).map(|(block, rate)| record(STACKS[0], WORKLOADS[0], block, rate));
        records.map(|record| store.keep(of_none(record)).unwrap()).collect()
    };
    let (saved, runs) = (keep([10e6, 11e6, 12e6]), keep([9e6, 10e6, 11e6]));
    let mut study = Study::new("one-off", "", vec![STACKS[0].into()], vec![WORKLOADS[0].into()]);
    let ids = saved.iter().map(|run| run.id.clone()).collect();
    study.against = Some(SavedBaseline { name: "main".to_owned(), runs: ids });
    store.save_command(&study, &runs).unwrap();
    let said = CompareView::of(&borrowed(&saved), &borrowed(&runs)).unwrap().comparison;
    let day = saved[2].record.started_at.as_str();
    let doubts =
        said.doubts.iter().map(|doubt| doubt.words.clone()).chain([Doubt::of_saved("main", day).words]);
    let doubts = doubts.collect::<Vec<_>>().join("\n");
    let mut other = Store::open(&folder.path().join("other.sqlite")).unwrap();
    other.merge(store.path()).unwrap();
    for file in [&store, &other] {
        let connection = Connection::open(file.path()).unwrap();
        let row = connection.query_row(
            "SELECT stack, baseline, saved_baseline, ratio, doubts FROM comparison",
            [],
            |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?)),
        );
        let expected = (
            STACKS[0].to_owned(),
            STACKS[0].to_owned(),
            "main".to_owned(),
            said.ratio.unwrap().value,
            doubts.clone(),
        );
        assert_eq!(row.unwrap(), expected);
        let cells = connection.query_row("SELECT sum(runs), sum(is_baseline) FROM cell", [], |row| {
            Ok((row.get(0)?, row.get(1)?))
        });
        assert_eq!(cells.unwrap(), (3, 0), "the saved runs are not the command's");
    }
}

/// Runs that came by another way than measuring.
#[test]
fn a_study_is_left_out_until_all_its_runs_are_summed_up() {
    let (folder, mut store) = store();
    let record = super::fixture::study(3);
    store.save_study(&record).unwrap();
    assert_eq!(view(&store, "cell", &record.hash).len(), 16, "cells without runs");
    let runs = fixture_records();
    store.insert(&runs[0]).unwrap();
    for name in ["cell", "comparison", "pair"] {
        assert!(view(&store, name, &record.hash).is_empty(), "{name}");
    }
    // A run that is kept now takes the other one along.
    store.keep(runs[1].clone()).unwrap();
    hold(&store, &record);
    for run in &runs[2..] {
        store.insert(run).unwrap();
    }
    store.sum_up_outdated().unwrap();
    hold(&store, &record);
    // A file that is merged, and one that a program left without doing so.
    let mut other = Store::open(&folder.path().join("other.sqlite")).unwrap();
    other.merge(store.path()).unwrap();
    hold(&other, &record);
    let path = other.path().to_owned();
    other.insert(&CellRecord { block: 7, ..runs[0].clone() }).unwrap();
    drop(other);
    let reopened = Store::open(&path).unwrap();
    hold(&reopened, &record);
    assert_eq!(reopened.numbers(&RunFilter::default()).unwrap().len(), runs.len() + 1);
}

#[test]
fn a_study_that_is_changed_is_summed_up_anew() {
    let (_folder, mut store) = store();
    let record = super::fixture::study(3);
    store.save_study(&record).unwrap();
    for run in fixture_records() {
        store.insert(&run).unwrap();
    }
    store.sum_up_outdated().unwrap();
    hold(&store, &record);
    // More looks: intervals of another confidence.
    let study = Study { stop: Some(StopRule::default()), replications: 12, ..record.study.clone() };
    let stops = StudyRecord { study, ..record };
    store.save_study(&stops).unwrap();
    let report = hold(&store, &stops);
    assert!(report.table().csv().contains("0.99"));
}
