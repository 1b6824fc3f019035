//! Reads everything, in the order in which one thing leads to the next.

use super::NAME;
use super::chunks::{self, CHUNK_ITEM, Chunks};
use super::extents::{self, Extents, Purpose};
use super::files::{EXTENT_DATA, FileExtent, Replaced, node_class};
use super::superblock::{self, Superblock};
use super::tree::{Damage, Node, Root, Trees};
use crate::builder::LayoutBuilder;
use crate::layout::{Class, Extent, Layout};
use crate::read_at::{LayoutError, ReadAt};

/// `BTRFS_ROOT_ITEM_KEY`.
const ROOT_ITEM: u8 = 132;

/// A tree and its number; of a log tree the number of the tree that it is for.
type NumberedRoot = (u64, Root);

pub(super) fn read(device: &dyn ReadAt) -> Result<Layout, LayoutError> {
    let superblock = Superblock::newest(device)?;
    let mut reader = Reader::new(device, &superblock)?;
    reader.chunk_tree(superblock.chunks)?;
    let roots = reader.root_tree(superblock.roots, Class::Superblock)?;
    reader.extent_tree(&roots)?;
    if let Some(logs) = superblock.logs {
        reader.log_trees(logs);
    }
    for (tree, root) in roots {
        match extents::purpose(tree) {
            _ if tree == extents::EXTENTS => {}
            Purpose::One(class) => reader.plain_tree(root, class),
            Purpose::Files => reader.file_tree(tree, root),
        }
    }
    reader.unvisited();
    Ok(reader.finish(&superblock))
}

struct Reader<'a> {
    node_bytes: u64,
    sector_bytes: u64,
    trees: Trees<'a>,
    builder: LayoutBuilder,
    extents: Extents,
    replaced: Replaced,
    /// Trees that have extents of files.
    subvolumes: Vec<u64>,
    /// References to what is not in use.
    dangling: u64,
}

impl<'a> Reader<'a> {
    fn new(device: &'a dyn ReadAt, superblock: &Superblock) -> Result<Self, LayoutError> {
        let size = device.bytes().map_err(|source| LayoutError::Io { offset: 0, source })?;
        let total = superblock.device_bytes.min(size);
        let Superblock { node_bytes, sector_bytes, .. } = *superblock;
        let mut builder = LayoutBuilder::new(NAME, sector_bytes, total).sharing();
        for place in superblock::places(total) {
            builder.add(Class::Superblock, place, superblock::BYTES);
        }
        Ok(Self {
            node_bytes,
            sector_bytes,
            trees: Trees::new(device, superblock, chunks::of_superblock(superblock)?),
            builder,
            extents: Extents::default(),
            replaced: Replaced::default(),
            subvolumes: Vec::new(),
            dangling: 0,
        })
    }

    /// The error that kept the root of a tree without which nothing can be known from being read.
    fn essential(&mut self, visited: bool) -> Result<(), LayoutError> {
        match self.trees.damaged_nodes.first.take() {
            Some(error) if !visited => Err(error),
            first => {
                self.trees.damaged_nodes.first = first;
                Ok(())
            }
        }
    }

    fn chunk_tree(&mut self, root: Root) -> Result<(), LayoutError> {
        let (builder, node_bytes) = (&mut self.builder, self.node_bytes);
        let mut visited = false;
        self.trees.walk(root, &|_| true, &mut |chunks, node| {
            visited = true;
            add(builder, chunks, Class::Superblock, node.address, node_bytes);
            for item in node.items() {
                let (key, data) = item?;
                if key.kind == CHUNK_ITEM {
                    chunks.add(key.offset, &data)?;
                }
            }
            Ok(())
        });
        self.essential(visited)
    }

    /// The tree of roots, or that of the roots of log trees.
    fn root_tree(&mut self, root: Root, class: Class) -> Result<Vec<NumberedRoot>, LayoutError> {
        let (builder, node_bytes) = (&mut self.builder, self.node_bytes);
        let mut roots = Vec::new();
        let mut visited = false;
        self.trees.walk(root, &|_| true, &mut |chunks, node| {
            visited = true;
            add(builder, chunks, class, node.address, node_bytes);
            roots_in(node, &mut roots)
        });
        self.essential(visited)?;
        Ok(roots)
    }

