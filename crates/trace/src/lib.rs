//! Traces: capture, decoding, and what they say of each layer.

pub mod metrics;

pub use metrics::{DirectionMetrics, LayerMetrics, TracePoint};
