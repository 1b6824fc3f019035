//! NILFS2.
//!
//! The structures are those of the kernel's `include/uapi/linux/nilfs2_ondisk.h`; all numbers on the disk are
//! little-endian. The device is cut into segments, which are written from their beginning to their end, log by log. What
//! changes is written anew; a log that makes a checkpoint ends with a super root, from which all is found: the DAT file, the
//! cpfile with the checkpoints, the sufile with the use of the segments, and in each checkpoint the inode of its ifile, which
//! holds all other inodes. Places in inodes and trees are numbers of entries of the DAT file, which say where the block is now.
//!
//! Nothing is classed as a journal: although all is a log, nothing is written to it that is written elsewhere later.

mod block_map;
mod entries;
mod files;
mod log;
mod superblock;
mod superseded;
#[cfg(test)]
mod tests;

use std::collections::HashSet;

use crate::builder::LayoutBuilder;
use crate::damage::PassedOver;
use crate::file_systems::{FileSystem, has_magic};
use crate::layout::{Class, Extent, Layout};
use crate::read_at::{LayoutError, ReadAt};
use block_map::Places;
use files::{Addresses, Inodes, SuperRoot, Usages};
use superblock::Superblock;

pub(crate) static FILE_SYSTEM: FileSystem = FileSystem {
    name: NAME,
    names: &[NAME],
    recognise: |device| {
        has_magic(device, superblock::OFFSET + superblock::MAGIC_AT, &superblock::MAGIC.to_le_bytes())
    },
    read,
};

const NAME: &str = "nilfs2";

/// Inodes of the file system's own files: `NILFS_*_INO`.
const ADDRESS_FILE: u64 = 3;
const CHECKPOINT_FILE: u64 = 4;
const USAGE_FILE: u64 = 5;
const INODE_FILE: u64 = 6;

/// The class of their contents. The DAT file says where the blocks of files are; checkpoints hold the inode by which
/// all others are found.
fn class_of_own_file(inode: u64) -> Option<Class> {
    match inode {
        ADDRESS_FILE => Some(Class::ExtentMap),
        CHECKPOINT_FILE | INODE_FILE => Some(Class::Inode),
        USAGE_FILE => Some(Class::AllocationMap),
        _ => None,
    }
}

fn read(device: &dyn ReadAt) -> Result<Layout, LayoutError> {
    let superblock = Superblock::read(device)?;
    let newest = log::newest(device, &superblock)?;
    let root = SuperRoot::read(device, &superblock, &newest.log)?;
    let mut walk = Walk::new(device, &superblock);
    if (!superblock.unmounted || newest.is_followed) && !device.is_frozen() {
        walk.builder.remark(
            "the file system was not unmounted: unless it is mounted read-only, what was written since its last \
             checkpoint is missing",
        );
    }
    let contents = root.read_file(&mut walk, 0, Class::ExtentMap)?;
    walk.addresses = Some(Addresses::new(&superblock, contents, newest.log.checkpoint));
    let checkpoints = root.read_file(&mut walk, 1, Class::Inode)?;
    let usages = Usages(root.read_file(&mut walk, 2, Class::AllocationMap)?);
    let inodes = Inodes::read(&mut walk, &checkpoints, &newest.log);
    let inodes = walk.note(inodes)?;
    if let Some(inodes) = &inodes {
        inodes.read_all(&mut walk)?;
    }
    superseded::add(device, &superblock, walk.finish(), inodes.as_ref(), &usages)
}

/// The error that what stands at `offset` does not fit.
fn damaged(offset: u64, reason: impl Into<String>) -> LayoutError {
    LayoutError::Damaged { file_system: NAME, offset, reason: reason.into() }
}

/// The way through the newest state of a file system.
struct Walk<'a> {
    device: &'a dyn ReadAt,
    builder: LayoutBuilder,
    passed_over: PassedOver,
    superblock: &'a Superblock,
    /// What virtual blocks are, as soon as it is known.
    addresses: Option<Addresses>,
    /// Nodes of trees that were read, by block.
    nodes: HashSet<u64>,
}

impl<'a> Walk<'a> {
    fn new(device: &'a dyn ReadAt, superblock: &'a Superblock) -> Self {
        let mut builder = LayoutBuilder::new(NAME, superblock.block_bytes() as u64, superblock.total_bytes);
        builder.add(Class::Superblock, 0, superblock.offset_of(superblock.first_data_block));
        let second = superblock::second_copy(superblock.total_bytes);
        builder.add(Class::Superblock, second, superblock::SECOND_COPY_BYTES);
        let passed_over = PassedOver::default();
        Self { device, builder, passed_over, superblock, addresses: None, nodes: HashSet::new() }
    }

    /// Notes damage, so that the rest can be read.
    fn note<T>(&mut self, read: Result<T, LayoutError>) -> Result<Option<T>, LayoutError> {
        self.passed_over.note(read)
    }

    /// The block that is named at `found_at`.
    fn place(&self, place: u64, places: Places, found_at: u64) -> Result<u64, LayoutError> {
        let block = match (places, &self.addresses) {
            (Places::Virtual, Some(addresses)) => {
                addresses.block(self.device, self.superblock, place, found_at)?
            }
            (Places::Real, _) | (Places::Virtual, None) => place,
        };
        if !self.superblock.is_in_log(block) {
            return Err(damaged(found_at, format!("block {block} is in no segment")));
        }
        Ok(block)
    }

    /// Classes a block of a segment.
    fn add(&mut self, class: Class, block: u64, inode: Option<u64>, file_offset: Option<u64>) {
        let (start, bytes) = (self.superblock.offset_of(block), self.superblock.block_bytes() as u64);
        self.builder.add_extent(Extent { start, bytes, class, inode, file_offset });
    }

    fn finish(mut self) -> Layout {
        self.passed_over.remark(&mut self.builder);
        self.builder.finish()
    }
}