    fn extent_tree(&mut self, roots: &[NumberedRoot]) -> Result<(), LayoutError> {
        let root = roots.iter().find(|(tree, _)| *tree == extents::EXTENTS).map(|(_, root)| *root);
        let reason = "the extent tree is missing".to_owned();
        let root =
            root.ok_or(LayoutError::Damaged { file_system: NAME, offset: superblock::PRIMARY, reason })?;
        let damaged_before = self.trees.damaged_nodes.count + self.trees.damaged_items.count;
        let (builder, extents, node_bytes) = (&mut self.builder, &mut self.extents, self.node_bytes);
        let mut visited = false;
        self.trees.walk(root, &|_| true, &mut |chunks, node| {
            visited = true;
            add(builder, chunks, Class::AllocationMap, node.address, node_bytes);
            for item in node.items() {
                let (key, data) = item?;
                extents.add(key, &data, node_bytes)?;
            }
            Ok(())
        });
        self.essential(visited)?;
        self.extents.complete =
            self.trees.damaged_nodes.count + self.trees.damaged_items.count == damaged_before;
        Ok(())
    }

    /// A tree all of whose nodes have one class.
    fn plain_tree(&mut self, root: Root, class: Class) {
        let (builder, extents, node_bytes) = (&mut self.builder, &self.extents, self.node_bytes);
        self.trees.walk(root, &|address| extents.has_node(address), &mut |chunks, node| {
            add(builder, chunks, class, node.address, node_bytes);
            Ok(())
        });
    }

    /// What fsync wrote since the last commit. Neither the nodes nor the data are in the extent tree yet.
    fn log_trees(&mut self, root: Root) {
        let Ok(logs) = self.root_tree(root, Class::Journal) else {
            self.builder
                .remark("the log tree could not be read: data written by the last fsync are not known");
            return;
        };
        let (builder, replaced, node_bytes) = (&mut self.builder, &mut self.replaced, self.node_bytes);
        let sector_bytes = self.sector_bytes;
        for (tree, root) in logs {
            self.trees.walk(root, &|_| true, &mut |chunks, node| {
                add(builder, chunks, Class::Journal, node.address, node_bytes);
                file_extents(node, sector_bytes, |extent| {
                    replaced.add(tree, &extent);
                    let Some(address) = extent.address.filter(|&address| chunks.contains(address)) else {
                        return;
                    };
                    let offset = Some(extent.file_offset).filter(|_| !extent.encoded);
                    add_file_data(builder, chunks, address, extent.bytes, Some(extent.inode), offset);
                })
            });
        }
    }

    fn file_tree(&mut self, tree: u64, root: Root) {
        let (builder, extents, replaced) = (&mut self.builder, &self.extents, &self.replaced);
        let (node_bytes, sector_bytes) = (self.node_bytes, self.sector_bytes);
        let (dangling, mut has_files) = (&mut self.dangling, false);
        // Trees of the kernel's own have inodes too, of files that it moves.
        let is_subvolume = tree == extents::TOP || (256..=256_u64.wrapping_neg()).contains(&tree);
        self.trees.walk(root, &|address| extents.has_node(address), &mut |chunks, node| {
            add(builder, chunks, node_class(node), node.address, node_bytes);
            file_extents(node, sector_bytes, |extent| {
                let Some(address) = extent.address.filter(|_| is_subvolume && extents::is_file(extent.inode))
                else {
                    return;
                };
                has_files = true;
                let usable = extents.data_bytes(address, extent.bytes);
                *dangling += extent.bytes - usable;
                let inode = Some(extent.inode);
                if extent.encoded {
                    add_file_data(builder, chunks, address, usable, inode, None);
                    return;
                }
                for (skipped, bytes, by_log) in replaced.parts(tree, &extent) {
                    let offset = extent.file_offset.checked_add(skipped).filter(|_| !by_log);
                    let bytes = bytes.min(usable.saturating_sub(skipped));
                    add_file_data(builder, chunks, address.saturating_add(skipped), bytes, inode, offset);
                }
            })
        });
        if has_files {
            self.subvolumes.push(tree);
        }
    }

