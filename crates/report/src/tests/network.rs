//! What went over a network in what is printed.

use super::fixture::*;
use crate::{RunView, Style, link_table, run_text};
use nestor_link::Sent;
use nestor_results::record::LayerRecord;
use nestor_results::{NetworkRecord, Outcome};
use nestor_statistics::LatencyHistogram;
use nestor_trace::{AccessPattern, CallMetrics, CallTimes, FileAccesses, FrameMetrics, LinkMetrics};

/// Calls of a client and of a server, and the link's counts.
fn network() -> NetworkRecord {
    serde_json::from_value(serde_json::json!({
        "layer": "nfs:vers=3",
        "position": 0,
        "client": {
            "GETATTR": { "calls": 2, "sent_bytes": 184, "received_bytes": 224, "response_ms": 1 },
            "WRITE": { "calls": 4200, "sent_bytes": 4_400_000, "received_bytes": 560_000, "response_ms": 8400 },
        },
        "server": { "GETATTR": { "calls": 2 }, "WRITE": { "calls": 4200 } },
        "to_server": { "frames": 9100, "bytes": 5_000_000, "lost": 3, "refused": 0 },
        "to_client": { "frames": 4202, "bytes": 840_000, "lost": 0, "refused": 0 },
    }))
    .unwrap()
}

