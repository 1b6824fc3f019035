//! An image file whose writes wait in the host's page cache until the flush that follows each of them: what the cache
//! writes out is joined by place and order, and every join is held against the truth.

mod support;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap};

use nestor_correlate::{
    CacheBetween, CorrelateOptions, Correlation, ExtentMap, LevelInput, MappedExtent, Origin, SpaceMap,
    Unmatched, correlate_observed,
};
use nestor_layout::Class;
use nestor_statistics::SeededOrder;
use nestor_trace::event::Flags;
use nestor_trace::{Operation, Request};
use proptest::prelude::*;
use support::{header, request};

const PAGE: u64 = 4096;
/// Pages of the virtual disk: few, so that many are written over.
const PAGES: u64 = 160;
const CLUSTER: u64 = 16 * PAGE;
const START: u64 = 1_000_000_000;

#[derive(Clone, Copy, Debug)]
struct Plan {
    seed: u64,
    writes: usize,
    depth: usize,
    /// Share of the writes that are answered without the flush of their own.
    answered_early: f64,
    /// Share of writes and of flushes of somebody else on the host, for each write of the guest.
    foreign: f64,
}

/// Where a request below came from: origin, parents, and those whose data it writes.
type Truth = (Origin, BTreeSet<u64>, BTreeSet<u64>);

#[derive(Default)]
struct Recorded {
    /// Virtual disk, image file, host.
    levels: [Vec<Request>; 3],
    truth: [HashMap<u64, Truth>; 3],
    /// Writes of the guest that were answered before their data was on its way to the disk.
    early: usize,
    foreign_writes: u64,
    foreign_flushes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Write,
    /// Of the write with this number, which was written to the file by this request.
    Flush(u64, u64),
    Foreign,
}

struct Machine {
    plan: Plan,
    random: SeededOrder,
    maps: [ExtentMap; 2],
    recorded: Recorded,
    events: BinaryHeap<Reverse<(u64, Event)>>,
    /// Page of the file, the request that wrote it, and when it was there.
    dirty: Vec<(u64, u64, u64)>,
    flush_ends: u64,
    /// Writes of the guest, the pages that they write, and when they are answered.
    busy: Vec<(u64, (u64, u64), Option<u64>)>,
    /// Of the requests on the file: when the guest was answered, and when their data first was on its way.
    answered: BTreeMap<u64, u64>,
    appeared: HashMap<u64, u64>,
}

/// Clusters of an upper space in another order below, from `base` on.
fn scattered(random: &mut SeededOrder, clusters: u64, base: u64) -> ExtentMap {
    let mut order: Vec<u64> = (0..clusters).collect();
    for at in (1..order.len()).rev() {
        order.swap(at, random.below(at + 1));
    }
    let extent = |(upper, lower): (usize, u64)| MappedExtent {
        upper: upper as u64 * CLUSTER,
        lower: base + lower * CLUSTER,
        bytes: CLUSTER,
    };
    ExtentMap::new(order.into_iter().enumerate().map(extent).collect()).unwrap()
}

impl Machine {
    fn new(plan: Plan) -> Self {
        let mut random = SeededOrder::new(plan.seed);
        let clusters = PAGES * PAGE / CLUSTER;
        let in_file = scattered(&mut random, clusters, 2 * CLUSTER);
        let on_device = scattered(&mut random, clusters + 2, 1 << 30);
        Self {
            plan,
            random,
            maps: [in_file, on_device],
            recorded: Recorded::default(),
            events: BinaryHeap::new(),
            dirty: Vec::new(),
            flush_ends: 0,
            busy: Vec::new(),
            answered: BTreeMap::new(),
            appeared: HashMap::new(),
        }
    }

    fn chance(&mut self, share: f64) -> bool {
        (self.random.below(1 << 30) as f64) < share * f64::from(1 << 30)
    }

    fn add(&mut self, level: usize, operation: Operation, place: (u64, u64), times: (u64, u64)) -> u64 {
        let id = self.recorded.levels[level].len() as u64;
        self.recorded.levels[level].push(Request {
            id,
            operation,
            flags: Flags::default().with(Flags::FLUSH, operation == Operation::Flush),
            class: if operation == Operation::Flush { Class::Flush } else { Class::Unknown },
            offset: place.0,
            bytes: place.1,
            queued_ns: times.0,
            issued_ns: times.0,
            completed_ns: times.1,
            bios: 1,
            pid: 0,
        });
        id
    }

