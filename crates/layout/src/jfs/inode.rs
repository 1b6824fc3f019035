//! An inode: `struct dinode` in `jfs_dinode.h`.

use super::descriptor::{Blocks, Mapped};
use super::{PAGE_BYTES, Walk, directory, extent_tree};
use crate::fields::Fields;
use crate::layout::Class;
use crate::read_at::LayoutError;

/// `DISIZE` in `jfs_filsys.h`.
pub(super) const INODE_BYTES: usize = 512;
/// `FILESET_OBJECT_I`: the first inode for files; the root, 2, is the only directory before.
const FIRST_OF_FILES: u64 = 4;
/// Where the root of the tree of extents is, and that of a directory's entries.
const ROOT_AT: usize = 224;
/// Where a directory keeps the places of its entries: a table, or the root of a tree if it has outgrown it.
const TABLE_AT: usize = 128;
/// Bytes of that root.
const TABLE_BYTES: usize = 96;
/// Entries of the table in the inode: `MAX_INLINE_DIRTABLE_ENTRY` in `jfs_dtree.h`; the first two numbers are `.` and
/// `..`, cf. `jfs_dirtable_inline` in `jfs_incore.h`.
const TABLE_ENTRIES: u32 = 13;
/// Links shorter than this are in the inode: `IDATASIZE` in `jfs_filsys.h`.
const SHORT_LINK: u64 = 256;
/// `DXD_EXTENT` in `jfs_types.h`: attributes have blocks of their own.
const IN_BLOCKS: u8 = 0x20;

/// Type bits of the mode, as in `stat`.
const TYPE_MASK: u32 = 0xf000;
const TYPE_DIRECTORY: u32 = 0x4000;
const TYPE_REGULAR: u32 = 0x8000;
const TYPE_LINK: u32 = 0xa000;

/// Classes what an inode of the file system proper names.
pub(super) fn read(walk: &mut Walk<'_>, inode: &Fields<'_>, number: u64) -> Result<(), LayoutError> {
    if u64::from(inode.u32_le(8)?) != number {
        return Err(inode.damaged(8, format!("inode {number} is in use but missing")));
    }
    // Access control list and extended attributes.
    for at in [88, 104] {
        if inode.u8(at)? & IN_BLOCKS != 0 {
            let blocks = Blocks::read(inode, at + 8)?;
            walk.add(Class::OtherMetadata, blocks, Some(number), inode.device_offset() + at as u64)?;
        }
    }
    let regular = if number < FIRST_OF_FILES { Class::OtherMetadata } else { Class::FileData };
    match inode.u32_le(52)? & TYPE_MASK {
        TYPE_DIRECTORY => read_directory(walk, inode, number),
        TYPE_REGULAR => read_contents(walk, inode, regular, Some(number)),
        TYPE_LINK if inode.u64_le(24)? >= SHORT_LINK => {
            read_contents(walk, inode, Class::OtherMetadata, Some(number))
        }
        _ => Ok(()),
    }
}

/// Classes the contents of an inode and the pages of its tree.
pub(super) fn read_contents(
    walk: &mut Walk<'_>,
    inode: &Fields<'_>,
    class: Class,
    number: Option<u64>,
) -> Result<(), LayoutError> {
    let root = contents_root(inode)?;
    extent_tree::walk_tree(walk, &root, number, &mut |walk, mapped, found_at| {
        let file_offset = (class == Class::FileData).then_some(mapped.position * PAGE_BYTES);
        walk.add_contents(class, mapped.blocks, number, file_offset, found_at)
    })
}

/// The root of the tree of an inode's extents.
pub(super) fn contents_root<'b>(inode: &Fields<'b>) -> Result<Fields<'b>, LayoutError> {
    inode.slice(ROOT_AT, INODE_BYTES - ROOT_AT)
}

fn read_directory(walk: &mut Walk<'_>, inode: &Fields<'_>, number: u64) -> Result<(), LayoutError> {
    if walk.directory_tables && inode.u32_le(120)? > TABLE_ENTRIES + 1 {
        let root = inode.slice(TABLE_AT, TABLE_BYTES + INODE_BYTES - ROOT_AT)?;
        let read =
            extent_tree::walk_tree(walk, &root, Some(number), &mut |walk, mapped: Mapped, found_at| {
                walk.add(Class::Directory, mapped.blocks, Some(number), found_at)
            });
        walk.note(read)?;
    }
    directory::walk_tree(walk, &inode.slice(ROOT_AT, INODE_BYTES - ROOT_AT)?, number)
}
