//! The files of the file system itself, by which all others are found.

use std::collections::BTreeMap;

use super::block_map::{self, BlockMap, Places};
use super::entries::{EntryFile, Role};
use super::log::Log;
use super::superblock::{Checksum, Superblock};
use super::{NAME, Walk, damaged};
use crate::fields::{Fields, read_bytes};
use crate::layout::Class;
use crate::read_at::{LayoutError, ReadAt};

/// `struct nilfs_super_root`: where its first inode is, those of the DAT file, the cpfile and the sufile.
const ROOTS_AT: usize = 16;
/// `i_mode` and `i_bmap` of an inode.
const MODE_AT: usize = 48;
const MAP_AT: usize = 56;
/// `de_start` and `de_end` of `struct nilfs_dat_entry`: the checkpoints that have the block.
const ADDRESS_SINCE: usize = 8;
const ADDRESS_UNTIL: usize = 16;
/// `cp_cno` and `cp_ifile_inode` of `struct nilfs_checkpoint`; its files begin with a header of `struct nilfs_cpfile_header`.
const CHECKPOINT_NUMBER_AT: usize = 24;
const INODE_FILE_AT: usize = 64;
const CHECKPOINTS_HEADER_BYTES: usize = 32;
/// `struct nilfs_segment_usage`, behind `struct nilfs_sufile_header`.
const USAGE_BLOCKS_AT: usize = 8;
const USAGE_FLAGS_AT: usize = 12;
const USAGES_HEADER_BYTES: usize = 24;
/// Bits of `su_flags`: active, dirty.
const IN_USE: u32 = 0x3;

/// Type bits of the mode, as in `stat`.
const TYPE_MASK: u16 = 0xf000;
const TYPE_DIRECTORY: u16 = 0x4000;
const TYPE_REGULAR: u16 = 0x8000;
const TYPE_LINK: u16 = 0xa000;

/// The blocks of a file that were found: position in the file and place on the device, sorted by position.
#[derive(Debug, Default)]
pub(super) struct Contents(Vec<(u64, u64)>);

impl Contents {
    fn block(&self, position: u64) -> Option<u64> {
        let at = self.0.binary_search_by_key(&position, |(position, _)| *position).ok()?;
        Some(self.0[at].1)
    }
}

/// The super root: `struct nilfs_super_root` in the last block of a log.
pub(super) struct SuperRoot {
    offset: u64,
    bytes: Vec<u8>,
    inode_bytes: usize,
}

impl SuperRoot {
    pub(super) fn read(device: &dyn ReadAt, superblock: &Superblock, log: &Log) -> Result<Self, LayoutError> {
        let offset = superblock.offset_of(log.end() - 1);
        let bytes = read_bytes(device, offset, superblock.block_bytes())?;
        let fields = Fields::new(NAME, offset, &bytes);
        let counted = fields.slice(0, usize::from(fields.u16_le(4)?))?.bytes();
        let mut sum = Checksum::new(superblock.seed);
        sum.add(counted.get(4..).unwrap_or_default());
        if sum.value() != fields.u32_le(0)? {
            return Err(fields.damaged(0, "the checksum of the super root is wrong"));
        }
        Ok(Self { offset, bytes, inode_bytes: superblock.inode_bytes })
    }

    /// Goes through one of its files, in order: DAT file, cpfile, sufile.
    pub(super) fn read_file(
        &self,
        walk: &mut Walk<'_>,
        number: usize,
        class: Class,
    ) -> Result<Contents, LayoutError> {
        let fields = Fields::new(NAME, self.offset, &self.bytes);
        let inode = fields.slice(ROOTS_AT + number * self.inode_bytes, self.inode_bytes)?;
        let places = if number == 0 { Places::Real } else { Places::Virtual };
        read_own_file(walk, &inode, places, class)
    }
}

