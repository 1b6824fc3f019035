//! The superblock, `struct f2fs_super_block`, and the areas that it names.

use super::table::ENTRIES as NODES_PER_TABLE_BLOCK;
use super::{BLOCK_BYTES, NAME, damaged};
use crate::builder::LayoutBuilder;
use crate::fields::{Fields, read_bytes};
use crate::layout::Class;
use crate::read_at::{LayoutError, ReadAt};

/// `F2FS_SUPER_OFFSET`; its copy is in the next block.
pub(super) const OFFSET: u64 = 1024;
/// `F2FS_SUPER_MAGIC`.
pub(super) const MAGIC: u32 = 0xf2f5_2010;

/// `log_blocks_per_seg`: segments have 2 MiB (`F2FS_LOG_SECTORS_PER_BLOCK` and `sanity_check_raw_super` in `super.c`).
const LOG_BLOCKS_PER_SEGMENT: u32 = 9;
pub(super) const BLOCKS_PER_SEGMENT: u64 = 1 << LOG_BLOCKS_PER_SEGMENT;
/// `log_blocksize` of blocks of 4096 bytes.
const LOG_BLOCK_BYTES: u32 = 12;

/// Bits of `feature`: `F2FS_FEATURE_*`.
const FEATURE_FLEXIBLE_INLINE_XATTR: u32 = 0x40;

/// What the superblock says. Places and lengths are in blocks.
#[derive(Debug)]
pub(super) struct Superblock {
    pub(super) blocks: u64,
    pub(super) checkpoints: u64,
    pub(super) segment_table: u64,
    /// Blocks of the segment information table, of both places.
    pub(super) segment_table_blocks: u64,
    pub(super) node_table: u64,
    /// Blocks of the node address table, of both places.
    pub(super) node_table_blocks: u64,
    pub(super) summaries: u64,
    pub(super) main: u64,
    main_blocks: u64,
    /// Blocks that a checkpoint has for its bitmaps beside its first: `cp_payload`.
    pub(super) payload: u64,
    /// Numbers of the nodes that stand for the table and the areas themselves, and have no block: `node_ino`, `meta_ino`.
    pub(super) own_nodes: [u32; 2],
    /// Whether an inode says how large its attributes within it are.
    pub(super) says_attribute_size: bool,
}

impl Superblock {
    /// Reads the first copy.
    pub(super) fn read(device: &dyn ReadAt) -> Result<Self, LayoutError> {
        let bytes = read_bytes(device, OFFSET, 3072)?;
        let sb = Fields::new(NAME, OFFSET, &bytes);
        let sizes = (sb.u32_le(16)?, sb.u32_le(20)?);
        if sizes != (LOG_BLOCK_BYTES, LOG_BLOCKS_PER_SEGMENT) {
            let feature = format!("blocks of 2^{} bytes and segments of 2^{} blocks", sizes.0, sizes.1);
            return Err(LayoutError::Unsupported { file_system: NAME, feature });
        }
        let place = |at: usize| sb.u32_le(at).map(u64::from);
        let read = Self {
            blocks: sb.u64_le(36)?,
            checkpoints: place(76)?,
            segment_table: place(80)?,
            segment_table_blocks: place(56)? * BLOCKS_PER_SEGMENT,
            node_table: place(84)?,
            node_table_blocks: place(60)? * BLOCKS_PER_SEGMENT,
            summaries: place(88)?,
            main: place(92)?,
            main_blocks: place(68)? * BLOCKS_PER_SEGMENT,
            payload: place(1664)?,
            own_nodes: [sb.u32_le(100)?, sb.u32_le(104)?],
            says_attribute_size: sb.u32_le(2180)? & FEATURE_FLEXIBLE_INLINE_XATTR != 0,
        };
        read.check(device)?;
        Ok(read)
    }

    fn check(&self, device: &dyn ReadAt) -> Result<(), LayoutError> {
        let device_bytes = device.bytes().map_err(|source| LayoutError::Io { offset: 0, source })?;
        if self.blocks > device_bytes / BLOCK_BYTES {
            let reason = format!("it has {} blocks, more than the device", self.blocks);
            return Err(damaged(OFFSET + 36, reason));
        }
        let parts = [2, self.checkpoints, self.segment_table, self.node_table, self.summaries, self.main];
        let ends = self.segment_table + self.segment_table_blocks <= self.node_table
            && self.node_table + self.node_table_blocks <= self.summaries
            && self.checkpoints + 2 * BLOCKS_PER_SEGMENT <= self.segment_table
            && self.main + self.main_blocks <= self.blocks;
        if !(parts.is_sorted() && ends) {
            return Err(damaged(OFFSET + 72, "its areas do not follow each other"));
        }
        Ok(())
    }

    pub(super) fn is_in_main_area(&self, block: u32) -> bool {
        (self.main..self.main + self.main_blocks).contains(&u64::from(block))
    }

    /// Segments of the main area.
    pub(super) fn main_segments(&self) -> u64 {
        self.main_blocks / BLOCKS_PER_SEGMENT
    }

    /// Numbers of nodes are below this.
    pub(super) fn most_nodes(&self) -> u64 {
        self.node_table_blocks / 2 * NODES_PER_TABLE_BLOCK
    }

    /// Classes the areas before the main one.
    pub(super) fn add_areas(&self, builder: &mut LayoutBuilder) {
        let ends = [self.segment_table, self.node_table, self.summaries, self.main];
        let areas = [
            (Class::Superblock, 0, 2),
            (Class::Superblock, self.checkpoints, ends[0]),
            (Class::AllocationMap, self.segment_table, ends[1]),
            (Class::Inode, self.node_table, ends[2]),
            (Class::OtherMetadata, self.summaries, ends[3]),
        ];
        for (class, start, end) in areas {
            builder.add(class, start * BLOCK_BYTES, (end - start) * BLOCK_BYTES);
        }
    }
}
