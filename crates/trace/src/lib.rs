//! Traces: decoding, and what they say of each layer. Recording them is `nestor-capture`.
//!
//! [`decode`] reads what was recorded into [`event::BlockEvent`]s, in constant memory; [`layer`] follows requests
//! through them and counts; [`summarize`] joins the two into [`LayerMetrics`].

pub mod accesses;
pub mod analyze;
pub mod application;
pub mod attribute;
pub mod calls;
mod counted;
pub mod decode;
pub mod diff;
pub mod disk_log;
pub mod each_request;
pub mod error;
pub mod event;
mod file_extents;
pub mod hypervisor;
pub mod layer;
pub mod link_log;
pub mod metrics;
pub mod recording;
pub mod request;
pub mod request_file;
pub mod rpc;
mod sink;
pub mod summarize;

pub use accesses::{AccessPattern, FileAccesses};
pub use analyze::{Analysis, AnalyzeOptions, AnalyzedLayer, TracedDevice, analyze};
pub use attribute::{Attributed, Attribution, ClassTally};
pub use calls::{CallEnd, CallMetrics, CallRequests, CallTimes, TracedCalls};
pub use counted::{CountedHistogram, Unit};
pub use disk_log::summarize_disk_log;
pub use each_request::{RequestsRead, Wanted, each_request};
pub use error::TraceError;
pub use file_extents::FileExtents;
pub use link_log::{FrameMetrics, LinkLogRequests, LinkMetrics};
pub use metrics::{
    BttInterval, BttMetrics, ClassMetrics, DirectionMetrics, DirectionTimes, Identity, LayerMetrics,
    LivePeriods, Overview, Pattern, Phase, PlugMetrics, ProcessIntervals, ProcessMetrics, SeekMetrics, Sizes,
    Timeline, TracePoint,
};
pub use recording::RecordSummary;
pub use request::{BLOCK_BYTES, Operation, Request};
pub use request_file::{ClockReading, DiskLogRequests, RequestHeader, RequestReader, RequestWriter};
pub use summarize::{
    SummarizeOptions, summarize_blktrace, summarize_recording, summarize_recording_with, summarize_tracefs,
};
