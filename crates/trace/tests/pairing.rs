//! Known lives of requests and the intervals they must give.

mod common;

use common::event;
use nestor_statistics::LatencyHistogram;
use nestor_trace::event::{Action, BlockEvent, Direction, Flags};
use nestor_trace::layer::LayerAccumulator;
use nestor_trace::layer::pairing::{BioLife, MOST_IN_FLIGHT, Observer, Pairing, RequestLife};
use nestor_trace::{LayerMetrics, TracePoint};
use proptest::prelude::*;

use Action::{BackMerge, Complete, FrontMerge, GetRequest, Insert, Issue, Queue, Requeue};

fn metrics(events: &[BlockEvent]) -> LayerMetrics {
    let mut accumulator = LayerAccumulator::new(TracePoint::Blktrace, None);
    events.iter().for_each(|e| accumulator.push(e));
    accumulator.finish(0)
}

/// Number and mean, in microseconds, of what a histogram holds.
fn of(histogram: &Option<LatencyHistogram>) -> Option<(u64, f64)> {
    let summary = histogram.as_ref()?.summary()?;
    Some((summary.count, (summary.mean_ns / 100.0).round() / 10.0))
}

#[derive(Default)]
struct Lives {
    requests: Vec<RequestLife>,
    bios: Vec<BioLife>,
}

impl Observer for Lives {
    fn request_ended(&mut self, life: &RequestLife) {
        self.requests.push(*life);
    }
    fn bio_ended(&mut self, life: &BioLife) {
        self.bios.push(*life);
    }
    fn flush_ended(&mut self, _: &RequestLife) {}
}

fn lives(events: &[BlockEvent]) -> Lives {
    let (mut pairing, mut lives) = (Pairing::new(), Lives::default());
    events.iter().for_each(|e| pairing.push(e, &mut lives));
    pairing.finish(&mut lives);
    lives
}

#[test]
fn a_plain_request_has_all_intervals() {
    let m = metrics(&[
        event(100, Queue, 8, 8),
        event(101, GetRequest, 8, 8),
        event(103, Insert, 8, 8),
        event(110, Issue, 8, 8),
        event(150, Complete, 8, 8),
    ]);
    assert_eq!((of(&m.q2i), of(&m.i2d)), (Some((1, 3.0)), Some((1, 7.0))));
    assert_eq!((of(&m.q2d), of(&m.d2c), of(&m.q2c)), (Some((1, 10.0)), Some((1, 40.0)), Some((1, 50.0))));
    assert_eq!((m.write.queued, m.write.issued, m.write.completed), (1, 1, 1));
    assert_eq!(m.size_histogram, [(4096, 1)].into());
    assert_eq!(m.remarks, [""; 0]);
}

#[test]
fn without_a_scheduler_there_is_no_insert() {
    let m = metrics(&[event(0, Queue, 8, 8), event(10, Issue, 8, 8), event(50, Complete, 8, 8)]);
    assert_eq!((of(&m.q2i), of(&m.i2d)), (None, None));
    assert_eq!((of(&m.q2d), of(&m.d2c), of(&m.q2c)), (Some((1, 10.0)), Some((1, 40.0)), Some((1, 50.0))));
}

#[test]
fn merged_bios_end_with_the_request_that_took_them() {
    let m = metrics(&[
        event(0, Queue, 8, 8),
        event(0, GetRequest, 8, 8),
        event(10, Queue, 16, 8),
        event(10, BackMerge, 16, 8),
        event(20, Queue, 0, 8),
        event(20, FrontMerge, 0, 8),
        event(30, Insert, 0, 24),
        event(40, Issue, 0, 24),
        event(100, Complete, 0, 24),
    ]);
    assert_eq!((m.write.back_merges, m.write.front_merges), (1, 1));
    assert_eq!(of(&m.q2i), Some((1, 30.0)));
    assert_eq!(of(&m.d2c), Some((1, 60.0)));
    assert_eq!(of(&m.q2c), Some((3, 90.0)));
    assert_eq!(m.remarks, [""; 0]);
}

