//! A made-up store of many runs. The first run of each cell is written as every run is; the others are copies of its rows
//! with numbers of their own, since writing a run takes longer than reading it ever should.

use std::path::Path;

use nestor_results::{CellRecord, Outcome, Store, Study, StudyRecord, TraceMode};
use nestor_statistics::LatencyHistogram;
use nestor_workload::OperationClass;
use rusqlite::Connection;

use super::fixture;

/// The study's name.
pub const NAME: &str = "large";
const FILE_SYSTEMS: [&str; 6] = ["ext2", "ext3", "ext4", "reiserfs", "xfs", "jfs"];
const WORKLOADS: [&str; 8] = [
    "fio:seq-read:scale=0.02",
    "fio:seq-write:scale=0.02",
    "fio:rand-read:scale=0.02",
    "fio:rand-write:scale=0.02",
    "wml:fileserver:scale=0.02",
    "wml:webserver:scale=0.02",
    "wml:mailserver:scale=0.02",
    "wml:dbserver:scale=0.02",
];
/// Classes of operation of a server's script.
const CLASSES: [&str; 7] =
    ["appendfile", "closefile", "createfile", "deletefile", "openfile", "readwholefile", "writewholefile"];
/// What is copied for each run besides its row in `runs`.
const TABLES: [&str; 10] = [
    "samples",
    "operations",
    "layer_metrics",
    "histograms",
    "latencies",
    "request_sizes",
    "environment",
    "marks",
    "loads",
    "conditions",
];

fn stacks() -> Vec<String> {
    let with_guest = |guest: &&str| {
        let raw = ["kvm:cache=writethrough", "kvm"].map(|machine| format!("{guest}/{machine}/hdd:size=8G"));
        let nested =
            FILE_SYSTEMS.map(|host| format!("{guest}/kvm:cache=writethrough/raw/{host}/hdd:size=8G"));
        raw.into_iter().chain(nested).collect::<Vec<_>>()
    };
    FILE_SYSTEMS.iter().flat_map(with_guest).collect()
}

/// The study whose claims and figures are asked of these runs: it has the same guests, hosts and loads.
const PUBLISHED: &str = include_str!("../../../../studies/nested-fs.toml");

fn study(blocks: u32) -> StudyRecord {
    let stacks = stacks();
    let mut study = Study::new(
        NAME,
        "Many made-up runs",
        stacks.iter().map(|stack| stack.as_str().into()).collect(),
        WORKLOADS.map(Into::into).to_vec(),
    );
    let raw = |stack: &str| {
        format!("{}/kvm:cache=writethrough/hdd:size=8G", stack.split('/').next().unwrap_or_default())
    };
    study.baselines = stacks.iter().map(|stack| (stack.as_str().into(), raw(stack).into())).collect();
    study.replications = blocks;
    study.trace = TraceMode::Layers;
    let published = Study::parse("studies/nested-fs.toml", PUBLISHED, None).expect("the published study");
    (study.claims, study.figures) = (published.claims, published.figures);
    let (ground, hash) = ("emulated".into(), study.hash(&"emulated".into()));
    StudyRecord { hash, ground, study, sentinels: false, ended_early: None, sessions: Vec::new() }
}

/// A histogram with as many different latencies as real ones have: 300 over three decades.
fn latencies(operations: u64, place: usize) -> LatencyHistogram {
    let mut histogram = LatencyHistogram::default();
    for i in 0..300_u64 {
        let far = i.abs_diff(120 + place as u64 % 40);
        let count = (operations as f64 / 300.0 * (-(far as f64) / 60.0).exp() * 3.0) as u64 + i % 3;
        histogram.record_many_ns((100_000.0 * 1_000_f64.powf(i as f64 / 300.0)) as u64, count);
    }
    histogram.compacted()
}

