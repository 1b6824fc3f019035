//! Nodes: inodes (`struct f2fs_inode`) and the lists of places that they name (`struct direct_node`, `struct indirect_node`).

use super::table::{Entry, is_place};
use super::{BLOCK_BYTES, Walk, block_fields};
use crate::fields::{Fields, read_bytes};
use crate::layout::Class;
use crate::read_at::LayoutError;

/// Bits of `i_inline`: `F2FS_INLINE_*` and `F2FS_EXTRA_ATTR` in `f2fs.h`.
const INLINE_XATTR: u8 = 0x01;
const INLINE_DATA: u8 = 0x02;
const INLINE_ENTRIES: u8 = 0x04;
const EXTRA_ATTRIBUTES: u8 = 0x20;

/// `i_addr` and how many places it has: `DEF_ADDRS_PER_INODE`.
const PLACES_AT: usize = 360;
const PLACES: usize = 923;
/// `DEFAULT_INLINE_XATTR_ADDRS`: how many of them attributes take that are in the inode.
const ATTRIBUTE_PLACES: usize = 50;
/// `i_nid`: two lists of places, two lists of lists, one list of lists of lists.
const LISTS_AT: usize = 4052;
const LIST_LEVELS: [u32; 5] = [0, 0, 1, 1, 2];
/// Places or lists of a list: `DEF_ADDRS_PER_BLOCK`, `NIDS_PER_BLOCK`.
const IN_LIST: usize = 1018;
/// `struct node_footer`.
pub(super) const FOOTER_AT: usize = 4072;

/// Type bits of the mode, as in `stat`.
const TYPE_MASK: u16 = 0xf000;
const TYPE_DIRECTORY: u16 = 0x4000;
const TYPE_REGULAR: u16 = 0x8000;

/// Classes an inode of the table and what it names. Nodes that are no inodes are classed with theirs.
pub(super) fn read(walk: &mut Walk<'_>, nid: u32, entry: Entry) -> Result<(), LayoutError> {
    if nid != entry.inode {
        return Ok(());
    }
    let bytes = node(walk, nid, entry)?;
    walk.add(Class::Inode, entry.block, nid, None, entry.found_at)?;
    let inode = block_fields(&bytes, u64::from(entry.block));
    let attributes = inode.u32_le(76)?;
    if attributes != 0 {
        let added = listed(walk, attributes, nid, inode.device_offset() + 76)
            .and_then(|list| walk.add(Class::OtherMetadata, list.block, nid, None, list.found_at));
        walk.note(added)?;
    }
    let kept = inode.u8(3)?;
    if kept & (INLINE_DATA | INLINE_ENTRIES) != 0 {
        return Ok(());
    }
    let mut contents = Contents { inode: nid, class: class_of(inode.u16_le(0)?), position: 0 };
    let (first, end) = places(walk, &inode, kept)?;
    contents.add(walk, &inode, PLACES_AT + 4 * first, end - first)?;
    for (slot, level) in LIST_LEVELS.into_iter().enumerate() {
        let at = LISTS_AT + 4 * slot;
        contents.add_list(walk, inode.u32_le(at)?, level, inode.device_offset() + at as u64)?;
    }
    Ok(())
}

fn class_of(mode: u16) -> Class {
    match mode & TYPE_MASK {
        TYPE_DIRECTORY => Class::Directory,
        TYPE_REGULAR => Class::FileData,
        _ => Class::OtherMetadata,
    }
}

