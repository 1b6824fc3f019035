//! Known answers and properties of plans.

use nestor_trace::Operation;
use nestor_trace::event::{Action, BlockEvent, Device, Direction, Flags};
use proptest::prelude::*;

use super::*;
use crate::error::ReplayError;

const DISK: Device = Device { major: 8, minor: 0 };
const PART: Device = Device { major: 8, minor: 1 };
const OTHER: Device = Device { major: 8, minor: 16 };

fn event(time_us: u64, action: Action, direction: Direction, sector: u64, sectors: u64) -> BlockEvent {
    BlockEvent {
        time_ns: 7_000_000_000 + time_us * 1000,
        sequence: 0,
        cpu: 0,
        pid: 10,
        device: DISK,
        action,
        direction,
        flags: Flags::default(),
        sector,
        bytes: sectors * 512,
        error: 0,
    }
}

fn flagged(event: BlockEvent, flags: Flags) -> BlockEvent {
    BlockEvent { flags, ..event }
}

fn plan(events: &[BlockEvent], options: PlanOptions) -> Result<ReplayPlan, ReplayError> {
    let mut builder = PlanBuilder::new(options);
    events.iter().for_each(|event| builder.push(event));
    builder.finish("t")
}

fn usual(events: &[BlockEvent]) -> ReplayPlan {
    plan(events, PlanOptions::default()).unwrap()
}

fn from(stage: Stage) -> PlanOptions {
    PlanOptions { from: Some(stage), ..PlanOptions::default() }
}

/// (microseconds, completed, sector, sectors, operation)
fn rows(plan: &ReplayPlan) -> Vec<(u64, Option<u64>, u64, u32, Operation)> {
    let us = |ns: u64| ns / 1000;
    plan.requests
        .iter()
        .map(|r| (us(r.time_ns), r.completed_ns.map(us), r.sector, r.sectors, r.operation))
        .collect()
}

use Action::{BackMerge, Complete, Issue, Queue, Requeue};
use Direction::{Discard, Read, Write};

/// Two bios merged into one request, a read beside them.
fn merged() -> Vec<BlockEvent> {
    vec![
        event(0, Queue, Write, 100, 8),
        event(5, Queue, Write, 108, 8),
        event(6, BackMerge, Write, 108, 8),
        event(8, Queue, Read, 500, 16),
        event(10, Issue, Write, 100, 16),
        event(11, Issue, Read, 500, 16),
        event(30, Complete, Read, 500, 16),
        event(40, Complete, Write, 100, 16),
    ]
}

#[test]
fn from_q_merged_bios_are_requests_of_their_own_and_from_d_they_are_one() {
    let queued = usual(&merged());
    assert_eq!(queued.stage, Stage::Queued);
    assert_eq!(
        rows(&queued),
        [
            (0, Some(40), 100, 8, Operation::Write),
            (5, Some(40), 108, 8, Operation::Write),
            (8, Some(30), 500, 16, Operation::Read)
        ]
    );
    let issued = plan(&merged(), from(Stage::Issued)).unwrap();
    assert_eq!(
        rows(&issued),
        [(0, Some(30), 100, 16, Operation::Write), (1, Some(20), 500, 16, Operation::Read)]
    );
    assert_eq!(issued.statistics().depth, Some(Depth { mean: 49.0 / 30.0, max: 2 }));
    assert_eq!(queued.remarks, [""; 0]);
}

#[test]
fn without_q_events_it_is_d_and_that_is_said() {
    let events: Vec<_> = merged().into_iter().filter(|e| e.action != Queue).collect();
    let plan = usual(&events);
    assert_eq!(plan.stage, Stage::Issued);
    insta::assert_snapshot!(plan.remarks.join("\n"), @"replayed from its 2 D events, because it has no Q events");
}

#[test]
fn requests_that_were_queued_before_the_recording_do_not_decide_for_d() {
    let mut events = vec![event(0, Issue, Write, 4000, 8)];
    events.extend(merged());
    let plan = usual(&events);
    assert_eq!((plan.stage, plan.requests.len()), (Stage::Queued, 3));
}

