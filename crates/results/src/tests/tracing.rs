//! What tracing costs, and what traces say of bytes.

use std::collections::BTreeMap;

use nestor_correlate::{Correlation, Join, Level, Origin};
use nestor_statistics::LatencyHistogram;

use super::fixture::*;
use crate::checks::{Expected, marks};
use crate::path_length::{Executor, PathLength};
use crate::record::{CellRecord, Mark, Outcome};
use crate::{RunFilter, Store, StoredRun, TraceMode, compare, summarise, trace_costs};

fn twin(stack: &str, block: u32, bytes: u64) -> CellRecord {
    CellRecord { trace: TraceMode::None, untraced_twin: true, ..record(stack, block, bytes) }
}

#[test]
fn the_cost_is_that_of_the_pairs() {
    let records = vec![
        twin("a", 0, 100 * MIB),
        record("a", 0, 98 * MIB),
        record("a", 1, 49 * MIB),
        twin("a", 1, 50 * MIB),
        // Without its partner a run says nothing.
        twin("a", 2, 500 * MIB),
        record("b", 0, 70 * MIB),
    ];
    let runs = stored(records);
    let costs = trace_costs(&runs.iter().collect::<Vec<_>>());
    assert_eq!(costs.len(), 1);
    assert_eq!(costs[0].ratio.pairs, 2);
    assert!((costs[0].ratio.value - 0.98).abs() < 1e-9);
    insta::assert_snapshot!(costs[0].in_words(), @"tracing cost 2.0 % of the throughput (95 % interval 2.0 % to 2.0 %, 2 pairs)");
}

#[test]
fn of_a_load_that_moves_no_data_the_operations_tell_the_cost() {
    let without_bytes = |mut of: CellRecord| {
        if let Outcome::Measured(measured) = &mut of.outcome {
            measured.load.operations.values_mut().for_each(|class| class.bytes = 0);
        }
        of
    };
    let runs = stored(vec![without_bytes(twin("a", 0, 100 * MIB)), without_bytes(record("a", 0, 50 * MIB))]);
    let costs = trace_costs(&runs.iter().collect::<Vec<_>>());
    assert!((costs[0].ratio.value - 0.5).abs() < 1e-3, "{}", costs[0].ratio.value);
}

#[test]
fn in_virtual_time_the_cost_of_an_operation_is_told_in_instructions() {
    let counted = |mut of: CellRecord, instructions| {
        if let Outcome::Measured(measured) = &mut of.outcome {
            let window_ns = measured.load.elapsed_ns;
            let instructions = vec![(Executor::Application, instructions)];
            measured.path_length = Some(PathLength { instructions, window_ns, requests: 1 });
        }
        of
    };
    let operations =
        |of: &CellRecord| of.measured().unwrap().load.operations.values().map(|o| o.operations).sum::<u64>();
    let (without, with) = (twin("a", 0, 100 * MIB), record("a", 0, 80 * MIB));
    let (each, each_with) = (operations(&without) * 1000, operations(&with) * 1250);
    let runs = stored(vec![counted(without, each), counted(with, each_with)]);
    let costs = trace_costs(&runs.iter().collect::<Vec<_>>());
    assert!((costs[0].per_operation.unwrap().instructions - 250.0).abs() < 1e-6);
    insta::assert_snapshot!(costs[0].in_words(), @"tracing cost 20.0 % of the throughput (1 pair, too few for an interval); per operation 250 more instructions and 97656 more ns between completions");
}

#[test]
fn several_cells_have_a_cost_together() {
    let runs = stored(vec![
        twin("a", 0, 100 * MIB),
        record("a", 0, 90 * MIB),
        twin("b", 0, 100 * MIB),
        record("b", 0, 90 * MIB),
    ]);
    let costs = trace_costs(&runs.iter().collect::<Vec<_>>());
    let named: Vec<_> = costs.iter().map(|c| c.stack.as_deref()).collect();
    assert_eq!(named, [Some("a"), Some("b"), None]);
    insta::assert_snapshot!(costs[0].in_words(), @"tracing cost 10.0 % of the throughput (1 pair, too few for an interval)");
}

#[test]
fn untraced_repeats_are_in_no_statistic() {
    let runs = stored(vec![record("a", 0, 100 * MIB), twin("a", 0, 900 * MIB), record("b", 0, 50 * MIB)]);
    let all: Vec<&StoredRun> = runs.iter().collect();
    assert_eq!(summarise(&all[..2]).unwrap().samples.len(), 1);
    let comparison = compare(&all[..2], &all[2..]).unwrap();
    assert!((comparison.ratio.unwrap().value - 0.5).abs() < 1e-9);
    assert!(summarise(&all[1..2]).is_none());
}

#[test]
fn an_untraced_repeat_does_not_replace_its_traced_cell() {
    let place = tempfile::tempdir().unwrap();
    let mut store = Store::open(&place.path().join("r.db")).unwrap();
    store.insert(&record("a", 0, MIB)).unwrap();
    store.insert(&twin("a", 0, 2 * MIB)).unwrap();
    let filter = RunFilter { latest_only: true, ..RunFilter::default() };
    assert_eq!(store.runs(&filter).unwrap().len(), 2);
    let finished = store.finished("0123456789abcdef").unwrap();
    assert_eq!(finished.iter().filter(|key| key.untraced_twin).count(), 1);
    assert_eq!(finished.len(), 2);
}

#[test]
fn bytes_are_followed_from_layer_to_layer() {
    let mut measured = measured(100 * MIB);
    measured.layers[3].metrics = Some(writes(51 * MIB));
    let flows = measured.flows();
    assert!(flows[0].is_none() && flows[2].is_none());
    let guest = flows[1].clone().unwrap();
    assert_eq!((guest.asked_write_bytes, guest.write_beyond_bytes), (100 * MIB, MIB));
    assert_eq!((guest.write_cache_hit_ratio, guest.read_cache_hit_ratio), (Some(0.0), None));
    let disk = flows[3].clone().unwrap();
    assert_eq!(disk.asked_write_bytes, 101 * MIB);
    assert!((disk.write_cache_hit_ratio.unwrap() - 50.0 / 101.0).abs() < 1e-9);
}

#[test]
fn requests_that_could_not_be_joined_are_marked() {
    let level = |requests| Level { requests, ..level() };
    let found = |unknown: u64| {
        let join = Join { origins: BTreeMap::from([(Origin::Unknown, unknown)]), ..join() };
        let correlation = Correlation {
            levels: vec![level(100), level(1000)],
            joins: vec![join],
            ..Correlation::default()
        };
        let measured = crate::Measured { correlation: Some(correlation), ..measured(100 * MIB) };
        marks(&measured, &environment(), &Expected::default())
    };
    assert_eq!(found(10), []);
    assert_eq!(found(11), [Mark::Unmatched { share: 0.011 }]);
}

fn level() -> Level {
    serde_json::from_value(serde_json::json!({ "layer": "l", "kind": "k", "machine": "m", "requests": 0 }))
        .unwrap()
}

fn join() -> Join {
    let histogram = serde_json::to_value(LatencyHistogram::default()).unwrap();
    serde_json::from_value(serde_json::json!({
        "above": 0, "origins": {}, "origin_bytes": {}, "unmatched_above": 0, "absorbed": 0, "split": 0, "merged": 0,
        "added": histogram, "clock_offset_ns": 0, "clock_drift_ppb": 0, "clock_bound_ns": 0
    }))
    .unwrap()
}
