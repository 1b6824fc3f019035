//! Joins held against what is known: a stack that writes down which request caused which.

mod support;

use nestor_correlate::{
    CacheBetween, CorrelateOptions, Correlation, ExtentMap, LevelIndex, LevelInput, MappedExtent, Node,
    Origin, SpaceMap, correlate, correlate_observed,
};
use nestor_trace::request_file::ClockReading;
use nestor_trace::{Operation, Request, RequestHeader};
use proptest::prelude::*;
use support::{Plan, Recorded, Stack, header};

/// How many of the requests of each lower level were joined as they should be, of how many.
#[derive(Clone, Copy, Debug, Default)]
struct Score {
    right: u64,
    all: u64,
}

impl Score {
    fn share(self) -> f64 {
        if self.all == 0 { 1.0 } else { self.right as f64 / self.all as f64 }
    }
}

struct Checked {
    correlation: Correlation,
    scores: [Score; 4],
    wrong: Vec<String>,
}

fn inputs(recorded: &Recorded, cached: bool) -> Vec<LevelInput<'static>> {
    let cache = if cached { CacheBetween::WRITE_BACK } else { CacheBetween::NONE };
    let [guest, hypervisor, host, medium] = recorded.levels.clone();
    vec![
        LevelInput::new(header("ext4", "guest block", "guest"), guest),
        LevelInput::new(header("kvm", "hypervisor", "host"), hypervisor).with_cache(CacheBetween::NONE),
        LevelInput::new(header("xfs", "host block", "host"), host)
            .with_cache(cache)
            .with_map(SpaceMap::Extents(recorded.map.clone())),
        LevelInput::new(header("hdd", "medium", "ground"), medium).with_cache(CacheBetween::NONE),
    ]
}

fn check(plan: Plan) -> Checked {
    let recorded = Stack::new(plan).run();
    let levels = inputs(&recorded, plan.cached);
    let mut scores = [Score::default(); 4];
    let mut wrong = Vec::new();
    let correlation = correlate_observed(&levels, &CorrelateOptions::default(), &mut |joined| {
        let Some((origin, parents)) = &recorded.truth[joined.level.position()][&joined.request.id] else {
            return;
        };
        let score = &mut scores[joined.level.position()];
        score.all += 1;
        let mut found = joined.parents.to_vec();
        found.sort_unstable();
        let mut expected = parents.clone();
        expected.sort_unstable();
        // A journal write may be linked to a flush that waits; nothing is known of that. Of several flushes that wait
        // it is not known which one caused the write of the cache.
        let same = found == expected || matches!(origin, Origin::Journal | Origin::FlushOfParent);
        if joined.origin == *origin && same {
            score.right += 1;
        } else if wrong.len() < 8 {
            wrong.push(format!(
                "level {} {:?}: {:?} {found:?} instead of {origin:?} {expected:?}",
                joined.level, joined.request, joined.origin
            ));
        }
    })
    .unwrap();
    assert_divided(&correlation);
    Checked { correlation, scores, wrong }
}

/// Every request of the topmost level is divided, and its parts add up to it.
fn assert_divided(correlation: &Correlation) {
    let passage = &correlation.passage;
    let requests: u64 = passage.operations.values().map(|passed| passed.requests).sum();
    assert_eq!(requests, correlation.levels[passage.level.position()].requests);
    for passed in passage.operations.values() {
        assert_eq!(passed.levels.len(), correlation.levels.len());
        assert_eq!(passed.levels.iter().map(|part| part.ns()).sum::<u64>(), passed.whole_ns);
    }
}

fn assert_exact(plan: Plan) -> Correlation {
    let checked = check(plan);
    for score in &checked.scores[1..] {
        assert!(score.all > 0);
        assert_eq!(score.right, score.all, "{plan:?}\n{:#?}", checked.wrong);
    }
    checked.correlation
}

/// At least this share of each level's requests is joined as it should be.
fn assert_share(plan: Plan, share: f64) -> Checked {
    let checked = check(plan);
    for (level, score) in checked.scores.iter().enumerate().skip(1) {
        assert!(score.all > 0);
        let found = score.share();
        assert!(found >= share, "level {level}: {found} of {}\n{plan:?}\n{:#?}", score.all, checked.wrong);
    }
    checked
}

