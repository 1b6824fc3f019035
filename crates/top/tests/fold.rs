//! Nothing is lost or counted twice, wherever the boundaries of intervals are.

use nestor_top::{BlockLayer, Fold, Happened, Interval, LayerKind, Layers, Machine, Snapshot};
use nestor_trace::Operation;
use nestor_trace::decode::file_io::{FileIo, FileIoEvent};
use nestor_trace::event::{Action, BlockEvent, Device, Direction, Flags};
use proptest::prelude::*;

const DISK: Device = Device { major: 8, minor: 0 };
const PARTITION: Device = Device { major: 8, minor: 1 };
const IMAGE: u32 = 9;
const QEMU: u32 = 100;

fn layers() -> Layers {
    let mut layers = Layers::new();
    layers.add([("qemu mail".to_owned(), LayerKind::Hypervisor)]);
    layers.add([("ext4 /srv".to_owned(), LayerKind::FileSystem)]);
    let block = BlockLayer { device: DISK, partitions: vec![PARTITION], has_requests: true };
    layers.add([("sda".to_owned(), LayerKind::Device(block))]);
    layers
}

fn machine() -> Machine {
    Machine { threads: (QEMU..QEMU + 16).collect(), images: [IMAGE].into() }
}

fn block(
    time_ns: u64,
    device: Device,
    action: Action,
    direction: Direction,
    sector: u64,
    bytes: u64,
) -> Happened {
    Happened::Block(BlockEvent {
        time_ns,
        sequence: 0,
        cpu: 0,
        pid: QEMU,
        device,
        action,
        direction,
        flags: Flags::default(),
        sector,
        bytes,
        error: 0,
    })
}

fn io(time_ns: u64, thread: u32, what: FileIo) -> Happened {
    Happened::FileIo(FileIoEvent { time_ns, thread, what })
}

/// One request of the hypervisor that becomes one of the disk: a call, Q, D, C, the return.
#[derive(Clone, Debug)]
struct Passing {
    thread: u32,
    start_ns: u64,
    steps_ns: [u64; 4],
    write: bool,
    sectors: u64,
}

impl Passing {
    fn events(&self, number: u64) -> Vec<(u64, Happened)> {
        let mut at = self.start_ns;
        let [before, queue, service, after] = self.steps_ns;
        let (direction, operation) = if self.write {
            (Direction::Write, Operation::Write)
        } else {
            (Direction::Read, Operation::Read)
        };
        let (sector, bytes) = (number * 1024, self.sectors * 512);
        let mut events = vec![(at, io(at, self.thread, FileIo::Entered { operation, descriptor: IMAGE }))];
        at += before;
        events.push((at, block(at, PARTITION, Action::Queue, direction, sector, bytes)));
        at += queue;
        events.push((at, block(at, DISK, Action::Issue, direction, sector, bytes)));
        at += service;
        events.push((at, block(at, DISK, Action::Complete, direction, sector, bytes)));
        at += after;
        events.push((at, io(at, self.thread, FileIo::Left { result: bytes.cast_signed() })));
        events
    }

    fn end_ns(&self) -> u64 {
        self.start_ns + self.steps_ns.iter().sum::<u64>()
    }
}

/// Requests of some threads, each with one at a time.
fn passing() -> impl Strategy<Value = Vec<Passing>> {
    let one = (0..8_u32, 1..400_u64, prop::array::uniform4(1..200_u64), any::<bool>(), 1..64_u64);
    prop::collection::vec(one, 1..80).prop_map(|all| {
        let mut free_ns = [1_000_u64; 8];
        all.into_iter()
            .map(|(thread, pause, steps_ns, write, sectors)| {
                let start_ns = free_ns[thread as usize] + pause;
                let one = Passing { thread: QEMU + thread, start_ns, steps_ns, write, sectors };
                free_ns[thread as usize] = one.end_ns() + 1;
                one
            })
            .collect()
    })
}

/// Events with their times.
type Events = Vec<(u64, Happened)>;

