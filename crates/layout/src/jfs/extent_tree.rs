//! The tree of extents ("xtree") of an inode: `xtpage_t` in `jfs_xtree.h`.

use super::descriptor::Mapped;
use super::{NAME, Walk};
use crate::fields::Fields;
use crate::layout::Class;
use crate::read_at::LayoutError;

/// `BT_LEAF` in `jfs_btree.h`; what is neither a leaf nor inner is no page of a tree.
const LEAF: u8 = 0x02;
/// `BT_INTERNAL`.
const INNER: u8 = 0x04;
/// `XTENTRYSTART`: the first two entries are the head.
const FIRST_ENTRY: usize = 2;
/// No tree is higher: `MAXTREEHEIGHT` in `jfs_types.h`.
const MAX_HEIGHT: u32 = 8;

/// Calls `leaf` for each extent of the tree whose root is `root`. Classes the pages of the tree.
///
/// # Errors
/// When the root does not fit; damaged pages below are noted.
pub(super) fn walk_tree(
    walk: &mut Walk<'_>,
    root: &Fields<'_>,
    inode: Option<u64>,
    leaf: &mut dyn FnMut(&mut Walk<'_>, Mapped, u64) -> Result<(), LayoutError>,
) -> Result<(), LayoutError> {
    let mut pending = Vec::new();
    read_page(walk, root, 1, leaf, &mut pending)?;
    pending.reverse();
    while let Some((block, height, found_at)) = pending.pop() {
        let page = read_child(walk, block, height, found_at, inode, leaf);
        let below = walk.note(page)?.unwrap_or_default();
        pending.extend(below.into_iter().rev());
    }
    Ok(())
}

/// A page to be read: its block, its height below the root, and where it is named.
type Pending = (u64, u32, u64);

fn read_child(
    walk: &mut Walk<'_>,
    block: u64,
    height: u32,
    found_at: u64,
    inode: Option<u64>,
    leaf: &mut dyn FnMut(&mut Walk<'_>, Mapped, u64) -> Result<(), LayoutError>,
) -> Result<Vec<Pending>, LayoutError> {
    let bytes = walk.page(block, found_at)?;
    let offset = block * super::PAGE_BYTES;
    walk.builder.add_extent(crate::Extent {
        start: offset,
        bytes: super::PAGE_BYTES,
        class: Class::ExtentMap,
        inode,
        file_offset: None,
    });
    let mut below = Vec::new();
    read_page(walk, &Fields::new(NAME, offset, &bytes), height, leaf, &mut below)?;
    Ok(below)
}

fn read_page(
    walk: &mut Walk<'_>,
    page: &Fields<'_>,
    height: u32,
    leaf: &mut dyn FnMut(&mut Walk<'_>, Mapped, u64) -> Result<(), LayoutError>,
    below: &mut Vec<Pending>,
) -> Result<(), LayoutError> {
    let (flags, end) = (page.u8(16)?, usize::from(page.u16_le(18)?));
    let is_leaf = flags & LEAF != 0;
    if is_leaf == (flags & INNER != 0) || end < FIRST_ENTRY || end > page.bytes().len() / Mapped::BYTES {
        return Err(page.damaged(16, "a page of an extent tree has an invalid header"));
    }
    if height > MAX_HEIGHT {
        return Err(page.damaged(16, "an extent tree has more levels than possible"));
    }
    for index in FIRST_ENTRY..end {
        let mapped = Mapped::read(page, index * Mapped::BYTES)?;
        let found_at = page.device_offset() + (index * Mapped::BYTES) as u64;
        if is_leaf {
            leaf(walk, mapped, found_at)?;
        } else {
            below.push((mapped.blocks.first, height + 1, found_at));
        }
    }
    Ok(())
}
