//! Block groups: their descriptors, and what lies at a fixed place in them.

use crate::builder::LayoutBuilder;
use crate::fields::{Fields, read_bytes};
use crate::layout::Class;
use crate::read_at::{LayoutError, ReadAt};

use super::NAME;
use super::superblock::{SUPERBLOCK_AT, Superblock, incompat};

/// Descriptor flags (`EXT4_BG_*`).
const INODE_UNINIT: u16 = 1;
const BLOCK_UNINIT: u16 = 2;

/// What is needed of a group descriptor (`struct ext4_group_desc`).
#[derive(Clone, Copy, Debug)]
pub(super) struct Group {
    pub(super) number: u64,
    pub(super) block_bitmap: u64,
    pub(super) inode_bitmap: u64,
    pub(super) inode_table: u64,
    /// How many inodes of the table may be in use; none after them are.
    pub(super) inodes_initialised: u64,
    /// The block bitmap was written at least once.
    pub(super) block_bitmap_initialised: bool,
}

/// Calls `visit` with each group, reading descriptors a block at a time.
pub(super) fn for_each_group(
    device: &dyn ReadAt,
    superblock: &Superblock,
    mut visit: impl FnMut(Group) -> Result<(), LayoutError>,
) -> Result<(), LayoutError> {
    for block in 0..superblock.descriptor_blocks() {
        let offset = descriptor_block(superblock, block) * superblock.block_bytes;
        let bytes = read_bytes(device, offset, superblock.block_bytes as usize)?;
        let fields = Fields::new(NAME, offset, &bytes);
        let first = block * superblock.descriptors_per_block();
        let end = (first + superblock.descriptors_per_block()).min(superblock.groups);
        for number in first..end {
            let at = ((number - first) * superblock.descriptor_bytes) as usize;
            let descriptor = fields.slice(at, superblock.descriptor_bytes as usize)?;
            visit(Group::parse(superblock, number, &descriptor)?)?;
        }
    }
    Ok(())
}

/// Where a block of descriptors lies (`descriptor_loc`, fs/ext4/super.c).
fn descriptor_block(superblock: &Superblock, block: u64) -> u64 {
    let group = block * superblock.descriptors_per_block();
    if !superblock.group_is_in_meta_group(group) {
        return first_superblock(superblock) + 1 + block;
    }
    let start = group_start_after_boot(superblock, group);
    start + u64::from(superblock.group_has_superblock(group))
}

/// The block of the first superblock: 1 with blocks of 1 KiB, else 0.
fn first_superblock(superblock: &Superblock) -> u64 {
    SUPERBLOCK_AT / superblock.block_bytes
}

/// The first block of a group that is not the boot block: with blocks of 1 KiB and `bigalloc`, group 0 starts with it.
fn group_start_after_boot(superblock: &Superblock, group: u64) -> u64 {
    superblock.group_start(group).max(first_superblock(superblock))
}

impl Group {
    fn parse(superblock: &Superblock, number: u64, fields: &Fields<'_>) -> Result<Self, LayoutError> {
        let wide = superblock.descriptor_bytes >= 64;
        let block = |low: usize, high: usize| {
            let high = if wide { u64::from(fields.u32_le(high)?) << 32 } else { 0 };
            let block = u64::from(fields.u32_le(low)?) | high;
            if block == 0 || block < superblock.first_data_block || block >= superblock.blocks {
                let reason = format!("group {number} has a bitmap or inode table at block {block}");
                return Err(fields.damaged(low, reason));
            }
            Ok(block)
        };
        let flags = if superblock.has_group_checksums() { fields.u16_le(0x12)? } else { 0 };
        let unused = match (superblock.has_group_checksums(), wide) {
            (false, _) => 0,
            (true, false) => u64::from(fields.u16_le(0x1c)?),
            (true, true) => u64::from(fields.u16_le(0x1c)?) | u64::from(fields.u16_le(0x32)?) << 16,
        };
        let initialised = superblock.inodes_per_group.saturating_sub(unused);
        Ok(Self {
            number,
            block_bitmap: block(0, 0x20)?,
            inode_bitmap: block(4, 0x24)?,
            inode_table: block(8, 0x28)?,
            inodes_initialised: if flags & INODE_UNINIT != 0 { 0 } else { initialised },
            block_bitmap_initialised: flags & BLOCK_UNINIT == 0,
        })
    }

    /// Adds what lies at a fixed place in this group, or is pointed to by its descriptor.
    pub(super) fn claim(&self, superblock: &Superblock, builder: &mut LayoutBuilder) {
        let mut add = |class, block: u64, blocks: u64| {
            let bytes = superblock.block_bytes;
            builder.add(class, block * bytes, blocks * bytes);
        };
        add(Class::AllocationMap, self.block_bitmap, 1);
        add(Class::AllocationMap, self.inode_bitmap, 1);
        add(Class::Inode, self.inode_table, superblock.inode_table_blocks());
        let group_blocks =
            superblock.blocks_per_group.min(superblock.blocks - superblock.group_start(self.number));
        let start = group_start_after_boot(superblock, self.number);
        let copies = superblock_and_descriptors(superblock, self.number).min(group_blocks);
        add(Class::Superblock, start, copies);
    }
}

/// How many blocks at a group's beginning hold the superblock, descriptors and the room for more of them
/// (`ext2fs_super_and_bgd_loc2`, lib/ext2fs/closefs.c).
fn superblock_and_descriptors(superblock: &Superblock, group: u64) -> u64 {
    let copy = u64::from(superblock.group_has_superblock(group));
    if superblock.group_is_in_meta_group(group) {
        let per_block = superblock.descriptors_per_block();
        let holds_descriptors = [0, 1, per_block - 1].contains(&(group % per_block));
        return copy + u64::from(holds_descriptors);
    }
    let descriptors = if superblock.has_incompat(incompat::META_BG) {
        superblock.first_meta_group
    } else {
        superblock.descriptor_blocks() + superblock.reserved_descriptor_blocks
    };
    copy * (1 + descriptors)
}