/// Intervals with these boundaries; events are pushed as a reader would have them, those of the block layer first.
fn intervals(passing: &[Passing], boundaries: &[u64]) -> Vec<Interval> {
    let mut events: Events = passing.iter().enumerate().flat_map(|(n, one)| one.events(n as u64)).collect();
    events.sort_by_key(|(at, happened)| (*at, matches!(happened, Happened::FileIo(_))));
    let mut fold = Fold::new(layers(), 0);
    fold.set_machine(machine());
    let mut rest = &events[..];
    let mut found = Vec::new();
    for &until_ns in boundaries {
        let (now, later) = rest.split_at(rest.partition_point(|(at, _)| *at <= until_ns));
        let (blocks, calls): (Events, Events) =
            now.iter().copied().partition(|(_, happened)| matches!(happened, Happened::Block(_)));
        blocks.into_iter().chain(calls).for_each(|(_, happened)| fold.push(happened));
        found.push(fold.cut(until_ns));
        fold.set_machine(machine());
        rest = later;
    }
    found
}

fn sum(intervals: &[Interval]) -> Interval {
    let mut all = Interval::default();
    intervals.iter().for_each(|one| all.extend(one));
    all
}

/// Time in which any of these spans was under way.
fn union_ns(mut spans: Vec<(u64, u64)>) -> u64 {
    spans.sort_unstable();
    let (mut until, mut sum) = (0, 0);
    for (from, to) in spans {
        sum += to.saturating_sub(from.max(until));
        until = until.max(to);
    }
    sum
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_request_is_counted_once_whatever_the_intervals(
        passing in passing(),
        mut boundaries in prop::collection::vec(1..6_000_u64, 0..12),
    ) {
        let end_ns = passing.iter().map(Passing::end_ns).max().unwrap_or(0) + 1;
        boundaries.retain(|at| *at < end_ns);
        boundaries.push(end_ns);
        boundaries.sort_unstable();
        boundaries.dedup();
        let cut = intervals(&passing, &boundaries);
        let all = sum(&cut);
        let writes = passing.iter().filter(|one| one.write);
        let (count, bytes) = (writes.clone().count() as u64, writes.map(|one| one.sectors * 512).sum::<u64>());
        let every: u64 = passing.iter().map(|one| one.sectors * 512).sum();
        for layer in &all.layers {
            prop_assert_eq!((layer.writes.count, layer.writes.bytes), (count, bytes));
            prop_assert_eq!((layer.ended(), layer.bytes()), (passing.len() as u64, every));
            prop_assert_eq!(layer.latency().count(), passing.len() as u64);
            prop_assert_eq!(layer.under_way, 0);
        }
        prop_assert_eq!(all.late_events, 0);
        // What lies before an end has begun and not ended.
        for (interval, until) in cut.iter().zip(&boundaries) {
            let under_way = passing.iter().filter(|one| one.start_ns <= *until && one.end_ns() > *until);
            prop_assert_eq!(interval.layers[0].under_way, under_way.count() as u64);
        }
        // One interval has the same numbers as many.
        prop_assert_eq!(&intervals(&passing, &[end_ns])[0].layers, &all.layers);
    }

    #[test]
    fn time_is_divided_among_the_layers_and_none_is_left_over(passing in passing()) {
        let end_ns = passing.iter().map(Passing::end_ns).max().unwrap_or(0) + 1;
        let all = &intervals(&passing, &[end_ns])[0];
        for layer in &all.layers {
            prop_assert_eq!(layer.with_ns.iter().sum::<u64>(), layer.busy_ns);
        }
        let span = |from: usize, to: usize| {
            let at = |one: &Passing, steps: usize| one.start_ns + one.steps_ns[..steps].iter().sum::<u64>();
            union_ns(passing.iter().map(|one| (at(one, from), at(one, to))).collect())
        };
        let [hypervisor, file_system, device] = [span(0, 4), span(1, 3), span(2, 3)];
        prop_assert_eq!(all.layers.iter().map(|l| l.busy_ns).collect::<Vec<_>>(), [hypervisor, file_system, device]);
        // The lowest layer with a request has the time of all above it.
        prop_assert_eq!(&all.layers[0].with_ns, &[hypervisor - file_system, file_system - device, device]);
        // Little's law: the sum over time of what is under way is that of the requests' times.
        let times: u128 = passing.iter().map(|one| u128::from(one.end_ns() - one.start_ns)).sum();
        prop_assert_eq!(all.layers[0].under_way_ns, times);
    }

    #[test]
    fn any_events_are_taken(
        events in prop::collection::vec((0..2_000_u64, 0..9_u8, 0..4_u64, 0..3_u64, any::<u8>()), 0..300),
        cut in 1..3_000_u64,
    ) {
        let mut fold = Fold::new(layers(), 500);
        fold.set_machine(machine());
        let directions = [Direction::Read, Direction::Write, Direction::Discard, Direction::None];
        for (number, (at, kind, place, length, bits)) in events.iter().copied().enumerate() {
            let action = match kind {
                0 => Action::Queue,
                1 => Action::Issue,
                2 => Action::Complete,
                3 => Action::Requeue,
                4 => Action::BackMerge,
                5 => Action::Split { new_sector: place * 8 + 4 },
                6 => Action::Insert,
                _ => Action::GetRequest,
            };
            let thread = QEMU + u32::from(bits % 8);
            fold.push(match kind {
                7 => io(at, thread, FileIo::Entered { operation: Operation::Read, descriptor: IMAGE + u32::from(bits & 1) }),
                8 => io(at, thread, FileIo::Left { result: i64::from(bits) - 20 }),
                _ => {
                    let direction = directions[usize::from(bits % 4)];
                    let mut happened = block(at, DISK, action, direction, place * 8, length * 4096);
                    if let Happened::Block(event) = &mut happened {
                        event.flags = event.flags.with(Flags::FLUSH, bits & 64 > 0).with(Flags::FUA, bits & 32 > 0);
                    }
                    happened
                }
            });
            if number % 50 == 49 {
                fold.settle(at);
            }
        }
        let interval = fold.cut(cut);
        for layer in &interval.layers {
            prop_assert_eq!(layer.with_ns.iter().sum::<u64>(), layer.busy_ns);
            prop_assert!(layer.busy_ns <= interval.until_ns - interval.from_ns);
        }
        prop_assert!(serde_json::to_string(&Snapshot::of(fold.layers(), &interval)).is_ok());
    }
}

