//! Distributions of random variables.

use std::f64::consts::PI;

use rand::{Rng, RngExt as _};
use rand_distr::{Distribution as _, Exp1, Gamma, StandardNormal, Triangular, Weibull};

use crate::plan::RandomVariable;

/// A distribution.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Distribution {
    /// Always the same.
    Constant(f64),
    /// Every value from `lower` to `upper` alike.
    Uniform {
        /// Smallest.
        lower: f64,
        /// Largest.
        upper: f64,
    },
    /// `offset` plus a gamma-distributed value.
    Gamma {
        /// Its shape, larger than 0.
        shape: f64,
        /// Its scale, larger than 0; the mean is `offset + shape · scale`.
        scale: f64,
        /// Smallest value.
        offset: f64,
    },
    /// One of several ranges, each with its share; within it every value alike.
    Tabular(Vec<Segment>),
    /// The mean of `shape` exponentially distributed values of this mean (Filebench gives what it calls the rate to
    /// `rds_erlang` of mtwist, which takes it for the mean).
    Erlang {
        /// How many, at least 1.
        shape: u32,
        /// Mean.
        mean: f64,
    },
    /// Exponential.
    Exponential {
        /// Mean.
        mean: f64,
    },
    /// Its logarithm is normally distributed.
    LogNormal {
        /// Standard deviation of the logarithm.
        shape: f64,
        /// Mean of the logarithm.
        scale: f64,
    },
    /// Normal.
    Normal {
        /// Mean.
        mean: f64,
        /// Standard deviation.
        sigma: f64,
    },
    /// Rises evenly from `lower` to `mode` and falls evenly to `upper`.
    Triangular {
        /// Smallest.
        lower: f64,
        /// Largest.
        upper: f64,
        /// Most frequent.
        mode: f64,
    },
    /// Weibull.
    Weibull {
        /// Its shape, larger than 0.
        shape: f64,
        /// Its scale, larger than 0.
        scale: f64,
    },
}

/// A range of a tabular distribution.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Segment {
    /// Its share, 0 to 1; those of a table add up to 1.
    pub share: f64,
    /// Smallest value.
    pub lower: f64,
    /// Largest value.
    pub upper: f64,
}

impl Distribution {
    /// Draws a value.
    pub fn draw(&self, random: &mut impl Rng) -> f64 {
        match *self {
            Self::Constant(value) => value,
            Self::Uniform { lower, upper } => lower + (upper - lower) * random.random::<f64>(),
            Self::Gamma { shape, scale, offset } => offset + gamma(shape, scale, random),
            Self::Tabular(ref segments) => draw_segment(segments, random),
            Self::Erlang { shape, mean } => {
                let shape = f64::from(shape);
                gamma(shape, mean / shape, random)
            }
            Self::Exponential { mean } => mean * random.sample::<f64, _>(Exp1),
            Self::LogNormal { shape, scale } => {
                (scale + shape * random.sample::<f64, _>(StandardNormal)).exp()
            }
            Self::Normal { mean, sigma } => mean + sigma * random.sample::<f64, _>(StandardNormal),
            Self::Triangular { lower, upper, mode } => {
                Triangular::new(lower, upper, mode).map_or(mode, |triangular| triangular.sample(random))
            }
            Self::Weibull { shape, scale } => {
                Weibull::new(scale, shape).map_or(0.0, |weibull| weibull.sample(random))
            }
        }
    }

    /// The mean, by the closed formula.
    pub fn mean(&self) -> f64 {
        match *self {
            Self::Constant(value) => value,
            Self::Uniform { lower, upper } => f64::midpoint(lower, upper),
            Self::Gamma { shape, scale, offset } => offset + shape * scale,
            Self::Tabular(ref segments) => segments
                .iter()
                .map(|segment| segment.share * f64::midpoint(segment.lower, segment.upper))
                .sum(),
            Self::Erlang { mean, .. } | Self::Exponential { mean } | Self::Normal { mean, .. } => mean,
            Self::LogNormal { shape, scale } => (scale + shape * shape / 2.0).exp(),
            Self::Triangular { lower, upper, mode } => (lower + upper + mode) / 3.0,
            Self::Weibull { shape, scale } => scale * gamma_function(1.0 + 1.0 / shape),
        }
    }
}

impl Distribution {
    /// The distribution of the values times a factor larger than 0.
    #[must_use]
    pub fn times(&self, factor: f64) -> Self {
        match *self {
            Self::Constant(value) => Self::Constant(value * factor),
            Self::Uniform { lower, upper } => Self::Uniform { lower: lower * factor, upper: upper * factor },
            Self::Gamma { shape, scale, offset } => {
                Self::Gamma { shape, scale: scale * factor, offset: offset * factor }
            }
            Self::Tabular(ref segments) => Self::Tabular(
                segments
                    .iter()
                    .map(|segment| Segment {
                        share: segment.share,
                        lower: segment.lower * factor,
                        upper: segment.upper * factor,
                    })
                    .collect(),
            ),
            Self::Erlang { shape, mean } => Self::Erlang { shape, mean: mean * factor },
            Self::Exponential { mean } => Self::Exponential { mean: mean * factor },
            // log(factor · x) = log(factor) + log(x)
            Self::LogNormal { shape, scale } => Self::LogNormal { shape, scale: scale + factor.ln() },
            Self::Normal { mean, sigma } => Self::Normal { mean: mean * factor, sigma: sigma * factor },
            Self::Triangular { lower, upper, mode } => {
                Self::Triangular { lower: lower * factor, upper: upper * factor, mode: mode * factor }
            }
            Self::Weibull { shape, scale } => Self::Weibull { shape, scale: scale * factor },
        }
    }
}

