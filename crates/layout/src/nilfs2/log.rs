//! Logs ("partial segments"): what was written at once. Each begins with `struct nilfs_segment_summary`, which says
//! whose the blocks are that follow; one that makes a checkpoint ends with the super root.

use super::superblock::{Checksum, Superblock};
use super::{NAME, damaged};
use crate::fields::{Fields, read_bytes};
use crate::read_at::{LayoutError, ReadAt};

/// `NILFS_SEGSUM_MAGIC`.
const MAGIC: u32 = 0x1eaf_fa11;
/// The header before the files, by `ss_bytes` or this if that is less.
const HEADER_BYTES: usize = 64;
/// What the two checksums leave out: those before them and themselves.
const DATA_SUM_FROM: usize = 4;
const SUMMARY_SUM_FROM: usize = 8;
/// Bit of `ss_flags`: `NILFS_SS_SR`.
const HAS_SUPER_ROOT: u16 = 0x4;
/// `struct nilfs_finfo`.
const FILE_BYTES: usize = 24;
/// Bytes for each block of contents and for each node of its tree: `struct nilfs_binfo_v` and its first number; for the
/// DAT file, which has no virtual addresses, a number and `struct nilfs_binfo_dat` (`nilfs_sc_file_ops` and
/// `nilfs_sc_dat_ops` in `segment.c`).
const BLOCK_BYTES: (usize, usize) = (16, 8);
const ADDRESS_BLOCK_BYTES: (usize, usize) = (8, 16);

/// A log whose summary is whole. Places are in blocks.
#[derive(Debug)]
pub(super) struct Log {
    pub(super) start: u64,
    pub(super) blocks: u64,
    pub(super) summary_blocks: u64,
    /// Of the segment, each time that it is written anew.
    pub(super) sequence: u64,
    /// The checkpoint that it is of.
    pub(super) checkpoint: u64,
    pub(super) has_super_root: bool,
    /// The first block of the segment that is written next.
    next_segment: u64,
    files: u32,
    summary: Vec<u8>,
}

/// A block of a log.
#[derive(Clone, Copy, Debug)]
pub(super) struct Written {
    pub(super) block: u64,
    pub(super) inode: u64,
    /// Of the tree that says where the contents are, not of them.
    pub(super) is_node: bool,
    /// Position in the contents, in blocks; not of nodes.
    pub(super) position: Option<u64>,
}

impl Log {
    /// The log at a block; `None` where there is none.
    ///
    /// # Errors
    /// When the device cannot be read.
    pub(super) fn read(
        device: &dyn ReadAt,
        superblock: &Superblock,
        start: u64,
    ) -> Result<Option<Self>, LayoutError> {
        if !superblock.is_in_log(start) {
            return Ok(None);
        }
        let offset = superblock.offset_of(start);
        let header = read_bytes(device, offset, HEADER_BYTES)?;
        let header = Fields::new(NAME, offset, &header);
        let blocks = u64::from(header.u32_le(40)?);
        let summary_bytes = header.u32_le(48)? as usize;
        let most_blocks = superblock.segment_end(start) - start;
        let fits = header.u32_le(8)? == MAGIC
            && (1..=most_blocks).contains(&blocks)
            && summary_bytes >= HEADER_BYTES
            && summary_bytes as u64 <= blocks << superblock.block_bits;
        if !fits {
            return Ok(None);
        }
        let summary = read_bytes(device, offset, summary_bytes)?;
        let mut sum = Checksum::new(superblock.seed);
        sum.add(&summary[SUMMARY_SUM_FROM..]);
        if sum.value() != header.u32_le(4)? {
            return Ok(None);
        }
        Ok(Some(Self {
            start,
            blocks,
            summary_blocks: summary_bytes.div_ceil(superblock.block_bytes()) as u64,
            sequence: header.u64_le(16)?,
            checkpoint: header.u64_le(56)?,
            has_super_root: header.u16_le(14)? & HAS_SUPER_ROOT != 0,
            next_segment: header.u64_le(32)?,
            files: header.u32_le(44)?,
            summary,
        }))
    }

    /// The block after its last one.
    pub(super) fn end(&self) -> u64 {
        self.start + self.blocks
    }

    /// Whether all of it was written: the power may have failed meanwhile.
    fn is_whole(&self, device: &dyn ReadAt, superblock: &Superblock) -> Result<bool, LayoutError> {
        let mut sum = Checksum::new(superblock.seed);
        for block in self.start..self.end() {
            let bytes = read_bytes(device, superblock.offset_of(block), superblock.block_bytes())?;
            sum.add(if block == self.start { &bytes[DATA_SUM_FROM..] } else { &bytes });
        }
        let expected = Fields::new(NAME, superblock.offset_of(self.start), &self.summary).u32_le(0)?;
        Ok(sum.value() == expected)
    }

