//! The built-in study of virtual machines on network storage: its claims and figures on a made-up store that has every cell.

use std::collections::BTreeMap;

use nestor_link::Sent;
use nestor_stack::{Layer, LayerDefinition, Stack};
use nestor_trace::rpc::RpcCounts;
use nestor_trace::{AccessPattern, CallMetrics, DirectionMetrics, FileAccesses, LayerMetrics, SeekMetrics};
use nestor_workload::{LoadResult, OperationClass, OperationResult};
use tempfile::TempDir;

use super::fixture::*;
use crate::claims::{ClaimResult, figures, judge};
use crate::network::NetworkRecord;
use crate::record::{CellRecord, LayerRecord, Measured, Outcome};
use crate::{Store, Study, StudyRecord, Verdict};

const FILE: &str = include_str!("../../../../studies/virtual-nas.toml");
const HASH: &str = "0123456789abcdef";

#[derive(Clone, Copy, PartialEq)]
enum Way {
    Nfs,
    VmNfs,
    /// The same with a file system whose blocks straddle the server's.
    Misaligned,
    GuestNfs,
}

/// What is planted: the published numbers, or each comparison of them the other way round.
#[derive(Clone, Copy, PartialEq)]
enum Planted {
    Published,
    Opposite,
    /// The published numbers, but what is recorded in full takes ten times as long.
    SlowApart,
    /// The same of all that is compared with a baseline.
    SlowCompared,
    /// What is read before it is written is a thousandth of what it was, and a client asks a thousandth as often about files.
    Trickle,
}

/// What a cell does, by the published tables.
#[derive(Default)]
struct Done {
    classes: Vec<(&'static str, u64, u64)>,
    per_second: f64,
    read: Calls,
    write: Calls,
    other: Vec<(&'static str, u64)>,
    blocks_read: u64,
    blocks_written: u64,
}

#[derive(Clone, Copy, Default)]
struct Calls {
    calls: u64,
    bytes: u64,
}

impl Calls {
    fn of(bytes: f64, of_one: u64) -> Self {
        Self { calls: bytes as u64 / of_one, bytes: bytes as u64 / of_one * of_one }
    }
}

/// A workload as it is asked about here.
struct Asked<'a>(&'a str);

impl Asked<'_> {
    fn is(&self, case: &str) -> bool {
        self.0.starts_with(&format!("wml:{case}"))
    }

    fn option(&self, name: &str) -> Option<&str> {
        self.0.split(':').find_map(|part| part.strip_prefix(name)?.strip_prefix('='))
    }

    /// Entries of a directory; 20 unless it says.
    fn width(&self) -> f64 {
        self.option("width").map_or(20.0, |width| width.parse().unwrap())
    }

    /// Bytes that an operation moves; 2 KiB unless it says.
    fn is_small(&self) -> bool {
        self.option("iosize").is_none_or(|size| size == "2k")
    }
}

/// The width of a tree that is one directory.
const ONE_DIRECTORY: f64 = 1_000_000.0;

fn create(way: Way, width: f64) -> Done {
    const FILES: u64 = 10_000;
    let one_directory = width >= ONE_DIRECTORY;
    let classes = vec![("createfile", FILES, 0), ("closefile", FILES, 0)];
    let files = FILES as f64;
    if matches!(way, Way::Nfs | Way::GuestNfs) {
        let per_second = if one_directory { 2270.0 } else { 2125.0 };
        return Done {
            classes,
            per_second,
            other: vec![("CREATE", FILES), ("GETATTR", 5 * FILES)],
            ..Done::default()
        };
    }
    // The two ends are published; between them figure 4 falls steadily on its logarithmic axis.
    let per_second = 7406.0 * (1408.0_f64 / 7406.0).powf((width / 20.0).ln() / (ONE_DIRECTORY / 20.0).ln());
    let (read, written) = if one_directory { (215.0, 210.0) } else { (258.0, 155.0) };
    let (read, write) = (Calls::of(read * files, 4096), Calls::of(written * files, 65536));
    Done { classes, per_second, read, write, ..Done::default() }
}

