//! The free-space side of an allocation group: its trees and its list of free blocks.

use super::short_tree::ShortTree;
use super::{TreeBlock, Walk, damaged};
use crate::fields::Fields;
use crate::layout::Class;
use crate::read_at::LayoutError;

/// Free extents by position and by size, owners of extents, shared extents. Magic numbers, and the sizes of
/// `struct xfs_alloc_key`, two `struct xfs_rmap_key` (lowest and highest) and `struct xfs_refcount_key`, from
/// `xfs_format.h`.
const BY_POSITION: ShortTree =
    ShortTree { magic: b"ABTB", magic_checksums: b"AB3B", key_bytes: 8, class: Class::AllocationMap };
const BY_SIZE: ShortTree =
    ShortTree { magic: b"ABTC", magic_checksums: b"AB3C", key_bytes: 8, class: Class::AllocationMap };
const OWNERS: ShortTree =
    ShortTree { magic: b"RMB3", magic_checksums: b"RMB3", key_bytes: 40, class: Class::AllocationMap };
const SHARED: ShortTree =
    ShortTree { magic: b"R3FC", magic_checksums: b"R3FC", key_bytes: 4, class: Class::AllocationMap };

/// `XFS_REFC_COWFLAG`: the extent is held ready for a copy on write and belongs to no file yet.
const STAGED: u32 = 1 << 31;

/// Bytes of `struct xfs_refcount_rec`.
const SHARED_RECORD_BYTES: usize = 12;

/// Bytes of `struct xfs_agfl`, which only version 5 has.
const FREE_LIST_HEADER_BYTES: usize = 36;

/// Reads the trees that the free-space header (`struct xfs_agf`) names, and the free list.
pub(super) fn read(walk: &mut Walk<'_>, ag: u32) -> Result<(), LayoutError> {
    let (offset, bytes) = walk.header(ag, 1, b"XAGF")?;
    let agf = Fields::new(super::NAME, offset, &bytes);
    for (tree, root, levels) in [(BY_POSITION, 16, 28), (BY_SIZE, 20, 32)] {
        let read = tree.walk(walk, ag, agf.u32_be(root)?, agf.u32_be(levels)?);
        walk.note(read)?;
    }
    if walk.geometry.reverse_map {
        let read = OWNERS.walk(walk, ag, agf.u32_be(24)?, agf.u32_be(36)?);
        walk.note(read)?;
    }
    if walk.geometry.reflink {
        let read = SHARED.walk(walk, ag, agf.u32_be(88)?, agf.u32_be(92)?);
        for leaf in walk.note(read)?.unwrap_or_default() {
            staged_extents(walk, ag, leaf)?;
        }
    }
    free_list(walk, ag, &agf)
}

/// The blocks kept for the trees' own growth.
fn free_list(walk: &mut Walk<'_>, ag: u32, agf: &Fields<'_>) -> Result<(), LayoutError> {
    let geometry = walk.geometry;
    let (offset, bytes, header) = if geometry.checksums {
        let (offset, bytes) = walk.header(ag, 3, b"XAFL")?;
        (offset, bytes, FREE_LIST_HEADER_BYTES)
    } else {
        let offset = geometry.ag_byte(ag, 0) + 3 * geometry.sector_bytes;
        (offset, crate::fields::read_bytes(walk.device, offset, geometry.sector_bytes as usize)?, 0)
    };
    let list = Fields::new(super::NAME, offset, &bytes);
    let room = (bytes.len() - header) / 4;
    let first = agf.u32_be(40)? as usize;
    let count = agf.u32_be(48)? as usize;
    if first >= room || count > room {
        return Err(agf.damaged(40, "the free list is longer than its sector"));
    }
    for index in (first..first + count).map(|index| index % room) {
        let block = list.u32_be(header + index * 4)?;
        let outside = || list.damaged(header + index * 4, format!("free block {block} is outside its group"));
        let position = geometry.in_group(ag, block, 1).ok_or_else(outside);
        if let Some(position) = walk.note(position)? {
            walk.builder.add(Class::AllocationMap, position, geometry.block_bytes);
        }
    }
    Ok(())
}

/// The extents held ready for copies on write in a block of the tree of shared extents.
fn staged_extents(walk: &mut Walk<'_>, ag: u32, leaf: u32) -> Result<(), LayoutError> {
    let geometry = walk.geometry;
    let offset = geometry.ag_byte(ag, leaf);
    let bytes = walk.block(offset)?;
    let node = Fields::new(super::NAME, offset, &bytes);
    let head = TreeBlock::read(&node, SHARED.magic, 0)?;
    let records = head.entries(&node, geometry.short_tree_header(), SHARED_RECORD_BYTES);
    let Some(records) = walk.note(records)? else { return Ok(()) };
    for record in records {
        let (start, blocks) = (record.u32_be(0)?, u64::from(record.u32_be(4)?));
        if start & STAGED == 0 {
            continue;
        }
        let outside =
            || damaged(record.device_offset(), "an extent for copies on write is outside its group");
        let position = geometry.in_group(ag, start & !STAGED, blocks).ok_or_else(outside);
        if let Some(position) = walk.note(position)? {
            walk.builder.add(Class::FileData, position, blocks * geometry.block_bytes);
        }
    }
    Ok(())
}
