//! Seek distances.

use super::histogram::Histogram;
use super::modes::Modes;
use crate::metrics::{CDF_STEPS, SeekMetrics};

/// Measures the distance from each request to the next.
#[derive(Debug)]
pub(super) struct Seeks {
    last_start: u64,
    last_end: u64,
    lowest: u64,
    highest: u64,
    distances: Histogram,
    modes: Modes,
}

impl Seeks {
    /// `most_distances` different ones are counted each.
    pub fn new(most_distances: usize) -> Self {
        Self {
            last_start: 0,
            last_end: 0,
            lowest: u64::MAX,
            highest: 0,
            distances: Histogram::default(),
            modes: Modes::new(most_distances),
        }
    }

    /// See [`SeekMetrics`] for the distance.
    #[inline]
    pub fn push(&mut self, start: u64, end: u64) {
        let before = self.last_start..=self.last_end;
        let distance = if before.contains(&start) || before.contains(&end) {
            0
        } else if start > self.last_end {
            start - self.last_end
        } else {
            self.last_start.abs_diff(start)
        };
        (self.last_start, self.last_end) = (start, end);
        self.lowest = self.lowest.min(start);
        self.highest = self.highest.max(end);
        self.distances.record(distance);
        self.modes.count(distance);
    }

    /// `None` without requests.
    pub fn finish(mut self) -> Option<SeekMetrics> {
        let distances = &self.distances;
        let count = distances.count();
        if count == 0 {
            return None;
        }
        let mode = self.modes.finish();
        let step = |i: usize| distances.quantile(i as f64 / CDF_STEPS as f64);
        Some(SeekMetrics {
            count,
            mean_sectors: distances.mean(),
            median_sectors: distances.quantile(0.5),
            btt_median_sectors: if mode.count >= (count / 2).max(1) { mode.value } else { 0 },
            mode_sectors: mode.value,
            mode_count: mode.count,
            modes: mode.values,
            mode_is_lower_bound: mode.is_lower_bound,
            cdf_sectors: (0..=CDF_STEPS).map(step).collect(),
            span_sectors: self.highest.saturating_sub(self.lowest),
        })
    }
}
