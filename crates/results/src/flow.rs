//! What became of the bytes that each layer was asked for: answered from a cache, handed on, or added to.

use nestor_trace::{DirectionMetrics, LayerMetrics};
use nestor_workload::Direction;
use serde::{Deserialize, Serialize};

use crate::record::Measured;

/// One layer between the trace point above it and its own.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LayerFlow {
    /// Bytes that the layer above asked to read.
    pub asked_read_bytes: u64,
    /// Bytes that it asked to write.
    pub asked_write_bytes: u64,
    /// Bytes that this layer read from below.
    pub sent_read_bytes: u64,
    /// Bytes that it wrote below.
    pub sent_write_bytes: u64,
    /// Share (0 to 1) of the bytes to read that were answered without reading them below. A lower bound: what was read
    /// below beyond what was asked for (read-ahead, metadata) hides as much of it. `None` where nothing was read.
    pub read_cache_hit_ratio: Option<f64>,
    /// The same of writes that had not been written below when recording ended.
    pub write_cache_hit_ratio: Option<f64>,
    /// Bytes read below beyond what was asked for.
    pub read_beyond_bytes: u64,
    /// Bytes written below beyond what was asked for.
    pub write_beyond_bytes: u64,
}

impl Measured {
    /// For each of [`Self::layers`] that was recorded: what it made of what was asked of it. The application has none.
    pub fn flows(&self) -> Vec<Option<LayerFlow>> {
        let asked = |direction| self.load.bytes_of(direction).unwrap_or(0);
        let mut above = (asked(Direction::Read), asked(Direction::Write));
        let mut flows = Vec::new();
        for layer in &self.layers {
            let metrics = layer.metrics.as_ref().filter(|_| !layer.is_application());
            flows.push(metrics.map(|metrics| flow(above, metrics)));
            if let Some(metrics) = metrics {
                above = (metrics.read.issued_bytes, metrics.write.issued_bytes);
            }
        }
        flows
    }
}

fn flow((asked_read, asked_write): (u64, u64), metrics: &LayerMetrics) -> LayerFlow {
    let sent = |direction: &DirectionMetrics| direction.issued_bytes;
    let (read, write) = (sent(&metrics.read), sent(&metrics.write));
    let hit = |asked: u64, sent: u64| (asked > 0).then(|| asked.saturating_sub(sent) as f64 / asked as f64);
    LayerFlow {
        asked_read_bytes: asked_read,
        asked_write_bytes: asked_write,
        sent_read_bytes: read,
        sent_write_bytes: write,
        read_cache_hit_ratio: hit(asked_read, read),
        write_cache_hit_ratio: hit(asked_write, write),
        read_beyond_bytes: read.saturating_sub(asked_read),
        write_beyond_bytes: write.saturating_sub(asked_write),
    }
}
