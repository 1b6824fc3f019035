//! More than two machines, behind a switch.

use super::*;

/// Three machines of one time, all at its beginning.
fn three(wire: Wire) -> (Arc<Shared>, Vec<Guest>, Vec<PortIndex>) {
    let stop = StopHandle::new().unwrap();
    let (sockets, time) = (vec![PathBuf::new(); 3], LinkTime::Virtual);
    let options = LinkOptions { wire, seed: 1, sockets, control: None, log: None, time, stop };
    let shared = Arc::new(Shared::new(&options).unwrap());
    let ports: Vec<PortIndex> = PortIndex::all(3).collect();
    let connect = |at: &PortIndex| {
        let mut guest = Guest::new();
        shared.with_port(*at, |port| guest.connect(port));
        (0..4).for_each(|_| _ = guest.offer(100));
        guest
    };
    let guests = ports.iter().map(connect).collect();
    shared.join().unwrap();
    for at in &ports {
        shared.run_until(*at, [0, NEVER], None);
    }
    (shared, guests, ports)
}

/// A frame of the shortest length from one address to another, whose bytes are all alike. Bits of groups are not among them.
fn addressed(to: u8, from: u8) -> Vec<u8> {
    let mut bytes = frame(to);
    let ethernet = bytes.len() - 60;
    bytes[ethernet..][..6].fill(to);
    bytes[ethernet + 6..][..6].fill(from);
    bytes
}

#[test]
fn what_two_machines_send_at_once_to_a_third_arrives_one_behind_the_other_whoever_is_heard_first() {
    for order in [[1, 2], [2, 1]] {
        let (shared, mut guests, ports) = three(GBIT);
        for number in order {
            guests[number].send(&[&addressed(0x02, 0x10 * number as u8)]);
            shared.run_until(ports[number], [0, NEVER], Some(Queue::Transmit));
        }
        // Both have 672 ns on their own wires; the second waits for the first on that of the lower machine.
        assert_eq!(shared.run_until(ports[0], [1, NEVER], None), Some(100_672));
        assert_eq!(shared.run_until(ports[0], [100_672, NEVER], None), Some(100_672 + 672));
        assert_eq!(guests[0].received_marks().len(), 1);
        shared.run_until(ports[0], [100_672 + 672, NEVER], None);
        assert_eq!(guests[0].received_marks().len(), 2);
        let sent = shared.statistics().from_upper;
        assert_eq!((sent.frames, sent.bytes, sent.refused), (2, 120, 0));
    }
}

#[test]
fn who_is_known_is_sent_what_is_for_it_and_a_group_is_sent_everything_once() {
    let (shared, mut guests, ports) = three(GBIT);
    guests[2].send(&[&addressed(0x02, 0x04)]);
    shared.run_until(ports[2], [0, NEVER], Some(Queue::Transmit));
    guests[0].send(&[&addressed(0x04, 0x02)]);
    guests[0].send(&[&addressed(0xff, 0x02)]);
    shared.run_until(ports[0], [0, NEVER], Some(Queue::Transmit));
    let sent = shared.statistics().from_lower;
    for (number, marks) in [(1, 2), (2, 2)] {
        shared.run_until(ports[number], [150_000, NEVER], None);
        // The first of the other upper machine, of which nobody had heard, went everywhere.
        assert_eq!(guests[number].received_marks().len(), marks, "machine {number}");
    }
    assert_eq!(sent.frames, 2, "each was on the lower machine's wire once");
}

#[test]
fn all_who_wait_for_the_one_that_stands_wait_at_one_time() {
    let (shared, _guests, ports) = three(GBIT);
    let wait = |at: PortIndex| {
        let told = Arc::clone(&shared);
        std::thread::spawn(move || told.run_until(at, [100_000, NEVER], None))
    };
    shared.run_until(ports[0], [0, 0], None);
    let first = wait(ports[1]);
    while !shared.wake(&ports[1..2]) {
        std::thread::yield_now();
    }
    assert!(!shared.wake(&ports[1..]), "the third has not come so far");
    let second = wait(ports[2]);
    while !shared.wake(&ports[1..]) {
        std::thread::yield_now();
    }
    assert!(!first.is_finished() && !second.is_finished());
    shared.run_until(ports[0], [50_000, NEVER], None);
    // They may run on, each as far as the other two let it.
    for waiting in [first, second] {
        assert!(waiting.join().unwrap().is_some_and(|next_ns| next_ns > 100_000));
    }
}
