//! What the checks notice.

use super::fixture::*;
use crate::checks::{Expected, marks, steady_after_s};
use crate::record::{Mark, Measured};
use nestor_stack::LayerIndex;
use nestor_workload::OperationClass;

const BYTES: u64 = 100 * MIB;

fn found(change: impl Fn(&mut Measured), expected: &Expected) -> Vec<String> {
    let mut measured = measured(BYTES);
    change(&mut measured);
    marks(&measured, &environment(), expected)
        .iter()
        .map(|m| format!("{}: {}", m.name(), m.detail()))
        .collect()
}

fn found_alone(change: impl Fn(&mut Measured)) -> Vec<String> {
    found(change, &Expected::default())
}

#[test]
fn an_honest_run_has_no_marks() {
    let expected = Expected {
        concurrency: Some(4.0),
        medium_bytes_per_s: Some(120e6),
        medium_requests_per_s: Some(10_000.0),
        ..Expected::default()
    };
    assert_eq!(found(|_| {}, &expected), [""; 0]);
}

#[test]
fn emulation_is_told() {
    let mut environment = environment();
    environment.machines[0].accelerator = nestor_stack::Accelerator::Tcg;
    assert_eq!(marks(&measured(BYTES), &environment, &Expected::default()), [Mark::EmulatedCpu]);
}

#[test]
fn busy_cpus_are_told() {
    let marks = found_alone(|m| m.cpu_busy[1].1 = 0.71);
    assert_eq!(marks, ["cpu-bound: the CPUs of the guest were busy 71 % of the time"]);
    assert_eq!(found_alone(|m| m.cpu_busy[1].1 = 0.70).len(), 0);
    assert_eq!(
        found_alone(|m| m.host_cpu_busy = 0.9),
        ["cpu-bound: the CPUs of the host were busy 90 % of the time"]
    );
}

#[test]
fn writes_that_stayed_in_the_host_are_told_with_the_layer() {
    let marks = found_alone(|m| m.layers[3].metrics = Some(writes(BYTES / 10)));
    assert_eq!(
        marks,
        ["cached: of 100.0 MiB that the application wrote, 10 % was written below hdd (disk) in the host: \
          the rest stayed in memory at or above it"]
    );
    // The first layer that misses them is named, not every one below.
    let marks = found_alone(|m| {
        m.layers[1].metrics = Some(writes(BYTES / 2));
        m.layers[3].metrics = Some(writes(BYTES / 2));
    });
    assert!(marks.len() == 1 && marks[0].contains("below ext3 (guest fs) in the guest"), "{marks:?}");
    assert_eq!(found_alone(|m| m.layers[3].metrics = Some(writes(BYTES * 91 / 100))).len(), 0);
}

#[test]
fn what_is_read_from_another_machine_is_not_taken_to_come_from_memory() {
    let turn = |m: &mut Measured| {
        let written = m.load.operations.remove(&OperationClass("write".to_owned())).unwrap();
        m.load.operations.insert(OperationClass("read".to_owned()), written);
        for metrics in m.layers.iter_mut().filter_map(|layer| layer.metrics.as_mut()) {
            std::mem::swap(&mut metrics.read, &mut metrics.write);
        }
        // The medium sees none of it.
        m.layers[3].metrics = Some(writes(0));
    };
    assert_eq!(found_alone(turn).iter().filter(|mark| mark.starts_with("cached")).count(), 1);
    let kvm = LayerIndex::TOP.below();
    let elsewhere = Expected { reads_leave_at: Some(kvm), ..Expected::default() };
    assert_eq!(found(turn, &elsewhere).iter().filter(|mark| mark.starts_with("cached")).count(), 0);
    // What is missing above that layer is missing nevertheless.
    let above = |m: &mut Measured| {
        turn(m);
        m.layers[1].metrics = Some(writes(0));
    };
    assert_eq!(found(above, &elsewhere).iter().filter(|mark| mark.starts_with("cached")).count(), 1);
    // Writes do not leave.
    let lost = |m: &mut Measured| m.layers[3].metrics = Some(writes(BYTES / 10));
    assert_eq!(found(lost, &elsewhere).iter().filter(|mark| mark.starts_with("cached")).count(), 1);
}

#[test]
fn without_a_trace_a_small_data_set_counts_as_cached() {
    let blind = |m: &mut Measured| m.layers.iter_mut().for_each(|l| l.metrics = None);
    let marks = found_alone(blind);
    assert!(marks.len() == 1 && marks[0].starts_with("cached: nothing below the application"), "{marks:?}");
    let large = found_alone(|m| {
        blind(m);
        m.load.working_set_bytes = 1024 * MIB;
    });
    assert_eq!(large.len(), 0);
}

