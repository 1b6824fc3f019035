//! The inode side of an allocation group: the trees of inode chunks, the chunks and their inodes.

use super::short_tree::ShortTree;
use super::{TreeBlock, Walk, inode};
use crate::fields::Fields;
use crate::layout::Class;
use crate::read_at::LayoutError;

/// All chunks, and those with free inodes; key: `struct xfs_inobt_key`.
const CHUNKS: ShortTree =
    ShortTree { magic: b"IABT", magic_checksums: b"IAB3", key_bytes: 4, class: Class::Inode };
const CHUNKS_WITH_FREE: ShortTree =
    ShortTree { magic: b"FIBT", magic_checksums: b"FIB3", key_bytes: 4, class: Class::Inode };

/// Bytes of `struct xfs_inobt_rec`.
const RECORD_BYTES: usize = 16;
/// `XFS_INODES_PER_CHUNK`.
const INODES_PER_CHUNK: u64 = 64;
/// `XFS_INODES_PER_HOLEMASK_BIT`.
const INODES_PER_HOLE_BIT: u64 = 4;

/// A chunk of 64 inodes, of which some may be missing.
struct Chunk {
    /// Its first inode, within the group.
    first: u64,
    /// Bit *i*: inodes 4*i* to 4*i*+3 do not exist.
    holes: u16,
    /// Bit *i*: inode *i* is free.
    free: u64,
}

/// Reads the trees that the inode header (`struct xfs_agi`) names, and what they lead to.
pub(super) fn read(walk: &mut Walk<'_>, ag: u32) -> Result<(), LayoutError> {
    let (offset, bytes) = walk.header(ag, 2, b"XAGI")?;
    let agi = Fields::new(super::NAME, offset, &bytes);
    if walk.geometry.free_inode_tree {
        let read = CHUNKS_WITH_FREE.walk(walk, ag, agi.u32_be(328)?, agi.u32_be(332)?);
        walk.note(read)?;
    }
    let leaves = CHUNKS.walk(walk, ag, agi.u32_be(20)?, agi.u32_be(24)?)?;
    let mut end = 0;
    for leaf in leaves {
        let read = read_leaf(walk, ag, leaf, &mut end);
        walk.note(read)?;
    }
    Ok(())
}

/// The chunks of a block of the tree. `end` is that of the chunk before: chunks are in order, so that each inode is
/// visited once.
fn read_leaf(walk: &mut Walk<'_>, ag: u32, leaf: u32, end: &mut u64) -> Result<(), LayoutError> {
    let geometry = walk.geometry;
    let offset = geometry.ag_byte(ag, leaf);
    let bytes = walk.block(offset)?;
    let node = Fields::new(super::NAME, offset, &bytes);
    let magic = if geometry.checksums { CHUNKS.magic_checksums } else { CHUNKS.magic };
    let head = TreeBlock::read(&node, magic, 0)?;
    for record in head.entries(&node, geometry.short_tree_header(), RECORD_BYTES)? {
        let holes = if geometry.sparse_inodes { record.u16_be(4)? } else { 0 };
        let chunk = Chunk { first: u64::from(record.u32_be(0)?), holes, free: record.u64_be(8)? };
        let last = (chunk.first + INODES_PER_CHUNK) * geometry.inode_bytes;
        let inside = last <= u64::from(geometry.blocks_of(ag)) * geometry.block_bytes || holes != 0;
        let fits = if inside && chunk.first >= *end {
            Ok(())
        } else {
            Err(record.damaged(
                0,
                format!("the inode chunk starting at {} is out of order or outside its group", chunk.first),
            ))
        };
        if walk.note(fits)?.is_some() {
            *end = chunk.first + INODES_PER_CHUNK;
            read_chunk(walk, ag, &chunk)?;
        }
    }
    Ok(())
}

/// Classes a chunk and reads its inodes.
fn read_chunk(walk: &mut Walk<'_>, ag: u32, chunk: &Chunk) -> Result<(), LayoutError> {
    let geometry = walk.geometry;
    let start = geometry.ag_byte(ag, 0);
    let group_bytes = u64::from(geometry.blocks_of(ag)) * geometry.block_bytes;
    for part in (0..INODES_PER_CHUNK / INODES_PER_HOLE_BIT).filter(|part| chunk.holes >> part & 1 == 0) {
        let first = chunk.first + part * INODES_PER_HOLE_BIT;
        let bytes = INODES_PER_HOLE_BIT * geometry.inode_bytes;
        if first * geometry.inode_bytes + bytes > group_bytes {
            let outside = super::damaged(start, format!("inode {first} is outside its group"));
            walk.note::<()>(Err(outside))?;
            continue;
        }
        walk.builder.add(Class::Inode, start + first * geometry.inode_bytes, bytes);
        for inode in first..first + INODES_PER_HOLE_BIT {
            if chunk.free >> (inode - chunk.first) & 1 == 0 {
                let number = geometry.inode_number(ag, inode);
                let read = inode::read(walk, start + inode * geometry.inode_bytes, number);
                walk.note(read)?;
            }
        }
    }
    Ok(())
}
