//! A store of made-up runs: what a laboratory would have left, without one.

// Each test file uses its own part of this.
#![allow(dead_code)]

use std::collections::BTreeMap;
use std::path::Path;

use nestor_results::{
    CellRecord, DiskUse, Environment, InstanceLife, LayerRecord, LifeState, Measured, NetworkRecord, Outcome,
    StateRecord, Store, Study, StudyRecord, TraceMode,
};
use nestor_stack::Stack;
use nestor_stack::layers::hypervisors::CacheMode;
use nestor_stack::layers::network::Export;
use nestor_trace::LayerMetrics;
use nestor_trace::metrics::TracePoint;
use nestor_workload::{LoadResult, OperationClass, OperationResult};

/// Operations of each run, and flushes of its guest.
const WRITES: u64 = 512;
const FLUSHES: u64 = 64;
const BLOCK_BYTES: u64 = 8 << 10;

/// Runs of one workload.
pub struct MadeUp {
    workload: String,
    records: Vec<CellRecord>,
    studies: Vec<StudyRecord>,
}

impl MadeUp {
    /// None yet.
    pub fn new(workload: &str) -> Self {
        Self { workload: workload.to_owned(), records: Vec::new(), studies: Vec::new() }
    }

    /// A run of a study with a rate in operations per second, whose flushes went as the stack's cache mode promises.
    pub fn run(&mut self, study: &str, block: u32, stack: &str, rate: f64) {
        let operations =
            OperationResult { operations: WRITES, bytes: WRITES * BLOCK_BYTES, ..OperationResult::default() };
        let load = LoadResult {
            engine: "made up".to_owned(),
            workload: self.workload.clone(),
            elapsed_ns: (WRITES as f64 / rate * 1e9) as u64,
            operations: BTreeMap::from([(OperationClass("write".to_owned()), operations)]),
            working_set_bytes: WRITES * BLOCK_BYTES,
            scale_factor: 1.0,
            cpu_user_s: 0.0,
            cpu_system_s: 0.0,
            engine_output: String::new(),
            figures: BTreeMap::new(),
            remarks: Vec::new(),
        };
        let measured = Measured {
            load,
            layers: layers(stack),
            host_cpu_busy: 0.1,
            networks: networks(stack),
            ..Measured::default()
        };
        self.records.push(CellRecord {
            stack: stack.into(),
            workload: self.workload.clone().into(),
            study: Some(study.to_owned()),
            study_hash: Some(hash(study)),
            block,
            repeat: 0,
            position: self.records.len() as u32,
            trace: TraceMode::Layers,
            untraced_twin: false,
            started_at: format!("2026-01-01T00:{:02}:00Z", self.records.len()),
            cell_s: 60.0,
            load_s: None,
            outcome: Outcome::Measured(measured),
            marks: Vec::new(),
            environment: Environment { ground: "emulated".into(), ..Environment::default() },
        });
    }

    /// Gives the last run's operations this latency.
    pub fn with_latency(&mut self, latency_ns: u64) {
        if let Some(Outcome::Measured(measured)) = self.records.last_mut().map(|record| &mut record.outcome) {
            let operations = measured.load.operations.values_mut();
            operations.for_each(|class| class.latency.record_many_ns(latency_ns, class.operations));
        }
    }

    /// The same, with a rate of the host's memory: nothing that was written reached the disk.
    pub fn run_from_memory(&mut self, study: &str, block: u32, stack: &str, rate: f64) {
        self.run(study, block, stack, rate);
        if let Some(Outcome::Measured(measured)) = self.records.last_mut().map(|record| &mut record.outcome)
            && let Some(disk) = measured.layers.last_mut().and_then(|layer| layer.metrics.as_mut())
        {
            (disk.write.issued, disk.write.issued_bytes) = (0, 0);
        }
    }

    /// A run whose instance waited so long for its image, during most of which the disk of the repository was busy, and then lived so long.
    pub fn life(&mut self, stack: &str, workload: &str, image_bytes: u64, transfer_s: f64, rest_s: f64) {
        let parsed: nestor_workload::Workload = workload.parse().expect("a workload");
        self.workload = workload.to_owned();
        self.run("lives", self.records.len() as u32, stack, 1.0);
        if let Some(Outcome::Measured(measured)) = self.records.last_mut().map(|record| &mut record.outcome) {
            measured.load.working_set_bytes = parsed.data_set().bytes;
            measured.lives = vec![life(image_bytes, transfer_s, rest_s)];
        }
    }