#[test]
fn calls_are_shown_by_procedure_and_frames_by_direction() {
    let mut records = runs(0, 1, 1);
    let Outcome::Measured(measured) = &mut records[0].outcome else { panic!("it was measured") };
    measured.networks.push(network());
    let stored = stored(records);
    let view = RunView::of(&borrowed(&stored)).unwrap();
    let text = run_text(&view, Style::plain());
    let from = text.find("  calls of").unwrap();
    insta::assert_snapshot!(text[from..].lines().take(5).collect::<Vec<_>>().join("\n"), @"
    calls of nfs:vers=3  per operation  client  server      sent  received  response
    WRITE                        0.109   4 200   4 200  4.20 MiB   547 KiB   2.00 ms
    GETATTR                      0.000       2       2     184 B     224 B         -
    total                        0.109   4 202
    link: 9 100 frames and 4.77 MiB (3 lost) to the server, 4 202 frames and 820 KiB to the client
    ");
    assert_eq!(view.networks[0].procedures[0].procedure, "WRITE", "the most frequent is first");
}

#[test]
fn a_network_disk_makes_no_calls_and_its_frames_are_shown() {
    let mut records = runs(0, 1, 1);
    let Outcome::Measured(measured) = &mut records[0].outcome else { panic!("it was measured") };
    let disk =
        NetworkRecord { layer: "nbd".into(), client: <_>::default(), server: <_>::default(), ..network() };
    measured.networks.push(disk);
    let stored = stored(records);
    let view = RunView::of(&borrowed(&stored)).unwrap();
    let text = run_text(&view, Style::plain());
    assert!(!text.contains("calls of"), "{text}");
    let from = text.find("  nbd, link").unwrap();
    assert_eq!(
        text[from..].lines().next().unwrap(),
        "  nbd, link: 9 100 frames and 4.77 MiB (3 lost) to the server, 4 202 frames and 820 KiB to the client"
    );
    assert_eq!((view.networks[0].calls, view.networks[0].calls_per_operation), (0, None));
}

#[test]
fn a_record_keeps_what_went_over_networks() {
    let kept = serde_json::to_value(network()).unwrap();
    assert_eq!(serde_json::from_value::<NetworkRecord>(kept).unwrap(), network());
}

fn times(times: &[u64]) -> Option<LatencyHistogram> {
    let mut histogram = LatencyHistogram::default();
    times.iter().for_each(|ns| histogram.record_ns(*ns));
    Some(histogram)
}

#[test]
fn recorded_calls_are_a_row_of_the_layers_and_their_time_is_divided() {
    let mut records = runs(0, 1, 1);
    let Outcome::Measured(measured) = &mut records[0].outcome else { panic!("it was measured") };
    let write = CallTimes {
        calls: 3,
        written_bytes: 3 << 20,
        queue: times(&[1000, 1000, 4000]),
        response: times(&[500_000, 500_000, 800_000]),
        wire: times(&[200_000; 3]),
        server: times(&[300_000, 300_000, 600_000]),
        after: times(&[2000; 3]),
        ..CallTimes::default()
    };
    let commit = CallTimes { calls: 1, response: times(&[9_000_000]), ..CallTimes::default() };
    let procedures = [("WRITE".to_owned(), write), ("COMMIT".to_owned(), commit)].into();
    let writes = AccessPattern {
        accesses: 3,
        bytes: 3 << 20,
        files: 1,
        sizes: [(1 << 20, 2), (1 << 19, 1)].into(),
        sequential: 2,
        seek_mean_bytes: Some(262_144.0),
    };
    let accesses = Some(FileAccesses { writes, ..FileAccesses::default() });
    let calls = CallMetrics { procedures, accesses, dropped_events: 5, ..CallMetrics::default() };
    measured.layers.insert(1, layer("nfs:vers=3", "network file system", "client", None));
    measured.networks.push(NetworkRecord { calls: Some(Box::new(calls)), ..network() });
    let stored = stored(records);
    let view = RunView::of(&borrowed(&stored)).unwrap();
    let row = &view.layers[1];
    assert_eq!((row.layer.as_str(), row.trace_point, row.requests), ("nfs:vers=3", Some("calls"), Some(4)));
    assert_eq!(
        (row.read_bytes, row.write_bytes, row.flushes, row.dropped_events),
        (Some(0), Some(3 << 20), 1, 5)
    );
    assert!(row.times_above.is_some() && row.queue.is_some());
    assert!(row.service.unwrap().p99_ns > 8_900_000);
    let text = run_text(&view, Style::plain());
    let from = text.find("  time of calls of").unwrap();
    insta::assert_snapshot!(text[from..].lines().take(5).collect::<Vec<_>>().join("\n"), @"
    time of calls of nfs:vers=3  calls  read   written    queue  between  server    after  response p50      p99
    WRITE                            3   0 B  3.00 MiB  2.00 us   200 us  400 us  2.00 us        500 us   800 us
    COMMIT                           1   0 B       0 B        -        -       -        -       9.00 ms  9.00 ms
    all                              4   0 B  3.00 MiB  2.00 us   200 us  400 us  2.00 us        500 us  9.00 ms
    5 events of calls are missing: all counts are lower bounds
    ");
    let from = text.find("  files of").unwrap();
    insta::assert_snapshot!(text[from..].lines().take(2).collect::<Vec<_>>().join("\n"), @"
    files of nfs:vers=3 at the server  accesses     bytes  files          most have  sequential  mean distance
    writes                                    3  3.00 MiB      1  1.00 MiB (66.7 %)      66.7 %        256 KiB
    ");
}

/// The numbers of a link's log.
fn frames() -> LinkMetrics {
    LinkMetrics {
        to_server: FrameMetrics {
            sent: Sent { frames: 9100, bytes: 5_000_000, lost: 3, refused: 0 },
            sendings: 700,
            wire_bytes: 5_218_400,
            tcp_bytes: 4_400_000,
            tcp_again_bytes: 2048,
            recovery_ns: 204_000_000,
            busy_ns: 41_747_200,
            queue: times(&[0, 1000, 2000]),
            wire: times(&[700_000, 700_000, 900_000]),
            delivery: None,
        },
        rate_bits_per_s: 1_000_000_000,
        span_s: 0.5,
        dropped: 7,
        ..LinkMetrics::default()
    }
}

/// A run over a link.
pub fn over_a_link() -> RunView {
    let mut records = runs(0, 1, 1);
    let Outcome::Measured(measured) = &mut records[0].outcome else { panic!("it was measured") };
    let link =
        LayerRecord { frames: Some(Box::new(frames())), ..layer("link:rate=1gbit", "link", "client", None) };
    measured.layers.insert(1, link);
    RunView::of(&borrowed(&stored(records))).unwrap()
}

#[test]
fn frames_are_shown_by_direction_and_the_link_is_a_layer() {
    let view = over_a_link();
    let row = &view.layers[1];
    assert_eq!((row.requests, row.bytes, row.trace_point), (Some(9100), Some(5_000_000), Some("frame log")));
    assert_eq!(row.dropped_events, 7);
    insta::assert_snapshot!(link_table(&view.links[0], Style::plain())[1..].join("\n"), @"
    frames of link:rate=1gbit  frames     bytes        rate   busy  queue mean      p50      p99  wire mean     p50     p99
    to the server               9 100  4.77 MiB  4.2 Mbit/s  0.4 %     1.00 us  1.00 us  2.00 us     767 us  700 us  900 us
    to the client                   0       0 B  0.0 Mbit/s  0.0 %           -        -        -          -       -       -
    of the data to the server, TCP sent 2 KiB again; what was lost held it up for 204 ms
    7 frames are missing in the log: all counts are lower bounds
    ");
    let text = run_text(&view, Style::plain());
    assert!(text.contains("frames of link:rate=1gbit"), "{text}");
}

#[test]
fn frames_that_carry_hardly_any_contents_are_no_multiple_of_them() {
    let ratio = |to_server: u64, written: u64| {
        let mut records = runs(0, 1, 1);
        let Outcome::Measured(measured) = &mut records[0].outcome else { panic!("it was measured") };
        let mut logged = frames();
        logged.to_server.sent.bytes = to_server;
        measured.layers.insert(1, layer("nfs:vers=3", "network file system", "client", None));
        let link = LayerRecord { frames: Some(Box::new(logged)), ..layer("link", "link", "client", None) };
        measured.layers.insert(2, link);
        let write = CallTimes { calls: 9, written_bytes: written, ..CallTimes::default() };
        let procedures = [("WRITE".to_owned(), write)].into();
        let calls = CallMetrics { procedures, ..CallMetrics::default() };
        measured.networks.push(NetworkRecord { calls: Some(Box::new(calls)), ..network() });
        let stored = stored(records);
        let view = RunView::of(&borrowed(&stored)).unwrap();
        assert_eq!((view.layers[2].layer.as_str(), view.layers[2].bytes), ("link", Some(to_server)));
        // What lies below a link is held against the contents that went over it.
        let below = &view.layers[3];
        assert_eq!(below.times_above, below.bytes.map(|bytes| bytes as f64 / written as f64));
        view.layers[2].times_above
    };
    assert_eq!(ratio(5_000_000, 4_000_000), Some(1.25));
    assert_eq!(ratio(5_000_000, 500_000), Some(10.0));
    assert_eq!([ratio(5_000_000, 499_999), ratio(599_000, 1000)], [None, None]);
}

#[test]
fn writes_of_a_loop_device_are_shown_where_the_server_has_one() {
    let own = AccessPattern {
        accesses: 4,
        bytes: 4 * 4096,
        files: 1,
        sizes: [(4096, 4)].into(),
        ..AccessPattern::default()
    };
    let kinds = |stack: &str| {
        let mut records = runs(0, 1, 1);
        records[0].stack = stack.into();
        let Outcome::Measured(measured) = &mut records[0].outcome else { panic!("it was measured") };
        let calls = CallMetrics { own_writes: Some(own.clone()), ..CallMetrics::default() };
        measured.networks.push(NetworkRecord { calls: Some(Box::new(calls)), ..network() });
        let stored = stored(records);
        let view = RunView::of(&borrowed(&stored)).unwrap();
        view.networks[0].accesses.iter().map(|row| row.kind).collect::<Vec<_>>()
    };
    assert_eq!(kinds("nfs:vers=3/link/ext2/loop/raw/xfs/hdd"), ["writes of its loop device"]);
    // Runs of an earlier version have whatever was written to XFS.
    assert_eq!(kinds("nfs:vers=3/link/xfs/hdd"), [""; 0]);
}
