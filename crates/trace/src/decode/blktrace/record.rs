//! The form of one record.
//!
//! Version 7 is `struct blk_io_trace`, 48 bytes; version 8 (Linux 6.19) is `struct blk_io_trace2`, 64 bytes, with
//! the action widened to 64 bits for zoned devices. Both are followed by `pdu_len` bytes that belong to the action.

use crate::event::{Action, BlockEvent, Device, Direction, Flags};

/// `BLK_IO_TRACE_MAGIC`; the lowest byte of the word in a record is the version.
const MAGIC: u32 = 0x6561_7400;

/// Bytes of the longest header.
pub(super) const LONGEST_HEADER: usize = 64;

/// Bytes of a header of version 7.
pub(super) const USUAL_BYTES: usize = 48;

/// How a record of version 7 in little-endian order begins.
pub(super) const USUAL_MAGIC: [u8; 4] = (MAGIC | 7).to_le_bytes();

/// `__BLK_TA_CGROUP`: the data after the record begins with the 8 bytes of a cgroup's number.
const CGROUP: u16 = 1 << 8;
const CGROUP_BYTES: usize = 8;
const CATEGORY_SHIFT: u32 = 16;

/// `enum blktrace_cat`.
mod category {
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
    let of = |word: u32| match word.wrapping_sub(MAGIC) {
        7 => Some(Version::V7),
        8 => Some(Version::V8),
        _ => None,
    };
    let little = of(u32::from_le_bytes(word)).map(|version| (ByteOrder::Little, version));
    little.or_else(|| of(u32::from_be_bytes(word)).map(|version| (ByteOrder::Big, version)))
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

/// What a record is about.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Meaning<'a> {
    /// A block event.
    Event(BlockEvent),
    /// The name of a thread.
    Process { name: &'a [u8] },
    /// The wall clock at the record's time.
    Clock { realtime_ns: u64 },
    /// Something else that is no request: a message of a driver or scheduler, a driver's own data.
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

    /// Reads a header of version 7 in little-endian order, which nearly all are.
    #[inline]
    pub fn decode_usual(bytes: &[u8; USUAL_BYTES]) -> Self {
        let u16_at = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let u32_at = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let u64_at = |at: usize| u64::from(u32_at(at)) | (u64::from(u32_at(at + 4)) << 32);
        Self {
            sequence: u32_at(4),
            time_ns: u64_at(8),
            sector: u64_at(16),
            bytes: u32_at(24),
            action: u64::from(u32_at(28)),
            pid: u32_at(32),
            device: u32_at(36),
            cpu: u32_at(40),
            error: u16_at(44),
            pdu_bytes: u16_at(46),
        }
    }

    /// Whether the record is a block event rather than a notification or a driver's own data.
    #[inline]
    pub fn is_event(&self) -> bool {
        (self.action >> CATEGORY_SHIFT) & (category::NOTIFY | category::DRIVER_DATA) == 0
    }

    /// The event, if the record is one; `pdu` is the data after the header.
    #[inline]
    pub fn usual_event(&self, pdu: &[u8]) -> BlockEvent {
        let kind = (self.action & 0xffff) as u16;
        let pdu = if kind & CGROUP != 0 { pdu.get(CGROUP_BYTES..).unwrap_or(&[]) } else { pdu };
        self.event(self.action >> CATEGORY_SHIFT, action(kind & !CGROUP, pdu))
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

    #[inline]
    fn event(&self, categories: u64, action: Action) -> BlockEvent {
        let has = |bit: u64| categories & bit != 0;
        let direction = if has(category::DISCARD) {
            Direction::Discard
        } else if self.bytes == 0 && has(category::FLUSH) {
            Direction::None
        } else if has(category::WRITE) {
            Direction::Write
        } else if self.bytes > 0 {
            Direction::Read
        } else {
            Direction::None
        };
        let flags = Flags::default()
            .with(Flags::FLUSH, has(category::FLUSH))
            .with(Flags::FUA, has(category::FUA))
            .with(Flags::SYNC, has(category::SYNC))
            .with(Flags::META, has(category::META))
            .with(Flags::AHEAD, has(category::AHEAD))
            .with(Flags::PASSTHROUGH, has(category::PC));
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
            // The kernel stores a negative errno in an unsigned field.
            error: u32::from((self.error as i16).unsigned_abs()),
        }
    }
}

/// `enum blktrace_act`; numbers in the data after the record are big-endian on every machine.
#[inline]
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
        _ => Meaning::Remark,
    }
}

/// Writes records as the kernel would; for tests, and to turn other traces into ones that blkparse reads.
#[derive(Clone, Copy, Debug)]
pub struct Encoder {
    /// Order of the bytes.
    pub order: ByteOrder,
    /// Form of the records.
    pub version: Version,
}

