//! Files of entries of one size: the DAT file with an entry for each virtual block, and the ifile with the inodes.

use super::superblock::Superblock;

/// How entries are laid out (`nilfs_palloc_*` in `alloc.c`): for so many groups a block of their descriptors, and for each
/// group a bitmap of one block, which says which of the entries in the blocks behind it are in use.
#[derive(Clone, Copy, Debug)]
pub(super) struct EntryFile {
    entry_bytes: usize,
    entries_per_block: u64,
    entries_per_group: u64,
    blocks_per_group: u64,
    groups_per_descriptors: u64,
    blocks_per_descriptors: u64,
}

/// What a block of such a file has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Descriptors,
    /// Which entries of the group are in use.
    Bitmap,
    Entries {
        /// The number of its first entry.
        first: u64,
        /// Which bit of the bitmap is of the first.
        bit: usize,
    },
}

/// `struct nilfs_palloc_group_desc`.
const DESCRIPTOR_BYTES: u64 = 4;

impl EntryFile {
    /// One whose entries have so many bytes, at most those of a block.
    pub(super) fn new(superblock: &Superblock, entry_bytes: usize) -> Self {
        let block_bytes = superblock.block_bytes() as u64;
        let entries_per_block = (block_bytes / entry_bytes as u64).max(1);
        let entries_per_group = block_bytes * 8;
        let blocks_per_group = entries_per_group.div_ceil(entries_per_block) + 1;
        let groups_per_descriptors = block_bytes / DESCRIPTOR_BYTES;
        Self {
            entry_bytes,
            entries_per_block,
            entries_per_group,
            blocks_per_group,
            groups_per_descriptors,
            blocks_per_descriptors: groups_per_descriptors * blocks_per_group + 1,
        }
    }

    /// The block of the file in which an entry is, and its first byte there.
    pub(super) fn place(&self, number: u64) -> (u64, usize) {
        let (group, within) = (number / self.entries_per_group, number % self.entries_per_group);
        let (run, group) = (group / self.groups_per_descriptors, group % self.groups_per_descriptors);
        let before = run * self.blocks_per_descriptors + 1 + group * self.blocks_per_group + 1;
        let at = (within % self.entries_per_block) as usize * self.entry_bytes;
        (before + within / self.entries_per_block, at)
    }

    /// What a block of the file has.
    pub(super) fn role(&self, position: u64) -> Role {
        let (run, within) = (position / self.blocks_per_descriptors, position % self.blocks_per_descriptors);
        let Some(within) = within.checked_sub(1) else { return Role::Descriptors };
        let group = run * self.groups_per_descriptors + within / self.blocks_per_group;
        let Some(block) = (within % self.blocks_per_group).checked_sub(1) else { return Role::Bitmap };
        let bit = block * self.entries_per_block;
        // A position beyond what numbers of entries reach is of no use to anyone.
        Role::Entries {
            first: group.saturating_mul(self.entries_per_group).saturating_add(bit),
            bit: bit as usize,
        }
    }

    /// The entries of a block, each with how far its first byte is in it.
    pub(super) fn in_block(&self) -> impl Iterator<Item = (u64, usize)> + use<> {
        let bytes = self.entry_bytes;
        (0..self.entries_per_block).map(move |slot| (slot, slot as usize * bytes))
    }
}
