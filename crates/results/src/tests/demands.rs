//! What an operation asks of each layer, read back from the columns.

use nestor_processor::InstructionCounts;
use nestor_trace::metrics::ServiceTime;
use nestor_trace::{LayerMetrics, TracePoint};
use tempfile::TempDir;

use super::fixture::{MIB, layer, record, writes};
use crate::path_length::{Executor, PathLength};
use crate::record::{CellRecord, Outcome};
use crate::{KnownDemand, Store};

/// Writes of 4 KiB for ten seconds, of which the disk served each in 7 us and, for each second one, a flush in 8 ms.
fn traced(block: u32, bytes: u64) -> CellRecord {
    let mut run = record("ext3/kvm/hdd", block, bytes);
    let Outcome::Measured(measured) = &mut run.outcome else { unreachable!("it was measured") };
    let requests = bytes / 4096;
    let flushes = requests / 2;
    let service =
        ServiceTime { seek_ns: flushes * 8_000_000, overhead_ns: requests * 7_000, ..ServiceTime::default() };
    let disk =
        LayerMetrics { trace_point: TracePoint::DiskLog, flushes, service: Some(service), ..writes(bytes) };
    let guest = LayerMetrics { flushes: flushes / 2, ..writes(bytes) };
    measured.layers = vec![
        layer("application", "", "guest", None),
        layer("ext3", "guest fs", "guest", Some(guest)),
        layer("kvm", "virtual machine", "host", Some(writes(2 * bytes))),
        layer("hdd", "disk", "host", Some(disk)),
    ];
    let counts = InstructionCounts {
        host_user: 100 * requests,
        host_kernel: 200 * requests,
        guest_user: 300 * requests,
        guest_kernel: 400 * requests,
    };
    measured.path_length = Some(PathLength::of(counts, true, measured.load.elapsed_ns, requests));
    run
}

fn known(records: &[CellRecord]) -> Vec<KnownDemand> {
    let folder = TempDir::new().unwrap();
    let mut store = Store::open(&folder.path().join("r.sqlite")).unwrap();
    records.iter().for_each(|record| {
        store.insert(record).unwrap();
    });
    store.known("emulated").unwrap().demands.into_values().collect()
}

#[test]
fn a_demand_is_of_the_uppermost_block_layer_and_of_the_disk() {
    let [demand] = &known(&[traced(0, 10 * MIB), traced(1, 20 * MIB)])[..] else { panic!("one cell") };
    let near = |found: f64, expected: f64| (found / expected - 1.0).abs() < 0.01;
    assert!(near(demand.instructions[&Executor::GuestKernel], 400.0), "{demand:?}");
    assert!(near(demand.instructions[&Executor::Hypervisor], 100.0), "{demand:?}");
    assert!(near(demand.top_requests, 1.0) && near(demand.top_writes, 1.0), "{demand:?}");
    assert!(near(demand.top_flushes, 0.25) && near(demand.disk_flushes, 0.5), "{demand:?}");
    assert!(near(demand.data_s, 7e-6) && near(demand.flush_s, 4e-3), "{demand:?}");
}

#[test]
fn a_run_of_which_not_all_was_recorded_has_no_demand() {
    let without_instructions = {
        let mut run = traced(0, 10 * MIB);
        let Outcome::Measured(measured) = &mut run.outcome else { unreachable!("it was measured") };
        measured.path_length = None;
        run
    };
    assert_eq!(known(&[without_instructions, record("ext3/kvm/hdd", 1, MIB)]), []);
}
