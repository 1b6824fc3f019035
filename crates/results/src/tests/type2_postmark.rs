//! The built-in study of file systems under type-2 hypervisors: its claims and figures on a made-up store that has every cell.

use std::collections::BTreeMap;

use nestor_stack::Stack;
use nestor_workload::{LoadResult, OperationClass, OperationResult, Workload};

use super::fixture::*;
use super::judged::{Planted, of_verdict};
use crate::claims::ClaimResult;
use crate::record::{CellRecord, Measured, Outcome};
use crate::{Study, Verdict};

const FILE: &str = include_str!("../../../../studies/type2-postmark.toml");

#[derive(Clone, Copy, PartialEq)]
enum Way {
    Native,
    /// In VirtualBox's place.
    Vdi,
    /// In VMware's place.
    Vmdk,
}

const GUESTS: [&str; 5] = ["ext3", "ext4", "xfs", "reiserfs", "jfs"];

/// Published rates of writing in the order of [`GUESTS`]: kB/s of extra small files, else MB/s.
fn published(load: &str, way: Way) -> [f64; 5] {
    match (load, way) {
        ("xs", Way::Vmdk) => [82.04, 136.01, 98.49, 425.35, 36.73],
        ("xs", _) => [99.08, 232.68, 206.75, 466.99, 60.16],
        ("small", Way::Vmdk) => [3.57, 11.06, 12.75, 5.43, 4.73],
        ("small", _) => [3.22, 15.85, 16.75, 8.75, 6.24],
        (_, Way::Vmdk) => [8.75, 20.28, 20.22, 17.71, 21.41],
        _ => [11.36, 30.42, 33.04, 26.38, 15.36],
    }
}

/// Bytes a second. Natively, where nothing is published, file systems come in the other order.
fn bytes_per_s(guest: &str, load: &str, way: Way, planted: Planted) -> f64 {
    let at = GUESTS.iter().position(|name| *name == guest).unwrap();
    let unit = if load == "xs" { 1024.0 } else { 1_048_576.0 };
    let rate = match (planted, way) {
        (Planted::Published, Way::Native) => 1000.0 / published(load, Way::Vdi)[at],
        (Planted::Published, way) => published(load, way)[at],
        // Natively and in both virtual machines in one order, which is the opposite one.
        (Planted::Opposite, Way::Native) => 100.0 / published(load, Way::Vmdk)[at],
        (Planted::Opposite, Way::Vdi) => {
            let [vmdk, vdi] = [Way::Vmdk, Way::Vdi].map(|way| published(load, way)[at]);
            10.0 / vmdk * (vmdk / vdi).powi(2)
        }
        (Planted::Opposite, Way::Vmdk) => 10.0 / published(load, Way::Vmdk)[at],
    };
    rate * unit
}

/// What PostMark counts with its own seed: created, read, appended, and hundredths of a MiB read and written.
fn counted(load: &str, scale: f64) -> [u64; 5] {
    match (load, (scale * 100.0).round() as u32) {
        ("xs", 100) => [125_075, 25_155, 24_808, 1256, 6521],
        ("xs", 25) => [31_338, 6275, 6221, 315, 1633],
        ("xs", 10) => [12_532, 2507, 2486, 127, 652],
        ("xs", 2) => [2513, 493, 507, 25, 133],
        ("small", 100) => [12_475, 2485, 2515, 11_281, 58_629],
        ("small", 25) => [3119, 643, 607, 2838, 14_543],
        ("small", 10) => [1241, 260, 240, 1184, 5744],
        ("small", 5) => [628, 127, 123, 569, 2880],
        ("large", 100) => [347, 257, 243, 431_252, 614_565],
        ("large", 25) => [95, 68, 57, 127_513, 167_010],
        ("large", 10) => [37, 26, 24, 44_822, 62_609],
        ("large", 5) => [19, 13, 12, 25_571, 35_610],
        other => panic!("no counts of {other:?}"),
    }
}