#[test]
fn one_request_at_a_time_is_joined_exactly() {
    let correlation = assert_exact(Plan { depth: 1, requests: 1500, ..Plan::default() });
    assert!(correlation.unmatched_share().unwrap() < 1e-9);
    assert_eq!(correlation.joins[1].clock_bound_ns, 0);
}

#[test]
fn many_at_a_time_are_joined_exactly_where_no_two_are_alike() {
    let correlation = assert_exact(Plan { depth: 64, ..Plan::default() });
    assert_eq!(correlation.trees.len(), 6);
    assert_eq!(correlation.timeline.len(), 200);
    let root = &correlation.trees[0].root;
    let mut depth = 0;
    let mut node = root;
    while let Some(child) = node.children.first() {
        let (above, below) = (&node.request, &child.request);
        // A clock that is known to some microseconds moves a request by as much.
        assert!(
            below.queued_ns + 100_000 >= above.issued_ns
                && below.completed_ns <= above.completed_ns + 100_000
        );
        depth += 1;
        node = child;
    }
    assert_eq!(depth, 3);
}

#[test]
fn merged_and_split_requests_are_joined_exactly() {
    let correlation = assert_exact(Plan { merged: 0.3, sequential: 0.1, extents: 2000, ..Plan::default() });
    assert!(correlation.joins[1].merged > 100 && correlation.joins[1].split > 10);
}

#[test]
fn flushes_and_the_hosts_own_writes() {
    let plan = Plan { flushes: 0.02, journal: 0.05, ..Plan::default() };
    let correlation = assert_share(plan, 0.99).correlation;
    assert!(correlation.joins[1].origins[&Origin::Journal] > 100);
    assert!(correlation.unmatched_share().unwrap() < 0.01);
}

#[test]
fn requests_for_the_same_place_are_told_apart() {
    let plan = Plan { same_place: 0.05, depth: 32, ..Plan::default() };
    assert_share(plan, 0.97);
}

#[test]
fn a_cache_reads_ahead_and_writes_back() {
    let plan = Plan { cached: true, sequential: 0.7, flushes: 0.01, journal: 0.02, ..Plan::default() };
    let checked = assert_share(plan, 0.97);
    let join = &checked.correlation.joins[1];
    assert!(join.absorbed > 500, "{join:?}");
    assert!(join.origins[&Origin::WriteBack] + join.origins[&Origin::FlushOfParent] > 500);
    assert!(checked.correlation.unmatched_share().unwrap() < 0.01);
}

#[test]
fn a_clock_that_jumps_is_followed() {
    let plan = Plan { guest_jump_ns: 5_000_000_000, ..Plan::default() };
    let checked = assert_share(plan, 0.99);
    assert_eq!(checked.correlation.joins[0].clock_jumps, 1);
    assert!(checked.correlation.remarks.iter().any(|remark| remark.contains("jumped")));
}

