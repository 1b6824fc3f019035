//! One request at one trace point, whatever it was recorded with: what attribution labels and correlation joins.

use nestor_layout::Class;
use serde::{Deserialize, Serialize};

use crate::event::Flags;

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