impl Encoder {
    /// Appends the record of an event.
    ///
    /// What a record cannot hold is cut off: bytes above 32 bits, errors above 15 bits.
    pub fn event(self, event: &BlockEvent, out: &mut Vec<u8>) {
        let (kind, pdu) = kind_and_pdu(&event.action);
        self.record(event, categories(event) << CATEGORY_SHIFT | u64::from(kind), &pdu, out);
    }

    /// Appends the record that names a thread.
    pub fn process(self, at: &BlockEvent, name: &str, out: &mut Vec<u8>) {
        let mut pdu = [0; 16];
        for (to, from) in pdu.iter_mut().take(15).zip(name.bytes()) {
            *to = from;
        }
        self.record(at, category::NOTIFY << CATEGORY_SHIFT, &pdu, out);
    }

    /// Appends the record that holds the wall clock.
    pub fn clock(self, at: &BlockEvent, realtime_ns: u64, out: &mut Vec<u8>) {
        let mut pdu = Vec::new();
        self.u32((realtime_ns / 1_000_000_000) as u32, &mut pdu);
        self.u32((realtime_ns % 1_000_000_000) as u32, &mut pdu);
        self.record(at, category::NOTIFY << CATEGORY_SHIFT | 1, &pdu, out);
    }

    fn record(self, e: &BlockEvent, action: u64, pdu: &[u8], out: &mut Vec<u8>) {
        let error = (e.error.min(i16::MAX as u32) as i16).wrapping_neg() as u16;
        let (bytes, device) = (e.bytes as u32, e.device.to_kernel());
        self.u32(MAGIC | if self.version == Version::V7 { 7 } else { 8 }, out);
        self.u32(e.sequence, out);
        self.u64(e.time_ns, out);
        self.u64(e.sector, out);
        self.u32(bytes, out);
        if self.version == Version::V7 {
            self.u32(action as u32, out);
            self.u32(e.pid, out);
        } else {
            self.u32(e.pid, out);
            self.u64(action, out);
        }
        self.u32(device, out);
        self.u32(e.cpu, out);
        self.u16(error, out);
        self.u16(pdu.len() as u16, out);
        if self.version == Version::V8 {
            out.extend([0; 12]);
        }
        out.extend(pdu);
    }

    fn u16(self, n: u16, out: &mut Vec<u8>) {
        out.extend(if self.order == ByteOrder::Little { n.to_le_bytes() } else { n.to_be_bytes() });
    }

    fn u32(self, n: u32, out: &mut Vec<u8>) {
        out.extend(if self.order == ByteOrder::Little { n.to_le_bytes() } else { n.to_be_bytes() });
    }

    fn u64(self, n: u64, out: &mut Vec<u8>) {
        out.extend(if self.order == ByteOrder::Little { n.to_le_bytes() } else { n.to_be_bytes() });
    }
}

fn categories(event: &BlockEvent) -> u64 {
    let flag = |flag: Flags, bit: u64| if event.flags.contains(flag) { bit } else { 0 };
    let direction = match event.direction {
        Direction::Read => category::READ,
        Direction::Write => category::WRITE,
        Direction::Discard => category::WRITE | category::DISCARD,
        Direction::None => 0,
    };
    let of_action = match event.action {
        Action::Requeue => category::REQUEUE,
        Action::Issue => category::ISSUE,
        Action::Complete => category::COMPLETE,
        Action::Split { .. } | Action::Bounce => 0,
        _ => category::QUEUE,
    };
    let kind = if event.flags.contains(Flags::PASSTHROUGH) { category::PC } else { category::FS };
    direction
        | of_action
        | kind
        | flag(Flags::FLUSH, category::FLUSH)
        | flag(Flags::FUA, category::FUA)
        | flag(Flags::SYNC, category::SYNC)
        | flag(Flags::META, category::META)
        | flag(Flags::AHEAD, category::AHEAD)
}

fn kind_and_pdu(action: &Action) -> (u16, Vec<u8>) {
    let number = |n: u64| n.to_be_bytes().to_vec();
    match *action {
        Action::Queue => (1, vec![]),
        Action::BackMerge => (2, vec![]),
        Action::FrontMerge => (3, vec![]),
        Action::GetRequest => (4, vec![]),
        Action::Sleep => (5, vec![]),
        Action::Requeue => (6, vec![]),
        Action::Issue => (7, vec![]),
        Action::Complete => (8, vec![]),
        Action::Plug => (9, vec![]),
        Action::Unplug { requests, timer } => (if timer { 11 } else { 10 }, number(u64::from(requests))),
        Action::Insert => (12, vec![]),
        Action::Split { new_sector } => (13, number(new_sector)),
        Action::Bounce => (14, vec![]),
        Action::Remap { from, from_sector } => {
            let mut pdu = from.to_kernel().to_be_bytes().to_vec();
            pdu.extend([0; 4]);
            pdu.extend(from_sector.to_be_bytes());
            (15, pdu)
        }
        Action::Abort => (16, vec![]),
        Action::Other(kind) => (kind, vec![]),
    }
}
