//! The built-in study of disks in virtual machines: its claims and figures on a made-up store that has every cell.

use std::collections::{BTreeMap, BTreeSet};

use nestor_workload::{LoadResult, OperationClass, OperationResult};
use tempfile::TempDir;

use super::fixture::*;
use crate::claims::{ClaimResult, figures, judge};
use crate::record::{CellRecord, Measured, Outcome};
use crate::{Store, Study, StudyRecord, Verdict};

const FILE: &str = include_str!("../../../../studies/esx-disk.toml");
const HASH: &str = "0123456789abcdef";

/// Milliseconds of a request: arrays seek less, mixed directions disturb each other, and a virtual machine adds a tenth.
fn request_ms(stack: &str, bytes: f64, read: f64, random: f64) -> f64 {
    let (seek_ms, mb_per_s) = match () {
        () if stack.contains("raid0-14") => (1.0, 40.0),
        () if stack.contains("raid0-5") => (2.5, 90.0),
        () => (8.0, 50.0),
    };
    let mixed = 1.0 + read * (1.0 - read);
    let native =
        (1.0 - random) * bytes / mb_per_s / 1e3 * mixed + random * (seek_ms + bytes / mb_per_s / 1e3);
    if stack.contains("kvm") { native * 1.1 } else { native }
}

/// The points of a surface, as its workload's figures name them.
fn surface(stack: &str, workload: &str, block: u32) -> BTreeMap<String, f64> {
    let depth = workload.split(':').find_map(|part| part.strip_prefix("depth=")).unwrap_or("64");
    let mut figures = BTreeMap::new();
    for bytes in [1024_u32, 4096, 8192, 16384] {
        if bytes == 1024 && workload.contains("smallest=4k") {
            continue;
        }
        // As many as the workload says, or nearly.
        let shares: &[u32] = if workload.contains("points=") { &[0, 50, 100] } else { &[0, 25, 50, 75, 100] };
        for &read in shares {
            for &random in shares {
                let share = |percent: u32| f64::from(percent) / 100.0;
                // Blocks differ by a hundredth, and not all points alike.
                let wobble = 1.0 + 0.01 * f64::from((block * 7 + read + random + bytes / 1024) % 3);
                let ms = request_ms(stack, f64::from(bytes), share(read), share(random)) * wobble;
                let name = format!("point_{bytes}_{read}_{random}_{depth}");
                figures.insert(format!("{name}_requests_per_s"), 1e3 / ms);
                figures.insert(format!("{name}_response_ms"), ms);
                figures.insert(format!("{name}_cpu_share"), 0.1);
            }
        }
    }
    figures
}

fn cell(stack: &str, workload: &str, block: u32) -> CellRecord {
    let slower = if stack.contains("kvm") { 11 } else { 10 };
    let operations = 400_000 / slower + u64::from(block) * 40;
    let class = |operations: u64| OperationResult {
        operations,
        bytes: operations * 8192,
        latency: latency(operations, 1_000_000 * slower).compacted(),
        ..OperationResult::default()
    };
    let of_all = measured(operations * 4096);
    let is_surface = workload.starts_with("iometer:surface");
    let classes = if workload.starts_with("dbench") {
        let all = OperationResult { bytes: operations * 8192, ..OperationResult::default() };
        let calls = || OperationResult { bytes: 0, ..class(operations / 2) };
        vec![("ReadX", calls()), ("WriteX", calls()), ("read-and-write", all)]
    } else {
        vec![("read", class(operations / 2)), ("write", class(operations / 2))]
    };
    let load = LoadResult {
        workload: workload.to_owned(),
        operations: classes.into_iter().map(|(name, done)| (OperationClass(name.to_owned()), done)).collect(),
        figures: if is_surface { surface(stack, workload, block) } else { BTreeMap::new() },
        ..of_all.load.clone()
    };
    let busy = 0.02 * slower as f64;
    let outcome = Outcome::Measured(Measured { load, host_cpu_busy: busy, ..of_all });
    CellRecord { workload: workload.into(), outcome, ..record(stack, block, 4096) }
}

fn judged(scale: &str) -> (Vec<ClaimResult>, Vec<crate::Figure>) {
    let study = Study::parse("studies/esx-disk.toml", FILE, Some(scale)).unwrap();
    let folder = TempDir::new().unwrap();
    let mut store = Store::open(&folder.path().join("r.sqlite")).unwrap();
    for stack in &study.stacks {
        for workload in &study.workloads {
            let Some(rule) = study.rule(stack, workload) else { continue };
            for block in 0..rule.replications {
                store.insert(&cell(stack, workload, block)).unwrap();
            }
        }
    }
    let study = StudyRecord {
        hash: HASH.to_owned(),
        ground: "emulated".into(),
        study,
        sentinels: false,
        ended_early: None,
        sessions: Vec::new(),
    };
    (judge(&store, &study).unwrap(), figures(&store, &study).unwrap())
}

