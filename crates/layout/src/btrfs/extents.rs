//! The extent tree: what is in use, and by which tree or file.

use super::tree::Key;
use crate::fields::Fields;
use crate::layout::Class;
use crate::read_at::LayoutError;

/// `BTRFS_EXTENT_ITEM_KEY`, `BTRFS_METADATA_ITEM_KEY`.
const EXTENT_ITEM: u8 = 168;
const METADATA_ITEM: u8 = 169;

/// `BTRFS_EXTENT_OWNER_REF_KEY`, `BTRFS_TREE_BLOCK_REF_KEY`, `BTRFS_EXTENT_DATA_REF_KEY`.
const OWNER_REFERENCE: u8 = 172;
const TREE_REFERENCE: u8 = 176;
const DATA_REFERENCE: u8 = 178;

/// `BTRFS_EXTENT_FLAG_TREE_BLOCK`.
const TREE_BLOCK: u64 = 1 << 1;

/// `sizeof(struct btrfs_extent_item)`, `btrfs_tree_block_info`.
const ITEM_BYTES: usize = 24;
const TREE_BLOCK_INFO_BYTES: usize = 18;

/// An extent that is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Allocated {
    /// Its address.
    pub(super) start: u64,
    /// Its length.
    pub(super) bytes: u64,
    /// Whether it is a node of a tree.
    pub(super) is_node: bool,
    /// The tree that refers to it, if its item says so.
    pub(super) tree: Option<u64>,
    /// The inode of that tree that refers to it, if its item says so.
    pub(super) inode: Option<u64>,
}

impl Allocated {
    fn end(&self) -> u64 {
        self.start.saturating_add(self.bytes)
    }
}

/// All extents in use, by address.
#[derive(Debug, Default)]
pub(super) struct Extents {
    all: Vec<Allocated>,
    /// Whether every part of the extent tree could be read.
    pub(super) complete: bool,
}

impl Extents {
    /// An item of the extent tree; those that are no extents are left alone. Items come in the order of their keys.
    pub(super) fn add(&mut self, key: Key, data: &Fields<'_>, node_bytes: u64) -> Result<(), LayoutError> {
        if key.kind != EXTENT_ITEM && key.kind != METADATA_ITEM {
            return Ok(());
        }
        let is_node = key.kind == METADATA_ITEM || data.u64_le(16)? & TREE_BLOCK != 0;
        let bytes = if is_node { node_bytes } else { key.offset };
        let (tree, inode) = reference(key, data, is_node)?;
        let extent = Allocated { start: key.object, bytes, is_node, tree, inode };
        if self.all.last().is_some_and(|last| last.end() > extent.start) {
            return Err(data.damaged(0, "two extents of the extent tree overlap"));
        }
        self.all.push(extent);
        Ok(())
    }

    /// All of them.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Allocated> {
        self.all.iter()
    }

    /// Whether a node of a tree is at that address. Yes too if the extent tree is not known completely.
    pub(super) fn has_node(&self, address: u64) -> bool {
        !self.complete
            || self.covering(address).is_some_and(|extent| extent.is_node && extent.start == address)
    }

    /// How much of a range is in one extent of data. All, if the extent tree is not known completely.
    pub(super) fn data_bytes(&self, address: u64, bytes: u64) -> u64 {
        match self.covering(address) {
            Some(extent) if !extent.is_node => bytes.min(extent.end() - address),
            _ if self.complete => 0,
            _ => bytes,
        }
    }

    fn covering(&self, address: u64) -> Option<&Allocated> {
        let before = self.all.partition_point(|extent| extent.start <= address);
        self.all[..before].last().filter(|extent| address < extent.end())
    }
}

/// Which tree, and which of its inodes, the first reference in an item names. Extents that whole leaves share say
/// neither.
fn reference(key: Key, data: &Fields<'_>, is_node: bool) -> Result<(Option<u64>, Option<u64>), LayoutError> {
    let mut at = ITEM_BYTES;
    if is_node && key.kind == EXTENT_ITEM {
        at += TREE_BLOCK_INFO_BYTES;
    }
    if data.bytes().get(at) == Some(&OWNER_REFERENCE) {
        at += 9;
    }
    match data.bytes().get(at) {
        Some(&TREE_REFERENCE) => Ok((Some(data.u64_le(at + 1)?), None)),
        Some(&DATA_REFERENCE) => Ok((Some(data.u64_le(at + 1)?), Some(data.u64_le(at + 9)?))),
        _ => Ok((None, None)),
    }
}

/// What the nodes of a tree are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// All its nodes have one class.
    One(Class),
    /// Files: inodes, directory entries and extents together.
    Files,
}

/// What a tree is for, by its number (`BTRFS_…_TREE_OBJECTID`).
pub(super) fn purpose(tree: u64) -> Purpose {
    /// `BTRFS_FIRST_FREE_OBJECTID` to `BTRFS_LAST_FREE_OBJECTID`.
    const SUBVOLUMES: std::ops::RangeInclusive<u64> = 256..=256_u64.wrapping_neg();
    const DATA_RELOCATION: u64 = 9_u64.wrapping_neg();
    const RELOCATION: u64 = 8_u64.wrapping_neg();
    const LOG_FIXUP: u64 = 7_u64.wrapping_neg();
    match tree {
        // Roots, chunks, devices.
        1 | 3 | 4 => Purpose::One(Class::Superblock),
        // Extents, free space, block groups.
        2 | 10 | 11 => Purpose::One(Class::AllocationMap),
        LOG | LOG_FIXUP => Purpose::One(Class::Journal),
        TOP | DATA_RELOCATION | RELOCATION => Purpose::Files,
        tree if SUBVOLUMES.contains(&tree) => Purpose::Files,
        _ => Purpose::One(Class::OtherMetadata),
    }
}

/// `BTRFS_ROOT_TREE_OBJECTID`, `BTRFS_EXTENT_TREE_OBJECTID`, `BTRFS_FS_TREE_OBJECTID`, `BTRFS_TREE_LOG_OBJECTID`.
pub(super) const ROOTS: u64 = 1;
pub(super) const EXTENTS: u64 = 2;
pub(super) const TOP: u64 = 5;
pub(super) const LOG: u64 = 6_u64.wrapping_neg();

/// Whether an inode number is one of a file: those above hold free space caches of old kernels.
pub(super) fn is_file(inode: u64) -> bool {
    inode <= 256_u64.wrapping_neg()
}
