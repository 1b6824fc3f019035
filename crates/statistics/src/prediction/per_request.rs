//! What a layer adds to each request: a fixed time, and a time for each byte.
//!
//! Published comparisons of bare and virtual disks suggest this form: in nested Azure, Cloud Hypervisor kept 27 % of the requests
//! of 4 KiB but 80 to 100 % of the bandwidth. A ratio of throughputs then depends on the size of requests and on how fast the
//! disk is; the added time does not. One thread that handles all requests of a disk limits them whatever the disk can do.

use serde::{Deserialize, Serialize};

use crate::line::FittedLine;
use crate::summary::mean;

/// The time of one request at depth 1: its size, on the reference and on the target.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RequestTime {
    /// Bytes of the request.
    pub bytes: f64,
    /// Seconds on the reference.
    pub reference_s: f64,
    /// Seconds on the target.
    pub target_s: f64,
}

/// What the target adds to each request.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PerRequestCost {
    /// Seconds of each request.
    pub fixed_s: f64,
    /// Seconds of each byte.
    pub per_byte_s: f64,
}

impl PerRequestCost {
    /// The line through the differences by least squares; one size gives a fixed time only.
    /// `None` without measurements.
    pub fn fit(times: &[RequestTime]) -> Option<Self> {
        let added: Vec<(f64, f64)> = times.iter().map(|t| (t.bytes, t.target_s - t.reference_s)).collect();
        if let Some(line) = FittedLine::through(&added) {
            return Some(Self { fixed_s: line.intercept(), per_byte_s: line.slope() });
        }
        // One size only, which says nothing of other sizes.
        let is_finite = added.iter().all(|(bytes, _)| bytes.is_finite());
        let added_s: Vec<f64> = added.iter().map(|(_, added_s)| *added_s).collect();
        let mean = mean(&added_s).filter(|_| is_finite)?;
        Some(Self { fixed_s: mean.value, per_byte_s: 0.0 })
    }

    /// Seconds that a request of a size takes longer; negative where the target is faster.
    pub fn of(&self, bytes: f64) -> f64 {
        self.fixed_s + self.per_byte_s * bytes
    }

    /// Requests per second of a closed load: so many workers, each a request at a time that took `reference_s`, and a think
    /// time between. No more than `most_per_s`, what one thread can handle. `None` if a request would take no time.
    pub fn rate(
        &self,
        workers: f64,
        think_s: f64,
        bytes: f64,
        reference_s: f64,
        most_per_s: Option<f64>,
    ) -> Option<f64> {
        let target_s = reference_s + self.of(bytes);
        let free = workers / (think_s + target_s);
        (target_s > 0.0 && free.is_finite()).then(|| most_per_s.map_or(free, |most| free.min(most)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(bytes: f64, added_s: f64) -> RequestTime {
        RequestTime { bytes, reference_s: 1e-4, target_s: 1e-4 + added_s }
    }

    #[test]
    fn a_line_is_found_again() {
        let measured = |bytes: f64| time(bytes, 30e-6 + 2e-10 * bytes);
        let found = PerRequestCost::fit(&[measured(1024.0), measured(4096.0), measured(16384.0)]).unwrap();
        assert!((found.fixed_s - 30e-6).abs() < 1e-12);
        assert!((found.per_byte_s - 2e-10).abs() < 1e-15);
        assert!((found.of(1e6) - 230e-6).abs() < 1e-10);
        let one = PerRequestCost::fit(&[measured(4096.0)]).unwrap();
        assert!((one.fixed_s - (30e-6 + 2e-10 * 4096.0)).abs() < 1e-12 && one.per_byte_s == 0.0);
        assert_eq!(PerRequestCost::fit(&[]), None);
    }

    #[test]
    fn a_slow_disk_hides_the_cost_and_a_thread_limits_the_rate() {
        let cost = PerRequestCost { fixed_s: 50e-6, per_byte_s: 0.0 };
        let slow = cost.rate(1.0, 0.0, 4096.0, 8e-3, None).unwrap() * 8e-3;
        let fast = cost.rate(1.0, 0.0, 4096.0, 50e-6, None).unwrap() * 50e-6;
        assert!(slow > 0.99 && (fast - 0.5).abs() < 1e-9);
        assert_eq!(cost.rate(128.0, 0.0, 4096.0, 50e-6, Some(57_500.0)), Some(57_500.0));
        let impossible = PerRequestCost { fixed_s: -1e-3, per_byte_s: 0.0 };
        assert_eq!(impossible.rate(1.0, 0.0, 4096.0, 50e-6, None), None);
    }
}
