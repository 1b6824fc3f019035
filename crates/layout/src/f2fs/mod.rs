//! F2FS.
//!
//! The structures are those of the kernel's `include/linux/f2fs_fs.h`; all numbers on the disk are little-endian, and a block has
//! 4096 bytes. Areas of whole segments follow each other: two checkpoints, the segment information table (SIT: which blocks are in
//! use), the node address table (NAT: where each node is), the segment summary area (SSA: whose each block is), and the main area
//! with nodes and data. A node is an inode or a list of the places of its blocks. Each block of the SIT and of the NAT has two
//! places, and the checkpoint says which of them counts.

mod checkpoint;
mod nodes;
mod segments;
mod superblock;
mod table;
#[cfg(test)]
mod tests;

use crate::builder::LayoutBuilder;
use crate::damage::PassedOver;
use crate::fields::Fields;
use crate::file_systems::{FileSystem, has_magic};
use crate::layout::{Class, Layout};
use crate::read_at::{LayoutError, ReadAt};
use checkpoint::Checkpoint;
use superblock::Superblock;
use table::NodeTable;

pub(crate) static FILE_SYSTEM: FileSystem = FileSystem {
    name: NAME,
    names: &[NAME],
    recognise: |device| has_magic(device, superblock::OFFSET, &superblock::MAGIC.to_le_bytes()),
    read,
};

const NAME: &str = "f2fs";

/// `F2FS_BLKSIZE`: the only one of kernels whose pages have 4 KiB.
const BLOCK_BYTES: u64 = 4096;

fn read(device: &dyn ReadAt) -> Result<Layout, LayoutError> {
    let superblock = Superblock::read(device)?;
    let checkpoint = Checkpoint::read(device, &superblock)?;
    let table = NodeTable::read(device, &superblock, &checkpoint)?;
    let mut walk = Walk {
        device,
        builder: LayoutBuilder::new(NAME, BLOCK_BYTES, superblock.blocks * BLOCK_BYTES),
        passed_over: PassedOver::default(),
        superblock: &superblock,
        table: &table,
    };
    superblock.add_areas(&mut walk.builder);
    if !checkpoint.unmounted && !device.is_frozen() {
        walk.builder.remark(
            "the file system was not unmounted: unless it is mounted read-only, what was written since its last \
             checkpoint is missing",
        );
    }
    let own = superblock.own_nodes;
    for (nid, entry) in table.entries().filter(|(nid, _)| !own.contains(nid)) {
        let read = nodes::read(&mut walk, nid, entry);
        walk.note(read)?;
    }
    let of_nodes = segments::of_nodes(device, &superblock, &checkpoint)
        .and_then(|segments| segments::add_replaced(&mut walk, &segments));
    walk.note(of_nodes)?;
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
    superblock: &'a Superblock,
    table: &'a NodeTable,
}

impl Walk<'_> {
    /// Notes damage, so that the rest can be read.
    fn note<T>(&mut self, read: Result<T, LayoutError>) -> Result<Option<T>, LayoutError> {
        self.passed_over.note(read)
    }

    /// Classes a block of the main area; `found_at` is where it is named.
    fn add(
        &mut self,
        class: Class,
        block: u32,
        inode: u32,
        file_offset: Option<u64>,
        found_at: u64,
    ) -> Result<(), LayoutError> {
        if !self.superblock.is_in_main_area(block) {
            return Err(damaged(found_at, format!("block {block} is not in the area of nodes and data")));
        }
        let start = u64::from(block) * BLOCK_BYTES;
        self.builder.add_of_inode(class, start, BLOCK_BYTES, u64::from(inode), file_offset);
        Ok(())
    }

    fn finish(mut self) -> Layout {
        self.passed_over.remark(&mut self.builder);
        self.builder.finish()
    }
}

/// A block of the device, to be looked at as a structure.
fn block_fields(bytes: &[u8], block: u64) -> Fields<'_> {
    Fields::new(NAME, block * BLOCK_BYTES, bytes)
}
