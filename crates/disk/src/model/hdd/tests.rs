//! Known answers and properties of the whole drive.

use proptest::prelude::*;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::*;
use crate::check::run_closed_loop;
use crate::model::Turn;
use crate::profile::Medium;
use crate::profiles::profile;

/// The RE3 with a given write cache; a disk whose numbers are easy to follow.
fn drive(write_cache: bool) -> HddModel {
    let re3 = profile("wd-re3").unwrap();
    let Medium::Hdd(hdd) = &re3.medium else { panic!("the RE3 is a hard disk") };
    HddModel::new(HddFigures { write_cache, ..hdd.figures(re3.capacity_bytes) }).unwrap()
}

/// The same, turned so far at time zero.
fn turned(part: f64) -> HddModel {
    let re3 = profile("wd-re3").unwrap();
    let Medium::Hdd(hdd) = &re3.medium else { panic!("the RE3 is a hard disk") };
    let turned = Turn::new(part).unwrap();
    HddModel::new(HddFigures { turned, ..hdd.figures(re3.capacity_bytes) }).unwrap()
}

#[test]
fn the_first_read_waits_a_quarter_of_a_revolution_less_when_the_platters_have_turned_so_far() {
    let rotation_ns = |part| {
        let mut model = turned(part);
        model.submit(request(0, Operation::Read, 1_000_000, 8), 0);
        until_rest(&mut model)[0].parts.rotation_ns
    };
    let revolution_ns = turned(0.0).figures.geometry.revolution_ns;
    let (first, second) = (rotation_ns(0.0), rotation_ns(0.25));
    assert_ne!(first, second);
    assert_eq!((first + revolution_ns - second) % revolution_ns, revolution_ns / 4);
}

#[test]
fn the_same_turn_gives_the_same_times_and_another_others() {
    let times = |part| {
        let mut model = turned(part);
        scattered(Operation::Read, 40).for_each(|request| model.submit(request, 0));
        until_rest(&mut model).iter().map(|done| done.complete_ns).collect::<Vec<_>>()
    };
    assert_eq!(times(0.3), times(0.3));
    assert_ne!(times(0.3), times(0.8));
}

fn request(id: u64, operation: Operation, sector: u64, sectors: u32) -> ModelRequest {
    ModelRequest { id, operation, sector, sectors }
}

/// Scattered over the disk, the same in each run.
fn scattered(operation: Operation, count: u64) -> impl Iterator<Item = ModelRequest> {
    let mut random = SmallRng::seed_from_u64(3);
    (0..count).map(move |i| request(i, operation, random.random_range(0..60_000_000) * 8, 8))
}

fn iops(done: &[Completion]) -> f64 {
    done.len() as f64 / (done.last().unwrap().complete_ns as f64 / 1e9)
}

fn until_rest(model: &mut HddModel) -> Vec<Completion> {
    let mut done = Vec::new();
    while let Some(next_ns) = model.next_event_ns() {
        model.advance(next_ns, &mut done);
    }
    done
}

#[test]
fn scattered_reads_wait_half_a_revolution_and_an_average_seek() {
    let (done, _) = run_closed_loop(&mut drive(true), 1, scattered(Operation::Read, 5000));
    let mean = |part: fn(&ServiceParts) -> u64| {
        done.iter().map(|c| part(&c.parts)).sum::<u64>() as f64 / done.len() as f64 / 1e6
    };
    let half_turn_ms = 30_000.0 / 7200.0;
    assert!((mean(|p| p.rotation_ns) / half_turn_ms - 1.0).abs() < 0.03);
    // Sectors are denser outside, so the mean over sectors is a little below the one over cylinders, 8.9 ms.
    let seek_ms = mean(|p| p.seek_ns);
    assert!((8.0..8.9).contains(&seek_ms), "{seek_ms}");
    assert!(done.iter().all(|c| c.parts.rotation_ns < 8_333_334));
}

#[test]
fn the_spindle_stands_where_the_time_says() {
    // The same read, a whole number of revolutions later, waits as long; half a revolution later, half of one more
    // or less.
    let revolution_ns = (60e9 / 7200.0) as u64;
    let rotation_ns = |at_ns: u64| {
        let mut model = drive(true);
        model.submit(request(0, Operation::Read, 1_000_000, 8), at_ns);
        until_rest(&mut model)[0].parts.rotation_ns
    };
    let first = rotation_ns(0);
    assert_eq!(rotation_ns(1000 * revolution_ns), first);
    let half = rotation_ns(1000 * revolution_ns + revolution_ns / 2);
    assert_eq!((half + revolution_ns / 2) % revolution_ns, first);
}

