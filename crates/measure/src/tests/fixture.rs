//! Made-up records.

use std::collections::BTreeMap;

use nestor_results::{CellFailure, CellRecord, Environment, FailureCause, Measured, Outcome, TraceMode};
use nestor_workload::{LoadResult, OperationClass, OperationResult};

pub const MIB: u64 = 1 << 20;

/// A record of `bytes` written in ten steady seconds, with nothing recorded of the layers.
pub fn record(stack: &str, block: u32, bytes: u64) -> CellRecord {
    let mut write = OperationResult {
        operations: bytes / 4096,
        bytes,
        bytes_by_second: vec![bytes / 10; 10],
        ..OperationResult::default()
    };
    write.latency.record_many_ns(1_000_000, write.operations);
    let measured = Measured {
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
        host_cpu_busy: 0.3,
        ..Measured::default()
    };
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
        outcome: Outcome::Measured(measured),
        marks: Vec::new(),
        environment: Environment {
            nestor: "0.1.0".to_owned(),
            ground: "emulated".into(),
            machines: Vec::new(),
            packages: BTreeMap::new(),
            settings: BTreeMap::new(),
            ..Environment::default()
        },
    }
}

pub fn failed(stack: &str, block: u32, reason: &str) -> CellRecord {
    CellRecord {
        outcome: Outcome::Failed(CellFailure::new(FailureCause::Other, reason)),
        ..record(stack, block, MIB)
    }
}
