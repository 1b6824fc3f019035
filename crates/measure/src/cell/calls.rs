//! The calls of network file systems, recorded at both ends and joined, and held against what the kernels counted.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::BufReader;
use std::path::{Path, PathBuf};

use nestor_capture::{COUNTERS, TRACEFS_TEXT};
use nestor_lab::{BuiltFileSystem, BuiltStack};
use nestor_machine::Command;
use nestor_results::rpc_version;
use nestor_stack::{LayerIndex, MachineIndex};
use nestor_text::units::{count, plural_u64};
use nestor_trace::calls::{differences, join};
use nestor_trace::decode::calls::FileNumber;
use nestor_trace::event::Device;
use nestor_trace::recording::SUMMARY_FILE;
use nestor_trace::rpc::{CallKind, RpcCounts, RpcError, RpcVersion};
use nestor_trace::{
    CallEnd, CallMetrics, CallRequests, ClockReading, RecordSummary, RequestHeader, RequestWriter,
    TraceError, TracedCalls,
};

use super::CellError;
use super::condense::fetch;
use super::file_places::FilePlaces;
use super::names::PointName;
use super::recorder::Recorder;
use super::trace_problem::TraceProblem;

/// Longest text of calls that is fetched from a machine: some 150 bytes for each of 20 million events.
const MOST_TEXT_BYTES: u64 = 3 << 30;

/// Longest counters that are fetched: each mount of NFS has 10 KiB of them.
const MOST_COUNTERS_BYTES: u64 = 4 << 20;

/// An end of the calls of a network file system.
#[derive(Clone, Copy, Debug)]
pub(super) struct CallPoint {
    pub layer: LayerIndex,
    pub end: CallEnd,
    pub machine: MachineIndex,
}

impl CallPoint {
    /// Of all network file systems of a stack, both ends.
    pub fn all_of(built: &BuiltStack) -> Vec<Self> {
        let stack = &built.stack;
        let mounted = built.file_systems.iter().map(|mounted| mounted.layer);
        let mounted = mounted.filter(|layer| rpc_version(stack.layer(*layer)).is_some());
        let ends = mounted.filter_map(|layer| {
            let (link, _) = stack.link_below(layer)?;
            let point = |end, at| Self { layer, end, machine: stack.machine_of(at) };
            Some([point(CallEnd::Client, layer), point(CallEnd::Server, link.below())])
        });
        ends.flatten().collect()
    }
}

/// What was recorded at one end, on this machine.
pub(super) struct RecordedCalls {
    dropped_events: u64,
    /// The machine's clocks when it began.
    clock: ClockReading,
    text: PathBuf,
    /// What the kernel had counted when recording began and when it ended.
    counters: [PathBuf; 2],
}

impl RecordedCalls {
    /// Fetches a recording into `directory` and removes it in its machine.
    pub fn fetch(
        recorder: &Recorder,
        (layer, end): (LayerIndex, CallEnd),
        directory: &Path,
    ) -> Result<Self, CellError> {
        let machine = &recorder.machine;
        let beside = |name: &str| format!("{}/{name}", recorder.directory);
        let summary = machine.read_file(&beside(SUMMARY_FILE))?;
        let summary =
            RecordSummary::parse(&summary, beside(SUMMARY_FILE).into()).map_err(TraceProblem::from)?;
        let end = match end {
            CallEnd::Client => "client",
            CallEnd::Server => "server",
        };
        let here = |name: &str| directory.join(format!("calls-{}-{end}-{name}", layer.position()));
        let text = fetch(machine, &beside(TRACEFS_TEXT), &here(TRACEFS_TEXT), MOST_TEXT_BYTES)?;
        let [before, after] =
            COUNTERS.map(|name| fetch(machine, &beside(name), &here(name), MOST_COUNTERS_BYTES));
        machine.run(Command::new(["rm", "-r", "--", &recorder.directory]))?;
        let clock = ClockReading {
            realtime_ns: Some(summary.started_realtime_ns),
            monotonic_ns: summary.started_monotonic_ns,
        };
        Ok(Self { dropped_events: summary.dropped_events, clock, text, counters: [before?, after?] })
    }