fn gamma(shape: f64, scale: f64, random: &mut impl Rng) -> f64 {
    Gamma::new(shape, scale).map_or(0.0, |gamma| gamma.sample(random))
}

fn draw_segment(segments: &[Segment], random: &mut impl Rng) -> f64 {
    let mut at = random.random::<f64>();
    let within = random.random::<f64>();
    let mut last = 0.0;
    for segment in segments.iter().filter(|segment| segment.share > 0.0) {
        last = segment.lower + (segment.upper - segment.lower) * within;
        if at < segment.share {
            break;
        }
        at -= segment.share;
    }
    last
}

/// Γ(x) for x ≥ 1, by the approximation of C. Lanczos (SIAM J. Numer. Anal. B 1, 1964) with the nine coefficients of
/// P. Godfrey for g = 7; better than 10⁻¹³.
fn gamma_function(x: f64) -> f64 {
    const COEFFICIENTS: [f64; 8] = [
        676.520_368_121_885_1,
        -1_259.139_216_722_402_8,
        771.323_428_777_653_1,
        -176.615_029_162_140_6,
        12.507_343_278_686_905,
        -0.138_571_095_265_720_12,
        9.984_369_578_019_572e-6,
        1.505_632_735_149_311_6e-7,
    ];
    let x = x - 1.0;
    let terms = COEFFICIENTS.iter().zip(1_u32..).map(|(c, i)| c / (x + f64::from(i)));
    let sum = 0.999_999_999_999_809_9 + terms.sum::<f64>();
    let t = x + 7.5;
    (2.0 * PI).sqrt() * t.powf(x + 0.5) * (-t).exp() * sum
}

impl RandomVariable {
    /// Draws a value: rounded, then limited.
    pub fn draw(&self, random: &mut impl Rng) -> f64 {
        let mut value = self.distribution.draw(random);
        if self.round > 0.0 {
            value = (value / self.round).round() * self.round;
        }
        if let Some(min) = self.min {
            value = value.max(min);
        }
        if let Some(max) = self.max {
            value = value.min(max);
        }
        value
    }

    /// The mean of its distribution, before rounding and limits.
    pub fn mean(&self) -> f64 {
        self.distribution.mean()
    }

    /// The variable whose draws are those of this one times a factor larger than 0, limits and rounding included.
    #[must_use]
    pub fn times(&self, factor: f64) -> Self {
        Self {
            name: self.name.clone(),
            distribution: self.distribution.times(factor),
            min: self.min.map(|min| min * factor),
            max: self.max.map(|max| max * factor),
            round: self.round * factor,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rand::SeedableRng;
    use rand::rngs::SmallRng;

    use super::*;

    fn distributions() -> impl Strategy<Value = Distribution> {
        let number = || 1.0..1e5_f64;
        let shape = || 0.5..4.0_f64;
        prop_oneof![
            number().prop_map(Distribution::Constant),
            (number(), number())
                .prop_map(|(lower, more)| Distribution::Uniform { lower, upper: lower + more }),
            (shape(), number(), number()).prop_map(|(shape, scale, offset)| Distribution::Gamma {
                shape,
                scale,
                offset
            }),
            (number(), number()).prop_map(|(lower, more)| Distribution::Tabular(vec![
                Segment { share: 0.3, lower, upper: lower + more },
                Segment { share: 0.7, lower: lower / 2.0, upper: lower },
            ])),
            (1..5_u32, number()).prop_map(|(shape, mean)| Distribution::Erlang { shape, mean }),
            number().prop_map(|mean| Distribution::Exponential { mean }),
            (0.1..2.0_f64, 1.0..10.0_f64).prop_map(|(shape, scale)| Distribution::LogNormal { shape, scale }),
            (number(), number()).prop_map(|(mean, sigma)| Distribution::Normal { mean, sigma }),
            (number(), number()).prop_map(|(lower, more)| Distribution::Triangular {
                lower,
                upper: lower + more,
                mode: lower + more / 3.0
            }),
            (shape(), number()).prop_map(|(shape, scale)| Distribution::Weibull { shape, scale }),
        ]
    }

    fn alike(a: f64, b: f64) -> bool {
        (a - b).abs() <= 1e-9 * a.abs().max(b.abs()).max(1.0)
    }

    proptest! {
        #[test]
        fn a_scaled_distribution_draws_scaled_values(
            distribution in distributions(), factor in 0.01..100.0_f64, seed: u64,
        ) {
            let scaled = distribution.times(factor);
            prop_assert!(alike(scaled.mean(), distribution.mean() * factor));
            let mut random = SmallRng::seed_from_u64(seed);
            let mut other = random.clone();
            for _ in 0..20 {
                let (drawn, expected) = (scaled.draw(&mut random), distribution.draw(&mut other) * factor);
                prop_assert!(alike(drawn, expected), "{drawn} {expected}");
            }
        }
    }
}
