//! Made-up runs with everything that tracing can add: classes, distances, time lines, joined requests.

use nestor_correlate::{
    Choice, Correlation, Join, Level, LevelIndex, Node, Origin, Passage, Passed, SampledTree, TimeAtLevel,
};
use nestor_explain::{
    Account, Explanation, Finding, Holder, Line, MechanismName, Number, Part, PartRow, Proof,
};
use nestor_layout::Class;
use nestor_results::{Outcome, StoredRun};
use nestor_trace::event::Flags;
use nestor_trace::metrics::{ClassMetrics, SeekMetrics, Timeline};
use nestor_trace::{LayerMetrics, Operation, Request};

use super::fixture::*;

/// Runs of a nested stack, recorded in full.
pub fn traced_runs(workload: usize, blocks: u32) -> Vec<StoredRun> {
    let mut records = runs(2, workload, blocks);
    for record in &mut records {
        let Outcome::Measured(measured) = &mut record.outcome else { continue };
        let bytes = measured.load.bytes();
        let reads = record.workload.contains("read");
        for layer in &mut measured.layers {
            match (layer.layer.as_str(), layer.metrics.as_mut()) {
                ("ext3", Some(metrics)) => dress(metrics, bytes, reads, &GUEST, (0.94, 24.0, 0)),
                ("jfs", Some(metrics)) => dress(metrics, bytes, reads, &HOST, (0.62, 12.0, 2)),
                ("hdd", Some(metrics)) => dress(metrics, bytes, reads, &[], (0.55, 4.0, 3)),
                _ => {}
            }
        }
        measured.correlation = Some(correlation(reads));
        measured.trace_remarks = vec!["the layout of a second file system was not asked for".to_owned()];
    }
    stored(records)
}

/// How far the clock of each level is ahead of the one above.
const AHEAD_NS: u64 = 1_204_334_887;

/// Bytes of classes in thousandths of the data.
const GUEST: [(Class, u64); 6] = [
    (Class::FileData, 1000),
    (Class::Journal, 27),
    (Class::Inode, 6),
    (Class::AllocationMap, 2),
    (Class::Free, 1),
    (Class::Unknown, 1),
];
const HOST: [(Class, u64); 7] = [
    (Class::ImageData, 1036),
    (Class::Journal, 38),
    (Class::Inode, 7),
    (Class::AllocationMap, 24),
    (Class::ExtentMap, 3),
    (Class::Superblock, 1),
    (Class::Unknown, 2),
];

fn dress(
    metrics: &mut LayerMetrics,
    bytes: u64,
    reads: bool,
    classes: &[(Class, u64)],
    look: (f64, f64, u64),
) {
    let (sequential, depth, level) = look;
    let metrics_of = |(class, thousandths): &(Class, u64)| {
        let bytes = bytes / 1000 * thousandths;
        let (read_bytes, write_bytes) = if reads { (bytes, 0) } else { (0, bytes) };
        let deleted_bytes = if *class == Class::FileData { bytes / 200 } else { 0 };
        (*class, ClassMetrics { requests: bytes / 40_960 + 1, read_bytes, write_bytes, deleted_bytes })
    };
    metrics.classes = classes.iter().map(metrics_of).collect();
    let cdf = |i: usize| match i as f64 / 50.0 {
        share if share < sequential * 0.9 => 0,
        share => {
            ((share - sequential * 0.9) / (1.0 - sequential * 0.9)).powi(5).mul_add(33_000_000.0, 8.0) as u64
        }
    };
    metrics.d2d_seeks = Some(SeekMetrics {
        count: metrics.issued(),
        cdf_sectors: (0..=50).map(cdf).collect(),
        span_sectors: 33_554_432,
        ..SeekMetrics::default()
    });
    let steps = 200;
    let wave = |i: u32, phase: f64| {
        1.0 + 0.25 * (f64::from(i) / 9.0 + phase).sin() + 0.1 * (f64::from(i * i % 17) / 17.0)
    };
    // A write-back storm in the second half.
    let storm = |i: u32| if (120..135).contains(&i) { 0.25 } else { 1.0 };
    let step_bytes: Vec<u64> =
        (0..steps).map(|i| (bytes as f64 / f64::from(steps) * wave(i, depth) * storm(i)) as u64).collect();
    let nothing = vec![0; steps as usize];
    metrics.timeline = Some(Timeline {
        start_ns: 5_000_000_000 + level * AHEAD_NS,
        step_ns: 50_000_000,
        queued: nothing.clone(),
        issued: nothing.clone(),
        completed: nothing.clone(),
        read_bytes: if reads { step_bytes.clone() } else { nothing.clone() },
        write_bytes: if reads { nothing } else { step_bytes },
        outstanding: vec![depth; steps as usize],
        depth: (0..steps).map(|i| depth * wave(i, 1.0) / storm(i).sqrt()).collect(),
        depth_max: (0..steps).map(|i| (depth * wave(i, 1.0) / storm(i) * 1.3) as u32).collect(),
    });
}

