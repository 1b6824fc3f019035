//! The superblock, `struct nilfs_super_block`, of which there are two copies, and the segments that it describes.

use super::{NAME, damaged};
use crate::fields::{Fields, read_bytes};
use crate::read_at::{LayoutError, ReadAt};

/// `NILFS_SB_OFFSET_BYTES`.
pub(super) const OFFSET: u64 = 1024;
/// `s_magic` (`NILFS_SUPER_MAGIC` in `include/uapi/linux/magic.h`), and where it is.
pub(super) const MAGIC: u16 = 0x3434;
pub(super) const MAGIC_AT: u64 = 6;

const BYTES: usize = 1024;
/// `s_sum`.
const SUM_AT: usize = 16;
/// The second copy is the last piece of the device that has so many bytes and begins at a multiple of them:
/// `NILFS_SB2_OFFSET_BYTES`.
pub(super) const SECOND_COPY_BYTES: u64 = 4096;
/// `NILFS_CURRENT_REV`.
const REVISION: u32 = 2;
/// The largest `s_log_block_size`: `NILFS_MAX_BLOCK_SIZE` is 1024 bytes times two to this.
const MOST_LOG_BLOCK_BYTES: u32 = 6;
/// `NILFS_SEG_MIN_BLOCKS`.
const LEAST_SEGMENT_BLOCKS: u64 = 16;
/// Bit of `s_state`: `NILFS_VALID_FS`.
const UNMOUNTED: u16 = 0x1;
/// `NILFS_FEATURE_INCOMPAT_SUPP`.
const KNOWN_FEATURES: u64 = 0;

/// What the superblock says. Places are in blocks.
#[derive(Debug)]
pub(super) struct Superblock {
    pub(super) block_bits: u32,
    pub(super) total_bytes: u64,
    pub(super) segments: u64,
    pub(super) blocks_per_segment: u64,
    /// Where the first segment begins, which is that much shorter.
    pub(super) first_data_block: u64,
    /// The last log that was written when the superblock was: `s_last_pseg`, `s_last_seq`.
    pub(super) last_log: u64,
    pub(super) last_sequence: u64,
    /// What all checksums begin with.
    pub(super) seed: u32,
    /// Bytes of each entry of the metadata files.
    pub(super) inode_bytes: usize,
    pub(super) address_bytes: usize,
    pub(super) checkpoint_bytes: usize,
    pub(super) usage_bytes: usize,
    pub(super) unmounted: bool,
    last_checkpoint: u64,
}

impl Superblock {
    /// Reads both copies, and takes the newer of those that are whole.
    pub(super) fn read(device: &dyn ReadAt) -> Result<Self, LayoutError> {
        let device_bytes = device.bytes().map_err(|source| LayoutError::Io { offset: 0, source })?;
        let first = Self::read_copy(device, OFFSET);
        let second = Self::read_copy(device, second_copy(device_bytes));
        let read = match (first, second) {
            // The seed is drawn by mkfs: another one is of an older file system.
            (Ok(first), Ok(second))
                if second.seed == first.seed && second.last_checkpoint > first.last_checkpoint =>
            {
                second
            }
            (Ok(first), _) => first,
            (Err(LayoutError::Damaged { .. }), Ok(second)) => second,
            (Err(error), _) => return Err(error),
        };
        read.check(device_bytes)?;
        Ok(read)
    }

