//! The node address table: where each node is, and whose inode it is of.

use std::collections::BTreeMap;

use super::checkpoint::{Checkpoint, is_at_second_place, read_journal};
use super::superblock::{BLOCKS_PER_SEGMENT, Superblock};
use super::{BLOCK_BYTES, block_fields};
use crate::fields::{Fields, read_bytes};
use crate::read_at::{LayoutError, ReadAt};

/// `struct f2fs_nat_entry`.
const ENTRY_BYTES: usize = 9;
/// `NAT_ENTRY_PER_BLOCK`.
pub(super) const ENTRIES: u64 = BLOCK_BYTES / ENTRY_BYTES as u64;
/// Entries of a journal: `NAT_JOURNAL_ENTRIES`, of a number and an entry each.
const JOURNAL_ENTRIES: u16 = 38;
const JOURNAL_ENTRY_BYTES: usize = 4 + ENTRY_BYTES;
/// `NULL_ADDR`, `NEW_ADDR` and, in inodes of compressed files, `COMPRESS_ADDR`: no block, or none yet.
pub(super) fn is_place(block: u32) -> bool {
    block != 0 && block < u32::MAX - 1
}

/// Where a node is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    /// The inode that the node is of.
    pub(super) inode: u32,
    /// Its block.
    pub(super) block: u32,
    /// The byte of the device at which that stands.
    pub(super) found_at: u64,
}

impl Entry {
    fn read(fields: &Fields<'_>, at: usize) -> Result<Self, LayoutError> {
        let found_at = fields.device_offset() + at as u64;
        Ok(Self { inode: fields.u32_le(at + 1)?, block: fields.u32_le(at + 5)?, found_at })
    }
}

/// The nodes that have a place, by their numbers.
#[derive(Debug)]
pub(super) struct NodeTable(BTreeMap<u32, Entry>);

impl NodeTable {
    /// Reads the table, and over it what the checkpoint keeps of it.
    pub(super) fn read(
        device: &dyn ReadAt,
        superblock: &Superblock,
        checkpoint: &Checkpoint,
    ) -> Result<Self, LayoutError> {
        let mut found = BTreeMap::new();
        let blocks = superblock.node_table_blocks / 2;
        for number in 0..blocks {
            let second = is_at_second_place(&checkpoint.node_bitmap, number);
            // Segments of the first and of the second places alternate (`current_nat_addr` in `node.h`).
            let (segment, within) = (number / BLOCKS_PER_SEGMENT, number % BLOCKS_PER_SEGMENT);
            let pair = superblock.node_table + 2 * segment * BLOCKS_PER_SEGMENT;
            let block = pair + u64::from(second) * BLOCKS_PER_SEGMENT + within;
            let bytes = read_bytes(device, block * BLOCK_BYTES, BLOCK_BYTES as usize)?;
            let fields = block_fields(&bytes, block);
            for (slot, bytes) in bytes.chunks_exact(ENTRY_BYTES).enumerate() {
                // Most are empty.
                if bytes[ENTRY_BYTES - 4..] == [0; 4] {
                    continue;
                }
                let entry = Entry::read(&fields, slot * ENTRY_BYTES)?;
                let nid = u32::try_from(number * ENTRIES + slot as u64).unwrap_or(u32::MAX);
                if is_place(entry.block) {
                    found.insert(nid, entry);
                }
            }
        }
        read_journal(device, checkpoint.journal, (JOURNAL_ENTRIES, JOURNAL_ENTRY_BYTES), |fields, at| {
            let (nid, entry) = (fields.u32_le(at)?, Entry::read(fields, at + 4)?);
            if is_place(entry.block) {
                found.insert(nid, entry);
            } else {
                found.remove(&nid);
            }
            Ok(())
        })?;
        Ok(Self(found))
    }

    /// All nodes.
    pub(super) fn entries(&self) -> impl Iterator<Item = (u32, Entry)> + use<'_> {
        self.0.iter().map(|(nid, entry)| (*nid, *entry))
    }

    /// Where a node is.
    pub(super) fn entry(&self, nid: u32) -> Option<Entry> {
        self.0.get(&nid).copied()
    }
}
