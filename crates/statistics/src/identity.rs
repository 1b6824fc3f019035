//! Identities that every honest measurement satisfies.

/// How far a closed system is from Little's law N = X·R, as a share of N (Little, Operations Research 9, 1961).
///
/// `concurrency` is the number of operations kept outstanding, `operations_per_s` the throughput, `mean_latency_s`
/// the mean time of an operation. Positive: more time was reported than can have passed. `None` without
/// concurrency or with numbers that are not finite.
pub fn littles_law_error(concurrency: f64, operations_per_s: f64, mean_latency_s: f64) -> Option<f64> {
    let found = operations_per_s * mean_latency_s;
    (concurrency > 0.0 && found.is_finite() && concurrency.is_finite()).then(|| found / concurrency - 1.0)
}

/// By how much the parts of a whole differ from it, as a share of the whole: Q2I + I2D + D2C against Q2C, hits and
/// misses against requests. `None` for a whole that is not positive or parts that are not numbers.
pub fn sum_error(parts: &[f64], whole: f64) -> Option<f64> {
    let sum: f64 = parts.iter().sum();
    (whole > 0.0 && sum.is_finite() && whole.is_finite()).then(|| sum / whole - 1.0)
}

/// By how much what arrived differs from what was sent, as a share of what was sent, beyond what may still have been
/// under way at the two ends of the time that was watched: conservation of bytes or of requests.
///
/// 0 if they agree that far; positive: more arrived than was sent. `None` if nothing was sent and more than the
/// allowance arrived, because a share of nothing is not a number.
pub fn conservation_error(sent: u64, arrived: u64, under_way: u64) -> Option<f64> {
    let beyond = sent.abs_diff(arrived).saturating_sub(under_way) as f64;
    match sent {
        0 => (beyond == 0.0).then_some(0.0),
        _ if arrived >= sent => Some(beyond / sent as f64),
        _ => Some(-beyond / sent as f64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_make_a_whole() {
        assert!(sum_error(&[1.0, 2.0, 7.0], 10.0).unwrap().abs() < 1e-12);
        assert!((sum_error(&[1.0, 2.0, 6.0], 10.0).unwrap() + 0.1).abs() < 1e-12);
        assert_eq!(sum_error(&[1.0], 0.0), None);
        assert_eq!(sum_error(&[f64::NAN], 1.0), None);
    }

    #[test]
    fn what_is_sent_arrives_but_for_what_is_under_way() {
        assert_eq!(conservation_error(100, 96, 4), Some(0.0));
        assert_eq!(conservation_error(100, 80, 10), Some(-0.1));
        assert_eq!(conservation_error(100, 130, 10), Some(0.2));
        assert_eq!(conservation_error(0, 4, 4), Some(0.0));
        assert_eq!(conservation_error(0, 5, 4), None);
    }

    #[test]
    fn four_clients_of_ten_milliseconds_do_400_operations_a_second() {
        assert!(littles_law_error(4.0, 400.0, 0.010).unwrap().abs() < 1e-12);
        assert!((littles_law_error(4.0, 440.0, 0.010).unwrap() - 0.1).abs() < 1e-12);
        assert_eq!(littles_law_error(0.0, 400.0, 0.01), None);
        assert_eq!(littles_law_error(4.0, f64::NAN, 0.01), None);
    }
}
