//! The file of results: what goes in comes out, whatever happens around it.

use std::path::PathBuf;

use proptest::prelude::*;
use rusqlite::Connection;
use tempfile::TempDir;

use super::fixture::*;
use super::judged::recorded;
use crate::StackPart;
use crate::record::{CellRecord, Mark, Outcome};
use crate::{CellFailure, FailureCause, MergeReport, RunFilter, Store, Study, StudyRecord, TraceMode};

struct Place {
    folder: TempDir,
}

impl Place {
    fn new() -> Self {
        Self { folder: TempDir::new().unwrap() }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The message for the file, without the folder's random name.
    fn error<T: std::fmt::Debug>(&self, result: Result<T, crate::StoreError>) -> String {
        result.unwrap_err().to_string().replace(&self.folder.path().display().to_string(), "DIR")
    }
}

#[test]
fn a_baseline_keeps_its_runs_until_others_take_its_name() {
    let place = Place::new();
    let mut store = Store::open(&place.file("results.db")).unwrap();
    let runs: Vec<i64> = (0..3).map(|block| store.insert(&record("ext4/hdd", block, MIB)).unwrap()).collect();
    assert!(store.baseline("main").unwrap().is_empty());
    store.save_baseline("main", &runs[..2]).unwrap();
    store.save_baseline("next", &runs[2..]).unwrap();
    let saved = |store: &Store, name| -> Vec<i64> {
        store.baseline(name).unwrap().iter().map(|run| run.number).collect()
    };
    assert_eq!(saved(&store, "main"), runs[..2]);
    store.save_baseline("main", &runs[1..]).unwrap();
    assert_eq!((saved(&store, "main"), saved(&store, "next")), (runs[1..].to_vec(), runs[2..].to_vec()));
    assert_eq!(store.baseline_names().unwrap(), ["main", "next"]);
    assert!(store.save_baseline("main", &[77]).is_err(), "no run has this number");
    assert_eq!(saved(&store, "main"), runs[1..], "and what was saved stays");
}

#[test]
fn a_run_comes_back_as_it_was_and_is_spread_for_queries() {
    let place = Place::new();
    let mut store = Store::open(&place.file("new/results.db")).unwrap();
    let mut written = record("ext3/kvm/hdd", 0, 64 * MIB);
    written.marks = vec![Mark::EmulatedCpu, Mark::Cached { reason: "too small".to_owned() }];
    let number = store.insert(&written).unwrap();
    assert_eq!(store.run(number).unwrap().record, written);
    assert_eq!(store.latest().unwrap(), Some(number));
    let connection = Connection::open(store.path()).unwrap();
    let count = |table: &str| -> i64 {
        connection.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap()
    };
    let tables = [
        "samples",
        "operations",
        "latencies",
        "layer_metrics",
        "histograms",
        "request_sizes",
        "environment",
        "marks",
    ];
    assert_eq!(tables.map(count), [10, 1, 1, 4, 10, 2, 4, 2]);
    let amplification: f64 = connection
        .query_row(
            "SELECT CAST(d.write_issued_bytes AS REAL) / o.bytes FROM layer_metrics d JOIN operations o USING (run) \
             WHERE d.layer = 'hdd' AND d.d2c_p50_ns BETWEEN 6990 AND 7010",
            [],
            |row| row.get(0),
        )
        .unwrap();
    assert!((amplification - 66.0 / 64.0).abs() < 1e-9);
}

#[test]
fn remarks_are_found_where_settings_are() {
    let place = Place::new();
    let mut store = Store::open(&place.file("r.db")).unwrap();
    let mut written = record("a", 0, MIB);
    written.environment.remarks = vec!["first".to_owned(), "second".to_owned()];
    written.environment.place_remark = Some("slow".to_owned());
    let number = store.insert(&written).unwrap();
    assert_eq!(store.run(number).unwrap().record, written);
    let sql = "SELECT group_concat(name || ': ' || value, '; ') FROM environment WHERE kind = 'setting' AND name LIKE 'remark%'";
    let found: String = Connection::open(store.path()).unwrap().query_row(sql, [], |row| row.get(0)).unwrap();
    assert_eq!(found, "remark 1: first; remark 2: second; remark on the place: slow");
}

#[test]
fn the_same_run_is_kept_once() {
    let place = Place::new();
    let mut store = Store::open(&place.file("r.db")).unwrap();
    let first = store.insert(&record("a", 0, MIB)).unwrap();
    let second = store.insert(&record("b", 0, MIB)).unwrap();
    assert_eq!(store.insert(&record("a", 0, MIB)).unwrap(), first);
    assert_eq!(store.numbers(&RunFilter::default()).unwrap(), [first, second]);
}

#[test]
fn a_number_that_is_none_is_refused_whole() {
    let place = Place::new();
    let mut store = Store::open(&place.file("r.db")).unwrap();
    let mut broken = record("a", 0, MIB);
    if let Outcome::Measured(measured) = &mut broken.outcome {
        measured.host_cpu_busy = f64::NAN;
    }
    let message = store.insert(&broken).unwrap_err().to_string();
    assert!(message.starts_with("the result cannot be stored: a number in it is not finite"), "{message}");
    assert_eq!(store.numbers(&RunFilter::default()).unwrap(), [0; 0]);
}

#[test]
fn failures_are_tried_again_and_the_latest_counts() {
    let place = Place::new();
    let mut store = Store::open(&place.file("r.db")).unwrap();
    store.insert(&failed("a", 0, "the guest died")).unwrap();
    store.insert(&failed("b", 0, "no room")).unwrap();
    assert!(store.finished("0123456789abcdef").unwrap().is_empty());
    let again = store.insert(&record("a", 0, MIB)).unwrap();
    let finished = store.finished("0123456789abcdef").unwrap();
    assert_eq!(finished.iter().map(|k| k.stack.as_str()).collect::<Vec<_>>(), ["a"]);
    let latest = RunFilter { latest_only: true, ..RunFilter::default() };
    assert_eq!(store.numbers(&latest).unwrap(), [2, again]);
    let of_a = RunFilter { stack: Some("a".into()), ground: Some("emulated".into()), ..RunFilter::default() };
    let listing = store.list(&of_a).unwrap();
    assert_eq!(listing.len(), 2);
    assert_eq!((listing[0].number, listing[1].failure.as_deref()), (again, Some("the guest died")));
    assert_eq!(store.usual_cell_s(&"emulated".into()).unwrap(), Some(12.5));
    assert_eq!(store.usual_cell_s(&"this".into()).unwrap(), None);
}

#[test]
fn a_run_that_repeats_another_in_virtual_time_is_no_second_sample() {
    let place = Place::new();
    let mut store = Store::open(&place.file("r.db")).unwrap();
    let run = |depends_on: Option<&str>, started: u32| {
        let mut run = CellRecord { study_hash: None, study: None, ..record("ext4/hdd", started, MIB) };
        run.block = 0;
        run.environment.depends_on = depends_on.map(str::to_owned);
        run
    };
    let seeds = [Some("seed 1"), Some("seed 2"), Some("seed 1"), None, None];
    for (at, seed) in (0..).zip(seeds) {
        store.insert(&run(seed, at)).unwrap();
    }
    store
        .insert(&CellRecord { outcome: failed("ext4/hdd", 0, "lost").outcome, ..run(Some("seed 2"), 9) })
        .unwrap();
    let latest = RunFilter { latest_only: true, ..RunFilter::default() };
    // Runs in real time depend on more than is known, and a failure repeats nothing.
    assert_eq!(store.numbers(&latest).unwrap(), [2, 3, 4, 5, 6]);
    let cells = store.known("emulated").unwrap().cells;
    assert_eq!(cells.iter().map(|cell| cell.runs.clone()).collect::<Vec<_>>(), [[2, 3, 4, 5]]);
}

#[test]
fn files_merge_without_clashes() {
    let place = Place::new();
    let mut ours = Store::open(&place.file("ours.db")).unwrap();
    let mut theirs = Store::open(&place.file("theirs.db")).unwrap();
    for (store, stacks) in [(&mut ours, ["a", "b"]), (&mut theirs, ["b", "c"])] {
        for stack in stacks {
            store.insert(&record(stack, 0, MIB)).unwrap();
        }
    }
    theirs.save_study(&study("0123456789abcdef")).unwrap();
    assert_eq!(ours.merge(theirs.path()).unwrap(), merged(1, 1));
    assert_eq!(ours.merge(theirs.path()).unwrap(), merged(0, 2));
    let stacks: Vec<_> =
        ours.runs(&RunFilter::default()).unwrap().into_iter().map(|r| r.record.stack).collect();
    assert_eq!(stacks, ["a", "b", "c"]);
    assert_eq!(ours.studies().unwrap(), [study("0123456789abcdef")]);
}

fn merged(added: usize, known: usize) -> MergeReport {
    MergeReport { added, known, ..MergeReport::default() }
}

#[test]
fn merging_says_whether_another_machine_measured_the_same() {
    let place = Place::new();
    let run = |seed: Option<&str>, started: u32, bytes: u64| {
        let mut run = CellRecord { study_hash: None, study: None, ..record("ext4/hdd", started, bytes) };
        run.environment.depends_on = seed.map(str::to_owned);
        run
    };
    let mut ours = Store::open(&place.file("ours.db")).unwrap();
    let mut theirs = Store::open(&place.file("theirs.db")).unwrap();
    for (seed, bytes) in [(Some("1"), MIB), (Some("2"), MIB), (None, MIB)] {
        ours.insert(&run(seed, 0, bytes)).unwrap();
    }
    // One as here, one unlike it, one of real time, and two that are alike only there.
    for (at, (seed, bytes)) in (1..).zip([
        (Some("1"), MIB),
        (Some("2"), 2 * MIB),
        (None, 2 * MIB),
        (Some("3"), MIB),
        (Some("3"), MIB),
    ]) {
        theirs.insert(&run(seed, at, bytes)).unwrap();
    }
    let report = ours.merge(theirs.path()).unwrap();
    assert_eq!((report.added, report.known, report.repeated), (5, 0, 1));
    let [unlike] = &report.unlike[..] else { panic!("{:?}", report.unlike) };
    assert_eq!((unlike.here, unlike.taken_over), (2, 5));
    assert!(unlike.differences[0].starts_with('/'), "{:?}", unlike.differences);
    assert_eq!(ours.merge(theirs.path()).unwrap(), merged(0, 5));
}

fn study(hash: &str) -> StudyRecord {
    let study = Study {
        sentinels: None,
        trace: TraceMode::Layers,
        ..Study::new("made-up", "Made up", vec!["a".into()], vec!["w".into()])
    };
    recorded(hash, study)
}

#[test]
fn a_study_is_replaced_by_its_later_state() {
    let place = Place::new();
    let mut store = Store::open(&place.file("r.db")).unwrap();
    store.save_study(&study("1")).unwrap();
    let ended = StudyRecord { ended_early: Some("budget of 5 min ended".to_owned()), ..study("1") };
    store.save_study(&ended).unwrap();
    assert_eq!(store.study("1").unwrap(), Some(ended));
    assert_eq!(store.study("2").unwrap(), None);
}

#[test]
fn two_writers_at_once_lose_nothing() {
    let place = Place::new();
    let path = place.file("r.db");
    let writers: Vec<_> = (0..2)
        .map(|writer| {
            let path = path.clone();
            std::thread::spawn(move || {
                let mut store = Store::open(&path).unwrap();
                for block in 0..20 {
                    store.insert(&record(&format!("stack-{writer}"), block, MIB)).unwrap();
                }
            })
        })
        .collect();
    for writer in writers {
        writer.join().unwrap();
    }
    assert_eq!(Store::open_read_only(&path).unwrap().numbers(&RunFilter::default()).unwrap().len(), 40);
}

#[test]
fn foreign_damaged_and_newer_files_are_refused_untouched() {
    let place = Place::new();
    let text = place.file("notes.txt");
    std::fs::write(&text, "these are somebody's notes, not a database at all\n".repeat(50)).unwrap();
    insta::assert_snapshot!(place.error(Store::open(&text)), @r"
    DIR/notes.txt is not a results file of Nestor
      name another file; this one was not changed
    ");
    assert!(std::fs::read_to_string(&text).unwrap().starts_with("these are"));
    let foreign = place.file("foreign.db");
    Connection::open(&foreign).unwrap().execute_batch("CREATE TABLE t (x)").unwrap();
    let before = std::fs::read(&foreign).unwrap();
    insta::assert_snapshot!(place.error(Store::open(&foreign)), @r"
    DIR/foreign.db is not a results file of Nestor
      name another file; this one was not changed
    ");
    assert_eq!(std::fs::read(&foreign).unwrap(), before);
    let newer = place.file("newer.db");
    drop(Store::open(&newer).unwrap());
    Connection::open(&newer).unwrap().pragma_update(None, "user_version", 99).unwrap();
    insta::assert_snapshot!(place.error(Store::open_read_only(&newer)), @"
    the results file DIR/newer.db was written by a newer Nestor (version 99 of the tables; this one knows 24)
      use that Nestor, or name another file
    ");
}

#[test]
fn a_damaged_file_is_called_damaged() {
    let place = Place::new();
    let path = place.file("r.db");
    let mut store = Store::open(&path).unwrap();
    store.insert(&record("a", 0, MIB)).unwrap();
    drop(store);
    let mut bytes = std::fs::read(&path).unwrap();
    let length = bytes.len();
    bytes[4096..length].fill(0x5a);
    std::fs::write(&path, bytes).unwrap();
    let message = place.error(Store::open_read_only(&path).and_then(|s| s.runs(&RunFilter::default())));
    assert!(message.starts_with("the results file DIR/r.db is damaged"), "{message}");
}

#[test]
fn what_is_not_there_is_told() {
    let place = Place::new();
    insta::assert_snapshot!(place.error(Store::open_read_only(&place.file("none.db"))), @r"
    the results file DIR/none.db does not exist
      run something first, or name another file
    ");
    let mut store = Store::open(&place.file("r.db")).unwrap();
    insta::assert_snapshot!(place.error(store.run(3)), @"no run 3 in the results file DIR/r.db: it has no runs yet");
    store.insert(&record("a", 0, MIB)).unwrap();
    insta::assert_snapshot!(place.error(store.run(3)), @"no run 3 in the results file DIR/r.db: its runs are numbered 1 to 1");
    std::fs::write(place.file("plain"), "").unwrap();
    let message = place.error(Store::open(&place.file("plain/r.db")));
    assert!(message.starts_with("cannot open the results file DIR/plain/r.db: "), "{message}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_record_reads_back_equal(
        texts in proptest::array::uniform4("\\PC{0,20}"),
        numbers in proptest::array::uniform4(any::<u64>()),
        reals in proptest::array::uniform3(proptest::num::f64::NORMAL | proptest::num::f64::ZERO),
        latencies in proptest::collection::vec(1_u64..1 << 41, 0..20),
        fails in any::<bool>(),
    ) {
        let mut written = record(&texts[0], numbers[0] as u32, MIB);
        written.environment.settings.insert(texts[1].clone(), texts[2].clone());
        written.cell_s = reals[0];
        written.marks = vec![Mark::CpuBound { machine: texts[1].as_str().into(), busy: reals[1], modelled: None }];
        if let Outcome::Measured(measured) = &mut written.outcome {
            measured.host_cpu_busy = reals[2];
            measured.load.engine_output = texts[3].clone();
            let result = measured.load.operations.values_mut().next().unwrap();
            result.bytes = numbers[1];
            for latency_ns in latencies {
                result.latency.record_ns(latency_ns);
            }
            let metrics = measured.layers[1].metrics.as_mut().unwrap();
            metrics.write.issued_bytes = numbers[2];
            metrics.size_histogram.insert(numbers[3], 1);
        }
        if fails {
            written.outcome = Outcome::Failed(CellFailure::new(FailureCause::Other, texts[3].clone()));
        }
        let place = Place::new();
        let mut store = Store::open(&place.file("r.db")).unwrap();
        let number = store.insert(&written).unwrap();
        let back = store.run(number).unwrap();
        prop_assert_eq!(&back.record, &written);
        prop_assert_eq!(back.id, written.content_id().unwrap());
    }
}

#[test]
fn what_is_known_is_condensed_for_predictions() {
    let folder = TempDir::new().unwrap();
    let mut store = Store::open(&folder.path().join("r.sqlite")).unwrap();
    for block in 0..3 {
        store.insert(&record("ext3/kvm/raw/jfs/hdd", block, (10 + u64::from(block)) * MIB)).unwrap();
    }
    store.insert(&failed("ext3/kvm/hdd", 0, "the disk is full")).unwrap();
    let known = store.known("emulated").unwrap();
    let [cell] = known.cells.as_slice() else { panic!("{:?}", known.cells) };
    assert_eq!((cell.stack.as_str(), cell.runs.len()), ("ext3/kvm/raw/jfs/hdd", 3));
    let middle = 11.0 * MIB as f64 / 10.0;
    assert!((cell.bytes_per_second / middle - 1.0).abs() < 0.01, "{cell:?}");
    assert!(cell.deviation.unwrap() > 0.05 && cell.response_s.is_some(), "{cell:?}");
    let load = &known.loads["fio:seq-write"];
    assert_eq!((load.read_share, load.workers), (0.0, 255));
    assert!((load.random_share - 0.5).abs() < 1e-9 && load.mean_bytes == 4096.0, "{load:?}");
    assert_eq!(known.unsettled_cells, 0);
    // Runs that had not settled count where there are no others.
    let unsteady = |stack: &str, block: u32| CellRecord {
        marks: vec![Mark::NotSteady { reason: "it rises".to_owned() }],
        ..record(stack, block, 40 * MIB)
    };
    store.insert(&unsteady("ext3/kvm/raw/jfs/hdd", 3)).unwrap();
    store.insert(&unsteady("ext3/kvm/raw/xfs/hdd", 0)).unwrap();
    let known = store.known("emulated").unwrap();
    let runs: Vec<usize> = known.cells.iter().map(|cell| cell.runs.len()).collect();
    assert_eq!((runs.as_slice(), known.unsettled_cells), ([3, 1].as_slice(), 1));
    // A stack that was never run has the same parts by the same rule.
    let parts_of = |stack: &str| crate::stack_parts(&stack.into());
    let parts = parts_of("ext3/kvm/raw/jfs/hdd");
    assert_eq!(known.stacks["ext3/kvm/raw/jfs/hdd"], parts);
    assert_eq!(
        (parts[&StackPart::GuestFileSystem].as_str(), parts[&StackPart::HostFileSystem].as_str()),
        ("ext3", "jfs")
    );
    assert_eq!(parts_of("ext3/kvm:memory=1G/hdd")[&StackPart::GuestMemory], "1073741824");
    let medium = parts_of("ext3/kvm/raid0:raid0-5x10k:size=3G:sched=bfq");
    assert_eq!(
        (medium[&StackPart::Medium].as_str(), medium[&StackPart::MediumSize].as_str()),
        ("raid0:raid0-5x10k", "3221225472")
    );
    // What is below a loop device, and below the second file system, makes another stack.
    let other = |stack: &str| parts_of(stack)[&StackPart::OtherLayers].clone();
    assert_eq!((other("ext4/hdd"), other("ext4/kvm/raw/xfs/hdd")), (String::new(), String::new()));
    assert_eq!(other("ext4/loop/raw/xfs/hdd"), "loop/raw/xfs");
    assert_eq!(other("ext4/kvm/qcow2/xfs/kvm/raw/ext4/hdd"), "kvm/raw/ext4");
}

#[test]
fn latencies_of_cells_are_read_from_the_summaries_until_there_is_another_run() {
    let place = Place::new();
    let path = place.file("summed.db");
    let mut store = Store::open(&path).unwrap();
    let stack = "ext3/kvm/hdd";
    let study = Study::new("made-up", "", vec![stack.into()], vec!["fio:seq-write".into()]);
    let kept = recorded("0123456789abcdef", study);
    store.save_study(&kept).unwrap();
    store.keep(record(stack, 0, MIB)).unwrap();
    let p99_ns = |store: &Store| store.cells(&kept.hash).unwrap()[0].latency["write"].p99_ns;
    let of_one = p99_ns(&store);
    let change = "UPDATE cell_latencies SET p99_ns = 7";
    Connection::open(&path).unwrap().execute(change, []).unwrap();
    assert_eq!(p99_ns(&store), 7);
    // Until the second run is in the summaries, the runs themselves are read.
    store.insert(&record(stack, 1, 2 * MIB)).unwrap();
    let of_both = p99_ns(&store);
    assert!(of_both != 7 && of_both >= of_one / 2, "{of_both} {of_one}");
    store.sum_up_outdated().unwrap();
    assert_eq!(p99_ns(&store), of_both);
    let rows: i64 = Connection::open(&path)
        .unwrap()
        .query_row("SELECT operations FROM cell_latencies", [], |row| row.get(0))
        .unwrap();
    assert_eq!(rows.cast_unsigned(), 3 * MIB / 4096);
}
