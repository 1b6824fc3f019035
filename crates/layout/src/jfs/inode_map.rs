//! Maps of inodes: `struct iag` in `jfs_imap.h`.

use super::descriptor::Blocks;
use super::inode::{self, INODE_BYTES};
use super::superblock::INODE_TABLE_OFFSET;
use super::{NAME, PAGE_BYTES, Walk, extent_tree};
use crate::fields::{Fields, read_bytes};
use crate::layout::Class;
use crate::read_at::LayoutError;

/// `AGGREGATE_I`, `BMAP_I`, `LOG_I`, `BADBLOCK_I`, `FILESYSTEM_I` in `jfs_filsys.h`.
const MAP_OF_AGGREGATE: u64 = 1;
const BLOCK_MAP: u64 = 2;
const LOG: u64 = 3;
const BAD_BLOCKS: u64 = 4;
const MAP_OF_FILES: u64 = 16;

/// `INOSPERIAG`, `EXTSPERIAG`, `INOSPEREXT`: inodes of a page of the map, their extents, and inodes of each.
const INODES_PER_PAGE: u64 = 4096;
const EXTENTS_PER_PAGE: usize = 128;
const INODES_PER_EXTENT: u64 = 32;
/// Where a page of the map has its number, the bits of inodes in use (as things are, and as they are on the disk), and
/// the places of the extents.
const NUMBER_AT: usize = 8;
const WORKING_BITS_AT: usize = 2048;
const LASTING_BITS_AT: usize = 2560;
const EXTENTS_AT: usize = 3072;

/// Reads the aggregate's own inodes and, through them, everything else.
pub(super) fn read_aggregate(walk: &mut Walk<'_>) -> Result<(), LayoutError> {
    let parts =
        [(BLOCK_MAP, Class::AllocationMap), (LOG, Class::Journal), (BAD_BLOCKS, Class::OtherMetadata)];
    for (number, class) in parts {
        let bytes = aggregate_inode(walk, number)?;
        let fields = Fields::new(NAME, aggregate_inode_offset(number), &bytes);
        let read = inode::read_contents(walk, &fields, class, None);
        walk.note(read)?;
    }
    for (number, of_files) in [(MAP_OF_AGGREGATE, false), (MAP_OF_FILES, true)] {
        let read = read_map(walk, number, of_files);
        walk.note(read)?;
    }
    Ok(())
}

/// Classes the pages of trees that the second table has for itself: that of its own map, and that of the map of the
/// files' inodes, of which it keeps a copy (`duplicateIXtree` in `jfs_imap.c`).
pub(super) fn read_second_table(walk: &mut Walk<'_>, table: u64) -> Result<(), LayoutError> {
    for (number, map_too) in [(MAP_OF_AGGREGATE, true), (MAP_OF_FILES, false)] {
        let offset = table + number * INODE_BYTES as u64;
        let bytes = read_bytes(walk.device, offset, INODE_BYTES)?;
        let root = inode::contents_root(&Fields::new(NAME, offset, &bytes))?;
        let read = extent_tree::walk_tree(walk, &root, None, &mut |walk, mapped, found_at| {
            if map_too { walk.add(Class::Inode, mapped.blocks, None, found_at) } else { Ok(()) }
        });
        walk.note(read)?;
    }
    Ok(())
}

fn aggregate_inode_offset(number: u64) -> u64 {
    INODE_TABLE_OFFSET + number * INODE_BYTES as u64
}

fn aggregate_inode(walk: &Walk<'_>, number: u64) -> Result<Vec<u8>, LayoutError> {
    read_bytes(walk.device, aggregate_inode_offset(number), INODE_BYTES)
}

/// Classes the pages of the map that is the contents of an inode of the aggregate, and the extents of inodes it names;
/// reads these inodes if they are those of files.
fn read_map(walk: &mut Walk<'_>, map: u64, of_files: bool) -> Result<(), LayoutError> {
    let bytes = aggregate_inode(walk, map)?;
    let fields = Fields::new(NAME, aggregate_inode_offset(map), &bytes);
    let mut extents = Vec::new();
    let root = inode::contents_root(&fields)?;
    let read = extent_tree::walk_tree(walk, &root, None, &mut |walk, mapped, found_at| {
        extents.push((mapped, found_at));
        walk.add(Class::Inode, mapped.blocks, None, found_at)
    });
    walk.note(read)?;
    for (mapped, found_at) in extents {
        // The first page of all counts the inodes.
        for index in u64::from(mapped.position == 0)..mapped.blocks.count {
            let page = walk.page(mapped.blocks.first + index, found_at);
            // The others of the extent would be damaged in the same way, and there may be many.
            let Some(page) = walk.note(page)? else { break };
            let page = Fields::new(NAME, (mapped.blocks.first + index) * PAGE_BYTES, &page);
            let read = read_map_page(walk, &page, mapped.position + index - 1, of_files);
            walk.note(read)?;
        }
    }
    Ok(())
}

/// The extents of inodes that a page of the map names.
fn read_map_page(
    walk: &mut Walk<'_>,
    page: &Fields<'_>,
    number: u64,
    of_files: bool,
) -> Result<(), LayoutError> {
    if u64::from(page.u32_le(NUMBER_AT)?) != number {
        return Err(page.damaged(NUMBER_AT, format!("page {number} of an inode map is missing")));
    }
    for extent in 0..EXTENTS_PER_PAGE {
        let at = EXTENTS_AT + extent * 8;
        let blocks = Blocks::read(page, at)?;
        if blocks.is_empty() {
            continue;
        }
        let found_at = page.device_offset() + at as u64;
        walk.add(Class::Inode, blocks, None, found_at)?;
        if of_files {
            let used =
                page.u32_le(WORKING_BITS_AT + extent * 4)? | page.u32_le(LASTING_BITS_AT + extent * 4)?;
            let first = number * INODES_PER_PAGE + extent as u64 * INODES_PER_EXTENT;
            let read = read_inodes(walk, blocks, used, first, found_at);
            walk.note(read)?;
        }
    }
    Ok(())
}

/// Reads the inodes of an extent whose bits are set in `used`, the highest being that of inode `first`.
fn read_inodes(
    walk: &mut Walk<'_>,
    blocks: Blocks,
    used: u32,
    first: u64,
    found_at: u64,
) -> Result<(), LayoutError> {
    let per_page = PAGE_BYTES / INODE_BYTES as u64;
    for page in 0..blocks.count.min(INODES_PER_EXTENT / per_page) {
        let block = blocks.first + page;
        let bytes = walk.page(block, found_at)?;
        let fields = Fields::new(NAME, block * PAGE_BYTES, &bytes);
        for index in 0..per_page {
            let in_extent = page * per_page + index;
            if used << in_extent & 1 << 31 != 0 {
                let inode = fields.slice(index as usize * INODE_BYTES, INODE_BYTES)?;
                let read = inode::read(walk, &inode, first + in_extent);
                walk.note(read)?;
            }
        }
    }
    Ok(())
}
