//! Traces: capture, decoding, and what they say of each layer.
//!
//! [`decode`] reads what was recorded into [`event::BlockEvent`]s, in constant memory; [`layer`] follows requests
//! through them and counts; [`summarize`] joins the two into [`LayerMetrics`]. [`capture`] records.

pub mod capture;
pub mod decode;
pub mod disk_log;
pub mod error;
pub mod event;
pub mod layer;
pub mod metrics;
pub mod request;
pub mod summarize;

pub use capture::{Method, RecordOptions, RecordSummary, record};
pub use disk_log::summarize_disk_log;
pub use error::TraceError;
pub use request::{Operation, Request};
pub use metrics::{DirectionMetrics, LayerMetrics, TracePoint};
pub use summarize::{summarize_blktrace, summarize_recording, summarize_tracefs};