fn stat(way: Way, one_directory: bool) -> Done {
    let per_second = match (way, one_directory) {
        (Way::Nfs | Way::GuestNfs, _) => 2656.0,
        (_, true) => 8622.0,
        (_, false) => 12167.0,
    };
    let calls = if matches!(way, Way::Nfs | Way::GuestNfs) { 192_000 } else { 0 };
    let other = vec![("LOOKUP", calls / 2), ("GETATTR", calls / 2)];
    Done { classes: vec![("statfile", 100_000, 0)], per_second, other, ..Done::default() }
}

fn write(way: Way, is_small: bool, is_allocated: bool) -> Done {
    const BYTES: u64 = 64 * MIB;
    let per_second = match (way, is_small, is_allocated) {
        (Way::Nfs, _, true) => 92.2,
        (Way::Nfs, _, false) => 98.3,
        (Way::VmNfs, false, _) => 46.0,
        (Way::VmNfs, true, true) => 11.1,
        (Way::VmNfs, true, false) => 36.3,
        (Way::Misaligned | Way::GuestNfs, _, true) => 50.0,
        (Way::Misaligned | Way::GuestNfs, _, false) => 66.2,
    };
    let reads_first = way == Way::VmNfs && is_allocated;
    let read = if reads_first && is_small { BYTES as f64 } else { 0.0 };
    Done {
        classes: vec![("write", BYTES / 2048, BYTES)],
        per_second,
        read: Calls::of(read, 4096),
        write: Calls::of(BYTES as f64, 65536),
        blocks_read: if reads_first { BYTES } else { 0 },
        blocks_written: if way == Way::VmNfs { 2 * BYTES } else { BYTES },
        ..Done::default()
    }
}

/// The server reads whole blocks at both ends of what the guest reads, or writes.
fn misaligned(is_small: bool) -> Done {
    let aligned = write(Way::VmNfs, is_small, true);
    Done { blocks_read: 2 * aligned.blocks_read, ..aligned }
}

/// The server reads less than what the guest reads of the file.
fn answered_by_a_cache(is_small: bool) -> Done {
    let aligned = misaligned(is_small);
    Done { read: Calls::of(2.0 * aligned.blocks_read as f64, 4096), ..aligned }
}

fn read(way: Way, is_small: bool) -> Done {
    const MB: f64 = 1e6;
    let (per_second, file, blocks) = match (way, is_small) {
        (Way::Nfs, true) => (2.5, 1140.0, 5853.0),
        (Way::Nfs, false) => (50.0, 2804.0, 3769.0),
        (_, true) => (0.6, 4710.0, 6758.0),
        (_, false) => (46.5, 2187.0, 3280.0),
    };
    Done {
        classes: vec![("read", 1_000_000, 2048 * 1_000_000)],
        per_second,
        read: Calls::of(file * MB, 4096),
        blocks_read: (blocks * MB) as u64,
        ..Done::default()
    }
}

fn done(way: Way, workload: &str, planted: Planted) -> Done {
    let asked = Asked(workload);
    let one_directory = asked.width() >= ONE_DIRECTORY;
    if planted == Planted::Trickle {
        return trickle(way, &asked, one_directory);
    }
    let is_turned = planted == Planted::Opposite;
    let way = match way {
        Way::Nfs if is_turned => Way::VmNfs,
        Way::VmNfs if is_turned => Way::Nfs,
        Way::GuestNfs if is_turned => Way::VmNfs,
        Way::Misaligned if is_turned => return answered_by_a_cache(asked.is_small()),
        Way::Misaligned => return misaligned(asked.is_small()),
        way => way,
    };
    let is_allocated = (asked.option("allocated") == Some("on")) != is_turned;
    match () {
        () if asked.is("create-tree") => create(way, asked.width()),
        () if asked.is("stat-tree") => stat(way, one_directory),
        () if asked.is("nas-seq-write") => write(way, asked.is_small(), is_allocated),
        () => read(way, asked.is_small()),
    }
}

