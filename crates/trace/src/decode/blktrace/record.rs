//! The form of one record.
//!
//! Version 7 is `struct blk_io_trace`, 48 bytes; version 8 (Linux 6.19) is `struct blk_io_trace2`, 64 bytes, with
//! the action widened to 64 bits for zoned devices. Both are followed by `pdu_len` bytes that belong to the action.

use crate::event::{Action, BlockEvent, Device, Direction, Flags};

/// `BLK_IO_TRACE_MAGIC`; the lowest byte of the word in a record is the version.
pub(super) const MAGIC: u32 = 0x6561_7400;

/// Bytes of the longest header.
pub(super) const LONGEST_HEADER: usize = 64;

/// Bytes of a header of version 7.
pub(super) const USUAL_BYTES: usize = 48;

/// `__BLK_TA_CGROUP`: the data after the record begins with the 8 bytes of a cgroup's number.
const CGROUP: u16 = 1 << 8;
const CGROUP_BYTES: usize = 8;
/// Categories stand above the kind in the action.
pub(super) const CATEGORY_SHIFT: u32 = 16;

/// `enum blktrace_cat`.
pub(super) mod category {
    pub const WRITE: u64 = 1 << 1;
    pub const FLUSH: u64 = 1 << 2;
    pub const SYNC: u64 = 1 << 3;
    pub const QUEUE: u64 = 1 << 4;
    pub const REQUEUE: u64 = 1 << 5;
    pub const ISSUE: u64 = 1 << 6;
    pub const COMPLETE: u64 = 1 << 7;
    pub const FS: u64 = 1 << 8;
    pub const PC: u64 = 1 << 9;
    pub const NOTIFY: u64 = 1 << 10;
    pub const AHEAD: u64 = 1 << 11;
    pub const META: u64 = 1 << 12;
    pub const DISCARD: u64 = 1 << 13;
    pub const DRIVER_DATA: u64 = 1 << 14;
    pub const FUA: u64 = 1 << 15;
    pub const READ: u64 = 1;
}

/// Order of the bytes in a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByteOrder {
    /// Least significant first (x86, arm64, riscv64, ppc64le).
    Little,
    /// Most significant first (s390x, older POWER).
    Big,
}

/// Version of a record's form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// `struct blk_io_trace`.
    V7,
    /// `struct blk_io_trace2`.
    V8,
}

impl Version {
    /// Bytes before the data that belong to the action.
    pub fn header_bytes(self) -> usize {
        match self {
            Self::V7 => USUAL_BYTES,
            Self::V8 => LONGEST_HEADER,
        }
    }
}

/// The first four bytes of a record, if they are that.
pub(super) fn recognise(word: [u8; 4]) -> Option<(ByteOrder, Version)> {
    let version = |word: u32| match word.wrapping_sub(MAGIC) {
        7 => Some(Version::V7),
        8 => Some(Version::V8),
        _ => None,
    };
    let little = version(u32::from_le_bytes(word)).map(|found| (ByteOrder::Little, found));
    little.or_else(|| version(u32::from_be_bytes(word)).map(|found| (ByteOrder::Big, found)))
}

/// A record's header with its numbers in this machine's order.
#[derive(Clone, Copy, Debug)]
pub(super) struct Header {
    pub sequence: u32,
    pub time_ns: u64,
    pub sector: u64,
    pub bytes: u32,
    pub action: u64,
    pub pid: u32,
    pub device: u32,
    pub cpu: u32,
    pub error: u16,
    pub pdu_bytes: u16,
}

/// `struct blk_io_trace` as it is in the file of a little-endian machine, which nearly all are. Its numbers are read
/// in place on demand.
#[derive(Clone, Copy)]
pub(super) struct UsualHeader<'a>(&'a [u8; USUAL_BYTES]);

