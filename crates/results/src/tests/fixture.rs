//! Made-up records.

use std::collections::BTreeMap;

use nestor_processor::InstructionCounts;
use nestor_statistics::LatencyHistogram;
use nestor_trace::{DirectionMetrics, LayerMetrics, TracePoint};
use nestor_workload::{LoadResult, OperationClass, OperationResult};

use crate::record::{CellRecord, LayerRecord, Measured, Outcome};
use crate::{
    CellFailure, DiskUse, Environment, FailureCause, InstanceLife, LifeState, MachineRecord, StateRecord,
    StoredRun, TraceMode,
};

pub const MIB: u64 = 1 << 20;

/// A histogram of `count` equal durations.
pub fn latency(count: u64, latency_ns: u64) -> LatencyHistogram {
    let mut histogram = LatencyHistogram::default();
    histogram.record_many_ns(latency_ns, count);
    histogram
}

/// A layer that wrote `bytes` in requests of 4 KiB.
pub fn writes(bytes: u64) -> LayerMetrics {
    let requests = bytes / 4096;
    let write = DirectionMetrics {
        queued: requests,
        queued_bytes: bytes,
        issued: requests,
        issued_bytes: bytes,
        completed: requests,
        completed_bytes: bytes,
        ..DirectionMetrics::default()
    };
    LayerMetrics {
        trace_point: TracePoint::Blktrace,
        read: DirectionMetrics::default(),
        write,
        discard: DirectionMetrics::default(),
        flushes: 0,
        fua_writes: 0,
        flushes_queued: 0,
        fua_writes_queued: 0,
        q2i: Some(latency(requests, 1_000)),
        i2d: Some(latency(requests, 2_000)),
        q2d: Some(latency(requests, 3_000)),
        d2c: Some(latency(requests, 7_000)),
        q2c: Some(latency(requests, 10_000)),
        flush_d2c: None,
        size_histogram: BTreeMap::from([(4096, requests)]),
        sequential_share: Some(0.5),
        service: None,
        dropped_events: 0,
        span_s: 10.0,
        remarks: Vec::new(),
        ..LayerMetrics::new(TracePoint::Blktrace)
    }
}

pub fn layer(layer: &str, role: &str, machine: &str, metrics: Option<LayerMetrics>) -> LayerRecord {
    LayerRecord::new(layer, role, machine, metrics)
}

/// A run of ten steady seconds that wrote `bytes` and lost none on the way.
pub fn measured(bytes: u64) -> Measured {
    let operations = bytes / 4096;
    let write = OperationResult {
        operations,
        bytes,
        latency: latency(operations, 40_000_000_000 / operations),
        bytes_by_second: vec![bytes / 10; 10],
        ..OperationResult::default()
    };
    Measured {
        load: LoadResult {
            engine: "fio 3.33".to_owned(),
            workload: "fio:seq-write".to_owned(),
            elapsed_ns: 10_000_000_000,
            operations: BTreeMap::from([(OperationClass("write".to_owned()), write)]),
            working_set_bytes: 512 * MIB,
            scale_factor: 0.1,
            cpu_user_s: 0.5,
            cpu_system_s: 1.5,
            engine_output: "{}".to_owned(),
            figures: BTreeMap::new(),
            remarks: Vec::new(),
        },
        layers: vec![
            layer("application", "", "guest", None),
            layer("ext3", "guest fs", "guest", Some(writes(bytes + MIB))),
            layer("kvm", "virtual machine", "host", None),
            layer("hdd", "disk", "host", Some(writes(bytes + 2 * MIB))),
        ],
        host_cpu_busy: 0.3,
        cpu_busy: vec![("host".into(), 0.3), ("guest".into(), 0.4)],
        ..Measured::default()
    }
}

pub fn environment() -> Environment {
    let machine = |label: &str, accelerator: &str| MachineRecord {
        label: label.into(),
        kernel: "6.1.0".to_owned(),
        cpu_model: "an invented CPU".to_owned(),
        cpus: 2,
        memory_bytes: 256 * MIB,
        accelerator: accelerator.parse().unwrap(),
    };
    Environment {
        nestor: "0.1.0".to_owned(),
        ground: "emulated".into(),
        machines: vec![machine("host", "hardware"), machine("guest", "kvm")],
        packages: BTreeMap::from([("host fio".to_owned(), "3.33-3".to_owned())]),
        settings: BTreeMap::from([("cache".to_owned(), "writethrough".to_owned())]),
        ..Environment::default()
    }
}

