//! Whether a number is physical.

use nestor_trace::TracePoint;
use nestor_trace::metrics::{ArmWork, ServiceTime};
use nestor_workload::OperationClass;

use super::fixture::*;
use crate::record::{CellRecord, Mark, Measured, Outcome};
use crate::{Physical, PhysicalVerdict};

const BYTES: u64 = 100 * MIB;

/// A run of a stack with the fixture's layers; the disk has a log and was busy for 96 % of the ten seconds.
fn run(stack: &str, change: impl Fn(&mut Measured)) -> CellRecord {
    let mut measured = measured(BYTES);
    let disk = measured.layers[3].metrics.as_mut().unwrap();
    disk.trace_point = TracePoint::DiskLog;
    // What its requests took has nothing of what the arm did for its write buffer.
    disk.service = Some(ServiceTime { overhead_ns: 100_000_000, ..ServiceTime::default() });
    disk.arms = Some(ArmWork {
        seek_ns: 6_000_000_000,
        rotation_ns: 3_000_000_000,
        transfer_ns: 600_000_000,
        ..ArmWork::default()
    });
    // Twice the 512 MiB of the two machines.
    measured.load.working_set_bytes = 1075 * MIB;
    change(&mut measured);
    CellRecord { outcome: Outcome::Measured(measured), ..record(stack, 0, BYTES) }
}

const STACK: &str = "ext3/kvm/hdd";

fn words(change: impl Fn(&mut Measured)) -> String {
    Physical::of(&run(STACK, change)).words()
}

/// Turns the fixture's writes into reads of the same numbers.
fn read_instead(m: &mut Measured) {
    let writes = m.load.operations.remove(&OperationClass("write".to_owned())).unwrap();
    m.load.operations.insert(OperationClass("read".to_owned()), writes);
    for metrics in m.layers.iter_mut().filter_map(|l| l.metrics.as_mut()) {
        metrics.read = std::mem::take(&mut metrics.write);
    }
}

#[test]
fn what_reached_a_busy_disk_is_physical() {
    assert_eq!(
        words(|_| {}),
        "yes: 2611 requests/s on a disk (wd-7200-1tb) that does 75 random reads a second one at a time, 50 % sequential, \
         arm and platters busy 96 %; working set 2.1 x all memory"
    );
}

#[test]
fn memory_instead_of_the_disk_is_not() {
    // Of 100 MiB written 10 MiB reached the disk; the guest passed on everything.
    let kept_by_the_host = |m: &mut Measured| {
        let log = m.layers[3].metrics.take().unwrap();
        m.layers[3].metrics =
            Some(nestor_trace::LayerMetrics { trace_point: log.trace_point, ..writes(BYTES / 10) });
    };
    assert_eq!(
        words(kept_by_the_host),
        "no: 10 % of the 100 MiB written reached the disk (wd-7200-1tb), the rest stayed in the memory of the host"
    );
    let read_from_the_guest = |m: &mut Measured| {
        read_instead(m);
        for metrics in m.layers.iter_mut().filter_map(|l| l.metrics.as_mut()) {
            metrics.read.issued_bytes = 20 * MIB;
        }
    };
    assert_eq!(
        words(read_from_the_guest),
        "no: 20 % of the 100 MiB read came from the disk (wd-7200-1tb), the rest from the memory of the guest"
    );
    // Most of it did: said, but not a reason against the number.
    let partly = words(|m| m.layers[3].metrics.as_mut().unwrap().write.issued_bytes = 80 * MIB);
    assert!(
        partly.starts_with("yes: ") && partly.contains("; 80 % of the 100 MiB written reached"),
        "{partly}"
    );
}

#[test]
fn the_names_of_operations_do_not_hide_what_they_move() {
    let read_whole_files = |m: &mut Measured| {
        read_instead(m);
        let reads = m.load.operations.remove(&OperationClass("read".to_owned())).unwrap();
        m.load.operations.insert(OperationClass("readwholefile".to_owned()), reads);
        m.layers[3].metrics.as_mut().unwrap().read.issued_bytes = 5 * MIB;
    };
    assert!(
        words(read_whole_files).starts_with("no: 5 % of the 100 MiB read"),
        "{}",
        words(read_whole_files)
    );
}

#[test]
fn reads_and_writes_of_scripts_are_asked_of_the_layers() {
    let mut m = measured(BYTES);
    let writes = m.load.operations.remove(&OperationClass("write".to_owned())).unwrap();
    m.load.operations.insert(OperationClass("appendfile".to_owned()), writes.clone());
    m.load.operations.insert(OperationClass("aiowrite".to_owned()), writes);
    let guest = m.flows()[1].clone().unwrap();
    assert_eq!((guest.asked_read_bytes, guest.asked_write_bytes), (0, 2 * BYTES));
}