#[test]
fn merges_that_were_not_recorded_are_found_at_the_issue() {
    let m = metrics(&[
        event(0, Queue, 0, 8),
        event(10, Queue, 8, 8),
        event(20, Issue, 0, 16),
        event(50, Complete, 0, 16),
    ]);
    assert_eq!((of(&m.q2d), of(&m.q2c)), (Some((1, 20.0)), Some((2, 45.0))));
    assert_eq!(m.remarks, [""; 0]);
}

#[test]
fn requests_that_are_merged_into_each_other_are_one() {
    let m = metrics(&[
        event(0, Queue, 0, 8),
        event(0, Insert, 0, 8),
        event(10, Queue, 8, 8),
        event(10, GetRequest, 8, 8),
        event(12, Insert, 8, 8),
        event(13, BackMerge, 8, 8),
        event(20, Issue, 0, 16),
        event(40, Complete, 0, 16),
    ]);
    assert_eq!((of(&m.q2i), of(&m.i2d)), (Some((1, 0.0)), Some((1, 20.0))));
    assert_eq!(of(&m.q2c), Some((2, 35.0)));
}

#[test]
fn a_split_bio_ends_with_its_last_part() {
    let m = metrics(&[
        event(0, Queue, 0, 24),
        event(1, Action::Split { new_sector: 16 }, 0, 16),
        event(2, GetRequest, 0, 16),
        event(3, GetRequest, 16, 8),
        event(10, Issue, 0, 16),
        event(20, Issue, 16, 8),
        event(50, Complete, 16, 8),
        event(90, Complete, 0, 16),
    ]);
    assert_eq!(of(&m.q2d), Some((2, 15.0)));
    assert_eq!(of(&m.d2c), Some((2, 55.0)));
    assert_eq!(of(&m.q2c), Some((1, 90.0)));
    assert_eq!(m.remarks, [""; 0]);
}

#[test]
fn a_split_that_was_not_recorded_is_found_at_the_issue() {
    let m = metrics(&[
        event(0, Queue, 0, 24),
        event(10, Issue, 0, 16),
        event(20, Issue, 16, 8),
        event(50, Complete, 0, 16),
        event(90, Complete, 16, 8),
    ]);
    assert_eq!((of(&m.d2c), of(&m.q2c)), (Some((2, 55.0)), Some((1, 90.0))));
}

#[test]
fn a_requeued_request_is_timed_from_its_last_issue() {
    let m = metrics(&[
        event(0, Queue, 0, 8),
        event(1, Insert, 0, 8),
        event(10, Issue, 0, 8),
        event(12, Requeue, 0, 8),
        event(20, Insert, 0, 8),
        event(30, Issue, 0, 8),
        event(40, Complete, 0, 8),
    ]);
    assert_eq!((of(&m.q2i), of(&m.i2d), of(&m.d2c)), (Some((1, 1.0)), Some((1, 29.0)), Some((1, 10.0))));
    assert_eq!((m.write.issued, m.reissued), (2, 1));
    assert_eq!(
        m.remarks,
        ["1 requests were given back by the driver and issued again, and counted each time"]
    );
}

#[test]
fn a_request_completed_in_parts_ends_with_the_last() {
    let m = metrics(&[
        event(0, Queue, 0, 8),
        event(0, Queue, 8, 8),
        event(0, BackMerge, 8, 8),
        event(10, Issue, 0, 16),
        event(30, Complete, 0, 8),
        event(40, Complete, 8, 8),
    ]);
    assert_eq!((of(&m.d2c), of(&m.q2c)), (Some((1, 30.0)), Some((2, 35.0))));
    assert_eq!(m.remarks, [""; 0]);
}