#[test]
fn its_arithmetic_is_reproduced_and_nearly_all_claims_are_tested() {
    let (results, figures) = judged("quick");
    let ids: Vec<String> = results.iter().map(|r| r.claim.id.clone()).collect();
    assert_eq!(ids, (1..=48).map(|n| format!("A-{n}")).collect::<Vec<_>>());
    let is_constant = |result: &&ClaimResult| result.claim.kind == crate::ClaimKind::Constant;
    let said = |result: &ClaimResult| format!("{}: {}", result.claim.id, result.reason);
    let wrong = results.iter().filter(|result| {
        result.reason.contains(" is wrong") || is_constant(result) && result.verdict != Verdict::Reproduced
    });
    assert_eq!(wrong.map(said).collect::<Vec<_>>(), Vec::<String>::new());
    assert_eq!(results.iter().filter(is_constant).count(), 19);
    let verdict = |id: &str| results.iter().find(|r| r.claim.id == id).unwrap().verdict;
    // The grid is counted where it was measured.
    assert_eq!(verdict("A-7"), Verdict::Reproduced);
    // As the made-up disks are.
    for id in ["A-11", "A-12", "A-13", "A-16", "A-34"] {
        assert_ne!(verdict(id), Verdict::Contradicted, "{id}");
        assert!(verdict(id).is_tested(), "{id}");
    }
    let untested: Vec<&str> =
        results.iter().filter(|r| !r.verdict.is_tested()).map(|r| r.claim.id.as_str()).collect();
    // A generator's property, a product without a name.
    assert_eq!(untested, ["A-14", "A-23"]);
    let problems: Vec<String> =
        figures.iter().filter_map(|f| f.problem.as_ref().map(|p| format!("{}: {p}", f.query.id))).collect();
    // Only whole grids show what parts of them miss.
    assert_eq!(problems, ["design: no counted run has the values that it shows"]);
}

#[test]
fn each_disk_and_size_has_a_surface_of_its_own() {
    let (_, figures) = judged("quick");
    let panels_of = |id: &str| {
        let rows = &figures.iter().find(|f| f.query.id == id).unwrap().rows;
        rows.iter().map(|row| row.panel.clone()).collect::<BTreeSet<_>>()
    };
    let native = panels_of("fig-2-6");
    assert!(native.contains("st336938lw:size=3G, 4 KiB"), "{native:?}");
    // Three sizes of the disk, four of each of the two arrays; twice that in virtual machines, of two devices.
    assert_eq!((native.len(), panels_of("fig-3-7").len()), (11, 22), "{native:?}");
}

#[test]
fn a_part_of_the_grid_is_held_against_the_whole() {
    let (_, figures) = judged("small");
    let design = figures.iter().find(|f| f.query.id == "design").unwrap();
    let median_of = |points: f64| {
        let row = design.rows.iter().find(|r| r.series == "median" && r.x == crate::FigureX::Number(points));
        row.unwrap().y
    };
    assert!(median_of(34.0) < 5.0 && median_of(15.0) >= median_of(50.0), "{:?}", design.rows);
}

#[test]
fn the_published_regimes_test_nearly_all_empirical_claims() {
    let (results, figures) = judged("faithful");
    let untested: Vec<&str> =
        results.iter().filter(|r| !r.verdict.is_tested()).map(|r| r.claim.id.as_str()).collect();
    assert_eq!(untested, ["A-14", "A-23"]);
    let tested = results.iter().filter(|r| r.claim.kind.is_measured() && r.verdict.is_tested()).count();
    assert!(tested >= 12, "only {tested}");
    assert!(figures.iter().all(|f| f.problem.is_none()), "whole grids also show what parts of them miss");
    // Natively dbench has as much memory as in the virtual machine, and the disk is the same.
    let native = results.iter().find(|r| r.claim.id == "A-17").unwrap();
    assert!(native.verdict.is_tested(), "{}", native.reason);
}

#[test]
fn each_size_has_the_blocks_that_it_says_and_more_of_them_end_when_settled() {
    let of_scale = |scale| Study::parse("studies/esx-disk.toml", FILE, Some(scale)).unwrap();
    // What was measured under this name can be gone on with.
    assert_eq!(of_scale("quick").hash("emulated"), "9af8d18b6b6148f4");
    for (scale, blocks) in [
        ("paper", vec![3; 3]),
        ("faithful", vec![3; 5]),
        ("quick", vec![2, 3, 2, 2, 3]),
        ("small", vec![1, 3, 1, 1, 3]),
    ] {
        let study = of_scale(scale);
        assert_eq!(study.parts.iter().map(|part| part.replications).collect::<Vec<_>>(), blocks, "{scale}");
        assert_eq!(study.stop.map(|rule| rule.looks), Some(vec![3, 4, 6, 8, 12]), "{scale}");
    }
}
