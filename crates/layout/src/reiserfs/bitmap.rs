//! The bitmaps, held against what the tree says.

use super::blocks::Blocks;
use super::superblock::Superblock;
use crate::layout::{Class, Extent, Layout};

/// Adds what is in use but part of nothing as [`Class::Unknown`]; remarks on that and on what is part of something
/// but not in use.
pub(super) fn compare(blocks: &Blocks<'_>, superblock: &Superblock, layout: &mut Layout) {
    let mut comparison = Comparison { claimed: &layout.extents, next: 0, unknown: Vec::new(), free: 0 };
    let mut unreadable = 0_u64;
    let block_bytes = superblock.block_bytes;
    let last = layout.total_bytes / block_bytes;
    for number in 0..superblock.bitmap_count() {
        let first = number * superblock.blocks_per_bitmap();
        let Ok(bitmap) = blocks.read(superblock.bitmap_block(number)) else {
            unreadable += 1;
            continue;
        };
        for block in first..(first + superblock.blocks_per_bitmap()).min(last) {
            let bit = (block - first) as usize;
            let used = bitmap[bit / 8] >> (bit % 8) & 1 == 1;
            comparison.block(block * block_bytes, block_bytes, used);
        }
    }
    let Comparison { unknown, free, .. } = comparison;
    let unknown_bytes: u64 = unknown.iter().map(|extent| extent.bytes).sum();
    layout.extents.extend(unknown);
    layout.extents.sort_by_key(|extent| extent.start);
    let mut remark = |remark: String| layout.remarks.push(remark);
    if unknown_bytes > 0 {
        remark(format!(
            "{unknown_bytes} bytes are marked as in use but belong to nothing: they are reserved for open \
             files, or lost; reiserfsck shows which"
        ));
    }
    if free > 0 {
        remark(format!(
            "{free} bytes are in use but marked as free: the file system was in use or is damaged; check it \
             with reiserfsck"
        ));
    }
    if unreadable > 0 {
        remark(format!("{unreadable} bitmaps could not be read"));
    }
}

struct Comparison<'a> {
    /// Sorted, without overlap.
    claimed: &'a [Extent],
    /// The first that is not before the blocks looked at.
    next: usize,
    unknown: Vec<Extent>,
    /// Bytes that are claimed but free.
    free: u64,
}

impl Comparison<'_> {
    /// Blocks come in their order.
    fn block(&mut self, start: u64, bytes: u64, used: bool) {
        while self.claimed.get(self.next).is_some_and(|extent| extent.end() <= start) {
            self.next += 1;
        }
        let claimed = self.claimed.get(self.next).is_some_and(|extent| extent.start <= start);
        match (used, claimed) {
            (true, false) => match self.unknown.last_mut() {
                Some(last) if last.end() == start => last.bytes += bytes,
                _ => {
                    let class = Class::Unknown;
                    self.unknown.push(Extent { start, bytes, class, inode: None, file_offset: None });
                }
            },
            (false, true) => self.free += bytes,
            _ => {}
        }
    }
}
