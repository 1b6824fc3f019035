//! Made-up cells of the study of virtual machines on network storage: with the published numbers, and with others.

use std::collections::BTreeMap;

use nestor_link::Sent;
use nestor_stack::{Layer, LayerDefinition, Stack};
use nestor_trace::rpc::RpcCounts;
use nestor_trace::{AccessPattern, CallMetrics, DirectionMetrics, FileAccesses, LayerMetrics, SeekMetrics};
use nestor_workload::{LoadResult, OperationClass, OperationResult};

use super::super::fixture::*;
use crate::network::NetworkRecord;
use crate::record::{CellRecord, LayerRecord, Measured, Outcome};

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
pub(super) enum Planted {
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
    let done = match () {
        () if asked.is("create-tree") => create(way, asked.width()),
        () if asked.is("stat-tree") => stat(way, one_directory),
        () if asked.is("nas-seq-write") => write(way, asked.is_small(), is_allocated),
        () => read(way, asked.is_small()),
    };
    if is_turned { with_other_reads(done, &asked) } else { done }
}

/// The same with what is read by far the other way round: a guest that would read nothing reads ahead ten times what it writes, and those who
/// read more than they were asked for read a tenth of it.
fn with_other_reads(done: Done, asked: &Asked<'_>) -> Done {
    const AHEAD: u64 = 64 << 10;
    match () {
        () if asked.is("nas-rand-read") => Done {
            read: Calls::of(done.read.bytes as f64 / 10.0, 4096),
            blocks_read: done.blocks_read / 10,
            ..done
        },
        () if asked.is("stat-tree") || done.read.calls > 0 => done,
        () => Done { read: Calls::of(640.0 * MIB as f64, AHEAD), ..done },
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
    match planted {
        Planted::Opposite => FileAccesses { reads: pattern(0, 0), writes: pattern(0, 0) },
        _ => FileAccesses { reads: pattern(98, 0), writes: pattern(52, 49) },
    }
}

/// What the server's loop device writes to the image, of a hundred writes.
fn own_writes(planted: Planted) -> AccessPattern {
    let size = if planted == Planted::Opposite { 128 << 10 } else { 4096 };
    AccessPattern {
        accesses: 100,
        bytes: 100 * size,
        sizes: BTreeMap::from([(size, 100)]),
        ..AccessPattern::default()
    }
}

fn network(stack: &Stack, done: &Done, workload: &str, planted: Planted) -> NetworkRecord {
    let is_nfs = |layer: &Layer| matches!(layer.definition(), LayerDefinition::NetworkFileSystem);
    let (position, layer) = stack.indexed_layers().find(|(_, layer)| is_nfs(layer)).unwrap();
    let mut calls = vec![("READ", done.read), ("WRITE", done.write)];
    calls.extend(done.other.iter().map(|&(name, calls)| (name, Calls { calls, bytes: 0 })));
    let sent = Sent { frames: 10, bytes: 1000, ..Sent::default() };
    NetworkRecord {
        layer: layer.label(),
        position,
        client: counts(&calls),
        server: counts(&calls),
        mount: None,
        calls: Some(Box::new(CallMetrics {
            own_writes: Some(own_writes(planted)),
            accesses: Some(accesses(workload, planted)),
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
        LayerRecord::new(layer.label(), stack.role(index), machine, metrics)
    });
    std::iter::once(layer("application", "", "client", None)).chain(of_stack).collect()
}

/// A cell that takes `slowdown` times as long as what is planted.
pub(super) fn cell(stack: &str, workload: &str, block: u32, planted: Planted, slowdown: u64) -> CellRecord {
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
    let networks = vec![network(&parsed, &done, workload, planted)];
    let layers = layers(&parsed, &done);
    let outcome = Outcome::Measured(Measured { load, layers, networks, ..of_all });
    CellRecord { workload: workload.into(), outcome, ..record(stack, block, 4096) }
}
