//! The tree of entries ("dtree") of a directory: `dtroot_t` and `dtpage_t` in `jfs_dtree.h`.

use super::descriptor::Blocks;
use super::{NAME, PAGE_BYTES, Walk};
use crate::fields::Fields;
use crate::layout::Class;
use crate::read_at::LayoutError;

/// `BT_LEAF` and `BT_INTERNAL` in `jfs_btree.h`.
const LEAF: u8 = 0x02;
const INNER: u8 = 0x04;
/// Bytes of a slot; the first is the head: `DTSLOTSIZE`.
const SLOT_BYTES: usize = 32;
/// Entries of the root's table of slots, which is in its head from byte 24 on.
const ROOT_TABLE: (usize, usize) = (24, 8);
/// No tree is higher: `MAXTREEHEIGHT` in `jfs_types.h`.
const MAX_HEIGHT: u32 = 8;

/// A page to be read: its blocks, its height below the root, and where it is named.
type Pending = (Blocks, u32, u64);

/// Classes the pages of the tree whose root is `root`.
pub(super) fn walk_tree(walk: &mut Walk<'_>, root: &Fields<'_>, inode: u64) -> Result<(), LayoutError> {
    let mut pending = children(root, ROOT_TABLE, 1)?;
    while let Some((blocks, height, found_at)) = pending.pop() {
        let page = read_page(walk, blocks, height, found_at, inode);
        pending.extend(walk.note(page)?.unwrap_or_default());
    }
    Ok(())
}

fn read_page(
    walk: &mut Walk<'_>,
    blocks: Blocks,
    height: u32,
    found_at: u64,
    inode: u64,
) -> Result<Vec<Pending>, LayoutError> {
    let bytes = walk.page(blocks.first, found_at)?;
    let page = Fields::new(NAME, blocks.first * PAGE_BYTES, &bytes);
    // Checked before it is classed: a page that is none does not belong to the directory.
    let table = (usize::from(page.u8(21)?) * SLOT_BYTES, usize::from(page.u8(20)?));
    let below = children(&page, table, height)?;
    walk.add(Class::Directory, blocks, Some(inode), found_at)?;
    Ok(below)
}

/// The pages below one. `table` is where the slots of its entries are listed, in order of names, and its room.
fn children(page: &Fields<'_>, table: (usize, usize), height: u32) -> Result<Vec<Pending>, LayoutError> {
    let (flags, count) = (page.u8(16)?, usize::from(page.u8(17)?));
    if (flags & LEAF != 0) == (flags & INNER != 0) || count > table.1 {
        return Err(page.damaged(16, "a page of a directory has an invalid header"));
    }
    if flags & LEAF != 0 {
        return Ok(Vec::new());
    }
    if height > MAX_HEIGHT {
        return Err(page.damaged(16, "the tree of a directory has more levels than possible"));
    }
    let child = |entry| {
        let at = usize::from(page.u8(table.0 + entry)?) * SLOT_BYTES;
        Ok((Blocks::read(page, at)?, height + 1, page.device_offset() + at as u64))
    };
    (0..count).map(child).collect()
}
