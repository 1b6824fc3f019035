//! The trees of an allocation group. Their pointers are 32-bit block numbers within the group.

use super::{TreeBlock, Walk, damaged};
use crate::fields::Fields;
use crate::layout::Class;
use crate::read_at::LayoutError;

/// No tree is higher. The limit of most is `XFS_BTREE_MAXLEVELS`, 9; that of reverse maps on file systems with
/// reflinks is computed by the kernel, but 2³² blocks of two entries each are not higher either.
const MAX_LEVELS: u32 = 32;

/// One of the trees.
pub(super) struct ShortTree {
    /// What its blocks begin with in version 4.
    pub(super) magic: &'static [u8; 4],
    /// What its blocks begin with in version 5.
    pub(super) magic_checksums: &'static [u8; 4],
    /// Bytes of the key of each entry of an inner block.
    pub(super) key_bytes: usize,
    /// What its blocks are for.
    pub(super) class: Class,
}

impl ShortTree {
    /// Classes every block of the tree; returns the blocks of its lowest level, in order.
    ///
    /// # Errors
    /// When the root does not fit; damaged blocks below are noted.
    pub(super) fn walk(
        &self,
        walk: &mut Walk<'_>,
        ag: u32,
        root: u32,
        levels: u32,
    ) -> Result<Vec<u32>, LayoutError> {
        if !(1..=MAX_LEVELS).contains(&levels) {
            return Err(damaged(walk.geometry.ag_byte(ag, 0), format!("a tree has {levels} levels")));
        }
        let mut leaves = Vec::new();
        let mut pending = vec![(root, levels - 1)];
        while let Some((block, level)) = pending.pop() {
            let children = self.node(walk, ag, block, level);
            let Some(children) = walk.note(children)? else { continue };
            if level == 0 {
                leaves.push(block);
            }
            pending.extend(children.into_iter().rev().map(|child| (child, level.saturating_sub(1))));
        }
        Ok(leaves)
    }

    /// Classes a block of the tree; returns the blocks below it.
    fn node(&self, walk: &mut Walk<'_>, ag: u32, block: u32, level: u32) -> Result<Vec<u32>, LayoutError> {
        let geometry = walk.geometry;
        let outside = || {
            damaged(geometry.ag_byte(ag, 0), format!("a tree continues in block {block}, outside its group"))
        };
        let offset = geometry.in_group(ag, block, 1).ok_or_else(outside)?;
        let bytes = walk.tree_block(offset)?;
        let node = Fields::new(super::NAME, offset, &bytes);
        let magic = if geometry.checksums { self.magic_checksums } else { self.magic };
        let head = TreeBlock::read(&node, magic, level)?;
        walk.builder.add(self.class, offset, geometry.block_bytes);
        if level == 0 {
            return Ok(Vec::new());
        }
        // All keys come first, with room for as many as the block holds, then the pointers.
        let header = geometry.short_tree_header();
        let room = (bytes.len() - header) / (self.key_bytes + 4);
        let pointers = head.entries(&node, header + room * self.key_bytes, 4)?;
        pointers.map(|pointer| pointer.u32_be(0)).collect()
    }
}
