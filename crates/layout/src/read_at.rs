//! Reading a layout from a device.

use std::fs::File;
use std::io::{self, Seek as _, SeekFrom};
use std::os::unix::fs::FileExt as _;

use crate::device::CachedDevice;
use crate::file_systems::{FILE_SYSTEMS, readable};
use crate::layout::Layout;
use crate::partitions;

/// A device or a file, read at any position.
pub trait ReadAt {
    /// Fills `buffer` from `offset` bytes on.
    ///
    /// # Errors
    /// When the device ends before, or cannot be read.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()>;

    /// Its size in bytes.
    ///
    /// # Errors
    /// When it cannot be found out.
    fn bytes(&self) -> io::Result<u64>;

    /// Whether the file system on it is known to be frozen: it is all in its place then, although its log may look as
    /// after a crash.
    fn is_frozen(&self) -> bool {
        false
    }
}

impl ReadAt for &[u8] {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let part = usize::try_from(offset)
            .ok()
            .and_then(|start| self.get(start..start.checked_add(buffer.len())?))
            .ok_or(io::ErrorKind::UnexpectedEof)?;
        buffer.copy_from_slice(part);
        Ok(())
    }

    fn bytes(&self) -> io::Result<u64> {
        Ok(self.len() as u64)
    }
}

impl ReadAt for File {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.read_exact_at(buffer, offset)
    }

    /// Of a block device too, whose metadata says 0; so it moves the file's position to its end.
    fn bytes(&self) -> io::Result<u64> {
        let mut file = self;
        file.seek(SeekFrom::End(0))
    }
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
    #[error(
        "the device has no file system whose layout can be read ({}), and no partition with one",
        readable()
    )]
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
    #[error("the {file_system} file system uses {feature}, which is not supported")]
    Unsupported {
        /// Which.
        file_system: &'static str,
        /// The feature.
        feature: String,
    },
}

/// Reads the layout of whatever file system is on the device, or of those in its partitions.
///
/// Partitions count before what lies at the beginning of the device: mkfs clears the sector of a DOS table, so that a superblock beside a
/// table is older than the table.
///
/// # Errors
/// See [`LayoutError`].
pub fn read(device: &dyn ReadAt) -> Result<Layout, LayoutError> {
    let cached = CachedDevice::new(device)?;
    match partitions::read(&cached)? {
        Some(layout) => Ok(layout),
        None => read_file_system(&cached),
    }
}

/// Reads the layout of the file system at the beginning of a device.
///
/// A device may carry superblocks of several, from before it was formatted anew: the first that can be read counts.
pub(crate) fn read_file_system(device: &dyn ReadAt) -> Result<Layout, LayoutError> {
    let mut failed = None;
    for file_system in FILE_SYSTEMS {
        if !(file_system.recognise)(device) {
            continue;
        }
        match ((file_system.read)(device), &failed) {
            (Ok(layout), None) => return Ok(layout),
            (Ok(mut layout), Some((name, error))) => {
                layout.remarks.push(format!("a superblock of {name} on the device was skipped: {error}"));
                return Ok(layout);
            }
            (Err(error), None) => failed = Some((file_system.name, error)),
            (Err(_), Some(_)) => {}
        }
    }
    Err(failed.map_or(LayoutError::NotKnown, |(_, error)| error))
}
