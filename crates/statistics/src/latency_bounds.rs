//! What histograms of latencies can count.

/// The shortest duration a histogram distinguishes; none at all is counted as this one.
pub const SHORTEST_LATENCY_NS: u64 = 1;
/// The largest duration a histogram distinguishes; longer ones are counted as this one.
pub const HIGHEST_LATENCY_NS: u64 = 1 << 40;
/// The most durations that a histogram counts, 285 years of a million a second: as far as a quantile's place among them is
/// computed exactly. Where more are added, all counts are halved until they are as few, so that quantiles stay right.
pub const MOST_LATENCIES: u64 = 1 << 53;

/// What is left of a count where counts are halved.
pub(crate) fn halved_count(count: u64) -> u64 {
    count.div_ceil(2)
}