#[test]
fn fua_by_a_flush_afterwards_ends_with_the_second_completion() {
    let fua = Flags::default().with(Flags::FUA, true).with(Flags::FLUSH, true);
    let flush = |time_us, action| BlockEvent {
        flags: Flags::FLUSH,
        direction: Direction::None,
        ..event(time_us, action, 0, 0)
    };
    let m = metrics(&[
        BlockEvent { flags: fua, ..event(0, Queue, 64, 8) },
        flush(1, Issue),
        flush(11, Complete),
        event(12, Issue, 64, 8),
        event(20, Complete, 64, 8),
        flush(21, Issue),
        flush(31, Complete),
        event(32, Complete, 64, 0),
    ]);
    assert_eq!(
        (of(&m.d2c), of(&m.q2c), of(&m.flush_d2c)),
        (Some((1, 8.0)), Some((1, 32.0)), Some((2, 10.0)))
    );
    assert_eq!((m.flushes, m.flushes_queued, m.fua_writes, m.fua_writes_queued), (2, 1, 0, 1));
    assert_eq!((m.write.completed, m.write.completed_bytes), (1, 4096));
    // Where the cache is off no second completion comes.
    let m = metrics(&[
        BlockEvent { flags: fua, ..event(0, Queue, 64, 8) },
        event(12, Issue, 64, 8),
        event(20, Complete, 64, 8),
    ]);
    assert_eq!(of(&m.q2c), Some((1, 20.0)));
}

#[test]
fn devices_without_requests_have_queue_to_complete_only() {
    let m = metrics(&[event(0, Queue, 0, 8), event(30, Complete, 0, 8)]);
    assert_eq!((of(&m.q2d), of(&m.d2c), of(&m.q2c)), (None, None, Some((1, 30.0))));
    assert_eq!(m.remarks, ["the device issues no requests of its own (device mapper or MD): no D2C"]);
}