#[test]
fn a_request_of_a_partition_is_one_request() {
    let remap = |time: u64, sector: u64| BlockEvent {
        action: Action::Remap { from: PART, from_sector: sector - 2048 },
        ..event(time, Queue, Write, sector, 8)
    };
    let events = [
        remap(0, 4096),
        event(0, Queue, Write, 4096, 8),
        remap(9, 8192),
        event(9, Queue, Write, 8192, 8),
        event(20, Complete, Write, 4096, 8),
    ];
    assert_eq!(
        rows(&usual(&events)),
        [(0, Some(20), 4096, 8, Operation::Write), (9, None, 8192, 8, Operation::Write)]
    );
}

#[test]
fn a_split_bio_is_complete_with_its_last_part_and_its_rest_is_not_another_one() {
    let events = [
        event(0, Queue, Read, 0, 64),
        event(1, Action::Split { new_sector: 32 }, Read, 0, 64),
        // As kernels before 4.12 tell of the rest.
        event(2, Queue, Read, 32, 32),
        event(3, Issue, Read, 0, 32),
        event(4, Issue, Read, 32, 32),
        event(20, Complete, Read, 32, 32),
        event(50, Complete, Read, 0, 32),
    ];
    let split = usual(&events);
    assert_eq!(rows(&split), [(0, Some(50), 0, 64, Operation::Read)]);
    assert_eq!(split.left_out.split_rests, 1);
    // Partly complete, in order.
    let parts =
        [event(0, Queue, Read, 0, 64), event(5, Complete, Read, 0, 40), event(9, Complete, Read, 40, 24)];
    assert_eq!(rows(&usual(&parts)), [(0, Some(9), 0, 64, Operation::Read)]);
}

#[test]
fn two_requests_for_the_same_sectors_are_complete_one_after_the_other() {
    let events = [
        event(0, Queue, Read, 8, 8),
        event(1, Queue, Read, 8, 8),
        event(10, Complete, Read, 8, 8),
        event(20, Complete, Read, 8, 8),
    ];
    let completed: Vec<_> = rows(&usual(&events)).iter().map(|row| row.1).collect();
    assert_eq!(completed, [Some(10), Some(20)]);
}

#[test]
fn a_request_that_the_driver_gave_back_is_sent_once() {
    let events = [
        event(0, Issue, Write, 8, 8),
        event(3, Requeue, Write, 8, 8),
        event(5, Issue, Write, 16, 8),
        event(7, Issue, Write, 8, 8),
        event(9, Complete, Write, 8, 8),
    ];
    let plan = usual(&events);
    assert_eq!(rows(&plan), [(0, None, 16, 8, Operation::Write), (2, Some(4), 8, 8, Operation::Write)]);
    assert_eq!(plan.left_out.requeued, 1);
}

#[test]
fn flushes_and_fua_are_kept() {
    let flush = Flags::FLUSH.union(Flags::SYNC);
    let fua = Flags::FUA.union(Flags::SYNC);
    let events = [
        flagged(event(0, Queue, Direction::None, 0, 0), flush),
        flagged(event(1, Issue, Direction::None, 0, 0), Flags::FLUSH),
        flagged(event(9, Complete, Direction::None, 0, 0), Flags::FLUSH),
        // Its own completion, after that of the flush that was sent for it.
        flagged(event(9, Complete, Direction::None, 0, 0), flush),
        flagged(event(20, Queue, Write, 64, 8), flush.union(fua)),
        flagged(event(21, Issue, Direction::None, 0, 0), Flags::FLUSH),
        flagged(event(25, Complete, Direction::None, 0, 0), Flags::FLUSH),
        event(26, Issue, Write, 64, 8),
        event(30, Complete, Write, 64, 8),
        // The device has no FUA: a flush follows, and then the bio is complete.
        flagged(event(31, Issue, Direction::None, 0, 0), Flags::FLUSH),
        flagged(event(39, Complete, Direction::None, 0, 0), Flags::FLUSH),
        event(40, Complete, Write, 64, 0),
    ];
    let queued = usual(&events);
    assert_eq!(
        rows(&queued),
        [(0, Some(9), 0, 0, Operation::Flush), (20, Some(40), 64, 8, Operation::Write)]
    );
    let write = queued.requests[1];
    assert!(write.flushes_first() && write.is_fua() && !queued.requests[0].flushes_first());
    let statistics = queued.statistics();
    assert_eq!((statistics.flushes, statistics.flushes_first, statistics.fua), (1, 1, 1));
    let issued = plan(&events, from(Stage::Issued)).unwrap();
    assert_eq!(issued.statistics().flushes, 3, "as the driver saw them");
    assert_eq!(issued.statistics().flushes_first, 0);
}