    /// Keeps that a study of these stacks was run.
    pub fn keep_study(&mut self, name: &str, stacks: &[&str]) {
        let stacks = stacks.iter().map(|stack| (*stack).into()).collect();
        self.studies.push(StudyRecord {
            hash: hash(name),
            ground: "emulated".into(),
            study: Study::new(name, "", stacks, vec![self.workload.clone().into()]),
            sentinels: false,
            ended_early: None,
            sessions: Vec::new(),
        });
    }

    /// Writes all of it to a file.
    pub fn keep(&self, path: &Path) {
        let mut store = Store::open(path).expect("a store can be made");
        for study in &self.studies {
            store.save_study(study).expect("a study can be kept");
        }
        for record in &self.records {
            store.insert(record).expect("a run can be kept");
        }
        store.sum_up_outdated().expect("studies can be summed up");
    }
}

fn hash(study: &str) -> String {
    format!("{:0>16}", study.len())
}

/// The share of a made-up transfer in which the disk of the repository is busy.
pub const REPOSITORY_DISK_SHARE: f64 = 0.8;

fn life(image_bytes: u64, transfer_s: f64, rest_s: f64) -> InstanceLife {
    let ns = |seconds: f64| (seconds * 1e9) as u64;
    let state = |state: LifeState, begin_ns: u64, end_ns: u64, disk_share: f64| StateRecord {
        link_busy: 0.5,
        disks: vec![DiskUse {
            machine: "repository".into(),
            read_bytes: 0,
            written_bytes: 0,
            busy_ns: (disk_share * (end_ns - begin_ns) as f64) as u64,
        }],
        ..StateRecord::uncounted(state, begin_ns, end_ns)
    };
    let (there, end) = (ns(transfer_s), ns(transfer_s + rest_s));
    let states = vec![
        state(LifeState::Transfer, 0, there, REPOSITORY_DISK_SHARE),
        state(LifeState::Running, there, end, 0.0),
    ];
    InstanceLife { image_bytes, node: 0, states, first_process_ns: None, hello_ns: 0, managed: None }
}

/// Flushes that leave the guest, or that a client asks its server for, and those at the disk, as the stack promises.
fn flushes(stack: &Stack) -> (u64, u64) {
    let export = stack.layers().iter().find_map(|layer| layer.network_file_system()).map(|nfs| nfs.export);
    match (export, nestor_advise::cache_mode(&stack.clone().into())) {
        (Some(Export::Async), _) | (None, Some(CacheMode::Unsafe)) => (FLUSHES, 0),
        (None, Some(CacheMode::Writethrough | CacheMode::Directsync)) => (0, WRITES + 8),
        _ => (FLUSHES, FLUSHES + 2),
    }
}

/// What a client that mounts the server itself has called.
fn networks(stack: &str) -> Vec<NetworkRecord> {
    let stack = Stack::parse(stack).expect("a stack");
    if !stack.is_beside() {
        return Vec::new();
    }
    let calls = serde_json::json!({ "COMMIT": { "calls": flushes(&stack).0 }, "WRITE": { "calls": WRITES } });
    let client = serde_json::from_value(calls).expect("counts of calls");
    vec![NetworkRecord { client, ..NetworkRecord::default() }]
}

/// The application, the device of its guest if it has one, and the disk.
fn layers(stack: &str) -> Vec<LayerRecord> {
    let stack = Stack::parse(stack).expect("a stack");
    let (sent, arrived) = flushes(&stack);
    let metrics = |point: TracePoint, flushes: u64| {
        let mut metrics = LayerMetrics::new(point);
        (metrics.flushes, metrics.flushes_queued) = (flushes, FLUSHES);
        (metrics.write.issued, metrics.write.issued_bytes) = (WRITES, WRITES * BLOCK_BYTES);
        metrics
    };
    let layer = |layer: &str, role: &str, machine: &str, metrics: Option<LayerMetrics>| {
        LayerRecord::new(layer, role, machine, metrics)
    };
    let device = (!stack.is_beside()).then(|| metrics(TracePoint::Blktrace, sent));
    vec![
        layer("application", "", "guest", None),
        layer("ext4", "guest fs", "guest", device),
        layer("hdd", "disk", "host", Some(metrics(TracePoint::DiskLog, arrived))),
    ]
}
