//! What no medium of its class can have done.

use nestor_stack::{MEDIUM_CLASS, MEDIUM_WRITE_CACHE};
use nestor_stack::{MediumClass, UserMedium};
use nestor_trace::metrics::{SeekMetrics, ServiceTime};
use nestor_trace::{LayerMetrics, TracePoint};
use nestor_workload::OperationClass;

use super::fixture::*;
use crate::record::{CellRecord, Measured, Outcome};
use crate::{Physical, PhysicalVerdict};

const SECONDS: u64 = 10;
const WORKING_SET: u64 = 1075 * MIB;

/// What the medium saw.
fn at_medium(operation: &str, per_s: u64, point: TracePoint) -> LayerMetrics {
    let mut metrics = LayerMetrics { trace_point: point, ..writes(per_s * SECONDS * 4096) };
    (metrics.sequential_share, metrics.span_s) = (Some(0.0), SECONDS as f64);
    if operation == "read" {
        metrics.read = std::mem::take(&mut metrics.write);
    }
    metrics
}

/// A run of so many operations a second, each of which took so long and reached the medium.
fn record(stack: &str, workload: &str, per_s: u64, mean_ns: u64) -> CellRecord {
    let operation = if workload.contains("read") { "read" } else { "write" };
    let modelled = stack.contains("hdd") || stack.contains("ssd");
    let point = if modelled { TracePoint::DiskLog } else { TracePoint::Blktrace };
    let operations = per_s * SECONDS;
    let mut measured = measured(operations * 4096);
    let mut result = measured.load.operations.remove(&OperationClass("write".to_owned())).unwrap();
    result.latency = latency(operations, mean_ns);
    measured.load.operations.insert(OperationClass(operation.to_owned()), result);
    measured.load.working_set_bytes = WORKING_SET;
    let medium = stack.rsplit_once("/dev:").map_or("hdd", |_| "dev:/dev/sdb");
    let seen = at_medium(operation, per_s, point);
    let (above, log) = if modelled { (seen.clone(), Some(seen)) } else { (seen, None) };
    measured.layers = vec![
        layer("application", "", "host", None),
        layer("ext4", "host fs", "host", Some(LayerMetrics { trace_point: TracePoint::Blktrace, ..above })),
        layer(medium, "disk", "host", log),
    ];
    if let Some(log) = &mut measured.layers[2].metrics {
        log.service = Some(ServiceTime::default());
    }
    CellRecord {
        workload: workload.into(),
        outcome: Outcome::Measured(measured),
        ..super::fixture::record(stack, 0, MIB)
    }
}

fn changed(mut record: CellRecord, change: impl Fn(&mut Measured)) -> CellRecord {
    if let Outcome::Measured(measured) = &mut record.outcome {
        change(measured);
    }
    record
}

fn disk(measured: &mut Measured) -> &mut LayerMetrics {
    measured.layers[2].metrics.as_mut().unwrap()
}

/// A disk of the user's that gave random reads; its class as its kernel said it.
fn real(class: &str, per_s: u64) -> CellRecord {
    let mut record = record("ext4/dev:/dev/sdb", "fio:rand-read", per_s, 255_000_000_000 / per_s);
    let class = MediumClass::parse(class).unwrap();
    record.environment.user_medium = Some(UserMedium { class, write_cache: None });
    record
}

fn words(record: &CellRecord) -> String {
    Physical::of(record).words()
}

/// Question 11 of those that users ask: a disk of 7200 rpm that shows 20 000 IOPS.
#[test]
fn twenty_thousand_random_reads_are_not_of_a_hard_disk() {
    let fast = record("ext4/hdd", "fio:rand-read", 20_000, 12_750_000);
    let answer = words(&fast);
    assert!(
        answer.starts_with("no: 20000 reads/s were neither in the disk's own cache nor sequential; the arm of the disk (wd-7200-1tb) reaches "),
        "{answer}"
    );
    // The same, where nothing but the application's own numbers was recorded.
    let blind = changed(fast, |m| m.layers.iter_mut().for_each(|l| l.metrics = None));
    let answer = words(&blind);
    assert!(
        answer.starts_with("no: 20000 random reads/s are more than the disk (wd-7200-1tb) can do ("),
        "{answer}"
    );
    assert!(answer.contains(" at best), so a memory answered them"), "{answer}");
}