    /// Calls `act` with each of its blocks but those of the summary and the super root.
    ///
    /// # Errors
    /// When the summary contradicts itself; what was before that was given.
    pub(super) fn for_each_block(
        &self,
        superblock: &Superblock,
        mut act: impl FnMut(Written),
    ) -> Result<(), LayoutError> {
        let offset = superblock.offset_of(self.start);
        let fields = Fields::new(NAME, offset, &self.summary);
        let mut entries =
            Entries { at: usize::from(fields.u16_le(12)?).max(HEADER_BYTES), superblock, fields };
        let mut block = self.start + self.summary_blocks;
        for _ in 0..self.files {
            let file = entries.next(FILE_BYTES)?;
            let (inode, blocks, contents) = (file.u64_le(0)?, file.u32_le(16)?, file.u32_le(20)?);
            let sizes = if inode == super::ADDRESS_FILE { ADDRESS_BLOCK_BYTES } else { BLOCK_BYTES };
            for number in 0..blocks {
                let is_node = number >= contents;
                let entry = entries.next(if is_node { sizes.1 } else { sizes.0 })?;
                if block >= self.end() {
                    return Err(file.damaged(16, "a log has more blocks of files than blocks"));
                }
                // The last number of the entry.
                let position = if is_node { None } else { Some(entry.u64_le(sizes.0 - 8)?) };
                act(Written { block, inode, is_node, position });
                block += 1;
            }
        }
        Ok(())
    }
}

/// The entries of a summary, of which none lies in two blocks (`nilfs_segctor_map_segsum_entry` in `segment.c`).
struct Entries<'a> {
    at: usize,
    superblock: &'a Superblock,
    fields: Fields<'a>,
}

impl<'a> Entries<'a> {
    fn next(&mut self, bytes: usize) -> Result<Fields<'a>, LayoutError> {
        let block_bytes = self.superblock.block_bytes();
        if self.at % block_bytes + bytes > block_bytes {
            self.at = self.at.next_multiple_of(block_bytes);
        }
        let entry = self.fields.slice(self.at, bytes)?;
        self.at += bytes;
        Ok(entry)
    }
}

/// The newest state of the file system.
#[derive(Debug)]
pub(super) struct Newest {
    /// The log with its super root.
    pub(super) log: Log,
    /// Whether more was written after it, as by an fsync of a file's contents alone.
    pub(super) is_followed: bool,
}

/// Finds the last log that makes a checkpoint: the superblock's is older where it was not written since, and what
/// follows that one is gone through as the kernel does when it mounts (`nilfs_search_super_root` in `recovery.c`).
pub(super) fn newest(device: &dyn ReadAt, superblock: &Superblock) -> Result<Newest, LayoutError> {
    let at_superblock = Log::read(device, superblock, superblock.last_log)?;
    let log = at_superblock.filter(|log| log.has_super_root && log.sequence == superblock.last_sequence);
    let Some(log) = log else {
        let offset = super::superblock::OFFSET + 0x40;
        let reason = format!("there is no log with a super root at block {}", superblock.last_log);
        return Err(damaged(offset, reason));
    };
    let (mut next, mut is_followed) = (following(device, superblock, &log)?, false);
    let mut newest = log;
    // Each is further on in its segment or in a segment of the next number: there are no more than blocks.
    let mut left = superblock.segments * superblock.blocks_per_segment;
    while let Some(log) = next.take().filter(|_| left > 0) {
        left = left.saturating_sub(log.blocks);
        next = following(device, superblock, &log)?;
        is_followed = !log.has_super_root;
        if log.has_super_root {
            newest = log;
        }
    }
    Ok(Newest { log: newest, is_followed })
}

/// The log after a log, in its segment or at the beginning of the next.
fn following(device: &dyn ReadAt, superblock: &Superblock, log: &Log) -> Result<Option<Log>, LayoutError> {
    let in_segment = log.end() < superblock.segment_end(log.start);
    let places = [
        in_segment.then_some((log.end(), log.sequence)),
        Some((log.next_segment, log.sequence.saturating_add(1))),
    ];
    for (start, sequence) in places.into_iter().flatten() {
        let Some(next) = Log::read(device, superblock, start)? else { continue };
        if next.sequence == sequence && next.is_whole(device, superblock)? {
            return Ok(Some(next));
        }
    }
    Ok(None)
}
