//! One request at one trace point, whatever it was recorded with: what attribution labels and correlation joins.

use nestor_layout::Class;
use serde::{Deserialize, Serialize};

use crate::event::{Direction, Flags};

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[repr(u8)]
pub enum Operation {
    /// Data from below.
    Read = 0,
    /// Data to below.
    Write = 1,
    /// The caches below are to be written out.
    Flush = 2,
    /// A range is discarded or zeroed.
    Discard = 3,
}

impl Operation {
    /// What a request with data asks for.
    pub const fn of_data(direction: Direction) -> Self {
        match direction {
            Direction::Read => Self::Read,
            Direction::Write | Direction::None => Self::Write,
            Direction::Discard => Self::Discard,
        }
    }

    /// As it is shown.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Flush => "flush",
            Self::Discard => "discard",
        }
    }
}

/// A request from the moment the layer above handed it over until it was finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// Number at its trace point, in the order of completion, from 0.
    pub id: u64,
    /// What it asks for.
    pub operation: Operation,
    /// Its modifiers.
    pub flags: Flags,
    /// What the bytes are for; [`Class::Unknown`] if they were not attributed. Of a request over several classes the
    /// one with most bytes.
    pub class: Class,
    /// Position in bytes in the space of this trace point (a disk, an image file).
    pub offset: u64,
    /// Length in bytes; 0 for a flush.
    pub bytes: u64,
    /// When the layer above handed it over (Q of its first bio; arrival at a hypervisor or disk), on the clock of its
    /// machine, `CLOCK_MONOTONIC`.
    pub queued_ns: u64,
    /// When it was sent downwards (D; a disk's start of service). Equal to `queued_ns` if it was not recorded.
    pub issued_ns: u64,
    /// When it was finished.
    pub completed_ns: u64,
    /// How many requests of the layer above were merged into it; 1 where it was not merged.
    pub bios: u32,
    /// The thread that handed it over first; 0 where unknown.
    pub pid: u32,
}

/// What page caches, and file systems and disks with the usual sizes, read and write whole: a page of x86-64 (`PAGE_SIZE` in the kernel's
/// `arch/x86/include/asm/page_types.h`), the block that their mkfs choose, a sector of Advanced Format disks.
pub const BLOCK_BYTES: u64 = 4096;

impl Request {
    /// Whether it reads or writes as much as whole blocks have, but begins within one: at both ends it touches a block that it does not
    /// fill.
    pub fn is_misaligned(&self) -> bool {
        let moves = matches!(self.operation, Operation::Read | Operation::Write) && self.bytes > 0;
        moves && self.bytes.is_multiple_of(BLOCK_BYTES) && !self.offset.is_multiple_of(BLOCK_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_blocks_at_another_place_are_misaligned_and_parts_of_blocks_are_not() {
        let request = |operation, offset, bytes| Request {
            id: 0,
            operation,
            flags: Flags::default(),
            class: Class::Unknown,
            offset,
            bytes,
            queued_ns: 0,
            issued_ns: 0,
            completed_ns: 0,
            bios: 1,
            pid: 0,
        };
        let start = 63 * 512;
        for operation in [Operation::Read, Operation::Write] {
            assert!(request(operation, start, 4096).is_misaligned());
            assert!(request(operation, start + 8192, 131_072).is_misaligned());
            assert!(!request(operation, 1 << 20, 4096).is_misaligned());
            assert!(!request(operation, start, 512).is_misaligned());
        }
        assert!(!request(Operation::Flush, start, 0).is_misaligned());
        assert!(!request(Operation::Discard, start, 4096).is_misaligned());
    }
}
