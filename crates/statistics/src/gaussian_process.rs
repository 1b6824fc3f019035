//! Regression with a Gaussian process: what is alike has like values, and how alike is a covariance.
//!
//! The mean is one unknown constant, which is estimated with the rest (ordinary kriging: Cressie, Statistics for Spatial Data,
//! 1993, §3.2). The likelihood is the restricted one, which does not take the constant for known (Patterson and Thompson,
//! Biometrika 58, 1971). Predictions without one point each are exact and need no fitting anew (Dubrule, Mathematical Geology
//! 15, 1983).

use crate::cholesky::Cholesky;

/// What is known of a value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Normal {
    /// Its mean.
    pub mean: f64,
    /// Its variance; of a prediction without the error of measuring it.
    pub variance: f64,
}

/// Values at points of any kind, with the covariance of any two.
pub struct GaussianProcess<P, K> {
    points: Vec<P>,
    values: Vec<f64>,
    covariance: K,
    factor: Cholesky,
    /// K⁻¹·1.
    ones: Vec<f64>,
    /// 1ᵀ·K⁻¹·1.
    weight: f64,
    constant: f64,
    /// K⁻¹·(y - constant).
    pull: Vec<f64>,
}

impl<P, K: Fn(&P, &P) -> f64> GaussianProcess<P, K> {
    /// Fits values that were measured with errors of these variances. `None` without points, with a value that is not finite,
    /// or if the covariances cannot be ones.
    pub fn fit(points: Vec<P>, values: Vec<f64>, error_variances: &[f64], covariance: K) -> Option<Self> {
        if points.is_empty() || values.len() != points.len() || error_variances.len() != points.len() {
            return None;
        }
        let matrix: Vec<Vec<f64>> = (0..points.len())
            .map(|i| {
                let mut row: Vec<f64> = (0..=i).map(|j| covariance(&points[i], &points[j])).collect();
                row[i] += error_variances[i];
                row
            })
            .collect();
        let factor = Cholesky::of(&matrix)?;
        let ones = factor.solve(&vec![1.0; points.len()]);
        let weight: f64 = ones.iter().sum();
        let constant = dot(&ones, &values) / weight;
        let rests: Vec<f64> = values.iter().map(|value| value - constant).collect();
        let pull = factor.solve(&rests);
        constant.is_finite().then_some(Self {
            points,
            values,
            covariance,
            factor,
            ones,
            weight,
            constant,
            pull,
        })
    }

    /// What is expected at a point.
    pub fn predict(&self, point: &P) -> Normal {
        let near: Vec<f64> = self.points.iter().map(|known| (self.covariance)(known, point)).collect();
        let mean = self.constant + dot(&near, &self.pull);
        let half = self.factor.solve_lower(&near);
        let of_constant = (1.0 - dot(&near, &self.ones)).powi(2) / self.weight;
        let variance = (self.covariance)(point, point) - dot(&half, &half) + of_constant;
        Normal { mean, variance: variance.max(0.0) }
    }

    /// What each point would have been predicted as by the others, as a measurement with its error.
    pub fn without_each(&self) -> Vec<Normal> {
        let diagonal = self.factor.inverse_diagonal();
        // The matrix of both the covariances and the constant, inverted, has these on its diagonal and this product.
        let each = diagonal.iter().zip(&self.ones).zip(&self.pull).zip(&self.values);
        each.map(|(((diagonal, one), pull), value)| {
            let precision = diagonal - one * one / self.weight;
            Normal { mean: value - pull / precision, variance: 1.0 / precision }
        })
        .collect()
    }

    /// Logarithm of the restricted likelihood, up to a constant of the number of points.
    pub fn log_likelihood(&self) -> f64 {
        let rests = self.values.iter().map(|value| value - self.constant);
        let misfit: f64 = rests.zip(&self.pull).map(|(rest, pull)| rest * pull).sum();
        -0.5 * (misfit + self.factor.log_determinant() + self.weight.ln())
    }

    /// The mean where nothing near is known.
    pub fn constant(&self) -> f64 {
        self.constant
    }

    /// The points it was fitted to.
    pub fn points(&self) -> &[P] {
        &self.points
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn near(a: &f64, b: &f64) -> f64 {
        2.0 * (-(a - b).powi(2) / 2.0).exp()
    }

    #[test]
    fn without_errors_it_goes_through_its_points_and_far_away_it_knows_nothing() {
        let points = vec![0.0, 1.0, 2.5];
        let values = vec![3.0, 4.0, 1.0];
        let found = GaussianProcess::fit(points.clone(), values.clone(), &[1e-12; 3], near).unwrap();
        for (point, value) in points.iter().zip(values) {
            let predicted = found.predict(point);
            assert!((predicted.mean - value).abs() < 1e-6 && predicted.variance < 1e-6, "{predicted:?}");
        }
        let far = found.predict(&1e3);
        assert!((far.mean - found.constant()).abs() < 1e-9 && far.variance > 2.0);
    }

    /// With independent points the constant is the weighted mean, and its variance that of the mean.
    #[test]
    fn independent_points_have_the_weighted_mean() {
        let alone = |a: &usize, b: &usize| if a == b { 1.0 } else { 0.0 };
        let found =
            GaussianProcess::fit(vec![0, 1, 2], vec![1.0, 2.0, 6.0], &[0.0, 0.0, 1.0], alone).unwrap();
        assert!((found.constant() - (1.0 + 2.0 + 3.0) / 2.5).abs() < 1e-12);
        assert!((found.predict(&7).variance - (1.0 + 1.0 / 2.5)).abs() < 1e-12);
    }

    #[test]
    fn what_cannot_be_fitted_is_refused() {
        assert!(GaussianProcess::fit(Vec::new(), Vec::new(), &[], near).is_none());
        assert!(GaussianProcess::fit(vec![0.0], vec![1.0], &[], near).is_none());
        assert!(GaussianProcess::fit(vec![0.0], vec![f64::NAN], &[1.0], near).is_none());
        // Twice the same point without an error.
        assert!(GaussianProcess::fit(vec![0.0, 0.0], vec![1.0, 2.0], &[0.0, 0.0], near).is_none());
    }

    proptest! {
        #[test]
        fn leaving_out_is_fitting_anew(values in proptest::collection::vec(-5.0_f64..5.0, 5), out in 0_usize..5) {
            let points = [0.0, 0.7, 1.5, 3.0, 3.2];
            let all = GaussianProcess::fit(points.to_vec(), values.clone(), &[0.3; 5], near).unwrap();
            let without = |list: &[f64]| {
                list.iter().enumerate().filter(|(i, _)| *i != out).map(|(_, v)| *v).collect::<Vec<f64>>()
            };
            let others = GaussianProcess::fit(without(&points), without(&values), &[0.3; 4], near).unwrap();
            let expected = others.predict(&points[out]);
            let found = all.without_each()[out];
            prop_assert!((found.mean - expected.mean).abs() < 1e-9);
            prop_assert!((found.variance - expected.variance - 0.3).abs() < 1e-9);
        }
    }
}
