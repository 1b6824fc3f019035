//! `struct reiserfs_super_block`.

use std::ops::Range;

use super::NAME;
use super::blocks::Blocks;
use crate::fields::{Fields, read_bytes};
use crate::file_systems::has_magic;
use crate::read_at::{LayoutError, ReadAt};

/// `REISERFS_OLD_DISK_OFFSET_IN_BYTES` (3.5.0 to 3.5.10) and `REISERFS_DISK_OFFSET_IN_BYTES`, in the order in which
/// `reiserfs_fill_super` tries them.
const PLACES: [u64; 2] = [8 << 10, 64 << 10];

/// `SB_SIZE`.
const BYTES: usize = 204;

/// `s_magic`, from the beginning of the superblock.
const MAGIC_AT: usize = 52;

/// Journal on the same device in its usual place, 3.5 and 3.6; and `is_reiserfs_jr`: elsewhere, or of another size.
const MAGICS: [&[u8]; 3] = [b"ReIsErFs", b"ReIsEr2Fs", RELOCATED];
const RELOCATED: &[u8] = b"ReIsEr3Fs";

/// What is needed of the superblock.
#[derive(Clone, Debug)]
pub(super) struct Superblock {
    /// Which block it is.
    pub(super) block: u64,
    /// Bytes of a block.
    pub(super) block_bytes: u64,
    /// `s_block_count`.
    pub(super) block_count: u64,
    /// `s_root_block`.
    pub(super) root: u64,
    /// `jp_journal_1st_block`.
    pub(super) journal_first: u64,
    /// `jp_journal_size`, without the header, which comes after it.
    pub(super) journal_blocks: u64,
    /// `jp_journal_trans_max`.
    pub(super) transaction_blocks: u64,
    /// The journal is on another device.
    pub(super) journal_elsewhere: bool,
    /// Blocks kept free at the usual place of the journal when it is relocated.
    reserved_blocks: Option<u64>,
    /// The bitmaps follow the superblock, as before 3.5.10; later each is at the beginning of what it describes.
    old_bitmaps: bool,
}

/// Where a superblock is, if there is one.
pub(super) fn find(device: &dyn ReadAt) -> Option<u64> {
    let is_here = |place: u64| MAGICS.iter().any(|magic| has_magic(device, place + MAGIC_AT as u64, magic));
    PLACES.into_iter().find(|&place| is_here(place))
}

impl Superblock {
    /// Reads it from its place.
    pub(super) fn read(device: &dyn ReadAt) -> Result<Self, LayoutError> {
        let place = find(device).ok_or(LayoutError::NotKnown)?;
        let bytes = read_bytes(device, place, BYTES)?;
        Self::parse(&Fields::new(NAME, place, &bytes), place)
    }

    /// The one in the journal, if there is a newer one.
    pub(super) fn newest(&self, blocks: &Blocks<'_>) -> Result<Self, LayoutError> {
        let bytes = blocks.read(self.block)?;
        let place = self.block * self.block_bytes;
        let newest = Self::parse(&Fields::new(NAME, place, &bytes), place)?;
        if newest.block_bytes != self.block_bytes {
            return Err(Fields::new(NAME, place, &bytes)
                .damaged(44, "the journal has a superblock with another block size"));
        }
        Ok(newest)
    }

    fn parse(fields: &Fields<'_>, place: u64) -> Result<Self, LayoutError> {
        let block_bytes = u64::from(fields.u16_le(44)?);
        // Bounds of `read_super_block` and of the page size; the superblock must begin a block.
        if !block_bytes.is_power_of_two()
            || !(512..=32768).contains(&block_bytes)
            || !place.is_multiple_of(block_bytes)
        {
            return Err(fields.damaged(44, format!("{block_bytes} is not a valid block size")));
        }
        let relocated = fields.slice(MAGIC_AT, RELOCATED.len())?.bytes() == RELOCATED;
        let superblock = Self {
            block: place / block_bytes,
            block_bytes,
            block_count: fields.u32_le(0)?.into(),
            root: fields.u32_le(8)?.into(),
            journal_first: fields.u32_le(12)?.into(),
            // A journal in a file has no device number; but none begins before the superblock.
            journal_elsewhere: relocated
                && (fields.u32_le(16)? != 0 || u64::from(fields.u32_le(12)?) <= place / block_bytes),
            journal_blocks: fields.u32_le(20)?.into(),
            transaction_blocks: fields.u32_le(24)?.into(),
            reserved_blocks: if relocated { Some(fields.u16_le(74)?.into()) } else { None },
            old_bitmaps: place == PLACES[0],
        };
        if superblock.block_count <= superblock.block {
            return Err(fields.damaged(0, format!("it has only {} blocks", superblock.block_count)));
        }
        Ok(superblock)
    }

    /// `reiserfs_bmap_count`.
    pub(super) fn bitmap_count(&self) -> u64 {
        (self.block_count - 1) / self.blocks_per_bitmap() + 1
    }

    /// Blocks that one bitmap describes.
    pub(super) fn blocks_per_bitmap(&self) -> u64 {
        self.block_bytes * 8
    }

    /// Where a bitmap is (`reiserfs_read_bitmap_block`).
    pub(super) fn bitmap_block(&self, number: u64) -> u64 {
        match number {
            _ if self.old_bitmaps => self.block + 1 + number,
            0 => self.block + 1,
            _ => number * self.blocks_per_bitmap(),
        }
    }

    /// The journal with its header, and what is reserved for it (`is_block_in_log_or_reserved_area`), without overlap.
    pub(super) fn journal_parts(&self) -> Vec<Range<u64>> {
        // `SB_JOURNAL_1st_RESERVED_BLOCK`, set by `journal_init`.
        let reserved_first =
            if self.old_bitmaps { self.block + 1 + self.bitmap_count() } else { self.block + 2 };
        let reserved = self.reserved_blocks.map(|blocks| reserved_first..reserved_first + blocks);
        let journal = self.journal_first..self.journal_first + self.journal_blocks + 1;
        let journal = Some(journal).filter(|_| !self.journal_elsewhere);
        let mut parts: Vec<Range<u64>> =
            reserved.into_iter().chain(journal).filter(|part| !part.is_empty()).collect();
        parts.sort_by_key(|part| part.start);
        parts.dedup_by(|later, earlier| {
            let touches = later.start <= earlier.end;
            if touches {
                earlier.end = earlier.end.max(later.end);
            }
            touches
        });
        parts
    }
}
