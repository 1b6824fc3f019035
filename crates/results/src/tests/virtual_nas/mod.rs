//! The built-in study of virtual machines on network storage: its claims and figures on a made-up store that has every cell.

mod made_up;

use nestor_stack::{Layer, Stack};

use self::made_up::{Planted, cell};
use crate::claims::ClaimResult;
use crate::{Study, Verdict};

const FILE: &str = include_str!("../../../../../studies/virtual-nas.toml");

fn judged(scale: &str, planted: Planted) -> (Vec<ClaimResult>, Vec<crate::Figure>) {
    let study = Study::parse("studies/virtual-nas.toml", FILE, Some(scale)).unwrap();
    super::judged::judged(study, |study, stack, workload, rule| {
        let is_slow = match planted {
            Planted::SlowApart => study.is_apart(stack, workload),
            Planted::SlowCompared => !study.is_baseline(stack) && !study.is_apart(stack, workload),
            Planted::Published | Planted::Opposite | Planted::Trickle => false,
        };
        let slowdown = if is_slow { 10 } else { 1 };
        (0..rule.replications).map(|block| cell(stack, workload, block, planted, slowdown)).collect()
    })
}

fn verdict(results: &[ClaimResult], id: &str) -> Verdict {
    results.iter().find(|r| r.claim.id == id).unwrap().verdict
}

/// Rows of what is configured.
const SET_UP: [&str; 7] = ["H-1", "H-2", "H-3", "H-4", "H-11", "H-18", "H-33"];

#[test]
fn the_published_numbers_reproduce_every_row_that_is_measured() {
    for scale in ["quick", "small", "faithful", "paper"] {
        let (results, figures) = judged(scale, Planted::Published);
        let ids: Vec<String> = results.iter().map(|r| r.claim.id.clone()).collect();
        assert_eq!(ids, (1..=42).map(|n| format!("H-{n}")).collect::<Vec<_>>());
        let other = |verdict: Verdict| -> Vec<&str> {
            results.iter().filter(|r| r.verdict == verdict).map(|r| r.claim.id.as_str()).collect()
        };
        assert_eq!(other(Verdict::NotTestable), Vec::<&str>::new(), "{scale}");
        let deviates = other(Verdict::Deviates);
        assert!(deviates.iter().all(|id| SET_UP.contains(id)), "{scale}: {deviates:?}");
        let said = |r: &ClaimResult| format!("{} {}: {}", r.claim.id, r.verdict.words(), r.reason);
        let is_expected =
            |verdict| matches!(verdict, Verdict::Reproduced | Verdict::Deviates | Verdict::NotTestable);
        let wrong: Vec<String> = results.iter().filter(|r| !is_expected(r.verdict)).map(said).collect();
        assert_eq!(wrong, Vec::<String>::new(), "{scale}");
        let problems: Vec<&String> = figures.iter().filter_map(|figure| figure.problem.as_ref()).collect();
        assert_eq!(problems, Vec::<&String>::new(), "{scale}");
    }
}

#[test]
fn the_opposite_contradicts_the_rows_that_compare() {
    let (results, _) = judged("small", Planted::Opposite);
    let compare = [
        "H-5", "H-6", "H-7", "H-8", "H-9", "H-10", "H-12", "H-13", "H-14", "H-15", "H-16", "H-17", "H-19",
        "H-20", "H-23", "H-24", "H-25", "H-26", "H-27", "H-28", "H-29", "H-30", "H-31", "H-32", "H-34",
        "H-35", "H-36", "H-37", "H-38", "H-39", "H-40", "H-41", "H-42",
    ];
    let said: Vec<String> = compare
        .into_iter()
        .filter(|id| verdict(&results, id) != Verdict::Contradicted)
        .map(|id| format!("{id}: {}", results.iter().find(|r| r.claim.id == id).unwrap().reason))
        .collect();
    assert_eq!(said, Vec::<String>::new());
}

/// A value of a table: its panel contains `panel`.
fn value(figures: &[crate::Figure], id: &str, [panel, row, column]: [&str; 3]) -> Option<f64> {
    let figure = figures.iter().find(|figure| figure.query.id == id).unwrap();
    let is_there =
        |r: &&crate::FigureRow| r.panel.contains(panel) && r.series == row && r.x.to_string() == column;
    figure.rows.iter().find(is_there).map(|row| row.y)
}

#[test]
fn the_tables_of_the_paper_have_the_published_numbers_beside_what_is_measured() {
    let (_, figures) = judged("small", Planted::Published);
    let of = |id: &str, place: [&str; 3]| value(&figures, id, place);
    for width in ["width 20", "one directory"] {
        let beside = |row: &str, way: &str| {
            (of("table-1", [width, row, way]), of("table-1", [width, row, &format!("[{way}]")]))
        };
        let (found, published) = beside("CREATE calls", "NFS");
        assert_eq!((found, published), (Some(100_000.0), Some(100_000.0)), "{width}");
        let (found, published) = beside("written, MB", "VM-NFS");
        assert!((found.unwrap() - published.unwrap()).abs() < 0.5, "{width}: {found:?} {published:?}");
        let (found, published) = beside("files a second", "VM-NFS");
        // Closing a file is an operation, too.
        assert!((found.unwrap() / published.unwrap() - 1.0).abs() < 0.01, "{width}: {found:?} {published:?}");
        assert_eq!(of("table-1", [width, "CREATE calls", "Guest-NFS"]), Some(100_000.0));
    }
    assert_eq!(of("table-2", ["one directory", "LOOKUP and GETATTR calls", "NFS"]), Some(1920.0));
    assert_eq!(of("table-2", ["one directory", "LOOKUP and GETATTR calls", "VM-NFS"]), Some(0.0));
}

