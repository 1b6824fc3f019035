//! File systems: how each is made and mounted.

pub(super) mod btrfs;
mod ext;
pub(super) mod ext2;
pub(super) mod ext3;
pub(super) mod ext4;
pub(super) mod f2fs;
pub(super) mod jfs;
pub(super) mod nilfs2;
pub(super) mod ntfs;
pub(super) mod reiserfs;
pub(super) mod xfs;

use crate::{Layer, Recovery};

/// The option `mount` as a list; what it says comes last, so that it overrides what a file system sets by itself.
fn written_mount_options(layer: &Layer) -> Vec<String> {
    layer.list("mount").map(str::to_owned).collect()
}

/// The recovery of file systems that keep a journal, or never overwrite what is in use.
fn by_mount(_: &Layer) -> Recovery {
    Recovery::Mount
}

/// Whether a file system compresses that does so by options of mount which all begin alike: `compress`, `compress-force`,
/// `compress_algorithm`.
fn compress_option(layer: &Layer) -> bool {
    layer.list("mount").any(|option| option.starts_with("compress"))
}

/// For file systems that cannot compress.
fn never(_: &Layer) -> bool {
    false
}

/// A command line.
fn argv<'a>(words: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    words.into_iter().map(str::to_owned).collect()
}
