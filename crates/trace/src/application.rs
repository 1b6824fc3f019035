//! The operations of an application as requests: fio's own record of every one of them.
//!
//! fio's iolog says what was asked of which file and when it was submitted, in microseconds since an unknown moment;
//! its latency log says how long each operation took and, in whole milliseconds, when it ended. Together they give
//! every operation with its file, its submission and its exact duration; of syncs, see [`syncs`]. An operation on a file is put where the file
//! system has its data on the device, so that it can be joined with the requests of the block layer.

mod syncs;

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::io::BufReader;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use nestor_layout::{Class, Layout};
use serde::{Deserialize, Serialize};

use crate::decode::fio::{IologReader, LatencyLogReader};
use crate::decode::{RequestSource, TracedRequest};
use crate::error::TraceError;
use crate::file_extents::FileExtents;
use crate::request::{Operation, Request};
use crate::request_file::{ClockReading, RequestHeader, RequestWriter};
use syncs::syncs_between;

/// By how much fio's logs are early on average, and how far they can be from that: what it adds to the milliseconds since its beginning is
/// the time of day then, which is cut to a millisecond too (`set_epoch_time` in fio's gettime.c).
const EPOCH_CUT_NS: i128 = 500_000;
/// Nanoseconds of a millisecond, which is what a latency log's times are cut to.
const MILLISECOND_NS: i128 = 1_000_000;
/// What an iolog's times are cut to.
const MICROSECOND_NS: i128 = 1_000;

/// What fio left, and what to make of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApplicationOptions {
    /// The latency log: of every operation, with offsets and the times of day (`log_offset`, `log_unix_epoch`).
    pub latency_log: PathBuf,
    /// The iolog, version 3.
    pub iolog: PathBuf,
    /// The layout of the file system with the files; not needed for operations on a device.
    pub layout: Option<PathBuf>,
    /// File for the requests.
    pub requests: Option<PathBuf>,
    /// What the file of requests is to call the machine. Its clock is fio's, not the machine's own.
    pub machine: String,
}

/// The operations of an application.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApplicationSummary {
    /// Operations.
    pub operations: u64,
    /// Of these, whose submission is known.
    pub joined: u64,
    /// Of these, whose place on the device is known.
    pub placed: u64,
    /// Requests in the file; an operation on several extents is several.
    pub requests: u64,
    /// Bytes that each class of operation (`read`, `write`) completed in each second, the first at the first submission.
    pub bytes_by_second: BTreeMap<String, Vec<u64>>,
    /// How far the beginning of fio's clock can be from where it was put.
    pub clock_bound_ns: u64,
    /// What makes it less certain than it seems.
    pub remarks: Vec<String>,
}

/// What two records of one operation have in common.
type Key = (Operation, u64, u64);

/// An operation that was found in both records; times since fio's own beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Known {
    submitted_ns: u64,
    latency_ns: u64,
    /// When it ended by the latency log, `CLOCK_REALTIME` cut to milliseconds; `None` for a sync that the log does not have.
    ended_realtime_ns: Option<u64>,
    target: u32,
    operation: Operation,
    offset: u64,
    bytes: u64,
}

/// What the iolog says of an operation; times since fio's own beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Submission {
    submitted_ns: u64,
    target: u32,
    operation: Operation,
}

/// Reads both records, counts, and writes the requests.
///
/// # Errors
/// A file cannot be read or is something else; the requests cannot be written.
pub fn summarize_application(options: &ApplicationOptions) -> Result<ApplicationSummary, TraceError> {
    let (by_key, mut in_order, names) = submissions(&options.iolog)?;
    in_order.sort_by_key(|one| one.submitted_ns);
    let mut summary = ApplicationSummary::default();
    let mut known = match_up(by_key, completions(&options.latency_log)?, &mut summary);
    let unknown = summary.operations - summary.joined;
    if unknown > 0 {
        summary.remarks.push(format!("{unknown} operations are in only one of fio's two records"));
    }
    let Some((begin_ns, bound_ns)) = beginning(&known) else { return Ok(summary) };
    let begin_ns = begin_ns + EPOCH_CUT_NS;
    summary.clock_bound_ns = bound_ns + EPOCH_CUT_NS as u64;
    summary.bytes_by_second = bytes_by_second(&known);
    let syncs = syncs_between(&in_order, &known);
    summary.operations += syncs.len() as u64;
    summary.joined += syncs.len() as u64;
    known.extend(syncs);
    known.sort_by_key(|k| (k.submitted_ns + k.latency_ns, k.submitted_ns));
    if let Some(path) = &options.requests {
        let places = Places::of(&names, options.layout.as_deref(), &mut summary.remarks)?;
        write(path, &options.machine, &known, begin_ns, &places, &mut summary)?;
    }
    Ok(summary)
}

