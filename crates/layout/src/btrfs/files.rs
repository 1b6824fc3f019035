//! Trees of files, and the log trees that go with them.

use std::collections::HashMap;

use super::tree::{Key, Node};
use crate::fields::Fields;
use crate::layout::Class;
use crate::read_at::LayoutError;

/// `BTRFS_EXTENT_DATA_KEY`.
pub(super) const EXTENT_DATA: u8 = 108;

/// A part of a file and where its bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileExtent {
    /// The inode.
    pub(super) inode: u64,
    /// Position in the file.
    pub(super) file_offset: u64,
    /// Length in the file.
    pub(super) file_bytes: u64,
    /// Address; none for a hole and for what lies in the leaf.
    pub(super) address: Option<u64>,
    /// Bytes there.
    pub(super) bytes: u64,
    /// Compressed (or encoded in another way): its bytes are not those of the file.
    pub(super) encoded: bool,
}

impl FileExtent {
    /// A `struct btrfs_file_extent_item`; `sector_bytes` is what one in the leaf stands for.
    pub(super) fn parse(key: Key, data: &Fields<'_>, sector_bytes: u64) -> Result<Self, LayoutError> {
        let mut extent = Self {
            inode: key.object,
            file_offset: key.offset,
            file_bytes: sector_bytes,
            address: None,
            bytes: 0,
            encoded: data.u32_le(16)? & 0xff_ffff != 0 || data.u8(19)? != 0,
        };
        const INLINE: u8 = 0;
        if data.u8(20)? == INLINE {
            return Ok(extent);
        }
        let address = data.u64_le(21)?;
        extent.file_bytes = data.u64_le(45)?;
        if address != 0 && extent.encoded {
            (extent.address, extent.bytes) = (Some(address), data.u64_le(29)?);
        } else if address != 0 {
            let start = address.checked_add(data.u64_le(37)?);
            let start = start.ok_or_else(|| data.damaged(37, "an extent of a file has no start"))?;
            (extent.address, extent.bytes) = (Some(start), extent.file_bytes);
        }
        Ok(extent)
    }
}

/// Which parts of files the log trees replace: (tree, inode) → ranges of the file.
#[derive(Debug, Default)]
pub(super) struct Replaced(HashMap<(u64, u64), Vec<(u64, u64)>>);

impl Replaced {
    /// A part that a log tree says something about. Log items come in the order of their keys.
    pub(super) fn add(&mut self, tree: u64, extent: &FileExtent) {
        let range = (extent.file_offset, extent.file_offset.saturating_add(extent.file_bytes));
        self.0.entry((tree, extent.inode)).or_default().push(range);
    }

    /// The parts of an extent of a file tree: (bytes skipped, length, whether a log tree replaces it).
    pub(super) fn parts(&self, tree: u64, extent: &FileExtent) -> Vec<(u64, u64, bool)> {
        let end = extent.file_offset.saturating_add(extent.file_bytes);
        let ranges = self.0.get(&(tree, extent.inode)).map_or(&[][..], Vec::as_slice);
        let first = ranges.partition_point(|range| range.1 <= extent.file_offset);
        let mut parts = Vec::new();
        let mut position = extent.file_offset;
        for &(from, until) in ranges[first..].iter().take_while(|range| range.0 < end) {
            let (from, until) = (from.clamp(position, end), until.clamp(position, end));
            parts.push((position - extent.file_offset, from - position, false));
            parts.push((from - extent.file_offset, until - from, true));
            position = until;
        }
        parts.push((position - extent.file_offset, end - position, false));
        parts.retain(|part| part.1 > 0);
        parts
    }
}

/// The class of a node of a file tree.
pub(super) fn node_class(node: &Node<'_>) -> Class {
    let mut class = None;
    for item in node.items() {
        let Ok((key, data)) = item else { return Class::MixedMetadata };
        let kind = item_class(key, &data);
        if kind == Class::MixedMetadata || class.is_some_and(|class| class != kind) {
            return Class::MixedMetadata;
        }
        class = Some(kind);
    }
    class.unwrap_or(Class::MixedMetadata)
}

/// What an item of a file tree is; contents of a file in the leaf are what no class is for.
fn item_class(key: Key, data: &Fields<'_>) -> Class {
    match key.kind {
        // INODE_ITEM, INODE_REF, INODE_EXTREF, ORPHAN_ITEM
        1 | 12 | 13 | 48 => Class::Inode,
        // DIR_ITEM, DIR_INDEX
        84 | 96 => Class::Directory,
        EXTENT_DATA if data.u8(20).is_ok_and(|kind| kind != 0) => Class::ExtentMap,
        EXTENT_DATA => Class::MixedMetadata,
        _ => Class::OtherMetadata,
    }
}
