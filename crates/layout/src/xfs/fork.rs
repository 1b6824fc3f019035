//! The extents of an inode's fork: in the inode itself, or in a tree of its own.

use super::{TreeBlock, Walk, damaged};
use crate::fields::Fields;
use crate::layout::Class;
use crate::read_at::LayoutError;

/// `enum xfs_dinode_fmt` in `xfs_format.h`: a device number, contents in the inode, extents in the inode, a tree of
/// extents, an identifier, a tree of other records.
const DEVICE: u8 = 0;
const LOCAL: u8 = 1;
const EXTENTS: u8 = 2;
const TREE: u8 = 3;
const IDENTIFIER: u8 = 4;
const OTHER_TREE: u8 = 5;

/// Bytes of `struct xfs_bmbt_rec`.
const RECORD_BYTES: usize = 16;
/// Bytes of the root in the inode before its keys (`struct xfs_bmdr_block`), of a key and of a pointer.
const ROOT_HEADER_BYTES: usize = 4;
const KEY_BYTES: usize = 8;
const POINTER_BYTES: usize = 8;
/// No tree of an inode is higher: `XFS_BM_MAXLEVELS` is computed and far below this.
const MAX_LEVELS: u32 = 32;

/// What the extents of a fork are for.
pub(super) struct Usage {
    pub(super) inode: u64,
    pub(super) class: Class,
    /// Whether positions in the contents are worth knowing.
    pub(super) positions: bool,
}

/// Classes everything that a fork, which occupies `area` in its inode, names.
pub(super) fn read(
    walk: &mut Walk<'_>,
    format: u8,
    area: &Fields<'_>,
    extents: u64,
    usage: &Usage,
) -> Result<(), LayoutError> {
    match format {
        DEVICE | LOCAL | IDENTIFIER => Ok(()),
        EXTENTS => {
            let room = (area.bytes().len() / RECORD_BYTES) as u64;
            if extents > room {
                let reason = format!("inode {} has {extents} extents, more than fit in it", usage.inode);
                return Err(area.damaged(0, reason));
            }
            (0..extents as usize).try_for_each(|index| {
                let record = area.slice(index * RECORD_BYTES, RECORD_BYTES)?;
                extent(walk, &record, usage)
            })
        }
        TREE => tree(walk, area, usage),
        OTHER_TREE => {
            walk.builder.remark(format!("the realtime tree of inode {} was not read", usage.inode));
            Ok(())
        }
        other => Err(area.damaged(0, format!("inode {} has a fork of unknown format {other}", usage.inode))),
    }
}

/// A tree of extents; its pointers are block numbers of the whole file system.
fn tree(walk: &mut Walk<'_>, area: &Fields<'_>, usage: &Usage) -> Result<(), LayoutError> {
    let root = TreeBlock { level: u32::from(area.u16_be(0)?), entries: usize::from(area.u16_be(2)?) };
    if !(1..=MAX_LEVELS).contains(&root.level) {
        return Err(area.damaged(0, format!("the tree of inode {} has {} levels", usage.inode, root.level)));
    }
    let room = area.bytes().len().saturating_sub(ROOT_HEADER_BYTES) / (KEY_BYTES + POINTER_BYTES);
    let pointers = root.entries(area, ROOT_HEADER_BYTES + room * KEY_BYTES, POINTER_BYTES)?;
    let below = root.level - 1;
    let mut pending: Vec<(u64, u32)> =
        pointers.rev().map(|pointer| Ok((pointer.u64_be(0)?, below))).collect::<Result<_, LayoutError>>()?;
    while let Some((block, level)) = pending.pop() {
        let children = node(walk, block, level, area.device_offset(), usage);
        let children = walk.note(children)?.unwrap_or_default();
        pending.extend(children.into_iter().rev().map(|child| (child, level.saturating_sub(1))));
    }
    Ok(())
}

/// Classes a block of the tree, and its extents if it is at the lowest level; returns the blocks below it.
fn node(
    walk: &mut Walk<'_>,
    block: u64,
    level: u32,
    inode_offset: u64,
    usage: &Usage,
) -> Result<Vec<u64>, LayoutError> {
    let geometry = walk.geometry;
    let outside =
        || damaged(inode_offset, format!("the tree of inode {} continues outside its group", usage.inode));
    let offset = geometry.in_file_system(block, 1).ok_or_else(outside)?;
    let bytes = walk.tree_block(offset)?;
    let node = Fields::new(super::NAME, offset, &bytes);
    let head = TreeBlock::read(&node, if geometry.checksums { b"BMA3" } else { b"BMAP" }, level)?;
    walk.builder.add_of_inode(Class::ExtentMap, offset, geometry.block_bytes, usage.inode, None);
    let header = geometry.long_tree_header();
    if level > 0 {
        // All keys come first, with room for as many as the block holds, then the pointers.
        let room = (bytes.len() - header) / (KEY_BYTES + POINTER_BYTES);
        let pointers = head.entries(&node, header + room * KEY_BYTES, POINTER_BYTES)?;
        return pointers.map(|pointer| pointer.u64_be(0)).collect();
    }
    for record in head.entries(&node, header, RECORD_BYTES)? {
        extent(walk, &record, usage)?;
    }
    Ok(Vec::new())
}

/// Classes an extent. The record has, from the highest bit on, 1 bit whether it was written, 54 for its position in
/// the contents, 52 for its first block, 21 for its blocks (`xfs_bmbt_disk_get_all` in `xfs_bmap_btree.c`).
fn extent(walk: &mut Walk<'_>, record: &Fields<'_>, usage: &Usage) -> Result<(), LayoutError> {
    let (high, low) = (record.u64_be(0)?, record.u64_be(8)?);
    let position = high >> 9 & ((1 << 54) - 1);
    let block = (high & 0x1ff) << 43 | low >> 21;
    let blocks = low & ((1 << 21) - 1);
    let block_bytes = walk.geometry.block_bytes;
    let file_offset = position.checked_mul(block_bytes);
    let start = walk.geometry.in_file_system(block, blocks).filter(|_| blocks > 0 && file_offset.is_some());
    let outside = || record.damaged(0, format!("an extent of inode {} is outside its group", usage.inode));
    if let Some(start) = walk.note(start.ok_or_else(outside))? {
        let file_offset = file_offset.filter(|_| usage.positions);
        walk.builder.add_of_inode(usage.class, start, blocks * block_bytes, usage.inode, file_offset);
    }
    Ok(())
}