#[test]
fn a_medium_cannot_be_faster_than_it_is() {
    // 100 MiB in 0.5 s: 210 MB/s; the disk's outermost tracks pass at 127.7.
    let fast = |m: &mut Measured| m.load.elapsed_ns = 500_000_000;
    let answer = words(fast);
    assert!(
        answer.starts_with("no: 210 MB/s is more than the disk (wd-7200-1tb) can move (128 MB/s)"),
        "{answer}"
    );
    // What the disk's own 64 MiB can hold goes at the rate of the interface.
    let held = words(|m| {
        fast(m);
        m.load.working_set_bytes = 60 * MIB;
    });
    assert!(held.starts_with("yes: ") && held.contains("yet it went to the medium"), "{held}");
}

#[test]
fn reads_cannot_take_less_time_than_a_command() {
    let quick = |m: &mut Measured| {
        read_instead(m);
        let reads = m.load.operations.get_mut(&OperationClass("read".to_owned())).unwrap();
        reads.latency = latency(reads.operations, 20_000);
    };
    let direct = CellRecord { workload: "fio:seq-read".into(), ..run(STACK, quick) };
    let answer = Physical::of(&direct).words();
    let named_otherwise = |m: &mut Measured| {
        quick(m);
        let reads = m.load.operations.remove(&OperationClass("read".to_owned())).unwrap();
        m.load.operations.insert(OperationClass("reread".to_owned()), reads);
    };
    let named = CellRecord { workload: "fio:seq-read".into(), ..run(STACK, named_otherwise) };
    assert_eq!(Physical::of(&named).words(), answer);
    assert!(
        answer.starts_with(
            "no: reads took 0.020 ms on average; the disk (wd-7200-1tb) needs at least 0.200 ms for one"
        ),
        "{answer}"
    );
    // Behind the page cache most reads do not wait for the disk.
    let buffered = CellRecord { workload: "fio:seq-read:direct=off".into(), ..run(STACK, quick) };
    assert_eq!(Physical::of(&buffered).verdict, PhysicalVerdict::Yes);
}

#[test]
fn a_medium_without_time_and_contradictions_are_not_physical() {
    let null = Physical::of(&run("ext3/kvm/null", |_| {}));
    assert_eq!(
        null.words(),
        "no: the medium takes no time (null), so this is the speed of the layers above it"
    );
    let reason = "hdd issued 26112 requests but 24112 completed".to_owned();
    let wrong = CellRecord { marks: vec![Mark::Inconsistent { reason }], ..run(STACK, |_| {}) };
    let answer = Physical::of(&wrong).words();
    assert!(answer.starts_with("no: the run contradicts itself: hdd issued 26112 requests"), "{answer}");
}

#[test]
fn what_was_not_recorded_cannot_be_told() {
    let blind = |m: &mut Measured| m.layers.iter_mut().for_each(|l| l.metrics = None);
    assert_eq!(
        words(|m| {
            blind(m);
            m.load.working_set_bytes = 51 * MIB;
        }),
        "cannot tell: nothing was recorded at the medium; working set 0.1 x all memory, so memory could hold it"
    );
    let file = run("ext3/file:/tmp/d.img", |m| {
        m.layers.remove(2);
        m.layers[2] = layer("file:/tmp/d.img", "disk", "guest", None);
    });
    assert!(
        Physical::of(&file)
            .words()
            .starts_with("cannot tell: nothing was recorded below the medium (file:/tmp/d.img)")
    );
    assert_eq!(Physical::of(&failed(STACK, 0, "no")).verdict, PhysicalVerdict::CannotTell);
}

#[test]
fn processors_that_set_the_pace_are_named() {
    let idle_disk = |m: &mut Measured| {
        m.cpu_busy[1].1 = 0.97;
        m.layers[3].metrics.as_mut().unwrap().arms =
            Some(ArmWork { seek_ns: 500_000_000, ..ArmWork::default() });
    };
    let answer = words(idle_disk);
    assert!(
        answer.contains("busy 5 %; the processors of the guest set the pace, busy 97 % of the time"),
        "{answer}"
    );
}

#[test]
fn of_several_runs_a_no_counts_and_a_yes_stands_for_those_not_recorded() {
    let blind = run(STACK, |m| m.layers.iter_mut().for_each(|l| l.metrics = None));
    let seen = run(STACK, |_| {});
    let null = run("ext3/kvm/null", |_| {});
    let answer = |records: &[&CellRecord]| Physical::of_runs(records).unwrap();
    assert_eq!(answer(&[&blind, &seen]).verdict, PhysicalVerdict::Yes);
    assert_eq!(answer(&[&blind]).verdict, PhysicalVerdict::CannotTell);
    let mixed = answer(&[&seen, &null]);
    assert!(
        mixed.verdict == PhysicalVerdict::No && mixed.words().ends_with("; so in 1 of 2 runs"),
        "{mixed:?}"
    );
    let twin = CellRecord { untraced_twin: true, ..blind.clone() };
    assert_eq!(Physical::of_runs(&[&twin]), None);
}
