//! What a trace says of one layer: the numbers under one `/` of a stack.

mod btt;
mod classes;
mod overview;
mod phase;
mod process;
mod seeks;
mod timeline;

use std::collections::BTreeMap;

use nestor_layout::Class;
use nestor_statistics::LatencyHistogram;
use serde::{Deserialize, Serialize};

pub use nestor_disk::model::{ArmWork, MemberWork};

pub use btt::{BttInterval, BttMetrics, LivePeriods, PlugMetrics};
pub use classes::ClassMetrics;
pub use overview::{Overview, Pattern, Sizes};
pub use phase::Phase;
pub use process::{ProcessIntervals, ProcessMetrics};
pub use seeks::{CDF_STEPS, SeekMetrics};
pub use timeline::Timeline;

/// How the requests of a layer were seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TracePoint {
    /// The workload engine's own record.
    Application,
    /// blktrace records from relay files.
    Blktrace,
    /// The same events from tracefs, where the kernel locks the relay files.
    Tracefs,
    /// The hypervisor's own trace events.
    Hypervisor,
    /// The modelled disk's request log.
    DiskLog,
    /// A modelled link's log of frames.
    LinkLog,
    /// The kernel's trace events of remote procedure calls.
    Calls,
}

/// Counts of one direction (reads, writes, discards) at one trace point.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DirectionMetrics {
    /// Requests as the layer above made them (blktrace Q; the disk's arrivals).
    pub queued: u64,
    /// Their bytes.
    pub queued_bytes: u64,
    /// Requests sent downwards (blktrace D).
    pub issued: u64,
    /// Their bytes.
    pub issued_bytes: u64,
    /// Requests finished (blktrace C).
    pub completed: u64,
    /// Their bytes.
    pub completed_bytes: u64,
    /// Requests merged behind an existing one (blktrace M).
    pub back_merges: u64,
    /// Requests merged before an existing one (blktrace F).
    pub front_merges: u64,
}