/// Classes the blocks of a file of the file system itself, and returns them.
fn read_own_file(
    walk: &mut Walk<'_>,
    inode: &Fields<'_>,
    places: Places,
    class: Class,
) -> Result<Contents, LayoutError> {
    let map = BlockMap { root: inode.slice(MAP_AT, block_map::BYTES)?, places, inode: None };
    let mut contents = Vec::new();
    map.walk(walk, &mut |walk, position, block| {
        walk.add(class, block, None, None);
        contents.push((position, block));
    })?;
    contents.sort_unstable();
    contents.dedup_by_key(|(position, _)| *position);
    Ok(Contents(contents))
}

/// The DAT file: which block each virtual one is.
#[derive(Debug)]
pub(super) struct Addresses {
    entries: EntryFile,
    contents: Contents,
    /// The checkpoint whose blocks are looked for.
    checkpoint: u64,
}

impl Addresses {
    pub(super) fn new(superblock: &Superblock, contents: Contents, checkpoint: u64) -> Self {
        Self { entries: EntryFile::new(superblock, superblock.address_bytes), contents, checkpoint }
    }

    /// The block of a virtual one that is named at `found_at`.
    pub(super) fn block(
        &self,
        device: &dyn ReadAt,
        superblock: &Superblock,
        number: u64,
        found_at: u64,
    ) -> Result<u64, LayoutError> {
        let (position, at) = self.entries.place(number);
        let Some(block) = self.contents.block(position) else {
            return Err(damaged(found_at, format!("virtual block {number} has no entry")));
        };
        let offset = superblock.offset_of(block) + at as u64;
        let bytes = read_bytes(device, offset, superblock.address_bytes)?;
        let entry = Fields::new(NAME, offset, &bytes);
        if !(entry.u64_le(ADDRESS_SINCE)?..entry.u64_le(ADDRESS_UNTIL)?).contains(&self.checkpoint) {
            let reason = format!("virtual block {number} is not of checkpoint {}", self.checkpoint);
            return Err(entry.damaged(ADDRESS_SINCE, reason));
        }
        entry.u64_le(0)
    }
}

/// The inode of the ifile as of the checkpoint of a log, out of the cpfile.
fn inode_file(walk: &Walk<'_>, checkpoints: &Contents, log: &Log) -> Result<(u64, Vec<u8>), LayoutError> {
    let (superblock, number) = (walk.superblock, log.checkpoint);
    let bytes = superblock.checkpoint_bytes;
    let per_block = (superblock.block_bytes() / bytes) as u64;
    // The first checkpoint has the number 1 and is behind the header.
    let slot = number.saturating_add(CHECKPOINTS_HEADER_BYTES.div_ceil(bytes) as u64 - 1);
    let Some(block) = checkpoints.block(slot / per_block) else {
        return Err(damaged(superblock.offset_of(log.start), format!("checkpoint {number} is missing")));
    };
    let offset = superblock.offset_of(block) + slot % per_block * bytes as u64;
    let checkpoint = read_bytes(walk.device, offset, bytes)?;
    let fields = Fields::new(NAME, offset, &checkpoint);
    if fields.u64_le(CHECKPOINT_NUMBER_AT)? != number {
        return Err(fields.damaged(CHECKPOINT_NUMBER_AT, format!("checkpoint {number} is missing")));
    }
    let inode = fields.slice(INODE_FILE_AT, bytes - INODE_FILE_AT)?;
    Ok((inode.device_offset(), inode.bytes().to_vec()))
}

/// The ifile: the inodes as of a checkpoint.
#[derive(Debug)]
pub(super) struct Inodes {
    entries: EntryFile,
    contents: Contents,
}

impl Inodes {
    pub(super) fn read(walk: &mut Walk<'_>, checkpoints: &Contents, log: &Log) -> Result<Self, LayoutError> {
        let (offset, inode) = inode_file(walk, checkpoints, log)?;
        let inode = Fields::new(NAME, offset, &inode);
        let contents = read_own_file(walk, &inode, Places::Virtual, Class::Inode)?;
        Ok(Self { entries: EntryFile::new(walk.superblock, walk.superblock.inode_bytes), contents })
    }

