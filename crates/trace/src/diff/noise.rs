//! How far a number of one trace can be trusted.
//!
//! Requests of one trace are not independent: a slow second has many slow requests. So the trace is cut into batches
//! of equal length, and the spread of their means is what a mean is held against (batch means: Law, Simulation
//! Modeling and Analysis, §9.5.3). What that spread is above that of independent requests also widens the intervals
//! of percentiles, which come from the ranks that the binomial distribution allows (Conover, Practical
//! Nonparametric Statistics, §3.2).

use crate::{LayerMetrics, Timeline};
use nestor_statistics::{LatencyHistogram, median};

/// Law recommends 10 to 30; more would make them too short to be independent.
const BATCHES: usize = 10;
/// The 97.5 % point of the normal distribution: a two-sided 95 % interval.
const Z: f64 = 1.96;

/// Means of batches of a trace.
#[derive(Clone, Debug, Default)]
pub struct Batches {
    /// Requests completed per second.
    pub requests: Vec<f64>,
    /// Bytes completed per second.
    pub bytes: Vec<f64>,
    /// Requests with the driver.
    pub depth: Vec<f64>,
    /// Mean time from queue to completion in ns, by Little's law: what is outstanding over what is completed.
    pub wait_ns: Vec<f64>,
}

impl Batches {
    /// Cuts a trace; nothing where it is too short.
    pub fn of(metrics: &LayerMetrics) -> Self {
        let Some(timeline) = &metrics.timeline else { return Self::default() };
        // The last step is not whole.
        let steps = timeline.completed.len().saturating_sub(1);
        let length = steps / BATCHES;
        let mut batches = Self::default();
        if length == 0 {
            return batches;
        }
        for batch in 0..BATCHES {
            batches.add(timeline, batch * length, (batch + 1) * length);
        }
        batches
    }

    fn add(&mut self, timeline: &Timeline, from: usize, to: usize) {
        let seconds = (to - from) as f64 * timeline.step_ns as f64 / 1e9;
        let sum = |column: &[u64]| column[from..to].iter().sum::<u64>() as f64;
        let mean = |column: &[f64]| column[from..to].iter().sum::<f64>() / (to - from) as f64;
        let requests = sum(&timeline.completed) / seconds;
        self.requests.push(requests);
        self.bytes.push((sum(&timeline.read_bytes) + sum(&timeline.write_bytes)) / seconds);
        self.depth.push(mean(&timeline.depth));
        self.wait_ns.push(if requests > 0.0 { mean(&timeline.outstanding) / requests * 1e9 } else { 0.0 });
    }

    /// How many times wider than with independent requests the spread of a mean is, squared; at least 1.
    pub fn inflation(&self, whole: &LatencyHistogram) -> f64 {
        let (count, batches) = (whole.count() as f64, self.wait_ns.len() as f64);
        let of_requests = variance(&weighted(whole));
        let of_batches = variance(&self.wait_ns.iter().map(|&ns| (ns, 1.0)).collect::<Vec<_>>());
        match (of_requests, of_batches) {
            (Some(one), Some(batch)) if one > 0.0 && median(&self.wait_ns).is_some() => {
                (batch * (count / batches) / one).max(1.0)
            }
            _ => 1.0,
        }
    }
}

/// Each duration with how many requests took it.
fn weighted(histogram: &LatencyHistogram) -> Vec<(f64, f64)> {
    histogram.buckets().map(|(ns, n)| (ns as f64, n as f64)).collect()
}

/// Variance of values with weights.
fn variance(values: &[(f64, f64)]) -> Option<f64> {
    let weight: f64 = values.iter().map(|(_, w)| w).sum();
    if weight < 2.0 {
        return None;
    }
    let mean = values.iter().map(|(v, w)| v * w).sum::<f64>() / weight;
    Some(values.iter().map(|(v, w)| (v - mean).powi(2) * w).sum::<f64>() / (weight - 1.0))
}

/// A number with its 95 % interval.
#[derive(Clone, Copy, Debug)]
pub struct Estimate {
    pub value: f64,
    pub low: f64,
    pub high: f64,
}

impl Estimate {
    /// Half the width of the interval on a scale of logarithms; infinite where it is open.
    pub fn log_half_width(&self) -> f64 {
        if self.low > 0.0 { (self.high / self.low).ln() / 2.0 } else { f64::INFINITY }
    }
}

/// A mean of requests of which every `inflation`-th counts.
pub fn mean(histogram: &LatencyHistogram, inflation: f64) -> Option<Estimate> {
    let value = histogram.summary()?.mean_ns;
    let spread = variance(&weighted(histogram))?;
    let half = Z * (spread * inflation / histogram.count() as f64).sqrt();
    Some(Estimate { value, low: (value - half).max(0.0), high: value + half })
}

/// A percentile likewise. An end of the interval beyond the smallest or largest request is open.
pub fn quantile(histogram: &LatencyHistogram, q: f64, inflation: f64) -> Option<Estimate> {
    let at = |q: f64| histogram.quantile_ns(q).map(|ns| ns as f64);
    let half = Z * (q * (1.0 - q) * inflation / histogram.count() as f64).sqrt();
    let low = if q > half { at(q - half)? } else { 0.0 };
    let high = if q + half < 1.0 { at(q + half)? } else { f64::INFINITY };
    Some(Estimate { value: at(q)?, low, high })
}
