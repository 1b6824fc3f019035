//! ext2, ext3 and ext4: one format with more and more features.
//!
//! What lies where is from `Documentation/filesystems/ext4/` and `fs/ext4/` of the kernel. Groups are gone through by
//! their descriptors, inodes by the bitmaps of those in use; no directory is read, because everything that has blocks
//! has an inode. Afterwards the block bitmaps are held against what was found.

mod check;
mod groups;
mod inode;
mod mapping;
mod superblock;
mod walk;

use crate::file_systems::{FileSystem, has_magic};
use crate::layout::Layout;
use crate::read_at::{LayoutError, ReadAt};
use superblock::Superblock;

/// The family's name in errors.
const NAME: &str = "ext4";

/// `EXT4_SUPER_MAGIC`, 56 bytes into the superblock.
const MAGIC: [u8; 2] = 0xef53_u16.to_le_bytes();

pub(crate) static FILE_SYSTEM: FileSystem = FileSystem {
    name: NAME,
    names: &["ext2", "ext3", NAME],
    recognise: |device| has_magic(device, superblock::SUPERBLOCK_AT + 0x38, &MAGIC),
    read,
};

fn read(device: &dyn ReadAt) -> Result<Layout, LayoutError> {
    let superblock = Superblock::read(device)?;
    let mut layout = walk::Walk::new(device, &superblock).run()?;
    check::check_against_bitmaps(device, &superblock, &mut layout)?;
    Ok(layout)
}