#[test]
fn a_request_over_a_boundary_counts_where_it_ends_and_is_under_way_before() {
    let one =
        Passing { thread: QEMU, start_ns: 100, steps_ns: [100, 100, 800, 100], write: true, sectors: 8 };
    let cut = intervals(&[one], &[500, 1_500]);
    assert_eq!(cut[0].layers.iter().map(|l| (l.ended(), l.under_way)).collect::<Vec<_>>(), [(0, 1); 3]);
    assert_eq!(cut[1].layers.iter().map(|l| (l.ended(), l.under_way)).collect::<Vec<_>>(), [(1, 0); 3]);
    assert_eq!(cut[0].layers[0].with_ns, [100, 100, 200]);
    assert_eq!(cut[1].layers[0].with_ns, [100, 0, 600]);
    let snapshot = Snapshot::of(&layers(), &cut[1]);
    assert_eq!(
        snapshot.sentence(),
        "qemu mail is busy 70 % of the time and waits mostly for sda: 86 % of that"
    );
}

#[test]
fn only_images_of_the_machine_count_and_rings_are_followed_by_their_requests() {
    let mut fold = Fold::new(layers(), 0);
    fold.set_machine(machine());
    let write = Operation::Write;
    for happened in [
        // Another file; a call that has to be repeated; another process's ring.
        io(1, QEMU, FileIo::Entered { operation: write, descriptor: 3 }),
        io(2, QEMU, FileIo::Left { result: 4096 }),
        io(3, QEMU, FileIo::Entered { operation: write, descriptor: IMAGE }),
        io(4, QEMU, FileIo::Left { result: -11 }),
        io(5, 7, FileIo::Submitted { request: 1, operation: write }),
        io(6, 7, FileIo::Completed { request: 1, result: 4096 }),
        // A ring's request that the kernel's thread ends, and one on another file.
        io(10, QEMU, FileIo::Submitted { request: 2, operation: write }),
        io(11, QEMU, FileIo::File { request: 2, descriptor: IMAGE }),
        io(12, QEMU, FileIo::Submitted { request: 3, operation: write }),
        io(13, QEMU, FileIo::File { request: 3, descriptor: 3 }),
        io(30, 999, FileIo::Completed { request: 2, result: 4096 }),
        io(31, 999, FileIo::Completed { request: 3, result: 4096 }),
        // A flush of which no file is seen.
        io(40, QEMU, FileIo::Submitted { request: 4, operation: Operation::Flush }),
        io(50, 999, FileIo::Completed { request: 4, result: 0 }),
    ] {
        fold.push(happened);
    }
    let interval = fold.cut(100);
    let counts = &interval.layers[0];
    assert_eq!((counts.writes.count, counts.writes.bytes, counts.flushes.count), (1, 4096, 1));
    assert_eq!(counts.writes.latency.quantile_ns(0.5), Some(20));
    assert_eq!(counts.under_way, 0);
}