/// A guest reads little more than nothing before it writes, and a client calls hardly more than nothing for each `stat`.
fn trickle(way: Way, asked: &Asked<'_>, one_directory: bool) -> Done {
    match () {
        () if asked.is("create-tree") => create(way, asked.width()),
        () if asked.is("stat-tree") => {
            let whole = stat(way, one_directory);
            let other = whole.other.iter().map(|(name, calls)| (*name, calls / 4000)).collect();
            Done { other, ..whole }
        }
        () if asked.is("nas-seq-write") => {
            let is_allocated = asked.option("allocated") == Some("on");
            let whole = match way {
                Way::Misaligned => misaligned(asked.is_small()),
                way => write(way, asked.is_small(), is_allocated),
            };
            Done { read: Calls::default(), blocks_read: whole.blocks_read / 1000, ..whole }
        }
        () => read(way, asked.is_small()),
    }
}

/// Of operations where nothing is moved.
fn elapsed_ns(done: &Done, block: u32) -> u64 {
    let bytes: u64 = done.classes.iter().map(|(_, _, bytes)| bytes).sum();
    let work = if bytes > 0 { bytes as f64 / 1e6 } else { done.classes[0].1 as f64 };
    // Blocks differ by a thousandth.
    (work / done.per_second * 1e9 * (1.0 + 0.001 * f64::from(block))) as u64
}

fn counts(calls: &[(&str, Calls)]) -> RpcCounts {
    // The header of a reply to READ.
    let of_one = |calls: &Calls| {
        let received = calls.bytes + 128 * calls.calls;
        serde_json::json!({"calls": calls.calls, "sent_bytes": calls.bytes, "received_bytes": received})
    };
    let called = calls.iter().filter(|(_, calls)| calls.calls > 0);
    let map: serde_json::Map<_, _> =
        called.map(|(name, calls)| ((*name).to_owned(), of_one(calls))).collect();
    serde_json::from_value(map.into()).unwrap()
}

/// Where the server read and wrote in the image, of a hundred reads and writes.
fn accesses(workload: &str, planted: Planted) -> FileAccesses {
    let asked = Asked(workload);
    let is_tree = (asked.option("width") != Some("1000000")) != (planted == Planted::Opposite);
    let pattern = |sequential, large| AccessPattern {
        accesses: 100,
        bytes: 100 * 4096,
        files: 1,
        sizes: BTreeMap::from([(4096, 100 - large), (262_144, large)]),
        sequential,
        seek_mean_bytes: Some(if is_tree { 1e6 } else { 4e6 }),
    };
    FileAccesses { reads: pattern(98, 0), writes: pattern(52, 49) }
}

fn network(stack: &Stack, done: &Done, accesses: FileAccesses) -> NetworkRecord {
    let is_nfs = |layer: &Layer| matches!(layer.definition(), LayerDefinition::NetworkFileSystem);
    let position = stack.layers().iter().position(is_nfs).unwrap();
    let mut calls = vec![("READ", done.read), ("WRITE", done.write)];
    calls.extend(done.other.iter().map(|&(name, calls)| (name, Calls { calls, bytes: 0 })));
    let sent = Sent { frames: 10, bytes: 1000, ..Sent::default() };
    NetworkRecord {
        layer: stack.layers()[position].label(),
        position,
        client: counts(&calls),
        server: counts(&calls),
        mount: None,
        calls: Some(Box::new(CallMetrics {
            own_writes: Some(AccessPattern {
                accesses: 100,
                bytes: 100 * 4096,
                sizes: BTreeMap::from([(4096, 100)]),
                ..AccessPattern::default()
            }),
            accesses: Some(accesses),
            ..CallMetrics::default()
        })),
        to_server: sent.clone(),
        to_client: sent,
    }
}

