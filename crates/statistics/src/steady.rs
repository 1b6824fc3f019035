//! Has the throughput settled? The test of the SNIA Solid State Storage Performance Test Specification 2.0,
//! definition 2.1.24: over five rounds the values stay within 20 % of their mean, and the line fitted
//! through them rises or falls by no more than 10 % of it.

use serde::{Deserialize, Serialize};

use crate::line::FittedLine;

/// Rounds that are looked at together.
pub const ROUNDS: usize = 5;
/// Largest range (maximum less minimum) as a share of the mean.
pub const LARGEST_RANGE: f64 = 0.20;
/// Largest change along the fitted line, first to last round, as a share of the mean.
pub const LARGEST_SLOPE: f64 = 0.10;

/// What the test found over one window of five rounds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SteadyState {
    /// Maximum less minimum, as a share of the mean.
    pub range: f64,
    /// Change along the fitted line, as a share of the mean; positive when rising.
    pub slope: f64,
    /// Whether both are within the limits.
    pub steady: bool,
}

/// Tests the last five rounds; `None` below five rounds, with values that are not numbers or a mean of 0.
pub fn steady_state(rounds: &[f64]) -> Option<SteadyState> {
    let window = rounds.get(rounds.len().checked_sub(ROUNDS)?..)?;
    let mean = crate::summary::mean(window)?.value;
    if mean <= 0.0 {
        return None;
    }
    let (low, high) = window.iter().fold((f64::MAX, f64::MIN), |(l, h), v| (l.min(*v), h.max(*v)));
    let points: Vec<(f64, f64)> = window.iter().enumerate().map(|(i, v)| (i as f64, *v)).collect();
    let range = (high - low) / mean;
    let slope = FittedLine::through(&points)?.slope() * (ROUNDS - 1) as f64 / mean;
    Some(SteadyState { range, slope, steady: range <= LARGEST_RANGE && slope.abs() <= LARGEST_SLOPE })
}

/// The index of the first round from which on every window of five is steady, or `None` if the last is not.
///
/// With rounds of one second this is the "steady after 8 s" of a run.
pub fn steady_from(rounds: &[f64]) -> Option<usize> {
    let windows = rounds.windows(ROUNDS);
    let settled = windows.rev().take_while(|w| steady_state(w).is_some_and(|s| s.steady)).count();
    let total = (rounds.len() + 1).saturating_sub(ROUNDS);
    (settled > 0).then(|| total - settled)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flat_line_is_steady_and_a_ramp_is_not() {
        let flat = steady_state(&[100.0, 105.0, 95.0, 102.0, 98.0]).unwrap();
        assert!(flat.steady, "{flat:?}");
        assert!((flat.range - 0.10).abs() < 1e-12);
        // 5 % a round: range 20 %, allowed; slope 20 %, not allowed.
        let ramp = steady_state(&[90.0, 95.0, 100.0, 105.0, 110.0]).unwrap();
        assert!((ramp.range - 0.20).abs() < 1e-12 && (ramp.slope - 0.20).abs() < 1e-12);
        assert!(!ramp.steady);
    }

    #[test]
    fn the_start_of_the_steady_part_is_found() {
        let run = [10.0, 30.0, 60.0, 100.0, 101.0, 99.0, 100.0, 100.0, 101.0];
        assert_eq!(steady_from(&run), Some(3));
        assert_eq!(steady_from(&[100.0; 5]), Some(0));
        assert_eq!(steady_from(&[100.0, 100.0, 100.0, 100.0, 100.0, 10.0]), None);
    }

    #[test]
    fn too_few_rounds_or_nothing_done_cannot_be_told() {
        assert_eq!(steady_state(&[1.0; 4]), None);
        assert_eq!(steady_state(&[0.0; 5]), None);
        assert_eq!(steady_from(&[]), None);
    }
}