/// A record of `bytes` written in ten seconds.
pub fn record(stack: &str, block: u32, bytes: u64) -> CellRecord {
    CellRecord {
        stack: stack.into(),
        workload: "fio:seq-write".into(),
        study: Some("made-up".to_owned()),
        study_hash: Some("0123456789abcdef".to_owned()),
        block,
        repeat: 0,
        position: block,
        trace: TraceMode::Layers,
        untraced_twin: false,
        started_at: "2026-01-02T03:04:05Z".to_owned(),
        cell_s: 12.5,
        load_s: None,
        outcome: Outcome::Measured(measured(bytes)),
        marks: Vec::new(),
        environment: environment(),
    }
}

pub fn failed(stack: &str, block: u32, reason: &str) -> CellRecord {
    CellRecord {
        outcome: Outcome::Failed(CellFailure::new(FailureCause::Other, reason)),
        ..record(stack, block, MIB)
    }
}

pub fn stored(records: Vec<CellRecord>) -> Vec<StoredRun> {
    let numbered = records.into_iter().zip(1..);
    numbered.map(|(record, number)| StoredRun { number, id: record.content_id().unwrap(), record }).collect()
}

/// A life whose states took so long, one after the other, with a hundredth of a second of the laboratory's own in the transfer.
pub fn life(seconds: &[(LifeState, f64)]) -> InstanceLife {
    let mut begin_ns = 0;
    let disk = |machine: &str, read_bytes, written_bytes| DiskUse {
        machine: machine.into(),
        read_bytes,
        written_bytes,
        busy_ns: 500_000_000,
    };
    let states = seconds.iter().map(|(state, seconds)| {
        let is_transfer = *state == LifeState::Transfer;
        let own_ns = if is_transfer { 10_000_000 } else { 0 };
        let end_ns = begin_ns + (seconds * 1e9).round() as u64 + own_ns;
        let record = StateRecord {
            own_ns,
            from_repository_bytes: if is_transfer { 130 * MIB } else { 0 },
            to_repository_bytes: if is_transfer { MIB } else { 0 },
            link_busy: if is_transfer { 0.9 } else { 0.0 },
            processors: if is_transfer {
                vec![("repository".into(), 0.25), ("host".into(), 0.5)]
            } else {
                Vec::new()
            },
            disks: if is_transfer {
                vec![disk("host", 0, 128 * MIB), disk("repository", 127 * MIB, 4096)]
            } else {
                Vec::new()
            },
            instructions: is_transfer.then_some(InstructionCounts {
                host_user: 1_000,
                host_kernel: 2_000,
                guest_user: 300,
                guest_kernel: 40,
            }),
            ..StateRecord::uncounted(*state, begin_ns, end_ns)
        };
        begin_ns = end_ns;
        record
    });
    InstanceLife {
        image_bytes: 128 << 20,
        node: 0,
        states: states.collect(),
        first_process_ns: Some(310_000_000),
        hello_ns: 1_200_000_000,
        managed: None,
    }
}

/// A usual one, whose transfer took so long.
pub fn life_with_transfer(transfer_s: f64) -> InstanceLife {
    use LifeState::*;
    life(&[
        (Pending, 0.0),
        (Transfer, transfer_s),
        (Boot, 1.5),
        (Running, 10.0),
        (Shutdown, 0.5),
        (Cleanup, 0.02),
    ])
}

/// A run of instances in which no load ran.
pub fn lived(stack: &str, block: u32, lives: Vec<InstanceLife>) -> CellRecord {
    let mut run = CellRecord { workload: "life:cycle".into(), ..record(stack, block, MIB) };
    if let Outcome::Measured(measured) = &mut run.outcome {
        measured.load.operations.clear();
        measured.load.workload = "life:cycle".to_owned();
        measured.layers.iter_mut().for_each(|layer| layer.metrics = None);
        measured.lives = lives;
    }
    run
}
