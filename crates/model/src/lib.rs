//! Statistics and prediction: pure arithmetic on numbers that other crates measured.
//!
//! Nothing here opens a file, starts a process or asks for the time. A function that cannot answer from
//! the samples it got says so with `None`; it never makes up an interval.

pub mod identity;
pub mod latency;
pub mod random;
pub mod ratio;
pub mod steady;
pub mod student;
pub mod summary;

pub use latency::{HIGHEST_LATENCY_NS, LatencyHistogram, LatencySummary};
pub use random::SeededOrder;
pub use ratio::{Ratio, geometric_mean, paired_bootstrap, paired_ratio, unpaired_ratio};
pub use steady::{SteadyState, steady_from, steady_state};
pub use summary::{Interval, Mean, coefficient_of_variation, mean, median};