#[test]
fn memory_is_bounded_by_what_is_in_flight() {
    let held = |requests| {
        let plan = Plan { requests, depth: 8, ..Plan::default() };
        check(plan).correlation.most_held
    };
    let (short, long) = (held(5_000), held(20_000));
    assert!(long < 4 * short.max(1000) && long < 12_000, "{short} {long}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8, ..ProptestConfig::default() })]

    #[test]
    fn ordinary_stacks_are_joined(
        seed in any::<u64>(),
        depth in 1..48_usize,
        (reads, sequential) in (0.0..1.0_f64, 0.0..0.9_f64),
        (merged, flushes, journal) in (0.0..0.2_f64, 0.0..0.02_f64, 0.0..0.05_f64),
        extents in 1..200_usize,
        (hours, ppm) in (-4..200_i64, -200.0..200.0_f64),
        medium in (-1_000_000_000_000..1_000_000_000_000_i64, -50.0..50.0_f64),
        disordered in 0.0..0.2_f64,
    ) {
        let plan = Plan {
            seed, depth, reads, sequential, merged, flushes, journal, extents, disordered,
            requests: 1000,
            guest_clock: (hours * 3_600_000_000_000, ppm),
            medium_clock: medium,
            ..Plan::default()
        };
        let checked = assert_share(plan, 0.99);
        prop_assert!(checked.correlation.unmatched_share().unwrap() < 0.01);
    }

    #[test]
    fn lost_records_cost_only_what_belongs_to_them(seed in any::<u64>(), lost in 0.0..0.1_f64, depth in 1..32_usize) {
        let plan = Plan { seed, lost, depth, requests: 1000, ..Plan::default() };
        let checked = assert_share(plan, 0.98);
        // Each side of a join misses what the other side lost.
        prop_assert!(checked.correlation.unmatched_share().unwrap() < 2.5 * lost + 0.01);
    }
}

/// An image format that places clusters as they are written, and reads its tables: its requests on the file are known,
/// but not where in the file a cluster lies.
#[test]
fn clusters_of_an_image_format_are_learnt() {
    const CLUSTER: u64 = 65536;
    let recorded = Stack::new(Plan { requests: 6000, sequential: 0.6, depth: 16, ..Plan::default() }).run();
    let above = recorded.levels[1].clone();
    let mut places = std::collections::HashMap::new();
    let mut next = 16;
    let mut below: Vec<(Request, Option<u64>)> = Vec::new();
    for (index, upper) in above.iter().enumerate() {
        let (mut at, end) = (upper.offset, upper.offset + upper.bytes);
        while at < end {
            let cluster = *places.entry(at / CLUSTER).or_insert_with(|| {
                next += 1;
                next
            });
            let bytes = (CLUSTER - at % CLUSTER).min(end - at);
            let offset = cluster * CLUSTER + at % CLUSTER;
            below.push((Request { offset, bytes, queued_ns: upper.issued_ns, ..*upper }, Some(upper.id)));
            at += bytes;
        }
        if index % 50 == 0 {
            // A table: its place within its cluster is that of a block of data, its cluster is no data's.
            let table = Request { operation: Operation::Read, offset: 3 * CLUSTER, bytes: 512, ..*upper };
            below.push((table, None));
        }
    }
    let truth: Vec<Option<u64>> = below.iter().map(|(_, parent)| *parent).collect();
    let below: Vec<Request> =
        below.iter().enumerate().map(|(id, (request, _))| Request { id: id as u64, ..*request }).collect();
    let levels = [
        LevelInput::new(header("kvm", "hypervisor", "host"), above),
        LevelInput::new(header("qcow2", "image file", "host"), below)
            .with_map(SpaceMap::Clusters { bytes: CLUSTER })
            .with_cache(CacheBetween::NONE),
    ];
    let mut right = 0;
    let mut tables = 0;
    let correlation = correlate_observed(&levels, &CorrelateOptions::default(), &mut |joined| match truth
        [joined.request.id as usize]
    {
        Some(parent) => right += usize::from(joined.parents == [parent]),
        None => tables += usize::from(joined.origin == Origin::Metadata),
    })
    .unwrap();
    let data = truth.iter().flatten().count();
    assert!(right as f64 >= 0.97 * data as f64, "{right} of {data}");
    assert!(tables as f64 >= 0.9 * (truth.len() - data) as f64, "{tables} tables");
    assert!(correlation.unmatched_share().unwrap() < 0.02);
}

fn any_request() -> impl Strategy<Value = Request> {
    // Small numbers meet each other, large ones are hostile.
    let number = prop_oneof![0..100_000_u64, any::<u64>()];
    (prop::array::uniform5(number), 0..4_u8, any::<[u32; 2]>()).prop_map(
        |(numbers, operation, [bios, pid])| {
            let [offset, bytes, queued_ns, issued_ns, completed_ns] = numbers;
            let all = [Operation::Read, Operation::Write, Operation::Flush, Operation::Discard];
            let flags = nestor_trace::event::Flags::default();
            let operation = all[usize::from(operation)];
            let class = nestor_layout::Class::Unknown;
            Request {
                id: 0,
                operation,
                flags,
                class,
                offset,
                bytes,
                queued_ns,
                issued_ns,
                completed_ns,
                bios,
                pid,
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    #[test]
    fn hostile_requests_never_panic(
        levels in prop::collection::vec(prop::collection::vec(any_request(), 1..60), 2..4),
        map in 0..3_u8,
        machines in any::<bool>(),
    ) {
        let inputs = levels.iter().enumerate().map(|(index, requests)| {
            let machine = if machines { format!("machine {index}") } else { "one".to_owned() };
            let map = match map {
                0 => SpaceMap::Identity,
                1 => SpaceMap::Clusters { bytes: 4096 },
                _ => SpaceMap::Extents(
                    ExtentMap::new(vec![MappedExtent { upper: 0, lower: 512, bytes: u64::MAX / 2 }]).unwrap(),
                ),
            };
            LevelInput::new(header("layer", "kind", &machine), requests.clone()).with_map(map)
        });
        let inputs: Vec<_> = inputs.collect();
        if let Ok(correlation) = correlate_observed(&inputs, &CorrelateOptions::default(), &mut |_| {}) {
            let _ = correlation.to_text(None);
            for (index, join) in correlation.joins.iter().enumerate() {
                let known: u64 = join.origins.values().sum();
                prop_assert_eq!(known + join.outside_below, correlation.levels[index + 1].requests);
                let because = |above: bool| -> u64 {
                    join.unmatched.iter().filter(|(why, _)| why.is_above() == above).map(|(_, n)| n).sum()
                };
                prop_assert_eq!(because(true), join.unmatched_above);
                prop_assert_eq!(because(false), join.origins.get(&Origin::Unknown).copied().unwrap_or(0));
            }
        }
    }
}

/// Of a hypervisor's flush only the moment is known at which it was over.
#[test]
fn flushes_of_which_one_moment_is_known_find_their_children() {
    let plan = Plan { flushes: 0.05, depth: 4, requests: 2000, ..Plan::default() };
    let mut recorded = Stack::new(plan).run();
    for request in &mut recorded.levels[1] {
        if request.operation == Operation::Flush {
            request.queued_ns = request.completed_ns;
            request.issued_ns = request.completed_ns;
        }
    }
    let levels = inputs(&recorded, false);
    let correlation = correlate_observed(&levels, &CorrelateOptions::default(), &mut |_| {}).unwrap();
    assert!(correlation.unmatched_share().unwrap() < 0.005, "{:?}", correlation.joins[1]);
    let flush = correlation.trees.iter().find(|tree| tree.choice.to_string() == "median flush").unwrap();
    let below = |node: &Node| node.children.first().cloned().unwrap();
    let host = below(&below(&flush.root));
    assert_eq!(
        (host.level.position(), host.request.operation, host.origin),
        (2, Operation::Flush, Origin::Parent)
    );
    assert_eq!(below(&host).request.operation, Operation::Flush);
}

/// An application that asks the guest's device itself, a microsecond before each request and until one after it.
#[test]
fn the_applications_operations_are_divided_too() {
    let plan = Plan { depth: 1, requests: 300, ..Plan::default() };
    let recorded = Stack::new(plan).run();
    let around = |request: &Request| Request {
        queued_ns: request.queued_ns - 1_000,
        issued_ns: request.queued_ns - 1_000,
        completed_ns: request.completed_ns + 1_000,
        ..*request
    };
    let asked: Vec<Request> = recorded.levels[0].iter().map(around).collect();
    let own_ns = 2_000 * asked.len() as u64;
    let mut levels = vec![LevelInput::new(header("fio", "application", "application"), asked)];
    levels.extend(inputs(&recorded, plan.cached));
    let correlation = correlate(&levels, &CorrelateOptions::default()).unwrap();
    assert_eq!(
        (correlation.passage.level, correlation.application_passage.level),
        (LevelIndex::at(1), LevelIndex::TOP)
    );
    let passage = &correlation.application_passage;
    assert_eq!(passage.operations.values().map(|passed| passed.requests).sum::<u64>(), 300);
    let (mut whole_ns, mut parts_ns, mut at_the_top_ns) = (0, 0, 0);
    for passed in passage.operations.values() {
        whole_ns += passed.whole_ns;
        parts_ns += passed.levels.iter().map(|part| part.ns()).sum::<u64>();
        at_the_top_ns += passed.levels[0].ns();
    }
    assert_eq!((parts_ns, at_the_top_ns), (whole_ns, own_ns));
    let asked_of_the_guest: u64 = correlation.passage.operations.values().map(|passed| passed.whole_ns).sum();
    assert_eq!(whole_ns - own_ns, asked_of_the_guest);
    // Without an application there is nothing besides.
    assert!(assert_exact(plan).application_passage.is_empty());
}

/// fio keeps no record of each fsync; the flushes that one causes are shown from where they first appear. What fio wrote was over
/// before, because a cache took it, and both are on one clock.
#[test]
fn what_the_application_has_no_record_of_is_shown_from_below_it() {
    let plan = Plan { depth: 1, requests: 300, reads: 0.0, flushes: 0.1, ..Plan::default() };
    let recorded = Stack::new(plan).run();
    let is_flush = |request: &Request| request.operation == Operation::Flush;
    let into_cache = |request: &Request| {
        let (queued_ns, completed_ns) = (request.queued_ns - 2_000, request.queued_ns - 1_000);
        Request { queued_ns, issued_ns: queued_ns, completed_ns, ..*request }
    };
    let written: Vec<Request> =
        recorded.levels[0].iter().filter(|request| !is_flush(request)).map(into_cache).collect();
    let mut levels = vec![LevelInput::new(header("fio", "application", "guest"), written)];
    levels.extend(inputs(&recorded, false));
    levels[1] = LevelInput::new(header("ext4", "guest block", "guest"), recorded.levels[0].clone())
        .with_cache(CacheBetween::WRITE_BACK);
    let correlation = correlate(&levels, &CorrelateOptions::default()).unwrap();
    let shown: Vec<(bool, LevelIndex)> =
        correlation.trees.iter().map(|tree| (is_flush(&tree.root.request), tree.root.level)).collect();
    assert_eq!(shown, [[(false, LevelIndex::TOP); 3], [(true, LevelIndex::at(1)); 3]].concat());
}

/// Nothing that is written below says when it was asked for, because a cache took it; but each flush lies within a sync.
#[test]
fn syncs_bound_the_clock_of_an_application_whose_writes_a_cache_takes() {
    const AHEAD_NS: u64 = 3_000_000;
    const AROUND_NS: u64 = 20_000;
    let plan = Plan { depth: 1, requests: 300, reads: 0.0, flushes: 0.2, ..Plan::default() };
    let recorded = Stack::new(plan).run();
    let guest = &recorded.levels[0];
    let flushes = guest.iter().filter(|request| request.operation == Operation::Flush);
    let syncs = flushes.map(|flush| {
        let queued_ns = flush.queued_ns + AHEAD_NS - AROUND_NS;
        let completed_ns = flush.completed_ns + AHEAD_NS + AROUND_NS;
        Request { queued_ns, issued_ns: queued_ns, completed_ns, ..*flush }
    });
    let now = ClockReading { realtime_ns: Some(1 << 60), monotonic_ns: 1 << 30 };
    let on = |header: RequestHeader| RequestHeader { clock: now, ..header };
    let application = on(header("fio", "application", "application"));
    let mut levels = inputs(&recorded, false);
    levels[0] = LevelInput::new(on(header("ext4", "guest block", "guest")), guest.clone())
        .with_cache(CacheBetween::WRITE_BACK);
    levels.insert(0, LevelInput::new(application, syncs.collect::<Vec<_>>()));
    let join = &correlate(&levels, &CorrelateOptions::default()).unwrap().joins[0];
    assert!(join.clock_bound_ns <= 2 * AROUND_NS, "{}", join.clock_bound_ns);
    let off_ns = join.clock_offset_ns.abs_diff(AHEAD_NS as i64);
    assert!(off_ns <= join.clock_bound_ns, "{off_ns} of {}", join.clock_bound_ns);
}
