//! XFS, with and without checksums (versions 5 and 4).
//!
//! The structures are those of the kernel's `fs/xfs/libxfs/xfs_format.h` and `xfs_log_format.h`; all numbers on the disk
//! are big-endian. Every allocation group begins with four sectors (superblock, free-space header, inode header, free
//! list) and has trees of its own, whose roots the headers name. Inodes are found through the tree of inode chunks;
//! each has up to two forks (contents, attributes) that name its extents.

mod fork;
mod free_space;
mod geometry;
mod inode;
mod inode_chunks;
mod log;
mod short_tree;
#[cfg(test)]
mod tests;

use std::collections::HashSet;

use crate::builder::LayoutBuilder;
use crate::damage::PassedOver;
use crate::fields::{Fields, read_bytes};
use crate::file_systems::{FileSystem, has_magic};
use crate::layout::{Class, Layout};
use crate::read_at::{LayoutError, ReadAt};
use geometry::Geometry;

pub(crate) static FILE_SYSTEM: FileSystem =
    FileSystem { name: NAME, names: &[NAME], recognise: |device| has_magic(device, 0, b"XFSB"), read };

const NAME: &str = "xfs";

fn read(device: &dyn ReadAt) -> Result<Layout, LayoutError> {
    let geometry = Geometry::read(device)?;
    let mut walk = Walk::new(device, geometry);
    log::read(&mut walk)?;
    for ag in 0..walk.geometry.ag_count {
        walk.read_group(ag)?;
    }
    Ok(walk.finish())
}

/// The error that what stands at `offset` does not fit.
fn damaged(offset: u64, reason: impl Into<String>) -> LayoutError {
    LayoutError::Damaged { file_system: NAME, offset, reason: reason.into() }
}

/// The way through one file system.
struct Walk<'a> {
    device: &'a dyn ReadAt,
    geometry: Geometry,
    builder: LayoutBuilder,
    passed_over: PassedOver,
    /// Tree blocks that were read, by position: none has two parents, and so no walk is endless.
    tree_blocks: HashSet<u64>,
    realtime_files: u64,
}

impl<'a> Walk<'a> {
    fn new(device: &'a dyn ReadAt, geometry: Geometry) -> Self {
        let builder = LayoutBuilder::new(NAME, geometry.block_bytes, geometry.total_bytes());
        let builder = if geometry.reflink { builder.sharing() } else { builder };
        let (passed_over, tree_blocks) = Default::default();
        Self { device, geometry, builder, passed_over, tree_blocks, realtime_files: 0 }
    }

    /// Notes damage, so that the rest can be read.
    fn note<T>(&mut self, read: Result<T, LayoutError>) -> Result<Option<T>, LayoutError> {
        self.passed_over.note(read)
    }

    /// Reads an allocation group.
    fn read_group(&mut self, ag: u32) -> Result<(), LayoutError> {
        let headers = (4 * self.geometry.sector_bytes).next_multiple_of(self.geometry.block_bytes);
        let start = self.geometry.ag_byte(ag, 0);
        self.builder.add(Class::Superblock, start, headers);
        let free_space = free_space::read(self, ag);
        self.note(free_space)?;
        let inodes = inode_chunks::read(self, ag);
        self.note(inodes)?;
        Ok(())
    }

    /// One of the four header sectors of an allocation group, which begins with `magic`.
    fn header(&self, ag: u32, sector: u64, magic: &[u8; 4]) -> Result<(u64, Vec<u8>), LayoutError> {
        let offset = self.geometry.ag_byte(ag, 0) + sector * self.geometry.sector_bytes;
        let bytes = read_bytes(self.device, offset, self.geometry.sector_bytes as usize)?;
        if !bytes.starts_with(magic) {
            let name = String::from_utf8_lossy(magic);
            return Err(damaged(offset, format!("the header {name} of allocation group {ag} is missing")));
        }
        Ok((offset, bytes))
    }

    /// A block of a tree at a position on the device, which must not have been read before.
    fn tree_block(&mut self, offset: u64) -> Result<Vec<u8>, LayoutError> {
        if !self.tree_blocks.insert(offset) {
            return Err(damaged(offset, "a block occurs twice in a tree"));
        }
        self.block(offset)
    }

    /// A block at a position on the device.
    fn block(&self, offset: u64) -> Result<Vec<u8>, LayoutError> {
        read_bytes(self.device, offset, self.geometry.block_bytes as usize)
    }

    fn finish(mut self) -> Layout {
        if self.realtime_files > 0 {
            self.builder.remark(format!(
                "the contents of {} files are on the realtime device, which is a separate device",
                self.realtime_files
            ));
        }
        self.passed_over.remark(&mut self.builder);
        self.builder.finish()
    }
}

/// The head of a tree block, the same for all of XFS's trees (`struct xfs_btree_block`).
struct TreeBlock {
    level: u32,
    entries: usize,
}

impl TreeBlock {
    /// Reads it, and sees whether it is of the tree with `magic` and at `level`.
    fn read(block: &Fields<'_>, magic: &[u8; 4], level: u32) -> Result<Self, LayoutError> {
        let found = Self { level: u32::from(block.u16_be(4)?), entries: usize::from(block.u16_be(6)?) };
        if block.array::<4>(0)? != *magic {
            let name = String::from_utf8_lossy(magic);
            return Err(block.damaged(0, format!("a block of the tree {name} is missing")));
        }
        if found.level != level {
            return Err(block.damaged(4, format!("a tree block has level {}, not {level}", found.level)));
        }
        Ok(found)
    }

    /// The parts of `entry_bytes` each from `header_bytes` on, all of which must be inside the block.
    fn entries<'b>(
        &self,
        block: &Fields<'b>,
        header_bytes: usize,
        entry_bytes: usize,
    ) -> Result<impl DoubleEndedIterator<Item = Fields<'b>> + use<'b>, LayoutError> {
        let all = block.slice(header_bytes, self.entries * entry_bytes)?;
        Ok((0..self.entries).filter_map(move |index| all.slice(index * entry_bytes, entry_bytes).ok()))
    }
}
