//! Recorded file systems with a few bytes changed: whatever they say, reading them ends, and gives an error or a layout
//! that holds what a layout promises.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::process::Command;

use proptest::prelude::*;
use proptest::sample::Index;

use crate::layout::Layout;
use crate::read_at::{LayoutError, ReadAt};

/// Bytes that are looked at for what to change at a time.
const BLOCK: usize = 512;

/// A recorded image.
#[derive(Debug)]
pub(crate) struct Recorded {
    bytes: Vec<u8>,
    /// Where there is anything but zeros: changes elsewhere would rarely be seen.
    used: Vec<usize>,
}

impl Recorded {
    /// Unpacks an image of `tests/data`. Its file data is zeros.
    pub(crate) fn unpack(name: &str) -> Self {
        let packed = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name);
        let output = Command::new("gzip").arg("-dc").arg(packed).output().expect("gzip is everywhere");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let bytes = output.stdout;
        let is_used = |block: &usize| bytes[block * BLOCK..][..BLOCK].iter().any(|byte| *byte != 0);
        let used = (0..bytes.len() / BLOCK).filter(is_used).collect();
        Self { bytes, used }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The image with changes.
    pub(crate) fn changed(&self, changes: &[Change]) -> Changed<'_> {
        let mut patches = BTreeMap::new();
        for change in changes {
            let at = self.used[change.block.index(self.used.len())] * BLOCK + change.at.index(BLOCK);
            for (skip, byte) in
                change.value.iter().enumerate().filter(|(skip, _)| at + skip < self.bytes.len())
            {
                patches.insert(at + skip, *byte);
            }
        }
        Changed { recorded: self, patches, bytes: self.bytes.len() }
    }
}

/// How many blocks a layout has of each class: `file data 1239, journal 256, …`.
pub(crate) fn blocks_by_class(layout: &Layout) -> String {
    let summary = layout.summary().into_iter();
    let words = summary.map(|(class, bytes)| format!("{class} {}", bytes / layout.block_bytes));
    words.collect::<Vec<_>>().join(", ")
}

/// A few bytes at a place that is in use.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    block: Index,
    at: Index,
    value: Vec<u8>,
}

/// Some changes: single bits of counters and offsets, numbers that are too large, and anything.
pub(crate) fn changes() -> impl Strategy<Value = Vec<Change>> {
    let value = prop_oneof![
        prop::collection::vec(any::<u8>(), 1..9),
        prop::sample::select(vec![0_u8, 1, 0x7f, 0xff])
            .prop_flat_map(|byte| prop::collection::vec(Just(byte), 1..9)),
        (0_u64..1 << 26).prop_map(|number| number.to_le_bytes().to_vec()),
    ];
    let change = (any::<Index>(), any::<Index>(), value);
    prop::collection::vec(change.prop_map(|(block, at, value)| Change { block, at, value }), 1..12)
}

/// A recorded image with changes.
#[derive(Debug)]
pub(crate) struct Changed<'a> {
    recorded: &'a Recorded,
    patches: BTreeMap<usize, u8>,
    bytes: usize,
}

impl Changed<'_> {
    /// Sets bytes, over whatever else was changed.
    pub(crate) fn set(&mut self, at: usize, value: &[u8]) {
        self.patches.extend(value.iter().enumerate().map(|(skip, byte)| (at + skip, *byte)));
    }

    /// Cuts its end off.
    pub(crate) fn truncate(&mut self, bytes: usize) {
        self.bytes = self.bytes.min(bytes);
    }

    /// Part of it.
    pub(crate) fn part(&self, at: usize, length: usize) -> Vec<u8> {
        let mut part = self.recorded.bytes[at..at + length].to_vec();
        self.patches.range(at..at + length).for_each(|(place, byte)| part[place - at] = *byte);
        part
    }
}

impl ReadAt for Changed<'_> {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let start = usize::try_from(offset).ok().filter(|start| *start <= self.bytes);
        let start =
            start.filter(|start| self.bytes - start >= buffer.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        buffer.copy_from_slice(&self.part(start, buffer.len()));
        Ok(())
    }

    fn bytes(&self) -> io::Result<u64> {
        Ok(self.bytes as u64)
    }
}

/// What every layout promises, however damaged the file system is.
pub(crate) fn assert_sound(read: Result<Layout, LayoutError>) {
    let Ok(layout) = read else { return };
    let mut end = 0;
    for extent in &layout.extents {
        assert!(extent.bytes > 0 && extent.start >= end, "{extent:?} begins before {end}");
        end = extent.end();
        assert!(end <= layout.total_bytes, "{extent:?} ends beyond {}", layout.total_bytes);
    }
    assert!(layout.remarks.len() < 200, "{} remarks", layout.remarks.len());
}