#[test]
fn every_workload_has_the_costs_of_all_set_ups_beside_each_other() {
    for scale in ["quick", "small", "faithful", "paper"] {
        let (_, figures) = judged(scale, Planted::Published);
        let study = Study::parse("studies/virtual-nas.toml", FILE, Some(scale)).unwrap();
        let is_apart = |w: &crate::WrittenWorkload| study.stacks.iter().any(|s| study.apart(s, w).is_some());
        let (apart, compared): (Vec<_>, Vec<_>) = study.workloads.iter().partition(|w| is_apart(w));
        let costs = figures.iter().find(|figure| figure.query.id == "costs").unwrap();
        for workload in apart {
            assert!(costs.rows.iter().all(|row| row.panel != workload.as_str()), "{scale}: {workload}");
        }
        assert!(compared.len() >= 9, "{scale}");
        for workload in compared {
            for way in ["NFS", "VM-NFS", "Guest-NFS"] {
                for row in
                    ["time, ms", "calls of NFS", "seeks of the array", "over the link to the server, KiB"]
                {
                    let found = value(&figures, "costs", [workload.as_str(), row, way]);
                    assert!(found.is_some(), "{scale}: {workload}: {row} of {way}");
                }
            }
        }
        let create = ["create-tree", "CREATE calls", "NFS"];
        assert_eq!(value(&figures, "costs", create), Some(1000.0), "{scale}");
    }
}

#[test]
fn the_time_of_what_is_recorded_in_full_is_in_no_claim_and_no_figure() {
    let study = Study::parse("studies/virtual-nas.toml", FILE, Some("quick")).unwrap();
    let apart: Vec<&crate::Part> = study.parts.iter().filter(|part| part.apart).collect();
    assert_eq!(apart.len(), 2);
    assert!(apart.iter().all(|part| part.trace == Some(crate::TraceMode::Full)));
    let (results, figures) = judged("quick", Planted::Published);
    let (slow_results, slow_figures) = judged("quick", Planted::SlowApart);
    let found = |results: &[ClaimResult]| -> Vec<String> {
        results.iter().map(|r| format!("{} {:?} {}", r.claim.id, r.effect, r.reason)).collect()
    };
    assert_eq!(found(&slow_results), found(&results));
    assert_eq!(slow_figures, figures);
    // Of cells that are compared, it is.
    let (slow_results, slow_figures) = judged("quick", Planted::SlowCompared);
    assert!(found(&slow_results) != found(&results) && slow_figures != figures);
}

#[test]
fn hardly_anything_is_not_more_than_nothing() {
    let (results, _) = judged("small", Planted::Trickle);
    for id in ["H-29", "H-30"] {
        assert_eq!(verdict(&results, id), Verdict::Contradicted, "{id}");
    }
    let stat = results.iter().find(|r| r.claim.id == "H-20").unwrap();
    let parts: Vec<&str> = stat.parts.iter().map(|part| part.name.as_str()).collect();
    assert_eq!(
        parts,
        ["VM-NFS beside the published NFS"],
        "NFS calls nothing here that it could be less than"
    );
    let (published, _) = judged("small", Planted::Published);
    assert_eq!(published.iter().find(|r| r.claim.id == "H-20").unwrap().parts.len(), 2);
}

#[test]
fn each_size_from_small_on_keeps_the_file_eight_times_as_large_as_the_memory_of_its_reader() {
    for (scale, blocks) in [("paper", 3), ("faithful", 3), ("quick", 2), ("small", 3)] {
        let study = Study::parse("studies/virtual-nas.toml", FILE, Some(scale)).unwrap();
        assert_eq!(
            study.parts.iter().map(|part| part.replications).collect::<Vec<_>>(),
            vec![blocks; if ["paper", "faithful"].contains(&scale) { 4 } else { 5 }],
            "{scale}"
        );
        let memory = |stack: &Stack| {
            let of_layer = |layer: &Layer| layer.size("available").or_else(|| layer.size("memory"));
            let of_link = || of_layer(stack.layers().iter().find(|layer| layer.name() == "link")?);
            let guest = stack.innermost_hypervisor().map(|at| stack.layer(at));
            guest.map_or_else(of_link, of_layer).unwrap().get()
        };
        for stack in &study.stacks {
            let is_compared =
                |w: &&crate::WrittenWorkload| study.holds(stack, w) && !study.is_apart(stack, w);
            let workloads = study.workloads.iter().filter(|w| w.as_str().starts_with("wml:nas-"));
            for workload in workloads.filter(is_compared) {
                let file = workload.value().unwrap().data_set().file_bytes;
                let memory = memory(stack.value().unwrap());
                if scale != "quick" {
                    assert_eq!(file, 8 * memory, "{scale}: {stack} {workload}");
                } else if workload.as_str().starts_with("wml:nas-rand-read") {
                    // Its time limit ends before anything could be read twice; still, no memory holds the file.
                    assert!(file > memory, "{scale}: {stack} {workload}");
                }
            }
        }
    }
}
