//! The superblock (`struct ext4_super_block`, fs/ext4/ext4.h), as far as positions of blocks depend on it.

use crate::fields::Fields;
use crate::read_at::{LayoutError, ReadAt};

use super::NAME;

/// Where the first superblock lies, whatever the block size.
pub(super) const SUPERBLOCK_AT: u64 = 1024;
const SUPERBLOCK_BYTES: usize = 1024;

/// Feature bits (`EXT4_FEATURE_*`).
pub(super) mod compat {
    pub(crate) const HAS_JOURNAL: u32 = 0x4;
    pub(crate) const SPARSE_SUPER2: u32 = 0x200;
    pub(crate) const ORPHAN_FILE: u32 = 0x1000;
}
pub(super) mod incompat {
    pub(crate) const FILETYPE: u32 = 0x2;
    pub(crate) const RECOVER: u32 = 0x4;
    pub(crate) const JOURNAL_DEV: u32 = 0x8;
    pub(crate) const META_BG: u32 = 0x10;
    pub(crate) const EXTENTS: u32 = 0x40;
    pub(crate) const BITS64: u32 = 0x80;
    pub(crate) const MMP: u32 = 0x100;
    pub(crate) const FLEX_BG: u32 = 0x200;
    pub(crate) const EA_INODE: u32 = 0x400;
    pub(crate) const CSUM_SEED: u32 = 0x2000;
    pub(crate) const LARGEDIR: u32 = 0x4000;
    pub(crate) const INLINE_DATA: u32 = 0x8000;
    pub(crate) const ENCRYPT: u32 = 0x1_0000;
    pub(crate) const CASEFOLD: u32 = 0x2_0000;
    /// Those that change nothing here or are understood.
    pub(crate) const UNDERSTOOD: u32 = FILETYPE
        | RECOVER
        | META_BG
        | EXTENTS
        | BITS64
        | MMP
        | FLEX_BG
        | EA_INODE
        | CSUM_SEED
        | LARGEDIR
        | INLINE_DATA
        | ENCRYPT
        | CASEFOLD;
    /// Those that ext3 knows too.
    pub(crate) const EXT3: u32 = FILETYPE | RECOVER | META_BG;
}
pub(super) mod ro_compat {
    pub(crate) const SPARSE_SUPER: u32 = 0x1;
    pub(crate) const LARGE_FILE: u32 = 0x2;
    pub(crate) const BTREE_DIR: u32 = 0x4;
    pub(crate) const GDT_CSUM: u32 = 0x10;
    pub(crate) const QUOTA: u32 = 0x100;
    pub(crate) const BIGALLOC: u32 = 0x200;
    pub(crate) const METADATA_CSUM: u32 = 0x400;
    pub(crate) const SHARED_BLOCKS: u32 = 0x4000;
    /// Those that ext3 knows too.
    pub(crate) const EXT3: u32 = SPARSE_SUPER | LARGE_FILE | BTREE_DIR;
}

/// What is needed of the superblock.
#[derive(Clone, Debug)]
pub(super) struct Superblock {
    pub(super) block_bytes: u64,
    pub(super) blocks: u64,
    pub(super) first_data_block: u64,
    pub(super) blocks_per_group: u64,
    pub(super) inodes_per_group: u64,
    pub(super) inodes: u64,
    pub(super) inode_bytes: u64,
    pub(super) groups: u64,
    pub(super) descriptor_bytes: u64,
    pub(super) reserved_descriptor_blocks: u64,
    pub(super) first_meta_group: u64,
    pub(super) backup_groups: [u64; 2],
    pub(super) compat: u32,
    pub(super) incompat: u32,
    pub(super) ro_compat: u32,
    pub(super) journal_inode: u64,
    pub(super) mmp_block: u64,
    /// Inodes of quota files and the orphan file.
    pub(super) housekeeping_inodes: Vec<u64>,
    pub(super) errors: bool,
    /// Bytes of the device.
    pub(super) device_bytes: u64,
}