    fn know(&mut self, level: usize, id: u64, origin: Origin, parents: &[u64], writers: BTreeSet<u64>) {
        let truth = (origin, parents.iter().copied().collect(), writers);
        self.recorded.truth[level].insert(id, truth);
    }

    /// A read through all levels, so that what is recorded at each begins and ends with one.
    fn read(&mut self, at: u64) {
        let file = self.maps[0].pieces(0, PAGE).next().unwrap().lower.unwrap();
        let device = self.maps[1].pieces(file, PAGE).next().unwrap().lower.unwrap();
        let above = self.add(0, Operation::Read, (0, PAGE), (at, at + 900));
        let on_file = self.add(1, Operation::Read, (file, PAGE), (at + 100, at + 800));
        let on_host = self.add(2, Operation::Read, (device, PAGE), (at + 200, at + 700));
        self.know(1, on_file, Origin::Parent, &[above], BTreeSet::new());
        self.know(2, on_host, Origin::Parent, &[on_file], BTreeSet::new());
    }

    fn run(mut self) -> (Recorded, [ExtentMap; 2]) {
        self.read(START - 10_000);
        for slot in 0..self.plan.depth as u64 {
            self.events.push(Reverse((START + 700 * slot, Event::Write)));
        }
        let mut left = self.plan.writes;
        let mut now = START;
        while let Some(Reverse((at, event))) = self.events.pop() {
            now = now.max(at);
            match event {
                Event::Write if left == 0 => {}
                Event::Write => {
                    left -= 1;
                    self.write(at);
                }
                Event::Flush(guest, file) if at < self.flush_ends => {
                    self.events.push(Reverse((self.flush_ends + 100, Event::Flush(guest, file))));
                }
                Event::Flush(guest, file) => now = now.max(self.flush(at, guest, file)),
                Event::Foreign => self.foreign(at),
            }
        }
        now += 1_000_000;
        let ends = self.write_out(now, u64::MAX, &[]);
        self.read(ends + 10_000);
        let late = |(file, answered): (&u64, &u64)| self.appeared.get(file).is_none_or(|at| at > answered);
        self.recorded.early = self.answered.iter().filter(|entry| late(*entry)).count();
        for level in &mut self.recorded.levels {
            level.sort_by_key(|request| request.completed_ns);
        }
        (self.recorded, self.maps)
    }

    fn write(&mut self, at: u64) {
        let (first, pages) = self.place(at);
        let place = (first * PAGE, pages * PAGE);
        let file = self.maps[0].pieces(place.0, 1).next().unwrap().lower.unwrap();
        let guest = self.add(0, Operation::Write, place, (at, at));
        let on_file = self.add(1, Operation::Write, (file, place.1), (at + 1_000, at + 5_000));
        self.busy.push((guest, (first, pages), None));
        self.know(1, on_file, Origin::Parent, &[guest], BTreeSet::new());
        for page in 0..pages {
            self.dirty.push((file / PAGE + page, on_file, at + 5_000));
        }
        if self.chance(self.plan.answered_early) {
            self.answer(guest, on_file, at + 8_000);
        } else {
            self.events.push(Reverse((at + 6_000, Event::Flush(guest, on_file))));
        }
    }

    fn answer(&mut self, guest: u64, on_file: u64, at: u64) {
        self.recorded.levels[0][guest as usize].completed_ns = at;
        self.answered.insert(on_file, at);
        self.busy.iter_mut().filter(|(other, ..)| *other == guest).for_each(|(.., until)| *until = Some(at));
        let mut pause = 500 + self.random.below(20_000) as u64;
        if self.chance(self.plan.foreign) {
            self.events.push(Reverse((at + 12_000, Event::Foreign)));
            pause += 25_000;
        }
        self.events.push(Reverse((at + pause, Event::Write)));
    }

    /// The flush that follows a write. Returns when it is over.
    fn flush(&mut self, at: u64, guest: u64, on_file: u64) -> u64 {
        let flush = self.add(1, Operation::Flush, (0, 0), (at, at));
        self.know(1, flush, Origin::FlushOfParent, &[guest], BTreeSet::new());
        let written = self.write_out(at + 500, at, &[flush]);
        let below = self.add(2, Operation::Flush, (0, 0), (written + 300, written + 60_000));
        self.know(2, below, Origin::Parent, &[flush], BTreeSet::new());
        let ends = written + 61_000;
        self.recorded.levels[1][flush as usize].completed_ns = ends;
        self.flush_ends = ends;
        self.answer(guest, on_file, ends + 1_000);
        ends
    }

