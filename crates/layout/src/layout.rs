//! The result: byte ranges and what they are for.

use serde::{Deserialize, Serialize};

/// What a byte range of a device is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[repr(u8)]
pub enum Class {
    /// Contents of regular files.
    FileData = 0,
    /// Contents of the image file of a virtual disk.
    ImageData = 1,
    /// The log of the file system.
    Journal = 2,
    /// Inodes and the maps that find them.
    Inode = 3,
    /// Contents of directories.
    Directory = 4,
    /// Which blocks are in use: bitmaps, free-space trees.
    AllocationMap = 5,
    /// Where the blocks of a file are, if not in its inode: indirect blocks, extent trees.
    ExtentMap = 6,
    /// Superblocks, group descriptors, allocation group headers and their copies.
    Superblock = 7,
    /// Other metadata: extended attributes, quotas, checksums, symbolic links.
    OtherMetadata = 8,
    /// Structures that hold several of the above at once (the nodes of ReiserFS's one tree).
    MixedMetadata = 9,
    /// A flush, which moves no data.
    Flush = 10,
    /// Not in use when the layout was read; files that have been deleted since were there.
    Free = 11,
    /// Nothing is known.
    #[default]
    Unknown = 12,
}

/// A byte range of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extent {
    /// First byte on the device.
    pub start: u64,
    /// Length in bytes.
    pub bytes: u64,
    /// What it is for.
    pub class: Class,
    /// The inode it belongs to, where it belongs to one.
    pub inode: Option<u64>,
    /// Position in the contents of that inode, in bytes; only of file data and directories.
    pub file_offset: Option<u64>,
}

/// Every byte range of a device that has a known use, sorted by position, without overlap. What lies between is free.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layout {
    /// `ext4`, `xfs`, …; ext2, ext3 and ext4 by their features.
    pub file_system: String,
    /// Bytes of an allocation block.
    pub block_bytes: u64,
    /// Bytes of the file system, from the device's beginning.
    pub total_bytes: u64,
    /// The ranges.
    pub extents: Vec<Extent>,
    /// What makes the layout less certain than it seems (a log that has not been replayed, damaged structures).
    pub remarks: Vec<String>,
}
