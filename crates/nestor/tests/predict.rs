//! `nestor predict` as a user meets it, on stores of made-up runs.

mod support;

use std::collections::BTreeMap;

use nestor_load::{LoadResult, OperationClass, OperationResult};
use nestor_model::LatencyHistogram;
use nestor_study::{CellRecord, Environment, LayerRecord, Measured, Outcome, Store, TraceMode};
use nestor_trace::LayerMetrics;
use nestor_trace::metrics::TracePoint;
use serde_json::Value;
use support::Sandbox;

const NATIVE: &str = "ext4/hdd";
const GUEST: &str = "ext4/kvm/hdd";
const LOAD: &str = "fio:rand-read:depth=16";

/// Seconds of a request: a disk that seeks, and a virtual machine that adds 0.3 ms to each.
fn request_s(stack: &str, bytes: f64, random: f64, depth: f64) -> f64 {
    let shorter = 0.85_f64.powf(depth.min(32.0).log2());
    let disk = (1.0 - random) * bytes / 60e6 + random * (8e-3 * shorter + bytes / 60e6);
    disk + if stack.contains("kvm") { 3e-4 } else { 0.0 }
}

fn record(stack: &str, workload: &str, block: u32, load: LoadResult, random: f64) -> CellRecord {
    let operations: u64 = load.operations.values().map(|done| done.operations).sum();
    let mut metrics = LayerMetrics::new(TracePoint::Blktrace);
    (metrics.read.issued, metrics.read.issued_bytes) = (operations, operations * 8192);
    metrics.sequential_share = Some(1.0 - random);
    let layer = |layer: &str, metrics| LayerRecord {
        layer: layer.to_owned(),
        role: String::new(),
        machine: "guest".to_owned(),
        metrics,
    };
    CellRecord {
        stack: stack.to_owned(),
        workload: workload.to_owned(),
        study: None,
        study_hash: None,
        block,
        repeat: 0,
        position: block,
        trace: TraceMode::Layers,
        untraced_twin: false,
        started_at: format!("2026-01-01T00:{block:02}:00Z"),
        cell_s: 60.0,
        outcome: Outcome::Measured(Measured {
            load,
            layers: vec![layer("application", None), layer("ext4", Some(metrics))],
            host_cpu_busy: 0.1,
            cpu_busy: Vec::new(),
            images: Vec::new(),
            correlation: None,
            trace_remarks: Vec::new(),
        }),
        marks: Vec::new(),
        environment: Environment { ground: "emulated".to_owned(), ..Environment::default() },
    }
}

