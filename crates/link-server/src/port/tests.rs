use nestor_link::{End, Wire};
use proptest::prelude::*;

use super::*;
use crate::frame::HEADER_BYTES;
use crate::played_guest::{EVERYTHING, Guest, MEMORY_BYTES, NEXT, SIZE, WRITE, frame, part};

fn connected(features: u64) -> (Port, Guest) {
    let (mut port, guest) = (Port::new(outlet()).unwrap(), Guest::new());
    guest.connect(&mut port);
    port.set_features(features);
    (port, guest)
}

/// A wire that takes no time.
fn outlet() -> Outlet {
    Outlet::new(&Wire { rate_bits_per_s: 1_000_000_000, delay_ns: 0, queue_bytes: 0, loss: 0.0, cut: None })
}

fn arriving(bytes: Vec<u8>) -> Frame {
    Frame::sent(bytes).unwrap()
}

/// Has a frame arrive at a time.
fn expect(port: &mut Port, arrives_ns: u64, frame: Frame) {
    port.expect(PortIndex::LOWER, Arriving { frame, record: record(arrives_ns), is_logged: true });
}

fn record(arrives_ns: u64) -> FrameRecord {
    FrameRecord {
        from: End::Lower,
        ended: Ended::UnderWay,
        frames: 1,
        bytes: 60,
        wire_bytes: 84,
        tcp_bytes: 0,
        tcp_again_bytes: 0,
        taken_ns: 0,
        begins_ns: arrives_ns,
        leaves_ns: arrives_ns,
        arrives_ns,
        delivered_ns: 0,
    }
}

/// The marks of all frames that can be taken.
fn taken(port: &mut Port) -> Vec<u8> {
    std::iter::from_fn(|| port.next_frame()).map(|frame| frame.ethernet()[0]).collect()
}

#[test]
fn frames_are_given_in_their_order_and_not_before_they_arrive() {
    let (mut port, mut guest) = connected(EVERYTHING);
    (0..3).for_each(|_| _ = guest.offer(100));
    expect(&mut port, 10, arriving(frame(1)));
    expect(&mut port, 20, arriving(frame(2)));
    assert_eq!(port.next_event_ns(), Some(10));
    assert!(!port.deliver(9));
    assert!(port.deliver(10));
    assert_eq!((guest.received_marks(), port.next_event_ns()), (vec![1], Some(20)));
    assert!(port.deliver(500));
    assert_eq!((guest.received_marks(), port.next_event_ns()), (vec![1, 2], None));
    assert_eq!(guest.received()[0][10..12], [1, 0], "in one buffer");
}

#[test]
fn what_has_arrived_waits_until_the_guest_says_that_it_has_buffers() {
    let (mut port, mut guest) = connected(EVERYTHING);
    expect(&mut port, 10, arriving(frame(1)));
    assert!(!port.deliver(10));
    assert_eq!(port.next_arrival_ns(), None, "there is no use in trying again");
    guest.offer(100);
    assert!(!port.deliver(20), "it has not said so");
    port.has_buffers();
    assert_eq!(port.next_arrival_ns(), Some(10));
    assert!(port.deliver(20));
    assert_eq!((guest.received_marks(), port.not_given), (vec![1], 0));
}

#[test]
fn a_frame_that_one_buffer_does_not_hold_is_spread_over_several_if_the_driver_can() {
    let (mut port, mut guest) = connected(EVERYTHING);
    let long: Vec<u8> = [vec![0; HEADER_BYTES], (0..88).collect()].concat();
    guest.offer(40);
    guest.offer(40);
    expect(&mut port, 1, arriving(long.clone()));
    assert!(!port.deliver(1), "two do not hold it either");
    assert!(guest.used(Queue::Receive).is_empty(), "none is taken in vain");
    guest.offer(40);
    port.has_buffers();
    assert!(port.deliver(1));
    let received = guest.received();
    assert_eq!(received.iter().map(Vec::len).collect::<Vec<_>>(), [40, 40, 20]);
    assert_eq!(received[0][10..12], [3, 0]);
    assert_eq!(received.concat()[HEADER_BYTES..], long[HEADER_BYTES..]);
}

#[test]
fn what_a_driver_cannot_take_is_refused_and_costs_it_no_buffer() {
    let (mut port, mut guest) = connected(0);
    guest.offer(80);
    expect(&mut port, 1, arriving(vec![0; 81]));
    let mut to_be_cut = frame(2);
    to_be_cut[1] = 1;
    expect(&mut port, 1, arriving(to_be_cut));
    expect(&mut port, 1, arriving(frame(3)));
    assert!(port.deliver(1));
    assert_eq!((guest.received_marks(), port.not_given), (vec![3], 2));
}