#[test]
fn discards_are_counted_or_replayed() {
    let events = [event(0, Queue, Discard, 0, 2048), event(1, Queue, Read, 0, 8)];
    let without = usual(&events);
    assert_eq!((without.requests.len(), without.left_out.discards), (1, 1));
    assert_eq!(without.left_out.discard_bytes, 1 << 20);
    let with = plan(&events, PlanOptions { discards: true, ..PlanOptions::default() }).unwrap();
    assert_eq!((with.requests.len(), with.left_out.discards, with.writes()), (2, 0, true));
    let only = plan(&events[..1], PlanOptions::default()).unwrap_err();
    insta::assert_snapshot!(
        only,
        @"t cannot be replayed: all 1 requests of 8:0 are discards or writes of zeroes; `--discard` replays them"
    );
}

#[test]
fn of_several_devices_one_has_to_be_named() {
    let mut events = merged();
    let elsewhere = BlockEvent { device: OTHER, ..event(50, Queue, Read, 0, 8) };
    let remap = Action::Remap { from: OTHER, from_sector: 0 };
    events.extend([elsewhere, BlockEvent { action: remap, ..event(51, Queue, Read, 0, 8) }]);
    insta::assert_snapshot!(
        plan(&events, PlanOptions::default()).unwrap_err(),
        @"t has several devices: 8:0 (3 Q and 2 D events); 8:16 (1 Q and 0 D events, continued by 8:0); choose one with `--device-of-trace 8:0`"
    );
    let of =
        |device: &str| PlanOptions { device: Some(SourceDevice::parse(device)), ..PlanOptions::default() };
    assert_eq!(plan(&events, of("8:16")).unwrap().requests.len(), 1);
    assert_eq!(plan(&events, of("8:0")).unwrap().requests.len(), 3);
    insta::assert_snapshot!(
        plan(&events, of("9:9")).unwrap_err(),
        @"t has no requests of 9:9; it has requests of 8:0 (3 Q and 2 D events); 8:16 (1 Q and 0 D events, continued by 8:0)"
    );
    let issued = PlanOptions { from: Some(Stage::Issued), ..of("8:16") };
    insta::assert_snapshot!(
        plan(&events, issued).unwrap_err(),
        @"t cannot be replayed: it has no D events of 8:16; `--stage q` uses its 1 Q events"
    );
}

#[test]
fn damage_and_commands_are_left_out() {
    let events = [
        event(0, Queue, Read, u64::MAX - 3, 8),
        event(0, Queue, Read, 1 << 55, 8),
        event(1, Queue, Write, 0, 1 << 22),
        flagged(event(2, Queue, Read, 0, 8), Flags::PASSTHROUGH),
        event(3, Queue, Read, 0, 8),
    ];
    let plan = usual(&events);
    assert_eq!((plan.requests.len(), plan.left_out.impossible, plan.left_out.passthrough), (1, 3, 1));
    assert_eq!(plan.requests[0].time_ns, 0, "time counts from the first request that is replayed");
}

fn placed(of: &[(u64, u32)]) -> ReplayPlan {
    let requests = of.iter().enumerate().map(|(number, (sector, sectors))| PlannedRequest {
        time_ns: number as u64 * 1000,
        completed_ns: None,
        sector: *sector,
        sectors: *sectors,
        operation: Operation::Read,
        flags: Flags::default(),
    });
    ReplayPlan {
        trace: "t".to_owned(),
        device: "d".to_owned(),
        stage: Stage::Queued,
        requests: requests.collect(),
        timed: true,
        left_out: LeftOut::default(),
        fitted: Fitted::default(),
        remarks: Vec::new(),
    }
}

fn places(plan: &ReplayPlan) -> Vec<(u64, u32)> {
    plan.requests.iter().map(|r| (r.sector, r.sectors)).collect()
}

