mod several;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use nestor_link::Wire;
use nestor_link::log::{FrameReader, LogClock, LogEnd, LogSummary};
use proptest::prelude::*;

use super::*;
use crate::driver::{Driver, PART};
use crate::played_guest::{EVERYTHING, Guest, SIZE, TcpSegment, frame};

/// On it, a frame of the shortest length takes 672 ns.
const GBIT: Wire =
    Wire { rate_bits_per_s: 1_000_000_000, delay_ns: 100_000, queue_bytes: 1 << 20, loss: 0.0, cut: None };
/// The machine has no timer.
const NEVER: u64 = u64::MAX;

fn link(time: LinkTime, wire: Wire) -> Arc<Shared> {
    let stop = StopHandle::new().unwrap();
    let sockets = vec![PathBuf::new(), PathBuf::new()];
    Arc::new(
        Shared::new(&LinkOptions { wire, seed: 1, sockets, control: None, log: None, time, stop }).unwrap(),
    )
}

fn connected(time: LinkTime, wire: Wire) -> (Arc<Shared>, [Guest; 2]) {
    let shared = link(time, wire);
    let guests = End::BOTH.map(|end| {
        let guest = Guest::new();
        shared.with_port(end, |port| guest.connect(port));
        guest
    });
    (shared, guests)
}

/// Two machines of one time, whose own times are these at its beginning.
fn joined(wire: Wire, zeros_ns: [u64; 2]) -> (Arc<Shared>, [Guest; 2]) {
    let (shared, guests) = connected(LinkTime::Virtual, wire);
    shared.join().unwrap();
    for end in End::BOTH {
        shared.run_until(end, [zeros_ns[end.index()], NEVER], None);
    }
    (shared, guests)
}

/// Has the upper machine tell a time, and comes back when it waits for the other there.
fn waiting(shared: &Arc<Shared>, now_ns: u64) -> JoinHandle<Option<u64>> {
    let told = Arc::clone(shared);
    let waiting = std::thread::spawn(move || told.run_until(End::Upper, [now_ns, NEVER], None));
    while !shared.wake(&[End::Upper.into()]) {
        assert!(!waiting.is_finished(), "it does not wait");
        std::thread::yield_now();
    }
    waiting
}

#[test]
fn frames_are_taken_only_when_they_are_announced_and_arrive_in_the_receivers_time() {
    let (shared, [mut lower, mut upper]) = joined(GBIT, [0, 5000]);
    lower.send(&[&frame(1)]);
    upper.offer(100);
    shared.run_until(End::Lower, [10, NEVER], None);
    assert_eq!(shared.statistics().from_lower.frames, 0);
    shared.run_until(End::Lower, [20, NEVER], Some(Queue::Receive));
    assert_eq!(shared.statistics().from_lower.frames, 0, "it has spoken of the other queue");
    shared.run_until(End::Lower, [30, NEVER], Some(Queue::Transmit));
    assert_eq!(shared.statistics().from_lower, Sent { frames: 1, bytes: 60, ..Sent::default() });
    let at_ns = 5000 + 30 + 672 + 100_000;
    assert_eq!(shared.run_until(End::Upper, [5000, NEVER], None), Some(at_ns));
    shared.run_until(End::Upper, [at_ns - 1, NEVER], None);
    assert!(upper.received().is_empty());
    shared.run_until(End::Upper, [at_ns, NEVER], None);
    assert_eq!(upper.received_marks(), [1]);
}

#[test]
fn a_guest_without_buffers_is_given_what_has_arrived_when_it_says_that_it_has_some() {
    let (shared, [mut lower, mut upper]) = joined(GBIT, [0, 0]);
    lower.send(&[&frame(1)]);
    shared.run_until(End::Lower, [0, NEVER], Some(Queue::Transmit));
    shared.run_until(End::Upper, [100_672, NEVER], None);
    upper.offer(100);
    shared.run_until(End::Upper, [100_700, NEVER], None);
    assert!(upper.received().is_empty());
    shared.run_until(End::Upper, [100_800, NEVER], Some(Queue::Receive));
    assert_eq!(upper.received_marks(), [1]);
}

