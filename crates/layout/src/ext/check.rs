//! The layout held against the block bitmaps: what is in use must have been found, and the reverse.

use crate::fields::read_bytes;
use crate::layout::{Class, Extent, Layout};
use crate::read_at::{LayoutError, ReadAt};

use super::groups::{Group, for_each_group};
use super::superblock::{Superblock, ro_compat};

/// Makes blocks that are in use for nothing that was found [`Class::Unknown`], and counts those and blocks that were
/// found to be in use but are marked free.
///
/// Not with `bigalloc`, where a bit stands for several blocks that need not all be used, and not for groups whose
/// bitmap was never written.
pub(super) fn check_against_bitmaps(
    device: &dyn ReadAt,
    superblock: &Superblock,
    layout: &mut Layout,
) -> Result<(), LayoutError> {
    if superblock.has_ro_compat(ro_compat::BIGALLOC) {
        return Ok(());
    }
    let mut check = Check { superblock, layout, unknown: Vec::new(), marked_free_bytes: 0 };
    for_each_group(device, superblock, |group| {
        if group.block_bitmap_initialised {
            let bytes = superblock.block_bytes;
            check.group(&group, &read_bytes(device, group.block_bitmap * bytes, bytes as usize)?);
        }
        Ok(())
    })?;
    let Check { unknown, marked_free_bytes, .. } = check;
    remark(layout, &unknown, marked_free_bytes);
    if !unknown.is_empty() {
        layout.extents.extend(unknown);
        layout.extents.sort_unstable_by_key(|extent| extent.start);
    }
    Ok(())
}

struct Check<'a> {
    superblock: &'a Superblock,
    layout: &'a Layout,
    unknown: Vec<Extent>,
    marked_free_bytes: u64,
}

impl Check<'_> {
    fn group(&mut self, group: &Group, bitmap: &[u8]) {
        let block_bytes = self.superblock.block_bytes;
        let start = self.superblock.group_start(group.number);
        let blocks = self.superblock.blocks_per_group.min(self.superblock.blocks - start);
        for piece in self.layout.pieces(start * block_bytes, blocks * block_bytes) {
            let first = piece.start / block_bytes - start;
            let end = (piece.start + piece.bytes) / block_bytes - start;
            for (run_start, run_end, in_use) in Runs::new(bitmap, first, end) {
                let bytes = (run_end - run_start) * block_bytes;
                match (piece.class, in_use) {
                    (Class::Free, true) => self.unknown.push(Extent {
                        start: (start + run_start) * block_bytes,
                        bytes,
                        class: Class::Unknown,
                        inode: None,
                        file_offset: None,
                    }),
                    (Class::Free | Class::Unknown, _) | (_, true) => {}
                    (_, false) => self.marked_free_bytes += bytes,
                }
            }
        }
    }
}

/// Runs of equal bits: (first, after the last, whether set).
struct Runs<'a> {
    bitmap: &'a [u8],
    position: u64,
    end: u64,
}

impl<'a> Runs<'a> {
    fn new(bitmap: &'a [u8], first: u64, end: u64) -> Self {
        Self { bitmap, position: first, end: end.min(bitmap.len() as u64 * 8) }
    }

    /// The bit at `position`, and how many from there on are looked at together: a byte of equal bits at once.
    fn step(&self, position: u64) -> (bool, u64) {
        let byte = self.bitmap[(position / 8) as usize];
        let whole = position.is_multiple_of(8) && position + 8 <= self.end && (byte == 0 || byte == 0xff);
        (byte & (1 << (position % 8)) != 0, if whole { 8 } else { 1 })
    }
}

impl Iterator for Runs<'_> {
    type Item = (u64, u64, bool);

    fn next(&mut self) -> Option<Self::Item> {
        let first = self.position;
        if first >= self.end {
            return None;
        }
        let (set, mut length) = self.step(first);
        while first + length < self.end {
            let (next, step) = self.step(first + length);
            if next != set {
                break;
            }
            length += step;
        }
        self.position = first + length;
        Some((first, self.position, set))
    }
}

fn remark(layout: &mut Layout, unknown: &[Extent], marked_free_bytes: u64) {
    let unknown_bytes: u64 = unknown.iter().map(|extent| extent.bytes).sum();
    if unknown_bytes > 0 {
        layout.remarks.push(format!(
            "{unknown_bytes} bytes are marked as in use, but no structure or file uses them; check the file \
             system with e2fsck"
        ));
    }
    if marked_free_bytes > 0 {
        layout.remarks.push(format!(
            "{marked_free_bytes} bytes are in use, but marked as free; check the file system with e2fsck"
        ));
    }
}