impl<'a> UsualHeader<'a> {
    /// The header at the beginning of some bytes; `None` if there is something else, or no event.
    #[inline(always)]
    pub fn of(bytes: &'a [u8]) -> Option<Self> {
        const OTHERS: u32 = ((category::NOTIFY | category::DRIVER_DATA) << CATEGORY_SHIFT) as u32;
        let header = Self(bytes.first_chunk::<USUAL_BYTES>()?);
        (header.u32::<0>() == MAGIC | 7 && header.kind_and_categories() & OTHERS == 0).then_some(header)
    }

    #[inline(always)]
    fn u16<const AT: usize>(self) -> u16 {
        u16::from_le_bytes([self.0[AT], self.0[AT + 1]])
    }

    #[inline(always)]
    fn u32<const AT: usize>(self) -> u32 {
        u32::from_le_bytes(self.0[AT..AT + 4].try_into().expect("four bytes"))
    }

    #[inline(always)]
    fn u64<const AT: usize>(self) -> u64 {
        u64::from_le_bytes(self.0[AT..AT + 8].try_into().expect("eight bytes"))
    }

    #[inline(always)]
    fn kind_and_categories(self) -> u32 {
        self.u32::<28>()
    }

    /// Bytes after the header.
    #[inline(always)]
    pub fn pdu_bytes(self) -> usize {
        usize::from(self.u16::<46>())
    }

    /// When it happened.
    #[inline(always)]
    pub fn time_ns(self) -> u64 {
        self.u64::<8>()
    }

    /// The number of the event at its recorder.
    #[inline(always)]
    pub fn sequence(self) -> u32 {
        self.u32::<4>()
    }

    /// The recorder: the kernel's number of the device, and the CPU.
    #[inline(always)]
    pub fn recorder(self) -> (u32, u32) {
        (self.u32::<36>(), self.u32::<40>())
    }

    /// Whether the kind alone does not say what the action is.
    #[inline(always)]
    pub fn has_data(self) -> bool {
        let kind = self.kind_and_categories() as u16;
        usize::from(kind) >= PLAIN.len() || NOT_PLAIN & (1 << kind) != 0
    }

    /// The action; `pdu` is the data after the header.
    pub fn action_with_data(self, pdu: &[u8]) -> Action {
        action_with_data(self.kind_and_categories() as u16, pdu)
    }

    /// The event; where the kind does not say what its action is, that is still to be set.
    #[inline(always)]
    pub fn event(self) -> BlockEvent {
        let action = PLAIN[self.kind_and_categories() as usize % PLAIN.len()];
        let (categories, bytes) = (self.kind_and_categories() >> CATEGORY_SHIFT, self.u32::<24>());
        let (direction, flags) = direction_and_flags(u64::from(categories), bytes);
        let (device, cpu) = self.recorder();
        BlockEvent {
            time_ns: self.time_ns(),
            sequence: self.sequence(),
            cpu,
            pid: self.u32::<32>(),
            device: Device::from_kernel(device),
            action,
            direction,
            flags,
            sector: self.u64::<16>(),
            bytes: u64::from(bytes),
            error: errno(self.u16::<44>()),
        }
    }
}

/// What a record is about.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Meaning<'a> {
    /// A block event.
    Event(BlockEvent),
    /// The name of a thread.
    Process { name: &'a [u8] },
    /// The wall clock at the record's time.
    Clock { realtime_ns: u64 },
    /// A message of a driver, a scheduler or a user.
    Message,
    /// Something else than a request: a driver's own data.
    Remark,
}

struct Numbers<'a> {
    bytes: &'a [u8],
    order: ByteOrder,
}

impl Numbers<'_> {
    fn u16(&self, at: usize) -> u16 {
        let b = [self.bytes[at], self.bytes[at + 1]];
        if self.order == ByteOrder::Little { u16::from_le_bytes(b) } else { u16::from_be_bytes(b) }
    }

    fn u32(&self, at: usize) -> u32 {
        let b = self.bytes[at..at + 4].try_into().expect("four bytes");
        if self.order == ByteOrder::Little { u32::from_le_bytes(b) } else { u32::from_be_bytes(b) }
    }

    fn u64(&self, at: usize) -> u64 {
        let b = self.bytes[at..at + 8].try_into().expect("eight bytes");
        if self.order == ByteOrder::Little { u64::from_le_bytes(b) } else { u64::from_be_bytes(b) }
    }
}

