//! Nodes and leaves of trees.

use std::collections::HashSet;

use super::NAME;
use super::chunks::Chunks;
use super::superblock::Superblock;
use crate::fields::{Fields, read_bytes};
use crate::read_at::{LayoutError, ReadAt};

/// `sizeof(struct btrfs_header)`, `btrfs_item`, `btrfs_key_ptr`.
const HEADER_BYTES: usize = 101;
const ITEM_BYTES: usize = 25;
const POINTER_BYTES: usize = 33;

/// `BTRFS_MAX_LEVEL` - 1.
const MAX_LEVEL: u8 = 7;

/// Where a tree begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Root {
    /// Address of its root node.
    pub(super) address: u64,
    /// Level of its root node; leaves have 0.
    pub(super) level: u8,
    /// Transaction that wrote it.
    pub(super) generation: u64,
}

/// `struct btrfs_key`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key {
    pub(super) object: u64,
    pub(super) kind: u8,
    pub(super) offset: u64,
}

/// A node or leaf.
#[derive(Debug)]
pub(super) struct Node<'a> {
    /// Its address.
    pub(super) address: u64,
    /// 0: a leaf.
    pub(super) level: u8,
    count: usize,
    fields: Fields<'a>,
}

impl<'a> Node<'a> {
    /// The items of a leaf; of others none.
    pub(super) fn items(&self) -> impl Iterator<Item = Result<(Key, Fields<'a>), LayoutError>> + use<'_, 'a> {
        let count = if self.level == 0 { self.count } else { 0 };
        (0..count).map(|index| {
            let at = HEADER_BYTES + index * ITEM_BYTES;
            let offset = self.fields.u32_le(at + 17)? as usize;
            let data = self
                .fields
                .slice(HEADER_BYTES.saturating_add(offset), self.fields.u32_le(at + 21)? as usize)?;
            Ok((self.key(at)?, data))
        })
    }

    fn key(&self, at: usize) -> Result<Key, LayoutError> {
        Ok(Key {
            object: self.fields.u64_le(at)?,
            kind: self.fields.u8(at + 8)?,
            offset: self.fields.u64_le(at + 9)?,
        })
    }

    fn children(&self) -> Result<Vec<Root>, LayoutError> {
        let count = if self.level == 0 { 0 } else { self.count };
        let child = |index| {
            let at = HEADER_BYTES + index * POINTER_BYTES + 17;
            let address = self.fields.u64_le(at)?;
            Ok(Root { address, level: self.level - 1, generation: self.fields.u64_le(at + 8)? })
        };
        (0..count).map(child).collect()
    }
}

/// What could not be read.
#[derive(Debug, Default)]
pub(super) struct Damage {
    pub(super) count: u64,
    pub(super) first: Option<LayoutError>,
}

impl Damage {
    pub(super) fn note(&mut self, error: LayoutError) {
        self.count += 1;
        self.first.get_or_insert(error);
    }
}

/// Reads trees. A block that several trees share (snapshots) is visited once.
pub(super) struct Trees<'a> {
    device: &'a dyn ReadAt,
    node_bytes: u64,
    devices: u64,
    /// Where addresses are.
    pub(super) chunks: Chunks,
    visited: HashSet<u64>,
    /// Nodes that could not be read.
    pub(super) damaged_nodes: Damage,
    /// Items that do not make sense.
    pub(super) damaged_items: Damage,
}

impl<'a> Trees<'a> {
    pub(super) fn new(device: &'a dyn ReadAt, superblock: &Superblock, chunks: Chunks) -> Self {
        Self {
            device,
            node_bytes: superblock.node_bytes,
            devices: superblock.devices,
            chunks,
            visited: HashSet::new(),
            damaged_nodes: Damage::default(),
            damaged_items: Damage::default(),
        }
    }

    /// Whether a block was visited.
    pub(super) fn has_visited(&self, address: u64) -> bool {
        self.visited.contains(&address)
    }

    /// Visits a tree's nodes in the order of their keys, each before what is below it; what is below one for which
    /// `enter` says no is left out with it.
    pub(super) fn walk(
        &mut self,
        root: Root,
        enter: &dyn Fn(u64) -> bool,
        visit: &mut dyn FnMut(&mut Chunks, &Node<'_>) -> Result<(), LayoutError>,
    ) {
        let mut pending = vec![root];
        // A child's level is one less than its parent's, and no block is visited twice: this ends.
        while let Some(next) = pending.pop() {
            if !enter(next.address) || self.visited.contains(&next.address) {
                continue;
            }
            let (offset, bytes) = match self.read(next) {
                Ok(read) => read,
                Err(error) => {
                    self.damaged_nodes.note(error);
                    continue;
                }
            };
            self.visited.insert(next.address);
            let parsed = parse(Fields::new(NAME, offset, &bytes), next);
            let children = parsed.and_then(|node| {
                if let Err(error) = visit(&mut self.chunks, &node) {
                    self.damaged_items.note(error);
                }
                node.children()
            });
            match children {
                Ok(children) => pending.extend(children.into_iter().rev()),
                Err(error) => self.damaged_nodes.note(error),
            }
        }
    }

    /// Reads the first copy of a node that is what it should be.
    fn read(&mut self, root: Root) -> Result<(u64, Vec<u8>), LayoutError> {
        let mut problem = None;
        for place in self.chunks.places(root.address, self.node_bytes) {
            if place.bytes != self.node_bytes {
                continue;
            }
            match read_bytes(self.device, place.start, self.node_bytes as usize) {
                Ok(bytes) => match parse(Fields::new(NAME, place.start, &bytes), root) {
                    Ok(_) => return Ok((place.start, bytes)),
                    Err(error) => problem = Some(error),
                },
                Err(error) => problem = Some(error),
            }
        }
        Err(problem.unwrap_or_else(|| self.nowhere(root.address)))
    }

    /// The error that a node is in no chunk, or on other devices.
    fn nowhere(&self, address: u64) -> LayoutError {
        if self.devices > 1 {
            let feature = "several devices, with parts of its trees on other devices".into();
            return LayoutError::Unsupported { file_system: NAME, feature };
        }
        let reason = "a tree has a node outside all chunks".into();
        LayoutError::Damaged { file_system: NAME, offset: address, reason }
    }
}

/// A node, if it is the one that its parent points to.
fn parse(fields: Fields<'_>, expected: Root) -> Result<Node<'_>, LayoutError> {
    let (address, generation) = (fields.u64_le(48)?, fields.u64_le(80)?);
    let (count, level) = (fields.u32_le(96)? as usize, fields.u8(100)?);
    let size = if level == 0 { ITEM_BYTES } else { POINTER_BYTES };
    if (address, generation, level) != (expected.address, expected.generation, expected.level)
        || level > MAX_LEVEL
        || count > (fields.bytes().len() - HEADER_BYTES) / size
    {
        return Err(fields.damaged(48, "a node does not match its parent"));
    }
    Ok(Node { address, level, count, fields })
}
