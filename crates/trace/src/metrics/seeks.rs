//! Seek distances.

use serde::{Deserialize, Serialize};

/// Steps of [`SeekMetrics::cdf_sectors`]: one for every 2 %.
pub const CDF_STEPS: usize = 50;

/// Distances from each request to the next, in sectors.
///
/// The distance is btt's: zero where a request touches or overlaps the one before, else from the nearer end of that
/// one to the beginning of this one, whichever way. The first request is taken to follow sector 0.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SeekMetrics {
    /// How many distances.
    pub count: u64,
    /// Their mean.
    pub mean_sectors: f64,
    /// Half of them are not longer.
    pub median_sectors: u64,
    /// What btt calls the median: a distance that half of all or more have, else 0.
    pub btt_median_sectors: u64,
    /// The most frequent distance, the shortest of several.
    pub mode_sectors: u64,
    /// How often it was seen.
    pub mode_count: u64,
    /// How many distances were seen as often.
    pub modes: u64,
    /// There were too many different distances to count each; the mode may have been seen somewhat more often.
    #[serde(default)]
    pub mode_is_lower_bound: bool,
    /// Distances that 0 %, 2 %, … 100 % of the seeks do not exceed.
    pub cdf_sectors: Vec<u64>,
    /// From the lowest to the highest sector touched, to normalise with.
    pub span_sectors: u64,
}

impl SeekMetrics {
    /// The distribution with distances as shares (0 to 1) of the range of sectors that was used: (distance, share of
    /// seeks that are not longer).
    pub fn normalised_cdf(&self) -> impl Iterator<Item = (f64, f64)> {
        let span = self.span_sectors.max(1) as f64;
        let steps = self.cdf_sectors.len().saturating_sub(1).max(1) as f64;
        self.cdf_sectors.iter().enumerate().map(move |(i, &s)| ((s as f64 / span).min(1.0), i as f64 / steps))
    }
}
