//! The tree that holds everything.

use std::collections::HashSet;

use super::NAME;
use super::blocks::Blocks;
use super::superblock::Superblock;
use crate::builder::LayoutBuilder;
use crate::fields::Fields;
use crate::layout::Class;
use crate::read_at::LayoutError;

/// `BLKH_SIZE`, `KEY_SIZE`, `DC_SIZE`, `IH_SIZE`.
const BLOCK_HEAD: usize = 24;
const KEY: usize = 16;
const CHILD: usize = 8;
const ITEM_HEAD: usize = 24;

/// `DISK_LEAF_NODE_LEVEL`.
const LEAF: u16 = 1;
/// `MAX_HEIGHT`.
const MAX_HEIGHT: u16 = 5;

/// `BADBLOCK_DIRID` and `BADBLOCK_OBJID` of reiserfsprogs: the item with the blocks not to be used.
const BAD_BLOCKS: (u32, u32) = (1, u32::MAX);

/// `TYPE_…` of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    StatData,
    Indirect,
    Direct,
    DirectoryEntries,
    Other,
}

/// `struct item_head`.
#[derive(Debug)]
struct Item<'a> {
    directory: u32,
    object: u32,
    kind: Kind,
    /// `k_offset`: where it begins in its object, counted from 1.
    offset: u64,
    body: Fields<'a>,
}

/// What could not be read or did not make sense.
#[derive(Default)]
struct Damage {
    nodes: u64,
    first: Option<LayoutError>,
}

impl Damage {
    fn note(&mut self, error: LayoutError) {
        self.nodes += 1;
        self.first.get_or_insert(error);
    }
}

/// Gives the builder every node and what the items of the leaves point to. What cannot be read is left out, with a
/// remark.
pub(super) fn walk(blocks: &Blocks<'_>, superblock: &Superblock, builder: &mut LayoutBuilder) {
    let mut damage = Damage::default();
    let mut seen = HashSet::new();
    // A child's level is one less than its parent's, so no path is longer than the tree is high.
    let mut pending: Vec<(u64, Option<u16>)> = vec![(superblock.root, None)];
    while let Some((block, level)) = pending.pop() {
        if !seen.insert(block) {
            continue;
        }
        if let Err(error) = node(blocks, superblock, block, level, builder, &mut pending) {
            damage.note(error);
        }
    }
    if let Some(first) = damage.first {
        builder.remark(format!("{} nodes of the tree could not be read: {first}", damage.nodes));
    }
}

fn node(
    blocks: &Blocks<'_>,
    superblock: &Superblock,
    block: u64,
    expected: Option<u16>,
    builder: &mut LayoutBuilder,
    pending: &mut Vec<(u64, Option<u16>)>,
) -> Result<(), LayoutError> {
    let bytes = blocks.read(block)?;
    let fields = Fields::new(NAME, blocks.offset(block), &bytes);
    let level = fields.u16_le(0)?;
    let count = usize::from(fields.u16_le(2)?);
    if expected.is_some_and(|expected| expected != level) || !(LEAF..=MAX_HEIGHT).contains(&level) {
        return Err(fields.damaged(0, format!("a node of the tree has the level {level}")));
    }
    if level > LEAF {
        let children = BLOCK_HEAD + count * KEY;
        for child in 0..=count {
            let child = fields.u32_le(children + child * CHILD)?;
            pending.push((child.into(), Some(level - 1)));
        }
        builder.add(Class::MixedMetadata, blocks.offset(block), superblock.block_bytes);
        return Ok(());
    }
    let items: Vec<Item<'_>> = (0..count).map(|at| item(&fields, at)).collect::<Result<_, _>>()?;
    builder.add(leaf_class(&items), blocks.offset(block), superblock.block_bytes);
    for item in items.iter().filter(|item| item.kind == Kind::Indirect) {
        add_pointers(item, superblock, builder)?;
    }
    Ok(())
}

fn leaf_class(items: &[Item<'_>]) -> Class {
    let all = |kind| items.iter().all(|item| item.kind == kind);
    match items.first().map(|item| item.kind) {
        Some(Kind::StatData) if all(Kind::StatData) => Class::Inode,
        Some(Kind::DirectoryEntries) if all(Kind::DirectoryEntries) => Class::Directory,
        Some(Kind::Indirect) if all(Kind::Indirect) => Class::ExtentMap,
        _ => Class::MixedMetadata,
    }
}

fn item<'a>(leaf: &Fields<'a>, at: usize) -> Result<Item<'a>, LayoutError> {
    let head = leaf.slice(BLOCK_HEAD + at * ITEM_HEAD, ITEM_HEAD)?;
    let body = leaf.slice(head.u16_le(20)?.into(), head.u16_le(18)?.into())?;
    // The upper bits of the version are flags of `reiserfsck`.
    let old_key = head.u16_le(22)? & 0xfff == 0;
    let (kind, offset) = if old_key {
        // `uniqueness2type`
        let kind = match head.u32_le(12)? {
            0 => Kind::StatData,
            0xffff_fffe => Kind::Indirect,
            0xffff_ffff => Kind::Direct,
            500 => Kind::DirectoryEntries,
            _ => Kind::Other,
        };
        (kind, head.u32_le(8)?.into())
    } else {
        // `offset_v2_k_type`: the upper 4 bits.
        let both = head.u64_le(8)?;
        let kind = match both >> 60 {
            0 => Kind::StatData,
            1 => Kind::Indirect,
            2 => Kind::Direct,
            3 => Kind::DirectoryEntries,
            _ => Kind::Other,
        };
        (kind, both & (u64::MAX >> 4))
    };
    Ok(Item { directory: head.u32_le(0)?, object: head.u32_le(4)?, kind, offset, body })
}

/// The blocks that an indirect item points to; 0 is a hole.
fn add_pointers(
    item: &Item<'_>,
    superblock: &Superblock,
    builder: &mut LayoutBuilder,
) -> Result<(), LayoutError> {
    let first = item.offset.checked_sub(1);
    let first = first.ok_or_else(|| item.body.damaged(0, "an item begins before its file"))?;
    let bytes = superblock.block_bytes;
    for (at, pointer) in item.body.bytes().chunks_exact(4).enumerate() {
        let block = u64::from(u32::from_le_bytes(pointer.try_into().expect("a chunk of 4 bytes")));
        if block == 0 {
            continue;
        }
        let start = block.saturating_mul(bytes);
        if (item.directory, item.object) == BAD_BLOCKS {
            builder.add(Class::OtherMetadata, start, bytes);
        } else {
            let offset = first.saturating_add(at as u64 * bytes);
            builder.add_of_inode(Class::FileData, start, bytes, item.object.into(), Some(offset));
        }
    }
    Ok(())
}
