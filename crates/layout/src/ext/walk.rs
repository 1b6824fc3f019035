//! The walk over all groups and all inodes in use.

use std::collections::HashSet;

use crate::builder::LayoutBuilder;
use crate::fields::{Fields, read_bytes};
use crate::layout::{Class, Layout};
use crate::read_at::{LayoutError, ReadAt};

use super::NAME;
use super::groups::{Group, for_each_group};
use super::inode::{BASE_BYTES, Inode};
use super::superblock::{Superblock, compat, incompat, ro_compat};

/// State of the walk.
pub(super) struct Walk<'a> {
    pub(super) device: &'a dyn ReadAt,
    pub(super) superblock: &'a Superblock,
    pub(super) builder: LayoutBuilder,
    /// Blocks of extent trees and block numbers that were read.
    pub(super) mapping_blocks: HashSet<u64>,
    /// Blocks of extended attributes that were claimed.
    attribute_blocks: HashSet<u64>,
    damaged_inodes: u64,
}

impl<'a> Walk<'a> {
    pub(super) fn new(device: &'a dyn ReadAt, superblock: &'a Superblock) -> Self {
        let total = superblock.blocks * superblock.block_bytes;
        let total_bytes = total.min(superblock.device_bytes);
        let mut builder = LayoutBuilder::new(superblock.name(), superblock.block_bytes, total_bytes);
        if superblock.has_ro_compat(ro_compat::SHARED_BLOCKS) {
            builder = builder.sharing();
        }
        let mut walk = Self {
            device,
            superblock,
            builder,
            mapping_blocks: HashSet::new(),
            attribute_blocks: HashSet::new(),
            damaged_inodes: 0,
        };
        walk.remark_state(total);
        walk
    }

    /// What makes the layout uncertain before anything is read.
    fn remark_state(&mut self, total: u64) {
        let superblock = self.superblock;
        if total > superblock.device_bytes {
            let device = superblock.device_bytes;
            self.builder.remark(format!("the file system has {total} bytes, the device only {device}"));
        }
        if superblock.has_incompat(incompat::RECOVER) {
            self.builder.remark(
                "the journal has not been replayed, so its contents are missing here; mount and unmount the \
                 file system, or freeze it while its layout is read",
            );
        }
        if superblock.errors {
            self.builder.remark("the file system is marked as having errors; check it with e2fsck");
        }
        if superblock.has_compat(compat::HAS_JOURNAL) && superblock.journal_inode == 0 {
            self.builder.remark("the journal is on another device, which this layout does not cover");
        }
    }

    /// Goes through everything.
    pub(super) fn run(mut self) -> Result<Layout, LayoutError> {
        let superblock = self.superblock;
        let block_bytes = superblock.block_bytes;
        if block_bytes == 1024 {
            // The boot block, which with larger blocks shares the superblock's.
            self.builder.add(Class::Superblock, 0, block_bytes);
        }
        if superblock.mmp_block != 0 {
            self.builder.add(
                Class::OtherMetadata,
                superblock.mmp_block.saturating_mul(block_bytes),
                block_bytes,
            );
        }
        for_each_group(self.device, superblock, |group| {
            group.claim(superblock, &mut self.builder);
            self.inodes(&group)
        })?;
        if self.damaged_inodes > 0 {
            let damaged = self.damaged_inodes;
            self.builder.remark(format!(
                "{damaged} inodes could not be read fully; check the file system with e2fsck"
            ));
        }
        Ok(self.builder.finish())
    }

    /// Claims the blocks of a group's inodes.
    fn inodes(&mut self, group: &Group) -> Result<(), LayoutError> {
        if group.inodes_initialised == 0 {
            return Ok(());
        }
        let block_bytes = self.superblock.block_bytes;
        let bitmap = read_bytes(self.device, group.inode_bitmap * block_bytes, block_bytes as usize)?;
        let in_use = |index: &u64| bitmap[(index / 8) as usize] & (1 << (index % 8)) != 0;
        for index in (0..group.inodes_initialised).filter(in_use) {
            let number = group.number * self.superblock.inodes_per_group + index + 1;
            let offset = group.inode_table * block_bytes + index * self.superblock.inode_bytes;
            if let Err(error) = self.inode(number, offset) {
                self.damaged_inodes += 1;
                if self.damaged_inodes <= 10 {
                    self.builder.remark(error.to_string());
                }
            }
        }
        Ok(())
    }

    fn inode(&mut self, number: u64, offset: u64) -> Result<(), LayoutError> {
        let mut bytes = [0; BASE_BYTES];
        self.device.read_at(offset, &mut bytes).map_err(|source| LayoutError::Io { offset, source })?;
        let inode = Inode::parse(self.superblock, number, &Fields::new(NAME, offset, &bytes))?;
        if inode.attribute_block != 0 && self.attribute_blocks.insert(inode.attribute_block) {
            let block_bytes = self.superblock.block_bytes;
            let start = inode.attribute_block.saturating_mul(block_bytes);
            self.builder.add_of_inode(Class::OtherMetadata, start, block_bytes, number, None);
        }
        self.claim_blocks(&inode)
    }
}
