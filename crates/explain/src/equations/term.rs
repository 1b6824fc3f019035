//! The terms of equation 1, and which of them each class of requests belongs to.

use std::collections::BTreeSet;

use nestor_layout::Class;
use serde::Serialize;

/// A term of equation 1 (paper P, § II.F), in its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Term {
    /// T_Dir: "all directory-related operations".
    Directories,
    /// T_Meta: "all metadata operations".
    Metadata,
    /// T_FL: "all free lists operations".
    FreeList,
    /// T_FB: "direct file blocks operations".
    FileBlocks,
    /// T_J: "journaling operations".
    Journal,
    /// T_HK: "housekeeping operation within the FS".
    Housekeeping,
}

/// Whether a request is of the topmost file system, which the workload asked, or was made below it without being asked from above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// By the workload, of the topmost file system.
    FromAbove,
    /// By a layer below, of its own accord.
    OfItsOwn,
}

/// Where the time of a class goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    /// The term; several that cannot be told apart.
    pub terms: &'static [Term],
    /// What else is in such blocks and so in the term, to be said where the class took time.
    pub also: Option<&'static str>,
}

impl Term {
    /// All, in the order of the equation.
    pub const ALL: [Self; 6] = [
        Self::Directories,
        Self::Metadata,
        Self::FreeList,
        Self::FileBlocks,
        Self::Journal,
        Self::Housekeeping,
    ];

    /// In words.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Directories => "directories",
            Self::Metadata => "metadata",
            Self::FreeList => "free list",
            Self::FileBlocks => "file blocks",
            Self::Journal => "journal",
            Self::Housekeeping => "housekeeping",
        }
    }
}

/// Of inodes.
const IN_INODES: &str =
    "metadata has the small directories and files that lie in inodes (xfs, jfs; ext4 with inline_data)";
/// Of superblocks.
const IN_SUPERBLOCKS: &str = "metadata has the counts of free blocks that lie in superblocks, group descriptors (ext) and headers of \
                              allocation groups (xfs)";
/// Of the nodes of a tree.
const IN_A_TREE: &str = "directories and metadata share nodes of one tree and are not told apart; the ends of small files that lie \
                         in such nodes (reiserfs without notail, btrfs) are there too, so file blocks are at least what is shown";
/// Of an image.
const OF_AN_IMAGE: &str = "housekeeping has parts of the image that no request above asked for: tables of its format, reading ahead, \
                           writing late";
/// Of flushes.
const OF_FLUSHES: &str = "housekeeping has flushes, which make durable what was written of any term; the write of a journal that a \
                          device flushes for is journal";
/// Of what is not known.
const OF_UNKNOWN: &str = "housekeeping has requests of which nothing says what they are for";

impl Placement {
    /// The place of a class in equation 1: the one mapping between Nestor's classes and the paper's terms.
    pub const fn of(class: Class, asked: Asked) -> Self {
        use Term::{Directories, FileBlocks, FreeList, Housekeeping, Journal, Metadata};
        let (terms, also): (&'static [Term], _) = match (class, asked) {
            (Class::Directory, _) => (&[Directories], None),
            // Inodes, and the maps that find them.
            (Class::Inode, _) => (&[Metadata], Some(IN_INODES)),
            // The paper's file blocks are the "direct" ones; indirect blocks and extent trees say where they are.
            (Class::ExtentMap | Class::OtherMetadata, _) => (&[Metadata], None),
            (Class::Superblock, _) => (&[Metadata], Some(IN_SUPERBLOCKS)),
            // A node of a tree with items of several kinds.
            (Class::MixedMetadata, _) => (&[Directories, Metadata], Some(IN_A_TREE)),
            // Bitmaps and trees of free space.
            (Class::AllocationMap, _) => (&[FreeList], None),
            (Class::FileData, _) | (Class::ImageData, Asked::FromAbove) => (&[FileBlocks], None),
            // The file system below did not make it either: it belongs to the image format or the cache.
            (Class::ImageData, Asked::OfItsOwn) => (&[Housekeeping], Some(OF_AN_IMAGE)),
            (Class::Journal, _) => (&[Journal], None),
            // It makes durable whatever was written before, of every term.
            (Class::Flush, _) => (&[Housekeeping], Some(OF_FLUSHES)),
            // Discards of what is free.
            (Class::Free, _) => (&[Housekeeping], None),
            (Class::Unknown, _) => (&[Housekeeping], Some(OF_UNKNOWN)),
        };
        Self { terms, also }
    }
}

/// The terms of equation 1 in rows: those that one of these classes keeps together are one row.
pub(crate) fn rows(classes: impl Iterator<Item = (Class, Asked)>) -> Vec<BTreeSet<Term>> {
    let mut rows: Vec<BTreeSet<Term>> = Term::ALL.into_iter().map(|term| BTreeSet::from([term])).collect();
    for (class, asked) in classes {
        let terms = Placement::of(class, asked).terms;
        let (joined, apart): (Vec<_>, Vec<_>) =
            rows.into_iter().partition(|row| terms.iter().any(|term| row.contains(term)));
        rows = apart;
        rows.push(joined.into_iter().flatten().collect());
    }
    rows.sort();
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_class_has_a_term_and_every_term_but_joined_ones_a_row() {
        for class in Class::ALL {
            for asked in [Asked::FromAbove, Asked::OfItsOwn] {
                assert!(!Placement::of(class, asked).terms.is_empty(), "{class}");
                let rows = rows([(class, asked)].into_iter());
                assert_eq!(rows.iter().map(BTreeSet::len).sum::<usize>(), Term::ALL.len());
                assert!(rows.is_sorted());
            }
        }
    }

    #[test]
    fn what_shares_a_tree_is_one_row() {
        let classes = [Class::FileData, Class::MixedMetadata, Class::Inode, Class::MixedMetadata];
        let rows = rows(classes.into_iter().map(|class| (class, Asked::FromAbove)));
        assert_eq!(rows.len(), 5);
        assert_eq!(rows[0], BTreeSet::from([Term::Directories, Term::Metadata]));
    }
}
