//! How JFS writes down where blocks are.

use crate::fields::Fields;
use crate::read_at::LayoutError;

/// Blocks in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Blocks {
    pub(super) first: u64,
    pub(super) count: u64,
}

impl Blocks {
    /// Reads a `pxd_t` (`jfs_types.h`): 24 bits of length, 40 of address, the upper eight of which come first.
    pub(super) fn read(fields: &Fields<'_>, at: usize) -> Result<Self, LayoutError> {
        let length = fields.u32_le(at)?;
        let lower = fields.u32_le(at + 4)?;
        Ok(Self {
            first: u64::from(length >> 24) << 32 | u64::from(lower),
            count: u64::from(length & 0xff_ffff),
        })
    }

    /// Whether there are none.
    pub(super) fn is_empty(self) -> bool {
        self.count == 0 || self.first == 0
    }

    /// Itself, if it ends before `end`.
    pub(super) fn checked(self, end: u64) -> Option<Self> {
        (self.first + self.count <= end).then_some(self)
    }
}

/// Blocks at a position in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mapped {
    /// The position, in blocks.
    pub(super) position: u64,
    pub(super) blocks: Blocks,
}

impl Mapped {
    /// Bytes of an `xad_t` (`jfs_xtree.h`).
    pub(super) const BYTES: usize = 16;

    /// Reads an `xad_t`: flags, the upper eight bits of the position, its other 32, then as a `pxd_t`.
    pub(super) fn read(fields: &Fields<'_>, at: usize) -> Result<Self, LayoutError> {
        let upper = u64::from(fields.u8(at + 3)?) << 32;
        Ok(Self {
            position: upper | u64::from(fields.u32_le(at + 4)?),
            blocks: Blocks::read(fields, at + 8)?,
        })
    }
}