#[test]
fn flushes_are_counted_at_both_layers_and_those_of_the_block_layer_at_one() {
    let flush = Flags::default().union(Flags::FLUSH);
    let event = |time_ns, action| {
        let mut happened = block(time_ns, DISK, action, Direction::None, 0, 0);
        if let Happened::Block(event) = &mut happened {
            event.flags = flush;
        }
        happened
    };
    let mut fold = Fold::new(layers(), 0);
    for happened in [
        event(10, Action::Queue),
        event(20, Action::Issue),
        event(120, Action::Complete),
        // After data with FUA on a disk without it: nobody queued it.
        event(200, Action::Issue),
        event(230, Action::Complete),
    ] {
        fold.push(happened);
    }
    let interval = fold.cut(300);
    let flushes: Vec<_> =
        interval.layers.iter().map(|l| (l.flushes.count, l.flushes.latency.quantile_ns(0.99))).collect();
    assert_eq!(flushes, [(0, None), (1, Some(110)), (2, Some(100))]);
    assert_eq!(interval.layers[2].busy_ns, 130);
}

#[test]
fn a_device_without_requests_has_what_it_is_handed() {
    let mut layers = Layers::new();
    let device = |minor, has_requests| {
        LayerKind::Device(BlockLayer {
            device: Device { major: 253, minor },
            partitions: Vec::new(),
            has_requests,
        })
    };
    layers.add([("dm-0".to_owned(), device(0, false))]);
    layers.add([("sda".to_owned(), device(1, true)), ("sdb".to_owned(), device(2, true))]);
    let of = |minor| Device { major: 253, minor };
    let mut fold = Fold::new(layers.clone(), 0);
    for happened in [
        block(10, of(0), Action::Queue, Direction::Write, 0, 8192),
        block(20, of(1), Action::Queue, Direction::Write, 0, 8192),
        block(20, of(2), Action::Queue, Direction::Write, 0, 8192),
        block(30, of(1), Action::Issue, Direction::Write, 0, 8192),
        block(30, of(2), Action::Issue, Direction::Write, 0, 8192),
        block(60, of(1), Action::Complete, Direction::Write, 0, 8192),
        block(90, of(2), Action::Complete, Direction::Write, 0, 8192),
        block(95, of(0), Action::Complete, Direction::Write, 0, 8192),
    ] {
        fold.push(happened);
    }
    let interval = fold.cut(100);
    let counts: Vec<_> =
        interval.layers.iter().map(|l| (l.writes.count, l.writes.bytes, l.busy_ns)).collect();
    assert_eq!(counts, [(1, 8192, 85), (1, 8192, 30), (1, 8192, 60)]);
    assert_eq!(interval.layers[0].with_ns, [25, 30, 30]);
    let snapshot = Snapshot::of(&layers, &interval);
    let times: Vec<_> = snapshot.layers.iter().map(|row| row.bytes_per_byte_above).collect();
    assert_eq!(times, [None, Some(1.0), Some(1.0)]);
}
