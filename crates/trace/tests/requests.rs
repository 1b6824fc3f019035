//! The requests that are reported besides the numbers, and numbers that older versions stored.

mod common;

use common::{DEVICE, event};
use nestor_trace::event::{Action, BlockEvent, Device, Direction, Flags};
use nestor_trace::layer::LayerAccumulator;
use nestor_trace::{LayerMetrics, Operation, Request, TracePoint};

use Action::{BackMerge, Complete, FrontMerge, GetRequest, Insert, Issue, Queue};

fn requests(events: &[BlockEvent]) -> Vec<Request> {
    let mut accumulator = LayerAccumulator::new(TracePoint::Blktrace, None);
    let mut told = Vec::new();
    let mut sink = |_: Device, request: &Request| told.push(*request);
    for event in events {
        accumulator.push_to(event, &mut sink);
    }
    told
}

#[test]
fn a_request_is_its_first_bios() {
    let of = |pid, event: BlockEvent| BlockEvent { pid, ..event };
    let meta = |event: BlockEvent| BlockEvent { flags: Flags::META, ..event };
    let told = requests(&[
        meta(of(7, event(10, Queue, 16, 8))),
        of(7, event(11, GetRequest, 16, 8)),
        of(8, event(20, Queue, 24, 8)),
        of(8, event(20, BackMerge, 24, 8)),
        of(9, event(30, Queue, 8, 8)),
        of(9, event(30, FrontMerge, 8, 8)),
        of(1, event(40, Insert, 8, 24)),
        of(1, event(50, Issue, 8, 24)),
        of(0, event(90, Complete, 8, 24)),
    ]);
    let [request] = told.as_slice() else { panic!("{told:?}") };
    assert_eq!((request.pid, request.bios, request.flags), (7, 3, Flags::META));
    assert_eq!((request.offset, request.bytes, request.operation), (8 * 512, 24 * 512, Operation::Write));
    assert_eq!((request.queued_ns, request.issued_ns, request.completed_ns), (10_000, 50_000, 90_000));
}

#[test]
fn a_split_makes_two_requests_of_one_bio() {
    let told = requests(&[
        event(10, Queue, 0, 24),
        event(11, Action::Split { new_sector: 16 }, 0, 16),
        event(12, Issue, 0, 16),
        event(13, Issue, 16, 8),
        event(50, Complete, 16, 8),
        event(60, Complete, 0, 16),
    ]);
    let seen: Vec<_> =
        told.iter().map(|r| (r.offset / 512, r.bytes / 512, r.queued_ns, r.bios, r.pid)).collect();
    assert_eq!(seen, [(16, 8, 10_000, 1, 77), (0, 16, 10_000, 1, 77)]);
}

#[test]
fn a_flush_is_for_all_who_asked() {
    let flush = |pid, time_us, action| BlockEvent {
        pid,
        flags: Flags::FLUSH,
        direction: Direction::None,
        ..event(time_us, action, 0, 0)
    };
    let told = requests(&[
        flush(5, 10, Queue),
        flush(6, 12, Queue),
        flush(99, 20, Issue),
        flush(5, 25, Queue),
        flush(0, 40, Complete),
        flush(99, 41, Issue),
        flush(0, 60, Complete),
    ]);
    let seen: Vec<_> =
        told.iter().map(|r| (r.operation, r.pid, r.bios, r.queued_ns, r.issued_ns, r.completed_ns)).collect();
    assert_eq!(
        seen,
        [(Operation::Flush, 5, 2, 10_000, 20_000, 40_000), (Operation::Flush, 5, 1, 25_000, 41_000, 60_000)]
    );
}

#[test]
fn numbers_that_were_stored_earlier_can_still_be_read() {
    let mut accumulator = LayerAccumulator::new(TracePoint::Blktrace, Some(DEVICE));
    for event in [event(0, Queue, 0, 8), event(5, Issue, 0, 8), event(9, Complete, 0, 8)] {
        accumulator.push(&event);
    }
    let now = accumulator.finish(0);
    let mut json = serde_json::to_value(&now).unwrap();
    // The numbers before btt's were added.
    let then = [
        "trace_point",
        "read",
        "write",
        "discard",
        "flushes",
        "fua_writes",
        "q2i",
        "i2d",
        "d2c",
        "q2c",
        "size_histogram",
        "sequential_share",
        "service",
        "dropped_events",
        "span_s",
        "remarks",
    ];
    json.as_object_mut().unwrap().retain(|name, _| then.contains(&name.as_str()));
    let read: LayerMetrics = serde_json::from_value(json).unwrap();
    assert_eq!((&read.d2c, &read.write, read.btt, read.timeline), (&now.d2c, &now.write, None, None));
    assert!(serde_json::to_string(&now).unwrap().len() < 8000);
}