    fn traced(&self) -> Result<TracedCalls, TraceError> {
        let file = File::open(&self.text).map_err(TraceError::io("open the trace", &self.text))?;
        TracedCalls::read(BufReader::with_capacity(1 << 18, file), &self.text)
    }

    /// What the kernel counted while it was recorded.
    fn counted(&self, read: impl Fn(&str) -> Result<RpcCounts, RpcError>) -> Result<RpcCounts, NotJoined> {
        let [before, after] = self.counters.each_ref().map(|path| {
            let text = fs::read(path).map_err(TraceError::io("read the counters", path))?;
            Ok::<_, NotJoined>(read(&String::from_utf8_lossy(&text))?)
        });
        Ok(after?.since(&before?))
    }
}

/// Why calls were not joined. It fails no cell: the workload was measured without it.
#[derive(Debug, thiserror::Error)]
enum NotJoined {
    #[error("{0}")]
    Trace(#[from] TraceError),
    #[error("{0}")]
    Counters(#[from] RpcError),
}

/// The numbers of each network file system, by its position, and in `remarks` what does not fit together. The calls that move data are written
/// into `files` as requests, by the layer and the end: on the image that lies on the file system, else on the server's device, where `places`
/// has the server's files.
pub(super) fn join_calls(
    built: &BuiltStack,
    recorded: &BTreeMap<(LayerIndex, CallEnd), RecordedCalls>,
    places: &BTreeMap<LayerIndex, FilePlaces>,
    files: &mut BTreeMap<(LayerIndex, CallEnd), PathBuf>,
    remarks: &mut Vec<String>,
) -> BTreeMap<LayerIndex, CallMetrics> {
    let mut all = BTreeMap::new();
    for mounted in &built.file_systems {
        let layer = built.stack.layer(mounted.layer);
        let of = |end| recorded.get(&(mounted.layer, end));
        let Some(((client, server), version)) =
            of(CallEnd::Client).zip(of(CallEnd::Server)).zip(rpc_version(layer))
        else {
            continue;
        };
        let label = layer.label();
        match joined(built, mounted, places.get(&mounted.layer), version, [client, server]) {
            Ok(Joined { metrics, requests, said }) => {
                files.extend(requests.into_iter().map(|(end, file)| ((mounted.layer, end), file)));
                remarks.extend(said.into_iter().map(|said| format!("calls of {label}: {said}")));
                all.insert(mounted.layer, metrics);
            }
            Err(e) => remarks.push(format!("the calls of {label} could not be joined: {e}")),
        }
    }
    all
}

/// The calls of one network file system.
struct Joined {
    metrics: CallMetrics,
    /// Files of those that move data.
    requests: Vec<(CallEnd, PathBuf)>,
    said: Vec<String>,
}

fn joined(
    built: &BuiltStack,
    mounted: &BuiltFileSystem,
    places: Option<&FilePlaces>,
    version: RpcVersion,
    [client, server]: [&RecordedCalls; 2],
) -> Result<Joined, NotJoined> {
    let (here, mut there) = (client.traced()?, server.traced()?);
    let mut said = Vec::new();
    let image = loop_image(built, mounted.layer).unwrap_or_else(|reason| {
        said.push(format!("what a loop device writes to its image is not known: {reason}"));
        None
    });
    there.keep_own_writes_of(image);
    let mount_point = Path::new(&mounted.mounting.target);
    let counted = [
        client.counted(|text| RpcCounts::of_client(text, mount_point))?,
        server.counted(|text| RpcCounts::of_server_calls(text, version))?,
    ];
    let lost =
        |recorded: &RecordedCalls, traced: &TracedCalls| recorded.dropped_events.max(traced.lost_events);
    let dropped = lost(client, &here) + lost(server, &there);
    let joined = join(&here, &there);
    let metrics = CallMetrics::of(&joined, dropped);
    said.extend(counted_otherwise((CallEnd::Client, "client"), &here, &counted[0]));
    said.extend(counted_otherwise((CallEnd::Server, "server"), &there, &counted[1]));
    if version == RpcVersion::V4 {
        let operations = server.counted(|text| RpcCounts::of_server(text, version))?;
        said.extend(contents_counted_otherwise(&counted[0], &operations));
    }
    said.extend(unjoined(&metrics));
    let requests = match (has_image(built, mounted.layer), places) {
        (true, _) => Some((CallRequests::on_main_file(&joined), "of other files than the image")),
        (false, Some(places)) => Some((
            CallRequests::on_device(&joined, places),
            "of files whose place at the server is not known",
        )),
        (false, None) => None,
    };
    let requests = match requests {
        Some((requests, others)) => {
            if requests.unplaced > 0 {
                let unplaced = plural_u64(requests.unplaced, "access", "accesses");
                said.push(format!("{unplaced} {others} are no level of the path"));
            }
            write_requests(built, mounted.layer, requests, [(client, &here), (server, &there)])?
        }
        None => Vec::new(),
    };
    Ok(Joined { metrics, requests, said })
}

/// The file of the loop device below a layer, as its machine knows it; `None` without one, or where the file is on no local file system.
fn loop_image(built: &BuiltStack, layer: LayerIndex) -> Result<Option<FileNumber>, String> {
    let Some(device) = built.stack.loop_device_below(layer) else { return Ok(None) };
    let Some(image) = built.image(device.below()) else { return Ok(None) };
    let Some((file_system, path)) = built.local_place_of(image) else { return Ok(None) };
    let machine = &built.machines[file_system.machine].machine;
    let text = machine
        .run_ok(Command::new(["stat", "--format=%d %i", "--", &path]).timeout_s(10))
        .map_err(|e| e.to_string())?;
    file_number(&text).map(Some).ok_or_else(|| format!("stat says `{}` of {path}", text.trim()))
}

/// `64768 131`: the number of the device as programs have it, and of the file.
fn file_number(text: &str) -> Option<FileNumber> {
    let mut numbers = text.split_whitespace().map(str::parse::<u64>);
    let (device, inode) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
    let device = Device { major: rustix::fs::major(device), minor: rustix::fs::minor(device) };
    Some(FileNumber { device, inode })
}

/// Whether what lies on a file system is an image, so that its calls are requests of the machine that has the image as a disk.
pub(super) fn has_image(built: &BuiltStack, layer: LayerIndex) -> bool {
    let above = layer.above().map(|above| built.stack.layer(above));
    above.is_some_and(|above| above.image_format().is_some())
}

/// Writes calls as requests, beside what was recorded at each end.
fn write_requests(
    built: &BuiltStack,
    layer: LayerIndex,
    requests: CallRequests,
    [client, server]: [(&RecordedCalls, &TracedCalls); 2],
) -> Result<Vec<(CallEnd, PathBuf)>, TraceError> {
    let CallRequests { client: of_client, server: of_server, .. } = requests;
    if of_client.is_empty() {
        return Ok(Vec::new());
    }
    let ends = [(CallEnd::Client, client, of_client), (CallEnd::Server, server, of_server)];
    let mut files = Vec::new();
    for point in CallPoint::all_of(built).into_iter().filter(|point| point.layer == layer) {
        let Some((end, (recorded, traced), requests)) = ends.iter().find(|(end, ..)| *end == point.end)
        else {
            continue;
        };
        let PointName { layer, kind, machine, .. } =
            PointName::of_calls(built, point.layer, point.end, point.machine);
        let dropped = recorded.dropped_events.max(traced.lost_events);
        let header = RequestHeader {
            layer,
            kind,
            machine,
            clock: recorded.clock,
            dropped,
            ..RequestHeader::default()
        };
        let file = recorded.text.with_extension("requests");
        let mut writer = RequestWriter::create(&file, header)?;
        requests.iter().try_for_each(|request| writer.push(request))?;
        writer.finish()?;
        files.push((*end, file));
    }
    Ok(files)
}

/// What is at one end only, or came twice.
fn unjoined(metrics: &CallMetrics) -> Vec<String> {
    let numbers = [
        (metrics.unserved, "of the client are not in the server's record"),
        (metrics.uncalled, "at the server are not in the client's record"),
        (metrics.repeated, "were answered more than once"),
        (metrics.retransmissions, "were sent another time"),
    ];
    let some = numbers.into_iter().filter(|(number, _)| *number > 0);
    some.map(|(number, what)| format!("{} {what}", count(number))).collect()
}

/// Where the record of an end is not what its kernel counted, and what could not be read of it.
fn counted_otherwise((end, name): (CallEnd, &str), traced: &TracedCalls, counted: &RpcCounts) -> Vec<String> {
    let differ = differences(&traced.counts(end), counted).into_iter().map(|difference| {
        let [recorded, counted] = [difference.traced, difference.counted].map(count);
        format!(
            "{recorded} of {} were recorded at the {name}, and it counted {counted}",
            difference.procedure
        )
    });
    let unreadable = (traced.unreadable_lines > 0).then(|| {
        let lines = plural_u64(traced.unreadable_lines, "line", "lines");
        format!("{lines} of the record at the {name} could not be read")
    });
    differ.chain(unreadable).collect()
}

/// Where a client of version 4 counted other calls that move contents of files than its server counted such operations. A compound call of
/// Linux's client has one at most (fs/nfs/nfs4xdr.c), so they are equal; of names and attributes it has several.
fn contents_counted_otherwise(client: &RpcCounts, server: &RpcCounts) -> Vec<String> {
    let called: BTreeMap<&str, u64> =
        client.iter().map(|(procedure, of_one)| (procedure, of_one.calls)).collect();
    let moves = |procedure: &str| {
        matches!(CallKind::of(procedure), CallKind::Read | CallKind::Write | CallKind::Commit)
    };
    let differ = differences(&called, server).into_iter().filter(|difference| moves(&difference.procedure));
    differ
        .map(|difference| {
            let [called, served] = [difference.traced, difference.counted].map(count);
            format!("the client counted {called} of {}, and the server {served}", difference.procedure)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_are_counted_alike_at_both_ends_of_version_4() {
        let client = |reads, lookups| {
            let text = format!(
                "device a:/ mounted on /m with fstype nfs4 statvers=1.1\n\topts:\trw\n\tage:\t1\n\tcaps:\tcaps=0x1\n\
                 \tsec:\tflavor=1,pseudoflavor=1\n\tevents:\t{events}\n\tbytes:\t0 0 0 0 0 0 0 0\n\
                 \tRPC iostats version: 1.1  p/v: 100003/4 (nfs)\n\txprt:\ttcp 1 0 1 0 0 1 1 0 1 0 2 0 0\n\
                 \tper-op statistics\n\tREAD: {reads} 0 0 0 0 0 0 0 0\n\tLOOKUP: {lookups} 0 0 0 0 0 0 0 0\n",
                events = ["0"; 27].join(" ")
            );
            RpcCounts::of_client(&text, Path::new("/m")).unwrap()
        };
        // Operations from number 3 on; LOOKUP is 15, READ is 25.
        let server = |reads| {
            let operations = (0..26).map(|number| match number {
                15 => "7",
                25 => reads,
                _ => "0",
            });
            let operations = operations.collect::<Vec<_>>().join(" ");
            RpcCounts::of_server(&format!("proc4ops 26 {operations}\n"), RpcVersion::V4).unwrap()
        };
        assert_eq!(contents_counted_otherwise(&client(4, 2), &server("4")), [""; 0]);
        assert_eq!(
            contents_counted_otherwise(&client(4, 2), &server("5")),
            ["the client counted 4 of READ, and the server 5"]
        );
    }

    #[test]
    fn a_file_is_known_by_its_device_and_its_number() {
        // 254:16, as stat has it; minors from 256 on lie above the majors.
        let file = |major, minor, inode| Some(FileNumber { device: Device { major, minor }, inode });
        assert_eq!(file_number("65040 131\n"), file(254, 16, 131));
        assert_eq!(file_number("1113603 7"), file(254, 0x103, 7));
        assert_eq!(file_number("none"), None);
    }

    #[test]
    fn what_is_at_one_end_only_is_remarked_on() {
        assert!(unjoined(&CallMetrics::default()).is_empty());
        let metrics = CallMetrics { unserved: 2, retransmissions: 1, ..CallMetrics::default() };
        assert_eq!(
            unjoined(&metrics),
            ["2 of the client are not in the server's record", "1 were sent another time"]
        );
    }
}
