//! What the checks notice.

use super::fixture::*;
use crate::checks::{Expected, marks, steady_after_s};
use crate::record::{Mark, Measured};

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
    };
    assert_eq!(found(|_| {}, &expected), [""; 0]);
}

#[test]
fn emulation_is_told() {
    let mut environment = environment();
    environment.machines[0].accelerator = "tcg".to_owned();
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
