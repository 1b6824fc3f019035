//! How many of several trials succeed.

/// The fewest and the most of so many trials that succeed, each with this probability (0 to 1), but for a share `outside` of all cases, half
/// of it at each end.
pub fn binomial_interval(trials: usize, probability: f64, outside: f64) -> (usize, usize) {
    if probability <= 0.0 || trials == 0 {
        return (0, 0);
    }
    if probability >= 1.0 {
        return (trials, trials);
    }
    let at_most = cumulative_binomial(trials, probability);
    let tail = outside / 2.0;
    let low = at_most.iter().take_while(|p| **p <= tail).count();
    let high = at_most.iter().take_while(|p| 1.0 - **p > tail).count();
    (low.min(trials), high.min(trials))
}

/// Probability that of so many trials at most 0, 1, 2 … succeed, each with this probability.
pub(crate) fn cumulative_binomial(trials: usize, probability: f64) -> Vec<f64> {
    // In logarithms, because 0.5^2000 is 0 in a float.
    let odds = (probability / (1.0 - probability)).ln();
    let mut logarithm = trials as f64 * (1.0 - probability).ln();
    let mut sum = 0.0;
    (0..=trials)
        .map(|k| {
            sum += logarithm.exp();
            logarithm += ((trials - k) as f64 / (k + 1) as f64).ln() + odds;
            f64::min(sum, 1.0)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_those_of_the_distribution() {
        // Of ten throws of a coin, at most one head has 11 of 1024 cases, at most two have 56.
        assert_eq!(binomial_interval(10, 0.5, 0.05), (2, 8));
        assert_eq!(binomial_interval(10, 0.5, 0.02), (1, 9));
        assert_eq!(binomial_interval(10, 0.5, 0.001), (0, 10));
        // A rare thing: once has 1 % of the cases, twice one in 20 000.
        assert_eq!(binomial_interval(100, 1e-4, 0.03), (0, 0));
        assert_eq!(binomial_interval(100, 1e-4, 0.01), (0, 1));
        // Four standard deviations, sqrt(20 000 · 0.5 · 0.5) each, have 6.3e-5 of the cases outside of them.
        let (low, high) = binomial_interval(20_000, 0.5, 6.3e-5);
        assert!(low.abs_diff(10_000 - 283) <= 2 && high.abs_diff(10_000 + 283) <= 2, "{low} {high}");
        assert_eq!((binomial_interval(7, 0.0, 0.1), binomial_interval(7, 1.0, 0.1)), ((0, 0), (7, 7)));
    }
}