    fn read_copy(device: &dyn ReadAt, offset: u64) -> Result<Self, LayoutError> {
        let bytes = read_bytes(device, offset, BYTES)?;
        let sb = Fields::new(NAME, offset, &bytes);
        if sb.u16_le(MAGIC_AT as usize)? != MAGIC {
            return Err(sb.damaged(MAGIC_AT as usize, "there is no superblock"));
        }
        let seed = sb.u32_le(12)?;
        let counted = sb.slice(0, usize::from(sb.u16_le(8)?))?.bytes();
        let mut sum = Checksum::new(seed);
        if counted.len() < SUM_AT + 4 {
            return Err(sb.damaged(8, "the superblock is too short"));
        }
        sum.add(&counted[..SUM_AT]);
        sum.add(&[0; 4]);
        sum.add(&counted[SUM_AT + 4..]);
        if sum.value() != sb.u32_le(SUM_AT)? {
            return Err(sb.damaged(SUM_AT, "the checksum of the superblock is wrong"));
        }
        let (revision, features) = (sb.u32_le(0)?, sb.u64_le(0x110)? & !KNOWN_FEATURES);
        let log_block_bytes = sb.u32_le(20)?;
        let unknown = if revision != REVISION {
            Some(format!("revision {revision}"))
        } else if log_block_bytes > MOST_LOG_BLOCK_BYTES {
            Some(format!("blocks of 2^{log_block_bytes} KiB"))
        } else {
            (features != 0).then(|| format!("incompatible features {features:#x}"))
        };
        if let Some(feature) = unknown {
            return Err(LayoutError::Unsupported { file_system: NAME, feature });
        }
        Ok(Self {
            block_bits: 10 + log_block_bytes,
            total_bytes: sb.u64_le(0x20)?,
            segments: sb.u64_le(0x18)?,
            blocks_per_segment: u64::from(sb.u32_le(0x30)?),
            first_data_block: sb.u64_le(0x28)?,
            last_log: sb.u64_le(0x40)?,
            last_sequence: sb.u64_le(0x48)?,
            seed,
            inode_bytes: usize::from(sb.u16_le(0x90)?),
            address_bytes: usize::from(sb.u16_le(0x92)?),
            checkpoint_bytes: usize::from(sb.u16_le(0x94)?),
            usage_bytes: usize::from(sb.u16_le(0x96)?),
            unmounted: sb.u16_le(0x74)? & UNMOUNTED != 0,
            last_checkpoint: sb.u64_le(0x38)?,
        })
    }

    fn check(&self, device_bytes: u64) -> Result<(), LayoutError> {
        if self.total_bytes > device_bytes {
            let reason = format!("it has {} bytes, more than the device", self.total_bytes);
            return Err(damaged(OFFSET + 0x20, reason));
        }
        let end = self.segments.checked_mul(self.blocks_per_segment);
        let fit = end.is_some_and(|end| end <= self.total_bytes >> self.block_bits)
            && self.blocks_per_segment >= LEAST_SEGMENT_BLOCKS
            && (1..self.blocks_per_segment).contains(&self.first_data_block);
        if !fit {
            return Err(damaged(OFFSET + 0x18, "its segments do not fit the device"));
        }
        // The least of each: `NILFS_MIN_*_SIZE`.
        let entries = [
            (self.inode_bytes, 128),
            (self.address_bytes, 32),
            (self.checkpoint_bytes, 64 + 128),
            (self.usage_bytes, 16),
        ];
        // The super root with three inodes is one block.
        if entries.iter().any(|(bytes, least)| !(*least..=self.block_bytes() / 4).contains(bytes)) {
            return Err(damaged(OFFSET + 0x90, "entries of its metadata files have an invalid size"));
        }
        Ok(())
    }

    pub(super) fn block_bytes(&self) -> usize {
        1 << self.block_bits
    }

    /// The byte at which a block begins; of blocks within the file system.
    pub(super) fn offset_of(&self, block: u64) -> u64 {
        block << self.block_bits
    }

    /// Whether it is in a segment.
    pub(super) fn is_in_log(&self, block: u64) -> bool {
        (self.first_data_block..self.segments * self.blocks_per_segment).contains(&block)
    }

    /// The first block of a segment (`nilfs_get_segment_range` in `the_nilfs.c`).
    pub(super) fn segment_start(&self, segment: u64) -> u64 {
        (segment * self.blocks_per_segment).max(self.first_data_block)
    }

    /// The block after the segment in which a block of the log is.
    pub(super) fn segment_end(&self, block: u64) -> u64 {
        (block / self.blocks_per_segment + 1) * self.blocks_per_segment
    }
}

/// Where the second copy is on a device of so many bytes.
pub(super) fn second_copy(device_bytes: u64) -> u64 {
    (device_bytes / SECOND_COPY_BYTES).saturating_sub(1) * SECOND_COPY_BYTES
}

/// The CRC-32 of all structures, which is not inverted as the usual one is (`crc32_le` in the kernel).
pub(super) struct Checksum(crc32fast::Hasher);

impl Checksum {
    pub(super) fn new(seed: u32) -> Self {
        Self(crc32fast::Hasher::new_with_initial(!seed))
    }

    pub(super) fn add(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    pub(super) fn value(self) -> u32 {
        !self.0.finalize()
    }
}
