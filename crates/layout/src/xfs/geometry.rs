//! The superblock: where the parts of the file system are.

use super::{NAME, damaged};
use crate::fields::{Fields, read_bytes};
use crate::read_at::{LayoutError, ReadAt};

/// `XFS_SB_FEAT_RO_COMPAT_REFLINK` in `xfs_format.h`.
const RO_COMPAT_REFLINK: u32 = 1 << 2;
/// `XFS_SB_FEAT_RO_COMPAT_FINOBT`.
const RO_COMPAT_FREE_INODE_TREE: u32 = 1 << 0;
/// `XFS_SB_FEAT_RO_COMPAT_RMAPBT`.
const RO_COMPAT_REVERSE_MAP: u32 = 1 << 1;
/// `XFS_SB_FEAT_INCOMPAT_SPINODES`.
const INCOMPAT_SPARSE_INODES: u32 = 1 << 1;
/// `XFS_SB_FEAT_INCOMPAT_` FTYPE, SPINODES, META_UUID, BIGTIME, NEEDSREPAIR, NREXT64, EXCHRANGE, PARENT, METADIR:
/// those that leave everything where it is, or are understood here.
const INCOMPAT_UNDERSTOOD: u32 = (1 << 9) - 1;
/// `XFS_SB_FEAT_INCOMPAT_ZONED` and `_ZONE_GAPS`: the realtime section is on the same device.
const INCOMPAT_ZONED: u32 = 0b11 << 9;
/// No inode: `NULLFSINO`.
const NO_INODE: u64 = u64::MAX;

/// Sizes and features.
#[derive(Clone, Copy, Debug)]
pub(super) struct Geometry {
    pub(super) block_bytes: u64,
    pub(super) sector_bytes: u64,
    pub(super) inode_bytes: u64,
    /// Blocks of the data section.
    blocks: u64,
    /// Blocks of an allocation group; the last may have fewer.
    ag_blocks: u32,
    pub(super) ag_count: u32,
    /// Bits of a block number that are the block within its group.
    ag_block_bits: u32,
    /// Bits of an inode number that are the inode within its block.
    inode_in_block_bits: u32,
    /// The log's first block number and its blocks, if it is on this device.
    pub(super) log: Option<(u64, u64)>,
    /// Whether structures carry checksums (version 5).
    pub(super) checksums: bool,
    pub(super) reflink: bool,
    pub(super) free_inode_tree: bool,
    pub(super) reverse_map: bool,
    pub(super) sparse_inodes: bool,
    /// Inodes of the realtime section's bitmap and its summary.
    pub(super) realtime_inodes: [u64; 2],
    /// Inodes of user, group and project quotas.
    pub(super) quota_inodes: [u64; 3],
}

impl Geometry {
    /// Reads the primary superblock (`struct xfs_dsb`).
    pub(super) fn read(device: &dyn ReadAt) -> Result<Self, LayoutError> {
        let bytes = read_bytes(device, 0, 512)?;
        let sb = Fields::new(NAME, 0, &bytes);
        let version = sb.u16_be(100)? & 0xf;
        let checksums = match version {
            4 => false,
            5 => true,
            other => {
                let feature = format!("version {other} of its format");
                return Err(LayoutError::Unsupported { file_system: NAME, feature });
            }
        };
        let (ro_compat, incompat) = if checksums { (sb.u32_be(212)?, sb.u32_be(216)?) } else { (0, 0) };
        refuse_unknown(incompat)?;
        let log = (sb.u64_be(48)?, u64::from(sb.u32_be(96)?));
        let geometry = Self {
            block_bytes: u64::from(sb.u32_be(4)?),
            sector_bytes: u64::from(sb.u16_be(102)?),
            inode_bytes: u64::from(sb.u16_be(104)?),
            blocks: sb.u64_be(8)?,
            ag_blocks: sb.u32_be(84)?,
            ag_count: sb.u32_be(88)?,
            ag_block_bits: u32::from(sb.u8(124)?),
            inode_in_block_bits: u32::from(sb.u8(123)?),
            log: (log.0 != 0).then_some(log),
            checksums,
            reflink: ro_compat & RO_COMPAT_REFLINK != 0,
            free_inode_tree: ro_compat & RO_COMPAT_FREE_INODE_TREE != 0,
            reverse_map: ro_compat & RO_COMPAT_REVERSE_MAP != 0,
            sparse_inodes: incompat & INCOMPAT_SPARSE_INODES != 0,
            realtime_inodes: [sb.u64_be(64)?, sb.u64_be(72)?],
            quota_inodes: [
                sb.u64_be(160)?,
                sb.u64_be(168)?,
                if checksums { sb.u64_be(232)? } else { NO_INODE },
            ],
        };
        geometry.check(device)?;
        Ok(geometry)
    }