#[test]
fn what_the_window_cuts_is_counted_and_not_timed() {
    let m = metrics(&[
        event(0, Complete, 0, 8),
        event(1, Issue, 8, 8),
        event(2, Queue, 16, 8),
        event(3, Queue, 24, 8),
        event(3, Issue, 24, 8),
        event(4, Complete, 8, 8),
    ]);
    assert_eq!((m.write.queued, m.write.issued, m.write.completed), (2, 2, 2));
    assert_eq!((of(&m.d2c), of(&m.q2c)), (Some((1, 3.0)), None));
    insta::assert_snapshot!(m.remarks.join("\n"), @r"
    2 requests were not complete when the trace ended: counted, not timed
    1 requests were queued before the trace began: counted, not timed from Q
    1 completions have no issue in the trace: counted, not timed
    ");
}

#[test]
fn two_requests_of_the_same_sector_are_told_apart_by_order() {
    let read = |e: BlockEvent| BlockEvent { direction: Direction::Read, ..e };
    let m = metrics(&[
        event(0, Queue, 0, 8),
        read(event(5, Queue, 0, 8)),
        event(10, Queue, 0, 8),
        event(20, Issue, 0, 8),
        event(30, Issue, 0, 8),
        read(event(35, Issue, 0, 8)),
        event(40, Complete, 0, 8),
        read(event(45, Complete, 0, 8)),
        event(60, Complete, 0, 8),
    ]);
    // 0→40 and 10→60, 5→45 for the read.
    assert_eq!(of(&m.q2c), Some((3, 43.3)));
    assert_eq!(of(&m.d2c), Some((3, 20.0)));
}

#[test]
fn sequential_is_where_the_one_before_ended() {
    let m = metrics(&[
        event(0, Issue, 0, 8),
        BlockEvent { direction: Direction::Read, ..event(1, Issue, 100, 8) },
        event(2, Issue, 8, 16),
        event(3, Issue, 24, 8),
    ]);
    assert_eq!(m.sequential_share, Some(0.5));
}

#[test]
fn memory_is_bounded_when_nothing_ever_completes() {
    let mut accumulator = LayerAccumulator::new(TracePoint::Blktrace, None);
    for n in 0..(MOST_IN_FLIGHT as u64 + 1000) {
        accumulator.push(&event(n, Queue, n * 8, 8));
    }
    assert_eq!(accumulator.in_flight(), MOST_IN_FLIGHT);
    for n in 0..1000 {
        accumulator.push(&event(n, Queue, 0, 8));
    }
    let m = accumulator.finish(0);
    assert_eq!(m.remarks.iter().filter(|r| r.contains("were given up")).count(), 1);
}

/// Small numbers, so that the events have much to do with each other.
fn any_event() -> impl Strategy<Value = BlockEvent> {
    let action = prop_oneof![
        Just(Queue),
        Just(GetRequest),
        Just(BackMerge),
        Just(FrontMerge),
        Just(Insert),
        Just(Issue),
        Just(Complete),
        Just(Requeue),
        (0..20_u64).prop_map(|new_sector| Action::Split { new_sector }),
    ];
    let direction = prop_oneof![3 => Just(Direction::Write), 1 => Just(Direction::Read)];
    (0..100_u64, action, 0..16_u64, 0..6_u64, direction, any::<bool>()).prop_map(
        |(time_us, action, sector, sectors, direction, fua)| BlockEvent {
            direction,
            flags: Flags::default().with(Flags::FUA, fua),
            ..event(time_us, action, sector, sectors)
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Whatever comes in whatever order: no panic, no bio ends twice, and what is queued has ended or is in flight.
    #[test]
    fn nonsense_is_survived(events in prop::collection::vec(any_event(), 0..200)) {
        let queued = events.iter().filter(|e| e.action == Queue && e.bytes > 0).count();
        let ended = lives(&events);
        prop_assert!(ended.bios.len() <= queued);
        metrics(&events);
    }

    /// Requests of any sizes, merged at random and complete in any order: every bio ends, and for each request the
    /// intervals add up: Q2I + I2D + D2C is the time from the Q of its first bio to its C.
    #[test]
    fn intervals_add_up(
        requests in prop::collection::vec(
            (prop::collection::vec(1..16_u64, 1..6), [1..500_u64, 1..500, 1..500], any::<bool>()), 1..30),
    ) {
        let (mut events, mut bios) = (Vec::new(), 0);
        let mut sector = 0;
        for (sizes, [q2i, i2d, d2c], inserted) in &requests {
            let (first, mut now) = (sector, sector);
            for (index, size) in sizes.iter().enumerate() {
                events.push(event(now, Queue, sector, *size));
                let then = if index == 0 { GetRequest } else { BackMerge };
                events.push(event(now, then, sector, *size));
                sector += size;
                now += 1;
                bios += 1;
            }
            let whole = sector - first;
            now += q2i;
            if *inserted {
                events.push(event(now, Insert, first, whole));
            }
            events.push(event(now + i2d, Issue, first, whole));
            events.push(event(now + i2d + d2c, Complete, first, whole));
            sector += 3;
        }
        events.sort_by_key(|e| e.time_ns);
        let ended = lives(&events);
        prop_assert_eq!(ended.bios.len(), bios);
        prop_assert_eq!(ended.requests.len(), requests.len());
        for life in &ended.requests {
            let at = (life.sector, life.queued_ns.unwrap(), life.issued_ns.unwrap());
            let (queued, issued) = (at.1, at.2);
            prop_assert_eq!(queued, at.0 * 1000);
            let q2d = match life.inserted_ns {
                Some(inserted) => (inserted - queued) + (issued - inserted),
                None => issued - queued,
            };
            prop_assert_eq!(q2d + (life.completed_ns - issued), life.completed_ns - queued);
        }
        let m = metrics(&events);
        let mean = |h: &Option<LatencyHistogram>| h.as_ref().and_then(LatencyHistogram::summary).map_or(0.0, |s| s.mean_ns * s.count as f64);
        let first_q2c: u64 = ended.requests.iter().map(|l| l.completed_ns - l.queued_ns.unwrap()).sum();
        let sum = mean(&m.q2d) + mean(&m.d2c);
        prop_assert!((sum / first_q2c as f64 - 1.0).abs() < 1e-3, "{sum} {first_q2c}");
    }
}