/// A run that is as long as real ones are: what is missing is made up by the engine's output.
fn record(hash: &str, stack: &str, workload: &str, place: usize, record_kb: usize) -> CellRecord {
    let mut record = fixture::record(stack, workload, 0, 20.0 + (place * 37 % 61) as f64);
    record.study = Some(NAME.to_owned());
    record.study_hash = Some(hash.to_owned());
    record.position = place as u32;
    for i in 0..30 {
        record.environment.packages.insert(format!("host package-{i}"), format!("1.{i}-1+deb12u3"));
    }
    if let Outcome::Measured(measured) = &mut record.outcome {
        measured.load.operations.values_mut().for_each(|o| o.latency = latencies(o.operations, place));
        if workload.starts_with("wml:") {
            let whole = measured.load.operations.values().next().cloned().unwrap_or_default();
            let classes = CLASSES.map(|class| {
                let mut part = whole.clone();
                part.operations /= CLASSES.len() as u64;
                part.bytes /= CLASSES.len() as u64;
                (OperationClass(class.to_owned()), part)
            });
            measured.load.operations = classes.into();
        }
        let length = serde_json::to_string(&measured).map_or(0, |json| json.len());
        measured.load.engine_output = "x".repeat((record_kb * 1_000).saturating_sub(length));
    }
    record
}

/// Makes a store of at least so many runs, all of one study.
pub fn store(path: &Path, runs: usize, record_kb: usize) {
    let cells = stacks().len() * WORKLOADS.len();
    let blocks = runs.div_ceil(cells) as u32;
    let study = study(blocks);
    let mut store = Store::open(path).expect("a new store");
    store.save_study(&study).expect("a study");
    let pairs = study.study.stacks.iter().flat_map(|s| study.study.workloads.iter().map(move |w| (s, w)));
    for (place, (stack, workload)) in pairs.enumerate() {
        store.insert(&record(&study.hash, stack, workload, place, record_kb)).expect("a run");
    }
    drop(store);
    copy(path, cells, blocks).expect("copies of runs");
    // Sums up all of them, as runs that are kept one by one are.
    Store::open(path).expect("the store again");
}

fn columns(connection: &Connection, table: &str) -> rusqlite::Result<Vec<String>> {
    connection
        .prepare("SELECT name FROM pragma_table_info(?)")?
        .query_map([table], |row| row.get(0))?
        .collect()
}

fn copy(path: &Path, cells: usize, blocks: u32) -> rusqlite::Result<()> {
    let connection = Connection::open(path)?;
    connection
        .execute_batch("PRAGMA synchronous = OFF; PRAGMA journal_mode = OFF; PRAGMA cache_size = -200000;")?;
    let runs = copying(&columns(&connection, "runs")?, "runs", |column| match column {
        "number" => Some("number + ?1".to_owned()),
        "id" => Some("printf('%064x', number + ?1)".to_owned()),
        "block" => Some("?2".to_owned()),
        // A few per cent up and down, part of it the same for all of a block.
        "bytes_per_second" | "operations_per_second" => Some(format!(
            "{column} * (0.95 + 0.001 * (?2 * 37 % 41) + 0.001 * ((?2 * 53 + number * 11) % 61))"
        )),
        _ => None,
    });
    let details = TABLES
        .iter()
        .map(|table| {
            let of_run = |column: &str| (column == "run").then(|| "run + ?1".to_owned());
            Ok((copying(&columns(&connection, table)?, table, of_run), table))
        })
        .collect::<rusqlite::Result<Vec<_>>>()?;
    connection.execute_batch("BEGIN")?;
    for block in 1..blocks {
        let shift = i64::from(block) * cells as i64;
        connection.prepare_cached(&format!("{runs} WHERE number <= ?3"))?.execute((
            shift,
            block,
            cells as i64,
        ))?;
        for (statement, _) in &details {
            connection
                .prepare_cached(&format!("{statement} WHERE run <= ?2"))?
                .execute((shift, cells as i64))?;
        }
    }
    connection.execute_batch("COMMIT")
}

/// `INSERT INTO table SELECT …` with some columns changed.
fn copying(columns: &[String], table: &str, changed: impl Fn(&str) -> Option<String>) -> String {
    let values: Vec<String> = columns.iter().map(|c| changed(c).unwrap_or_else(|| c.clone())).collect();
    format!("INSERT INTO {table} ({}) SELECT {} FROM {table}", columns.join(", "), values.join(", "))
}
