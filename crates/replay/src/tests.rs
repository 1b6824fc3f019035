//! Replays of made plans: on a recorder of requests, and on files.

use std::cell::Cell;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

use nestor_trace::Operation;
use nestor_trace::event::Flags;

use crate::engine::recording::Recording;
use crate::pace::{Limits, Paced, run_paced};
use crate::report::{Setting, report};
use crate::*;

fn request(time_us: u64, operation: Operation, sector: u64, sectors: u32, flags: Flags) -> PlannedRequest {
    PlannedRequest {
        time_ns: time_us * 1000,
        completed_ns: Some(time_us * 1000 + 50_000),
        sector,
        sectors,
        operation,
        flags,
    }
}

fn plan_of(requests: Vec<PlannedRequest>) -> ReplayPlan {
    ReplayPlan {
        trace: "made".to_owned(),
        device: "8:0".to_owned(),
        stage: Stage::Queued,
        requests,
        timed: true,
        left_out: LeftOut::default(),
        fitted: Fitted::default(),
        remarks: Vec::new(),
    }
}

/// Writes of different sizes that do not overlap, with reads, flushes and FUA between them.
fn mixed() -> ReplayPlan {
    let mut requests = Vec::new();
    let mut sector = 0;
    for number in 0..60_u64 {
        let at = number * 20;
        let sectors = 8 * (1 + number as u32 % 9);
        requests.push(match number % 6 {
            0 | 1 => request(at, Operation::Write, sector, sectors, Flags::default()),
            2 => request(at, Operation::Write, sector, sectors, Flags::FUA),
            3 => request(at, Operation::Write, sector, sectors, Flags::FLUSH.union(Flags::FUA)),
            4 => request(at, Operation::Flush, 0, 0, Flags::FLUSH),
            _ => request(at, Operation::Read, sector, sectors, Flags::default()),
        });
        // A gap of 8 sectors without writes.
        sector += u64::from(sectors) + 8;
    }
    plan_of(requests)
}

fn paced_on(plan: &ReplayPlan, engine: &mut Recording, limits: Limits, watcher: &dyn Watcher) -> Paced {
    run_paced(&plan.requests, engine, &limits, watcher).unwrap()
}

fn limits(speed: Speed, depth: usize) -> Limits {
    Limits { speed, depth, spin: false }
}

fn reported(plan: &ReplayPlan, paced: &Paced, options: ReplayOptions) -> ReplayReport {
    let setting = Setting { options, depth: 4, engine: "recording".to_owned(), remarks: Vec::new() };
    report(plan, &Target::nothing(plan.span_bytes()), setting, paced)
}

#[test]
fn every_request_is_handed_over_once_in_the_order_of_the_trace() {
    let plan = mixed();
    for speed in [Speed::Times(1.0), Speed::Times(4.0), Speed::Max] {
        let mut engine = Recording { most: 64, ..Recording::default() };
        let paced = paced_on(&plan, &mut engine, limits(speed, 64), &());
        let numbers: Vec<_> = engine.submitted.iter().map(|c| c.number).collect();
        assert_eq!(numbers, (0..plan.requests.len()).collect::<Vec<_>>());
        assert!(engine.submitted.iter().all(|c| c.request == plan.requests[c.number]));
        assert_eq!(paced.done, 60);
        let sent = |of: &dyn Fn(&PlannedRequest) -> bool| {
            engine.submitted.iter().filter(|c| of(&c.request)).count() as u64
        };
        let report = reported(&plan, &paced, ReplayOptions { speed, ..ReplayOptions::default() });
        assert_eq!((report.flushes_sent, report.fua_sent), (20, 20));
        assert_eq!(sent(&|r| r.operation == Operation::Flush), 10);
        assert_eq!(sent(&PlannedRequest::flushes_first), 10);
        assert_eq!(report.ordering.submitted_out_of_order, 0);
    }
}

#[test]
fn no_request_is_sent_before_its_time() {
    let plan = mixed();
    let mut engine = Recording { most: 64, ..Recording::default() };
    let paced = paced_on(&plan, &mut engine, limits(Speed::Times(2.0), 64), &());
    for (request, submitted_ns) in plan.requests.iter().zip(&paced.submitted_ns) {
        assert!(*submitted_ns >= request.time_ns / 2);
    }
    let report = reported(&plan, &paced, ReplayOptions { speed: Speed::Times(2.0), ..Default::default() });
    assert_eq!(report.lag.unwrap().count(), 60);
    assert_eq!(report.offered.duration_ns, 59 * 20_000 / 2);
    for class in &report.classes {
        let (sent, intended) = (&class.from_submission, class.from_intended.as_ref().unwrap());
        assert!(intended.summary().unwrap().mean_ns >= sent.summary().unwrap().mean_ns);
        assert_eq!((sent.count(), intended.count()), (class.requests, class.requests));
        // Every request of the made trace took 50 us, at whatever speed it is replayed.
        assert_eq!(class.original.as_ref().unwrap().quantile_ns(0.5).unwrap() / 1000, 50);
    }
}

