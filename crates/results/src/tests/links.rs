//! What went over links, in the tables.

use nestor_link::Sent;
use std::collections::BTreeMap;

use nestor_statistics::LatencyHistogram;
use nestor_trace::{AccessPattern, CallMetrics, CallTimes, FileAccesses, FrameMetrics, LinkMetrics};
use rusqlite::Connection;
use tempfile::TempDir;

use super::fixture::*;
use crate::record::{CellRecord, LayerRecord, Outcome};
use crate::store::of_version;
use crate::{NetworkRecord, Store};

/// Calls whose times were recorded.
fn calls() -> CallMetrics {
    let times = |ns| {
        let mut times = LatencyHistogram::default();
        times.record_many_ns(ns, 4);
        Some(times)
    };
    let write = CallTimes {
        calls: 4,
        written_bytes: 16384,
        server: times(3000),
        after: None,
        ..CallTimes::default()
    };
    let writes = AccessPattern {
        accesses: 4,
        bytes: 16384,
        files: 1,
        sizes: BTreeMap::from([(4096, 3), (2048, 1)]),
        sequential: 2,
        seek_mean_bytes: Some(512.5),
    };
    CallMetrics {
        procedures: BTreeMap::from([("WRITE".to_owned(), write)]),
        accesses: Some(FileAccesses { writes, ..FileAccesses::default() }),
        dropped_events: 2,
        ..CallMetrics::default()
    }
}

/// A run over a link that lost and refused some of what it carried.
fn over_a_link() -> CellRecord {
    let mut run = record("nfs/link/ext3/hdd", 0, MIB);
    let Outcome::Measured(measured) = &mut run.outcome else { panic!("it was measured") };
    let sent = Sent { frames: 1000, bytes: 1_400_000, lost: 3, refused: 2 };
    let mut wire = nestor_statistics::LatencyHistogram::default();
    wire.record_many_ns(12_304, 900);
    let to_server = FrameMetrics {
        sent: sent.clone(),
        sendings: 900,
        wire_bytes: 1_424_000,
        tcp_bytes: 1_334_000,
        busy_ns: 11_392_000,
        wire: Some(wire),
        ..FrameMetrics::default()
    };
    let frames = LinkMetrics { to_server, span_s: 2.0, dropped: 9, ..LinkMetrics::default() };
    measured
        .layers
        .insert(2, LayerRecord { frames: Some(Box::new(frames)), ..layer("link", "link", "client", None) });
    measured.networks.push(NetworkRecord {
        layer: "nfs".to_owned(),
        to_server: sent,
        calls: Some(Box::new(calls())),
        ..NetworkRecord::default()
    });
    run
}

#[test]
fn refused_frames_and_the_numbers_of_a_log_are_in_tables() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("results.sqlite");
    Store::open(&path).unwrap().insert(&over_a_link()).unwrap();
    let tables = Connection::open(&path).unwrap();
    let counted: (i64, i64, i64) = tables
        .query_row("SELECT frames, lost, refused FROM links WHERE toward = 'server'", [], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })
        .unwrap();
    assert_eq!(counted, (1000, 3, 2));
    let logged: (i64, i64, f64, Option<i64>, i64) = tables
        .query_row(
            "SELECT depth, sendings, bits_per_second, queue_p50_ns, dropped FROM frames WHERE toward = 'server'",
            [],
            |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?)),
        )
        .unwrap();
    assert_eq!(logged, (2, 900, 1_139_200.0, None, 9));
    let wire_ns: i64 = tables
        .query_row(
            "SELECT wire_p99_ns FROM frames JOIN runs ON run = number WHERE wire_mean_ns > 0",
            [],
            |row| row.get(0),
        )
        .unwrap();
    assert!((wire_ns - 12_304).abs() < 100, "{wire_ns}");
}

#[test]
fn the_times_of_calls_are_in_a_table_by_procedure() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("results.sqlite");
    Store::open(&path).unwrap().insert(&over_a_link()).unwrap();
    let tables = Connection::open(&path).unwrap();
    let kept: (i64, String, i64, i64, i64, Option<i64>, i64) = tables
        .query_row(
            "SELECT depth, procedure, calls, written_bytes, server_p50_ns, after_p50_ns, dropped FROM call_times",
            [],
            |row| {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?, row.get(5)?, row.get(6)?))
            },
        )
        .unwrap();
    assert!((kept.4 - 3000).abs() < 10, "{kept:?}");
    assert_eq!((kept.0, kept.1.as_str(), kept.2, kept.3, kept.5, kept.6), (1, "WRITE", 4, 16384, None, 2));
}

#[test]
fn where_a_server_wrote_in_files_is_in_tables() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("results.sqlite");
    Store::open(&path).unwrap().insert(&over_a_link()).unwrap();
    let tables = Connection::open(&path).unwrap();
    let all = "SELECT depth, accesses, bytes, files, sequential, seek_mean_bytes, dropped FROM file_accesses";
    let kept: (i64, i64, i64, i64, i64, Option<f64>, i64) = tables
        .query_row(&format!("{all} WHERE kind = 'write'"), [], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?, row.get(5)?, row.get(6)?))
        })
        .unwrap();
    assert_eq!(kept, (1, 4, 16384, 1, 2, Some(512.5), 2));
    let large = "SELECT sum(accesses) FROM file_access_sizes WHERE kind = 'write' AND size_bytes >= 4096";
    let large: i64 = tables.query_row(large, [], |row| row.get(0)).unwrap();
    assert_eq!(large, 3);
}

#[test]
fn a_record_without_a_log_has_the_text_that_it_had() {
    let text = serde_json::to_string(&record("ext3/kvm/hdd", 0, MIB)).unwrap();
    assert!(!text.contains("\"frames\""), "{text}");
    let without = serde_json::to_string(&NetworkRecord::default()).unwrap();
    assert!(!without.contains("\"calls\""), "{without}");
    let run = over_a_link();
    let read: CellRecord = serde_json::from_str(&serde_json::to_string(&run).unwrap()).unwrap();
    assert_eq!(read, run);
}

#[test]
fn of_links_in_a_file_of_version_9_it_is_not_known_what_was_refused() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("old.sqlite");
    let old = Connection::open(&path).unwrap();
    of_version(&old, 9).unwrap();
    let columns =
        "number, id, stack, workload, block, repeat, position, started_at, cell_s, outcome, ground, record";
    let run = format!(
        "INSERT INTO runs ({columns}) VALUES (1, 'a', 's', 'w', 0, 0, 0, 't', 1.0, 'measured', 'g', '{{}}')"
    );
    old.execute(&run, []).unwrap();
    old.execute("INSERT INTO links VALUES (1, 1, 'server', 5, 300, 1)", []).unwrap();
    drop(old);
    drop(Store::open(&path).unwrap());
    let tables = Connection::open(&path).unwrap();
    let kept: (i64, i64, Option<i64>) = tables
        .query_row("SELECT frames, lost, refused FROM links", [], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })
        .unwrap();
    assert_eq!(kept, (5, 1, None));
    let count: i64 = tables.query_row("SELECT count(*) FROM frames", [], |row| row.get(0)).unwrap();
    assert_eq!(count, 0);
}