/// The numbers of one trace point of a stack, over the measured time only.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LayerMetrics {
    /// How they were recorded.
    pub trace_point: TracePoint,
    /// Reads.
    pub read: DirectionMetrics,
    /// Writes, without flushes that carry no data.
    pub write: DirectionMetrics,
    /// Discards and write-zeroes.
    pub discard: DirectionMetrics,
    /// Cache flushes without data that were sent downwards.
    pub flushes: u64,
    /// Writes sent downwards that had to reach the medium (FUA).
    pub fua_writes: u64,
    /// Requests of the layer above that asked for a flush, alone or before their data. The block layer makes several
    /// into one, and none of them where the device has no cache, so [`Self::flushes`] may be fewer.
    #[serde(default)]
    pub flushes_queued: u64,
    /// Writes of the layer above that asked for FUA; where the device has none, flushes are sent instead.
    #[serde(default)]
    pub fua_writes_queued: u64,
    /// Queue to insert: blktrace Q2I, per request from the Q of its first bio; absent where nothing is inserted into a
    /// queue between submission and driver.
    pub q2i: Option<LatencyHistogram>,
    /// Insert to issue: blktrace I2D, the scheduler's queue, per request that was inserted; at a modelled disk, its
    /// own queue.
    pub i2d: Option<LatencyHistogram>,
    /// Queue to issue, per request whether it was inserted or not: everything this layer adds. For a request that was
    /// inserted it is Q2I + I2D.
    #[serde(default)]
    pub q2d: Option<LatencyHistogram>,
    /// Issue to complete: blktrace D2C, everything below, per request (btt counts it once per merged bio); at a
    /// modelled disk, the service.
    pub d2c: Option<LatencyHistogram>,
    /// Queue to complete: blktrace Q2C, per bio (what the layer above waited for). A bio that was merged into a
    /// waiting request waits less than that request; one that was split ends with its last part.
    pub q2c: Option<LatencyHistogram>,
    /// Issue to complete of the flushes without data, which are in none of the others.
    #[serde(default)]
    pub flush_d2c: Option<LatencyHistogram>,
    /// Queue to queue: from one bio to the next.
    #[serde(default)]
    pub q2q: Option<LatencyHistogram>,
    /// Queue to remap: blktrace Q2A, until a device mapper or MD device handed a bio on to the device below.
    #[serde(default)]
    pub q2a: Option<LatencyHistogram>,
    /// Queue to get request: blktrace Q2G, until a bio had a request of its own.
    #[serde(default)]
    pub q2g: Option<LatencyHistogram>,
    /// Sleep to get request: blktrace S2G, the part of Q2G that was spent waiting for a request to become free.
    #[serde(default)]
    pub s2g: Option<LatencyHistogram>,
    /// Get request to insert: blktrace G2I.
    #[serde(default)]
    pub g2i: Option<LatencyHistogram>,
    /// Queue to merge: blktrace Q2M, until a bio was merged into a waiting request.
    #[serde(default)]
    pub q2m: Option<LatencyHistogram>,
    /// Merge to issue: blktrace M2D, of the bios that were merged.
    #[serde(default)]
    pub m2d: Option<LatencyHistogram>,
    /// The times of reads alone.
    #[serde(default)]
    pub read_times: DirectionTimes,
    /// The times of writes alone.
    #[serde(default)]
    pub write_times: DirectionTimes,
    /// Issued request size in bytes → how many.
    pub size_histogram: BTreeMap<u64, u64>,
    /// Share of issued requests (0 to 1) that start where the one before, of the same direction, ended.
    pub sequential_share: Option<f64>,
    /// The same of the issued reads alone.
    #[serde(default)]
    pub sequential_read_share: Option<f64>,
    /// The same of the issued writes alone.
    #[serde(default)]
    pub sequential_write_share: Option<f64>,
    /// Distances from one bio to the next as the layer above made them.
    #[serde(default)]
    pub q2q_seeks: Option<SeekMetrics>,
    /// Distances from one issued request to the next: what the layers below have to seek.
    #[serde(default)]
    pub d2d_seeks: Option<SeekMetrics>,
    /// Holding requests back so that they can be merged.
    #[serde(default)]
    pub plugs: Option<PlugMetrics>,
    /// What happened when.
    #[serde(default)]
    pub timeline: Option<Timeline>,
    /// Who asked for it; the largest first, the rest as one entry at the end.
    #[serde(default)]
    pub processes: Vec<ProcessMetrics>,
    /// What the requests sent downwards were for, by the layout of the file system above; empty where nothing was
    /// attributed.
    #[serde(default)]
    pub classes: BTreeMap<Class, ClassMetrics>,
    /// Requests for which Q2I + I2D + D2C was held against Q2C.
    #[serde(default)]
    pub identity: Identity,
    /// The numbers as `btt` defines and prints them, to the nanosecond.
    #[serde(default)]
    pub btt: Option<BttMetrics>,
    /// Requests that the driver gave back and got again; each time it got one counts as issued.
    #[serde(default)]
    pub reissued: u64,
    /// Where a modelled disk spent its service time; absent elsewhere.
    pub service: Option<ServiceTime>,
    /// What a modelled array asked its disks for; absent elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub members: Option<MemberWork>,
    /// How long the arms of modelled hard disks were at work, with what they brought from write buffers to the platters; absent elsewhere, and
    /// in runs that were measured before it was counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arms: Option<ArmWork>,
    /// Events the recorder lost; any number above zero makes counts lower bounds.
    pub dropped_events: u64,
    /// Seconds between first and last event.
    pub span_s: f64,
    /// First device-independent remark about how the numbers came to be, if any (for example unpaired requests).
    pub remarks: Vec<String>,
}