#[test]
fn sequential_reads_come_from_reading_ahead_at_the_rate_of_the_tracks() {
    for (first, expected_mb_s) in [(0, 113.0), (480_000_000, 56.0)] {
        let reads = (0..1000).map(|i| request(i, Operation::Read, first + i * 128, 128));
        let (done, end_ns) = run_closed_loop(&mut drive(true), 1, reads);
        let mb_s = 1000.0 * 65_536.0 / 1e6 / (end_ns as f64 / 1e9);
        assert!((mb_s / expected_mb_s - 1.0).abs() < 0.05, "{mb_s} instead of {expected_mb_s}");
        let waits = done[1..].iter().filter(|c| c.parts.seek_ns + c.parts.rotation_ns > 0).count();
        assert_eq!(waits, 0, "after the first read nothing is positioned again");
    }
}

#[test]
fn a_read_again_is_answered_from_the_buffer() {
    let again = [request(0, Operation::Read, 5000, 8), request(1, Operation::Read, 5000, 8)];
    let (done, _) = run_closed_loop(&mut drive(true), 1, again);
    assert!(!done[0].cache_hit && done[1].cache_hit);
    assert!(done[1].parts.total_ns() < 300_000, "no mechanics: {:?}", done[1].parts);
}

#[test]
fn a_full_queue_is_served_in_less_time() {
    let one = iops(&run_closed_loop(&mut drive(true), 1, scattered(Operation::Read, 2000)).0);
    let many = iops(&run_closed_loop(&mut drive(true), 32, scattered(Operation::Read, 2000)).0);
    assert!(many > 1.8 * one, "{one} alone, {many} with 32");
}

#[test]
fn the_write_cache_answers_at_once_until_it_is_full() {
    let (cached, _) = run_closed_loop(&mut drive(true), 1, scattered(Operation::Write, 100));
    assert!(cached.iter().all(|c| c.cache_hit && c.parts.seek_ns == 0));
    assert!(cached.last().unwrap().complete_ns < 50_000_000, "100 writes in less than 50 ms");
    let (through, _) = run_closed_loop(&mut drive(false), 1, scattered(Operation::Write, 100));
    assert!(through.iter().all(|c| !c.cache_hit && c.parts.total_ns() > 200_000));

    // A drive cannot take more for long than it brings to the platters.
    let (full, end_ns) = run_closed_loop(&mut drive(true), 1, scattered(Operation::Write, 3000));
    assert!(full.iter().any(|c| c.complete_ns - c.service_start_ns < 300_000));
    let (_, through_ns) = run_closed_loop(&mut drive(false), 1, scattered(Operation::Write, 3000));
    assert!(end_ns * 2 < through_ns, "destaging in positioning order is faster than in order of arrival");
    let per_write_ms = end_ns as f64 / 3000.0 / 1e6;
    assert!(per_write_ms > 2.0, "but it is not free: {per_write_ms} ms");
}

#[test]
fn a_flush_waits_until_everything_before_it_is_on_the_platters() {
    let mut model = drive(true);
    for write in scattered(Operation::Write, 20) {
        model.submit(write, 0);
    }
    model.submit(request(99, Operation::Flush, 0, 0), 0);
    model.submit(request(100, Operation::Read, 8, 8), 0);
    let done = until_rest(&mut model);
    let flush = done.iter().position(|c| c.id == 99).unwrap();
    assert_eq!(flush, 20, "after all writes, before what came later: it is sent alone");
    let flush = done[flush];
    assert!(flush.parts.seek_ns > 0 && flush.parts.total_ns() > 20 * 2_000_000);
    assert_eq!(flush.complete_ns - flush.service_start_ns, flush.parts.total_ns());

    let mut settled = drive(true);
    settled.submit(request(0, Operation::Flush, 0, 0), 0);
    assert!(until_rest(&mut settled)[0].parts.total_ns() < 300_000, "nothing to do");
}

#[test]
fn data_from_the_write_buffer_is_the_work_of_the_arm_once_however_many_flushes_wait_for_it() {
    let work = |flushes: u64| {
        let mut model = drive(true);
        scattered(Operation::Write, 20).for_each(|write| model.submit(write, 0));
        (0..flushes).for_each(|i| model.submit(request(99 + i, Operation::Flush, 0, 0), 0));
        let done = until_rest(&mut model);
        let of_writes: u64 = done.iter().filter(|c| c.id < 20).map(|c| c.parts.seek_ns).sum();
        assert_eq!(of_writes, 0, "the buffer takes them");
        model.work().arms.unwrap()
    };
    let (unasked, twice) = (work(0), work(2));
    assert_eq!((unasked.accesses, unasked.destages), (20, 20));
    assert_eq!((twice.accesses, twice.destages), (20, 20));
    assert!(
        unasked.seek_ns > 20 * 1_000_000 && unasked.rotation_ns > 0 && unasked.transfer_ns > 0,
        "{unasked:?}"
    );
    let mut read = drive(true);
    read.submit(request(0, Operation::Read, 4096, 8), 0);
    until_rest(&mut read);
    let before = read.work();
    read.submit(request(1, Operation::Read, 4096, 8), 1_000_000_000);
    until_rest(&mut read);
    assert_eq!(read.work().since(&before).arms.unwrap(), ArmWork::default(), "it was in the buffer");
    read.reset(2_000_000_000);
    assert_eq!(read.work(), before, "a count goes on, so that there is what came after another");
}

