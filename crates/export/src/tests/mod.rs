mod csv;
mod files;
mod input;
mod parquet;
mod perfetto;
mod table;
mod trees;
mod wire;

use nestor_correlate::{Level, LevelIndex, Origin};
use nestor_layout::Class;
use nestor_trace::event::Flags;
use nestor_trace::{Operation, Request};

use crate::{ClockMap, ExportLevel, Links, Trace};

/// A write, three times as long as it waits.
pub fn write(id: u64, queued_ns: u64, took_ns: u64) -> Request {
    Request {
        id,
        operation: Operation::Write,
        flags: Flags::default().with(Flags::SYNC, true).with(Flags::META, true),
        class: Class::Journal,
        offset: id * 8192,
        bytes: 8192,
        queued_ns,
        issued_ns: queued_ns + took_ns / 4,
        completed_ns: queued_ns + took_ns,
        bios: 2,
        pid: 77,
    }
}

pub fn level(layer: &str, kind: &str, machine: &str, requests: Vec<Request>) -> ExportLevel {
    let level = Level {
        layer: layer.to_owned(),
        kind: kind.into(),
        machine: machine.into(),
        requests: requests.len() as u64,
        misaligned: 0,
    };
    ExportLevel { level, clock: Vec::new(), source: Box::new(requests) }
}

/// Two levels: each guest request has one request at the disk, the last has two, and one of the disk's has no parent.
pub fn two_levels() -> Trace {
    let read = |request: Request| Request {
        operation: Operation::Read,
        flags: Flags::default(),
        class: Class::Unknown,
        ..request
    };
    let flush =
        Request { operation: Operation::Flush, class: Class::Flush, bytes: 0, ..write(3, 9_000, 500) };
    let guest = vec![write(0, 1_000, 2_000), read(write(1, 1_500, 2_500)), write(2, 4_000, 1_000), flush];
    let disk =
        vec![write(0, 1_200, 1_000), write(1, 2_000, 1_500), write(2, 4_100, 300), write(3, 4_200, 700)];
    let mut levels =
        vec![level("ext4", "guest block", "guest", guest), level("hdd:wd-7200", "medium", "ground", disk)];
    // The disk's clock is 5 ns behind.
    levels[1].clock = vec![ClockMap { offset_ns: 5, drift_ppb: 0, middle_ns: 0 }];
    let mut links = Links::default();
    links.add(LevelIndex::at(1), 0, Origin::Parent, &[0]);
    links.add(LevelIndex::at(1), 1, Origin::Journal, &[]);
    links.add(LevelIndex::at(1), 3, Origin::Parent, &[2]);
    links.add(LevelIndex::at(1), 2, Origin::Parent, &[2, 1]);
    links.sort();
    Trace { levels, links, ..Trace::default() }
}
