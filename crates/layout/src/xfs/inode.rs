//! An inode (`struct xfs_dinode`): what it is and where its forks are.

use super::{Walk, fork};
use crate::fields::{Fields, read_bytes};
use crate::layout::Class;
use crate::read_at::LayoutError;

/// `XFS_DIFLAG_REALTIME` in `xfs_format.h`.
const FLAG_REALTIME: u16 = 1 << 0;
/// `XFS_DIFLAG2_NREXT64`: the counts of extents are 64 and 32 bits wide.
const FLAG2_LARGE_COUNTS: u64 = 1 << 4;
/// `XFS_DIFLAG2_METADATA`: a file that only the file system itself uses.
const FLAG2_METADATA: u64 = 1 << 5;

/// Type bits of the mode, as in `stat`.
const TYPE_MASK: u16 = 0xf000;
const TYPE_DIRECTORY: u16 = 0x4000;
const TYPE_REGULAR: u16 = 0x8000;

/// Reads an inode that is in use and classes what its forks name.
pub(super) fn read(walk: &mut Walk<'_>, offset: u64, number: u64) -> Result<(), LayoutError> {
    let geometry = walk.geometry;
    let bytes = read_bytes(walk.device, offset, geometry.inode_bytes as usize)?;
    let inode = Fields::new(super::NAME, offset, &bytes);
    if inode.array::<2>(0)? != *b"IN" {
        return Err(inode.damaged(0, format!("inode {number} is in use but missing")));
    }
    // Version 3 repeats the inode's number and is longer.
    let long = inode.u8(4)? >= 3;
    if long && inode.u64_be(152)? != number {
        return Err(inode.damaged(152, format!("another inode is in the place of inode {number}")));
    }
    let flags2 = if long { inode.u64_be(120)? } else { 0 };
    let literal_start = if long { 176 } else { 100 };
    let literal = inode.slice(literal_start, bytes.len() - literal_start)?;
    let (data_extents, attribute_extents) = if flags2 & FLAG2_LARGE_COUNTS != 0 {
        (inode.u64_be(24)?, u64::from(inode.u32_be(76)?))
    } else {
        (u64::from(inode.u32_be(76)?), u64::from(inode.u16_be(80)?))
    };
    // In units of eight bytes; 0 if there are no attributes.
    let attributes_at = usize::from(inode.u8(82)?) * 8;
    let room = literal.bytes().len();
    if attributes_at >= room {
        return Err(inode.damaged(82, format!("the attributes of inode {number} begin after its end")));
    }
    if attributes_at > 0 {
        let area = literal.slice(attributes_at, room - attributes_at)?;
        let usage = fork::Usage { inode: number, class: Class::OtherMetadata, positions: false };
        let read = fork::read(walk, inode.u8(83)?, &area, attribute_extents, &usage);
        walk.note(read)?;
    }
    let mode = inode.u16_be(2)?;
    let class = class_of(walk, number, mode, flags2);
    if class == Class::FileData && inode.u16_be(90)? & FLAG_REALTIME != 0 {
        walk.realtime_files += 1;
        return Ok(());
    }
    let area = literal.slice(0, if attributes_at > 0 { attributes_at } else { room })?;
    let positions = matches!(class, Class::FileData | Class::Directory);
    fork::read(walk, inode.u8(5)?, &area, data_extents, &fork::Usage { inode: number, class, positions })
}

/// What the contents of an inode are.
fn class_of(walk: &Walk<'_>, number: u64, mode: u16, flags2: u64) -> Class {
    if walk.geometry.realtime_inodes.contains(&number) {
        return Class::AllocationMap;
    }
    if walk.geometry.quota_inodes.contains(&number) {
        return Class::OtherMetadata;
    }
    match mode & TYPE_MASK {
        TYPE_DIRECTORY => Class::Directory,
        TYPE_REGULAR if flags2 & FLAG2_METADATA == 0 => Class::FileData,
        _ => Class::OtherMetadata,
    }
}