impl Header {
    /// Reads a header from at least [`Version::header_bytes`] bytes.
    pub fn decode(bytes: &[u8], order: ByteOrder, version: Version) -> Self {
        let from = Numbers { bytes, order };
        let (action, pid, device) = match version {
            Version::V7 => (u64::from(from.u32(28)), from.u32(32), from.u32(36)),
            Version::V8 => (from.u64(32), from.u32(28), from.u32(40)),
        };
        let (cpu, error, pdu_bytes) = match version {
            Version::V7 => (from.u32(40), from.u16(44), from.u16(46)),
            Version::V8 => (from.u32(44), from.u16(48), from.u16(50)),
        };
        Self {
            sequence: from.u32(4),
            time_ns: from.u64(8),
            sector: from.u64(16),
            bytes: from.u32(24),
            action,
            pid,
            device,
            cpu,
            error,
            pdu_bytes,
        }
    }

    /// Says what the record is about; `pdu` is the data after the header.
    pub fn meaning<'a>(&self, pdu: &'a [u8], order: ByteOrder) -> Meaning<'a> {
        let categories = self.action >> CATEGORY_SHIFT;
        let kind = (self.action & 0xffff) as u16;
        let pdu = if kind & CGROUP != 0 { pdu.get(CGROUP_BYTES..).unwrap_or(&[]) } else { pdu };
        let kind = kind & !CGROUP;
        if categories & category::NOTIFY != 0 {
            return notification(kind, pdu, order);
        }
        if categories & category::DRIVER_DATA != 0 {
            return Meaning::Remark;
        }
        Meaning::Event(self.event(categories, action(kind, pdu)))
    }

    fn event(&self, categories: u64, action: Action) -> BlockEvent {
        let (direction, flags) = direction_and_flags(categories, self.bytes);
        BlockEvent {
            time_ns: self.time_ns,
            sequence: self.sequence,
            cpu: self.cpu,
            pid: self.pid,
            device: Device::from_kernel(self.device),
            action,
            direction,
            flags,
            sector: self.sector,
            bytes: u64::from(self.bytes),
            error: errno(self.error),
        }
    }
}

/// Errors are stored as a negative errno in an unsigned field.
#[inline(always)]
fn errno(error: u16) -> u32 {
    u32::from((error as i16).unsigned_abs())
}

#[inline(always)]
fn direction_and_flags(categories: u64, bytes: u32) -> (Direction, Flags) {
    let [low, high] = [categories as u8, (categories >> 8) as u8].map(usize::from);
    let (low, high) = (&LOW[low], &HIGH[high]);
    // Whether it has data distinguishes a flush from a read.
    let of_low = if bytes == 0 { low.empty } else { low.with_data };
    (if high.is_discard { Direction::Discard } else { of_low }, low.flags.union(high.flags))
}

/// What half of the categories say.
#[derive(Clone, Copy)]
struct Half {
    flags: Flags,
    /// Direction of a record with bytes and of one without.
    with_data: Direction,
    empty: Direction,
    is_discard: bool,
}

/// By the lower eight categories, and by those above: a look-up is faster than a question for each of them.
static LOW: [Half; 256] = halves(0);
static HIGH: [Half; 256] = halves(8);

const fn halves(shift: u32) -> [Half; 256] {
    let none = Half {
        flags: Flags::from_bits(0),
        with_data: Direction::None,
        empty: Direction::None,
        is_discard: false,
    };
    let mut halves = [none; 256];
    let mut bits = 0;
    while bits < halves.len() {
        halves[bits] = half((bits as u64) << shift);
        bits += 1;
    }
    halves
}

