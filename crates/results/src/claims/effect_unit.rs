//! In what the effect of a claim is told.

use nestor_statistics::Ratio;
use nestor_text::units::signed;
use serde::{Deserialize, Serialize};

/// What the distance of an effect from 1 is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EffectUnit {
    /// A change against the baseline in per cent.
    #[default]
    Percent,
    /// A difference of two coefficients of variation, in points of a per cent.
    Points,
}

impl EffectUnit {
    /// Whether it is the usual one.
    pub fn is_usual(&self) -> bool {
        *self == Self::default()
    }

    /// An effect with its interval, if it has one: `+21.0 % [+14.0, +29.0]`, `-864 points [-1 010, -738]`.
    pub fn in_words(self, effect: &Ratio) -> String {
        let unit = match self {
            Self::Percent => "%",
            Self::Points => "points",
        };
        let interval = effect.change_interval_percent();
        let interval = interval.map(|i| format!(" [{}, {}]", signed(i.low), signed(i.high)));
        format!("{} {unit}{}", signed(effect.change_percent()), interval.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nestor_statistics::Interval;

    #[test]
    fn a_difference_of_variations_is_told_in_points() {
        let effect = Ratio { value: -7.637, interval: Some(Interval { low: -9.1, high: -6.38 }), pairs: 3 };
        assert_eq!(EffectUnit::Points.in_words(&effect), "-864 points [-1 010, -738]");
        let effect = Ratio { value: 1.21, interval: None, pairs: 1 };
        assert_eq!(EffectUnit::Percent.in_words(&effect), "+21.0 %");
    }
}
