//! What differs between two runs by the numbers of their levels.

use nestor_trace::TracePoint;
use nestor_trace::metrics::{ArmWork, ServiceTime};

use super::fixture::*;
use crate::record::{CellRecord, Measured};
use crate::{Outcome, RunLevels};

const STACK: &str = "ext3/kvm/hdd";

/// A run of 100 MiB in ten seconds, changed.
fn run(change: impl FnOnce(&mut Measured)) -> CellRecord {
    let mut measured = measured(100 * MIB);
    measured.layers.last_mut().unwrap().metrics.as_mut().unwrap().trace_point = TracePoint::DiskLog;
    change(&mut measured);
    CellRecord { outcome: Outcome::Measured(measured), ..record(STACK, 0, MIB) }
}

fn differences(candidate: impl FnOnce(&mut Measured), baseline: impl FnOnce(&mut Measured)) -> Vec<String> {
    let levels = |record: CellRecord| RunLevels::of(&record).unwrap();
    levels(run(candidate)).differences(&levels(run(baseline)))
}

/// The disk moved its arm for so many seconds.
fn seeking(seconds: u64) -> impl Fn(&mut Measured) {
    move |measured| {
        let disk = measured.layers.last_mut().unwrap().metrics.as_mut().unwrap();
        disk.arms = Some(ArmWork { seek_ns: seconds * 1_000_000_000, ..ArmWork::default() });
    }
}

#[test]
fn without_levels_there_is_nothing_to_tell() {
    let untraced = run(|m| m.layers.iter_mut().for_each(|layer| layer.metrics = None));
    assert_eq!(RunLevels::of(&untraced), None);
    assert_eq!(RunLevels::of(&failed(STACK, 0, "the guest died")), None);
    let same = "requests, bytes, queue and service times differ by less than 10 % at every level";
    assert_eq!(differences(|_| {}, |_| {}), [same]);
}

#[test]
fn a_disk_works_a_share_of_the_time_and_an_array_with_several_arms() {
    assert_eq!(
        differences(seeking(8), seeking(4)),
        [
            "the disk worked 80.0 ms per MiB of the application against 40.0 ms (seek 80.0 against 40.0, rotation 0.0 \
             against 0.0, transfer 0.0 against 0.0), 80 % of the time against 40 %"
        ]
    );
    let [told] = differences(seeking(23), seeking(4)).try_into().unwrap();
    assert!(told.ends_with("), 2.3 arms at work on average against 0.4"), "{told}");
}

#[test]
fn services_of_requests_are_not_the_time_of_the_disk_where_a_buffer_took_writes() {
    let services = |seconds: u64| {
        move |measured: &mut Measured| {
            let disk = measured.layers.last_mut().unwrap().metrics.as_mut().unwrap();
            disk.service = Some(ServiceTime { seek_ns: seconds * 1_000_000_000, ..ServiceTime::default() });
        }
    };
    let told = differences(services(8), services(4));
    assert!(told.iter().all(|line| !line.contains("the disk worked")), "{told:?}");
    // A run from before the arm's time was counted has it, if nothing was written.
    let reads = |seconds: u64| {
        move |measured: &mut Measured| {
            services(seconds)(measured);
            let disk = measured.layers.last_mut().unwrap().metrics.as_mut().unwrap();
            disk.read = std::mem::take(&mut disk.write);
        }
    };
    let told = differences(reads(8), reads(4));
    assert!(told.iter().any(|line| line.contains("the disk worked 80.0 ms")), "{told:?}");
}

#[test]
fn what_moves_no_data_is_told_by_its_operations() {
    let without_data = |requests: u64| {
        move |measured: &mut Measured| {
            measured.load.operations.values_mut().for_each(|o| (o.bytes, o.operations) = (0, 2_000));
            let guest = measured.layers[1].metrics.as_mut().unwrap();
            guest.write.issued = requests;
        }
    };
    let levels = RunLevels::of(&run(without_data(50))).unwrap();
    assert!(
        levels
            .sent()
            .starts_with("per 1000 operations of the application: guest's block layer 25.0 requests")
    );
    let told = differences(without_data(50), without_data(20));
    assert_eq!(
        told,
        [
            "requests at the guest's block layer: 25.0 per 1000 operations of the application against 10.0 (0 % merged \
          against 0 %)"
        ]
    );
    // Work of two kinds has no common measure; times still have.
    assert_eq!(differences(without_data(50), |_| {}).len(), 1);
}

#[test]
fn each_machine_has_a_level_and_of_several_layers_the_topmost() {
    let deep = run(|measured| {
        measured.layers.insert(1, layer("xfs", "guest fs", "guest-2", Some(writes(200 * MIB))));
        measured.layers.insert(3, layer("loop", "loop", "guest", Some(writes(900 * MIB))));
    });
    let sent = RunLevels::of(&deep).unwrap().sent();
    assert_eq!(
        sent,
        "per MiB of the application: guest-2's block layer 512.0 requests and 2.00 MiB, 0 % merged; guest's block layer \
         258.6 requests and 1.01 MiB, 0 % merged; disk 261.1 requests and 1.02 MiB, 0 % merged"
    );
}