    /// Writes what was there at a time, neighbours together. Returns when that is done.
    fn write_out(&mut self, from: u64, there_at: u64, flush: &[u64]) -> u64 {
        let there = self.dirty.iter().filter(|(.., at)| *at <= there_at);
        let pages: BTreeSet<u64> = there.map(|(page, ..)| *page).collect();
        let mut runs: Vec<(u64, Vec<u64>)> = Vec::new();
        for page in pages {
            let device = self.maps[1].pieces(page * PAGE, PAGE).next().unwrap().lower.unwrap();
            match runs.last_mut() {
                Some((start, pages)) if *start + pages.len() as u64 * PAGE == device => pages.push(page),
                _ => runs.push((device, vec![page])),
            }
        }
        let (mut at, mut ends) = (from, from);
        let origin = if flush.is_empty() { Origin::WriteBack } else { Origin::FlushOfParent };
        for (start, pages) in runs {
            let writers: BTreeSet<u64> = pages.iter().map(|page| self.written(*page, at)).collect();
            let over = at + 20_000 + self.random.below(80_000) as u64;
            ends = ends.max(over);
            for writer in &writers {
                self.appeared.entry(*writer).or_insert(at);
            }
            let bytes = pages.len() as u64 * PAGE;
            let id = self.add(2, Operation::Write, (start, bytes), (at, over));
            self.know(2, id, origin, flush, writers);
            at += 50;
        }
        ends.max(at)
    }

    /// Whether the guest's next flush is so near that one of somebody else's could be taken for it.
    fn flushes_before(&self, at: u64) -> bool {
        self.events.iter().any(|Reverse((next, event))| *next < at && matches!(event, Event::Flush(..)))
    }

    /// What wrote a page last until a time; then it is clean.
    fn written(&mut self, page: u64, until: u64) -> u64 {
        let mut last = (0, 0);
        self.dirty.retain(|(dirty, writer, at)| {
            let is_it = *dirty == page && *at <= until;
            if is_it {
                last = last.max((*at, *writer));
            }
            !is_it
        });
        last.1
    }

    /// A place that no write is under way to, as no guest's kernel writes to one place twice at once.
    fn place(&mut self, at: u64) -> (u64, u64) {
        self.busy.retain(|(.., until)| until.is_none_or(|until| until + 10_000 > at));
        loop {
            let pages = 1 + self.random.below(3) as u64;
            let first = self.random.below((PAGES - pages) as usize) as u64;
            // Within one cluster, so that it is one request on the file.
            let first = first.min((first / 16) * 16 + 16 - pages);
            if self
                .busy
                .iter()
                .all(|(_, (start, count), _)| first + pages <= *start || start + count <= first)
            {
                return (first, pages);
            }
        }
    }

    /// Somebody else writes beside the image, or flushes while nothing of the guest's is flushed.
    fn foreign(&mut self, at: u64) {
        if self.chance(0.5) {
            let place = ((1 << 20) + self.random.below(1000) as u64 * PAGE, PAGE);
            let id = self.add(2, Operation::Write, place, (at, at + 5_000));
            self.know(2, id, Origin::Unknown, &[], BTreeSet::new());
            self.recorded.foreign_writes += 1;
        } else if at > self.flush_ends + 10_000 && !self.flushes_before(at + 10_000) {
            let id = self.add(2, Operation::Flush, (0, 0), (at, at + 90));
            self.know(2, id, Origin::Unknown, &[], BTreeSet::new());
            self.recorded.foreign_flushes += 1;
        }
    }
}

/// Joins what a plan records; what was joined otherwise than it was.
fn check(plan: Plan) -> (Recorded, Correlation, Vec<String>) {
    let (recorded, [in_file, on_device]) = Machine::new(plan).run();
    let [disk, file, host] = recorded.levels.clone();
    let levels = [
        LevelInput::new(header("kvm", "hypervisor", "host"), disk),
        LevelInput::new(header("vmdk", "image file", "host"), file)
            .with_cache(CacheBetween::NONE)
            .with_map(SpaceMap::Extents(in_file)),
        LevelInput::new(header("ext4", "host block", "host"), host)
            .with_cache(CacheBetween::WRITE_THROUGH)
            .with_map(SpaceMap::Extents(on_device)),
    ];
    let mut wrong = Vec::new();
    let correlation = correlate_observed(&levels, &CorrelateOptions::default(), &mut |joined| {
        let found: Truth = (
            joined.origin,
            joined.parents.iter().copied().collect(),
            joined.writers.iter().copied().collect(),
        );
        let truth = &recorded.truth[joined.level.position()][&joined.request.id];
        if found != *truth {
            wrong.push(format!("{:?}: {found:?} instead of {truth:?}", joined.request));
        }
    })
    .unwrap();
    (recorded, correlation, wrong)
}

