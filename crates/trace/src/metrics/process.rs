//! Who asked for what.

use nestor_statistics::LatencySummary;
use serde::{Deserialize, Serialize};

/// The requests of one thread; all intervals belong to the thread that queued the bio.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProcessMetrics {
    /// Its number; `None` for the rest of many threads together.
    pub pid: Option<u32>,
    /// Its name, where the trace has it.
    pub name: Option<String>,
    /// Threads counted here: 1, or more for the rest.
    pub threads: u64,
    /// Bios it queued that read.
    pub read_queued: u64,
    /// Their bytes.
    pub read_queued_bytes: u64,
    /// Bios it queued that write.
    pub write_queued: u64,
    /// Their bytes.
    pub write_queued_bytes: u64,
    /// Bios it queued that asked for a flush, alone or before their data.
    pub flushes_queued: u64,
    /// Its bios that were merged.
    pub merged: u64,
    /// The times of its bios, defined as btt does.
    pub intervals: ProcessIntervals,
}

/// Times of a thread's bios: count, minimum, mean and maximum are exact, percentiles to about 2 %.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProcessIntervals {
    /// Queue to queue.
    pub q2q: Option<LatencySummary>,
    /// Queue to remap.
    pub q2a: Option<LatencySummary>,
    /// Queue to get request.
    pub q2g: Option<LatencySummary>,
    /// Sleep to get request.
    pub s2g: Option<LatencySummary>,
    /// Get request to insert.
    pub g2i: Option<LatencySummary>,
    /// Queue to merge.
    pub q2m: Option<LatencySummary>,
    /// Insert to issue.
    pub i2d: Option<LatencySummary>,
    /// Merge to issue.
    pub m2d: Option<LatencySummary>,
    /// Issue to complete.
    pub d2c: Option<LatencySummary>,
    /// Queue to complete.
    pub q2c: Option<LatencySummary>,
}

impl ProcessIntervals {
    /// All of them by btt's names.
    pub fn named(&self) -> [(&'static str, Option<LatencySummary>); 10] {
        [
            ("Q2Q", self.q2q),
            ("Q2A", self.q2a),
            ("Q2G", self.q2g),
            ("S2G", self.s2g),
            ("G2I", self.g2i),
            ("Q2M", self.q2m),
            ("I2D", self.i2d),
            ("M2D", self.m2d),
            ("D2C", self.d2c),
            ("Q2C", self.q2c),
        ]
    }
}
