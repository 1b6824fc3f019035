//! A checkpoint, `struct f2fs_checkpoint`: the state of the file system at a moment, of which the newer of two counts.

use super::superblock::{BLOCKS_PER_SEGMENT, Superblock};
use super::{BLOCK_BYTES, block_fields, damaged};
use crate::fields::{Fields, read_bytes};
use crate::read_at::{LayoutError, ReadAt};

/// Bits of `ckpt_flags`: `CP_*_FLAG`.
const UNMOUNTED: u32 = 0x1;
const COMPACT_SUMMARIES: u32 = 0x4;
const FAST_BOOT: u32 = 0x20;
const LARGE_NODE_BITMAP: u32 = 0x400;

/// Where the bitmaps of the versions begin: `sit_nat_version_bitmap`.
const BITMAPS_AT: usize = 192;
/// Logs of data and of all: `NR_CURSEG_DATA_TYPE`, `NR_CURSEG_PERSIST_TYPE`. A checkpoint ends with one summary of each, of the nodes only if it
/// says so, and one block more.
const DATA_LOGS: u64 = 3;
const ALL_LOGS: u64 = 6;
/// The most blocks of bitmaps beside the first that are read.
const MOST_PAYLOAD: u64 = 64;
/// Where the journal is in a block of summaries, and its length: `SUM_ENTRIES_SIZE`, `SUM_JOURNAL_SIZE`.
const JOURNAL_AT: usize = 3584;
const JOURNAL_BYTES: usize = 507;

/// The checkpoint that counts.
#[derive(Debug)]
pub(super) struct Checkpoint {
    pub(super) unmounted: bool,
    /// Blocks of the main area that are in use.
    #[cfg_attr(not(test), expect(dead_code, reason = "tests hold the layout against it"))]
    pub(super) valid_blocks: u64,
    /// Which of its two places each block of the node address table has: a bit each, the highest of a byte first.
    pub(super) node_bitmap: Vec<u8>,
    /// The same of the segment information table.
    pub(super) segment_bitmap: Vec<u8>,
    /// Where changes of the node address table are which are not yet in it: a block, and a place in it.
    pub(super) journal: (u64, usize),
    /// The same of the segment information table.
    pub(super) segment_journal: (u64, usize),
    /// The segments at the heads of the logs of nodes: `cur_node_segno`.
    pub(super) open_node_segments: [u32; 3],
    version: u64,
}

/// Whether a block of a table counts at the second of its two places; `bitmap`: which of them each block has.
pub(super) fn is_at_second_place(bitmap: &[u8], number: u64) -> bool {
    bitmap.get((number / 8) as usize).is_some_and(|byte| byte & (0x80 >> (number % 8)) != 0)
}

/// Calls `change` with each change in a journal, of at most so many: a block of summaries, and where in it the number of a thing and its
/// entry are.
pub(super) fn read_journal(
    device: &dyn ReadAt,
    (block, at): (u64, usize),
    (most, entry_bytes): (u16, usize),
    mut change: impl FnMut(&Fields<'_>, usize) -> Result<(), LayoutError>,
) -> Result<(), LayoutError> {
    let bytes = read_bytes(device, block * BLOCK_BYTES, BLOCK_BYTES as usize)?;
    let fields = block_fields(&bytes, block);
    let count = fields.u16_le(at)?;
    if count > most {
        return Err(fields.damaged(at, format!("a journal of {count} entries, at most {most}")));
    }
    (0..usize::from(count)).try_for_each(|slot| change(&fields, at + 2 + slot * entry_bytes))
}

impl Checkpoint {
    /// Reads both, and takes the newer of those that are whole.
    pub(super) fn read(device: &dyn ReadAt, superblock: &Superblock) -> Result<Self, LayoutError> {
        let places = [superblock.checkpoints, superblock.checkpoints + BLOCKS_PER_SEGMENT];
        let [one, other] = places.map(|place| Self::read_at(device, superblock, place));
        match (one, other) {
            (Ok(one), Ok(other)) => Ok(if other.version > one.version { other } else { one }),
            (Ok(whole), Err(_)) | (Err(_), Ok(whole)) => Ok(whole),
            (Err(error), Err(_)) => Err(error),
        }
    }

    fn read_at(device: &dyn ReadAt, superblock: &Superblock, place: u64) -> Result<Self, LayoutError> {
        // With a large bitmap, it goes on in the blocks that follow.
        let length = (1 + superblock.payload.min(MOST_PAYLOAD)) * BLOCK_BYTES;
        let bytes = read_bytes(device, place * BLOCK_BYTES, length as usize)?;
        let first = block_fields(&bytes, place);
        let version = first.u64_le(0)?;
        let blocks = u64::from(first.u32_le(136)?);
        if version == 0 || !(2..=BLOCKS_PER_SEGMENT).contains(&blocks) {
            return Err(first.damaged(136, format!("there is no checkpoint of {blocks} blocks")));
        }
        // It is whole if its first block stands at its end once more (`validate_checkpoint` in `checkpoint.c`).
        let last = read_bytes(device, (place + blocks - 1) * BLOCK_BYTES, 8)?;
        if Fields::new(super::NAME, place, &last).u64_le(0)? != version {
            return Err(damaged(place * BLOCK_BYTES, "the checkpoint was not written to its end"));
        }
        let flags = first.u32_le(132)?;
        let (segment_bitmap, node_bitmap) = (first.u32_le(156)? as usize, first.u32_le(160)? as usize);
        // `__bitmap_ptr` in `f2fs.h`; a large bitmap is behind a checksum.
        let (nodes_at, segments_at) = match (flags & LARGE_NODE_BITMAP != 0, superblock.payload > 0) {
            (true, _) => (BITMAPS_AT + 4, BITMAPS_AT + 4 + node_bitmap),
            (false, true) => (BITMAPS_AT, BLOCK_BYTES as usize),
            (false, false) => (BITMAPS_AT + segment_bitmap, BITMAPS_AT),
        };
        let bitmap = |at, bytes| Ok::<_, LayoutError>(first.slice(at, bytes)?.bytes().to_vec());
        let (node_bitmap, segment_bitmap) =
            (bitmap(nodes_at, node_bitmap)?, bitmap(segments_at, segment_bitmap)?);
        let (journal, segment_journal) = if flags & COMPACT_SUMMARIES != 0 {
            let block = place + u64::from(first.u32_le(140)?);
            ((block, 0), (block, JOURNAL_BYTES))
        } else {
            let logs = if flags & (UNMOUNTED | FAST_BOOT) != 0 { ALL_LOGS } else { DATA_LOGS };
            let block = (place + blocks).checked_sub(logs + 1);
            let block = block.ok_or_else(|| first.damaged(136, "a checkpoint without summaries"))?;
            // The first log of data has the journal of nodes, the last that of segments.
            ((block, JOURNAL_AT), (block + DATA_LOGS - 1, JOURNAL_AT))
        };
        Ok(Self {
            unmounted: flags & UNMOUNTED != 0,
            valid_blocks: first.u64_le(16)?,
            node_bitmap,
            segment_bitmap,
            journal,
            segment_journal,
            open_node_segments: [first.u32_le(36)?, first.u32_le(40)?, first.u32_le(44)?],
            version,
        })
    }
}
