//! A made-up study: one guest on a raw disk and on three host file systems, under four workloads.

use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::time::Duration;

use nestor_results::checks::{Expected, marks};
use nestor_results::{
    CellFailure, CellRecord, Environment, FailureCause, LayerRecord, MachineRecord, Measured, Outcome,
    StoredRun, Study, StudyRecord, TraceMode,
};
use nestor_statistics::LatencyHistogram;
use nestor_trace::metrics::{ArmWork, ServiceTime};
use nestor_trace::{DirectionMetrics, LayerMetrics, TracePoint};
use nestor_workload::{LoadResult, OperationClass, OperationResult};

use crate::StudyReport;

pub const MIB: u64 = 1 << 20;
pub const BASELINE: &str = "ext3/kvm:cache=writethrough/hdd";
pub const STACKS: [&str; 4] = [
    BASELINE,
    "ext3/kvm:cache=writethrough/raw/ext2/hdd",
    "ext3/kvm:cache=writethrough/raw/jfs/hdd",
    "ext3/kvm:cache=writethrough/raw/xfs/hdd",
];
pub const WORKLOADS: [&str; 4] = [
    "fio:seq-read:scale=0.0125",
    "fio:seq-write:scale=0.0125",
    "fio:rand-read:scale=0.0125",
    "fio:rand-write:scale=0.0125",
];
/// Throughput over the baseline's, by stack and workload.
const RATIOS: [[f64; 4]; 4] =
    [[1.0; 4], [0.97, 0.83, 1.02, 0.99], [0.66, 0.85, 0.91, 0.95], [1.21, 0.71, 1.11, 0.58]];
/// The baseline's throughput in MiB/s by workload.
const BASES: [f64; 4] = [100.0, 30.0, 14.0, 5.0];

/// A histogram around a median, with a tail.
pub fn spread(count: u64, median_ns: u64) -> LatencyHistogram {
    let mut histogram = LatencyHistogram::default();
    let shares = [
        (0.3, 0.02),
        (0.5, 0.08),
        (0.8, 0.25),
        (1.0, 0.3),
        (1.3, 0.2),
        (2.0, 0.1),
        (4.0, 0.03),
        (8.0, 0.015),
        (16.0, 0.005),
    ];
    for (factor, share) in shares {
        let latency = (median_ns as f64 * factor) as u64;
        histogram.record_many_ns(latency, ((count as f64 * share) as u64).max(1));
    }
    histogram.compacted()
}

pub fn metrics(reads: bool, bytes: u64, request: u64, merged: f64, point: TracePoint) -> LayerMetrics {
    let issued = (bytes / request).max(1);
    let queued = (issued as f64 / (1.0 - merged)) as u64;
    let direction = DirectionMetrics {
        queued,
        queued_bytes: bytes,
        issued,
        issued_bytes: bytes,
        completed: issued,
        completed_bytes: bytes,
        back_merges: queued - issued,
        front_merges: 0,
    };
    let (read, write) = if reads {
        (direction, DirectionMetrics::default())
    } else {
        (DirectionMetrics::default(), direction)
    };
    let disk = point == TracePoint::DiskLog;
    LayerMetrics {
        trace_point: point,
        read,
        write,
        discard: DirectionMetrics::default(),
        flushes: if reads { 0 } else { 12 },
        fua_writes: 0,
        flushes_queued: if reads { 0 } else { 12 },
        fua_writes_queued: 0,
        q2i: (!disk).then(|| spread(queued, 3_000)),
        i2d: Some(spread(issued, if disk { 7_900_000 } else { 120_000 })),
        q2d: Some(spread(issued, if disk { 7_900_000 } else { 123_000 })),
        d2c: Some(spread(issued, if disk { 3_100_000 } else { 46_000_000 })),
        q2c: Some(spread(queued, if disk { 11_000_000 } else { 46_123_000 })),
        flush_d2c: None,
        size_histogram: BTreeMap::from([
            (4_096, issued / 10),
            (8_192, issued / 2),
            (request.max(16_384), issued / 5),
            (131_072, issued / 12),
            (524_288, issued / 30),
        ]),
        sequential_share: Some(0.72),
        service: disk.then_some(ServiceTime {
            seek_ns: 6_200_000_000,
            rotation_ns: 2_100_000_000,
            transfer_ns: 1_500_000_000,
            overhead_ns: 200_000_000,
            cache_hits: issued / 9,
        }),
        arms: disk.then_some(ArmWork {
            accesses: issued,
            destages: 0,
            seek_ns: 6_200_000_000,
            rotation_ns: 2_100_000_000,
            transfer_ns: 1_500_000_000,
        }),
        dropped_events: 0,
        span_s: 9.8,
        remarks: Vec::new(),
        ..LayerMetrics::new(point)
    }
}