#[test]
fn as_fast_as_possible_nothing_is_intended() {
    let plan = mixed();
    let mut engine = Recording { most: 64, ..Recording::default() };
    let paced = paced_on(&plan, &mut engine, limits(Speed::Max, 8), &());
    let report = reported(&plan, &paced, ReplayOptions { speed: Speed::Max, ..Default::default() });
    assert!(report.lag.is_none() && report.classes.iter().all(|class| class.from_intended.is_none()));
    assert_eq!(engine.most_seen_in_flight, 8, "as many as may be, and no more");
}

#[test]
fn the_cap_holds_requests_back_and_they_are_counted() {
    let requests = (0..10).map(|n| request(0, Operation::Read, n * 8, 8, Flags::default())).collect();
    let plan = plan_of(requests);
    let mut engine = Recording { most: 64, ..Recording::default() };
    let paced = paced_on(&plan, &mut engine, limits(Speed::Times(1.0), 1), &());
    assert_eq!((paced.done, engine.most_seen_in_flight), (10, 1));
    assert_eq!(paced.held_back, 9);
}

#[test]
fn a_request_that_is_overtaken_is_counted() {
    let mut requests: Vec<_> =
        (0..20).map(|n| request(n * 10, Operation::Read, n * 8, 8, Flags::default())).collect();
    // In the trace, number 3 was overtaken by 4; in the replay, number 5 is by several.
    requests[3].completed_ns = Some(95_000);
    let plan = plan_of(requests);
    let mut engine = Recording { most: 64, slow: Some((5, 8)), ..Recording::default() };
    let paced = paced_on(&plan, &mut engine, limits(Speed::Max, 64), &());
    let ordering = reported(&plan, &paced, ReplayOptions::default()).ordering;
    assert_eq!((ordering.compared, ordering.overtaken_in_trace), (20, 1));
    assert!(ordering.overtaken_in_replay <= 1);
}

struct StopAfter(Cell<u32>);

impl Watcher for StopAfter {
    fn stopped(&self) -> bool {
        self.0.set(self.0.get().saturating_sub(1));
        self.0.get() == 0
    }
}

#[test]
fn stopped_it_says_what_was_done_until_then() {
    let plan = mixed();
    let mut engine = Recording { most: 64, ..Recording::default() };
    let paced = paced_on(&plan, &mut engine, limits(Speed::Max, 1), &StopAfter(Cell::new(20)));
    let report = reported(&plan, &paced, ReplayOptions { speed: Speed::Max, ..Default::default() });
    assert!(report.interrupted);
    assert!((1..60).contains(&report.achieved.requests), "{}", report.achieved.requests);
    assert_eq!(
        report.achieved.requests as usize,
        engine.submitted.len(),
        "what was in flight was waited for"
    );
    let json = serde_json::to_string(&report).unwrap();
    let read: ReplayReport = serde_json::from_str(&json).unwrap();
    assert!(read.classes == report.classes && read.plan.requests == 60 && read.interrupted);
}

#[test]
fn after_a_failure_nothing_more_is_sent() {
    let plan = mixed();
    let result_of = Some((7, -i64::from(libc::EIO)));
    let mut engine = Recording { most: 64, result_of, ..Recording::default() };
    let paced = paced_on(&plan, &mut engine, limits(Speed::Max, 4), &());
    assert_eq!(paced.failed.map(|f| f.number), Some(7));
    assert!(engine.submitted.len() < 20, "{}", engine.submitted.len());
}

fn target_of(path: &Path, plan: &ReplayPlan) -> Target {
    let overwrite = vec![path.to_path_buf()];
    Target::open(path, &TargetOptions { writes: plan.writes(), overwrite, ..Default::default() }, &())
        .unwrap()
}

fn file_of(directory: &Path, bytes: u64) -> std::path::PathBuf {
    let path = directory.join("disk.img");
    fs::write(&path, vec![0xaa; bytes as usize]).unwrap();
    path
}

