//! The built-in study of nested file systems: its claims and figures on a made-up store that has every cell once.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use nestor_layout::Class;

use nestor_trace::metrics::ArmWork;
use nestor_trace::{ClassMetrics, DirectionMetrics, LayerMetrics, SeekMetrics, TracePoint};

use super::fixture::*;
use crate::claims::{ClaimResult, FigureX};
use crate::record::{CellRecord, Measured, Outcome};
use crate::{CellKey, CellSample, Decisions, Study, WrittenWorkload};

mod identity;
mod known_answers;

const FILE: &str = include_str!("../../../../../studies/nested-fs.toml");
/// What a made-up run without tracing takes of the host's processor.
const UNTRACED_CPU: f64 = 0.3;

/// A few requests, so that a few hundred records are made quickly.
fn metrics(trace_point: TracePoint, factor: u64) -> LayerMetrics {
    let direction = DirectionMetrics {
        queued: 12,
        queued_bytes: 12 * 8192 * factor,
        issued: 10,
        issued_bytes: 12 * 8192 * factor,
        completed: 10,
        completed_bytes: 12 * 8192 * factor,
        back_merges: 2,
        ..DirectionMetrics::default()
    };
    let times = Some(latency(10, 1_000_000 * factor).compacted());
    LayerMetrics {
        read: direction.clone(),
        write: direction,
        i2d: times.clone(),
        d2c: times,
        size_histogram: BTreeMap::from([(8192, 9), (65536, factor)]),
        d2d_seeks: Some(SeekMetrics {
            count: 10,
            mean_sectors: 100.0 * factor as f64,
            cdf_sectors: (0..=50).collect(),
            span_sectors: 1000,
            ..SeekMetrics::default()
        }),
        classes: BTreeMap::from([(
            Class::Journal,
            ClassMetrics { requests: 1, write_bytes: 4096 * factor, ..ClassMetrics::default() },
        )]),
        arms: Some(ArmWork { seek_ns: 1_000_000 * factor, ..ArmWork::default() }),
        identity: nestor_trace::Identity { checked: 10, violations: 0 },
        ..LayerMetrics::new(trace_point)
    }
}

fn place(file_system: &str) -> u64 {
    let order = ["ext2", "ext3", "ext4", "reiserfs", "xfs"];
    order.iter().position(|name| *name == file_system).unwrap_or(order.len()) as u64
}

/// The guest's and the host's file system of a stack.
fn file_systems(stack: &str) -> (&str, Option<&str>) {
    let layers: Vec<&str> = stack.split('/').map(|l| l.split(':').next().unwrap_or(l)).collect();
    (layers[0], (layers.len() == 5).then(|| layers[3]))
}

/// What the layers of a stack with this host say; the same for every guest and load.
fn measured_on(host: Option<&str>) -> Measured {
    let rank = host.map_or(0, |host| 1 + place(host));
    let mut measured = measured(40 * 4096);
    for result in measured.load.operations.values_mut() {
        result.latency = latency(result.operations, 1_000_000 * (10 + rank)).compacted();
    }
    measured.layers = vec![
        layer("application", "", "guest", None),
        // Fewer distributions than a real run has: they are what takes time to store.
        layer(
            "guest",
            "guest fs",
            "guest",
            Some(LayerMetrics { d2c: None, ..metrics(TracePoint::Blktrace, 1) }),
        ),
        layer("host", "host fs", "host", Some(metrics(TracePoint::Blktrace, 1 + rank))),
        layer(
            "hdd",
            "disk",
            "host",
            Some(LayerMetrics { i2d: None, d2c: None, ..metrics(TracePoint::DiskLog, 1 + rank) }),
        ),
    ];
    measured
}

/// Slower by host, a little different by guest and block.
fn cell(model: &CellRecord, stack: &str, workload: &str, block: u32) -> CellRecord {
    let mut record = CellRecord { stack: stack.into(), workload: workload.into(), block, ..model.clone() };
    let guest = place(file_systems(stack).0);
    let Outcome::Measured(measured) = &mut record.outcome else { return record };
    let host = file_systems(stack).1.map_or(0, |host| place(host) + 1);
    let slower =
        host * if workload.contains("seq-write") { 4 } else { 1 + u64::from(workload.contains("write")) };
    for result in measured.load.operations.values_mut() {
        result.bytes = (40 + guest + u64::from(block) - slower) * 4096;
    }
    record
}

fn of_scale(scale: &str) -> Study {
    Study::parse("studies/nested-fs.toml", FILE, Some(scale)).unwrap()
}