fn assert_true(plan: Plan) -> Correlation {
    let (recorded, correlation, wrong) = check(plan);
    assert!(wrong.is_empty(), "{plan:?}: {} wrong, such as {:#?}", wrong.len(), &wrong[..wrong.len().min(4)]);
    let causes = &correlation.joins[1].unmatched;
    let count = |why| causes.get(&why).copied().unwrap_or(0);
    assert_eq!(count(Unmatched::OutsideImage), recorded.foreign_writes);
    assert_eq!(count(Unmatched::FlushUnasked), recorded.foreign_flushes);
    assert_eq!(causes.values().sum::<u64>(), recorded.foreign_writes + recorded.foreign_flushes);
    let said = correlation.remarks.iter().find(|remark| remark.contains("of the guest completed before"));
    let expected = format!("vmdk to ext4: {} of {} writes", recorded.early, plan.writes);
    match recorded.early {
        0 => assert_eq!(said, None),
        _ => assert!(said.is_some_and(|said| said.starts_with(&expected)), "{expected}: {said:?}"),
    }
    correlation
}

const ONE_AT_A_TIME: Plan = Plan { seed: 1, writes: 400, depth: 1, answered_early: 0.0, foreign: 0.0 };

#[test]
fn a_write_that_is_written_through_is_joined_with_all_that_it_waits_for() {
    let correlation = assert_true(ONE_AT_A_TIME);
    assert!(correlation.unmatched().is_empty());
    assert_eq!(correlation.joins[1].by_content, 400);
    let write = correlation.trees.iter().find(|tree| tree.choice.to_string() == "median write").unwrap();
    let flush = write.root.children.iter().find(|child| child.request.operation == Operation::Flush).unwrap();
    let below: Vec<Operation> = flush.children.iter().map(|child| child.request.operation).collect();
    assert_eq!(below, [Operation::Write, Operation::Flush]);
}

#[test]
fn an_answer_that_comes_too_early_is_told_from_one_in_time() {
    let correlation = assert_true(Plan { answered_early: 0.3, depth: 4, ..ONE_AT_A_TIME });
    assert!(correlation.remarks.iter().any(|remark| remark.contains("of the guest completed before")));
}

#[test]
fn what_belongs_to_nobody_is_joined_with_nobody_and_it_is_said_why() {
    let correlation = assert_true(Plan { foreign: 0.4, ..ONE_AT_A_TIME });
    let causes: Vec<Unmatched> = correlation.unmatched().iter().map(|unmatched| unmatched.why).collect();
    assert!(causes.contains(&Unmatched::OutsideImage) && causes.contains(&Unmatched::FlushUnasked));
    assert!(correlation.to_text(None).contains("requests of ext4 are at places outside the image (vmdk)"));
}

#[test]
fn a_write_that_nothing_can_have_kept_is_joined_by_place_and_order_all_the_same() {
    let write = |id, offset, (from, to): (u64, u64)| Request {
        id,
        ..request(Operation::Write, offset, PAGE, [from, from, to])
    };
    // The first is written in time, the second after its answer, and the third never. Two below are somebody else's.
    let ms = |at: u64| at * 1_000_000;
    let above = [(0, 100), (1, 300), (2, 500)].map(|(id, at)| write(id, id * PAGE, (ms(at), ms(at + 100))));
    let below = [(0, 8, 50, 60), (1, 0, 120, 180), (2, 1, 450, 700), (3, 9, 800, 900)]
        .map(|(id, page, from, to)| write(id, page * PAGE, (ms(from), ms(to))));
    let (above, below) = (above.to_vec(), below.to_vec());
    let levels = [
        LevelInput::new(header("kvm", "hypervisor", "host"), above),
        LevelInput::new(header("xfs", "host block", "host"), below).with_cache(CacheBetween::NONE),
    ];
    let mut joined = Vec::new();
    let correlation = correlate_observed(&levels, &CorrelateOptions::default(), &mut |join| {
        joined.push((join.origin, join.parents.to_vec(), join.writers.to_vec()));
    })
    .unwrap();
    assert_eq!(
        joined,
        [
            (Origin::Unknown, vec![], vec![]),
            (Origin::Parent, vec![0], vec![]),
            (Origin::WriteBack, vec![], vec![1]),
            (Origin::Unknown, vec![], vec![])
        ]
    );
    let join = &correlation.joins[0];
    assert_eq!((join.unmatched_above, join.absorbed, join.by_content), (1, 1, 1));
    assert!(correlation.remarks.iter().any(|r| r.contains("1 of 3 writes were answered before any part")));
}

