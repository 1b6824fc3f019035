//! What is to be replayed, without any I/O: the requests of one device of a trace, in the order in which they are to be
//! sent, with the times at which they were.

mod builder;
mod fit;
mod in_flight;
mod read;
mod requests;
mod sources;
#[cfg(test)]
mod tests;

pub use builder::PlanBuilder;
pub use fit::{Fit, Fitted};
pub use read::{read_plan, read_trace};

use std::fmt;

use nestor_trace::Operation;
use nestor_trace::event::{Device, Flags, SECTOR_BYTES};
use serde::{Deserialize, Serialize};

use crate::error::ReplayError;
use crate::order::{Depth, Span, depth};
use crate::speed::Speed;

/// The longest request with data that is replayed. Linux moves at most 2 GiB with one call (`MAX_RW_COUNT`,
/// `include/linux/fs.h`), and no block device takes as much at once: what is longer is damage.
pub const LONGEST_DATA_BYTES: u64 = 1 << 30;

/// Where in a request's life it is replayed from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// Q: as the layer above handed it over. The target's own block layer merges and schedules again.
    Queued,
    /// D: as it was sent to the driver, merged and scheduled.
    Issued,
}

impl Stage {
    /// blkparse's letter.
    pub fn letter(self) -> char {
        match self {
            Self::Queued => 'Q',
            Self::Issued => 'D',
        }
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Queued => "Q (as queued, before merging)",
            Self::Issued => "D (as issued to the driver)",
        })
    }
}

/// Which of several devices of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SourceDevice {
    /// By its number, as in traces of the block layer.
    Number(Device),
    /// By its name, as in records of requests.
    Name(String),
}

impl SourceDevice {
    /// `8:16` is a number, everything else a name.
    pub fn parse(text: &str) -> Self {
        let number = |part: &str| part.parse().ok();
        text.split_once(':')
            .and_then(|(major, minor)| Some(Device { major: number(major)?, minor: number(minor)? }))
            .map_or_else(|| Self::Name(text.to_owned()), Self::Number)
    }
}

impl fmt::Display for SourceDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(device) => device.fmt(f),
            Self::Name(name) => f.write_str(name),
        }
    }
}

/// What of a trace is to be replayed.
#[derive(Clone, Debug, Default)]
pub struct PlanOptions {
    /// Q or D; without it Q where the trace has any.
    pub from: Option<Stage>,
    /// Of which device; needed only where the trace is of several.
    pub device: Option<SourceDevice>,
    /// Also what gives back or zeroes sectors; else it is counted and left out.
    pub discards: bool,
}

/// One request to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlannedRequest {
    /// When, after the first one.
    pub time_ns: u64,
    /// When it was complete in the trace, after the first request's time; `None` where the trace does not tell.
    pub completed_ns: Option<u64>,
    /// First sector of [`SECTOR_BYTES`].
    pub sector: u64,
    /// Sectors; 0 for a flush.
    pub sectors: u32,
    /// What it asks for.
    pub operation: Operation,
    /// Its modifiers. [`Flags::FLUSH`] of a write: flush first. [`Flags::FUA`]: on the medium before completion.
    pub flags: Flags,
}

impl PlannedRequest {
    /// Bytes that it moves, gives back or zeroes.
    pub fn bytes(&self) -> u64 {
        u64::from(self.sectors) * SECTOR_BYTES
    }

    /// Where it begins, in bytes.
    pub fn offset(&self) -> u64 {
        self.sector.saturating_mul(SECTOR_BYTES)
    }

    /// The sector after its last one.
    pub fn end_sector(&self) -> u64 {
        self.sector.saturating_add(u64::from(self.sectors))
    }

    /// A write before which the device's cache is to be flushed.
    pub fn flushes_first(&self) -> bool {
        self.operation == Operation::Write && self.flags.contains(Flags::FLUSH)
    }

    /// A write that must be on the medium before completion.
    pub fn is_fua(&self) -> bool {
        self.operation == Operation::Write && self.flags.contains(Flags::FUA)
    }

    /// How long it took in the trace.
    pub fn original_latency_ns(&self) -> Option<u64> {
        self.completed_ns.map(|completed_ns| completed_ns.saturating_sub(self.time_ns))
    }
}

