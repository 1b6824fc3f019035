use std::collections::HashMap;

use nestor_correlate::{LevelIndex, Origin};
use nestor_trace::Request;
use nestor_trace::request_file::ClockReading;
use proptest::prelude::*;

use super::wire::{Shown, show};
use super::{level, two_levels, write};
use crate::{ExportError, Links, TimeWindow, Trace, write_perfetto};

fn exported(trace: &Trace) -> Shown {
    let mut bytes = Vec::new();
    write_perfetto(trace, &mut bytes).unwrap();
    show(&bytes)
}

fn listed(shown: &Shown) -> String {
    let line = |s: &super::wire::Slice| {
        let annotations: Vec<String> = s.annotations.iter().map(|(k, v)| format!("{k}={v}")).collect();
        format!(
            "{} | {} | {} | {} | {}..{} | {:?} | {}\n",
            s.process,
            s.track,
            s.name,
            s.category,
            s.begin_ns,
            s.end_ns,
            s.flows,
            annotations.join(" ")
        )
    };
    shown.slices.iter().map(line).collect()
}

#[test]
fn two_levels_with_arrows() {
    let shown = exported(&two_levels());
    insta::assert_snapshot!(listed(&shown), @r"
    guest · ext4 · guest block | slot 1 | write journal | request | 1000..3000 | [1] | id=0 offset=0 bytes=8192 queued_for_ns=500 served_for_ns=1500 bios=2 pid=77 class=journal flags=sync meta
    guest · ext4 · guest block | slot 2 | read | request | 1500..4000 | [2] | id=1 offset=8192 bytes=8192 queued_for_ns=625 served_for_ns=1875 bios=2 pid=77 class=unknown
    guest · ext4 · guest block | slot 1 | write journal | request | 4000..5000 | [3, 4] | id=2 offset=16384 bytes=8192 queued_for_ns=250 served_for_ns=750 bios=2 pid=77 class=journal flags=sync meta
    guest · ext4 · guest block | slot 1 | flush | request | 9000..9500 | [] | id=3 offset=24576 bytes=0 queued_for_ns=125 served_for_ns=375 bios=2 pid=77 class=flush flags=sync meta
    ground · hdd:wd-7200 · medium | slot 1 | write journal | parent | 1205..2205 | [1] | id=0 offset=0 bytes=8192 queued_for_ns=250 served_for_ns=750 bios=2 pid=77 class=journal origin=parent flags=sync meta
    ground · hdd:wd-7200 · medium | slot 2 | write journal | journal | 2005..3505 | [] | id=1 offset=8192 bytes=8192 queued_for_ns=375 served_for_ns=1125 bios=2 pid=77 class=journal origin=journal flags=sync meta
    ground · hdd:wd-7200 · medium | slot 1 | write journal | parent | 4105..4405 | [3, 2] | id=2 offset=16384 bytes=8192 queued_for_ns=75 served_for_ns=225 bios=2 pid=77 class=journal origin=parent flags=sync meta
    ground · hdd:wd-7200 · medium | slot 2 | write journal | parent | 4205..4905 | [4] | id=3 offset=24576 bytes=8192 queued_for_ns=175 served_for_ns=525 bios=2 pid=77 class=journal origin=parent flags=sync meta
    ");
    let depths: Vec<(u64, u64)> = shown
        .depths
        .iter()
        .filter(|(process, ..)| process.starts_with("guest"))
        .map(|(_, t, d)| (*t, *d))
        .collect();
    // The requests that begin and end at 4 000 make one value.
    assert_eq!(depths, [(1_000, 1), (1_500, 2), (3_000, 1), (4_000, 1), (5_000, 0), (9_000, 1), (9_500, 0)]);
    assert_eq!((shown.clocks, shown.primary_clock), (vec![(3, 0)], 3));
}

#[test]
fn the_calendar_is_told_where_it_is_known() {
    let clock = ClockReading { realtime_ns: Some(1_790_000_000_000_000_000), monotonic_ns: 12_345 };
    let shown = exported(&Trace { clock: Some(clock), ..two_levels() });
    assert_eq!(shown.clocks, [(3, 12_345), (1, 1_790_000_000_000_000_000)]);
}

#[test]
fn a_part_of_the_time() {
    // From 1 000 + 2 400 to 1 000 + 3 000: one guest request was under way, and one of the disk.
    let window = Some(TimeWindow { from_ns: 2_400, to_ns: 3_000 });
    let shown = exported(&Trace { window, ..two_levels() });
    let begins: Vec<u64> = shown.slices.iter().map(|s| s.begin_ns).collect();
    assert_eq!(begins, [1_500, 2_005]);
    assert!(shown.slices.iter().all(|s| s.flows.is_empty()), "arrows have both ends");
}

#[test]
fn nothing_to_show() {
    assert!(exported(&Trace::default()).slices.is_empty());
    let idle = Trace { levels: vec![level("ext4", "guest block", "guest", Vec::new())], ..Trace::default() };
    assert!(exported(&idle).slices.is_empty());
}

#[test]
fn times_that_cannot_be() {
    let backwards = Request { completed_ns: 5, issued_ns: u64::MAX, ..write(0, 1_000, 10) };
    let forever = Request { completed_ns: u64::MAX, ..write(1, 0, 10) };
    let levels = vec![level("ext4", "guest block", "guest", vec![backwards, forever])];
    let shown = exported(&Trace { levels, ..Trace::default() });
    let times: Vec<_> = shown.slices.iter().map(|s| (s.begin_ns, s.end_ns)).collect();
    assert_eq!(times, [(0, u64::MAX), (1_000, 1_000)]);
}

#[test]
fn what_cannot_be_written_is_an_error() {
    struct Full;
    impl std::io::Write for Full {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    assert!(matches!(write_perfetto(&two_levels(), &mut Full), Err(ExportError::Stream(_))));
}

/// Requests in the order of completion, as files have them, or in any order.
fn requests(most: usize) -> impl Strategy<Value = Vec<Request>> {
    let one = (0u64..2_000, prop_oneof![Just(0u64), 0u64..50, 0u64..3_000]);
    (prop::collection::vec(one, 0..most), any::<bool>()).prop_map(|(times, sorted)| {
        let mut requests: Vec<Request> =
            times.into_iter().zip(0..).map(|((queued, took), id)| write(id, queued, took)).collect();
        if sorted {
            requests.sort_by_key(|r| r.completed_ns);
        }
        requests
    })
}

/// The fewest and the most slots that the requests can need: one that ends when another begins makes room for it, one
/// that takes no time does so only if it comes first.
fn slots(requests: &[Request]) -> std::ops::RangeInclusive<usize> {
    let under_way = |at: u64| requests.iter().filter(|r| r.queued_ns <= at && at < r.completed_ns).count();
    let of_no_time = |r: &Request| usize::from(r.queued_ns == r.completed_ns);
    let fewest = requests.iter().map(|r| under_way(r.queued_ns)).max().unwrap_or(0);
    let most = requests.iter().map(|r| under_way(r.queued_ns) + of_no_time(r)).max().unwrap_or(0);
    fewest.max(usize::from(!requests.is_empty()))..=most
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_request_has_its_slice_on_the_lowest_free_slot(requests in requests(80)) {
        let mut expected: Vec<_> = requests.iter().map(|r| (r.queued_ns, r.completed_ns)).collect();
        let needed = slots(&requests);
        let levels = vec![level("ext4", "guest block", "guest", requests)];
        let shown = exported(&Trace { levels, ..Trace::default() });
        let mut seen: Vec<_> = shown.slices.iter().map(|s| (s.begin_ns, s.end_ns)).collect();
        expected.sort_unstable();
        seen.sort_unstable();
        prop_assert_eq!(seen, expected);
        let tracks: std::collections::HashSet<_> = shown.slices.iter().map(|s| &s.track).collect();
        prop_assert!(needed.contains(&tracks.len()), "{} slots for {needed:?} at once", tracks.len());
        // The counter follows the slices.
        let mut last = None;
        for (_, at, depth) in &shown.depths {
            let under_way = shown.slices.iter().filter(|s| s.begin_ns <= *at && *at < s.end_ns).count();
            prop_assert_eq!(*depth, under_way as u64);
            prop_assert!(last.replace(*at).is_none_or(|last| last < *at));
        }
    }

    #[test]
    fn every_arrow_has_both_ends(
        above in requests(30),
        below in requests(40),
        parents in prop::collection::vec(prop::collection::vec(0u64..40, 0..4), 40),
    ) {
        let mut links = Links::default();
        let mut expected = Vec::new();
        for request in &below {
            let mut parents = parents[request.id as usize].clone();
            parents.sort_unstable();
            parents.dedup();
            links.add(LevelIndex::at(1), request.id, Origin::Parent, &parents);
            let known = parents.iter().filter(|parent| (**parent as usize) < above.len());
            expected.extend(known.map(|parent| (*parent, request.id)));
        }
        links.sort();
        let levels =
            vec![level("ext4", "guest block", "guest", above), level("hdd", "medium", "ground", below)];
        let shown = exported(&Trace { levels, links, ..Trace::default() });
        let mut ends: HashMap<u64, Vec<(String, u64)>> = HashMap::new();
        for slice in &shown.slices {
            let id = slice.annotations.iter().find(|(k, _)| k == "id").unwrap().1.parse().unwrap();
            for flow in &slice.flows {
                ends.entry(*flow).or_default().push((slice.process.clone(), id));
            }
        }
        let mut arrows = Vec::new();
        for ends in ends.values() {
            let [(from, parent), (to, child)] = ends.as_slice() else { panic!("two ends: {ends:?}") };
            prop_assert!(from.starts_with("guest") && to.starts_with("ground"));
            arrows.push((*parent, *child));
        }
        arrows.sort_unstable();
        expected.sort_unstable();
        prop_assert_eq!(arrows, expected);
    }
}