#[test]
fn a_trace_that_is_larger_than_the_target_is_refused_wrapped_or_scaled() {
    let plan = placed(&[(0, 8), (1000, 8), (3992, 8)]);
    insta::assert_snapshot!(
        plan.clone().fit(1 << 20, 512, Fit::Exact, false).unwrap_err(),
        @"the trace reaches to 2048000 bytes (1.95 MiB), the target has 1048576 bytes (1.00 MiB); `--wrap` places requests modulo the target's size, `--scale-space` scales their offsets by the ratio of the sizes"
    );
    let mut wrapped = plan.clone();
    let fitted = wrapped.fit(512_000, 512, Fit::Wrap, false).unwrap();
    assert_eq!(places(&wrapped), [(0, 8), (0, 8), (992, 8)]);
    assert_eq!(fitted.moved, 2);
    let mut scaled = plan.clone();
    scaled.fit(1_024_000, 512, Fit::Scale, false).unwrap();
    assert_eq!(places(&scaled), [(0, 8), (496, 8), (1992, 8)]);
    let mut roomy = plan.clone();
    assert_eq!(roomy.fit(1 << 30, 512, Fit::Scale, false).unwrap().moved, 0);
    assert_eq!(roomy.requests, plan.requests);
}

#[test]
fn requests_between_blocks_are_refused_or_widened() {
    let plan = placed(&[(1, 8), (16, 8), (24, 3)]);
    insta::assert_snapshot!(
        plan.clone().fit(1 << 20, 4096, Fit::Exact, false).unwrap_err(),
        @"2 of 3 requests begin or end within a block of the target, which takes direct I/O only in units of 4096 bytes; `--widen` extends them to whole blocks, `--buffered` uses the page cache"
    );
    let mut widened = plan;
    let fitted = widened.fit(1 << 20, 4096, Fit::Exact, true).unwrap();
    assert_eq!(places(&widened), [(0, 16), (16, 8), (24, 8)]);
    assert_eq!((fitted.widened, fitted.moved), (2, 0));
}

