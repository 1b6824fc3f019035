//! Axes from any number to any other.

/// A straight scale from values to pixels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Scale {
    pub low: f64,
    pub high: f64,
    /// Where `low` lies.
    pub from: f64,
    /// Where `high` lies.
    pub to: f64,
}

impl Scale {
    /// A scale that has all values and, if `zero`, nothing.
    pub fn over(values: impl Iterator<Item = f64>, zero: bool) -> Self {
        let start = if zero { (0.0, 0.0) } else { (f64::INFINITY, f64::NEG_INFINITY) };
        let (mut low, mut high) =
            values.filter(|v| v.is_finite()).fold(start, |(l, h), v| (l.min(v), h.max(v)));
        if low > high {
            (low, high) = (0.0, 1.0);
        }
        // The largest numbers have no difference that is one.
        (low, high) = (low.max(-1e300), high.min(1e300));
        if low == high {
            high = low + low.abs().max(1.0);
        }
        Self { low, high, from: 0.0, to: 1.0 }
    }

    pub fn between(self, from: f64, to: f64) -> Self {
        Self { from, to, ..self }
    }

    pub fn at(self, value: f64) -> f64 {
        let share = ((value - self.low) / (self.high - self.low)).clamp(0.0, 1.0);
        self.from + share * (self.to - self.from)
    }

    /// Round values within, at most so many: their distance is 1, 2 or 5 times a power of ten.
    pub fn ticks(self, most: usize) -> Vec<f64> {
        let rough = (self.high - self.low) / most.max(1) as f64;
        let power = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].iter().map(|f| f * power).find(|s| *s >= rough).unwrap_or(rough);
        let (first, last) = ((self.low / step - 1e-9).ceil(), (self.high / step + 1e-9).floor());
        let count = (last - first).clamp(0.0, most as f64) as usize;
        // A negative zero would be written with its sign.
        (0..=count).map(|i| (first + i as f64) * step + 0.0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ticks_are_round_and_on_both_sides_of_nothing() {
        let ticks = |values: &[f64]| Scale::over(values.iter().copied(), true).ticks(5);
        assert_eq!(ticks(&[-41.0, 33.0]), [-40.0, -20.0, 0.0, 20.0]);
        assert_eq!(ticks(&[0.3]), [0.0, 0.1, 0.2, 0.30000000000000004]);
        assert_eq!(ticks(&[]), [0.0, 0.2, 0.4, 0.6000000000000001, 0.8, 1.0]);
    }

    proptest! {
        #[test]
        fn every_scale_is_drawn(values in prop::collection::vec(any::<f64>(), 0..6), zero: bool) {
            let scale = Scale::over(values.iter().copied(), zero).between(200.0, 0.0);
            for value in values.iter().copied().chain(scale.ticks(6)) {
                prop_assert!(value.is_nan() || (0.0..=200.0).contains(&scale.at(value)), "{value} {scale:?}");
            }
            prop_assert!(scale.ticks(6).len() <= 7);
        }
    }
}
