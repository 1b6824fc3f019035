//! What a layer did, in a few numbers.

use std::cmp::Reverse;

use super::{BttMetrics, Identity, LayerMetrics, Phase, SeekMetrics, Timeline};

/// Requests of which so many follow each other are called sequential, so few random.
const SEQUENTIAL_ABOVE: f64 = 0.7;
const RANDOM_BELOW: f64 = 0.3;

/// Whether requests follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// Most of them do.
    Sequential,
    /// Some do, or it is not known.
    PartlySequential,
    /// Few do.
    Random,
}

/// A layer's requests with data.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Overview {
    /// How many.
    pub requests: u64,
    /// What they moved.
    pub bytes: u64,
    /// Requests and bytes per second; `None` where no time passed.
    pub per_second: Option<(f64, f64)>,
    /// Share (0 to 1) of the requests that read.
    pub read_share: f64,
    /// Mean size.
    pub mean_bytes: u64,
    /// Whether they follow each other.
    pub pattern: Pattern,
}

/// The most frequent sizes of requests.
#[derive(Clone, Debug, PartialEq)]
pub struct Sizes {
    /// Size in bytes and share (0 to 1) of the requests, the most frequent first.
    pub named: Vec<(u64, f64)>,
    /// How many other sizes there are, and their share; `None` where there are none.
    pub others: Option<(usize, f64)>,
}

impl LayerMetrics {
    /// Its requests with data, as issued or, where that was not recorded, as completed; `None` without any.
    pub fn overview(&self) -> Option<Overview> {
        let completed = self.read.completed.saturating_add(self.write.completed);
        let completed_bytes = self.read.completed_bytes.saturating_add(self.write.completed_bytes);
        let (requests, bytes) = (self.issued().max(completed), self.issued_bytes().max(completed_bytes));
        let per_second = |n: u64| n as f64 / self.span_s;
        let pattern = match self.sequential_share {
            Some(share) if share > SEQUENTIAL_ABOVE => Pattern::Sequential,
            Some(share) if share < RANDOM_BELOW => Pattern::Random,
            _ => Pattern::PartlySequential,
        };
        (requests > 0).then(|| Overview {
            requests,
            bytes,
            per_second: (self.span_s > 0.0).then(|| (per_second(requests), per_second(bytes))),
            read_share: self.read.issued.max(self.read.completed) as f64 / requests as f64,
            mean_bytes: bytes / requests,
            pattern,
        })
    }

    /// The most frequent sizes of issued requests, at most so many; `None` without requests.
    pub fn most_frequent_sizes(&self, most: usize) -> Option<Sizes> {
        let all: u64 = self.size_histogram.values().sum();
        let mut by_count: Vec<(u64, u64)> = self.size_histogram.iter().map(|(s, n)| (*s, *n)).collect();
        by_count.sort_by_key(|(size, number)| (Reverse(*number), *size));
        let part = |number: u64| number as f64 / all as f64;
        let (named, others) = by_count.split_at(most.min(by_count.len()));
        let rest: u64 = others.iter().map(|(_, number)| number).sum();
        (all > 0).then(|| Sizes {
            named: named.iter().map(|(size, number)| (*size, part(*number))).collect(),
            others: (rest > 0).then(|| (others.len(), part(rest))),
        })
    }
}

impl Timeline {
    /// Requests in flight on average and at most; `None` where there never was one.
    pub fn in_flight(&self) -> Option<(f64, Option<u32>)> {
        let is_any = self.depth.iter().any(|depth| *depth > 0.0);
        Some((self.mean_depth().filter(|_| is_any)?, self.depth_max.iter().copied().max()))
    }
}

impl Identity {
    /// Requests for which it holds.
    pub fn held(&self) -> u64 {
        self.checked.saturating_sub(self.violations)
    }
}

impl SeekMetrics {
    /// Share (0 to 1) of the distances that are no longer than this part of the range.
    pub fn within(&self, part: f64) -> f64 {
        let inside = self.normalised_cdf().take_while(|(distance, _)| *distance <= part).last();
        inside.map_or(0.0, |(_, seeks)| seeks)
    }

    /// Other distances that are as frequent as the most frequent one.
    pub fn other_modes(&self) -> u64 {
        self.modes.saturating_sub(1)
    }
}

impl BttMetrics {
    /// Share (0 to 1) of the whole time that an interval takes, of those that btt adds up.
    pub fn overhead_of(&self, phase: Phase) -> Option<f64> {
        self.overhead()?.iter().find(|(of, _)| *of == phase).map(|(_, share)| *share)
    }

    /// Share (0 to 1) of the time in which the device was busy.
    pub fn busy_share(&self) -> Option<f64> {
        self.live.live_share().map(|share| share.min(1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::TracePoint;

    #[test]
    fn the_most_frequent_sizes_come_first_and_the_rest_is_one() {
        let mut metrics = LayerMetrics::new(TracePoint::Blktrace);
        assert_eq!((metrics.overview(), metrics.most_frequent_sizes(2)), (None, None));
        metrics.size_histogram = [(512, 10), (4096, 60), (8192, 10), (65536, 20)].into();
        let sizes = metrics.most_frequent_sizes(2).unwrap();
        assert_eq!(sizes, Sizes { named: vec![(4096, 0.6), (65536, 0.2)], others: Some((2, 0.2)) });
        assert_eq!(metrics.most_frequent_sizes(4).unwrap().others, None);
    }

    #[test]
    fn what_was_only_completed_counts_too() {
        let mut metrics = LayerMetrics::new(TracePoint::Blktrace);
        (metrics.read.issued, metrics.read.completed, metrics.write.completed) = (1, 3, 1);
        (metrics.read.completed_bytes, metrics.sequential_share) = (8192, Some(0.1));
        let overview = metrics.overview().unwrap();
        assert_eq!((overview.requests, overview.mean_bytes, overview.read_share), (4, 2048, 0.75));
        assert_eq!((overview.per_second, overview.pattern), (None, Pattern::Random));
    }
}