fn any_event() -> impl Strategy<Value = BlockEvent> {
    let action = prop_oneof![
        4 => Just(Queue),
        4 => Just(Issue),
        4 => Just(Complete),
        1 => Just(Requeue),
        1 => (0..64_u64).prop_map(|new_sector| Action::Split { new_sector }),
        1 => Just(Action::Remap { from: PART, from_sector: 3 }),
        1 => Just(Action::Plug),
    ];
    let direction = prop_oneof![Just(Read), Just(Write), Just(Discard), Just(Direction::None)];
    let flags = prop_oneof![
        4 => Just(Flags::default()),
        1 => Just(Flags::FLUSH),
        1 => Just(Flags::FUA),
        1 => Just(Flags::PASSTHROUGH)
    ];
    let sector = prop_oneof![8 => 0..64_u64, 1 => any::<u64>()];
    let sectors = prop_oneof![8 => 0..32_u64, 1 => 0..u64::MAX / 512];
    (0..1000_u64, action, direction, flags, sector, sectors, 0..8_u32).prop_map(
        |(time_us, action, direction, flags, sector, sectors, device)| BlockEvent {
            device: if device == 0 { OTHER } else { DISK },
            ..flagged(event(time_us, action, direction, sector, sectors), flags)
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn whatever_the_events_the_plan_is_in_order_and_possible(
        events in prop::collection::vec(any_event(), 0..80),
        from in prop_oneof![Just(None), Just(Some(Stage::Queued)), Just(Some(Stage::Issued))],
        discards in any::<bool>(),
    ) {
        let device = Some(SourceDevice::Number(DISK));
        let Ok(plan) = plan(&events, PlanOptions { from, device, discards }) else { return Ok(()) };
        prop_assert_eq!(plan.requests[0].time_ns, 0);
        prop_assert!(plan.requests.is_sorted_by_key(|r| r.time_ns));
        let asked = |action: Action| events.iter().filter(|e| e.device == DISK && e.action == action).count() as u64;
        let l = plan.left_out;
        let left_out = l.discards + l.impossible + l.passthrough + l.split_rests + l.requeued;
        let all = asked(if plan.stage == Stage::Queued { Queue } else { Issue });
        prop_assert!(plan.requests.len() as u64 + left_out <= all);
        for r in &plan.requests {
            prop_assert!(r.completed_ns.is_none_or(|completed| completed >= r.time_ns));
            prop_assert_eq!(r.sectors == 0, r.operation == Operation::Flush);
            prop_assert!(r.end_sector() <= i64::MAX as u64 / 512);
            prop_assert!(discards || r.operation != Operation::Discard);
        }
    }

    #[test]
    fn bios_in_a_row_are_complete_however_they_were_merged_and_split(
        lengths in prop::collection::vec(1..16_u64, 1..20),
        cuts in prop::collection::vec(1..24_u64, 20),
        rotate in 0..20_usize,
    ) {
        let mut events = Vec::new();
        let mut at = 0;
        for (number, length) in lengths.iter().enumerate() {
            events.push(event(number as u64, Queue, Write, at, *length));
            at += length;
        }
        let (end, mut from, mut parts) = (at, 0, Vec::new());
        for cut in cuts.iter().cycle() {
            if from >= end { break; }
            let to = (from + cut).min(end);
            parts.push((from, to - from));
            from = to;
        }
        let parts_len = parts.len();
        parts.rotate_left(rotate % parts_len);
        for (number, (sector, sectors)) in parts.into_iter().enumerate() {
            events.push(event(1000 + number as u64, Complete, Write, sector, sectors));
        }
        let plan = usual(&events);
        // The completion that takes the last of a bio's sectors ends it.
        let mut expected = Vec::new();
        let mut start = 0;
        for length in &lengths {
            let last = events.iter().filter(|e| e.action == Complete)
                .filter(|e| e.sector < start + length && e.end_sector() > start)
                .map(|e| e.time_ns - events[0].time_ns).max();
            expected.push(last);
            start += length;
        }
        let found: Vec<_> = plan.requests.iter().map(|r| r.completed_ns).collect();
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn what_is_fitted_lies_on_the_target(
        of in prop::collection::vec((0..1_u64 << 40, 1..4096_u32), 1..40),
        target_blocks in 1..100_000_u64,
        block_shift in 9..13_u32,
        fit in prop_oneof![Just(Fit::Wrap), Just(Fit::Scale)],
    ) {
        let block_bytes = 1_u64 << block_shift;
        let target_bytes = target_blocks * block_bytes + 100;
        let mut plan = placed(&of);
        let fitted = plan.fit(target_bytes, block_bytes, fit, true).unwrap();
        for (request, (_, sectors)) in plan.requests.iter().zip(&of) {
            prop_assert!(request.offset() + request.bytes() <= target_bytes);
            prop_assert!(request.offset().is_multiple_of(block_bytes));
            prop_assert!(request.bytes().is_multiple_of(block_bytes) && request.bytes() > 0);
            prop_assert!(fitted.shortened > 0 || request.sectors >= *sectors);
        }
    }

    #[test]
    fn a_trace_that_fits_is_not_moved(of in prop::collection::vec((0..1_u64 << 30, 1..4096_u32), 1..40)) {
        let plan = placed(&of);
        for fit in [Fit::Exact, Fit::Wrap, Fit::Scale] {
            let mut same = plan.clone();
            same.fit(plan.span_bytes(), 512, fit, false).unwrap();
            prop_assert_eq!(&same.requests, &plan.requests);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn no_place_and_no_target_is_too_large_to_be_fitted_or_refused(
        of in prop::collection::vec((any::<u64>(), any::<u64>(), 0..4_usize), 1..20),
        target_bytes in prop_oneof![any::<u64>(), 0..1_u64 << 20, Just(i64::MAX as u64), Just(u64::MAX)],
        block in 0..13_u32,
        how in 0..3_usize,
        widen: bool,
    ) {
        let events: Vec<BlockEvent> = of
            .iter()
            .enumerate()
            .map(|(at, (sector, bytes, kind))| {
                // Of every size, and few so large that they are left out.
                let (sector, bytes) = (sector >> (sector % 64), bytes >> (bytes % 64));
                let direction = [Read, Write, Discard, Direction::None][*kind];
                let mut event = event(at as u64, Queue, direction, sector, 0);
                event.bytes = bytes;
                event
            })
            .collect();
        let Ok(mut plan) = plan(&events, PlanOptions { discards: true, ..PlanOptions::default() }) else {
            return Ok(());
        };
        let fit = [Fit::Exact, Fit::Wrap, Fit::Scale][how];
        if plan.fit(target_bytes, 512 << block, fit, widen).is_ok() {
            prop_assert!(plan.span_bytes() <= target_bytes);
        }
        let statistics = plan.statistics();
        prop_assert_eq!(statistics.requests, plan.requests.len() as u64);
    }
}
