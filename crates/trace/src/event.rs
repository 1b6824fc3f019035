//! One event of the block layer, whatever it was recorded with.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Bytes of a sector as the block layer counts them, whatever the device's own block size.
pub const SECTOR_BYTES: u64 = 512;

/// A block device by its number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Device {
    /// The driver's part.
    pub major: u32,
    /// The device's part.
    pub minor: u32,
}

impl Device {
    /// Takes apart the kernel's own 32-bit device number: 12 bits major, 20 bits minor
    /// (`include/linux/kdev_t.h`), which is what blktrace records and tracefs filters hold.
    pub fn from_kernel(number: u32) -> Self {
        Self { major: number >> 20, minor: number & 0xf_ffff }
    }

    /// Reads `8:16`, or with another character between.
    pub fn parse(text: &str, between: char) -> Option<Self> {
        let (major, minor) = text.split_once(between)?;
        Some(Self { major: major.parse().ok()?, minor: minor.parse().ok()? })
    }

    /// The kernel's own 32-bit device number; see [`Device::from_kernel`].
    pub fn to_kernel(self) -> u32 {
        (self.major << 20) | (self.minor & 0xf_ffff)
    }
}

impl From<(u32, u32)> for Device {
    fn from((major, minor): (u32, u32)) -> Self {
        Self { major, minor }
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.major, self.minor)
    }
}

/// What a request moves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Direction {
    /// Data from the device.
    Read,
    /// Data to the device. blktrace records do not distinguish zeroes written without data from these.
    Write,
    /// Sectors discarded or zeroed without data.
    Discard,
    /// Nothing: flushes, and events without a request.
    #[default]
    None,
}

/// The modifiers of a request (the kernel's `REQ_*` bits, as far as its traces show them).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Flags(u8);

impl Flags {
    /// The device's cache is to be flushed first (`REQ_PREFLUSH`), or the request is a flush.
    pub const FLUSH: Self = Self(1);
    /// The data must be on the medium before completion (`REQ_FUA`).
    pub const FUA: Self = Self(2);
    /// A thread waits for it (`REQ_SYNC`).
    pub const SYNC: Self = Self(4);
    /// The file system called it metadata (`REQ_META`).
    pub const META: Self = Self(8);
    /// Read-ahead (`REQ_RAHEAD`).
    pub const AHEAD: Self = Self(16);
    /// Not a request for data: a command passed through to the device.
    pub const PASSTHROUGH: Self = Self(32);

    /// The bits, in the order of the constants.
    pub(crate) const fn bits(self) -> u8 {
        self.0
    }

    /// The modifiers of some bits.
    pub(crate) const fn from_bits(bits: u8) -> Self {
        Self(bits)
    }

    /// Whether all of `other` are set.
    pub fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// These and those.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// These and `other` if `set`.
    #[must_use]
    pub fn with(self, other: Self, set: bool) -> Self {
        Self(if set { self.0 | other.0 } else { self.0 })
    }
}

/// What happened to a request. The letters are blkparse's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Action {
    /// Q: the layer above handed it over.
    Queue,
    /// M: it was appended to a request that waits.
    BackMerge,
    /// F: it was put before a request that waits.
    FrontMerge,
    /// G: it became a request of its own.
    GetRequest,
    /// S: it had to wait for a request to become free.
    Sleep,
    /// R: the driver requeued it.
    Requeue,
    /// D: it was sent to the driver.
    Issue,
    /// C: the driver has finished it, wholly or the given bytes of it.
    Complete,
    /// P: the submitter began to hold requests back.
    Plug,
    /// U, UT: the held requests were let go.
    Unplug {
        /// How many were held, of all devices.
        requests: u32,
        /// A timer let them go.
        timer: bool,
    },
    /// I: it was put into a scheduler's queue.
    Insert,
    /// X: it was cut in two; sector and bytes are the first part's (tracefs) or what the kernel saw (blktrace).
    Split {
        /// First sector of the second part.
        new_sector: u64,
    },
    /// B: its pages were copied to where the device reaches them (kernels before 6.0).
    Bounce,
    /// A: it came from another device (a partition, a volume).
    Remap {
        /// That device.
        from: Device,
        /// The sector there.
        from_sector: u64,
    },
    /// It was aborted.
    Abort,
    /// An action that this program does not know.
    Other(u16),
}

/// One event of the block layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct BlockEvent {
    /// `CLOCK_MONOTONIC` of the traced machine. tracefs prints whole microseconds.
    pub time_ns: u64,
    /// Number of the event on its CPU; 0 where the recorder does not number them.
    pub sequence: u32,
    /// The CPU that recorded it.
    pub cpu: u32,
    /// The thread that ran when it was recorded; at a completion that is the interrupted thread.
    pub pid: u32,
    /// The device.
    pub device: Device,
    /// What happened.
    pub action: Action,
    /// What the request moves.
    pub direction: Direction,
    /// Its modifiers.
    pub flags: Flags,
    /// First sector.
    pub sector: u64,
    /// Bytes.
    pub bytes: u64,
    /// Error of a completion, a positive errno; 0 for success.
    pub error: u32,
}

impl BlockEvent {
    /// The sector after the last one.
    pub fn end_sector(&self) -> u64 {
        self.sector.saturating_add(self.bytes / SECTOR_BYTES)
    }

    /// A flush of the device's cache that carries no data.
    pub fn is_empty_flush(&self) -> bool {
        self.bytes == 0 && self.flags.contains(Flags::FLUSH)
    }
}