#[test]
fn the_checksum_is_completed_for_a_driver_that_does_not_do_without_it() {
    let mut without = frame(0);
    without[0] = 1;
    without[8] = 2;
    let received = |features| {
        let (mut port, mut guest) = connected(features);
        guest.offer(100);
        expect(&mut port, 1, arriving(without.clone()));
        port.deliver(1);
        guest.received()[0].clone()
    };
    assert_eq!(received(EVERYTHING)[HEADER_BYTES + 2..][..2], [0, 0]);
    assert_eq!(received(0)[HEADER_BYTES + 2..][..2], [0xff, 0xff]);
}

#[test]
fn a_frame_is_put_together_from_its_pieces_and_its_chain_given_back() {
    let (mut port, mut guest) = connected(EVERYTHING);
    let whole = frame(7);
    guest.send(&[&whole[..5], &whole[5..30], &whole[30..]]);
    guest.send(&[&frame(8)]);
    assert_eq!(port.next_frame(), Frame::sent(whole));
    assert_eq!(taken(&mut port), [8]);
    assert_eq!(guest.used(Queue::Transmit), [(0, 0), (3, 0)]);
    assert_eq!(port.not_taken, 0);
}

#[test]
fn what_is_no_frame_is_given_back_and_counted_and_the_next_is_taken() {
    let (mut port, mut guest) = connected(EVERYTHING);
    guest.send(&[&[0; HEADER_BYTES + 13]]);
    let strange = [
        // Outside of memory, and at the end of all addresses.
        (MEMORY_BYTES as u64 - 10, 100, 0, 0),
        (u64::MAX - 10, 100, 0, 0),
        // Longer than any frame, and longer than any memory.
        (0, 1 << 17, 0, 0),
        (0, u32::MAX, 0, 0),
        // Only to be written to; empty.
        (0, 100, WRITE, 0),
        (0, 0, 0, 0),
    ];
    for (index, (address, bytes, flags, next)) in (1..).zip(strange) {
        guest.describe(Queue::Transmit, index, address, bytes, flags, next);
        guest.put(Queue::Transmit, index);
    }
    // No descriptor of the queue.
    guest.put(Queue::Transmit, 500);
    // A piece that is followed by itself is read as often as the queue has places.
    guest.describe(Queue::Transmit, 10, 0, 100, NEXT, 10);
    guest.put(Queue::Transmit, 10);
    let taken: Vec<Frame> = std::iter::from_fn(|| port.next_frame()).collect();
    assert_eq!(taken.iter().map(Frame::queue_bytes).collect::<Vec<_>>(), [100 * usize::from(SIZE)]);
    assert_eq!(port.not_taken, 8);
    let given_back: Vec<u32> = guest.used(Queue::Transmit).iter().map(|(head, _)| *head).collect();
    assert_eq!(given_back, [0, 1, 2, 3, 4, 5, 6, 10]);
}

#[test]
fn a_guest_that_says_it_has_more_than_a_queue_holds_has_nothing() {
    let (mut port, guest) = connected(EVERYTHING);
    for queue in [Queue::Receive, Queue::Transmit] {
        guest.claim(queue, 3 * SIZE);
    }
    assert_eq!(port.next_frame(), None);
    expect(&mut port, 1, arriving(frame(1)));
    assert!(!port.deliver(1));
    assert_eq!(port.next_arrival_ns(), None);
}

#[test]
fn a_queue_that_is_not_enabled_is_left_alone() {
    let mut port = Port::new(outlet()).unwrap();
    assert!(!port.is_connected() && !port.is_gone());
    expect(&mut port, 1, arriving(frame(1)));
    assert_eq!((port.not_given, port.next_event_ns(), port.next_frame()), (1, None, None));
    let mut guest = Guest::new();
    guest.connect(&mut port);
    guest.send(&[&frame(1)]);
    guest.enable(Queue::Transmit, false);
    assert_eq!(port.next_frame(), None);
    guest.enable(Queue::Transmit, true);
    assert_eq!(taken(&mut port), [1]);
}

#[test]
fn a_guest_is_there_when_it_has_started_both_queues_until_it_goes() {
    let mut port = Port::new(outlet()).unwrap();
    let guest = Guest::new();
    guest.enable(Queue::Transmit, false);
    guest.connect(&mut port);
    assert!(!port.is_connected(), "what it sends now would stay in its queue");
    guest.enable(Queue::Transmit, true);
    assert!(port.is_connected());
    guest.enable(Queue::Receive, false);
    assert!(port.is_connected(), "its driver has ended, and nobody waits for it");
    port.disconnect();
    assert!(!port.is_connected());
}

#[test]
fn what_is_on_its_way_to_a_guest_that_goes_is_lost() {
    let (mut port, mut guest) = connected(EVERYTHING);
    guest.offer(100);
    expect(&mut port, 1, arriving(frame(1)));
    port.room_ns = Some(2);
    port.disconnect();
    assert!(port.is_gone() && !port.is_connected());
    assert_eq!((port.next_event_ns(), port.deliver(5)), (None, false));
    let next = Guest::new();
    next.connect(&mut port);
    assert!(!port.is_gone() && port.is_connected());
    assert!(!port.deliver(5) && next.received().is_empty());
}

