//! Where the blocks of a file are ("bmap"): in its inode, or in a tree (`struct nilfs_btree_node`) whose root is there.

use super::{NAME, Walk};
use crate::fields::{Fields, read_bytes};
use crate::layout::Class;
use crate::read_at::LayoutError;

/// Bytes of `i_bmap`: a header, then places or the tree's root.
pub(super) const BYTES: usize = 56;
/// Bit of its first byte: it is a root (`NILFS_BMAP_LARGE` in `bmap.h`).
const IS_TREE: u8 = 0x01;
/// Places in an inode: `NILFS_DIRECT_NBLOCKS`.
const PLACES: u64 = 6;
const HEADER_BYTES: usize = 8;
/// `NILFS_BTREE_NODE_EXTRA_PAD_SIZE`: behind the header of a node that is not the root.
const PADDING: usize = 8;
/// `NILFS_BTREE_LEVEL_MAX`, which no level reaches.
const LEVELS: u8 = 14;

/// What the places in a map are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Places {
    /// Blocks of the device: those of the DAT file alone.
    Real,
    /// Numbers of entries of the DAT file, which say the block.
    Virtual,
}

/// A map, to be gone through.
pub(super) struct BlockMap<'a> {
    /// `i_bmap`.
    pub(super) root: Fields<'a>,
    pub(super) places: Places,
    /// Whose it is, unless that is a file of the file system itself.
    pub(super) inode: Option<u64>,
}

/// A node to be read.
struct Pending {
    place: u64,
    level: u8,
    /// The byte of the device at which it is named.
    found_at: u64,
}

impl BlockMap<'_> {
    /// Calls `leaf` for each block of the file, with its position in blocks and its place on the device. Classes the nodes of
    /// the tree.
    ///
    /// # Errors
    /// When the root does not fit; damaged nodes below are noted.
    pub(super) fn walk(
        &self,
        walk: &mut Walk<'_>,
        leaf: &mut dyn FnMut(&mut Walk<'_>, u64, u64),
    ) -> Result<(), LayoutError> {
        if self.root.u8(0)? & IS_TREE == 0 {
            for position in 0..PLACES {
                let at = HEADER_BYTES + 8 * position as usize;
                self.give(walk, &self.root, at, position, leaf)?;
            }
            return Ok(());
        }
        let level = self.root.u8(1)?;
        if !(1..LEVELS).contains(&level) {
            return Err(self.root.damaged(1, "a tree has an impossible number of levels"));
        }
        let mut pending = Vec::new();
        self.read_node(walk, &self.root, level, HEADER_BYTES, leaf, &mut pending)?;
        while let Some(node) = pending.pop() {
            let read = self.read_below(walk, &node, leaf, &mut pending);
            walk.note(read)?;
        }
        Ok(())
    }

    fn read_below(
        &self,
        walk: &mut Walk<'_>,
        node: &Pending,
        leaf: &mut dyn FnMut(&mut Walk<'_>, u64, u64),
        pending: &mut Vec<Pending>,
    ) -> Result<(), LayoutError> {
        let block = walk.place(node.place, self.places, node.found_at)?;
        // No node has two parents, and so no walk is endless.
        if !walk.nodes.insert(block) {
            return Err(super::damaged(node.found_at, format!("the node at block {block} is used twice")));
        }
        let (offset, length) = (walk.superblock.offset_of(block), walk.superblock.block_bytes());
        let bytes = read_bytes(walk.device, offset, length)?;
        let fields = Fields::new(NAME, offset, &bytes);
        if fields.u8(1)? != node.level {
            return Err(fields.damaged(1, format!("the node is not of level {}", node.level)));
        }
        walk.add(Class::ExtentMap, block, self.inode, None);
        self.read_node(walk, &fields, node.level, HEADER_BYTES + PADDING, leaf, pending)
    }

    /// Goes through a node: as many keys as have room in it, then as many places.
    fn read_node(
        &self,
        walk: &mut Walk<'_>,
        node: &Fields<'_>,
        level: u8,
        keys_at: usize,
        leaf: &mut dyn FnMut(&mut Walk<'_>, u64, u64),
        pending: &mut Vec<Pending>,
    ) -> Result<(), LayoutError> {
        let capacity = (node.bytes().len() - keys_at) / 16;
        let count = usize::from(node.u16_le(2)?);
        if count > capacity {
            return Err(node.damaged(2, format!("a node of {capacity} places has {count}")));
        }
        let before = pending.len();
        for index in 0..count {
            let at = keys_at + 8 * (capacity + index);
            if level > 1 {
                let found_at = node.device_offset() + at as u64;
                pending.push(Pending { place: node.u64_le(at)?, level: level - 1, found_at });
            } else {
                self.give(walk, node, at, node.u64_le(keys_at + 8 * index)?, leaf)?;
            }
        }
        pending[before..].reverse();
        Ok(())
    }

    /// Gives the block that is named at `at`, unless it is a hole.
    fn give(
        &self,
        walk: &mut Walk<'_>,
        node: &Fields<'_>,
        at: usize,
        position: u64,
        leaf: &mut dyn FnMut(&mut Walk<'_>, u64, u64),
    ) -> Result<(), LayoutError> {
        let place = node.u64_le(at)?;
        if place == 0 {
            return Ok(());
        }
        let found_at = node.device_offset() + at as u64;
        let block = if position > u64::MAX >> walk.superblock.block_bits {
            Err(super::damaged(found_at, format!("a file has no position of {position} blocks")))
        } else {
            walk.place(place, self.places, found_at)
        };
        if let Some(block) = walk.note(block)? {
            leaf(walk, position, block);
        }
        Ok(())
    }
}