/// The layers as they are recorded: file systems and the medium show what is sent down.
fn layers(stack: &Stack, done: &Done) -> Vec<LayerRecord> {
    let direction = |bytes: u64| DirectionMetrics {
        queued: bytes / 4096,
        queued_bytes: bytes,
        issued: bytes / 4096,
        issued_bytes: bytes,
        ..DirectionMetrics::default()
    };
    let sent = LayerMetrics {
        read: direction(done.blocks_read),
        write: direction(done.blocks_written),
        d2d_seeks: Some(SeekMetrics {
            count: 50,
            span_sectors: 1000,
            cdf_sectors: (0..=50).map(|step| step * 20).collect(),
            ..SeekMetrics::default()
        }),
        ..writes(4096)
    };
    let machines = stack.machines();
    let of_stack = stack.indexed_layers().map(|(index, layer)| {
        let machine = machines[stack.machine_of(index)].label;
        let is_recorded =
            matches!(layer.definition(), LayerDefinition::FileSystem(_) | LayerDefinition::Medium(_));
        let metrics = is_recorded.then(|| sent.clone());
        LayerRecord {
            layer: layer.label(),
            role: stack.role(index),
            machine: machine.into(),
            metrics,
            frames: None,
        }
    });
    std::iter::once(layer("application", "", "client", None)).chain(of_stack).collect()
}

/// A cell that takes `slowdown` times as long as what is planted.
fn cell(stack: &str, workload: &str, block: u32, planted: Planted, slowdown: u64) -> CellRecord {
    let parsed = Stack::parse(stack).unwrap();
    let way = match (parsed.is_beside(), parsed.innermost_hypervisor()) {
        (false, _) if parsed.layers().iter().any(|layer| layer.partition().is_some()) => Way::Misaligned,
        (false, _) => Way::VmNfs,
        (true, None) => Way::Nfs,
        (true, Some(_)) => Way::GuestNfs,
    };
    let done = done(way, workload, planted);
    let of_all = measured(4096);
    let elapsed_ns = slowdown * elapsed_ns(&done, block);
    let class = |(name, operations, bytes): &(&str, u64, u64)| {
        let result = OperationResult { operations: *operations, bytes: *bytes, ..OperationResult::default() };
        (OperationClass((*name).to_owned()), result)
    };
    let load = LoadResult {
        workload: workload.to_owned(),
        elapsed_ns,
        operations: done.classes.iter().map(class).collect::<BTreeMap<_, _>>(),
        ..of_all.load.clone()
    };
    let networks = vec![network(&parsed, &done, accesses(workload, planted))];
    let layers = layers(&parsed, &done);
    let outcome = Outcome::Measured(Measured { load, layers, networks, ..of_all });
    CellRecord { workload: workload.into(), outcome, ..record(stack, block, 4096) }
}

fn judged(scale: &str, planted: Planted) -> (Vec<ClaimResult>, Vec<crate::Figure>) {
    let study = Study::parse("studies/virtual-nas.toml", FILE, Some(scale)).unwrap();
    let folder = TempDir::new().unwrap();
    let mut store = Store::open(&folder.path().join("r.sqlite")).unwrap();
    for stack in &study.stacks {
        for workload in &study.workloads {
            let Some(rule) = study.rule(stack, workload) else { continue };
            let is_slow = match planted {
                Planted::SlowApart => study.is_apart(stack, workload),
                Planted::SlowCompared => !study.is_baseline(stack) && !study.is_apart(stack, workload),
                Planted::Published | Planted::Opposite | Planted::Trickle => false,
            };
            let slowdown = if is_slow { 10 } else { 1 };
            for block in 0..rule.replications {
                store.insert(&cell(stack, workload, block, planted, slowdown)).unwrap();
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
        "H-6", "H-7", "H-8", "H-9", "H-17", "H-19", "H-20", "H-23", "H-25", "H-26", "H-27", "H-29", "H-30",
        "H-31", "H-32", "H-34", "H-38", "H-39", "H-40", "H-41",
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
