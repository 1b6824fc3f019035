//! The superblock, and the parts whose places it or the format gives.

use super::descriptor::Blocks;
use super::{NAME, PAGE_BYTES, Walk, damaged};
use crate::fields::{Fields, read_bytes};
use crate::layout::Class;
use crate::read_at::{LayoutError, ReadAt};

/// `SUPER1_OFF` in `jfs_filsys.h`. What is before it is left to boot loaders.
pub(super) const PRIMARY_OFFSET: u64 = 0x8000;
/// `AITBL_OFF`: the first extent of the aggregate's inodes, after two pages of their map.
pub(super) const INODE_TABLE_OFFSET: u64 = 0xb000;
/// Pages of that extent: `INODE_EXTENT_SIZE`.
const INODE_TABLE_PAGES: u64 = 4;
/// `SUPER2_OFF`.
const SECONDARY_OFFSET: u64 = 0xf000;

/// Flags of `s_flag`: `JFS_INLINELOG`, `JFS_DIR_INDEX` in `jfs_filsys.h`.
const FLAG_INLINE_LOG: u32 = 0x800;
const FLAG_DIRECTORY_TABLES: u32 = 0x20_0000;
/// `JFS_BAD_SAIT`: the second inode table is not kept up any more.
const FLAG_BAD_SECOND_TABLE: u32 = 0x1_0000;
/// `FM_CLEAN` of `s_state`.
const STATE_CLEAN: u32 = 0;

/// What the superblock (`struct jfs_superblock`) says.
#[derive(Debug)]
pub(super) struct Superblock {
    /// To the end of the log and of the checker's work space, which lie behind what the block map covers.
    pub(super) total_bytes: u64,
    pub(super) directory_tables: bool,
    clean: bool,
    second_table_is_bad: bool,
    second_inode_table: Blocks,
    second_inode_map: Blocks,
    log: Option<Blocks>,
    check_space: Blocks,
}

impl Superblock {
    /// Reads the primary superblock.
    pub(super) fn read(device: &dyn ReadAt) -> Result<Self, LayoutError> {
        let bytes = read_bytes(device, PRIMARY_OFFSET, 512)?;
        let sb = Fields::new(NAME, PRIMARY_OFFSET, &bytes);
        if u64::from(sb.u32_le(16)?) != PAGE_BYTES {
            let feature = format!("blocks of {} bytes", sb.u32_le(16)?);
            return Err(LayoutError::Unsupported { file_system: NAME, feature });
        }
        let flags = sb.u32_le(36)?;
        let log = (flags & FLAG_INLINE_LOG != 0).then(|| Blocks::read(&sb, 72)).transpose()?;
        let check_space = Blocks::read(&sb, 80)?;
        // In blocks of the device, whose size is given too.
        let bytes = sb.u64_le(8)?.saturating_mul(u64::from(sb.u32_le(24)?));
        let ends = [log.unwrap_or(check_space), check_space]
            .map(|blocks| (blocks.first + blocks.count) * PAGE_BYTES);
        let total_bytes = bytes.max(ends[0]).max(ends[1]);
        let device_bytes = device.bytes().map_err(|source| LayoutError::Io { offset: 0, source })?;
        if total_bytes > device_bytes {
            let reason = format!("it has {total_bytes} bytes, more than the device");
            return Err(damaged(PRIMARY_OFFSET + 8, reason));
        }
        Ok(Self {
            total_bytes,
            directory_tables: flags & FLAG_DIRECTORY_TABLES != 0,
            clean: sb.u32_le(40)? == STATE_CLEAN,
            second_table_is_bad: flags & FLAG_BAD_SECOND_TABLE != 0,
            second_inode_table: Blocks::read(&sb, 48)?,
            second_inode_map: Blocks::read(&sb, 56)?,
            log,
            check_space,
        })
    }

    /// Classes what lies at fixed places and what the superblock names.
    pub(super) fn add_fixed_parts(&self, walk: &mut Walk<'_>) -> Result<(), LayoutError> {
        walk.builder.add(Class::OtherMetadata, 0, PRIMARY_OFFSET);
        walk.builder.add(Class::Superblock, PRIMARY_OFFSET, PAGE_BYTES);
        walk.builder.add(Class::Superblock, SECONDARY_OFFSET, PAGE_BYTES);
        // The first extents of the map of the aggregate's inodes and of their table. Both are found through the inodes
        // as well, but not if those are damaged.
        let table_end = SECONDARY_OFFSET - PRIMARY_OFFSET - PAGE_BYTES;
        walk.builder.add(Class::Inode, PRIMARY_OFFSET + PAGE_BYTES, table_end);
        let parts = [
            (Class::Inode, self.second_inode_table, 48),
            (Class::Inode, self.second_inode_map, 56),
            (Class::Journal, self.log.unwrap_or(Blocks { first: 0, count: 0 }), 72),
            (Class::OtherMetadata, self.check_space, 80),
        ];
        for (class, blocks, at) in parts.into_iter().filter(|(_, blocks, _)| !blocks.is_empty()) {
            walk.add(class, blocks, None, PRIMARY_OFFSET + at)?;
        }
        if self.log.is_none() {
            walk.builder.remark("the log is on another device");
        }
        if !self.clean && !walk.device.is_frozen() {
            walk.builder.remark(
                "the file system was not unmounted: unless it is mounted read-only, the last changes may \
                 still be only in its log",
            );
        }
        Ok(())
    }

    /// Where the second table of the aggregate's inodes is, if it is good.
    pub(super) fn second_table_offset(&self) -> Option<u64> {
        let inside = (self.second_inode_table.first + INODE_TABLE_PAGES) * PAGE_BYTES <= self.total_bytes;
        let good = inside && !self.second_table_is_bad && !self.second_inode_table.is_empty();
        good.then_some(self.second_inode_table.first * PAGE_BYTES)
    }
}
