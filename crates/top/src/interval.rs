//! What was counted in a time: of each layer, and of all of them beside each other.

use nestor_statistics::LatencyHistogram;
use nestor_trace::Operation;

/// Requests of one operation that ended.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tally {
    /// How many.
    pub count: u64,
    /// How much they moved.
    pub bytes: u64,
    /// How long each took.
    pub latency: LatencyHistogram,
}

impl Tally {
    pub(crate) fn record(&mut self, latency_ns: u64) {
        self.count += 1;
        self.latency.record_ns(latency_ns);
    }

    pub(crate) fn add_bytes(&mut self, bytes: u64) {
        self.bytes = self.bytes.saturating_add(bytes);
    }

    fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.latency.merge(&other.latency);
    }
}

/// What a layer did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LayerCounts {
    /// Reads that ended.
    pub reads: Tally,
    /// Writes that ended.
    pub writes: Tally,
    /// Flushes that ended.
    pub flushes: Tally,
    /// Requests that discard, which ended.
    pub discards: Tally,
    /// Of all these, those that threads of the virtual machine sent; of a device's only.
    pub of_machine: u64,
    /// Sum over time of the requests under way: ns times requests.
    pub under_way_ns: u128,
    /// Requests under way at the end.
    pub under_way: u64,
    /// Time in which any was.
    pub busy_ns: u64,
    /// That time by the layer that had it: the lowest that had requests under way too, by its position.
    pub with_ns: Vec<u64>,
}

impl LayerCounts {
    pub(crate) fn of_layers(layers: usize) -> Self {
        Self { with_ns: vec![0; layers], ..Self::default() }
    }

    pub(crate) fn tally(&mut self, operation: Operation) -> &mut Tally {
        match operation {
            Operation::Read => &mut self.reads,
            Operation::Write => &mut self.writes,
            Operation::Flush => &mut self.flushes,
            Operation::Discard => &mut self.discards,
        }
    }

    /// Requests that ended.
    pub fn ended(&self) -> u64 {
        self.reads.count + self.writes.count + self.flushes.count + self.discards.count
    }

    /// Bytes read and written.
    pub fn bytes(&self) -> u64 {
        self.reads.bytes.saturating_add(self.writes.bytes)
    }

    /// Latencies of reads and writes together.
    pub fn latency(&self) -> LatencyHistogram {
        LatencyHistogram::merged([&self.reads.latency, &self.writes.latency])
    }

    fn merge(&mut self, later: &Self) {
        self.reads.merge(&later.reads);
        self.writes.merge(&later.writes);
        self.flushes.merge(&later.flushes);
        self.discards.merge(&later.discards);
        self.of_machine += later.of_machine;
        self.under_way_ns += later.under_way_ns;
        self.under_way = later.under_way;
        self.busy_ns += later.busy_ns;
        for (sum, ns) in self.with_ns.iter_mut().zip(&later.with_ns) {
            *sum += ns;
        }
    }
}

/// A time, with what each layer did in it, in the order of the layers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Interval {
    /// Its beginning on the clock of the events, `CLOCK_MONOTONIC`.
    pub from_ns: u64,
    /// Its end.
    pub until_ns: u64,
    /// Each layer.
    pub layers: Vec<LayerCounts>,
    /// Events that came after their time had been counted; their requests count, later.
    pub late_events: u64,
    /// Events that the kernel could not keep.
    pub lost_events: u64,
}

impl Interval {
    /// How long it is.
    pub fn seconds(&self) -> f64 {
        self.until_ns.saturating_sub(self.from_ns) as f64 / 1e9
    }

    /// Adds what follows it.
    pub fn extend(&mut self, later: &Self) {
        if self.layers.is_empty() {
            *self = later.clone();
            return;
        }
        self.until_ns = later.until_ns;
        self.late_events += later.late_events;
        self.lost_events += later.lost_events;
        for (sum, one) in self.layers.iter_mut().zip(&later.layers) {
            sum.merge(one);
        }
    }
}