#[test]
fn what_an_interface_has_no_room_for_is_taken_when_it_has() {
    let (shared, [mut lower, mut upper]) = joined(Wire { queue_bytes: 0, ..GBIT }, [0, 0]);
    (0..3).for_each(|_| _ = upper.offer(100));
    lower.send(&[&frame(1)]);
    lower.send(&[&frame(2)]);
    let taken = || shared.statistics().from_lower.frames;
    assert_eq!(shared.run_until(End::Lower, [0, NEVER], Some(Queue::Transmit)), Some(672));
    assert_eq!(taken(), 1);
    shared.run_until(End::Lower, [671, NEVER], None);
    assert_eq!(taken(), 1);
    shared.run_until(End::Lower, [672, NEVER], None);
    assert_eq!(taken(), 2);
    lower.send(&[&frame(3)]);
    shared.run_until(End::Lower, [5000, NEVER], None);
    assert_eq!(taken(), 2, "nothing waited for room, and this was not announced");
}

#[test]
fn a_machine_waits_where_a_frame_of_the_other_may_arrive_until_that_has_promised_more() {
    let (shared, [mut lower, mut upper]) = joined(GBIT, [0, 0]);
    upper.offer(100);
    // The lower machine has something to do, so it may send at any time.
    shared.run_until(End::Lower, [0, 0], None);
    let waiting = waiting(&shared, 100_000);
    assert!(!waiting.is_finished());
    lower.send(&[&frame(1)]);
    shared.run_until(End::Lower, [50_000, NEVER], Some(Queue::Transmit));
    assert_eq!(waiting.join().unwrap(), Some(50_000 + 100_672));
}

#[test]
fn timing_is_switched_when_one_machine_waits_for_the_other() {
    let (shared, [mut lower, mut upper]) = joined(GBIT, [0, 0]);
    (0..3).for_each(|_| _ = upper.offer(100));
    // It may send at once, and the other has not come as far as that lets it.
    shared.run_until(End::Lower, [0, 0], None);
    let switched = Arc::clone(&shared);
    let switching = std::thread::spawn(move || switched.set_timed(false));
    lower.send(&[&frame(1)]);
    shared.run_until(End::Lower, [0, 0], Some(Queue::Transmit));
    assert!(!switching.is_finished(), "both have something to do");
    let waiting = waiting(&shared, 100_000);
    switching.join().unwrap();
    lower.send(&[&frame(2)]);
    shared.run_until(End::Lower, [10_000, NEVER], Some(Queue::Transmit));
    assert_eq!(waiting.join().unwrap(), Some(100_672), "the first was sent with its time");
    assert_eq!(shared.run_until(End::Upper, [100_672, NEVER], None), Some(110_000), "the second without");
}

#[test]
fn a_machine_does_not_wait_for_one_that_is_lost() {
    let (shared, _guests) = joined(GBIT, [0, 0]);
    shared.run_until(End::Lower, [0, 0], None);
    let waiting = waiting(&shared, 100_000);
    shared.disconnect(End::Lower);
    assert_eq!(waiting.join().unwrap(), None, "nothing more comes from there");
    assert_eq!(shared.run_until(End::Lower, [7, NEVER], None), None, "and who is lost is answered");
    assert!(shared.wake(&[End::Upper.into()]) && !shared.statistics().connected);
    assert!(shared.join().is_err());
}

#[test]
fn a_machine_whose_queues_are_not_known_yet_waits_for_them() {
    let shared = link(LinkTime::Virtual, GBIT);
    let mut guest = Guest::new();
    guest.send(&[&frame(1)]);
    let waiting = std::thread::spawn({
        let shared = Arc::clone(&shared);
        move || shared.run_until(End::Lower, [0, NEVER], Some(Queue::Transmit))
    });
    shared.with_port(End::Lower, |port| guest.connect(port));
    assert_eq!(waiting.join().unwrap(), None);
    assert_eq!(shared.statistics().from_lower.refused, 1, "it was taken when they were known");
}

#[test]
fn the_end_of_the_server_ends_all_waiting() {
    let (shared, _guests) = joined(GBIT, [0, 0]);
    shared.run_until(End::Lower, [0, 0], None);
    let waiting = waiting(&shared, 100_000);
    let fresh = link(LinkTime::Virtual, GBIT);
    let unknown = std::thread::spawn({
        let fresh = Arc::clone(&fresh);
        move || fresh.run_until(End::Upper, [0, NEVER], None)
    });
    shared.stop.stop();
    fresh.stop.stop();
    waiting.join().unwrap();
    assert_eq!(unknown.join().unwrap(), None);
}

