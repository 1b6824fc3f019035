//! The form of the log's header and records.

use nestor_log::{Cursor, Fields, Form, Head, LogSummary};
use nestor_ownership::FileKind;
use serde::{Deserialize, Serialize};

use super::fault::FrameLogFault;
use crate::{End, LinkStatistics, Sent};

/// Bytes of a log's header.
pub const HEADER_BYTES: usize = 128;
/// Bytes of a log's record.
pub const RECORD_BYTES: usize = 64;

/// What a log begins with.
pub const HEAD: Head = Head {
    magic: b"NSTRLLOG",
    name: "the frame log of a link",
    remedy: "record the log again",
    version: 1,
    header_bytes: HEADER_BYTES,
    record_bytes: RECORD_BYTES,
};

/// The log of a link.
pub enum FrameLog {}

impl Form for FrameLog {
    type Header = FrameHeader;
    type Record = FrameRecord;

    const FILE: FileKind = FileKind { name: "a frame log", magic: HEAD.magic };
    const NAME: &'static str = "the frame log";
    const THREAD: &'static str = "link-log";

    fn header(header: &FrameHeader, summary: LogSummary) -> Vec<u8> {
        FrameHeader { summary, ..*header }.encode().to_vec()
    }

    fn record(record: &FrameRecord) -> impl AsRef<[u8]> {
        record.encode()
    }
}

/// How a log ended, and what the link had counted then.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogEnd {
    /// What is in the log.
    pub log: LogSummary,
    /// The link's counts at the log's end.
    pub statistics: LinkStatistics,
}

/// The clock of a log's times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LogClock {
    /// `CLOCK_MONOTONIC` of the link's machine.
    Monotonic,
    /// The time that both machines have in common. Their own times at its beginning, in nanoseconds, by [`End::index`].
    Common([u64; 2]),
}

/// What a log says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FrameHeader {
    /// The clock of all times.
    pub clock: LogClock,
    /// The link's rate.
    pub rate_bits_per_s: u64,
    /// Its delay.
    pub delay_ns: u64,
    /// Records in the log and those that are missing; none of both if it was never closed.
    pub summary: LogSummary,
}

/// What became of what a machine sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ended {
    /// The other machine has it.
    Delivered,
    /// It was lost on the wire.
    Lost,
    /// It was on the wire, and the other machine could not be given it.
    Refused,
    /// It is no frame, or there is no other machine, and it never was on the wire.
    NotTaken,
    /// It was on its way when the log ended.
    UnderWay,
}

/// What a machine sent at once: a frame, or a TCP segment that the interface cuts into several. A segment of which frames are lost has a record
/// for each run of frames that are lost, or arrive, one behind the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FrameRecord {
    /// The end that sent it.
    pub from: End,
    /// What became of it.
    pub ended: Ended,
    /// Frames as which it was on the wire.
    pub frames: u32,
    /// Their bytes, without preamble, check sequence and gap.
    pub bytes: u32,
    /// Their bytes with all of that.
    pub wire_bytes: u32,
    /// Of them, the data of TCP segments; 0 of frames that are no TCP over IPv4 or IPv6.
    pub tcp_bytes: u32,
    /// Of that, what its connection had sent before; 0 in logs of earlier versions.
    pub tcp_again_bytes: u32,
    /// When the interface took it.
    pub taken_ns: u64,
    /// When its first bit was on the wire.
    pub begins_ns: u64,
    /// When its last bit was.
    pub leaves_ns: u64,
    /// When that has arrived; 0 if it was lost.
    pub arrives_ns: u64,
    /// When the other machine was given it; 0 if it was not.
    pub delivered_ns: u64,
}

impl FrameRecord {
    /// Waiting in the interface for the frames before.
    pub fn queue_ns(&self) -> u64 {
        self.begins_ns.saturating_sub(self.taken_ns)
    }

    /// From the first bit to the last, the gap behind it included.
    pub fn wire_ns(&self) -> u64 {
        self.leaves_ns.saturating_sub(self.begins_ns)
    }

    /// Whether it was on the wire.
    pub fn was_on_wire(&self) -> bool {
        self.ended != Ended::NotTaken
    }

