//! A store of made-up runs to predict from: what a laboratory would have left, without one.

// Each test file uses its own part of this.
#![allow(dead_code)]

use std::collections::BTreeMap;

use nestor_correlate::{Blame, Cause, Correlation, Level, LevelIndex, Passage, Passed, Spent, TimeAtLevel};
use nestor_layout::Class;
use nestor_results::{
    CellRecord, Environment, LayerRecord, MachineRecord, Measured, Outcome, Store, TraceMode,
};
use nestor_stack::LayerRole;
use nestor_statistics::LatencyHistogram;
use nestor_trace::metrics::TracePoint;
use nestor_trace::{LayerMetrics, Operation};
use nestor_workload::{LoadResult, OperationClass, OperationResult};

use crate::support::Sandbox;

pub const LOAD: &str = "fio:rand-read:depth=16";

/// Seconds of a request: a disk that seeks, and a virtual machine that adds 0.3 ms to each.
pub fn request_s(stack: &str, bytes: f64, random: f64, depth: f64) -> f64 {
    let shorter = 0.85_f64.powf(depth.min(32.0).log2());
    let disk = (1.0 - random) * bytes / 60e6 + random * (8e-3 * shorter + bytes / 60e6);
    disk + if stack.contains("kvm") { 3e-4 } else { 0.0 }
}

pub fn record(stack: &str, workload: &str, block: u32, load: LoadResult, random: f64) -> CellRecord {
    let operations: u64 = load.operations.values().map(|done| done.operations).sum();
    let mut metrics = LayerMetrics::new(TracePoint::Blktrace);
    (metrics.read.issued, metrics.read.issued_bytes) = (operations, operations * 8192);
    metrics.sequential_share = Some(1.0 - random);
    let layer = |layer: &str, metrics| LayerRecord::new(layer, LayerRole::Application, "guest", metrics);
    CellRecord {
        stack: stack.into(),
        workload: workload.into(),
        study: None,
        study_hash: None,
        block,
        repeat: 0,
        position: block,
        trace: TraceMode::Layers,
        untraced_twin: false,
        started_at: format!("2026-01-01T00:{block:02}:00Z"),
        cell_s: 60.0,
        load_s: None,
        outcome: Outcome::Measured(Measured {
            load,
            layers: vec![layer("application", None), layer("ext4", Some(metrics))],
            host_cpu_busy: 0.1,
            ..Measured::default()
        }),
        marks: Vec::new(),
        environment: Environment { ground: "emulated".into(), ..Environment::default() },
    }
}

pub fn result(workload: &str, operations: u64, request_s: f64, depth: f64) -> LoadResult {
    let mut latency = LatencyHistogram::default();
    latency.record_many_ns((request_s * depth * 1e9) as u64, operations);
    let done =
        OperationResult { operations, bytes: operations * 8192, latency, ..OperationResult::default() };
    LoadResult {
        engine: "made up".to_owned(),
        workload: workload.to_owned(),
        elapsed_ns: (operations as f64 * request_s * 1e9) as u64,
        operations: BTreeMap::from([(OperationClass("read".to_owned()), done)]),
        working_set_bytes: 1 << 29,
        scale_factor: 1.0,
        cpu_user_s: 0.0,
        cpu_system_s: 0.0,
        engine_output: String::new(),
        figures: BTreeMap::new(),
        remarks: Vec::new(),
    }
}

/// A surface of a stack at a depth.
pub fn surface(stack: &str, depth: u32) -> CellRecord {
    surface_of(stack, depth, &[1024, 4096, 8192, 16384])
}