/// One request of a tree, its times in microseconds after the tree's beginning.
pub fn request(id: u64, class: Class, kib: u64, times_us: (u64, u64, u64)) -> Request {
    let at = |us: u64| 7_000_000_000 + us * 1_000;
    Request {
        id,
        operation: Operation::Write,
        flags: Flags::default(),
        class,
        offset: 4_096 * id,
        bytes: kib << 10,
        queued_ns: at(times_us.0),
        issued_ns: at(times_us.1),
        completed_ns: at(times_us.2),
        bios: 5,
        pid: 433,
    }
}

pub fn node(level: usize, request: Request, origin: Origin, children: Vec<Node>) -> Node {
    Node { level: LevelIndex::at(level), request, origin, shared_with: 0, children }
}

/// A write of the guest that is split on the host, and makes the host's file system write its log.
fn slow_write() -> Node {
    use Class::{AllocationMap, FileData, ImageData, Journal, Unknown};
    let disk = |id, kib, times, origin| node(3, request(id, Unknown, kib, times), origin, Vec::new());
    let host_data = node(
        2,
        request(90_211, ImageData, 128, (1_400, 9_800, 61_000)),
        Origin::Parent,
        vec![
            disk(2_901, 64, (9_900, 17_400, 31_200), Origin::Parent),
            disk(2_904, 64, (9_950, 44_000, 60_700), Origin::Parent),
        ],
    );
    let host_log = node(
        2,
        request(90_214, Journal, 12, (61_300, 61_400, 88_100)),
        Origin::Journal,
        vec![disk(2_911, 12, (61_500, 61_600, 88_000), Origin::Parent)],
    );
    let map = node(
        2,
        request(90_216, AllocationMap, 4, (88_300, 88_310, 96_400)),
        Origin::Metadata,
        vec![Node { shared_with: 3, ..disk(2_915, 4, (88_400, 88_450, 96_300), Origin::Parent) }],
    );
    let image = node(
        1,
        request(3_301, FileData, 128, (900, 1_200, 97_000)),
        Origin::Parent,
        vec![host_data, host_log, map],
    );
    node(0, request(3_300, FileData, 128, (0, 600, 97_900)), Origin::Parent, vec![image])
}

fn median_write() -> Node {
    use Class::{FileData, ImageData, Unknown};
    let disk = node(3, request(1_204, Unknown, 8, (260, 7_900, 12_300)), Origin::Parent, Vec::new());
    let host = node(2, request(41_002, ImageData, 8, (190, 240, 12_400)), Origin::Parent, vec![disk]);
    let image = node(1, request(1_601, FileData, 8, (120, 150, 12_500)), Origin::Parent, vec![host]);
    node(0, request(1_600, FileData, 8, (0, 20, 12_900)), Origin::Parent, vec![image])
}