#[test]
fn what_is_sent_before_machines_are_joined_is_refused_and_given_back() {
    let (shared, [mut lower, _upper]) = connected(LinkTime::Virtual, GBIT);
    lower.send(&[&frame(1)]);
    assert_eq!(shared.run_until(End::Lower, [0, NEVER], None), None);
    assert!(lower.used(Queue::Transmit).is_empty(), "it was not announced");
    lower.send(&[&frame(2)]);
    assert_eq!(shared.run_until(End::Lower, [1, NEVER], Some(Queue::Transmit)), None);
    assert_eq!(lower.used(Queue::Transmit).len(), 2);
    let statistics = shared.statistics();
    assert_eq!(statistics.from_lower, Sent { refused: 2, ..Sent::default() });
    assert!(statistics.connected && !statistics.joined);
}

#[test]
fn machines_are_joined_once_and_when_both_are_there() {
    let alone = link(LinkTime::Virtual, GBIT);
    assert_eq!(alone.join(), Err("the interface of one of the machines is not up"));
    assert!(alone.wake(&[End::Lower.into()]), "nothing is to be waited for");
    let (shared, _guests) = joined(GBIT, [0, 0]);
    assert_eq!(shared.join(), Err("the machines have one time already"));
}

#[test]
fn lost_frames_are_counted_and_do_not_arrive() {
    let (shared, [mut lower, mut upper]) = joined(Wire { loss: 1.0, ..GBIT }, [0, 0]);
    upper.offer(100);
    lower.send(&[&frame(1)]);
    shared.run_until(End::Lower, [0, NEVER], Some(Queue::Transmit));
    shared.run_until(End::Upper, [900_000, NEVER], None);
    assert_eq!(shared.statistics().from_lower, Sent { frames: 1, bytes: 60, lost: 1, refused: 0 });
    assert!(upper.received().is_empty());
}

#[test]
fn in_real_time_a_frame_arrives_by_itself() {
    let (shared, [mut lower, mut upper]) = connected(LinkTime::Real, Wire { delay_ns: 0, ..GBIT });
    assert!(!shared.is_told());
    upper.offer(100);
    lower.send(&[&frame(1)]);
    shared.run(End::Lower, None);
    assert_eq!(shared.statistics().from_lower.frames, 0);
    shared.run(End::Lower, Some(Queue::Transmit));
    while upper.received().is_empty() {
        shared.run(End::Upper, None);
    }
    assert_eq!(upper.received_marks(), [1]);
}

#[test]
fn a_guest_that_never_stops_adding_what_is_no_frame_holds_nobody_up() {
    let (shared, [mut lower, mut upper]) = connected(LinkTime::Real, Wire { delay_ns: 0, ..GBIT });
    // Every place of its queue has an empty chain, and it always says that it has as many more as there are places.
    for _ in 0..SIZE {
        lower.send(&[&[]]);
    }
    upper.send(&[&frame(1)]);
    let ends = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !ends.load(Ordering::Relaxed) {
                lower.claim(Queue::Transmit, lower.given_back(Queue::Transmit).wrapping_add(SIZE));
            }
        });
        for _ in 0..50 {
            shared.run(End::Lower, Some(Queue::Transmit));
        }
        shared.run(End::Upper, Some(Queue::Transmit));
        ends.store(true, Ordering::Relaxed);
    });
    let statistics = shared.statistics();
    assert_eq!((statistics.from_lower.frames, statistics.from_upper.frames), (0, 1));
    assert!(statistics.from_lower.refused > 0);
}

/// The records of a log, and that its counts are those of the link.
fn logged(path: &Path, began: &LinkStatistics, ended: &LogEnd) -> Vec<FrameRecord> {
    let reader = FrameReader::open(path).unwrap();
    assert_eq!(reader.header().summary, ended.log);
    let records: Vec<FrameRecord> = reader.collect::<Result<_, _>>().unwrap();
    for end in End::BOTH {
        let mut sent = Sent::default();
        records.iter().filter(|record| record.from == end).for_each(|record| record.count(&mut sent));
        assert_eq!(sent, ended.statistics.sent_by(end).since(began.sent_by(end)));
    }
    records
}