impl Superblock {
    /// Reads and checks it, as strictly as `ext4_fill_super` does what positions depend on.
    pub(super) fn read(device: &dyn ReadAt) -> Result<Self, LayoutError> {
        let io = |source| LayoutError::Io { offset: SUPERBLOCK_AT, source };
        let mut bytes = [0; SUPERBLOCK_BYTES];
        device.read_at(SUPERBLOCK_AT, &mut bytes).map_err(io)?;
        let fields = Fields::new(NAME, SUPERBLOCK_AT, &bytes);
        let incompat = fields.u32_le(0x60)?;
        refuse_features(incompat)?;
        let mut superblock = Self::parse(&fields, incompat)?;
        superblock.device_bytes = device.bytes().map_err(io)?;
        superblock.check(&fields)?;
        superblock.groups =
            (superblock.blocks - superblock.first_data_block).div_ceil(superblock.blocks_per_group);
        superblock.check_groups(&fields)?;
        Ok(superblock)
    }

    fn parse(fields: &Fields<'_>, incompat: u32) -> Result<Self, LayoutError> {
        let number = |at| Ok::<u64, LayoutError>(u64::from(fields.u32_le(at)?));
        let log_block_bytes = fields.u32_le(0x18)?;
        if log_block_bytes > 6 {
            return Err(fields.damaged(0x18, "blocks of more than 64 KiB"));
        }
        let bits64 = incompat & incompat::BITS64 != 0;
        let dynamic = fields.u32_le(0x4c)? > 0;
        let compat = fields.u32_le(0x5c)?;
        let ro_compat = fields.u32_le(0x64)?;
        let mut housekeeping_inodes = Vec::new();
        if ro_compat & ro_compat::QUOTA != 0 {
            housekeeping_inodes.extend([number(0x240)?, number(0x244)?, number(0x26c)?]);
        }
        if compat & compat::ORPHAN_FILE != 0 {
            housekeeping_inodes.push(number(0x280)?);
        }
        Ok(Self {
            block_bytes: 1024 << log_block_bytes,
            blocks: number(4)? | if bits64 { number(0x150)? << 32 } else { 0 },
            first_data_block: number(0x14)?,
            blocks_per_group: number(0x20)?,
            inodes_per_group: number(0x28)?,
            inodes: number(0)?,
            inode_bytes: if dynamic { u64::from(fields.u16_le(0x58)?) } else { 128 },
            groups: 0,
            descriptor_bytes: if bits64 { u64::from(fields.u16_le(0xfe)?) } else { 32 },
            reserved_descriptor_blocks: u64::from(fields.u16_le(0xce)?),
            first_meta_group: number(0x104)?,
            backup_groups: [number(0x24c)?, number(0x250)?],
            compat,
            incompat,
            ro_compat,
            journal_inode: if compat & compat::HAS_JOURNAL != 0 { number(0xe0)? } else { 0 },
            mmp_block: if incompat & incompat::MMP != 0 { fields.u64_le(0x168)? } else { 0 },
            housekeeping_inodes,
            errors: fields.u16_le(0x3a)? & 2 != 0,
            device_bytes: 0,
        })
    }

    fn check(&self, fields: &Fields<'_>) -> Result<(), LayoutError> {
        let bits_of_a_block = self.block_bytes * 8;
        let cluster_blocks = if self.has_ro_compat(ro_compat::BIGALLOC) {
            let log = u64::from(fields.u32_le(0x1c)?).wrapping_sub(u64::from(fields.u32_le(0x18)?));
            if log > 20 {
                return Err(fields.damaged(0x1c, "clusters smaller than a block or larger than 2^20 blocks"));
            }
            1 << log
        } else {
            1
        };
        if self.blocks_per_group < 8 || self.blocks_per_group > bits_of_a_block * cluster_blocks {
            return Err(fields.damaged(0x20, format!("{} blocks per group", self.blocks_per_group)));
        }
        if self.inodes_per_group == 0 || self.inodes_per_group > bits_of_a_block {
            return Err(fields.damaged(0x28, format!("{} inodes per group", self.inodes_per_group)));
        }
        if !self.inode_bytes.is_power_of_two() || !(128..=self.block_bytes).contains(&self.inode_bytes) {
            return Err(fields.damaged(0x58, format!("inodes of {} bytes", self.inode_bytes)));
        }
        if !self.descriptor_bytes.is_power_of_two() || !(32..=1024).contains(&self.descriptor_bytes) {
            return Err(fields.damaged(0xfe, format!("group descriptors of {} bytes", self.descriptor_bytes)));
        }
        if self.first_data_block > 1 || self.blocks <= self.first_data_block {
            return Err(fields.damaged(4, format!("{} blocks", self.blocks)));
        }
        if self.blocks.checked_mul(self.block_bytes).is_none_or(|bytes| bytes > i64::MAX as u64) {
            return Err(fields.damaged(4, format!("{} blocks", self.blocks)));
        }
        Ok(())
    }