fn open(path: &Path) -> Result<BufReader<File>, TraceError> {
    let file = File::open(path).map_err(TraceError::io("open the application's log", path))?;
    Ok(BufReader::with_capacity(1 << 16, file))
}

/// Every operation of the iolog by what it asks for, in the order of submission; all of them; and the names of the files.
#[allow(clippy::type_complexity)]
fn submissions(
    path: &Path,
) -> Result<(HashMap<Key, Vec<(u64, u32)>>, Vec<Submission>, Vec<String>), TraceError> {
    let mut reader = IologReader::new(open(path)?, path);
    let mut found: HashMap<Key, Vec<(u64, u32)>> = HashMap::new();
    let mut all = Vec::new();
    while let Some(TracedRequest { target, request }) = reader.next_request()? {
        found.entry(key(&request)).or_default().push((request.queued_ns, target));
        all.push(Submission { submitted_ns: request.queued_ns, target, operation: request.operation });
    }
    Ok((found, all, reader.targets().to_vec()))
}

/// Every operation of the latency log by what it asked for: its end and how long it took.
fn completions(path: &Path) -> Result<HashMap<Key, Vec<(u64, u64)>>, TraceError> {
    let mut reader = LatencyLogReader::new(open(path)?, path);
    let mut found: HashMap<Key, Vec<(u64, u64)>> = HashMap::new();
    while let Some(TracedRequest { request, .. }) = reader.next_request()? {
        let latency_ns = request.completed_ns - request.queued_ns;
        found.entry(key(&request)).or_default().push((request.completed_ns, latency_ns));
    }
    Ok(found)
}

fn key(request: &Request) -> Key {
    match request.operation {
        // fio gives its syncs the size of a block in one of the two records.
        Operation::Flush => (Operation::Flush, 0, 0),
        operation => (operation, request.offset, request.bytes),
    }
}

/// Pairs what was submitted with what ended. Operations that ask for the same (of several files, or again) keep their
/// order: of two of them the one that was submitted first is the one whose end less its duration comes first. Ends are
/// known to the millisecond, so two that were submitted within one (at the same position of two files) may be taken
/// for each other.
fn match_up(
    mut submissions: HashMap<Key, Vec<(u64, u32)>>,
    completions: HashMap<Key, Vec<(u64, u64)>>,
    summary: &mut ApplicationSummary,
) -> Vec<Known> {
    let mut known = Vec::new();
    for (key, mut ended) in completions {
        ended.sort_by_key(|(end, latency)| end.saturating_sub(*latency));
        let submitted = submissions.remove(&key).unwrap_or_default();
        let (operation, offset, bytes) = key;
        // At its end fio syncs every file once more, which it does not report.
        let unreported = if operation == Operation::Flush { 0 } else { submitted.len() };
        summary.operations += ended.len().max(unreported) as u64;
        let pairs = ended.into_iter().zip(submitted);
        known.extend(pairs.map(|((ended_realtime_ns, latency_ns), (submitted_ns, target))| Known {
            submitted_ns,
            latency_ns,
            ended_realtime_ns: Some(ended_realtime_ns),
            target,
            operation,
            offset,
            bytes,
        }));
    }
    let left = submissions.iter().filter(|((operation, ..), _)| *operation != Operation::Flush);
    summary.operations += left.map(|(_, left)| left.len() as u64).sum::<u64>();
    summary.joined = known.len() as u64;
    known.sort_by_key(|k| (k.submitted_ns + k.latency_ns, k.submitted_ns));
    known
}

/// `CLOCK_REALTIME` when fio's own clock began, and how far it can be off.
///
/// Each operation bounds it: its end is in a known millisecond, its submission and its duration too. The
/// moment on which most operations agree is taken; a wrong pair disagrees with all others.
fn beginning(known: &[Known]) -> Option<(i128, u64)> {
    let mut ends: Vec<(i128, i32)> = Vec::with_capacity(known.len() * 2);
    for (operation, ended_realtime_ns) in known.iter().filter_map(|one| Some((one, one.ended_realtime_ns?))) {
        let passed = i128::from(operation.submitted_ns) + i128::from(operation.latency_ns);
        let earliest = i128::from(ended_realtime_ns) - passed - MICROSECOND_NS;
        ends.push((earliest, 1));
        ends.push((earliest + MILLISECOND_NS + MICROSECOND_NS, -1));
    }
    ends.sort_unstable();
    let (mut agreeing, mut most, mut best) = (0, 0, None);
    for pair in ends.windows(2) {
        agreeing += pair[0].1;
        if agreeing > most {
            most = agreeing;
            best = Some((pair[0].0, pair[1].0));
        }
    }
    let (low, high) = best?;
    Some(((low + high) / 2, u64::try_from((high - low + 1) / 2).unwrap_or(u64::MAX)))
}