/// The same with requests of these sizes.
pub fn surface_of(stack: &str, depth: u32, sizes: &[u32]) -> CellRecord {
    let workload = format!("iometer:surface:depth={depth}");
    let mut load = result(&workload, 1000, 0.01, 1.0);
    for bytes in sizes {
        for read in [0_u32, 50, 100] {
            for random in [0_u32, 25, 50, 100] {
                let rate =
                    1.0 / request_s(stack, f64::from(*bytes), f64::from(random) / 100.0, f64::from(depth));
                load.figures.insert(format!("point_{bytes}_{read}_{random}_{depth}_requests_per_s"), rate);
            }
        }
    }
    record(stack, &workload, depth, load, 0.5)
}

/// A run as if it had been made at another place, on a host with such processors.
pub fn at(on: &str, accelerator: &str, mut record: CellRecord) -> CellRecord {
    let host = MachineRecord {
        label: "host".into(),
        accelerator: accelerator.parse().unwrap(),
        ..MachineRecord::default()
    };
    record.environment = Environment { ground: on.into(), machines: vec![host], ..Environment::default() };
    record
}

/// A closed random load at a depth of 16.
pub fn load(stack: &str, block: u32) -> CellRecord {
    let workload = LOAD;
    record(stack, workload, block, result(workload, 2000, request_s(stack, 8192.0, 1.0, 16.0), 16.0), 1.0)
}

pub fn keep(sandbox: &Sandbox, records: &[CellRecord]) -> String {
    let path = sandbox.text("results.sqlite");
    let mut store = Store::open(sandbox.path("results.sqlite").as_path()).expect("a store can be made");
    for record in records {
        store.insert(record).expect("a run can be kept");
    }
    path
}

/// Guests and hosts of [`matrix`].
pub const MATRIX_SYSTEMS: [&str; 5] = ["ext2", "ext3", "ext4", "xfs", "jfs"];

/// Two thirds of the guests and hosts under `fio:seq-write`: each guest and each host has a factor of its own.
pub fn matrix() -> Vec<CellRecord> {
    let mut records = Vec::new();
    for (g, guest) in MATRIX_SYSTEMS.iter().enumerate() {
        for (h, host) in MATRIX_SYSTEMS.iter().enumerate() {
            if (g + 2 * h) % 3 == 0 {
                continue;
            }
            let stack = format!("{guest}/kvm/raw/{host}/hdd");
            let request_s = 0.004 * (1.0 + 0.1 * g as f64) * (1.0 + 0.2 * h as f64);
            let load = result("fio:seq-write", 1000, request_s, 1.0);
            records.push(record(&stack, "fio:seq-write", 0, load, 0.0));
        }
    }
    records
}

/// A run whose requests were followed through two levels.
pub fn followed() -> CellRecord {
    let at = |queued_ns, issued_ns| TimeAtLevel { queued_ns, issued_ns };
    let passed = Passed {
        requests: 2,
        without_lowest: 0,
        whole_ns: 14_000_000,
        levels: vec![at(1_000_000, 2_000_000), at(1_000_000, 10_000_000)],
    };
    let level = |layer: &str, kind: &str, machine: &str| Level {
        layer: layer.to_owned(),
        kind: kind.into(),
        machine: machine.into(),
        requests: 2,
        misaligned: 0,
    };
    let spent = |busy_ns| Spent { requests: 1, busy_ns, ..Spent::default() };
    let mut followed = load("ext4/hdd", 1);
    followed.trace = TraceMode::Full;
    let Outcome::Measured(measured) = &mut followed.outcome else { panic!("it is made up as measured") };
    measured.correlation = Some(Correlation {
        levels: vec![level("ext4", "host block", "host"), level("hdd", "medium", "ground")],
        blame: Blame {
            busy_ns: 10_000_000,
            causes: [
                (Cause(vec![Some(Class::Journal)]), spent(4_000_000)),
                (Cause(vec![Some(Class::FileData)]), spent(6_000_000)),
            ]
            .into(),
            ..Blame::default()
        },
        passage: Passage { level: LevelIndex::TOP, operations: [(Operation::Write, passed)].into() },
        ..Correlation::default()
    });
    followed
}
