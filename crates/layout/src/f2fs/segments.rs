//! Which segments hold nodes, and the nodes in them that newer ones have replaced.
//!
//! A node is never written where it was: each fsync of a file writes its inode to the next free block of a log. What was written before lies
//! there until the segment is cleaned, and the table no longer names it. Requests to such places are those of nodes all the same.

use std::collections::BTreeSet;

use super::checkpoint::{Checkpoint, is_at_second_place, read_journal};
use super::nodes::FOOTER_AT;
use super::superblock::{BLOCKS_PER_SEGMENT, Superblock};
use super::{BLOCK_BYTES, Walk, block_fields, damaged};
use crate::fields::{Fields, read_bytes};
use crate::layout::Class;
use crate::read_at::{LayoutError, ReadAt};

/// `struct f2fs_sit_entry`.
const ENTRY_BYTES: usize = 74;
/// `SIT_ENTRY_PER_BLOCK`.
const ENTRIES: u64 = BLOCK_BYTES / ENTRY_BYTES as u64;
/// `SIT_VBLOCKS_SHIFT`: the number of blocks in use is below it, the type of the segment above it.
const TYPE_SHIFT: u16 = 10;
/// `CURSEG_HOT_NODE`: from here on, types are of nodes.
const FIRST_NODE_TYPE: u16 = 3;
/// `SIT_JOURNAL_ENTRIES`, of a number and an entry each.
const JOURNAL_ENTRIES: u16 = 6;
const JOURNAL_ENTRY_BYTES: usize = 4 + ENTRY_BYTES;

/// The segments of the main area that hold nodes, by number.
pub(super) fn of_nodes(
    device: &dyn ReadAt,
    superblock: &Superblock,
    checkpoint: &Checkpoint,
) -> Result<BTreeSet<u64>, LayoutError> {
    let mut found = BTreeSet::new();
    let mut note = |segment: u64, entry: u16| {
        let holds_nodes = entry >> TYPE_SHIFT >= FIRST_NODE_TYPE && entry & ((1 << TYPE_SHIFT) - 1) > 0;
        if holds_nodes {
            found.insert(segment)
        } else {
            found.remove(&segment)
        };
    };
    let segments = superblock.main_segments();
    for number in 0..segments.div_ceil(ENTRIES) {
        let second = is_at_second_place(&checkpoint.segment_bitmap, number);
        // All second places follow all first ones (`current_sit_addr` in `segment.h`).
        let block =
            superblock.segment_table + number + u64::from(second) * superblock.segment_table_blocks / 2;
        if block >= superblock.node_table {
            return Err(damaged(block * BLOCK_BYTES, "the segment information table goes beyond its area"));
        }
        let bytes = read_bytes(device, block * BLOCK_BYTES, BLOCK_BYTES as usize)?;
        let fields = block_fields(&bytes, block);
        for slot in 0..ENTRIES.min(segments - number * ENTRIES) {
            note(number * ENTRIES + slot, fields.u16_le(slot as usize * ENTRY_BYTES)?);
        }
    }
    let journal = checkpoint.segment_journal;
    read_journal(device, journal, (JOURNAL_ENTRIES, JOURNAL_ENTRY_BYTES), |fields, at| {
        note(u64::from(fields.u32_le(at)?), fields.u16_le(at + 4)?);
        Ok(())
    })?;
    // The heads of the logs, which may have nothing in use yet.
    found.extend(checkpoint.open_node_segments.iter().map(|segment| u64::from(*segment)));
    found.retain(|segment| *segment < segments);
    Ok(found)
}

/// Classes the nodes in these segments that the table does not name any more, by what they say of themselves.
pub(super) fn add_replaced(walk: &mut Walk<'_>, segments: &BTreeSet<u64>) -> Result<(), LayoutError> {
    let named: BTreeSet<u32> = walk.table.entries().map(|(_, entry)| entry.block).collect();
    for segment in segments {
        let start = walk.superblock.main + segment * BLOCKS_PER_SEGMENT;
        let bytes =
            read_bytes(walk.device, start * BLOCK_BYTES, (BLOCKS_PER_SEGMENT * BLOCK_BYTES) as usize)?;
        for (block, bytes) in (start..).zip(bytes.chunks_exact(BLOCK_BYTES as usize)) {
            let Ok(number) = u32::try_from(block) else { break };
            if named.contains(&number) {
                continue;
            }
            if let Some((class, inode)) = node_of(&block_fields(bytes, block), walk)? {
                walk.add(class, number, inode, None, block * BLOCK_BYTES)?;
            }
        }
    }
    Ok(())
}

/// What a block is that is a node of this file system: by its footer, `struct node_footer`.
fn node_of(block: &Fields<'_>, walk: &Walk<'_>) -> Result<Option<(Class, u32)>, LayoutError> {
    let (nid, inode) = (block.u32_le(FOOTER_AT)?, block.u32_le(FOOTER_AT + 4)?);
    let most = walk.superblock.most_nodes();
    let is_node = nid != 0 && inode != 0 && u64::from(nid) < most && u64::from(inode) < most;
    let class = if nid == inode { Class::Inode } else { Class::ExtentMap };
    Ok(is_node.then_some((class, inode)))
}