/// A flush that empties a cache: more requests than anyone wants to see.
fn flush() -> Node {
    let pages: Vec<Node> = (0..40)
        .map(|i| {
            let times = (2_000 + i * 900, 2_100 + i * 900, 6_000 + i * 950);
            node(2, request(70_000 + i, Class::ImageData, 64, times), Origin::FlushOfParent, Vec::new())
        })
        .collect();
    let bare =
        |id, times| Request { operation: Operation::Flush, bytes: 0, ..request(id, Class::Flush, 0, times) };
    let image = node(1, bare(811, (700, 900, 46_000)), Origin::Parent, pages);
    node(0, bare(810, (0, 100, 46_500)), Origin::Parent, vec![image])
}

pub fn correlation(reads: bool) -> Correlation {
    let level = |layer: &str, kind: &str, machine: &str, requests| Level {
        layer: layer.to_owned(),
        kind: kind.into(),
        machine: machine.into(),
        requests,
        misaligned: 0,
    };
    let join = |above: usize, origins: &[(Origin, u64)], unmatched_above, added_ns, clock_bound_ns| Join {
        above: LevelIndex::at(above),
        origins: origins.iter().copied().collect(),
        origin_bytes: origins.iter().map(|(origin, n)| (*origin, n * 16_384)).collect(),
        unmatched_above,
        absorbed: if above == 1 { 412 } else { 0 },
        split: 120 * above as u64,
        merged: 31 * above as u64,
        added: spread(3_310, added_ns),
        clock_offset_ns: -(AHEAD_NS as i64),
        clock_drift_ppb: 212,
        clock_bound_ns,
        ..Join::default()
    };
    let tree = |name: &str, root| SampledTree { choice: Choice::try_from(name.to_owned()).unwrap(), root };
    let word = if reads { "read" } else { "write" };
    Correlation {
        levels: vec![
            level("ext3", "guest block", "guest", 3_310),
            level("kvm:cache=writethrough", "hypervisor", "host", 3_306),
            level("jfs", "host block", "host", 10_768),
            level("hdd", "medium", "ground", 2_967),
        ],
        joins: vec![
            join(0, &[(Origin::Parent, 3_306)], 10, 880_000, 18_400),
            join(
                1,
                &[
                    (Origin::Parent, 7_400),
                    (Origin::WriteBack, 1_900),
                    (Origin::Journal, 1_120),
                    (Origin::Metadata, 340),
                    (Origin::Unknown, 8),
                ],
                0,
                3_100_000,
                0,
            ),
            join(2, &[(Origin::Parent, 2_967)], 4, 7_900_000, 2_100),
        ],
        trees: vec![
            tree(&format!("median {word}"), median_write()),
            tree(&format!("p99 {word}"), slow_write()),
            tree("p99 flush", flush()),
        ],
        passage: passage(if reads { Operation::Read } else { Operation::Write }),
        remarks: Vec::new(),
        ..Correlation::default()
    }
}

/// Where the guest's requests were: most of the time of a flush is the host file system's, which waits for its log.
fn passage(data: Operation) -> Passage {
    const MS: u64 = 1_000_000;
    let passed = |requests: u64, without_lowest: u64, parts_ms: [(u64, u64); 4]| {
        let level = |(queued, issued)| TimeAtLevel {
            queued_ns: requests * queued * MS / 10,
            issued_ns: requests * issued * MS / 10,
        };
        let levels = parts_ms.map(level);
        let whole_ns = levels.iter().map(|level| level.ns()).sum();
        Passed { requests, without_lowest, whole_ns, levels: levels.to_vec() }
    };
    let operations = [
        (data, passed(3_298, 412, [(2, 3), (0, 17), (4, 21), (53, 80)])),
        (Operation::Flush, passed(12, 12, [(1, 11), (0, 42), (0, 410), (0, 0)])),
    ];
    Passage { level: LevelIndex::TOP, operations: operations.into() }
}

