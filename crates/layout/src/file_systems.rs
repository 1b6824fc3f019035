//! The file systems whose layouts can be read: one entry each.

use crate::layout::Layout;
use crate::read_at::{LayoutError, ReadAt};

/// A file system whose layout can be read.
#[derive(Debug)]
pub(crate) struct FileSystem {
    /// Its name in messages; `ext2` and `ext3` are told from `ext4` by their reader.
    pub(crate) name: &'static str,
    /// The names of all that its reader reads.
    pub(crate) names: &'static [&'static str],
    /// Whether the device carries it, by its magic number. A device that ends too early does not.
    pub(crate) recognise: fn(&dyn ReadAt) -> bool,
    /// Reads its layout.
    pub(crate) read: fn(&dyn ReadAt) -> Result<Layout, LayoutError>,
}

/// In the order in which they are tried, which matters where a device still carries an older magic number. mkfs.xfs,
/// mkfs.btrfs and mkreiserfs clear the beginning of the device, mke2fs its first sectors only; so where a magic number
/// of ext or xfs stands beside one that lies further on, it is the newer.
pub(crate) static FILE_SYSTEMS: [&FileSystem; 7] = [
    &crate::ext::FILE_SYSTEM,
    &crate::xfs::FILE_SYSTEM,
    &crate::jfs::FILE_SYSTEM,
    &crate::reiserfs::FILE_SYSTEM,
    &crate::btrfs::FILE_SYSTEM,
    &crate::f2fs::FILE_SYSTEM,
    &crate::nilfs2::FILE_SYSTEM,
];

/// All names, for messages.
pub(crate) fn readable() -> String {
    FILE_SYSTEMS.iter().flat_map(|file_system| file_system.names).copied().collect::<Vec<_>>().join(", ")
}

/// Whether `magic` stands at `offset`.
pub(crate) fn has_magic(device: &dyn ReadAt, offset: u64, magic: &[u8]) -> bool {
    let mut found = [0_u8; 16];
    let found = &mut found[..magic.len().min(16)];
    device.read_at(offset, found).is_ok() && found == magic
}