fn result(workload: &str, operations: u64, request_s: f64, depth: f64) -> LoadResult {
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
fn surface(stack: &str, depth: u32) -> CellRecord {
    let workload = format!("iometer:surface:depth={depth}");
    let mut load = result(&workload, 1000, 0.01, 1.0);
    for bytes in [1024_u32, 4096, 8192, 16384] {
        for read in [0_u32, 50, 100] {
            for random in [0_u32, 25, 50, 100] {
                let rate =
                    1.0 / request_s(stack, f64::from(bytes), f64::from(random) / 100.0, f64::from(depth));
                load.figures.insert(format!("point_{bytes}_{read}_{random}_{depth}_requests_per_s"), rate);
            }
        }
    }
    record(stack, &workload, depth, load, 0.5)
}

/// A closed random load at a depth of 16.
fn load(stack: &str, block: u32) -> CellRecord {
    let workload = LOAD;
    record(stack, workload, block, result(workload, 2000, request_s(stack, 8192.0, 1.0, 16.0), 16.0), 1.0)
}

fn keep(sandbox: &Sandbox, records: &[CellRecord]) -> String {
    let path = sandbox.text("results.sqlite");
    let mut store = Store::open(sandbox.path("results.sqlite").as_path()).expect("a store can be made");
    for record in records {
        store.insert(record).expect("a run can be kept");
    }
    path
}

fn surfaces() -> Vec<CellRecord> {
    [NATIVE, GUEST].iter().flat_map(|stack| [1, 8, 64].map(|depth| surface(stack, depth))).collect()
}

#[test]
fn surfaces_and_a_native_run_are_enough_for_a_number() {
    let sandbox = Sandbox::new();
    let mut records = surfaces();
    records.extend((0..3).map(|block| load(NATIVE, block)));
    let store = keep(&sandbox, &records);
    let arguments = ["predict", "--workload", LOAD, "--from", NATIVE, "--to", GUEST, "--store", &store];
    let output = sandbox.nestor([&arguments[..], &["--json"]].concat()).output().unwrap();
    let answers: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let answer = &answers[0]["answer"];
    let truth = 8192.0 / request_s(GUEST, 8192.0, 1.0, 16.0);
    let by = |name: &str| {
        let method =
            answer["methods"].as_array().unwrap().iter().find(|m| m["method"] == name).unwrap().clone();
        method["predicted"]["rate"].as_f64()
    };
    for method in ["ratio", "queueing", "per-request"] {
        let rate = by(method).unwrap_or_else(|| panic!("{method} has no number: {answer}"));
        assert!((rate / truth - 1.0).abs() < 0.2, "{method}: {rate} for {truth}");
    }
    assert_eq!(by("transaction"), None);
    // Nothing is known of errors yet, so the interval is wide or there is none; it holds the truth in any case.
    let (low, high) =
        (answer["interval"]["low"].as_f64().unwrap(), answer["interval"]["high"].as_f64().unwrap());
    assert!(low < truth && truth < high, "{answer}");
    let text = String::from_utf8(sandbox.nestor(arguments).output().unwrap().stdout).unwrap();
    for part in
        ["90 % interval", "  by ", "ratio ", "  for scale  N0 as on the reference", "transaction lacks"]
    {
        assert!(text.contains(part) || text.contains("I don't know"), "{part} in {text}");
    }
}

#[test]
fn what_is_missing_is_said_with_the_command_that_supplies_it() {
    let sandbox = Sandbox::new();
    let store = keep(&sandbox, &[load(NATIVE, 0)]);
    let predict = |arguments: &[&str]| {
        let output =
            sandbox.nestor([&["predict", "--store", &store][..], arguments].concat()).output().unwrap();
        assert!(!output.status.success());
        String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap()
    };
    // A store with one run, a target that was never calibrated.
    let text = predict(&["--workload", LOAD, "--to", GUEST]);
    assert!(text.contains("I don't know: no method has what it needs"), "{text}");
    assert!(text.contains("nestor run 'ext4/hdd' iometer:surface"), "{text}");
    // A load that was measured nowhere.
    let text = predict(&["--workload", "fio:seq-read", "--to", GUEST]);
    assert!(text.contains("was measured nowhere yet") && text.contains("nestor characterize"), "{text}");
    // Only on the target itself.
    let text = predict(&["--workload", LOAD, "--to", NATIVE]);
    assert!(text.contains("on no other stack than ext4/hdd"), "{text}");
    let text = predict(&["--workload", LOAD, "--to", "ext4/kvm/jfs/hdd"]);
    assert!(text.contains("put an image between them"), "{text}");
    let text = predict(&["--workload", LOAD, "--matrix"]);
    assert!(text.contains("no guest was measured"), "{text}");
    let text = predict(&["--validate"]);
    assert!(text.contains("too few"), "{text}");
}

#[test]
fn a_matrix_is_completed_and_the_next_cells_are_named() {
    let sandbox = Sandbox::new();
    let mut records = Vec::new();
    let systems = ["ext2", "ext3", "ext4", "xfs", "jfs"];
    for (g, guest) in systems.iter().enumerate() {
        for (h, host) in systems.iter().enumerate() {
            if (g + 2 * h) % 3 == 0 {
                continue;
            }
            let stack = format!("{guest}/kvm/raw/{host}/hdd");
            let request_s = 0.004 * (1.0 + 0.1 * g as f64) * (1.0 + 0.2 * h as f64);
            records.push(record(
                &stack,
                "fio:seq-write",
                0,
                result("fio:seq-write", 1000, request_s, 1.0),
                0.0,
            ));
        }
    }
    let store = keep(&sandbox, &records);
    let arguments =
        ["predict", "--workload", "fio:seq-write", "--matrix", "--suggest", "2", "--store", &store];
    let output = sandbox.nestor([&arguments[..], &["--json"]].concat()).output().unwrap();
    let matrix: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let cells = matrix["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 25);
    for cell in cells.iter().filter(|cell| !cell["interval"].is_null()) {
        let place = |key: &str| systems.iter().position(|name| cell[key] == *name).unwrap() as f64;
        let truth = 8192.0 / (0.004 * (1.0 + 0.1 * place("row")) * (1.0 + 0.2 * place("column")));
        assert!((cell["rate"].as_f64().unwrap() / truth - 1.0).abs() < 0.05, "{cell} {truth}");
    }
    let suggested = matrix["suggested"].as_array().unwrap();
    assert_eq!(suggested.len(), 2);
    assert!(suggested[0]["command"].as_str().unwrap().starts_with("nestor run 'ext"), "{suggested:?}");
    let text = String::from_utf8(sandbox.nestor(arguments).output().unwrap().stdout).unwrap();
    assert!(text.contains("most worth measuring next"), "{text}");
}
