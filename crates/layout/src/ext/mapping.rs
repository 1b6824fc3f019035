//! The blocks of an inode: extent trees and indirect blocks.

use crate::fields::{Fields, read_bytes};
use crate::layout::Class;
use crate::read_at::LayoutError;

use super::NAME;
use super::inode::{Inode, Mapping};
use super::walk::Walk;

/// `EXT4_EXT_MAGIC` at the beginning of each node of an extent tree.
const EXTENT_MAGIC: u16 = 0xf30a;
const EXTENT_ENTRY_BYTES: usize = 12;
/// `EXT4_MAX_EXTENT_DEPTH`.
const MAX_EXTENT_DEPTH: u16 = 5;
/// Longer lengths mean that much less, of blocks that were allocated but not written (`EXT_INIT_MAX_LEN`).
const MAX_WRITTEN_BLOCKS: u64 = 1 << 15;

/// Blocks whose numbers stand in the inode itself.
const DIRECT_BLOCKS: u64 = 12;

impl Walk<'_> {
    /// Claims the blocks of an inode and those that say where they are.
    pub(super) fn claim_blocks(&mut self, inode: &Inode) -> Result<(), LayoutError> {
        let area = Fields::new(NAME, inode.block_area_at, &inode.block_area);
        match inode.mapping {
            Mapping::None => Ok(()),
            Mapping::Extents => self.extent_root(inode, &area),
            Mapping::Indirect => self.indirect_root(inode, &area),
            Mapping::Resize => self.resize_root(inode, &area),
        }
    }

    fn extent_root(&mut self, inode: &Inode, area: &Fields<'_>) -> Result<(), LayoutError> {
        let depth = area.u16_le(6)?;
        if depth > MAX_EXTENT_DEPTH {
            return Err(
                area.damaged(6, format!("inode {} has an extent tree of depth {depth}", inode.number))
            );
        }
        self.extent_node(inode, area, depth)
    }

    fn extent_node(&mut self, inode: &Inode, node: &Fields<'_>, depth: u16) -> Result<(), LayoutError> {
        if node.u16_le(0)? != EXTENT_MAGIC || node.u16_le(6)? != depth {
            return Err(node.damaged(
                0,
                format!("no node of depth {depth} of the extent tree of inode {}", inode.number),
            ));
        }
        for entry in 1..=usize::from(node.u16_le(2)?) {
            let entry = node.slice(entry * EXTENT_ENTRY_BYTES, EXTENT_ENTRY_BYTES)?;
            if depth == 0 {
                self.extent(inode, &entry)?;
                continue;
            }
            let block = u64::from(entry.u32_le(4)?) | u64::from(entry.u16_le(8)?) << 32;
            if let Some(bytes) = self.mapping_block(inode, block)? {
                self.extent_node(
                    inode,
                    &Fields::new(NAME, block * self.superblock.block_bytes, &bytes),
                    depth - 1,
                )?;
            }
        }
        Ok(())
    }

    fn extent(&mut self, inode: &Inode, entry: &Fields<'_>) -> Result<(), LayoutError> {
        let length = u64::from(entry.u16_le(4)?);
        let blocks = if length > MAX_WRITTEN_BLOCKS { length - MAX_WRITTEN_BLOCKS } else { length };
        let start = u64::from(entry.u32_le(8)?) | u64::from(entry.u16_le(6)?) << 32;
        self.claim_contents(inode, u64::from(entry.u32_le(0)?), start, blocks);
        Ok(())
    }

    fn indirect_root(&mut self, inode: &Inode, area: &Fields<'_>) -> Result<(), LayoutError> {
        for index in 0..DIRECT_BLOCKS {
            let block = u64::from(area.u32_le(index as usize * 4)?);
            if block != 0 {
                self.claim_contents(inode, index, block, 1);
            }
        }
        let per_block = self.superblock.block_bytes / 4;
        let mut logical = DIRECT_BLOCKS;
        for level in 0..3 {
            let block = u64::from(area.u32_le((DIRECT_BLOCKS + level) as usize * 4)?);
            self.indirect_block(inode, block, level, logical)?;
            logical += per_block.pow(level as u32 + 1);
        }
        Ok(())
    }

    /// A block of block numbers, and what lies below it; `level` 0 points to contents.
    fn indirect_block(
        &mut self,
        inode: &Inode,
        block: u64,
        level: u64,
        logical: u64,
    ) -> Result<(), LayoutError> {
        if block == 0 {
            return Ok(());
        }
        let Some(bytes) = self.mapping_block(inode, block)? else { return Ok(()) };
        let covered = (self.superblock.block_bytes / 4).pow(level as u32);
        for (index, number) in bytes.as_chunks::<4>().0.iter().enumerate() {
            let number = u64::from(u32::from_le_bytes(*number));
            let logical = logical + index as u64 * covered;
            if number == 0 {
                continue;
            }
            if level == 0 {
                self.claim_contents(inode, logical, number, 1);
            } else {
                self.indirect_block(inode, number, level - 1, logical)?;
            }
        }
        Ok(())
    }

    /// Only the double indirect block is not part of the room for group descriptors, which is claimed with the groups.
    fn resize_root(&mut self, inode: &Inode, area: &Fields<'_>) -> Result<(), LayoutError> {
        let block = u64::from(area.u32_le((DIRECT_BLOCKS as usize + 1) * 4)?);
        if block != 0 {
            self.mapping_block(inode, block)?;
        }
        Ok(())
    }

    /// Claims and reads a block that says where others are. Nothing when it was read before: a damaged file system
    /// may point to it in circles, or from many inodes.
    fn mapping_block(&mut self, inode: &Inode, block: u64) -> Result<Option<Vec<u8>>, LayoutError> {
        let bytes = self.superblock.block_bytes;
        let offset = block.saturating_mul(bytes);
        self.builder.add_of_inode(Class::ExtentMap, offset, bytes, inode.number, None);
        if !self.mapping_blocks.insert(block) {
            return Ok(None);
        }
        read_bytes(self.device, offset, bytes as usize).map(Some)
    }

    fn claim_contents(&mut self, inode: &Inode, logical: u64, block: u64, blocks: u64) {
        let bytes = self.superblock.block_bytes;
        let (start, length) = (block.saturating_mul(bytes), blocks * bytes);
        self.builder.add_of_inode(inode.class, start, length, inode.number, Some(logical * bytes));
    }
}
