//! What is done with traces after they were read, and what says how traces belong together.

use std::fs;
use std::io::Cursor;
use std::path::Path;
use std::sync::OnceLock;

use nestor_correlate::{
    CacheBetween, CorrelateOptions, ExtentMap, LevelInput, Recording, SpaceMap, correlate, read_extents_from,
};
use nestor_layout::Class;
use nestor_trace::decode::{Input, OpenOptions, Trace, open_input};
use nestor_trace::event::Flags;
use nestor_trace::{
    AnalyzeOptions, Operation, Request, RequestHeader, RequestReader, RequestWriter, Wanted, analyze,
    each_request,
};
use tempfile::TempDir;

/// More requests of an input are not joined.
const MOST_REQUESTS: usize = 500;

/// Extents as other programs print them, and what is asked of a map.
pub fn extents(data: &[u8]) {
    let Ok(map) = read_extents_from(data, Path::new("fuzz"), None) else { return };
    ask(&map);
}

fn ask(map: &ExtentMap) {
    for extent in map.extents() {
        let _ = (map.above(extent.lower), map.ends());
        let _ = map.pieces(extent.upper, extent.bytes).take(100).count();
        let _ = map.shifted(extent.bytes).map(|shifted| shifted.ends());
    }
}

/// A directory of `--trace-to`: its manifest, and after a zero byte its extents. The requests are always the same.
pub fn manifest(data: &[u8]) {
    static DIRECTORY: OnceLock<TempDir> = OnceLock::new();
    let directory = DIRECTORY.get_or_init(|| {
        let base = Path::new("/dev/shm");
        let made = if base.is_dir() { TempDir::new_in(base) } else { TempDir::new() }.expect("a directory");
        let mut writer =
            RequestWriter::create(made.path().join("a.requests"), RequestHeader::default()).expect("a file");
        let request = Request {
            id: 0,
            operation: Operation::Write,
            flags: Flags::default(),
            class: Class::Unknown,
            offset: 0,
            bytes: 4096,
            queued_ns: 0,
            issued_ns: 0,
            completed_ns: 1,
            bios: 1,
            pid: 0,
        };
        writer.push(&request).expect("room");
        writer.finish().expect("room");
        made
    });
    let mut parts = data.splitn(2, |byte| *byte == 0);
    let put =
        |name: &str, part: Option<&[u8]>| fs::write(directory.path().join(name), part.unwrap_or_default());
    put("manifest.json", parts.next()).expect("room");
    put("extents-0.csv", parts.next()).expect("room");
    let Ok(Some(recording)) = Recording::find(directory.path()) else { return };
    let inputs: Vec<_> = recording.busy_levels().take(4).map(|level| level.input()).collect();
    let _ = correlate(&inputs, &CorrelateOptions::default());
}

/// Any trace, counted, and its requests joined with themselves.
pub fn analysis(data: &[u8]) {
    if let Some(trace) = open(data)
        && let Ok(analysis) =
            analyze(trace, &AnalyzeOptions { per_process: true, ..AnalyzeOptions::default() })
    {
        for layer in &analysis.layers {
            let _ = (
                layer.metrics.issued_bytes(),
                layer.metrics.merged_share(),
                layer.metrics.unclassified_bytes(),
            );
        }
        serde_json::to_string(&analysis).expect("it is printed so");
    }
    let Some(trace) = open(data) else { return };
    let mut requests = Vec::new();
    let _ = each_request(trace, &Wanted::default(), &mut |_, request| {
        if requests.len() < MOST_REQUESTS {
            requests.push(*request);
        }
    });
    join(&requests, data.first().copied().unwrap_or_default());
}

/// The same of a file of requests, in which every field of a request can be anything that is read.
pub fn requests(data: &[u8]) {
    let Ok(reader) = RequestReader::new(data, "fuzz") else { return };
    let requests: Vec<Request> = reader.map_while(Result::ok).take(MOST_REQUESTS).collect();
    join(&requests, data.last().copied().unwrap_or_default());
}

fn open(data: &[u8]) -> Option<Trace> {
    open_input(Input::new(Cursor::new(data.to_vec()), "fuzz"), &OpenOptions::default()).ok()
}

fn join(requests: &[Request], how: u8) {
    let header = || RequestHeader { records: requests.len() as u64, ..RequestHeader::default() };
    let map = match how % 3 {
        0 => SpaceMap::Identity,
        1 => SpaceMap::Clusters { bytes: 4096 },
        _ => match read_extents_from(&b"0,4096,8192\n8192,65536,1048576\n"[..], Path::new("fuzz"), None) {
            Ok(map) => SpaceMap::Extents(map),
            Err(_) => return,
        },
    };
    let cache =
        [CacheBetween::NONE, CacheBetween::WRITE_THROUGH, CacheBetween::UNKNOWN][usize::from(how / 3) % 3];
    let upper = LevelInput::new(header(), requests.to_vec());
    let lower = LevelInput::new(header(), requests.to_vec()).with_map(map).with_cache(cache);
    if let Ok(found) = correlate(&[upper, lower], &CorrelateOptions::default()) {
        serde_json::to_string(&found).expect("it is stored so");
    }
}