/// Where the 50 us more come from.
fn account() -> Account {
    let line = |holder, effect_ns, part| Line {
        holder,
        effect_ns,
        parts: [(part, effect_ns)].into(),
        executors: std::collections::BTreeMap::new(),
    };
    let row = |part, here_ns, baseline_ns| PartRow {
        part,
        here_ns,
        baseline_ns,
        requests: None,
        baseline_requests: None,
        holder: None,
    };
    let journal = Holder::Mechanism(MechanismName::JournalOfJournal);
    Account {
        whole_ns: 50_000,
        lines: vec![
            line(journal, 35_500, Part::HostJournal),
            line(Holder::Mechanism(MechanismName::HostAmplification), 10_000, Part::HostMetadata),
            line(Holder::NotExplained, 6_500, Part::Idle),
            line(Holder::Mechanism(MechanismName::HostReadAhead), -2_000, Part::Idle),
        ],
        parts: vec![
            PartRow {
                requests: Some(1.5),
                baseline_requests: Some(0.0),
                holder: Some(journal),
                ..row(Part::HostJournal, 35_500, 0)
            },
            row(Part::HostMetadata, 10_000, 0),
            row(Part::Idle, 254_500, 250_000),
        ],
    }
}

/// Where the time of a run goes, without a baseline.
pub fn explanation_without_baseline() -> Explanation {
    let mut alone = Explanation {
        baseline: None,
        baseline_runs: Vec::new(),
        baseline_time_per_operation_ns: None,
        change_percent: None,
        change_interval_percent: None,
        ..explanation()
    };
    alone
        .findings
        .iter_mut()
        .flat_map(|finding| &mut finding.numbers)
        .for_each(|number| number.baseline = None);
    alone
}

/// Why the nested stack is slower.
pub fn explanation() -> Explanation {
    let number = |what: &str, here, baseline, unit: &str| Number {
        what: what.to_owned(),
        here,
        baseline: Some(baseline),
        unit: unit.to_owned(),
    };
    let proof = Proof {
        run: 3,
        level: "jfs host block".to_owned(),
        request: 90_214,
        words: "write of 12 KiB to the journal, 26.8 ms".to_owned(),
    };
    let finding = |mechanism, words: &str, effect_ns, share| Finding {
        mechanism,
        layer: "jfs".to_owned(),
        words: words.to_owned(),
        effect_ns,
        share,
        numbers: vec![
            number("JFS log for each byte of the guest's journal", 1.37, 0.0, ""),
            number("seeks between data and log", 412.0, 12.0, "per second"),
        ],
        proofs: vec![proof.clone()],
        advice: Some("put the image on a file system without a journal of data".to_owned()),
    };
    Explanation {
        stack: "ext3/kvm/raw/jfs/hdd".into(),
        workload: "fio:seq-write".into(),
        runs: vec![3],
        baseline: Some("ext3/kvm/hdd".into()),
        baseline_runs: vec![1],
        time_per_operation_ns: 300_000.0,
        baseline_time_per_operation_ns: Some(250_000.0),
        change_percent: Some(-14.7),
        change_interval_percent: Some([-18.9, -10.2]),
        findings: vec![
            finding(
                MechanismName::JournalOfJournal,
                "19.2 MiB of JFS log for 14.0 MiB of ext3 journal, 412 extra seeks.",
                35_500.0,
                0.71,
            ),
            finding(
                MechanismName::HostAmplification,
                "allocation maps <of JFS> between the data, 160 short seeks.",
                10_000.0,
                0.2,
            ),
            finding(
                MechanismName::HostReadAhead,
                "reads of the journal's replay come from memory.",
                -2_000.0,
                -0.04,
            ),
        ],
        unexplained_share: 0.09,
        account: account(),
        doubts: vec!["only 3 runs each".to_owned()],
    }
}