fn bytes_by_second(known: &[Known]) -> BTreeMap<String, Vec<u64>> {
    let first_ns = known.iter().map(|k| k.submitted_ns).min().unwrap_or(0);
    let mut by_class: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for operation in known {
        let class = match operation.operation {
            Operation::Read => "read",
            Operation::Write => "write",
            Operation::Flush | Operation::Discard => continue,
        };
        let second = (operation.submitted_ns + operation.latency_ns - first_ns) / 1_000_000_000;
        // A time beyond a year is garbage, and would only use up memory.
        let Ok(second) = usize::try_from(second.min(366 * 24 * 3600)) else { continue };
        let bins = by_class.entry(class.to_owned()).or_default();
        if bins.len() <= second {
            bins.resize(second + 1, 0);
        }
        bins[second] += operation.bytes;
    }
    by_class
}

/// Where the files' bytes are on the device.
enum Places {
    /// The application works on the device itself.
    Device,
    Files(Vec<FileExtents>),
}

impl Places {
    fn of(names: &[String], layout: Option<&Path>, remarks: &mut Vec<String>) -> Result<Self, TraceError> {
        if names.iter().any(|name| fs::metadata(name).is_ok_and(|m| m.file_type().is_block_device())) {
            return Ok(Self::Device);
        }
        let Some(path) = layout else {
            remarks.push("without a layout, the places of the files are not known".to_owned());
            return Ok(Self::Files(vec![FileExtents::default(); names.len()]));
        };
        let file = File::open(path).map_err(TraceError::io("open the layout", path))?;
        let layout =
            Layout::read_from(&mut BufReader::new(file)).map_err(TraceError::io("read the layout", path))?;
        let extents = |name: &String| {
            let inode =
                fs::metadata(name).map_err(TraceError::io("look at the application's file", name))?.ino();
            Ok(FileExtents::new(layout.file(inode)))
        };
        Ok(Self::Files(names.iter().map(extents).collect::<Result<_, TraceError>>()?))
    }

    /// The parts of an operation on the device: offset and bytes; none where that is not known.
    fn parts(&self, operation: &Known) -> Vec<(u64, u64)> {
        if operation.operation == Operation::Flush {
            return vec![(0, 0)];
        }
        match self {
            Self::Device => vec![(operation.offset, operation.bytes)],
            Self::Files(files) => files
                .get(operation.target as usize)
                .map_or_else(Vec::new, |file| file.parts(operation.offset, operation.bytes)),
        }
    }
}