    /// Adds it to what was counted of the end that sent it, as the link counts.
    pub fn count(&self, sent: &mut Sent) {
        let frames = u64::from(self.frames);
        if self.was_on_wire() {
            sent.frames += frames;
            sent.bytes += u64::from(self.bytes);
        }
        match self.ended {
            Ended::Delivered | Ended::UnderWay => {}
            Ended::Lost => sent.lost += frames,
            Ended::Refused | Ended::NotTaken => sent.refused += frames,
        }
    }

    /// The record as it is in the log.
    pub fn encode(&self) -> [u8; RECORD_BYTES] {
        let mut out = Fields::<RECORD_BYTES>::default();
        out.put(&[self.from.index() as u8, self.ended.code()]);
        out.put(&[0; 2]);
        out.u32(self.tcp_again_bytes);
        for number in [self.frames, self.bytes, self.wire_bytes, self.tcp_bytes] {
            out.u32(number);
        }
        for time_ns in [self.taken_ns, self.begins_ns, self.leaves_ns, self.arrives_ns, self.delivered_ns] {
            out.u64(time_ns);
        }
        out.finish()
    }

    /// Reads a record.
    ///
    /// # Errors
    /// An end or a fate that does not exist.
    pub fn decode(bytes: &[u8; RECORD_BYTES]) -> Result<Self, FrameLogFault> {
        let mut from = Cursor::at(bytes, 0);
        let (end, ended) = (from.u8(), from.u8());
        from.skip(2);
        let tcp_again_bytes = from.u32();
        Ok(Self {
            from: *End::BOTH.get(usize::from(end)).ok_or(FrameLogFault::End(end))?,
            ended: Ended::from_code(ended).ok_or(FrameLogFault::Ended(ended))?,
            frames: from.u32(),
            bytes: from.u32(),
            wire_bytes: from.u32(),
            tcp_bytes: from.u32(),
            tcp_again_bytes,
            taken_ns: from.u64(),
            begins_ns: from.u64(),
            leaves_ns: from.u64(),
            arrives_ns: from.u64(),
            delivered_ns: from.u64(),
        })
    }
}

impl Ended {
    /// In the order of their codes.
    const ALL: [Self; 5] = [Self::Delivered, Self::Lost, Self::Refused, Self::NotTaken, Self::UnderWay];

    fn code(self) -> u8 {
        match self {
            Self::Delivered => 0,
            Self::Lost => 1,
            Self::Refused => 2,
            Self::NotTaken => 3,
            Self::UnderWay => 4,
        }
    }

    fn from_code(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code)).copied()
    }
}

impl FrameHeader {
    /// The header as it is in the log.
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut out = Fields::<HEADER_BYTES>::default();
        let (clock, zeros_ns) = match self.clock {
            LogClock::Monotonic => (0, [0; 2]),
            LogClock::Common(zeros_ns) => (1, zeros_ns),
        };
        HEAD.put(&mut out);
        out.u32(clock);
        let LogSummary { records, dropped } = self.summary;
        let [lower_ns, upper_ns] = zeros_ns;
        for number in [lower_ns, upper_ns, self.rate_bits_per_s, self.delay_ns, records, dropped] {
            out.u64(number);
        }
        out.finish()
    }

    /// Reads a header.
    ///
    /// # Errors
    /// The offset of the wrong field, and the mistake.
    pub fn decode(bytes: &[u8; HEADER_BYTES]) -> Result<Self, (u64, FrameLogFault)> {
        let mut from = HEAD.check(bytes).map_err(|(offset, fault)| (offset, fault.into()))?;
        let offset = from.offset() as u64;
        let (clock, zeros_ns) = (from.u32(), [from.u64(), from.u64()]);
        let clock = match clock {
            0 => LogClock::Monotonic,
            1 => LogClock::Common(zeros_ns),
            other => return Err((offset, FrameLogFault::Clock(other))),
        };
        let (rate_bits_per_s, delay_ns) = (from.u64(), from.u64());
        let summary = LogSummary { records: from.u64(), dropped: from.u64() };
        Ok(Self { clock, rate_bits_per_s, delay_ns, summary })
    }
}

#[cfg(test)]
mod tests;