/// Every engine that this machine has.
fn engines() -> Vec<EngineChoice> {
    let mut engines = vec![EngineChoice::Threads];
    if io_uring::IoUring::new(2).is_ok() {
        engines.push(EngineChoice::IoUring);
    } else {
        eprintln!("io_uring is not to be had here: only threads are tested");
    }
    engines
}

#[test]
fn every_byte_is_written_as_planned_and_no_other() {
    let plan = mixed();
    let pool = Pool::new(WriteData::Random { seed: 5 });
    for engine in engines() {
        let directory = tempfile::tempdir().unwrap();
        let path = file_of(directory.path(), plan.span_bytes().next_multiple_of(4096) + 8192);
        let mut expected = fs::read(&path).unwrap();
        for (number, request) in plan.requests.iter().enumerate() {
            if request.operation == Operation::Write {
                let at = request.offset() as usize;
                let data = pool.bytes_of(number, request.bytes());
                expected[at..at + data.len()].copy_from_slice(&data);
            }
        }
        let data = WriteData::Random { seed: 5 };
        let options = ReplayOptions { engine, data, ..ReplayOptions::default() };
        let target = target_of(&path, &plan);
        let report = replay(&plan, &target, &options, &()).unwrap();
        assert!(fs::read(&path).unwrap() == expected, "{engine:?}");
        assert_eq!((report.achieved.requests, report.flushes_sent, report.fua_sent), (60, 20, 20));
        assert_eq!(report.achieved.bytes, plan.statistics().read_bytes + plan.statistics().write_bytes);
        assert_eq!(report.ordering.submitted_out_of_order, 0);
        drop(target);
        assert!(path.exists(), "a file of the user's is never removed");
    }
}

#[test]
fn a_request_longer_than_the_pool_is_written_whole() {
    let sectors = ((data::POOL_BYTES + 4096) / 512) as u32;
    let plan = plan_of(vec![
        request(0, Operation::Write, 8, sectors, Flags::default()),
        request(1, Operation::Read, 8, sectors, Flags::default()),
    ]);
    let pool = Pool::new(WriteData::default());
    for engine in engines() {
        let directory = tempfile::tempdir().unwrap();
        let path = file_of(directory.path(), plan.span_bytes() + 4096);
        let target = target_of(&path, &plan);
        let options = ReplayOptions { engine, ..ReplayOptions::default() };
        assert_eq!(replay(&plan, &target, &options, &()).unwrap().achieved.requests, 2);
        let found = fs::read(&path).unwrap();
        assert!(found[4096..][..sectors as usize * 512] == pool.bytes_of(0, u64::from(sectors) * 512));
        assert!(found[..4096].iter().all(|byte| *byte == 0xaa));
    }
}

#[test]
fn discards_make_holes() {
    let plan = plan_of(vec![request(0, Operation::Discard, 8, 16, Flags::default())]);
    for engine in engines() {
        let directory = tempfile::tempdir().unwrap();
        let path = file_of(directory.path(), 32_768);
        let target = target_of(&path, &plan);
        replay(&plan, &target, &ReplayOptions { engine, ..ReplayOptions::default() }, &()).unwrap();
        let found = fs::read(&path).unwrap();
        assert!(found[4096..12_288].iter().all(|byte| *byte == 0));
        assert!(found[..4096].iter().chain(&found[12_288..]).all(|byte| *byte == 0xaa));
    }
}

#[test]
fn a_file_that_shrinks_under_its_feet_ends_the_replay_with_a_reason() {
    let plan = plan_of((0..4).map(|n| request(n, Operation::Read, n * 16, 16, Flags::default())).collect());
    for engine in engines() {
        let directory = tempfile::tempdir().unwrap();
        let path = file_of(directory.path(), plan.span_bytes());
        let target = target_of(&path, &plan);
        File::options().write(true).open(&path).unwrap().set_len(20_480).unwrap();
        let options = ReplayOptions { engine, depth: Some(1), ..ReplayOptions::default() };
        let error = replay(&plan, &target, &options, &()).unwrap_err();
        insta::allow_duplicates! {
            insta::assert_snapshot!(
                error,
                @"request 2 of the plan (read of 8192 bytes at byte 16384) failed: only 4096 bytes were read; the target has become smaller since the replay began; the replay ended with 2 of 4 requests complete"
            );
        }
    }
}

