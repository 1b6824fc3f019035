//! Writing records.

use super::record::{ByteOrder, CATEGORY_SHIFT, MAGIC, Version, category};
use crate::event::{Action, BlockEvent, Direction, Flags};

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

    /// Appends the record that holds a message.
    pub fn message(self, at: &BlockEvent, text: &str, out: &mut Vec<u8>) {
        self.record(at, category::NOTIFY << CATEGORY_SHIFT | 2, text.as_bytes(), out);
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