    /// Goes through the contents of every inode in use.
    pub(super) fn read_all(&self, walk: &mut Walk<'_>) -> Result<(), LayoutError> {
        let length = walk.superblock.block_bytes();
        let mut in_use = Vec::new();
        for (position, block) in &self.contents.0 {
            let offset = walk.superblock.offset_of(*block);
            match self.entries.role(*position) {
                Role::Descriptors => {}
                Role::Bitmap => in_use = read_bytes(walk.device, offset, length)?,
                Role::Entries { first, bit } => {
                    let bytes = read_bytes(walk.device, offset, length)?;
                    let fields = Fields::new(NAME, offset, &bytes);
                    for (slot, at) in
                        self.entries.in_block().filter(|(slot, _)| is_set(&in_use, bit + *slot as usize))
                    {
                        let inode = fields.slice(at, walk.superblock.inode_bytes)?;
                        let read = read_inode(walk, &inode, first.saturating_add(slot));
                        walk.note(read)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// The class of the contents of an inode, by the newest blocks of the ifile or, where there are, by `older` ones (position and place):
    /// an inode may have been deleted and become another file's. One of which nothing is known is taken for a file.
    pub(super) fn class_of(
        &self,
        device: &dyn ReadAt,
        superblock: &Superblock,
        older: &BTreeMap<u64, u64>,
        number: u64,
    ) -> Result<Class, LayoutError> {
        let (position, at) = self.entries.place(number);
        let block = older.get(&position).copied().or_else(|| self.contents.block(position));
        let Some(block) = block else { return Ok(Class::FileData) };
        let offset = superblock.offset_of(block) + at as u64;
        let bytes = read_bytes(device, offset, superblock.inode_bytes)?;
        let mode = Fields::new(NAME, offset, &bytes).u16_le(MODE_AT)?;
        Ok(class_of_mode(mode).unwrap_or(Class::FileData))
    }
}

fn is_set(bitmap: &[u8], bit: usize) -> bool {
    bitmap.get(bit / 8).is_some_and(|byte| byte & (1 << (bit % 8)) != 0)
}

/// `None` of inodes without contents: what would be the map is the number of the device.
fn class_of_mode(mode: u16) -> Option<Class> {
    match mode & TYPE_MASK {
        TYPE_DIRECTORY => Some(Class::Directory),
        TYPE_REGULAR => Some(Class::FileData),
        TYPE_LINK => Some(Class::OtherMetadata),
        _ => None,
    }
}

/// Classes the contents of an inode.
fn read_inode(walk: &mut Walk<'_>, inode: &Fields<'_>, number: u64) -> Result<(), LayoutError> {
    let Some(class) = class_of_mode(inode.u16_le(MODE_AT)?) else { return Ok(()) };
    let root = inode.slice(MAP_AT, block_map::BYTES)?;
    let map = BlockMap { root, places: Places::Virtual, inode: Some(number) };
    map.walk(walk, &mut |walk, position, block| {
        let file_offset = (class == Class::FileData).then_some(position << walk.superblock.block_bits);
        walk.add(class, block, Some(number), file_offset);
    })
}

/// The sufile: which segments are in use.
#[derive(Debug)]
pub(super) struct Usages(pub(super) Contents);

impl Usages {
    /// Whether anything was written to a segment since it was last freed.
    pub(super) fn is_written(
        &self,
        device: &dyn ReadAt,
        superblock: &Superblock,
        segment: u64,
    ) -> Result<bool, LayoutError> {
        let bytes = superblock.usage_bytes;
        let per_block = (superblock.block_bytes() / bytes) as u64;
        let slot = segment.saturating_add(USAGES_HEADER_BYTES.div_ceil(bytes) as u64);
        let Some(block) = self.0.block(slot / per_block) else { return Ok(false) };
        let offset = superblock.offset_of(block) + slot % per_block * bytes as u64;
        let usage = read_bytes(device, offset, bytes)?;
        let usage = Fields::new(NAME, offset, &usage);
        Ok(usage.u32_le(USAGE_FLAGS_AT)? & IN_USE != 0 && usage.u32_le(USAGE_BLOCKS_AT)? > 0)
    }
}
