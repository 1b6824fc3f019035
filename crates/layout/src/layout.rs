//! The result: byte ranges and what they are for.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

/// What a byte range of a device is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[repr(u8)]
pub enum Class {
    /// Contents of regular files.
    FileData = 0,
    /// Contents of the image file of a virtual disk.
    ImageData = 1,
    /// The log of the file system.
    Journal = 2,
    /// Inodes and the maps that find them.
    Inode = 3,
    /// Contents of directories.
    Directory = 4,
    /// Which blocks are in use: bitmaps, free-space trees.
    AllocationMap = 5,
    /// Where the blocks of a file are, if not in its inode: indirect blocks, extent trees.
    ExtentMap = 6,
    /// Superblocks, group descriptors, allocation group headers and their copies.
    Superblock = 7,
    /// Other metadata: extended attributes, quotas, checksums, symbolic links.
    OtherMetadata = 8,
    /// Structures that hold several of the above at once (the nodes of ReiserFS's one tree).
    MixedMetadata = 9,
    /// A flush, which moves no data.
    Flush = 10,
    /// Not in use when the layout was read; files that have been deleted since were there.
    Free = 11,
    /// Nothing is known.
    #[default]
    Unknown = 12,
}

impl Class {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 13] = [
        Self::FileData,
        Self::ImageData,
        Self::Journal,
        Self::Inode,
        Self::Directory,
        Self::AllocationMap,
        Self::ExtentMap,
        Self::Superblock,
        Self::OtherMetadata,
        Self::MixedMetadata,
        Self::Flush,
        Self::Free,
        Self::Unknown,
    ];

    /// The name in results and tables; the one that it is serialised with.
    pub fn name(self) -> &'static str {
        match self {
            Self::FileData => "file-data",
            Self::ImageData => "image-data",
            Self::Journal => "journal",
            Self::Inode => "inode",
            Self::Directory => "directory",
            Self::AllocationMap => "allocation-map",
            Self::ExtentMap => "extent-map",
            Self::Superblock => "superblock",
            Self::OtherMetadata => "other-metadata",
            Self::MixedMetadata => "mixed-metadata",
            Self::Flush => "flush",
            Self::Free => "free",
            Self::Unknown => "unknown",
        }
    }

    /// The class of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|class| class.name() == name)
    }

    /// Whether it is the file system's own, neither contents of files nor its journal.
    pub fn is_metadata(self) -> bool {
        matches!(
            self,
            Self::Inode
                | Self::Directory
                | Self::AllocationMap
                | Self::ExtentMap
                | Self::Superblock
                | Self::OtherMetadata
                | Self::MixedMetadata
        )
    }

    /// Whether it is the contents of files.
    pub fn is_data(self) -> bool {
        matches!(self, Self::FileData | Self::ImageData)
    }

    /// The class of a number (`class as u8`).
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// Its name for people.
    pub fn label(self) -> &'static str {
        match self {
            Self::FileData => "file data",
            Self::ImageData => "image data",
            Self::Journal => "journal",
            Self::Inode => "inode",
            Self::Directory => "directory",
            Self::AllocationMap => "allocation map",
            Self::ExtentMap => "extent map",
            Self::Superblock => "superblock",
            Self::OtherMetadata => "other metadata",
            Self::MixedMetadata => "mixed metadata",
            Self::Flush => "flush",
            Self::Free => "free",
            Self::Unknown => "unknown",
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.label())
    }
}

/// A byte range of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extent {
    /// First byte on the device.
    pub start: u64,
    /// Length in bytes.
    pub bytes: u64,
    /// What it is for.
    pub class: Class,
    /// The inode it belongs to, where it belongs to one.
    pub inode: Option<u64>,
    /// Position in the contents of that inode, in bytes; only of file data and directories.
    pub file_offset: Option<u64>,
}

