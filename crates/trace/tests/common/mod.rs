//! Events and files for tests.
#![allow(dead_code, reason = "each test uses a part")]

use std::path::{Path, PathBuf};

use nestor_trace::decode::blktrace::{ByteOrder, Encoder, MergedReader, Version};
use nestor_trace::event::{Action, BlockEvent, Device, Direction, Flags};

pub const DEVICE: Device = Device { major: 8, minor: 16 };

/// A write of `sectors` from `sector` at `time_us`.
pub fn event(time_us: u64, action: Action, sector: u64, sectors: u64) -> BlockEvent {
    BlockEvent {
        time_ns: time_us * 1000,
        sequence: 0,
        cpu: 0,
        pid: 77,
        device: DEVICE,
        action,
        direction: Direction::Write,
        flags: Flags::default(),
        sector,
        bytes: sectors * 512,
        error: 0,
    }
}

/// The contents of a file of these events.
pub fn encoded(events: &[BlockEvent], order: ByteOrder, version: Version) -> Vec<u8> {
    let mut bytes = Vec::new();
    for event in events {
        Encoder { order, version }.event(event, &mut bytes);
    }
    bytes
}

/// Writes `NAME.blktrace.CPU` files as blktrace does, numbered per CPU.
pub fn write_files(directory: &Path, name: &str, events: &[BlockEvent]) -> Vec<PathBuf> {
    let cpus = events.iter().map(|e| e.cpu).max().map_or(1, |cpu| cpu + 1);
    let of_cpu = |cpu| {
        let own = events.iter().filter(|e| e.cpu == cpu).zip(1..);
        let numbered: Vec<_> = own.map(|(e, sequence)| BlockEvent { sequence, ..*e }).collect();
        let path = directory.join(format!("{name}.blktrace.{cpu}"));
        std::fs::write(&path, encoded(&numbered, ByteOrder::Little, Version::V7)).unwrap();
        path
    };
    (0..cpus).map(of_cpu).collect()
}

/// All events of some files.
pub fn read_files(paths: &[PathBuf]) -> Vec<BlockEvent> {
    let mut reader = MergedReader::open(paths).unwrap();
    let mut events = Vec::new();
    while let Some(event) = reader.next_event().unwrap() {
        events.push(event);
    }
    events
}