#[test]
fn reads_that_the_disk_had_or_that_followed_each_other_are_explained() {
    let fast = || record("ext4/hdd", "fio:rand-read", 20_000, 12_750_000);
    let cached = changed(fast(), |m| disk(m).service.as_mut().unwrap().cache_hits = 198_000);
    let answer = words(&cached);
    assert!(answer.starts_with("yes: 20000 requests/s on a disk (wd-7200-1tb)"), "{answer}");
    assert!(
        answer.contains("; 20000 reads/s are more than its arm can do (") && answer.contains("99 % were"),
        "{answer}"
    );
    let sequential = changed(fast(), |m| disk(m).sequential_read_share = Some(0.99));
    assert_eq!(Physical::of(&sequential).verdict, PhysicalVerdict::Yes);
    // Writes that the disk's buffer took do not count for its reads.
    let writes_hit = changed(fast(), |m| {
        let log = disk(m);
        log.write = log.read.clone();
        log.service.as_mut().unwrap().cache_hits = log.write.issued;
    });
    assert_eq!(Physical::of(&writes_hit).verdict, PhysicalVerdict::No);
}

/// A mail server's run: 196 requests a second, 66 % from the disk's own cache, though it does 75 random reads a second.
#[test]
fn what_a_modelled_disk_usually_does_is_physical() {
    for (workload, rate, hits) in [("wml:mailserver", 196, 1_293), ("fio:rand-read", 250, 400)] {
        let usual = record("ext4/hdd", workload, rate, 255_000_000_000 / rate);
        let usual = changed(usual, |m| disk(m).service.as_mut().unwrap().cache_hits = hits);
        assert_eq!(Physical::of(&usual).verdict, PhysicalVerdict::Yes, "{}", words(&usual));
    }
}

#[test]
fn a_disk_of_the_users_is_judged_by_its_class() {
    let verdict = |class: &str, per_s| Physical::of(&real(class, per_s)).verdict;
    assert_eq!(verdict("hard disk of 7200 rpm", 300), PhysicalVerdict::Yes);
    assert_eq!(verdict("hard disk of 7200 rpm", 20_000), PhysicalVerdict::No);
    assert_eq!(verdict("hard disk", 20_000), PhysicalVerdict::No);
    assert_eq!(verdict("SATA flash disk", 90_000), PhysicalVerdict::Yes);
    assert_eq!(verdict("SATA flash disk", 200_000), PhysicalVerdict::No);
    assert_eq!(verdict("2 x SATA flash disk", 200_000), PhysicalVerdict::Yes);
    assert_eq!(verdict("NVMe flash disk", 900_000), PhysicalVerdict::Yes);
    let answer = words(&real("hard disk of 7200 rpm", 20_000));
    assert!(
        answer.contains("more than the medium (dev:/dev/sdb, hard disk of 7200 rpm) can do ("),
        "{answer}"
    );
}

#[test]
fn a_class_that_is_not_known_is_said_and_a_virtual_disk_proves_nothing() {
    let answer = words(&real("unknown", 20_000));
    assert!(
        answer.starts_with("yes: 20000 requests/s on a medium (dev:/dev/sdb, of unknown class)"),
        "{answer}"
    );
    let answer = words(&real("virtual disk", 20_000));
    assert!(
        answer
            .starts_with("cannot tell: nothing was recorded behind the medium (dev:/dev/sdb, virtual disk)"),
        "{answer}"
    );
}

