//! JFS.
//!
//! The structures are those of the kernel's `fs/jfs/jfs_filsys.h`, `jfs_superblock.h`, `jfs_dinode.h`, `jfs_imap.h`,
//! `jfs_xtree.h` and `jfs_dtree.h`; all numbers on the disk are little-endian. A device ("aggregate") has a table of its
//! own inodes at a fixed place: the map of these inodes, the map of blocks, the log, the bad blocks, and the map of the
//! inodes of the file system proper ("fileset"). A map of inodes is a file whose pages name extents of 32 inodes.

mod descriptor;
mod directory;
mod extent_tree;
mod inode;
mod inode_map;
mod superblock;
#[cfg(test)]
mod tests;

use std::collections::HashSet;

use crate::builder::LayoutBuilder;
use crate::damage::PassedOver;
use crate::fields::read_bytes;
use crate::file_systems::{FileSystem, has_magic};
use crate::layout::{Class, Layout};
use crate::read_at::{LayoutError, ReadAt};
use descriptor::Blocks;
use superblock::Superblock;

pub(crate) static FILE_SYSTEM: FileSystem = FileSystem {
    name: NAME,
    names: &[NAME],
    recognise: |device| has_magic(device, superblock::PRIMARY_OFFSET, b"JFS1"),
    read,
};

const NAME: &str = "jfs";

/// Bytes of a page, and of a block: the kernel knows no other block size (`chkSuper` in `jfs_mount.c`).
const PAGE_BYTES: u64 = 4096;

fn read(device: &dyn ReadAt) -> Result<Layout, LayoutError> {
    let superblock = Superblock::read(device)?;
    let mut walk = Walk::new(device, &superblock);
    superblock.add_fixed_parts(&mut walk)?;
    inode_map::read_aggregate(&mut walk)?;
    if let Some(table) = superblock.second_table_offset() {
        inode_map::read_second_table(&mut walk, table)?;
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
    builder: LayoutBuilder,
    passed_over: PassedOver,
    /// Blocks of the whole device that may be used.
    blocks: u64,
    /// Whether directories keep a table of their entries' places.
    directory_tables: bool,
    /// Pages that were read, by block: none has two parents, and so no walk is endless.
    pages: HashSet<u64>,
}

impl<'a> Walk<'a> {
    fn new(device: &'a dyn ReadAt, superblock: &Superblock) -> Self {
        Self {
            device,
            builder: LayoutBuilder::new(NAME, PAGE_BYTES, superblock.total_bytes),
            passed_over: PassedOver::default(),
            blocks: superblock.total_bytes / PAGE_BYTES,
            directory_tables: superblock.directory_tables,
            pages: HashSet::new(),
        }
    }

    /// Notes damage, so that the rest can be read.
    fn note<T>(&mut self, read: Result<T, LayoutError>) -> Result<Option<T>, LayoutError> {
        self.passed_over.note(read)
    }

    /// Classes blocks; `found_at` is where they are named.
    fn add(
        &mut self,
        class: Class,
        blocks: Blocks,
        inode: Option<u64>,
        found_at: u64,
    ) -> Result<(), LayoutError> {
        self.add_contents(class, blocks, inode, None, found_at)
    }

    /// Classes blocks of an inode's contents.
    fn add_contents(
        &mut self,
        class: Class,
        blocks: Blocks,
        inode: Option<u64>,
        file_offset: Option<u64>,
        found_at: u64,
    ) -> Result<(), LayoutError> {
        let inside = blocks.checked(self.blocks).ok_or_else(|| outside(blocks, found_at));
        if let Some(Blocks { first, count }) = self.note(inside)? {
            let (start, bytes) = (first * PAGE_BYTES, count * PAGE_BYTES);
            self.builder.add_extent(crate::Extent { start, bytes, class, inode, file_offset });
        }
        Ok(())
    }

    /// Reads a page of a tree or map, which must not have been read before.
    fn page(&mut self, block: u64, found_at: u64) -> Result<Vec<u8>, LayoutError> {
        let blocks = Blocks { first: block, count: 1 };
        blocks.checked(self.blocks).ok_or_else(|| outside(blocks, found_at))?;
        if !self.pages.insert(block) {
            return Err(damaged(found_at, format!("the page at block {block} is used twice")));
        }
        read_bytes(self.device, block * PAGE_BYTES, PAGE_BYTES as usize)
    }

    fn finish(mut self) -> Layout {
        self.passed_over.remark(&mut self.builder);
        self.builder.finish()
    }
}

fn outside(blocks: Blocks, found_at: u64) -> LayoutError {
    damaged(
        found_at,
        format!("{} blocks from {} on are beyond the end of the file system", blocks.count, blocks.first),
    )
}