#[test]
fn writes_without_cache_to_one_place_take_a_revolution_each() {
    let writes = (0..50).map(|i| request(i, Operation::Write, 4096, 8));
    let (done, end_ns) = run_closed_loop(&mut drive(false), 1, writes);
    let per_write_ms = end_ns as f64 / done.len() as f64 / 1e6;
    assert!((per_write_ms / 8.333 - 1.0).abs() < 0.05, "{per_write_ms}");
}

#[test]
fn a_far_request_is_served_although_near_ones_keep_coming() {
    let mut model = drive(true);
    let mut done = Vec::new();
    model.submit(request(0, Operation::Read, 480_000_000, 8), 0);
    for i in 1..32 {
        model.submit(request(i, Operation::Read, i * 5000, 8), 0);
    }
    let mut next = 32;
    while !done.iter().any(|c: &Completion| c.id == 0) {
        let (before, now_ns) = (done.len(), model.next_event_ns().unwrap());
        model.advance(now_ns, &mut done);
        for _ in before..done.len() {
            model.submit(request(next, Operation::Read, next * 7919 % 200_000, 8), now_ns);
            next += 1;
        }
        assert!(next < 2000, "it starves");
    }
}

/// Any mix of requests, each some time after the one before.
fn any_requests() -> impl Strategy<Value = Vec<(u64, Operation, u64, u32)>> {
    let operations = prop::sample::select(vec![
        Operation::Read,
        Operation::Read,
        Operation::Write,
        Operation::Write,
        Operation::Flush,
        Operation::Discard,
        Operation::WriteZeroes,
    ]);
    let sector = prop_oneof![0u64..100_000, 0u64..488_000_000];
    let pause_ns = prop_oneof![Just(0u64), 0u64..30_000_000];
    prop::collection::vec((pause_ns, operations, sector, 1u32..3000), 1..120)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_request_is_completed_once_in_order_of_time_and_its_parts_add_up(
        requests in any_requests(),
        write_cache in any::<bool>(),
        scsi in any::<bool>(),
        told_before in any::<bool>(),
        late_ns in 0u64..5_000_000,
    ) {
        let mut model = drive(write_cache);
        model.figures.flush_alone = !scsi;
        let (mut now_ns, mut done) = (0, Vec::new());
        let mut arrivals = Vec::new();
        for (id, (pause_ns, operation, sector, sectors)) in requests.iter().enumerate() {
            now_ns += pause_ns;
            // A completion between the last time and this may be reported only after the request has come.
            if told_before {
                model.advance(now_ns, &mut done);
            }
            arrivals.push(now_ns);
            model.submit(request(id as u64, *operation, *sector, *sectors), now_ns);
        }
        // Asked late, as by a server that was not woken in time: the times stay what they are.
        while let Some(next_ns) = model.next_event_ns() {
            model.advance(next_ns + late_ns, &mut done);
        }
        prop_assert!(model.is_settled());
        let mut ids: Vec<u64> = done.iter().map(|c| c.id).collect();
        ids.sort_unstable();
        prop_assert_eq!(ids, (0..requests.len() as u64).collect::<Vec<_>>());
        prop_assert!(done.windows(2).all(|pair| pair[0].complete_ns <= pair[1].complete_ns));
        for completion in &done {
            let arrival_ns = arrivals[completion.id as usize];
            prop_assert!(arrival_ns <= completion.service_start_ns);
            prop_assert_eq!(completion.service_start_ns + completion.parts.total_ns(), completion.complete_ns);
        }
        // The arm does one thing at a time, and all that was written reached the platters.
        let arms = model.work().arms.unwrap();
        prop_assert!(arms.seek_ns + arms.rotation_ns + arms.transfer_ns <= model.arm_free_ns);
        let writes = |c: &&Completion| matches!(requests[c.id as usize].1, Operation::Write | Operation::WriteZeroes);
        prop_assert!(arms.accesses > 0 || !done.iter().any(|c| writes(&c)));
        // A flush is never done before a write that was answered before the flush came, through or cached alike.
        for flush in done.iter().filter(|c| requests[c.id as usize].1 == Operation::Flush && !scsi) {
            let before = done.iter().filter(|c| c.id < flush.id);
            prop_assert!(before.clone().all(|c| c.complete_ns <= flush.complete_ns));
        }
    }

    #[test]
    fn how_late_the_caller_asks_changes_nothing(requests in any_requests()) {
        let run = |step_ns: u64| {
            let mut model = drive(true);
            for (id, (_, operation, sector, sectors)) in requests.iter().enumerate() {
                model.submit(request(id as u64, *operation, *sector, *sectors), 0);
            }
            let (mut done, mut now_ns) = (Vec::new(), 0);
            while model.next_event_ns().is_some() {
                now_ns += step_ns;
                model.advance(now_ns, &mut done);
            }
            done
        };
        prop_assert_eq!(run(1_000_000), run(77_777_777));
    }
}
