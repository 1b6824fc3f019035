//! Blocks as they would be after a mount: from their places, or from the journal where it has newer ones.

use std::collections::BTreeMap;

use super::superblock::Superblock;
use crate::fields::read_bytes;
use crate::read_at::{LayoutError, ReadAt};

/// The blocks of a file system.
pub(super) struct Blocks<'a> {
    device: &'a dyn ReadAt,
    block_bytes: u64,
    block_count: u64,
    /// Where the newest copy of a block is, if not in its place.
    newer: BTreeMap<u64, u64>,
}

impl<'a> Blocks<'a> {
    pub(super) fn new(device: &'a dyn ReadAt, superblock: &Superblock) -> Self {
        let Superblock { block_bytes, block_count, .. } = *superblock;
        Self { device, block_bytes, block_count, newer: BTreeMap::new() }
    }

    /// From now on these blocks are read from others.
    pub(super) fn replace(&mut self, newer: BTreeMap<u64, u64>) {
        self.newer = newer;
    }

    /// The contents of a block.
    pub(super) fn read(&self, block: u64) -> Result<Vec<u8>, LayoutError> {
        let place = self.newer.get(&block).copied().unwrap_or(block);
        if place >= self.block_count {
            return Err(LayoutError::Damaged {
                file_system: super::NAME,
                offset: place.saturating_mul(self.block_bytes),
                reason: format!("block {place} does not exist"),
            });
        }
        let length = usize::try_from(self.block_bytes).expect("a block has at most 32 KiB");
        read_bytes(self.device, place * self.block_bytes, length)
    }

    /// Where a block's place is on the device.
    pub(super) fn offset(&self, block: u64) -> u64 {
        block.saturating_mul(self.block_bytes)
    }
}