/// What of the trace is not in the plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    /// Discards and writes of zeroes, which were not asked for.
    pub discards: u64,
    /// Their bytes.
    pub discard_bytes: u64,
    /// Requests with sectors or sizes that no device has.
    pub impossible: u64,
    /// Commands passed through to the device (`SG_IO` and its like).
    pub passthrough: u64,
    /// Q events of the rest of a split bio, which was queued whole before (kernels before 4.12 tell of both).
    pub split_rests: u64,
    /// D events of requests that the driver had given back and got again.
    pub requeued: u64,
}

/// The requests of one device of a trace, in the order in which they are sent.
#[derive(Clone, Debug, PartialEq)]
pub struct ReplayPlan {
    /// The trace, in words.
    pub trace: String,
    /// The device of the trace.
    pub device: String,
    /// Where in their lives.
    pub stage: Stage,
    /// By time; those of one moment in the order of the trace.
    pub requests: Vec<PlannedRequest>,
    /// Whether the trace says when requests came; without it only `Speed::Max` makes sense.
    pub timed: bool,
    /// What is not in it.
    pub left_out: LeftOut,
    /// What was done to place it on a target.
    pub fitted: Fitted,
    /// What belongs beside the result.
    pub remarks: Vec<String>,
}

/// A plan in numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlanStatistics {
    /// All requests.
    pub requests: u64,
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Flushes without data.
    pub flushes: u64,
    /// Discards.
    pub discards: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub write_bytes: u64,
    /// Bytes given back or zeroed.
    pub discard_bytes: u64,
    /// Writes before which the cache is flushed.
    pub flushes_first: u64,
    /// Writes that must be on the medium before completion.
    pub fua: u64,
    /// From the first to the last request.
    pub duration_ns: u64,
    /// Bytes that a target needs.
    pub span_bytes: u64,
    /// Requests in flight in the trace, of those whose completion is in it.
    pub depth: Option<Depth>,
    /// Requests whose completion is in the trace.
    pub completed: u64,
}

impl ReplayPlan {
    /// # Errors
    /// The trace does not say when requests came, and they are not to be sent as fast as possible.
    pub fn require_times(&self, speed: Speed) -> Result<(), ReplayError> {
        if self.timed || speed == Speed::Max {
            return Ok(());
        }
        Err(ReplayError::NoTimes { trace: self.trace.clone() })
    }

    /// # Errors
    /// The trace reaches further than so many bytes.
    pub fn require_room(&self, target_bytes: u64) -> Result<(), ReplayError> {
        let span_bytes = self.span_bytes();
        if span_bytes <= target_bytes {
            return Ok(());
        }
        Err(ReplayError::TooSmall { span_bytes, target_bytes })
    }

    /// Whether anything on the target changes.
    pub fn writes(&self) -> bool {
        self.requests.iter().any(|r| matches!(r.operation, Operation::Write | Operation::Discard))
    }

    /// Bytes from the beginning of the target to the end of the farthest request.
    pub fn span_bytes(&self) -> u64 {
        self.requests.iter().map(PlannedRequest::end_sector).max().unwrap_or(0).saturating_mul(SECTOR_BYTES)
    }

    /// Counts.
    pub fn statistics(&self) -> PlanStatistics {
        let mut s = PlanStatistics {
            requests: self.requests.len() as u64,
            reads: 0,
            writes: 0,
            flushes: 0,
            discards: 0,
            read_bytes: 0,
            write_bytes: 0,
            discard_bytes: 0,
            flushes_first: 0,
            fua: 0,
            duration_ns: self.requests.last().map_or(0, |r| r.time_ns),
            span_bytes: self.span_bytes(),
            depth: None,
            completed: 0,
        };
        for request in &self.requests {
            match request.operation {
                Operation::Read => {
                    s.reads += 1;
                    s.read_bytes = s.read_bytes.saturating_add(request.bytes());
                }
                Operation::Write => {
                    s.writes += 1;
                    s.write_bytes = s.write_bytes.saturating_add(request.bytes());
                }
                Operation::Flush => s.flushes += 1,
                Operation::Discard => {
                    s.discards += 1;
                    s.discard_bytes = s.discard_bytes.saturating_add(request.bytes());
                }
            }
            s.flushes_first += u64::from(request.flushes_first());
            s.fua += u64::from(request.is_fua());
            s.completed += u64::from(request.completed_ns.is_some());
        }
        s.depth = depth(self.requests.iter().filter_map(|r| {
            r.completed_ns.map(|completed_ns| Span { from_ns: r.time_ns, to_ns: completed_ns })
        }));
        s
    }
}
