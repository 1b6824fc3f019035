//! What can be wrong with a stored or received histogram.

use crate::latency_bounds::MOST_LATENCIES;
use crate::latency_code::{MOST_BYTES, MOST_COUNTS, MOST_TEXT_BYTES};

/// What is wrong with a stored or received histogram.
#[derive(Clone, Debug, thiserror::Error)]
pub enum HistogramError {
    /// Longer than any that is written.
    #[error("the histogram has {0} characters, over {MOST_TEXT_BYTES}")]
    LongText(usize),
    /// It unpacks to more than any that is written.
    #[error("the histogram has over {MOST_BYTES} bytes")]
    ManyBytes,
    /// It is not base64.
    #[error(transparent)]
    Base64(#[from] base64::DecodeError),
    /// It does not unpack.
    #[error("{0}")]
    Packed(#[from] flate2::DecompressError),
    /// It is something else, or of another version.
    #[error("it is not a histogram of version 2")]
    OtherVersion,
    /// It ends too early.
    #[error("the histogram is truncated")]
    Truncated,
    /// Its last count ends too early.
    #[error("the histogram ends within a number")]
    TruncatedNumber,
    /// What no program that Nestor reads from writes.
    #[error("a histogram with an offset of {offset} or a factor of {factor} is not supported")]
    Scaled {
        /// By which its counters are moved.
        offset: u32,
        /// From integers to durations.
        factor: f64,
    },
    /// Bounds that no histogram has.
    #[error("a histogram of {digits} digits from {lowest} to {highest} is not possible")]
    Bounds {
        /// Significant digits.
        digits: u32,
        /// The lowest duration that it tells from 0.
        lowest: u64,
        /// The highest duration.
        highest: u64,
    },
    /// More counters than its bounds have.
    #[error("the histogram has {0} counts; its bounds allow {MOST_COUNTS}")]
    ManyCounts(usize),
    /// The same, for bounds of others.
    #[error("the histogram has more counts than its bounds allow")]
    BeyondBounds,
    /// More operations than can be added up.
    #[error("the histogram counts over {MOST_LATENCIES} operations")]
    ManyOperations,
    /// Another's, where only ours are added up.
    #[error("the histogram does not have the bounds that are written here")]
    OtherBounds,
}
