//! The form of the log's header and records.

use nestor_log::{Cursor, Fields, Head};
use serde::{Deserialize, Serialize};

use super::fault::LogFault;

/// Bytes of a log's header.
pub const HEADER_BYTES: usize = 128;
/// Bytes of a log's record.
pub const RECORD_BYTES: usize = 96;

/// What a log begins with.
pub const HEAD: Head = Head {
    magic: b"NSTRDLOG",
    name: "the request log of a modelled disk",
    remedy: "record the log again",
    version: 1,
    header_bytes: HEADER_BYTES,
    record_bytes: RECORD_BYTES,
};
const CLOCK_MONOTONIC: u32 = 1;
const NAME_BYTES: usize = 64;

const FLAG_CACHE_HIT: u8 = 1;
const FLAG_TIMED: u8 = 2;
const FLAG_FAILED: u8 = 4;

/// What a log says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// Name of the disk's profile; at most 64 bytes are kept.
    pub disk: String,
    /// `CLOCK_MONOTONIC` of the disk's machine when the log was opened; the clock of all times in the log.
    pub opened_ns: u64,
    /// Sectors (of 512 bytes) that the disk offers.
    pub sectors: u64,
    /// Position of sector 0 on the modelled medium, in sectors.
    pub first_sector: u64,
    /// Records written; 0 if the log was never closed.
    pub records: u64,
    /// Requests that are missing because the writer could not keep up; 0 if the log was never closed.
    pub dropped: u64,
}

/// What a request asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Operation {
    /// Data from the medium.
    Read,
    /// Data to the medium.
    Write,
    /// Everything written before onto the medium.
    Flush,
    /// Sectors that are not needed any more.
    Discard,
    /// Zeroes onto the medium.
    WriteZeroes,
}

/// One request. All times are nanoseconds of [`Header::opened_ns`]'s clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Number of the request in the order of arrival, from 0 at the start of the server.
    pub sequence: u64,
    /// What was asked for.
    pub operation: Operation,
    /// First sector (of 512 bytes); 0 for a flush.
    pub sector: u64,
    /// Number of sectors; 0 for a flush.
    pub sectors: u32,
    /// The virtqueue it came from.
    pub queue: u16,
    /// Requests of all queues that had arrived and were not complete, this one included.
    pub queue_depth: u16,
    /// When it was taken from the ring.
    pub arrival_ns: u64,
    /// When the modelled disk began with it.
    pub service_start_ns: u64,
    /// When its completion was put into the ring.
    pub complete_ns: u64,
    /// When the model completed it; `complete_ns` is later by what the server adds.
    pub model_complete_ns: u64,
    /// Of the service (start to model completion): moving the arm.
    pub seek_ns: u64,
    /// Of the service: waiting for the sector to come round.
    pub rotation_ns: u64,
    /// Of the service: moving data between platter or flash and buffer, track switches included.
    pub transfer_ns: u64,
    /// Of the service: everything else (command, interface, cache look-up). The four parts add up to the service.
    pub overhead_ns: u64,
    /// Answered from the disk's own cache or taken into it.
    pub cache_hit: bool,
    /// The timing model was on; otherwise all model times are the server's own.
    pub timed: bool,
    /// It was answered with an error.
    pub failed: bool,
}

impl Record {
    /// From arrival to posted completion.
    pub fn latency_ns(&self) -> u64 {
        self.complete_ns.saturating_sub(self.arrival_ns)
    }

    /// From arrival to the completion that the model computed.
    pub fn model_latency_ns(&self) -> u64 {
        self.model_complete_ns.saturating_sub(self.arrival_ns)
    }

    /// Waiting in the disk's queue.
    pub fn queue_ns(&self) -> u64 {
        self.service_start_ns.saturating_sub(self.arrival_ns)
    }

