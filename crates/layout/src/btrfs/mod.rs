//! Btrfs on one device, or one of several.
//!
//! What is called what:
//!
//! | in Btrfs | class |
//! |---|---|
//! | the superblock and its two copies; the trees of roots, of chunks and of devices | superblock |
//! | the extent tree with its block groups (also as a tree of their own), the free space tree, the free space cache | allocation map |
//! | the trees of checksums, quotas and UUIDs; other trees | other metadata |
//! | trees of files: leaves with nothing but inodes and their back references | inode |
//! | … nothing but directory entries | directory |
//! | … nothing but extents of files | extent map |
//! | … other leaves, and all inner nodes | mixed metadata |
//! | the log trees that make fsync fast | journal |
//! | extents of files, also compressed and reserved ones | file data, with inode and position |
//! | parts of an extent that no file refers to any more | file data, with the inode that wrote it |
//!
//! Inner nodes belong to no single kind of item, and a leaf of a file tree mostly holds several kinds. Contents of small
//! files lie in leaves and are not told apart. A compressed extent has an inode but no position: its bytes are not
//! those of the file. Where files share data (reflinks, snapshots), the file of the lowest tree, inode and position is
//! named. Inode numbers are unique in a subvolume only; a remark says so when there are several.
//!
//! Every copy of a block is classed (DUP, RAID1); of stripes over several devices those on this one. Where a log tree
//! is present, what it says of a file is what a mount would see; what it replaces is still in use, without position.
//!
//! Structures: `include/uapi/linux/btrfs_tree.h` and `fs/btrfs/` of Linux 6.18.

mod chunks;
mod extents;
mod files;
mod reader;
mod superblock;
#[cfg(test)]
mod tests;
mod tree;

use crate::file_systems::{FileSystem, has_magic};
use crate::layout::Layout;
use crate::read_at::{LayoutError, ReadAt};

const NAME: &str = "btrfs";

pub(crate) static FILE_SYSTEM: FileSystem = FileSystem {
    name: NAME,
    names: &[NAME],
    recognise: |device| {
        has_magic(device, superblock::PRIMARY + superblock::MAGIC_AT as u64, superblock::MAGIC)
    },
    read,
};

fn read(device: &dyn ReadAt) -> Result<Layout, LayoutError> {
    reader::read(device)
}