#[test]
fn lost_requests_are_inconsistent() {
    let lose = |m: &mut Measured| {
        let metrics = m.layers[3].metrics.as_mut().unwrap();
        metrics.write.completed -= 2_000;
    };
    assert_eq!(found_alone(lose), ["inconsistent: hdd issued 26112 requests but 24112 completed"]);
    let dropped = found_alone(|m| {
        lose(m);
        m.layers[3].metrics.as_mut().unwrap().dropped_events = 7;
    });
    assert_eq!(dropped, ["events-dropped: the trace of hdd lost 7 events"]);
    let reissued = found_alone(|m| {
        lose(m);
        m.layers[3].metrics.as_mut().unwrap().reissued = 1;
    });
    assert_eq!(reissued, [""; 0], "each time that the driver got a request counts as issued");
}

#[test]
fn stages_that_do_not_add_up_are_inconsistent() {
    let marks = found_alone(|m| {
        let metrics = m.layers[1].metrics.as_mut().unwrap();
        metrics.q2c = Some(latency(metrics.q2c.as_ref().unwrap().count(), 20_000));
    });
    assert_eq!(marks, ["inconsistent: at ext3 Q2D + D2C differ from Q2C by -50 %"]);
    let merged = found_alone(|m| {
        let metrics = m.layers[1].metrics.as_mut().unwrap();
        metrics.q2c = Some(latency(metrics.q2c.as_ref().unwrap().count(), 20_000));
        metrics.write.back_merges = metrics.write.queued / 2;
    });
    assert_eq!(merged.len(), 0, "merged requests have no dispatch of their own");
}

#[test]
fn times_that_are_too_short_to_count_are_no_contradiction() {
    let times = |part_ns: u64, whole_ns: u64| {
        found_alone(move |m| {
            let metrics = m.layers[1].metrics.as_mut().unwrap();
            let requests = metrics.q2c.as_ref().unwrap().count();
            let of = |ns| Some(latency(requests, ns));
            (metrics.q2d, metrics.d2c, metrics.q2c) = (of(part_ns), of(part_ns), of(whole_ns));
        })
    };
    // In virtual time a request may be complete at the moment at which it arrived.
    assert_eq!(times(0, 0), [""; 0]);
    assert_eq!(times(1, 1), [""; 0], "no histogram tells these from none");
    assert_eq!(times(2, 1), ["inconsistent: at ext3 Q2D + D2C differ from Q2C by +300 %"]);
    assert_eq!(times(20, 20), ["inconsistent: at ext3 Q2D + D2C differ from Q2C by +100 %"]);
}

#[test]
fn a_disk_whose_requests_run_backwards_contradicts_itself() {
    let backwards = |violations: u64| {
        found_of(NESTED, WRITES, |m| {
            nested(m);
            let metrics = m.layers[5].metrics.as_mut().unwrap();
            metrics.identity = nestor_trace::metrics::Identity { checked: 25_000, violations };
        })
    };
    assert_eq!(backwards(0), [""; 0]);
    assert_eq!(backwards(300), ["inconsistent: at hdd Q2I + I2D + D2C is not Q2C for 300 of 25000 requests"]);
}

#[test]
fn impossible_rates_are_inconsistent() {
    let expected = Expected { concurrency: Some(2.0), ..Expected::default() };
    assert_eq!(
        found(|_| {}, &expected),
        [
            "inconsistent: Little's law: throughput times latency gives 4.0 operations outstanding, the workload keeps 2"
        ]
    );
    let expected =
        Expected { medium_bytes_per_s: Some(5e6), medium_requests_per_s: Some(100.0), ..Expected::default() };
    assert_eq!(
        found(|_| {}, &expected),
        [
            "inconsistent: hdd moved 11 MB/s; it cannot move more than 5 MB/s",
            "inconsistent: hdd served 2611 requests/s; it cannot serve more than 100"
        ]
    );
}

#[test]
fn unsettled_and_short_runs_are_told() {
    let seconds = |values: &[u64]| {
        let values = values.to_vec();
        move |m: &mut Measured| {
            m.load.elapsed_ns = values.len() as u64 * 1_000_000_000 + 1;
            m.load.operations.values_mut().for_each(|o| o.bytes_by_second = values.clone());
        }
    };
    let marks = found_alone(seconds(&[50, 60, 70, 80, 90, 100, 110, 120, 130, 140]));
    assert!(
        marks[0].starts_with("not-steady: over 5 rounds of 2 s throughput ranged over 84 %"),
        "{marks:?}"
    );
    let marks = found_alone(seconds(&[100, 100]));
    assert_eq!(marks, ["not-steady: a run of 2.0 s is too short for 5 rounds of a second"]);
    let mut settling = measured(BYTES);
    seconds(&[1, 50, 100, 100, 100, 100, 100])(&mut settling);
    assert_eq!(steady_after_s(&settling), Some(2));
}