/// Every byte range of a device that has a known use, sorted by position, without overlap. What lies between is free.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layout {
    /// `ext4`, `xfs`, …; ext2, ext3 and ext4 by their features.
    pub file_system: String,
    /// Bytes of an allocation block.
    pub block_bytes: u64,
    /// Bytes of the file system, from the device's beginning.
    pub total_bytes: u64,
    /// The ranges.
    pub extents: Vec<Extent>,
    /// What makes the layout less certain than it seems (a log that has not been replayed, damaged structures).
    pub remarks: Vec<String>,
}

/// A part of a byte range that has one use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece<'a> {
    /// What it is for: the extent's class, [`Class::Free`] between extents, [`Class::Unknown`] beyond the file system.
    pub class: Class,
    /// First byte on the device.
    pub start: u64,
    /// Length in bytes.
    pub bytes: u64,
    /// The extent it lies in.
    pub extent: Option<&'a Extent>,
}

impl Extent {
    /// The byte after its last one.
    pub fn end(&self) -> u64 {
        self.start.saturating_add(self.bytes)
    }

    /// Of the contents of a file: position in the file, position on the device, bytes.
    fn contents(&self) -> Option<(u64, u64, u64)> {
        let of_file = matches!(self.class, Class::FileData | Class::ImageData);
        of_file.then_some((self.file_offset?, self.start, self.bytes))
    }
}

impl Layout {
    /// Cuts a byte range of the device where its use changes; in order, without gaps.
    pub fn pieces(&self, offset: u64, bytes: u64) -> impl Iterator<Item = Piece<'_>> {
        let mut index = self.extents.partition_point(|extent| extent.end() <= offset);
        let mut position = offset;
        let range_end = offset.saturating_add(bytes);
        std::iter::from_fn(move || {
            if position >= range_end {
                return None;
            }
            let next = self.extents.get(index);
            let (class, end, extent) = match next {
                Some(extent) if extent.start <= position => {
                    index += 1;
                    (extent.class, extent.end(), Some(extent))
                }
                _ if position >= self.total_bytes => (Class::Unknown, range_end, None),
                _ => (Class::Free, next.map_or(self.total_bytes, |extent| extent.start), None),
            };
            let start = position;
            position = end.min(range_end);
            Some(Piece { class, start, bytes: position - start, extent })
        })
    }

    /// Where the contents of a file lie: (position in the file, position on the device, bytes), sorted by position in
    /// the file. Holes are left out.
    pub fn file(&self, inode: u64) -> Vec<(u64, u64, u64)> {
        self.files(&BTreeSet::from([inode])).remove(&inode).unwrap_or_default()
    }

    /// Where the contents of each of some files lie, as of [`Self::file`].
    pub fn files(&self, inodes: &BTreeSet<u64>) -> BTreeMap<u64, Vec<(u64, u64, u64)>> {
        let mut files: BTreeMap<u64, Vec<_>> = BTreeMap::new();
        for extent in &self.extents {
            let inode = extent.inode.filter(|inode| inodes.contains(inode));
            if let Some((inode, contents)) = inode.zip(extent.contents()) {
                files.entry(inode).or_default().push(contents);
            }
        }
        files.values_mut().for_each(|extents| extents.sort_unstable());
        files
    }

    /// Gives the data of a file another class: [`Class::ImageData`] for the image file of a virtual disk. Returns how
    /// many bytes that were.
    pub fn rename(&mut self, inode: u64, class: Class) -> u64 {
        let data = |extent: &&mut Extent| extent.inode == Some(inode) && extent.class == Class::FileData;
        let renamed = self.extents.iter_mut().filter(data).map(|extent| {
            extent.class = class;
            extent.bytes
        });
        renamed.sum()
    }

    /// Bytes by class, free ones too.
    pub fn summary(&self) -> BTreeMap<Class, u64> {
        let mut summary = BTreeMap::new();
        for piece in self.pieces(0, self.total_bytes) {
            *summary.entry(piece.class).or_default() += piece.bytes;
        }
        summary
    }

    /// The share (0 to 1) of the device that so many bytes are.
    pub fn share_of(&self, bytes: u64) -> f64 {
        bytes as f64 / self.total_bytes.max(1) as f64
    }
}