/// Which of the places in an inode are of contents: those before are more attributes, those behind extended ones
/// (`get_extra_isize`, `get_inline_xattr_addrs` in `f2fs.h`).
fn places(walk: &Walk<'_>, inode: &Fields<'_>, kept: u8) -> Result<(usize, usize), LayoutError> {
    let extra = if kept & EXTRA_ATTRIBUTES != 0 { usize::from(inode.u16_le(PLACES_AT)?) / 4 } else { 0 };
    let attributes = if kept & EXTRA_ATTRIBUTES != 0 && walk.superblock.says_attribute_size {
        usize::from(inode.u16_le(PLACES_AT + 2)?)
    } else if kept & INLINE_XATTR != 0 {
        ATTRIBUTE_PLACES
    } else {
        0
    };
    if extra + attributes > PLACES {
        return Err(inode.damaged(PLACES_AT, "attributes take more than the inode"));
    }
    Ok((extra, PLACES - attributes))
}

/// Reads a node, which must be the one that the table says.
fn node(walk: &Walk<'_>, nid: u32, entry: Entry) -> Result<Vec<u8>, LayoutError> {
    if !walk.superblock.is_in_main_area(entry.block) {
        let reason = format!("node {nid} is in block {}, outside of the area of nodes", entry.block);
        return Err(super::damaged(entry.found_at, reason));
    }
    let block = u64::from(entry.block);
    let bytes = read_bytes(walk.device, block * BLOCK_BYTES, BLOCK_BYTES as usize)?;
    let fields = block_fields(&bytes, block);
    if (fields.u32_le(FOOTER_AT)?, fields.u32_le(FOOTER_AT + 4)?) != (nid, entry.inode) {
        return Err(fields.damaged(FOOTER_AT, format!("node {nid} is missing")));
    }
    Ok(bytes)
}

/// The place of a node that an inode names.
fn listed(walk: &Walk<'_>, nid: u32, inode: u32, found_at: u64) -> Result<Entry, LayoutError> {
    let entry = walk.table.entry(nid).filter(|entry| entry.inode == inode);
    entry.ok_or_else(|| super::damaged(found_at, format!("node {nid} of inode {inode} has no place")))
}

/// The contents of an inode, as far as they were gone through.
struct Contents {
    inode: u32,
    class: Class,
    /// In blocks.
    position: u64,
}

impl Contents {
    /// Classes the blocks of the next places.
    fn add(
        &mut self,
        walk: &mut Walk<'_>,
        node: &Fields<'_>,
        at: usize,
        count: usize,
    ) -> Result<(), LayoutError> {
        for at in (at..).step_by(4).take(count) {
            let block = node.u32_le(at)?;
            let file_offset = (self.class == Class::FileData).then_some(self.position * BLOCK_BYTES);
            self.position += 1;
            if is_place(block) {
                let found_at = node.device_offset() + at as u64;
                let added = walk.add(self.class, block, self.inode, file_offset, found_at);
                walk.note(added)?;
            }
        }
        Ok(())
    }

    /// Classes a list and what it names. `level` 0 is a list of places, 1 one of lists of them, and so on. A list that is not there
    /// is a hole.
    fn add_list(
        &mut self,
        walk: &mut Walk<'_>,
        nid: u32,
        level: u32,
        found_at: u64,
    ) -> Result<(), LayoutError> {
        let whole = (IN_LIST as u64).pow(level + 1);
        let end = self.position + whole;
        if nid != 0 {
            let read = self.read_list(walk, nid, level, found_at);
            walk.note(read)?;
        }
        self.position = end;
        Ok(())
    }

    fn read_list(
        &mut self,
        walk: &mut Walk<'_>,
        nid: u32,
        level: u32,
        found_at: u64,
    ) -> Result<(), LayoutError> {
        let entry = listed(walk, nid, self.inode, found_at)?;
        let bytes = node(walk, nid, entry)?;
        walk.add(Class::ExtentMap, entry.block, self.inode, None, entry.found_at)?;
        let list = block_fields(&bytes, u64::from(entry.block));
        if level == 0 {
            return self.add(walk, &list, 0, IN_LIST);
        }
        for at in (0..).step_by(4).take(IN_LIST) {
            self.add_list(walk, list.u32_le(at)?, level - 1, list.device_offset() + at as u64)?;
        }
        Ok(())
    }
}