#[test]
fn a_target_that_is_too_small_is_refused() {
    let plan = mixed();
    let directory = tempfile::tempdir().unwrap();
    let path = file_of(directory.path(), 4096);
    let error = replay(&plan, &target_of(&path, &plan), &ReplayOptions::default(), &()).unwrap_err();
    assert!(matches!(error, ReplayError::TooSmall { target_bytes: 4096, .. }), "{error}");
}

#[test]
fn without_times_only_as_fast_as_possible() {
    let plan = ReplayPlan { timed: false, ..mixed() };
    let target = Target::nothing(1 << 30);
    let error = replay(&plan, &target, &ReplayOptions::default(), &()).unwrap_err();
    insta::assert_snapshot!(error, @"made has no arrival times; `--speed max` replays it as fast as possible");
    let options = ReplayOptions { speed: Speed::Max, ..ReplayOptions::default() };
    assert_eq!(replay(&plan, &target, &options, &()).unwrap().achieved.requests, 60);
}

#[test]
fn what_would_be_lost_has_to_be_named() {
    let directory = tempfile::tempdir().unwrap();
    let path = file_of(directory.path(), 4096);
    let writes = TargetOptions { writes: true, ..TargetOptions::default() };
    let said = Target::open(&path, &writes, &()).unwrap_err().to_string();
    let said = said.replace(&path.display().to_string(), "PATH");
    insta::assert_snapshot!(
        said,
        @"PATH: the trace has writes, which would destroy the contents of the file; nothing was written. If you can lose all of it, use `--overwrite PATH`"
    );
    assert!(Target::open(&path, &TargetOptions::default(), &()).is_ok(), "reading harms nobody");
    let other = TargetOptions { overwrite: vec![directory.path().to_path_buf()], ..writes };
    assert!(Target::open(&path, &other, &()).is_err(), "only the exact name counts");
    assert!(
        Target::open(&directory.path().join("none"), &other, &()).unwrap_err().to_string().contains("lsblk")
    );
}

#[test]
fn in_a_directory_a_file_full_of_data_is_made_and_removed_on_request() {
    let directory = tempfile::tempdir().unwrap();
    let options =
        TargetOptions { writes: true, made_bytes: 10_000, remove: true, ..TargetOptions::default() };
    let target = Target::open(directory.path(), &options, &()).unwrap();
    assert_eq!((target.kind(), target.size_bytes()), (TargetKind::MadeFile, 12_288));
    let mut bytes = vec![0; 12_288];
    let path = directory.path().join(MADE_NAME);
    File::open(&path).unwrap().read_exact_at(&mut bytes, 0).unwrap();
    assert!(bytes.chunks(512).all(|sector| sector.iter().any(|byte| *byte != 0)), "no holes");
    let again = Target::open(directory.path(), &options, &()).unwrap_err().to_string();
    assert!(again.contains("it exists already"), "{again}");
    drop(target);
    assert!(!path.exists());
    drop(Target::open(directory.path(), &TargetOptions { remove: false, ..options.clone() }, &()).unwrap());
    assert!(path.exists());
    fs::remove_file(&path).unwrap();
    let huge = TargetOptions { made_bytes: 1 << 60, ..options.clone() };
    let said = Target::open(directory.path(), &huge, &()).unwrap_err().to_string();
    assert!(said.contains("--scale-space"), "{said}");
    let stopped = StopAfter(Cell::new(1));
    assert!(matches!(Target::open(directory.path(), &options, &stopped), Err(ReplayError::Interrupted)));
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0, "nothing was left behind");
}

#[test]
fn a_file_that_no_device_holds_is_refused_before_it_is_made() {
    let directory = tempfile::tempdir().unwrap();
    for made_bytes in [u64::MAX, u64::MAX - 4095, i64::MAX as u64] {
        let options = TargetOptions { writes: true, made_bytes, ..TargetOptions::default() };
        let refusal = Target::open(directory.path(), &options, &()).unwrap_err().to_string();
        assert!(refusal.contains("are free"), "{refusal}");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }
}

#[test]
fn another_file_in_place_of_the_one_that_was_made_is_not_removed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(MADE_NAME);
    let options = TargetOptions { writes: true, made_bytes: 4096, remove: true, ..TargetOptions::default() };
    let target = Target::open(directory.path(), &options, &()).unwrap();
    fs::rename(&path, directory.path().join("moved")).unwrap();
    fs::write(&path, "precious").unwrap();
    drop(target);
    assert_eq!(fs::read(&path).unwrap(), b"precious");
}