fn write(
    path: &Path,
    machine: &str,
    known: &[Known],
    begin_realtime_ns: i128,
    places: &Places,
    summary: &mut ApplicationSummary,
) -> Result<(), TraceError> {
    let now = crate::recording::Moment::now();
    // On the machine's own clock, as of now; the join of the requests finds out the rest.
    let begin_ns = begin_realtime_ns - i128::from(now.realtime_ns) + i128::from(now.monotonic_ns);
    let begin_ns = u64::try_from(begin_ns.max(0)).unwrap_or(0);
    let header = RequestHeader {
        layer: "application".to_owned(),
        kind: RequestHeader::APPLICATION.to_owned(),
        machine: machine.to_owned(),
        clock: ClockReading { realtime_ns: Some(now.realtime_ns), monotonic_ns: now.monotonic_ns },
        ..RequestHeader::default()
    };
    let mut writer = RequestWriter::create(path, header)?;
    for operation in known {
        let parts = places.parts(operation);
        summary.placed += u64::from(!parts.is_empty());
        for (offset, bytes) in parts {
            let queued_ns = begin_ns + operation.submitted_ns;
            let is_flush = operation.operation == Operation::Flush;
            writer.push(&Request {
                id: summary.requests,
                operation: operation.operation,
                flags: crate::event::Flags::default().with(crate::event::Flags::FLUSH, is_flush),
                class: if is_flush { Class::Flush } else { Class::FileData },
                offset,
                bytes,
                queued_ns,
                issued_ns: queued_ns,
                completed_ns: queued_ns + operation.latency_ns,
                bios: 1,
                pid: 0,
            })?;
            summary.requests += 1;
        }
    }
    let homeless = summary.joined - summary.placed;
    if homeless > 0 {
        summary.remarks.push(format!("the places of {homeless} operations on the device are not known"));
    }
    writer.finish().map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request_file::RequestReader;
    use nestor_layout::Extent;

    /// Four writes to two files, two of them at the same offset of different files.
    const IOLOG: &str = "fio version 3 iolog\n2 DIR/a add\n3 DIR/b add\n100 DIR/a open\n150 DIR/a write 0 8192\n\
                         1660 DIR/b write 0 8192\n5000 DIR/a write 8192 8192\n9000 DIR/a sync\n9100 DIR/b read 4096 4096\n";
    /// fio's clock began at 1,000,000.0005 s.
    const LATENCIES: &str = "1000000002, 1800000, 1, 8192, 0, 0\n1000000006, 3900000, 1, 8192, 0, 0\n\
                             1000000006, 1100000, 1, 8192, 8192, 0\n1000000010, 700000, 3, 0, 0, 0\n\
                             1000000011, 1500000, 0, 4096, 4096, 0\n";

    fn summarized() -> (ApplicationSummary, Vec<Request>) {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let here = directory.path().display().to_string();
        fs::write(path("a"), "a").unwrap();
        fs::write(path("b"), "b").unwrap();
        fs::write(path("iolog"), IOLOG.replace("DIR", &here)).unwrap();
        fs::write(path("latencies"), LATENCIES).unwrap();
        let extent = |start, bytes, name: &str, offset| Extent {
            start,
            bytes,
            class: Class::FileData,
            inode: Some(fs::metadata(path(name)).unwrap().ino()),
            file_offset: Some(offset),
        };
        let layout = Layout {
            file_system: "ext4".into(),
            block_bytes: 4096,
            total_bytes: 1 << 20,
            extents: vec![
                extent(8192, 12_288, "a", 0),
                extent(40_960, 8192, "b", 0),
                extent(81_920, 4096, "a", 12_288),
            ],
            remarks: Vec::new(),
        };
        layout.write_to(&mut File::create(path("layout")).unwrap()).unwrap();
        let options = ApplicationOptions {
            latency_log: path("latencies"),
            iolog: path("iolog"),
            layout: Some(path("layout")),
            requests: Some(path("requests")),
            machine: "guest".into(),
        };
        let summary = summarize_application(&options).unwrap();
        let requests = RequestReader::open(path("requests")).unwrap().map(|r| r.unwrap()).collect();
        (summary, requests)
    }

    #[test]
    fn both_records_make_exact_operations_on_the_device() {
        let (summary, requests) = summarized();
        assert_eq!((summary.operations, summary.joined, summary.placed, summary.requests), (5, 5, 5, 6));
        let begin = requests[0].queued_ns - 150_000;
        let short: Vec<_> = requests
            .iter()
            .map(|r| (r.operation, r.offset, r.bytes, r.queued_ns - begin, r.completed_ns - r.queued_ns))
            .collect();
        assert_eq!(
            short,
            [
                (Operation::Write, 8192, 8192, 150_000, 1_800_000),
                (Operation::Write, 40_960, 8192, 1_660_000, 3_900_000),
                // Cut where the file continues elsewhere.
                (Operation::Write, 16_384, 4096, 5_000_000, 1_100_000),
                (Operation::Write, 81_920, 4096, 5_000_000, 1_100_000),
                (Operation::Flush, 0, 0, 9_000_000, 700_000),
                (Operation::Read, 45_056, 4096, 9_100_000, 1_500_000),
            ]
        );
        assert_eq!(summary.remarks, [""; 0]);
        assert_eq!(summary.bytes_by_second["write"], [24_576]);
        assert_eq!(summary.bytes_by_second["read"], [4096]);
    }

    #[test]
    fn the_beginning_is_where_most_operations_agree() {
        let known = |submitted_us: u64, latency_us: u64, ended_ms: u64| Known {
            submitted_ns: submitted_us * 1000,
            latency_ns: latency_us * 1000,
            ended_realtime_ns: Some(ended_ms * 1_000_000),
            target: 0,
            operation: Operation::Read,
            offset: 0,
            bytes: 0,
        };
        // It began 300 us after a full millisecond; the last pair does not belong together.
        let all = [known(0, 710, 1001), known(100, 590, 1000), known(5000, 695, 1005), known(0, 0, 2000)];
        let (begin, bound) = beginning(&all).unwrap();
        let truth = 1_000_300_000;
        assert!((begin - truth).unsigned_abs() <= u128::from(bound) && bound < 20_000, "{begin} +- {bound}");
        assert_eq!(beginning(&[]), None);
    }
}