fn way(stack: &Stack) -> Way {
    match stack.layers().iter().find(|layer| layer.image_format().is_some()).map(nestor_stack::Layer::name) {
        None => Way::Native,
        Some("vdi") => Way::Vdi,
        Some(_) => Way::Vmdk,
    }
}

fn cell(stack: &str, workload: &str, block: u32, planted: Planted) -> CellRecord {
    let parsed = Stack::parse(stack).unwrap();
    let load = Workload::parse(workload).unwrap();
    let scale = load.data_set().scale_factor;
    let [created, read, appended, read_mb, written_mb] = counted(load.case(), scale);
    let bytes = |hundredths: u64| (hundredths << 20) / 100;
    let guest = parsed.layers()[0].name();
    let rate = bytes_per_s(guest, load.case(), way(&parsed), planted);
    // Blocks differ by a thousandth, and not all cells alike.
    let wobble = 1.0 + 0.001 * f64::from((block * 7 + guest.len() as u32) % 3);
    let class = |name: &str, operations, bytes| {
        (OperationClass(name.to_owned()), OperationResult { operations, bytes, ..OperationResult::default() })
    };
    let of_all = measured(4096);
    let load = LoadResult {
        workload: workload.to_owned(),
        elapsed_ns: (bytes(written_mb) as f64 / rate * 1e9 * wobble) as u64,
        operations: BTreeMap::from([
            class("create", created, 0),
            class("delete", created, 0),
            class("append", appended, 0),
            class("read", read, bytes(read_mb)),
            class("write", 0, bytes(written_mb)),
        ]),
        scale_factor: scale,
        ..of_all.load.clone()
    };
    let outcome = Outcome::Measured(Measured { load, ..of_all });
    CellRecord { workload: workload.into(), outcome, ..record(stack, block, 4096) }
}

fn judged(scale: &str, planted: Planted) -> (Vec<ClaimResult>, Vec<crate::Figure>) {
    let study = Study::parse("studies/type2-postmark.toml", FILE, Some(scale)).unwrap();
    super::judged::judged(study, |_, stack, workload, rule| {
        (0..rule.replications).map(|block| cell(stack, workload, block, planted)).collect()
    })
}

/// Rows of what is configured.
const SET_UP: [&str; 4] = ["P-16", "P-17", "P-18", "P-19"];

/// Rows of the paper's arithmetic that do not come out as it says.
const ERRORS: [&str; 7] = ["P-23", "P-31", "P-32", "P-34", "P-35", "P-36", "P-37"];

#[test]
fn the_published_rates_reproduce_every_row_that_is_measured() {
    for scale in ["quick", "small", "faithful", "paper"] {
        let (results, figures) = judged(scale, Planted::Published);
        let ids: Vec<String> = results.iter().map(|r| r.claim.id.clone()).collect();
        assert_eq!(ids, (1..=37).map(|n| format!("P-{n}")).collect::<Vec<_>>());
        let wrong = of_verdict(&results, |r| {
            let id = r.claim.id.as_str();
            let expected = match r.verdict {
                Verdict::Deviates => SET_UP.contains(&id),
                Verdict::Contradicted => ERRORS.contains(&id),
                Verdict::Reproduced => !ERRORS.contains(&id),
                _ => false,
            };
            !expected
        });
        assert_eq!(wrong, Vec::<String>::new(), "{scale}");
        let problems: Vec<&String> = figures.iter().filter_map(|figure| figure.problem.as_ref()).collect();
        assert_eq!(problems, Vec::<&String>::new(), "{scale}");
    }
}

#[test]
fn the_opposite_contradicts_the_rows_that_compare() {
    let (results, _) = judged("faithful", Planted::Opposite);
    let compares = |r: &ClaimResult| {
        let id = r.claim.id.as_str();
        !SET_UP.contains(&id) && !ERRORS.contains(&id) && r.claim.kind != crate::ClaimKind::Constant
    };
    let kept = of_verdict(&results, |r| compares(r) && r.verdict != Verdict::Contradicted);
    assert_eq!(kept, Vec::<String>::new());
}

