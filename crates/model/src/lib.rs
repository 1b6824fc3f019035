//! Statistics and prediction: pure arithmetic on numbers that other crates measured.
//!
//! Nothing here opens a file, starts a process or asks for the time.

pub mod latency;

pub use latency::{LatencyHistogram, LatencySummary};