/// The fixture's run with changed layers, held against what its stack says.
fn found_of(stack: &str, workload: &str, change: impl Fn(&mut Measured)) -> Vec<String> {
    let stack = nestor_stack::Stack::parse(stack).unwrap();
    let expected = Expected::of(&stack, &nestor_workload::Workload::parse(workload).unwrap());
    // The made-up run keeps 4 operations under way, not fio's 255.
    found(change, &Expected { concurrency: None, ..expected })
}

/// The layers of ext3/kvm/raw/jfs/hdd with everything traced and nothing lost.
fn nested(m: &mut Measured) {
    let point = |trace_point| Some(nestor_trace::LayerMetrics { trace_point, ..writes(BYTES) });
    let (block, disk) = (nestor_trace::TracePoint::Blktrace, nestor_trace::TracePoint::DiskLog);
    m.layers = vec![
        layer("application", "", "guest", None),
        layer("ext3", "guest fs", "guest", point(block)),
        layer("kvm", "virtual machine", "host", point(nestor_trace::TracePoint::Hypervisor)),
        layer("raw", "raw image", "host", None),
        layer("jfs", "host fs", "host", point(block)),
        layer("hdd", "disk", "host", point(disk)),
    ];
    // A disk has no other time before the service than that in its queue.
    let disk = m.layers[5].metrics.as_mut().unwrap();
    disk.i2d = disk.q2d.take();
}

const NESTED: &str = "ext3/kvm/raw/jfs/hdd";
const WRITES: &str = "fio:seq-write";

fn write_of(m: &mut Measured, layer: usize) -> &mut nestor_trace::DirectionMetrics {
    &mut m.layers[layer].metrics.as_mut().unwrap().write
}

#[test]
fn bytes_that_vanish_between_neighbours_are_inconsistent() {
    assert_eq!(found_of(NESTED, WRITES, nested), [""; 0]);
    let lose = |layer: usize, bytes: u64| {
        move |m: &mut Measured| {
            nested(m);
            write_of(m, layer).queued_bytes -= bytes;
        }
    };
    // 512 requests of 4 KiB and 1 % may be missing: 3 MiB of 100.
    assert_eq!(found_of(NESTED, WRITES, lose(2, 2 * MIB)), [""; 0]);
    assert_eq!(
        found_of(NESTED, WRITES, lose(2, 20 * MIB)),
        ["inconsistent: conservation of bytes: ext3 sent 104857600 bytes of writes, kvm received 83886080"]
    );
    assert_eq!(
        found_of(NESTED, WRITES, lose(5, 20 * MIB)),
        ["inconsistent: conservation of bytes: jfs sent 104857600 bytes of writes, hdd received 83886080"]
    );
    let lost_events = |m: &mut Measured| {
        lose(5, 20 * MIB)(m);
        m.layers[5].metrics.as_mut().unwrap().dropped_events = 3;
    };
    assert_eq!(found_of(NESTED, WRITES, lost_events), ["events-dropped: the trace of hdd lost 3 events"]);
}

#[test]
fn what_is_written_past_the_page_cache_reaches_the_device() {
    let kept = |m: &mut Measured| {
        nested(m);
        for layer in [4, 5] {
            let write = write_of(m, layer);
            (write.issued_bytes, write.queued_bytes) = (94 * MIB, 94 * MIB);
        }
    };
    let sentence = "inconsistent: conservation of bytes: ext3 wrote 104857600 bytes to a disk opened past the page \
                    cache, jfs passed on 98566144";
    assert_eq!(found_of(NESTED, WRITES, kept), [sentence]);
    // Through the page cache the host may write later, or never.
    assert_eq!(found_of("ext3/kvm:cache=writeback/raw/jfs/hdd", WRITES, kept), [""; 0]);
    // A file system that compresses writes less.
    assert_eq!(found_of("ext3/kvm/raw/btrfs:mount=compress=zstd/hdd", WRITES, kept), [""; 0]);
    // A file system that is a program keeps them in a page cache of its own.
    assert_eq!(found_of("ext3/kvm/raw/ntfs/hdd", WRITES, kept), [""; 0]);
    let kept_in_the_guest = |m: &mut Measured| {
        nested(m);
        for layer in [1, 2, 4, 5] {
            let write = write_of(m, layer);
            (write.issued_bytes, write.queued_bytes) = (94 * MIB, 94 * MIB);
        }
    };
    let marks = found_of(NESTED, WRITES, kept_in_the_guest);
    assert_eq!(
        marks,
        [
            "inconsistent: conservation of bytes: the application wrote 104857600 bytes past the page cache, ext3 passed on 98566144"
        ]
    );
    assert_eq!(found_of(NESTED, "fio:seq-write:direct=off", kept_in_the_guest), [""; 0]);
}

