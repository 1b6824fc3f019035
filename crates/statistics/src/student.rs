//! Student's t distribution, which turns a handful of fresh stacks into an interval.
//!
//! The distribution is that of `statrs`. Its quantile is not: for few degrees of freedom and far tails it ends orders of
//! magnitude away.

use std::f64::consts::PI;

use statrs::function::beta::checked_beta_reg;
use statrs::function::gamma::ln_gamma;

/// The value that a t-distributed variable with `degrees_of_freedom` stays below with `probability`.
///
/// Returns `None` for probabilities outside (0, 1) and for degrees of freedom that are not positive.
/// Found by Newton's steps on [`cumulative`], halving the interval that holds it wherever a step would leave it, to about 12 significant
/// digits.
pub fn quantile(probability: f64, degrees_of_freedom: f64) -> Option<f64> {
    let valid = probability > 0.0 && probability < 1.0 && degrees_of_freedom > 0.0;
    if !valid || !degrees_of_freedom.is_finite() {
        return None;
    }
    if probability < 0.5 {
        return quantile(1.0 - probability, degrees_of_freedom).map(|t| -t);
    }
    let (mut below, mut above) = (0.0, 1.0);
    while cumulative(above, degrees_of_freedom) < probability {
        below = above;
        above *= 2.0;
        if above > 1e300 {
            return None;
        }
    }
    let mut t = 0.5 * (below + above);
    // 100 halvings exhaust the 53 bits of the mantissa whatever the start.
    for _ in 0..100 {
        let excess = cumulative(t, degrees_of_freedom) - probability;
        if excess < 0.0 {
            below = t
        } else {
            above = t
        }
        let step = excess / density(t, degrees_of_freedom);
        let next = if (below..=above).contains(&(t - step)) { t - step } else { 0.5 * (below + above) };
        if (next - t).abs() <= 1e-13 * t {
            return Some(next);
        }
        t = next;
    }
    Some(t)
}

/// The density of the distribution (Abramowitz and Stegun, 26.7.1, differentiated).
fn density(t: f64, degrees_of_freedom: f64) -> f64 {
    let half = 0.5 * degrees_of_freedom;
    let scale = ln_gamma(half + 0.5) - ln_gamma(half) - 0.5 * (degrees_of_freedom * PI).ln();
    (scale - (half + 0.5) * (t * t / degrees_of_freedom).ln_1p()).exp()
}

/// The factor of a two-sided interval of the given confidence: 12.706 for 95 % and one degree of freedom.
pub fn two_sided_factor(confidence: f64, degrees_of_freedom: f64) -> Option<f64> {
    quantile(0.5 + confidence / 2.0, degrees_of_freedom)
}

/// Half the width of the interval of an estimate with this squared standard error.
pub(crate) fn half_width(squared_error: f64, degrees_of_freedom: f64, confidence: f64) -> Option<f64> {
    Some(two_sided_factor(confidence, degrees_of_freedom)? * squared_error.sqrt())
}

/// Probability that a t-distributed variable is at most `t`
/// (Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.1 with 26.5.27).
pub fn cumulative(t: f64, degrees_of_freedom: f64) -> f64 {
    let x = degrees_of_freedom / (degrees_of_freedom + t * t);
    let tail = 0.5 * incomplete_beta(0.5 * degrees_of_freedom, 0.5, x);
    if t > 0.0 { 1.0 - tail } else { tail }
}

/// The regularised incomplete beta function I_x(a, b).
pub(crate) fn incomplete_beta(a: f64, b: f64, x: f64) -> f64 {
    checked_beta_reg(a, b, x.clamp(0.0, 1.0)).unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Percentage points from the t table of the NIST/SEMATECH e-Handbook of Statistical Methods, 1.3.6.7.2.
    const TABLE: [(f64, f64, f64); 16] = [
        (0.90, 1.0, 3.078),
        (0.95, 1.0, 6.314),
        (0.975, 1.0, 12.706),
        (0.99, 1.0, 31.821),
        (0.999, 1.0, 318.313),
        (0.975, 2.0, 4.303),
        (0.975, 3.0, 3.182),
        (0.975, 4.0, 2.776),
        (0.975, 5.0, 2.571),
        (0.975, 9.0, 2.262),
        (0.995_f64, 10.0, 3.169),
        (0.90, 20.0, 1.325),
        (0.975, 29.0, 2.045),
        (0.975, 30.0, 2.042),
        (0.975, 100.0, 1.984),
        (0.999, 100.0, 3.174),
    ];

    #[test]
    fn agrees_with_the_published_table() {
        for (probability, degrees, expected) in TABLE {
            let t = quantile(probability, degrees).unwrap();
            let tolerance = expected * 2e-5_f64.max(0.000_5 / expected);
            assert!(
                (t - expected).abs() <= tolerance + 0.000_5,
                "{probability} {degrees}: {t} vs {expected}"
            );
        }
    }

    #[test]
    fn one_degree_of_freedom_is_the_cauchy_distribution() {
        for probability in [0.6, 0.9, 0.975, 0.9999] {
            let cauchy = (std::f64::consts::PI * (probability - 0.5_f64)).tan();
            assert!((quantile(probability, 1.0).unwrap() / cauchy - 1.0).abs() < 1e-9);
        }
    }

    #[test]
    fn many_degrees_of_freedom_approach_the_normal_distribution() {
        assert!((quantile(0.975, 1e7).unwrap() - 1.959_963_985).abs() < 1e-5);
    }

    #[test]
    fn nonsense_has_no_quantile() {
        for (probability, degrees) in
            [(0.0, 3.0), (1.0, 3.0), (0.975, 0.0), (f64::NAN, 3.0), (0.975, f64::NAN)]
        {
            assert_eq!(quantile(probability, degrees), None);
        }
    }

    proptest::proptest! {
        #[test]
        fn the_quantile_inverts_the_distribution(probability in 0.001_f64..0.999, degrees in 0.5_f64..200.0) {
            let t = quantile(probability, degrees).unwrap();
            proptest::prop_assert!((cumulative(t, degrees) - probability).abs() < 1e-9);
        }
    }
}