pub fn layer(layer: &str, role: &str, machine: &str, metrics: Option<LayerMetrics>) -> LayerRecord {
    LayerRecord::new(layer, role, machine, metrics)
}

fn layers(stack: &str, reads: bool, bytes: u64) -> Vec<LayerRecord> {
    let mut layers = vec![
        layer("application", "", "guest", None),
        layer(
            "ext3",
            "guest fs",
            "guest",
            Some(metrics(reads, bytes + bytes / 30, 40_960, 0.949, TracePoint::Blktrace)),
        ),
        layer("kvm:cache=writethrough", "virtual machine", "host", None),
    ];
    let host_fs = stack.split('/').nth(3).filter(|_| stack.contains("/raw/"));
    let medium_bytes = if let Some(fs) = host_fs {
        layers.push(layer("raw", "raw image", "host", None));
        let bytes = bytes + bytes / 11;
        layers.push(layer(
            fs,
            "host fs",
            "host",
            Some(metrics(reads, bytes, 65_536, 0.62, TracePoint::Blktrace)),
        ));
        bytes
    } else {
        bytes + bytes / 30
    };
    layers.push(layer(
        "hdd",
        "disk",
        "host",
        Some(metrics(reads, medium_bytes, 65_536, 0.0, TracePoint::DiskLog)),
    ));
    layers
}

pub fn environment() -> Environment {
    let machine = |label: &str, accelerator: &str, memory_mib: u64| MachineRecord {
        label: label.into(),
        kernel: "6.1.0-28-amd64".to_owned(),
        cpu_model: "an invented CPU".to_owned(),
        cpus: 2,
        memory_bytes: memory_mib * MIB,
        accelerator: accelerator.parse().unwrap(),
    };
    let texts =
        |pairs: &[(&str, &str)]| pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    Environment {
        nestor: "nestor 0.1.0".to_owned(),
        ground: "emulated".into(),
        machines: vec![machine("host", "tcg", 1024), machine("guest", "kvm", 256)],
        packages: texts(&[("host fio", "3.33-3"), ("host e2fsprogs", "1.47.0-2")]),
        settings: texts(&[
            ("kvm cache", "writethrough"),
            ("caches", "emptied in every machine before measuring"),
            ("disk timing", "model's timing off while preparing, on while measuring"),
            ("working set", "64 MiB"),
        ]),
        ..Environment::default()
    }
}

pub fn measured(stack: &str, workload: &str, mib_per_s: f64) -> Measured {
    let reads = workload.contains("read");
    let bytes = (mib_per_s * 10.0) as u64 * MIB;
    let operations = bytes / 8_192;
    let result = OperationResult {
        operations,
        bytes,
        latency: spread(operations, (255e9 * 8_192.0 / (mib_per_s * MIB as f64) / 1.35) as u64),
        bytes_by_second: vec![bytes / 10; 10],
        ..OperationResult::default()
    };
    Measured {
        load: LoadResult {
            engine: "fio 3.33".to_owned(),
            workload: workload.to_owned(),
            elapsed_ns: 10_000_000_000,
            operations: BTreeMap::from([(
                OperationClass(if reads { "read" } else { "write" }.to_owned()),
                result,
            )]),
            working_set_bytes: 64 * MIB,
            scale_factor: 0.0125,
            cpu_user_s: 0.5,
            cpu_system_s: 1.5,
            engine_output: "{\"made\": \"up\"}".to_owned(),
            figures: BTreeMap::new(),
            remarks: Vec::new(),
        },
        layers: layers(stack, reads, bytes),
        host_cpu_busy: 0.41,
        cpu_busy: vec![("host".into(), 0.41), ("guest".into(), 0.22)],
        ..Measured::default()
    }
}

pub fn record(stack: &str, workload: &str, block: u32, mib_per_s: f64) -> CellRecord {
    let measured = measured(stack, workload, mib_per_s);
    let environment = environment();
    CellRecord {
        stack: stack.into(),
        workload: workload.into(),
        study: Some("made-up".to_owned()),
        study_hash: Some("0123456789abcdef".to_owned()),
        block,
        repeat: 0,
        position: block,
        trace: TraceMode::Layers,
        untraced_twin: false,
        started_at: format!("2026-01-02T03:{block:02}:05Z"),
        cell_s: 14.2,
        load_s: None,
        marks: marks(&measured, &environment, &Expected::default()),
        outcome: Outcome::Measured(measured),
        environment,
    }
}