const fn half(categories: u64) -> Half {
    const PLACES: [(u64, Flags); 6] = [
        (category::FLUSH, Flags::FLUSH),
        (category::FUA, Flags::FUA),
        (category::SYNC, Flags::SYNC),
        (category::META, Flags::META),
        (category::AHEAD, Flags::AHEAD),
        (category::PC, Flags::PASSTHROUGH),
    ];
    let mut flags = 0;
    let mut place = 0;
    while place < PLACES.len() {
        if categories & PLACES[place].0 != 0 {
            flags |= PLACES[place].1.bits();
        }
        place += 1;
    }
    let writes = categories & category::WRITE != 0;
    let with_data = if writes { Direction::Write } else { Direction::Read };
    let empty = if writes && categories & category::FLUSH == 0 { Direction::Write } else { Direction::None };
    Half { flags: Flags::from_bits(flags), with_data, empty, is_discard: categories & category::DISCARD != 0 }
}

/// Actions by kind, where the kind alone says which it is: a look-up is faster than a question for each of them.
static PLAIN: [Action; 16] = [
    Action::Queue,
    Action::Queue,
    Action::BackMerge,
    Action::FrontMerge,
    Action::GetRequest,
    Action::Sleep,
    Action::Requeue,
    Action::Issue,
    Action::Complete,
    Action::Plug,
    Action::Queue,
    Action::Queue,
    Action::Insert,
    Action::Queue,
    Action::Bounce,
    Action::Queue,
];

/// The kinds for which that is not so (unplugs, splits, remaps), a bit each.
const NOT_PLAIN: u16 = 1 | 1 << 10 | 1 << 11 | 1 << 13 | 1 << 15;

/// The action of a record that may have data after it, of a cgroup or of its own.
fn action_with_data(kind: u16, pdu: &[u8]) -> Action {
    let pdu = if kind & CGROUP != 0 { pdu.get(CGROUP_BYTES..).unwrap_or(&[]) } else { pdu };
    action(kind & !CGROUP, pdu)
}

/// `enum blktrace_act`; numbers in the data after the record are big-endian on every machine.
fn action(kind: u16, pdu: &[u8]) -> Action {
    let be32 = |at: usize| pdu.get(at..at + 4).map(|b| u32::from_be_bytes(b.try_into().expect("four bytes")));
    let be64 =
        |at: usize| pdu.get(at..at + 8).map(|b| u64::from_be_bytes(b.try_into().expect("eight bytes")));
    let requests = || be64(0).unwrap_or(0).try_into().unwrap_or(u32::MAX);
    match kind {
        1 => Action::Queue,
        2 => Action::BackMerge,
        3 => Action::FrontMerge,
        4 => Action::GetRequest,
        5 => Action::Sleep,
        6 => Action::Requeue,
        7 => Action::Issue,
        8 => Action::Complete,
        9 => Action::Plug,
        10 => Action::Unplug { requests: requests(), timer: false },
        11 => Action::Unplug { requests: requests(), timer: true },
        12 => Action::Insert,
        13 => be64(0).map_or(Action::Other(kind), |new_sector| Action::Split { new_sector }),
        14 => Action::Bounce,
        15 => match (be32(0), be64(8)) {
            (Some(from), Some(from_sector)) => Action::Remap { from: Device::from_kernel(from), from_sector },
            _ => Action::Other(kind),
        },
        16 => Action::Abort,
        _ => Action::Other(kind),
    }
}

/// `enum blktrace_notify`.
fn notification(kind: u16, pdu: &[u8], order: ByteOrder) -> Meaning<'_> {
    match kind {
        0 => Meaning::Process { name: pdu },
        1 if pdu.len() >= 8 => {
            let from = Numbers { bytes: pdu, order };
            Meaning::Clock { realtime_ns: u64::from(from.u32(0)) * 1_000_000_000 + u64::from(from.u32(4)) }
        }
        2 => Meaning::Message,
        _ => Meaning::Remark,
    }
}