    /// The record as it is in the log.
    pub fn encode(&self) -> [u8; RECORD_BYTES] {
        let mut out = Fields::<RECORD_BYTES>::default();
        out.u64(self.sequence);
        out.u64(self.sector);
        out.u32(self.sectors);
        out.u16(self.queue);
        out.u16(self.queue_depth);
        out.put(&[self.operation.code()]);
        let flag = |set: bool, bit: u8| if set { bit } else { 0 };
        out.put(&[flag(self.cache_hit, FLAG_CACHE_HIT)
            | flag(self.timed, FLAG_TIMED)
            | flag(self.failed, FLAG_FAILED)]);
        out.put(&[0; 6]);
        for time_ns in [
            self.arrival_ns,
            self.service_start_ns,
            self.complete_ns,
            self.model_complete_ns,
            self.seek_ns,
            self.rotation_ns,
            self.transfer_ns,
            self.overhead_ns,
        ] {
            out.u64(time_ns);
        }
        out.finish()
    }

    /// Reads a record.
    ///
    /// # Errors
    /// Says what is wrong with the bytes: an operation or a flag that does not exist.
    pub fn decode(bytes: &[u8; RECORD_BYTES]) -> Result<Self, LogFault> {
        let mut from = Cursor::at(bytes, 0);
        let (sequence, sector) = (from.u64(), from.u64());
        let sectors = from.u32();
        let (queue, queue_depth) = (from.u16(), from.u16());
        let (operation, flags) = (from.u8(), from.u8());
        from.skip(6);
        let operation = Operation::from_code(operation).ok_or(LogFault::Operation(operation))?;
        if flags & !(FLAG_CACHE_HIT | FLAG_TIMED | FLAG_FAILED) != 0 {
            return Err(LogFault::Flags(flags));
        }
        Ok(Self {
            sequence,
            operation,
            sector,
            sectors,
            queue,
            queue_depth,
            arrival_ns: from.u64(),
            service_start_ns: from.u64(),
            complete_ns: from.u64(),
            model_complete_ns: from.u64(),
            seek_ns: from.u64(),
            rotation_ns: from.u64(),
            transfer_ns: from.u64(),
            overhead_ns: from.u64(),
            cache_hit: flags & FLAG_CACHE_HIT != 0,
            timed: flags & FLAG_TIMED != 0,
            failed: flags & FLAG_FAILED != 0,
        })
    }
}

impl Operation {
    fn code(self) -> u8 {
        match self {
            Self::Read => 0,
            Self::Write => 1,
            Self::Flush => 2,
            Self::Discard => 3,
            Self::WriteZeroes => 4,
        }
    }

    fn from_code(code: u8) -> Option<Self> {
        [Self::Read, Self::Write, Self::Flush, Self::Discard, Self::WriteZeroes]
            .get(usize::from(code))
            .copied()
    }
}

impl Header {
    /// The header as it is in the log.
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut out = Fields::<HEADER_BYTES>::default();
        HEAD.put(&mut out);
        out.u32(CLOCK_MONOTONIC);
        for field in [self.opened_ns, self.sectors, self.first_sector, self.records, self.dropped] {
            out.u64(field);
        }
        out.put(&self.disk.as_bytes()[..self.disk.floor_char_boundary(NAME_BYTES)]);
        out.finish()
    }

    /// Reads a header.
    ///
    /// # Errors
    /// The offset of the wrong field, and the mistake.
    pub fn decode(bytes: &[u8; HEADER_BYTES]) -> Result<Self, (u64, LogFault)> {
        let mut from = HEAD
            .check(bytes)
            .and_then(|mut from| HEAD.expect(&mut from, "clock", CLOCK_MONOTONIC).map(|()| from))
            .map_err(|(offset, fault)| (offset, fault.into()))?;
        let (opened_ns, sectors, first_sector) = (from.u64(), from.u64(), from.u64());
        let (records, dropped) = (from.u64(), from.u64());
        let at = from.offset() as u64;
        let disk = from.name(NAME_BYTES).ok_or((at, LogFault::Name))?.to_owned();
        Ok(Self { disk, opened_ns, sectors, first_sector, records, dropped })
    }
}
