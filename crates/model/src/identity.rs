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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_clients_of_ten_milliseconds_do_400_operations_a_second() {
        assert!(littles_law_error(4.0, 400.0, 0.010).unwrap().abs() < 1e-12);
        assert!((littles_law_error(4.0, 440.0, 0.010).unwrap() - 0.1).abs() < 1e-12);
        assert_eq!(littles_law_error(0.0, 400.0, 0.01), None);
        assert_eq!(littles_law_error(4.0, f64::NAN, 0.01), None);
    }
}