/// The claims and figures of a size of the study after all its cells were run, without the stacks that are `left_out`; in as many blocks as
/// the study has of each cell, within these bounds.
fn judged(
    scale: &str,
    blocks: RangeInclusive<u32>,
    left_out: &dyn Fn(&str) -> bool,
) -> (Vec<ClaimResult>, Vec<crate::Figure>) {
    let mut models: BTreeMap<Option<String>, CellRecord> = BTreeMap::new();
    judged_with(scale, blocks, left_out, &mut |stack, workload, block| {
        let host = file_systems(stack).1;
        let model = models.entry(host.map(str::to_owned)).or_insert_with(|| CellRecord {
            outcome: Outcome::Measured(measured_on(host)),
            ..record(stack, 0, 4096)
        });
        cell(model, stack, workload, block)
    })
}

/// The same, each cell with what `cell` says of it by stack, workload and block.
fn judged_with(
    scale: &str,
    blocks: RangeInclusive<u32>,
    left_out: &dyn Fn(&str) -> bool,
    cell: &mut dyn FnMut(&str, &str, u32) -> CellRecord,
) -> (Vec<ClaimResult>, Vec<crate::Figure>) {
    let mut study = of_scale(scale);
    study.stacks.retain(|stack| !left_out(stack));
    super::judged::judged(study, |_, stack, workload, rule| {
        let mut records = Vec::new();
        for block in 0..rule.replications.clamp(*blocks.start(), *blocks.end()) {
            let traced = cell(stack, workload, block);
            records.push(traced.clone());
            if rule.untraced_twin {
                records.push(untraced(traced));
            }
        }
        records
    })
}

/// The repeat of a run without tracing.
fn untraced(traced: CellRecord) -> CellRecord {
    let mut twin = CellRecord { untraced_twin: true, ..traced };
    if let Outcome::Measured(measured) = &mut twin.outcome {
        measured.host_cpu_busy = UNTRACED_CPU;
    }
    twin
}

fn untested(results: &[ClaimResult]) -> Vec<&str> {
    results.iter().filter(|r| !r.verdict.is_tested()).map(|r| r.claim.id.as_str()).collect()
}

#[test]
fn the_whole_matrix_tests_nearly_all_claims() {
    let (results, figures) = judged("small", 3..=3, &|stack| stack.starts_with("xfs/"));
    let ids: Vec<String> = results.iter().map(|r| r.claim.id.clone()).collect();
    assert_eq!(ids, (1..=51).map(|n| format!("L-{n}")).collect::<Vec<_>>());
    for result in &results {
        assert!(!result.reason.contains(" is wrong"), "{}: {}", result.claim.id, result.reason);
    }
    // A guest left out, constants of manuals.
    assert_eq!(untested(&results), ["L-9", "L-41"]);
    for (id, parts) in [
        ("L-33", ["served on JFS: ", "queued on the raw disk: "]),
        (
            "L-36",
            [
                "Ext3 guest: ReiserFS beside the raw disk, less if it loses: ",
                "JFS guest: the raw disk beside ReiserFS, less if the guest gains: ",
            ],
        ),
        ("L-38", ["merging: ", "waiting: "]),
        ("L-40", ["service: ", "served requests: "]),
        ("L-47", ["noatime: ", "block size: "]),
    ] {
        let reason = &results.iter().find(|r| r.claim.id == id).unwrap().reason;
        assert!(parts.iter().all(|part| reason.contains(part)), "{id}: {reason}");
    }
    let problems: BTreeSet<String> =
        figures.iter().filter_map(|f| f.problem.as_ref().map(|p| format!("{}: {p}", f.query.id))).collect();
    assert_eq!(problems, BTreeSet::new());
}

/// An extreme that is chosen and judged on the same block, and the variation of single runs, are noise.
#[test]
fn one_block_of_each_combination_is_too_little_for_extremes_and_variation() {
    let (results, _) = judged("small", 1..=2, &|stack| stack.starts_with("xfs/"));
    let untested = untested(&results);
    for id in ["L-18", "L-19", "L-23", "L-25", "L-28", "L-30", "L-48"] {
        assert!(untested.contains(&id), "{id}: {untested:?}");
    }
}

#[test]
fn minutes_are_enough_for_twenty_claims() {
    let (results, _) = judged("quick", 1..=2, &|_| false);
    let tested = results.len() - untested(&results).len();
    assert!(tested >= 20, "only {tested}; not {:?}", untested(&results));
}

