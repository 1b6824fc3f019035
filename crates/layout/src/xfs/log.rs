//! The log: where it is, and whether it still holds changes that are not in their places.

use super::{Walk, damaged};
use crate::fields::{Fields, read_bytes};
use crate::layout::Class;
use crate::read_at::LayoutError;

/// `XLOG_HEADER_MAGIC_NUM` in `xfs_log_format.h`.
const RECORD_MAGIC: u32 = 0xfeed_babe;
/// `XLOG_UNMOUNT_TRANS`: the operation that a clean unmount writes last.
const UNMOUNT: u8 = 0x20;
/// Bytes of a basic block: `BBSIZE`.
const BASIC_BLOCK: u64 = 512;
/// Basic blocks that the last record is looked for in: `XLOG_MAX_ICLOGS` buffers of `XLOG_MAX_RECORD_BSIZE`.
const LAST_RECORD_WITHIN: u64 = 8 * (256 << 10) / BASIC_BLOCK;
/// Bytes of a record that one basic block of its header describes: `XLOG_HEADER_CYCLE_SIZE`.
const BYTES_PER_HEADER: u64 = 32 << 10;

/// Classes the log.
pub(super) fn read(walk: &mut Walk<'_>) -> Result<(), LayoutError> {
    let Some((block, blocks)) = walk.geometry.log else {
        walk.builder.remark("the log is on another device");
        return Ok(());
    };
    let outside = || damaged(48, format!("the log of {blocks} blocks is outside its group"));
    let start = walk.geometry.in_file_system(block, blocks).filter(|_| blocks > 0).ok_or_else(outside);
    let Some(start) = walk.note(start)? else { return Ok(()) };
    let bytes = blocks * walk.geometry.block_bytes;
    walk.builder.add(Class::Journal, start, bytes);
    let log = Log { walk, start, basic_blocks: bytes / BASIC_BLOCK };
    if !walk.device.is_frozen() && !log.ends_with_unmount()? {
        walk.builder.remark(
            "the log does not end with an unmount: unless the file system is mounted read-only, the last \
             changes may still be only in the log",
        );
    }
    Ok(())
}

struct Log<'w, 'a> {
    walk: &'w Walk<'a>,
    start: u64,
    basic_blocks: u64,
}

impl Log<'_, '_> {
    fn basic_block(&self, number: u64) -> Result<Vec<u8>, LayoutError> {
        read_bytes(self.walk.device, self.start + number * BASIC_BLOCK, BASIC_BLOCK as usize)
    }

    /// How many times the log had been gone through when a basic block was written: its first number, or the second
    /// of a record's header.
    fn cycle(&self, number: u64) -> Result<u32, LayoutError> {
        let bytes = self.basic_block(number)?;
        let block = Fields::new(super::NAME, self.start + number * BASIC_BLOCK, &bytes);
        let first = block.u32_be(0)?;
        if first == RECORD_MAGIC { block.u32_be(4) } else { Ok(first) }
    }

    /// The first basic block of the oldest cycle: the log goes on there. 0 if all are of one (cf. `xlog_find_head` in
    /// `xfs_log_recover.c`).
    fn head(&self) -> Result<u64, LayoutError> {
        let last = self.cycle(self.basic_blocks - 1)?;
        if self.cycle(0)? == last {
            return Ok(0);
        }
        let (mut newer, mut older) = (0, self.basic_blocks - 1);
        while older - newer > 1 {
            let middle = newer.midpoint(older);
            if self.cycle(middle)? == last { older = middle } else { newer = middle }
        }
        Ok(older)
    }

    /// Whether the last record is the one of an unmount. A log that was never written to counts too.
    fn ends_with_unmount(&self) -> Result<bool, LayoutError> {
        if self.cycle(0)? == 0 {
            return Ok(true);
        }
        let head = self.head()?;
        for back in 1..=LAST_RECORD_WITHIN.min(self.basic_blocks) {
            let number = (head + self.basic_blocks - back) % self.basic_blocks;
            let bytes = self.basic_block(number)?;
            let header = Fields::new(super::NAME, self.start + number * BASIC_BLOCK, &bytes);
            // `h_lsn`, the lower half of which is the basic block.
            if header.u32_be(0)? == RECORD_MAGIC && u64::from(header.u32_be(20)?) == number {
                return self.is_unmount(&header, number);
            }
        }
        Ok(false)
    }

    /// Whether a record (`struct xlog_rec_header`) consists of one operation (`struct xlog_op_header`), an unmount.
    fn is_unmount(&self, header: &Fields<'_>, number: u64) -> Result<bool, LayoutError> {
        let version_2 = header.u32_be(8)? & 2 != 0;
        let size = u64::from(header.u32_be(320)?);
        let header_blocks = if version_2 { size.div_ceil(BYTES_PER_HEADER).max(1) } else { 1 };
        let operation = self.basic_block((number + header_blocks) % self.basic_blocks)?;
        Ok(header.u32_be(40)? == 1 && operation.get(9).is_some_and(|flags| flags & UNMOUNT != 0))
    }
}