    /// Sees that the numbers fit each other and the device. The limits are those of `xfs_validate_sb_common` in
    /// `xfs_sb.c`.
    fn check(&self, device: &dyn ReadAt) -> Result<(), LayoutError> {
        let power =
            |value: u64, least: u64, most: u64| value.is_power_of_two() && value >= least && value <= most;
        let sizes = power(self.block_bytes, 512, 65536)
            && power(self.sector_bytes, 512, 32768)
            && power(self.inode_bytes, 256, 2048)
            && self.inode_bytes <= self.block_bytes;
        if !sizes {
            return Err(damaged(
                4,
                "the sizes of blocks, sectors and inodes in the superblock are not possible",
            ));
        }
        let groups = self.blocks.checked_div(u64::from(self.ag_blocks)).unwrap_or(0);
        let partial = u64::from(!self.blocks.is_multiple_of(u64::from(self.ag_blocks.max(1))));
        let fits = self.ag_blocks >= 64
            && groups + partial == u64::from(self.ag_count)
            && self.ag_block_bits == self.ag_blocks.next_power_of_two().trailing_zeros()
            && self.inode_in_block_bits == (self.block_bytes / self.inode_bytes).trailing_zeros();
        if !fits {
            return Err(damaged(
                84,
                "the number and size of allocation groups in the superblock contradict each other",
            ));
        }
        let device_bytes = device.bytes().map_err(|source| LayoutError::Io { offset: 0, source })?;
        if self.blocks.checked_mul(self.block_bytes).is_none_or(|bytes| bytes > device_bytes) {
            return Err(damaged(8, format!("it has {} blocks, more than fit on the device", self.blocks)));
        }
        Ok(())
    }

    pub(super) fn total_bytes(&self) -> u64 {
        self.blocks * self.block_bytes
    }

    /// Blocks of an allocation group.
    pub(super) fn blocks_of(&self, ag: u32) -> u32 {
        let before = u64::from(ag) * u64::from(self.ag_blocks);
        u32::try_from(self.blocks.saturating_sub(before)).unwrap_or(u32::MAX).min(self.ag_blocks)
    }

    /// Where a block of an allocation group is on the device.
    pub(super) fn ag_byte(&self, ag: u32, block: u32) -> u64 {
        (u64::from(ag) * u64::from(self.ag_blocks) + u64::from(block)) * self.block_bytes
    }

    /// Where blocks of an allocation group are on the device, if the group has them.
    pub(super) fn in_group(&self, ag: u32, block: u32, blocks: u64) -> Option<u64> {
        let inside = u64::from(block) + blocks <= u64::from(self.blocks_of(ag));
        inside.then(|| self.ag_byte(ag, block))
    }

    /// Where the blocks from a block number of the whole file system on are on the device. They are in one group.
    pub(super) fn in_file_system(&self, number: u64, blocks: u64) -> Option<u64> {
        let ag = u32::try_from(number >> self.ag_block_bits).ok().filter(|ag| *ag < self.ag_count)?;
        let block = u32::try_from(number & ((1 << self.ag_block_bits) - 1)).ok()?;
        self.in_group(ag, block, blocks)
    }

    /// The number of an inode, given within its group.
    pub(super) fn inode_number(&self, ag: u32, inode_in_group: u64) -> u64 {
        u64::from(ag) << (self.ag_block_bits + self.inode_in_block_bits) | inode_in_group
    }

    /// Bytes of the head of a block of a group's tree: `XFS_BTREE_SBLOCK_LEN`, `XFS_BTREE_SBLOCK_CRC_LEN`.
    pub(super) fn short_tree_header(&self) -> usize {
        if self.checksums { 56 } else { 16 }
    }

    /// Bytes of the head of a block of an inode's tree: `XFS_BTREE_LBLOCK_LEN`, `XFS_BTREE_LBLOCK_CRC_LEN`.
    pub(super) fn long_tree_header(&self) -> usize {
        if self.checksums { 72 } else { 24 }
    }
}

fn refuse_unknown(incompat: u32) -> Result<(), LayoutError> {
    let unsupported = |feature: String| Err(LayoutError::Unsupported { file_system: NAME, feature });
    if incompat & INCOMPAT_ZONED != 0 {
        return unsupported("zones on its own device".into());
    }
    if incompat & !INCOMPAT_UNDERSTOOD != 0 {
        return unsupported(format!("incompatible features {:#x}", incompat & !INCOMPAT_UNDERSTOOD));
    }
    Ok(())
}
