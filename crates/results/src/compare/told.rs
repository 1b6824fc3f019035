//! What a ratio of throughputs says in one word.

use nestor_statistics::{Ratio, equal_within_percent};

/// Whether a candidate is faster or slower than its baseline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// The whole interval is above 1.
    Faster,
    /// The whole interval is below 1.
    Slower,
    /// The interval has 1 in it and is narrow: [`equal_within_percent`].
    Equal,
    /// The interval has 1 in it and is wide.
    NotToldApart,
    /// There are too few pairs for an interval.
    WithoutInterval,
}

impl Told {
    /// Of a ratio.
    pub fn of(ratio: &Ratio) -> Self {
        match ratio.differs() {
            None => Self::WithoutInterval,
            Some(true) if ratio.value < 1.0 => Self::Slower,
            Some(true) => Self::Faster,
            Some(false) if equal_within_percent(ratio).is_some() => Self::Equal,
            Some(false) => Self::NotToldApart,
        }
    }

    /// Its name in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Faster => "faster",
            Self::Slower => "slower",
            Self::Equal => "equal",
            Self::NotToldApart => "not-told-apart",
            Self::WithoutInterval => "without-interval",
        }
    }
}