/// The times of one direction; the intervals are those of [`LayerMetrics`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DirectionTimes {
    /// Queue to issue, per request.
    pub q2d: Option<LatencyHistogram>,
    /// Issue to complete, per request.
    pub d2c: Option<LatencyHistogram>,
    /// Queue to complete, per bio.
    pub q2c: Option<LatencyHistogram>,
}

/// Whether the parts of a request's life add up to the whole.
///
/// A request lives from the Q of the bio that began it, the earliest of those merged into it, to its C. For each
/// request of which all of that was seen, Q2I + I2D + D2C (Q2D + D2C where nothing was inserted) must be the time from
/// that Q, taken from the bios themselves, to that C.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Requests that were checked.
    pub checked: u64,
    /// Requests for which it does not hold, because events are missing or their times run backwards.
    pub violations: u64,
}

/// Where a modelled disk's service time went, summed over all requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ServiceTime {
    /// Moving the arm.
    pub seek_ns: u64,
    /// Waiting for the sector to come round.
    pub rotation_ns: u64,
    /// Moving data between platter or flash and buffer.
    pub transfer_ns: u64,
    /// Everything else (interface, command overhead, cache look-up).
    pub overhead_ns: u64,
    /// Requests answered from the disk's own cache.
    pub cache_hits: u64,
}

impl LayerMetrics {
    /// How long the arms of a modelled hard disk were at work: as it counted it. A run from before that was counted has only the services of
    /// requests; they are the same as long as nothing was written, and miss what went through a write buffer otherwise.
    pub fn arm_work(&self) -> Option<ArmWork> {
        let of_services = || {
            let ServiceTime { seek_ns, rotation_ns, transfer_ns, .. } =
                self.service.filter(|_| self.write.issued == 0 && self.flushes == 0)?;
            Some(ArmWork { seek_ns, rotation_ns, transfer_ns, ..ArmWork::default() })
        };
        self.arms.or_else(of_services)
    }

    /// The numbers of a trace point at which nothing happened.
    pub fn new(trace_point: TracePoint) -> Self {
        Self {
            trace_point,
            read: DirectionMetrics::default(),
            write: DirectionMetrics::default(),
            discard: DirectionMetrics::default(),
            flushes: 0,
            fua_writes: 0,
            flushes_queued: 0,
            fua_writes_queued: 0,
            q2i: None,
            i2d: None,
            q2d: None,
            d2c: None,
            q2c: None,
            flush_d2c: None,
            q2q: None,
            q2a: None,
            q2g: None,
            s2g: None,
            g2i: None,
            q2m: None,
            m2d: None,
            read_times: DirectionTimes::default(),
            write_times: DirectionTimes::default(),
            size_histogram: BTreeMap::new(),
            sequential_share: None,
            sequential_read_share: None,
            sequential_write_share: None,
            q2q_seeks: None,
            d2d_seeks: None,
            plugs: None,
            timeline: None,
            processes: Vec::new(),
            classes: BTreeMap::new(),
            identity: Identity::default(),
            btt: None,
            reissued: 0,
            service: None,
            members: None,
            arms: None,
            dropped_events: 0,
            span_s: 0.0,
            remarks: Vec::new(),
        }
    }

    /// Bytes sent downwards, reads and writes.
    pub fn issued_bytes(&self) -> u64 {
        self.read.issued_bytes.saturating_add(self.write.issued_bytes)
    }

    /// Requests sent downwards, reads and writes.
    pub fn issued(&self) -> u64 {
        self.read.issued.saturating_add(self.write.issued)
    }

    /// Share of queued requests (0 to 1) that were merged into another, or `None` without requests.
    pub fn merged_share(&self) -> Option<f64> {
        let queued = self.read.queued.saturating_add(self.write.queued);
        let merged = [&self.read, &self.write].iter().fold(0_u64, |sum, direction| {
            sum.saturating_add(direction.back_merges).saturating_add(direction.front_merges)
        });
        (queued > 0).then(|| merged as f64 / queued as f64)
    }
}
