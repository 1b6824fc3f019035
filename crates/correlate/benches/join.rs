//! Speed and memory of a correlation: five million records over three levels, from files. Run with
//! `cargo bench -p nestor-correlate --bench join`.

#![allow(clippy::print_stdout, clippy::print_stderr)] // For who runs it, not for who uses the program.

use std::path::Path;
use std::time::Instant;

use nestor_correlate::{CacheBetween, CorrelateOptions, LevelInput, correlate};
use nestor_statistics::SeededOrder;
use nestor_trace::{Operation, Request, RequestHeader, RequestWriter};

#[path = "../src/played.rs"]
mod played;
use played::request;

/// Records of all levels together.
const RECORDS: u64 = 5_000_000;
/// Requests in flight.
const DEPTH: usize = 64;
/// What it may take.
const TARGET_S: f64 = 10.0;

fn main() {
    let folder = tempfile::tempdir().expect("a folder for the traces");
    let names = ["guest", "host", "medium"];
    let paths = names.map(|name| folder.path().join(name));
    write_levels([&paths[0], &paths[1], &paths[2]]);
    let levels = paths.each_ref().map(|path| {
        LevelInput::from_file(path).expect("the file was just written").with_cache(CacheBetween::NONE)
    });
    let before = peak_memory_kib();
    let begun = Instant::now();
    let result = correlate(&levels, &CorrelateOptions::default()).expect("the levels belong together");
    let seconds = begun.elapsed().as_secs_f64();
    let records: u64 = result.levels.iter().map(|level| level.requests).sum();
    println!(
        "{records} records of 3 levels joined in {seconds:.2} s ({:.2} M/s), target {TARGET_S} s",
        records as f64 / seconds / 1e6
    );
    println!(
        "peak memory {} MiB ({} MiB while the traces were made); at most {} requests held",
        peak_memory_kib() >> 10,
        before >> 10,
        result.most_held
    );
    let unmatched = 100.0 * result.unmatched_share().unwrap_or(0.0);
    println!(
        "unmatched {unmatched:.3} %; clock bound {:?} ns",
        result.joins.iter().map(|j| j.clock_bound_ns).collect::<Vec<_>>()
    );
    assert!(seconds <= TARGET_S || std::env::var_os("NESTOR_BENCH_LENIENT").is_some(), "too slow");
}

/// Random requests of 4 to 64 KiB, a tenth of them split in two by the host.
fn write_levels(paths: [&Path; 3]) {
    let mut random = SeededOrder::new(7);
    let mut levels: [Vec<Request>; 3] = Default::default();
    let mut free_at = vec![1_000_000_000_u64; DEPTH];
    while levels.iter().map(|level| level.len() as u64).sum::<u64>() < RECORDS {
        let slot = random.below(DEPTH);
        let mut below = |bound: usize| random.below(bound) as u64;
        let operation = if below(2) == 0 { Operation::Read } else { Operation::Write };
        let bytes = 4096 << below(5);
        let offset = below(1 << 24) * 4096;
        let at = free_at[slot] + below(20_000);
        let parts = if below(10) == 0 { 2 } else { 1 };
        let mut end = 0;
        for part in 0..parts {
            let queued = at + 9_000 + below(20_000);
            let arrived = queued + 2_000 + below(3_000);
            let done = arrived + 30_000 + below(400_000);
            let bytes = bytes / parts;
            let place = offset + part * bytes;
            levels[1].push(request(operation, place, bytes, [queued, queued + 1_000, done + 3_000]));
            levels[2].push(request(operation, place, bytes, [arrived, arrived + 500, done]));
            end = end.max(done + 3_000);
        }
        let completed = end + 4_000 + below(20_000);
        levels[0].push(request(operation, offset, bytes, [at, at + 3_000, completed]));
        free_at[slot] = completed;
    }
    let shifts = [50_000_000_000_000_u64, 0, 3_000_000_000];
    for (index, path) in paths.into_iter().enumerate() {
        levels[index].sort_unstable_by_key(|request| request.completed_ns);
        let machine = ["guest", "host", "ground"][index].to_owned();
        let header = RequestHeader { layer: machine.clone(), machine, ..RequestHeader::default() };
        let mut writer = RequestWriter::create(path, header).expect("room for the traces");
        for (id, request) in levels[index].iter().enumerate() {
            let shift = |time: u64| time + shifts[index];
            let request = Request {
                id: id as u64,
                queued_ns: shift(request.queued_ns),
                issued_ns: shift(request.issued_ns),
                completed_ns: shift(request.completed_ns),
                ..*request
            };
            writer.push(&request).expect("room for the traces");
        }
        writer.finish().expect("room for the traces");
        // What follows is to show what the correlation needs, not this.
        levels[index] = Vec::new();
    }
}

/// The process's own peak; resets it, so that the next call tells of what came after.
fn peak_memory_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = peak.and_then(|text| text.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0);
    // Writing 5 resets the peak (proc(5)); without the right to do so the figure is only an upper bound.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
    kib
}
