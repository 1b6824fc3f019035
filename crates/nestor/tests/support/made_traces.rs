//! Made-up traces of a guest and its host.

use std::fs;

use nestor_trace::event::Flags;
use nestor_trace::{Operation, Request, RequestHeader, RequestWriter};

use super::Sandbox;

/// By how much the host's clock is ahead.
pub const HOUR_NS: u64 = 3_600_000_000_000;

fn request(id: u64, offset: u64, times: [u64; 3]) -> Request {
    let [queued_ns, issued_ns, completed_ns] = times;
    Request {
        id,
        operation: if id.is_multiple_of(3) { Operation::Write } else { Operation::Read },
        flags: Flags::default(),
        class: nestor_layout::Class::Unknown,
        offset,
        bytes: 4096,
        queued_ns,
        issued_ns,
        completed_ns,
        bios: 1,
        pid: 1,
    }
}

fn write(sandbox: &Sandbox, name: &str, requests: impl Iterator<Item = Request>) -> String {
    let header =
        RequestHeader { layer: name.to_owned(), machine: name.to_owned(), ..RequestHeader::default() };
    let mut writer =
        RequestWriter::create(sandbox.path(name), header).expect("the sandbox can be written to");
    requests.for_each(|request| writer.push(&request).expect("the sandbox can be written to"));
    writer.finish().expect("the sandbox can be written to");
    sandbox.text(name)
}

/// A guest whose disk lies in two halves on the host's, the second one first; the host's clock is an hour ahead.
pub fn traces(sandbox: &Sandbox) -> [String; 3] {
    let place = |index: u64| (index * 37) % 512 * 4096;
    let below = |offset: u64| if offset < 1 << 20 { offset + (5 << 20) } else { offset + (1 << 20) };
    let start = |index: u64| HOUR_NS + index * 100_000;
    let guest = (0..500).map(|i| request(i, place(i), [start(i), start(i) + 5_000, start(i) + 350_000]));
    let host = (0..500).map(|i| {
        let start = start(i) + HOUR_NS;
        request(i, below(place(i)), [start + 20_000, start + 22_000, start + 330_000])
    });
    let map = "image,device,bytes\n0,5242880,1048576\n1048576,2097152,1048576\n";
    fs::write(sandbox.path("map.csv"), map).expect("the sandbox can be written to");
    [write(sandbox, "guest", guest), write(sandbox, "host", host), sandbox.text("map.csv")]
}

/// What `nestor run --trace-to` leaves of the same two machines, one cell in it.
pub fn recording(sandbox: &Sandbox, cell: &str) -> String {
    let [guest, host, map] = traces(sandbox);
    let directory = sandbox.path("traces").join(cell);
    fs::create_dir_all(&directory).expect("the sandbox can be written to");
    for (from, name) in [(guest, "point-1.requests"), (host, "point-0.requests"), (map, "extents-1.csv")] {
        fs::rename(from, directory.join(name)).expect("the sandbox can be written to");
    }
    let manifest = r#"{ "stack": "ext4/kvm/raw/xfs/dev:/dev/sdb", "workload": "fio:rand-read", "levels": [
        { "layer": "ext4", "kind": "guest block", "machine": "guest", "file": "point-1.requests",
          "map": "identity", "cached_reads": "unknown", "cached_writes": "unknown" },
        { "layer": "xfs", "kind": "host block", "machine": "host", "file": "point-0.requests",
          "map": "extents", "extents": "extents-1.csv", "cached_reads": "never", "cached_writes": "never" } ] }"#;
    fs::write(directory.join("manifest.json"), manifest).expect("the sandbox can be written to");
    sandbox.text("traces")
}