#[test]
fn a_client_of_nfs_answers_a_flush_itself_where_it_has_nothing_to_commit() {
    let request = |id, operation, bytes, (from, to): (u64, u64)| Request {
        id,
        ..request(operation, 0, bytes, [from, from, to])
    };
    let ms = |from: u64, to: u64| (from * 1_000_000, to * 1_000_000);
    let above = vec![
        request(0, Operation::Write, 2 * PAGE, ms(1, 9)),
        request(1, Operation::Flush, 0, ms(20, 21)),
        request(2, Operation::Flush, 0, ms(30, 40)),
    ];
    // A write that is several calls is committed at once, before anything is flushed.
    let calls = vec![
        request(0, Operation::Write, 2 * PAGE, ms(2, 5)),
        request(1, Operation::Flush, 0, ms(6, 8)),
        request(2, Operation::Flush, 0, ms(31, 39)),
    ];
    let joined = |kind| {
        let levels = [
            LevelInput::new(header("kvm", "hypervisor", "client"), above.clone()),
            LevelInput::new(header("nfs", kind, "client"), calls.clone()).with_cache(CacheBetween::NONE),
        ];
        let mut origins = Vec::new();
        let correlation = correlate_observed(&levels, &CorrelateOptions::default(), &mut |join| {
            origins.push((join.origin, join.parents.to_vec()));
        })
        .unwrap();
        let expected =
            [(Origin::Parent, vec![0]), (Origin::FlushOfParent, vec![0]), (Origin::Parent, vec![2])];
        assert_eq!(origins, expected);
        (correlation.joins[0].unmatched_above, correlation.joins[0].absorbed)
    };
    assert_eq!(joined("client calls"), (0, 1));
    assert_eq!(joined("host block"), (1, 0));
}

#[test]
fn data_of_an_image_that_lies_nowhere_in_the_disk_is_of_the_format_s_tables() {
    let request = |id, operation, class, page: u64, (from, to): (u64, u64)| Request {
        id,
        class,
        ..request(operation, page * PAGE, PAGE, [from, from, to])
    };
    let above = vec![request(0, Operation::Write, Class::FileData, 0, (1_000_000, 9_000_000))];
    let below = vec![
        request(0, Operation::Write, Class::ImageData, 4, (2_000_000, 3_000_000)),
        request(1, Operation::Write, Class::ImageData, 7, (4_000_000, 5_000_000)),
        request(2, Operation::Read, Class::ImageData, 7, (5_100_000, 5_500_000)),
        request(3, Operation::Write, Class::FileData, 8, (6_000_000, 7_000_000)),
    ];
    let map = ExtentMap::new(vec![MappedExtent { upper: 0, lower: 4 * PAGE, bytes: 2 * PAGE }]).unwrap();
    let levels = [
        LevelInput::new(header("nbd", "client block", "client"), above),
        LevelInput::new(header("xfs", "host block", "host"), below)
            .with_cache(CacheBetween::NONE)
            .with_map(SpaceMap::Extents(map)),
    ];
    let mut joined = Vec::new();
    let correlation = correlate_observed(&levels, &CorrelateOptions::default(), &mut |join| {
        joined.push((join.origin, join.parents.to_vec()));
    })
    .unwrap();
    let of_tables = || (Origin::Metadata, vec![0]);
    assert_eq!(joined, [(Origin::Parent, vec![0]), of_tables(), of_tables(), (Origin::Unknown, vec![])]);
    assert_eq!(correlation.joins[0].unmatched, BTreeMap::from([(Unmatched::OutsideImage, 1)]));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn no_join_by_place_and_order_is_false(
        seed in any::<u64>(),
        depth in 1..24_usize,
        answered_early in 0.0..0.6_f64,
        foreign in 0.0..0.3_f64,
    ) {
        assert_true(Plan { seed, writes: 300, depth, answered_early, foreign });
    }
}