#[test]
fn each_frame_is_logged_with_its_times_and_what_became_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("frames");
    let (shared, [mut lower, mut upper]) = joined(GBIT, [70, 5000]);
    (0..2).for_each(|_| _ = upper.offer(100));
    lower.send(&[&frame(1)]);
    shared.run_until(End::Lower, [70, NEVER], Some(Queue::Transmit));
    let began = shared.start_log(&path).unwrap();
    assert_eq!(began.from_lower.frames, 1, "it was sent before, and is not in the log");
    for mark in [2, 3] {
        lower.send(&[&frame(mark)]);
    }
    lower.send(&[&[0; 5]]);
    shared.run_until(End::Lower, [80, NEVER], Some(Queue::Transmit));
    upper.send(&[&frame(9)]);
    shared.run_until(End::Upper, [5000, NEVER], Some(Queue::Transmit));
    shared.run_until(End::Upper, [5000 + 101_400, NEVER], None);
    let ended = shared.stop_log().unwrap();
    let records = logged(&path, &began, &ended);
    let reader = FrameReader::open(&path).unwrap();
    assert_eq!(reader.header().clock, LogClock::Common([70, 5000]));
    let seen: Vec<_> = records.iter().map(|r| (r.from, r.ended, r.taken_ns, r.begins_ns)).collect();
    let expected = [
        (End::Lower, Ended::NotTaken, 10, 10),
        // The two wait for the one that was sent before the log began, and there are two buffers.
        (End::Lower, Ended::Delivered, 10, 672),
        (End::Upper, Ended::UnderWay, 0, 0),
        (End::Lower, Ended::UnderWay, 10, 1344),
    ];
    assert_eq!(seen, expected);
    let delivered = records[1];
    assert_eq!((delivered.queue_ns(), delivered.wire_ns()), (662, 672));
    assert_eq!((delivered.arrives_ns, delivered.delivered_ns), (101_344, 101_400));
    assert_eq!((delivered.frames, delivered.bytes, delivered.wire_bytes), (1, 60, 84));
}

#[test]
fn lost_and_refused_frames_are_logged_as_they_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("frames");
    let (shared, [mut lower, mut upper]) = joined(Wire { loss: 0.5, ..GBIT }, [0, 0]);
    let began = shared.start_log(&path).unwrap();
    for mark in 0..8 {
        lower.send(&[&frame(mark)]);
    }
    // It takes none that does not fit into a buffer.
    (0..8).for_each(|_| _ = upper.offer(20));
    shared.run_until(End::Lower, [0, NEVER], Some(Queue::Transmit));
    shared.run_until(End::Upper, [900_000, NEVER], Some(Queue::Receive));
    let ended = shared.stop_log().unwrap();
    let records = logged(&path, &began, &ended);
    let count = |fate| records.iter().filter(|record| record.ended == fate).count() as u64;
    let sent = ended.statistics.from_lower;
    assert_eq!((count(Ended::Lost), count(Ended::Refused)), (sent.lost, sent.refused));
    assert!(sent.lost > 0 && sent.refused > 0 && sent.lost + sent.refused == 8, "{sent:?}");
    assert_eq!(ended.statistics.from_upper.refused, 0, "it is of the direction in which it went");
}

#[test]
fn a_log_that_is_started_again_has_only_what_was_sent_since() {
    let folder = tempfile::tempdir().unwrap();
    let [first, second] = ["first", "second"].map(|name| folder.path().join(name));
    let (shared, [mut lower, mut upper]) = joined(GBIT, [0, 0]);
    (0..2).for_each(|_| _ = upper.offer(100));
    shared.start_log(&first).unwrap();
    lower.send(&[&frame(1)]);
    shared.run_until(End::Lower, [0, NEVER], Some(Queue::Transmit));
    let began = shared.start_log(&second).unwrap();
    lower.send(&[&frame(2)]);
    shared.run_until(End::Lower, [10, NEVER], Some(Queue::Transmit));
    shared.run_until(End::Upper, [900_000, NEVER], None);
    let ended = shared.stop_log().unwrap();
    assert_eq!(logged(&second, &began, &ended).len(), 1);
    let under_way: Vec<FrameRecord> = FrameReader::open(&first).unwrap().collect::<Result<_, _>>().unwrap();
    assert_eq!(under_way.iter().map(|record| record.ended).collect::<Vec<_>>(), [Ended::UnderWay]);
    assert_eq!(shared.stop_log().unwrap().log, LogSummary::default(), "none is open");
    let nowhere = shared.start_log(&folder.path().join("no/where")).unwrap_err().to_string();
    assert!(nowhere.starts_with("cannot create the frame log"), "{nowhere}");
}

/// The sequence number of the first byte: numbers begin anew soon.
const FIRST: u32 = u32::MAX - 5000;

