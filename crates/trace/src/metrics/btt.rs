//! What `btt` prints, by its definitions.
//!
//! `btt` follows bios, not requests: an interval counts once for each bio that had it, so D2C of a request of five
//! merged bios counts five times. It finds a bio by a sector in it, and takes an issue or completion to be of all bios
//! that are wholly within its sectors; a bio that was split is therefore never issued and never ends. The
//! fields of [`LayerMetrics`](super::LayerMetrics) itself count per request where that says more; these here are for
//! comparing with the older tool, and exact to the nanosecond. (btt's user guide, "btt.pdf" of the package blktrace,
//! §§ 5 and 6; what it leaves open follows btt 1.2.0's behaviour.)

use serde::{Deserialize, Serialize};

use super::Phase;

/// An interval of `btt`'s first table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BttInterval {
    /// N.
    pub count: u64,
    /// MIN.
    pub min_ns: u64,
    /// MAX.
    pub max_ns: u64,
    /// Sum; with `count` it makes AVG.
    pub total_ns: u64,
}

impl BttInterval {
    /// AVG; 0 without any.
    pub fn mean_ns(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.total_ns as f64 / self.count as f64 }
    }

    /// Adds the times of another.
    pub fn add(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        self.min_ns = if self.count == 0 { other.min_ns } else { self.min_ns.min(other.min_ns) };
        self.max_ns = self.max_ns.max(other.max_ns);
        self.count += other.count;
        self.total_ns = self.total_ns.saturating_add(other.total_ns);
    }
}

/// The tables of `btt` for one device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BttMetrics {
    /// Queue to queue.
    pub q2q: BttInterval,
    /// Queue to remap.
    pub q2a: BttInterval,
    /// Queue to get request.
    pub q2g: BttInterval,
    /// Sleep to get request.
    pub s2g: BttInterval,
    /// Get request to insert.
    pub g2i: BttInterval,
    /// Queue to merge.
    pub q2m: BttInterval,
    /// Insert to issue.
    pub i2d: BttInterval,
    /// Merge to issue.
    pub m2d: BttInterval,
    /// Issue to complete.
    pub d2c: BttInterval,
    /// Queue to complete.
    pub q2c: BttInterval,
    /// #Q of the merge table: bios, and requests that the driver requeued.
    pub queued: u64,
    /// #D.
    pub issued: u64,
    /// BLKmin, BLKmax and Total: sectors of completions.
    pub blocks: BttInterval,
    /// Sum over all #Q of the requests that were active then, for "Avg Reqs @ Q".
    pub active_at_queue: u64,
    /// I/O active periods.
    pub live: LivePeriods,
}

impl BttMetrics {
    /// "Ratio" of the merge table, #Q over #D; `None` where btt prints no line.
    pub fn merge_ratio(&self) -> Option<f64> {
        (self.queued > 0 && self.issued > 0).then(|| self.queued.max(self.issued) as f64 / self.issued as f64)
    }

    /// BLKavg: sectors of completions over issued requests.
    pub fn average_blocks(&self) -> Option<u64> {
        self.blocks.total_ns.checked_div(self.issued)
    }

    /// "Avg Reqs @ Q": requests that were queued and not yet issued when another came.
    pub fn mean_active_at_queue(&self) -> Option<f64> {
        (self.queued > 0).then(|| self.active_at_queue as f64 / self.queued.max(self.issued) as f64)
    }

    /// The table "Device Overhead": Q2G, G2I, Q2M, I2D and D2C as shares (0 to 1) of Q2C, each of the sums.
    ///
    /// They add up to 1 only where nothing merged: the M2D of merged bios is not among them.
    pub fn overhead(&self) -> Option<[(Phase, f64); 5]> {
        (self.q2c.total_ns > 0).then(|| {
            [
                (Phase::Q2G, self.q2g),
                (Phase::G2I, self.g2i),
                (Phase::Q2M, self.q2m),
                (Phase::I2D, self.i2d),
                (Phase::D2C, self.d2c),
            ]
            .map(|(phase, interval)| (phase, interval.total_ns as f64 / self.q2c.total_ns as f64))
        })
    }
}

/// Times during which at least one request was with the driver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LivePeriods {
    /// How many.
    pub count: u64,
    /// All of them together.
    pub live_ns: u64,
    /// From the first event of the trace to the end of the last of them.
    pub until_ns: u64,
}

impl LivePeriods {
    /// Mean length of an active period, seconds.
    pub fn mean_live_s(&self) -> Option<f64> {
        (self.count > 0).then(|| self.live_ns as f64 / 1e9 / self.count as f64)
    }

    /// Mean length of the pauses between them, seconds; the time before the first counts among them, as with btt.
    pub fn mean_idle_s(&self) -> Option<f64> {
        (self.count > 1)
            .then(|| self.until_ns.saturating_sub(self.live_ns) as f64 / 1e9 / (self.count - 1) as f64)
    }

    /// Share of the time (0 to 1) during which the device was active.
    pub fn live_share(&self) -> Option<f64> {
        (self.count > 0 && self.until_ns > 0).then(|| self.live_ns as f64 / self.until_ns as f64)
    }
}

/// Plugging: requests that a thread held back to merge them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlugMetrics {
    /// Times that held requests were let go by the thread.
    pub unplugs: u64,
    /// Times that a timer let them go (kernels before 2.6.39).
    pub timer_unplugs: u64,
    /// Requests let go by the thread.
    pub unplugged_requests: u64,
    /// Requests let go by the timer.
    pub timer_unplugged_requests: u64,
    /// Time during which requests were held back.
    pub plugged_ns: u64,
    /// Time that this is measured against: first to last event of the device.
    pub span_ns: u64,
}

impl PlugMetrics {
    /// Share of the time (0 to 1) during which requests were held back.
    pub fn plugged_share(&self) -> Option<f64> {
        (self.span_ns > 0).then(|| self.plugged_ns as f64 / self.span_ns as f64)
    }

    /// Requests per unplug by the thread.
    pub fn requests_per_unplug(&self) -> Option<f64> {
        (self.unplugs > 0).then(|| self.unplugged_requests as f64 / self.unplugs as f64)
    }

    /// Requests per unplug by the timer.
    pub fn requests_per_timer_unplug(&self) -> Option<f64> {
        (self.timer_unplugs > 0).then(|| self.timer_unplugged_requests as f64 / self.timer_unplugs as f64)
    }
}