#[test]
fn a_working_set_that_its_own_cache_may_hold_leaves_it_open() {
    let small = changed(real("hard disk", 20_000), |m| m.load.working_set_bytes = 512 * MIB);
    let answer = words(&small);
    assert!(answer.starts_with("cannot tell: 20000 random reads/s are more than the arm of the"), "{answer}");
    assert!(answer.contains("its own cache may hold the working set"), "{answer}");
}

#[test]
fn random_reads_wait_half_a_turn() {
    // One at a time, and not more than the arm could go for: only their time tells.
    let soon = record("ext4/hdd", "fio:rand-read:depth=1", 200, 1_000_000);
    assert_eq!(
        words(&soon),
        "no: random reads took 1.000 ms on average; the disk (wd-7200-1tb) needs at least 4.167 ms for one"
    );
    let enough = record("ext4/hdd", "fio:rand-read:depth=1", 75, 13_000_000);
    assert_eq!(Physical::of(&enough).verdict, PhysicalVerdict::Yes);
    // Its cache had every second one.
    let hits = changed(soon, |m| disk(m).service.as_mut().unwrap().cache_hits = 1_000);
    assert!(words(&hits).contains("needs at least 2.083 ms"), "{}", words(&hits));
}

/// Random writes one at a time, each at once, whose places are far from each other unless `near`.
fn writes_at_once(stack: &str, near: bool) -> CellRecord {
    let distance = if near { 16 } else { 200_000 };
    changed(record(stack, "fio:rand-write:depth=1", 200, 300_000), |m| {
        disk(m).d2d_seeks = Some(SeekMetrics {
            cdf_sectors: [vec![0], vec![distance; 50]].concat(),
            ..SeekMetrics::default()
        });
    })
}

#[test]
fn without_a_write_cache_a_write_waits_for_the_platter() {
    let answer = words(&writes_at_once("ext4/hdd:wcache=off", false));
    assert!(
        answer.starts_with("no: random writes took 0.300 ms on average; the disk (wd-7200-1tb) without its write cache needs at least 4.08"),
        "{answer}"
    );
    // With its cache on, it answers before; what a layer above put in a row passes under the heads.
    assert_eq!(Physical::of(&writes_at_once("ext4/hdd:wcache=on", false)).verdict, PhysicalVerdict::Yes);
    assert_eq!(Physical::of(&writes_at_once("ext4/hdd:wcache=off", true)).verdict, PhysicalVerdict::Yes);
    // Host memory that was told to answer does so.
    let told = words(&writes_at_once("ext4/kvm:cache=writeback/hdd:wcache=off", false));
    assert!(
        told.starts_with("yes: ")
            && told
                .contains("writes took 0.300 ms on average because memory around the machine answered them"),
        "{told}"
    );
}

#[test]
fn records_of_before_have_the_medium_in_words() {
    let typed = real("hard disk of 7200 rpm", 20_000);
    let mut former = typed.clone();
    former.environment.user_medium = None;
    assert_ne!(words(&former), words(&typed));
    former.environment.settings.insert(MEDIUM_CLASS.to_owned(), "hard disk of 7200 rpm".to_owned());
    assert_eq!(words(&former), words(&typed));
}

#[test]
fn the_kernel_says_whether_a_disk_of_the_users_has_a_write_cache() {
    let mut record = record("ext4/dev:/dev/sdb", "fio:rand-write:depth=1", 200, 300_000);
    let seeks = SeekMetrics { cdf_sectors: vec![200_000; 51], ..SeekMetrics::default() };
    record = changed(record, |m| m.layers[1].metrics.as_mut().unwrap().d2d_seeks = Some(seeks.clone()));
    record.environment.settings.insert(MEDIUM_CLASS.to_owned(), "hard disk of 7200 rpm".to_owned());
    let verdict = |cache: &str| {
        let mut record = record.clone();
        record.environment.settings.insert(MEDIUM_WRITE_CACHE.to_owned(), cache.to_owned());
        Physical::of(&record).verdict
    };
    assert_eq!((verdict("off"), verdict("on")), (PhysicalVerdict::No, PhysicalVerdict::Yes));
}
