//! Seek distances.

use std::hint::select_unpredictable;

use super::histogram::{Histogram, ROW};
use super::modes::Modes;
use crate::metrics::{CDF_STEPS, SeekMetrics};

/// Measures the distance from each request to the next.
#[derive(Debug)]
pub(crate) struct Seeks {
    last_start: u64,
    last_end: u64,
    lowest: u64,
    highest: u64,
    /// Distances that are counted together, when the memory of their counters is in the processor's cache.
    waiting: [u64; ROW],
    count: usize,
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
            waiting: [0; ROW],
            count: 0,
            distances: Histogram::default(),
            modes: Modes::new(most_distances),
        }
    }

    /// See [`SeekMetrics`] for the distance.
    #[inline]
    pub fn push(&mut self, start: u64, end: u64) {
        let before = self.last_start..=self.last_end;
        let touches = before.contains(&start) | before.contains(&end);
        let (ahead, back) = (start.wrapping_sub(self.last_end), self.last_start.abs_diff(start));
        // Where random requests go cannot be foreseen: both are computed and one is taken, without a branch.
        let apart = select_unpredictable(start > self.last_end, ahead, back);
        let distance = if touches { 0 } else { apart };
        (self.last_start, self.last_end) = (start, end);
        self.lowest = self.lowest.min(start);
        self.highest = self.highest.max(end);
        self.modes.fetch(distance);
        self.waiting[self.count % ROW] = distance;
        self.count += 1;
        if self.count == ROW {
            self.flush();
        }
    }

    #[inline(never)]
    fn flush(&mut self) {
        let waiting = &self.waiting[..self.count];
        self.distances.record_all(waiting);
        waiting.iter().for_each(|&distance| self.modes.count(distance));
        self.count = 0;
    }

    /// `None` without requests.
    pub fn finish(mut self) -> Option<SeekMetrics> {
        self.flush();
        let distances = &self.distances;
        let count = distances.count();
        if count == 0 {
            return None;
        }
        let mode = self.modes.finish();
        Some(SeekMetrics {
            count,
            mean_sectors: distances.mean(),
            median_sectors: distances.quantile(0.5),
            btt_median_sectors: if mode.count >= (count / 2).max(1) { mode.value } else { 0 },
            mode_sectors: mode.value,
            mode_count: mode.count,
            modes: mode.values,
            mode_is_lower_bound: mode.is_lower_bound,
            cdf_sectors: distances.quantiles(CDF_STEPS),
            span_sectors: self.highest.saturating_sub(self.lowest),
        })
    }
}