    /// What is in use but was not come across: parts of extents that no file refers to any more, caches of free space,
    /// trees that are being deleted.
    fn unvisited(&mut self) {
        for extent in self.extents.iter() {
            let chunks = &mut self.trees.chunks;
            if !extent.is_node {
                let caches = extent.tree == Some(extents::ROOTS);
                let inode = extent.inode.filter(|_| !caches);
                if caches || inode.is_some_and(|inode| !extents::is_file(inode)) {
                    add(&mut self.builder, chunks, Class::AllocationMap, extent.start, extent.bytes);
                } else {
                    add_file_data(&mut self.builder, chunks, extent.start, extent.bytes, inode, None);
                }
            } else if !self.trees.has_visited(extent.start) {
                let class = match extent.tree.map(extents::purpose) {
                    Some(Purpose::One(class)) => class,
                    Some(Purpose::Files) | None => Class::MixedMetadata,
                };
                add(&mut self.builder, &mut self.trees.chunks, class, extent.start, extent.bytes);
            }
        }
    }

    fn finish(mut self, superblock: &Superblock) -> Layout {
        let builder = &mut self.builder;
        if superblock.devices > 1 {
            builder.remark(format!(
                "the file system has {} devices: this layout is that of this device; nodes on others could \
                 not be read",
                superblock.devices
            ));
        }
        if self.trees.chunks.parity {
            builder.remark("blocks with parity (RAID5, RAID6) are shown as free");
        }
        if self.trees.chunks.exhausted() {
            builder.remark("too many extents are spread over several devices: not all are shown");
        }
        if self.subvolumes.len() > 1 {
            let trees: Vec<String> = self.subvolumes.iter().take(8).map(u64::to_string).collect();
            let more = if self.subvolumes.len() > trees.len() { ", …" } else { "" };
            builder.remark(format!(
                "there are several subvolumes or snapshots ({}{more}), and inode numbers are unique in one only",
                trees.join(", ")
            ));
        }
        if self.dangling > 0 {
            builder.remark(format!(
                "files refer to {} bytes that are not in use; check the file system with btrfs check",
                self.dangling
            ));
        }
        remark_damage(builder, &self.trees.damaged_nodes, "nodes of trees could not be read");
        remark_damage(builder, &self.trees.damaged_items, "leaves have invalid items");
        self.builder.finish()
    }
}

fn remark_damage(builder: &mut LayoutBuilder, damage: &Damage, what: &str) {
    if let Some(first) = &damage.first {
        builder.remark(format!("{} {what}: {first}", damage.count));
    }
}

/// The roots in a leaf of the tree of roots, in the order of their numbers.
fn roots_in(node: &Node<'_>, roots: &mut Vec<NumberedRoot>) -> Result<(), LayoutError> {
    for item in node.items() {
        let (key, data) = item?;
        if key.kind == ROOT_ITEM {
            let root =
                Root { address: data.u64_le(176)?, level: data.u8(238)?, generation: data.u64_le(160)? };
            // A log's item carries the number of its tree where others have that of a transaction.
            let number = if key.object == extents::LOG { key.offset } else { key.object };
            if root.address != 0 {
                roots.push((number, root));
            }
        }
    }
    Ok(())
}

/// Gives the extents of files of a leaf.
fn file_extents(
    node: &Node<'_>,
    sector_bytes: u64,
    mut give: impl FnMut(FileExtent),
) -> Result<(), LayoutError> {
    for item in node.items() {
        let (key, data) = item?;
        if key.kind == EXTENT_DATA {
            give(FileExtent::parse(key, &data, sector_bytes)?);
        }
    }
    Ok(())
}

/// Adds every copy of a range that belongs to no inode.
fn add(builder: &mut LayoutBuilder, chunks: &mut Chunks, class: Class, address: u64, bytes: u64) {
    for place in chunks.places(address, bytes) {
        builder.add(class, place.start, place.bytes);
    }
}

/// Adds every copy of file data.
fn add_file_data(
    builder: &mut LayoutBuilder,
    chunks: &mut Chunks,
    address: u64,
    bytes: u64,
    inode: Option<u64>,
    file_offset: Option<u64>,
) {
    for place in chunks.places(address, bytes) {
        let file_offset = file_offset.map(|offset| offset.saturating_add(place.skipped));
        let class = Class::FileData;
        builder.add_extent(Extent { start: place.start, bytes: place.bytes, class, inode, file_offset });
    }
}