/// What went over a link with losses on which one end has sent segments of one connection, to a guest whose driver can do that much. Of each segment, the
/// bytes of data, at most 3000, and those of each frame.
fn over(loss: f64, features: u64, segments: &[(usize, u16)]) -> (Vec<Frame>, Vec<FrameRecord>, Sent) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("frames");
    let (shared, [mut lower, mut upper]) = joined(Wire { loss, ..GBIT }, [0, 0]);
    shared.with_port(End::Upper, |port| port.set_features(features));
    let began = shared.start_log(&path).unwrap();
    let (mut received, mut now_ns, mut sequence) = (Vec::new(), 0, FIRST);
    (0..SIZE).for_each(|_| _ = upper.offer(PART as usize));
    for (data, piece) in segments {
        let segment = TcpSegment { data: *data, piece: *piece, sequence, ..TcpSegment::USUAL };
        sequence = sequence.wrapping_add(*data as u32);
        lower.send(&[&segment.bytes()]);
        shared.run_until(End::Lower, [now_ns, NEVER], Some(Queue::Transmit));
        // There may be more frames than buffers.
        loop {
            now_ns += 1_000_000;
            shared.run_until(End::Upper, [now_ns, NEVER], Some(Queue::Receive));
            let new = received.len() as u16..upper.given_back(Queue::Receive);
            if new.is_empty() {
                break;
            }
            for number in new {
                received.push(upper.filled(Driver::used(&upper, Queue::Receive, number)));
                upper.offer(PART as usize);
            }
        }
    }
    let ended = shared.stop_log().unwrap();
    let records = logged(&path, &began, &ended);
    (received.into_iter().filter_map(Frame::sent).collect(), records, ended.statistics.from_lower)
}

/// Which bytes of data were given, in the order in which they were.
fn given(frames: &[Frame]) -> Vec<std::ops::Range<u32>> {
    let range = |frame: &Frame| {
        let segment = frame.tcp_segment().unwrap();
        let begin = segment.sequence.wrapping_sub(FIRST);
        begin..begin + segment.bytes as u32
    };
    let mut joined: Vec<std::ops::Range<u32>> = Vec::new();
    for range in frames.iter().map(range) {
        match joined.last_mut().filter(|last| last.end == range.start) {
            Some(last) => last.end = range.end,
            None => joined.push(range),
        }
    }
    joined
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn of_segments_the_frames_are_missing_that_are_lost_whether_the_guest_takes_segments_or_not(
        loss in 0.0f64..=1.0,
        segments in proptest::collection::vec((1usize..3000, 100u16..3000), 1..6),
    ) {
        let (received, records, sent) = over(loss, EVERYTHING, &segments);
        let frames: usize = segments.iter().map(|(data, piece)| data.div_ceil(usize::from(*piece))).sum();
        let data: usize = segments.iter().map(|(data, _)| data).sum();
        let bytes = |of: &dyn Fn(&FrameRecord) -> bool| -> u64 {
            records.iter().filter(|record| of(record)).map(|record| u64::from(record.tcp_bytes)).sum()
        };
        prop_assert_eq!((sent.frames, sent.bytes), (frames as u64, (data + 66 * frames) as u64));
        prop_assert_eq!(bytes(&|_| true), data as u64);
        prop_assert!(records.iter().all(|record| record.tcp_again_bytes == 0));
        let arrived: usize = received.iter().filter_map(Frame::tcp_segment).map(|segment| segment.bytes).sum();
        prop_assert_eq!(bytes(&|record| record.ended == Ended::Delivered), arrived as u64);
        let begins: Vec<usize> = segments
            .iter()
            .scan(0, |begin, (data, _)| { let own = *begin; *begin += data; Some(own) })
            .collect();
        for frame in &received {
            let segment = frame.tcp_segment().unwrap();
            let at = segment.sequence.wrapping_sub(FIRST) as usize;
            let own = begins.iter().rev().find(|begin| **begin <= at).unwrap();
            let right = (0..segment.bytes).map(|of| TcpSegment::byte(at + of - own));
            prop_assert!(frame.ethernet()[66..].iter().copied().eq(right));
        }
        let (one_by_one, of_each, sent_one_by_one) = over(loss, 0, &segments);
        prop_assert_eq!(sent_one_by_one, sent);
        prop_assert!(one_by_one.iter().all(|frame| !frame.is_to_be_cut()));
        prop_assert_eq!(of_each.len(), frames);
        prop_assert_eq!(given(&one_by_one), given(&received));
    }
}