#[test]
fn at_the_published_regimes_most_empirical_claims_have_an_interval() {
    let (results, _) = judged("faithful", 1..=3, &|_| false);
    let measured = results.iter().filter(|r| r.claim.kind.is_measured());
    let with_interval = measured.filter(|r| r.verdict.is_tested()).count();
    assert!(with_interval >= 24, "only {with_interval}; not {:?}", untested(&results));
    // In three blocks of everything: a row that rests on single cells of `faithful` would need an interval from one pair.
    for id in ["L-28", "L-30", "L-43", "L-45", "L-46", "L-50", "L-51"] {
        let result = results.iter().find(|r| r.claim.id == id).unwrap();
        let undecidable = result.parts.iter().find(|part| part.effect.is_some_and(|e| e.interval.is_none()));
        assert_eq!(undecidable.map(|part| &part.name), None, "{id}");
    }
    let faithful = of_scale("faithful");
    let factor = |w: &WrittenWorkload| w.value().map(|workload| workload.data_set().scale_factor);
    assert!(faithful.workloads.iter().all(|w| factor(w) == Some(0.1)), "one factor for all");
    assert_eq!(faithful.sentinels, Some(false), "in virtual time nothing drifts");
    let cells = faithful.all_cells(false, &Decisions::default()).len();
    // 278 took two hours on two processors that had other work too.
    assert!(cells <= 500, "{cells} cells take more than four hours");
}

#[test]
fn the_published_sizes_test_what_the_small_ones_do() {
    let (results, figures) = judged("paper", 3..=3, &|stack| stack.starts_with("xfs/"));
    // As at the small size with as many blocks; the guest has the published memory.
    assert_eq!(untested(&results), ["L-9", "L-41"]);
    let reason = |id: &str| &results.iter().find(|r| r.claim.id == id).unwrap().reason;
    assert!(!reason("L-4").contains("memory"), "{}", reason("L-4"));
    assert!(reason("L-7").contains("without a guest"), "{}", reason("L-7"));
    let raw_speed: Vec<String> = places(&figures, "table-2").into_iter().map(|(_, x, _)| x).collect();
    assert_eq!(
        raw_speed,
        ["ext2", "ext3", "ext4", "jfs", "reiserfs", "xfs", "raw disk", "bare disk, no guest"]
    );
    let paper = of_scale("paper");
    assert_eq!(paper.most_blocks(), 3);
    assert!(paper.parts.iter().all(|part| part.replications == 3));
}

/// Panel, place and value of each row of a figure.
fn places(figures: &[crate::Figure], id: &str) -> Vec<(String, String, f64)> {
    let figure = figures.iter().find(|f| f.query.id == id).unwrap();
    let x = |x: &FigureX| match x {
        FigureX::Text(text) => text.clone(),
        FigureX::Number(number) => number.to_string(),
    };
    figure.rows.iter().map(|row| (row.panel.clone(), x(&row.x), row.y)).collect()
}

/// Hosts that the paper did not have would make the ext4 guest depend on eight hosts, and the others on six.
#[test]
fn hosts_of_today_are_in_no_figure_of_all_hosts() {
    let of_today = |stack: &str| stack.contains("/btrfs/") || stack.contains("/f2fs/");
    assert_eq!(of_scale("small").stacks.iter().filter(|stack| of_today(stack)).count(), 2);
    let not_ext4 = |stack: &str| !stack.starts_with("ext4/");
    let (_, with) = judged("small", 1..=2, &not_ext4);
    let (_, without) = judged("small", 1..=2, &|stack| not_ext4(stack) || of_today(stack));
    for id in ["fig-4", "table-2"] {
        assert_eq!(places(&with, id), places(&without, id), "{id}");
        assert!(!places(&with, id).is_empty(), "{id}");
    }
}

#[test]
fn a_stopping_rule_ends_what_is_asked_for_beyond_the_blocks_of_a_scale() {
    // What was measured under these names can be gone on with.
    assert_eq!(of_scale("small").hash(&"emulated".into()), "5d423a2c5e51a02d");
    assert_eq!(of_scale("quick").hash(&"emulated".into()), "47ab79c0aaa1f6fd");
    for scale in ["quick", "small"] {
        let study = of_scale(scale);
        assert_eq!(study.stop.as_ref().unwrap().looks, [3, 4, 6, 8, 12]);
        let without = Study { stop: None, ..study.clone() };
        // Three blocks are the first look: until then nothing ends, however clear it is.
        let all = without.all_cells(true, &Decisions::default());
        let sample = |key: CellKey| CellSample {
            in_virtual_time: false,
            stack: key.stack,
            workload: key.workload,
            block: key.block,
            repeat: key.repeat,
            throughput: 100.0,
            cell_s: 10.0,
        };
        let seen: Vec<CellSample> = all.iter().cloned().map(sample).collect();
        for block in 0..3 {
            let of_block: Vec<CellKey> = all.iter().filter(|key| key.block == block).cloned().collect();
            let decisions = Decisions::of(&study, &seen, Some(block));
            assert_eq!(study.block_cells(block, true, &decisions), of_block, "{scale}, block {block}");
        }
        assert!(study.parts.iter().all(|part| [1, 3].contains(&part.replications)), "{scale}");
    }
}