pub fn stored(records: Vec<CellRecord>) -> Vec<StoredRun> {
    let numbered = records.into_iter().zip(1..);
    numbered.map(|(record, number)| StoredRun { number, id: format!("{number:064x}"), record }).collect()
}

pub fn borrowed(runs: &[StoredRun]) -> Vec<&StoredRun> {
    runs.iter().collect()
}

/// `blocks` runs of one cell, a little apart from each other.
pub fn runs(stack: usize, workload: usize, blocks: u32) -> Vec<CellRecord> {
    let base = BASES[workload] * RATIOS[stack][workload];
    let wobble = [1.0, 1.03, 0.98, 1.01, 0.96];
    let of_block = |block: u32| base * wobble[(block as usize + stack) % 5];
    (0..blocks).map(|block| record(STACKS[stack], WORKLOADS[workload], block, of_block(block))).collect()
}

pub fn study(replications: u32) -> StudyRecord {
    let title = "A made-up study of one nested file system";
    let study = Study {
        replications,
        budget: Some(Duration::from_secs(300)),
        trace: TraceMode::Layers,
        baselines: STACKS.map(|s| (s.into(), BASELINE.into())).into(),
        ..Study::new("made-up", title, STACKS.map(Into::into).to_vec(), WORKLOADS.map(Into::into).to_vec())
    };
    StudyRecord {
        hash: "0123456789abcdef".to_owned(),
        ground: "emulated".into(),
        study,
        sentinels: false,
        ended_early: Some("budget of 5 min ended".to_owned()),
        sessions: Vec::new(),
    }
}

/// A made-up study of the size of `esx-disk`, with its names: three storage systems, each natively and in two virtual machines.
pub fn study_of_disks() -> StudyReport {
    let mut stacks = Vec::new();
    for disk in ["hdd:st336938lw:size=3G", "raid0:raid0-14x10k:size=6G", "raid0:raid0-5x10k:size=6G"] {
        stacks.push((format!("ext3/{disk}"), 1.0));
        for (device, ratio) in [("lsi", 0.46), ("virtio-blk", 0.99)] {
            stacks.push((format!("ext3/kvm:disk={device}:memory=384M/{disk}"), ratio));
        }
    }
    let baselines = stacks.chunks(3).flat_map(|of_disk| {
        of_disk.iter().map(|(stack, _)| (stack.as_str().into(), of_disk[0].0.as_str().into()))
    });
    let names = stacks.iter().map(|(stack, _)| stack.as_str().into()).collect();
    let record_of = StudyRecord {
        study: Study {
            baselines: baselines.collect(),
            ..Study::new(
                "disks",
                "Made-up disks in virtual machines",
                names,
                WORKLOADS.map(Into::into).to_vec(),
            )
        },
        ..study(3)
    };
    let mut records = Vec::new();
    for (workload, base) in WORKLOADS.into_iter().zip(BASES) {
        for (stack, ratio) in &stacks {
            let of_block = |block: u32| base * ratio * (1.0 + f64::from(block) / 50.0);
            records.extend((0..3).map(|block| record(stack, workload, block, of_block(block))));
        }
    }
    StudyReport::of(&record_of, &stored(records))
}

/// Three blocks, of which the last lacks XFS, a failure, a cached cell and a busy one.
pub fn study_runs() -> Vec<StoredRun> {
    static RUNS: OnceLock<Vec<StoredRun>> = OnceLock::new();
    RUNS.get_or_init(make_study_runs).clone()
}

fn make_study_runs() -> Vec<StoredRun> {
    let mut records: Vec<CellRecord> = Vec::new();
    for stack in 0..4 {
        for workload in 0..4 {
            records.extend(runs(stack, workload, if stack == 3 { 2 } else { 3 }));
        }
    }
    for record in &mut records {
        let Outcome::Measured(measured) = &mut record.outcome else { continue };
        if record.stack == STACKS[2] && record.workload == WORKLOADS[0] {
            // What the host's memory held reached neither its file system's device nor the disk.
            for metrics in measured.layers.iter_mut().rev().take(2).filter_map(|l| l.metrics.as_mut()) {
                *metrics = self::metrics(true, 20 * MIB, 65_536, 0.0, metrics.trace_point);
            }
        }
        if record.stack == STACKS[1] && record.block == 1 {
            measured.cpu_busy[0].1 = 0.88;
        }
        record.marks = marks(measured, &record.environment, &Expected::default());
        if record.stack == STACKS[3] && record.workload == WORKLOADS[3] {
            record.outcome = Outcome::Failed(CellFailure::new(
                FailureCause::MachineLost,
                "the guest did not answer for 60 s\n  its console ended with: <panic>",
            ));
            record.marks.clear();
        }
    }
    stored(records)
}