    fn check_groups(&self, fields: &Fields<'_>) -> Result<(), LayoutError> {
        if self.inodes != self.groups.saturating_mul(self.inodes_per_group) {
            let reason =
                format!("{} inodes in {} groups of {}", self.inodes, self.groups, self.inodes_per_group);
            return Err(fields.damaged(0, reason));
        }
        if self.descriptor_blocks() * self.block_bytes > self.device_bytes {
            return Err(fields.damaged(4, "more group descriptors than the device can hold"));
        }
        Ok(())
    }

    pub(super) fn has_compat(&self, feature: u32) -> bool {
        self.compat & feature != 0
    }

    pub(super) fn has_incompat(&self, feature: u32) -> bool {
        self.incompat & feature != 0
    }

    pub(super) fn has_ro_compat(&self, feature: u32) -> bool {
        self.ro_compat & feature != 0
    }

    /// Whether unused parts of groups may never have been initialised.
    pub(super) fn has_group_checksums(&self) -> bool {
        self.has_ro_compat(ro_compat::GDT_CSUM | ro_compat::METADATA_CSUM)
    }

    /// Told apart as libblkid does: by what only ext4 knows, then by whether there is a journal.
    pub(super) fn name(&self) -> &'static str {
        if self.has_incompat(!incompat::EXT3) || self.has_ro_compat(!ro_compat::EXT3) {
            "ext4"
        } else if self.has_compat(compat::HAS_JOURNAL) {
            "ext3"
        } else {
            "ext2"
        }
    }

    pub(super) fn descriptors_per_block(&self) -> u64 {
        self.block_bytes / self.descriptor_bytes
    }

    pub(super) fn descriptor_blocks(&self) -> u64 {
        self.groups.div_ceil(self.descriptors_per_block())
    }

    /// The first block of a group.
    pub(super) fn group_start(&self, group: u64) -> u64 {
        self.first_data_block + group * self.blocks_per_group
    }

    pub(super) fn inode_table_blocks(&self) -> u64 {
        (self.inodes_per_group * self.inode_bytes).div_ceil(self.block_bytes)
    }

    /// Whether a group begins with a superblock (`ext4_bg_has_super`, fs/ext4/balloc.c).
    pub(super) fn group_has_superblock(&self, group: u64) -> bool {
        if group == 0 {
            return true;
        }
        if self.has_compat(compat::SPARSE_SUPER2) {
            return self.backup_groups.contains(&group);
        }
        if group <= 1 || !self.has_ro_compat(ro_compat::SPARSE_SUPER) {
            return true;
        }
        [3, 5, 7].into_iter().any(|base| is_power_of(group, base))
    }

    /// Whether the descriptors of a group's meta group are kept in that meta group.
    pub(super) fn group_is_in_meta_group(&self, group: u64) -> bool {
        self.has_incompat(incompat::META_BG) && group / self.descriptors_per_block() >= self.first_meta_group
    }
}

/// Whether `number` is a power of `base`, the first included.
fn is_power_of(mut number: u64, base: u64) -> bool {
    while number > 1 && number.is_multiple_of(base) {
        number /= base;
    }
    number == 1
}

fn refuse_features(incompat: u32) -> Result<(), LayoutError> {
    let feature = if incompat & incompat::JOURNAL_DEV != 0 {
        "the whole device as the journal of another".to_owned()
    } else if incompat & !incompat::UNDERSTOOD != 0 {
        format!("incompatible features {:#x}", incompat & !incompat::UNDERSTOOD)
    } else {
        return Ok(());
    };
    Err(LayoutError::Unsupported { file_system: NAME, feature })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers() {
        let sparse: Vec<u64> =
            (2..400).filter(|group| [3, 5, 7].iter().any(|b| is_power_of(*group, *b))).collect();
        assert_eq!(sparse, [3, 5, 7, 9, 25, 27, 49, 81, 125, 243, 343]);
    }
}