/// Where the products are measured beside their stand-ins, neither counts as the other.
#[test]
fn products_are_told_from_their_stand_ins_by_what_runs_the_guest() {
    let mut study = Study::parse("studies/type2-postmark.toml", FILE, Some("quick")).unwrap();
    let products = GUESTS.into_iter().flat_map(|guest| {
        ["vbox/vdi", "vmware/vmdk"].map(|way| format!("{guest}/{way}:size=2G/ntfs/hdd:st1000lm024:size=4G"))
    });
    study.stacks.extend(products.map(Into::into));
    let (results, figures) = super::judged::judged(study, |_, stack, workload, rule| {
        let is_product = stack.contains("/vbox/") || stack.contains("/vmware/");
        let planted = if is_product { Planted::Opposite } else { Planted::Published };
        (0..rule.replications).map(|block| cell(stack, workload, block, planted)).collect()
    });
    let ids = (1..=15).chain(25..=30).map(|number| format!("P-{number}"));
    for result in ids.map(|id| results.iter().find(|r| r.claim.id == id).unwrap()) {
        let (products, stand_ins): (Vec<_>, Vec<_>) = result.parts.iter().partition(|part| {
            ["products", "vbox", "vmware"].iter().any(|product| part.name.starts_with(product))
        });
        assert_eq!(products.len(), stand_ins.len(), "{}", result.reason);
        assert!(stand_ins.iter().all(|part| part.verdict == Verdict::Reproduced), "{}", result.reason);
        assert!(products.iter().any(|part| part.verdict == Verdict::Contradicted), "{}", result.reason);
    }
    let of_large = figures.iter().find(|figure| figure.query.id == "fig-3").unwrap();
    let series: std::collections::BTreeSet<&str> =
        of_large.rows.iter().map(|row| row.series.as_str()).collect();
    assert_eq!(
        series.into_iter().collect::<Vec<_>>(),
        ["native", "split vmdk, SAS", "vbox", "vdi, AHCI", "vmware"]
    );
}

#[test]
fn errors_of_the_papers_own_tables_are_named() {
    let (results, _) = judged("quick", Planted::Published);
    let reason = |id: &str| results.iter().find(|r| r.claim.id == id).unwrap().reason.clone();
    let ratio = reason("P-23");
    assert!(ratio.contains("Ext3, VMware") && ratio.contains("Ext3, VirtualBox"), "{ratio}");
    assert!(!ratio.contains("JFS"), "{ratio}");
    assert!(reason("P-31").contains("tests in which it is 1, expected 2"), "{}", reason("P-31"));
    assert!(reason("P-36").contains("-39.4, expected 30"), "{}", reason("P-36"));
}

#[test]
fn every_size_has_the_five_file_systems_natively_and_on_both_stand_ins() {
    for (scale, blocks) in [("paper", 3), ("faithful", 3), ("small", 3), ("quick", 2)] {
        let study = Study::parse("studies/type2-postmark.toml", FILE, Some(scale)).unwrap();
        // VirtualBox itself, where its pack was made.
        let optional =
            study.parts.iter().filter(|part| part.optional).map(|part| part.stacks.len()).sum::<usize>();
        assert_eq!(optional, if scale == "quick" { 0 } else { 5 }, "{scale}");
        assert_eq!((study.stacks.len() - optional, study.workloads.len()), (15, 3), "{scale}");
        assert!(study.parts.iter().all(|part| part.replications == blocks), "{scale}");
        let memory = |stack: &Stack| stack.innermost_hypervisor().map(|at| stack.layer(at).size("memory"));
        let native = study.stacks.iter().filter(|s| study.is_baseline(s));
        let as_much = study.stacks.iter().find_map(|s| memory(s.value().unwrap())).unwrap();
        for stack in native {
            assert_eq!(stack.value().unwrap().medium().size("host-memory"), as_much, "{scale}: {stack}");
        }
    }
}
