//! Inodes: which are in use, and what their blocks are for.

use crate::fields::Fields;
use crate::layout::Class;
use crate::read_at::LayoutError;

use super::superblock::Superblock;

/// The first part of an inode, which every file system of the family has (`struct ext4_inode` to its checksum).
pub(super) const BASE_BYTES: usize = 128;

/// Numbers of inodes with a use of their own (`EXT4_*_INO`).
const BAD_BLOCKS: u64 = 1;
const USER_QUOTA: u64 = 3;
const GROUP_QUOTA: u64 = 4;
const RESIZE: u64 = 7;

/// Inode flags (`EXT4_*_FL`).
const EXTENTS: u32 = 0x8_0000;
const EA_INODE: u32 = 0x20_0000;
const INLINE_DATA: u32 = 0x1000_0000;

/// File types in the mode.
const TYPE_MASK: u16 = 0xf000;
const DIRECTORY: u16 = 0x4000;
const REGULAR: u16 = 0x8000;
const SYMBOLIC_LINK: u16 = 0xa000;

/// How the blocks of an inode are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mapping {
    /// There are none.
    None,
    /// A tree of extents.
    Extents,
    /// Twelve blocks, then blocks of block numbers.
    Indirect,
    /// The resize inode: its double indirect block points to the room for group descriptors, whose blocks hold the
    /// numbers of their own copies.
    Resize,
}

/// An inode in use.
#[derive(Clone, Copy, Debug)]
pub(super) struct Inode {
    pub(super) number: u64,
    /// What its contents are.
    pub(super) class: Class,
    pub(super) mapping: Mapping,
    /// The block with its extended attributes, or 0. Inodes with equal ones share it.
    pub(super) attribute_block: u64,
    /// `i_block`.
    pub(super) block_area: [u8; 60],
    /// Where that lies on the device.
    pub(super) block_area_at: u64,
}

impl Inode {
    pub(super) fn parse(
        superblock: &Superblock,
        number: u64,
        fields: &Fields<'_>,
    ) -> Result<Self, LayoutError> {
        let mode = fields.u16_le(0)?;
        let flags = fields.u32_le(0x20)?;
        let bytes = u64::from(fields.u32_le(4)?) | u64::from(fields.u32_le(0x6c)?) << 32;
        let class = class(superblock, number, mode, flags);
        let mapping = if flags & INLINE_DATA != 0 || class.is_none() {
            Mapping::None
        } else if number == RESIZE {
            Mapping::Resize
        } else if flags & EXTENTS != 0 {
            Mapping::Extents
        } else if mode & TYPE_MASK == SYMBOLIC_LINK && bytes < 60 {
            // The path itself stands where block numbers would.
            Mapping::None
        } else {
            Mapping::Indirect
        };
        let attribute_block = u64::from(fields.u32_le(0x68)?) | u64::from(fields.u16_le(0x76)?) << 32;
        Ok(Self {
            number,
            class: class.unwrap_or_default(),
            mapping,
            attribute_block,
            block_area: fields.array(0x28)?,
            block_area_at: fields.device_offset() + 0x28,
        })
    }
}

/// What the blocks of an inode hold; nothing where it has none (devices, pipes).
fn class(superblock: &Superblock, number: u64, mode: u16, flags: u32) -> Option<Class> {
    if number == superblock.journal_inode {
        return Some(Class::Journal);
    }
    let reserved = [BAD_BLOCKS, USER_QUOTA, GROUP_QUOTA, RESIZE].contains(&number);
    if reserved || superblock.housekeeping_inodes.contains(&number) || flags & EA_INODE != 0 {
        return Some(Class::OtherMetadata);
    }
    match mode & TYPE_MASK {
        REGULAR => Some(Class::FileData),
        DIRECTORY => Some(Class::Directory),
        SYMBOLIC_LINK => Some(Class::OtherMetadata),
        _ => None,
    }
}
