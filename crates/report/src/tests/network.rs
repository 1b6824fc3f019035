//! What went over a network in what is printed.

use super::fixture::*;
use crate::{RunView, Style, run_text};
use nestor_results::{NetworkRecord, Outcome};

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
    insta::assert_snapshot!(text[from..].lines().take(5).collect::<Vec<_>>().join("\n"), @r"
      calls of nfs:vers=3  per operation  client  server     sent   received  response
      WRITE                        0.109   4 200   4 200  4.2 MiB  546.9 KiB    2.0 ms
      GETATTR                      0.000       2       2    184 B      224 B  500.0 us
      total                        0.109   4 202
      link: 9 100 frames and 4.8 MiB (3 lost) to the server, 4 202 frames and 820.3 KiB to the client
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
        "  nbd, link: 9 100 frames and 4.8 MiB (3 lost) to the server, 4 202 frames and 820.3 KiB to the client"
    );
    assert_eq!((view.networks[0].calls, view.networks[0].calls_per_operation), (0, None));
}

#[test]
fn a_record_keeps_what_went_over_networks() {
    let kept = serde_json::to_value(network()).unwrap();
    assert_eq!(serde_json::from_value::<NetworkRecord>(kept).unwrap(), network());
}