#[test]
fn littles_law_holds_at_every_layer() {
    // 25 600 requests of 7 us in 10 s make 0.018 under way; here 1000 times slower.
    let slow = |depth: f64| {
        move |m: &mut Measured| {
            let metrics = m.layers[1].metrics.as_mut().unwrap();
            let requests = metrics.d2c.as_ref().unwrap().count();
            metrics.d2c = Some(latency(requests, 7_000_000));
            metrics.q2c = Some(latency(requests, 7_003_000));
            metrics.timeline = Some(nestor_trace::metrics::Timeline {
                step_ns: 100_000_000,
                depth: vec![depth; 100],
                ..Default::default()
            });
        }
    };
    // 25 856 requests of 7 ms in 10 s: 18.10.
    assert_eq!(found_alone(slow(18.10)), [""; 0]);
    assert_eq!(found_alone(slow(18.40)), [""; 0]);
    assert_eq!(
        found_alone(slow(20.0)),
        [
            "inconsistent: Little's law at ext3: 2586 requests/s of 6.998 ms make 18.09 under way, 19.80 were counted"
        ]
    );
    // The last request ended soon after the last step had begun, and a flush went on.
    let ended_early = |m: &mut Measured| {
        slow(18.10)(m);
        *m.layers[1].metrics.as_mut().unwrap().timeline.as_mut().unwrap().depth.last_mut().unwrap() = 400.0;
    };
    assert_eq!(found_alone(ended_early), [""; 0]);
    let unsure = |m: &mut Measured| {
        slow(20.0)(m);
        m.layers[1].metrics.as_mut().unwrap().remarks.push("9 requests were not complete".to_owned());
    };
    assert_eq!(found_alone(unsure), [""; 0]);
}

#[test]
fn the_stages_of_each_request_are_better_than_their_means() {
    let checked = |violations: u64| {
        move |m: &mut Measured| {
            let metrics = m.layers[1].metrics.as_mut().unwrap();
            // Flushes before and after the data make bios wait longer than their requests.
            metrics.q2c = Some(latency(metrics.q2c.as_ref().unwrap().count(), 20_000));
            metrics.identity = nestor_trace::metrics::Identity { checked: 25_000, violations };
        }
    };
    assert_eq!(found_alone(checked(0)), [""; 0]);
    assert_eq!(
        found_alone(checked(300)),
        ["inconsistent: at ext3 Q2I + I2D + D2C is not Q2C for 300 of 25000 requests"]
    );
    let flushing = |m: &mut Measured| {
        checked(0)(m);
        let metrics = m.layers[1].metrics.as_mut().unwrap();
        metrics.identity = nestor_trace::metrics::Identity::default();
        metrics.flushes_queued = 40;
    };
    assert_eq!(found_alone(flushing), [""; 0]);
}

#[test]
fn a_medium_cannot_do_more_than_its_profile_says() {
    let expected = |stack: &str| {
        let stack = nestor_stack::Stack::parse(stack).unwrap();
        Expected::of(&stack, &nestor_workload::Workload::parse("fio:rand-read:depth=8:numjobs=2").unwrap())
    };
    let hdd = expected("ext4/kvm/raw/xfs/hdd");
    assert_eq!((hdd.medium_bytes_per_s, hdd.concurrency), (Some(300e6), Some(16.0)));
    // A queue of 32, each command for at least 200 us.
    assert!((hdd.medium_requests_per_s.unwrap() - 160_000.0).abs() < 1e-6);
    assert!(expected("ext4/hdd:wd-re3").medium_bytes_per_s.is_some());
    assert!(expected("ext4/ssd").medium_requests_per_s.unwrap() > 50_000.0);
    assert!(expected("ext4/raid0").medium_bytes_per_s.is_some());
    assert_eq!(expected("ext4/null").medium_bytes_per_s, None);
    let stack = nestor_stack::Stack::parse("ext4/hdd").unwrap();
    let of = |load: &str| Expected::of(&stack, &nestor_workload::Workload::parse(load).unwrap()).concurrency;
    assert_eq!(of("iometer:mail"), Some(50.0), "its workers have one request each");
    assert_eq!(of("iometer:surface:depth=28"), Some(28.0), "one worker");
    assert_eq!(expected("ext4/file:/no/such").medium_requests_per_s, None);
    let places = |stack: &str| {
        expected(stack)
            .direct_disks
            .iter()
            .map(|d| (d.hypervisor.position(), d.host.position()))
            .collect::<Vec<_>>()
    };
    assert_eq!(places("ext4/kvm/raw/xfs/hdd"), [(1, 3)]);
    assert_eq!(places("ext4/kvm/hdd"), [(1, 1)]);
    assert_eq!(places("kvm/qcow2/xfs/hdd"), [(0, 2)]);
    assert_eq!(places("ext4/kvm:cache=writethrough/hdd"), []);
}