proptest! {
    #[test]
    fn whatever_is_in_the_queues_every_turn_ends(
        rings in proptest::collection::vec((0u64..3, 0u64..2, 0u64..512, any::<[u8; 8]>()), 0..60),
        put in any::<[u16; 2]>(),
        features in any::<bool>(),
    ) {
        let (mut port, guest) = connected(if features { EVERYTHING } else { 0 });
        for (number, queue, at, bytes) in rings {
            let queue = Queue::at(queue).unwrap();
            guest.write(part(queue, number) + at, &bytes);
        }
        guest.claim(Queue::Receive, put[0] % (2 * SIZE));
        guest.claim(Queue::Transmit, put[1] % (2 * SIZE));
        // No more than the queue has places.
        prop_assert!(std::iter::from_fn(|| port.next_frame()).take(100).count() <= usize::from(SIZE));
        for at_ns in 0..40 {
            expect(&mut port, at_ns, arriving(frame(1)));
        }
        port.deliver(20);
        port.has_buffers();
        port.deliver(40);
        prop_assert!(port.next_arrival_ns().is_none());
    }
}

/// A descriptor that refers to a table of descriptors (virtio 1.2, 2.7.5.3).
const INDIRECT: u16 = 4;
/// The longest table that there can be.
const LONGEST_TABLE_BYTES: u32 = 16 * u16::MAX as u32;
/// Where it is.
const TABLE: u64 = 0x8000;

/// Puts a chain with a table of as many pieces of a byte as there can be, which are all the same one.
fn put_endless(guest: &mut Guest, queue: Queue, flags: u16) {
    let piece = [&0u64.to_le_bytes()[..], &1u32.to_le_bytes(), &(NEXT | flags).to_le_bytes(), &[0, 0]];
    guest.write(TABLE, &piece.concat());
    guest.describe(queue, 0, TABLE, LONGEST_TABLE_BYTES, INDIRECT, 0);
    guest.put(queue, 0);
}

#[test]
fn a_chain_that_is_longer_than_a_queue_is_no_frame() {
    let (mut port, mut guest) = connected(EVERYTHING);
    put_endless(&mut guest, Queue::Transmit, 0);
    assert_eq!((port.next_frame(), port.not_taken), (None, 1));
    assert_eq!(guest.used(Queue::Transmit), [(0, 0)], "it is given back");
}

#[test]
fn a_chain_that_is_longer_than_a_queue_has_room_for_no_more_than_one_that_is_not() {
    let (mut port, mut guest) = connected(0);
    put_endless(&mut guest, Queue::Receive, WRITE);
    expect(&mut port, 1, arriving(vec![0; QUEUE_SIZE + 1]));
    expect(&mut port, 1, arriving(vec![0; QUEUE_SIZE]));
    assert!(port.deliver(1));
    assert_eq!(port.not_given, 1, "of the longer frame it does not hold the last byte");
}

#[test]
fn what_is_under_way_takes_no_more_memory_than_there_is_for_it() {
    let (mut port, _guest) = connected(EVERYTHING);
    let longest = arriving(vec![0; LONGEST_BYTES]);
    port.arriving_bytes = MOST_ARRIVING_BYTES - LONGEST_BYTES;
    expect(&mut port, 1, longest.clone());
    expect(&mut port, 1, longest);
    assert_eq!((port.coming.len(), port.not_given), (1, 1));
    port.disconnect();
    assert_eq!(port.arriving_bytes, 0);
}

#[test]
fn of_each_frame_it_is_known_what_became_of_it() {
    let (mut port, mut guest) = connected(0);
    guest.offer(80);
    expect(&mut port, 1, arriving(frame(1)));
    expect(&mut port, 2, arriving(vec![0; 81]));
    expect(&mut port, 3, arriving(frame(2)));
    expect(&mut port, 4, arriving(frame(3)));
    port.deliver(2);
    guest.offer(10);
    port.has_buffers();
    port.deliver(2);
    let ended = |port: &mut Port| {
        port.take_ended().iter().map(|r| (r.arrives_ns, r.ended, r.delivered_ns)).collect::<Vec<_>>()
    };
    assert_eq!(ended(&mut port), [(1, Ended::Delivered, 2), (2, Ended::Refused, 0)]);
    assert_eq!(port.take_under_way().map(|record| record.arrives_ns).collect::<Vec<_>>(), [3, 4]);
    assert_eq!(port.take_under_way().count(), 0, "they were logged");
    expect(&mut port, 5, arriving(frame(4)));
    port.disconnect();
    assert_eq!(ended(&mut port), [(5, Ended::Refused, 0)]);
    assert_eq!(port.not_given, 4);
}
