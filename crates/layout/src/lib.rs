//! What every block of a file system is for, read from the file system itself.
//!
//! [`read`] walks the structures on a device (which must not change meanwhile: unmounted, frozen or read-only) and
//! gives a [`Layout`]: every byte range of the device with its [`Class`], and for files the inode and the position
//! in it. So a block request can be attributed (journal, inode, …), and an offset in an image file be found on the
//! host's disk. It needs no tool of the file system and no right but to read the device.

mod btrfs;
mod builder;
mod damage;
mod device;
mod ext;
mod f2fs;
mod fields;
mod file_systems;
#[cfg(test)]
mod hostile;
mod jfs;
mod layout;
mod nilfs2;
mod partitions;
mod read_at;
mod reiserfs;
mod stored;
mod xfs;

pub use device::{CachedDevice, DirectDevice};
pub use layout::{Class, Extent, Layout, Piece};
pub use read_at::{LayoutError, ReadAt, read};
